"""The interface between the core and a shim: every name that a shim may import, and nothing else.

A shim subclasses `Shim` and `Emitter`. It receives a `Program` of `Node`s over `Ref`s and `Const`s, and emits it with
`emit`. A size is an int or a symbolic `Dim`; `is_static` tells which of the two. `examples/toy_shim` is a complete
shim.
"""

from onnx_compat.discovery.child_process import ChildResult, call_in_child
from onnx_compat.discovery.diagnosis import error_line, import_error_text
from onnx_compat.errors import (
    ConversionError,
    InputError,
    InvalidModelError,
    MissingDependencyError,
    NeedsKnownError,
    OnnxCompatError,
    ShimError,
    TargetError,
    UnsupportedError,
    VerificationError,
)
from onnx_compat.ir import dims, dtypes, is_verifying
from onnx_compat.ir.dims import (
    Dim,
    Extent,
    Undecided,
    atoms_of,
    exact_quotient,
    floordiv,
    is_equal,
    is_equal_shape,
    is_nonnegative,
    is_static,
    maximum,
)
from onnx_compat.ir.dtypes import DType
from onnx_compat.ir.program import Arg, Const, Extents, Node, Origin, Ref, Region, Spec, Target, refs
from onnx_compat.ir.size_bounds import is_positive_for_elements
from onnx_compat.ir.window import Window
from onnx_compat.model.graph import GraphNode
from onnx_compat.shim.compiled import Compiled
from onnx_compat.shim.description import Description, OpenedFile, Preview, Step, steps_between
from onnx_compat.shim.emission import Sizes, emit
from onnx_compat.shim.gradient import composed_gradient
from onnx_compat.shim.interface import (
    Emitter,
    Port,
    Probe,
    Program,
    Quantization,
    Scheme,
    Shim,
)
from onnx_compat.shim.natives import Native, declared_natives, native, natives_of
from onnx_compat.shim.port_types import to_ports
from onnx_compat.shim.reciprocals import have_exact_reciprocals
from onnx_compat.shim.recurrent import StandardRecurrent, activations, directions, standard_recurrent
from onnx_compat.tracing.values import Tensor, as_sizes, known_array, lift

__all__ = [
    "Arg",
    "ChildResult",
    "Compiled",
    "Const",
    "ConversionError",
    "DType",
    "Description",
    "Dim",
    "Emitter",
    "Extent",
    "Extents",
    "GraphNode",
    "InputError",
    "InvalidModelError",
    "MissingDependencyError",
    "Native",
    "NeedsKnownError",
    "Node",
    "OnnxCompatError",
    "OpenedFile",
    "Origin",
    "Port",
    "Preview",
    "Probe",
    "Program",
    "Quantization",
    "Ref",
    "Region",
    "Scheme",
    "Shim",
    "ShimError",
    "Sizes",
    "Spec",
    "StandardRecurrent",
    "Step",
    "Target",
    "TargetError",
    "Tensor",
    "Undecided",
    "UnsupportedError",
    "VerificationError",
    "Window",
    "activations",
    "as_sizes",
    "atoms_of",
    "call_in_child",
    "composed_gradient",
    "declared_natives",
    "dims",
    "directions",
    "dtypes",
    "emit",
    "error_line",
    "exact_quotient",
    "floordiv",
    "have_exact_reciprocals",
    "import_error_text",
    "is_equal",
    "is_equal_shape",
    "is_nonnegative",
    "is_positive_for_elements",
    "is_static",
    "is_verifying",
    "known_array",
    "lift",
    "maximum",
    "native",
    "natives_of",
    "refs",
    "standard_recurrent",
    "steps_between",
    "to_ports",
]
