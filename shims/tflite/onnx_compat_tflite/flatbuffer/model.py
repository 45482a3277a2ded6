"""The dataclasses of a TFLite model. The emitter creates a `ModelSpec`, the writer stores it, the reader returns it.

A tensor is identified by its index in `SubGraph.tensors`, a subgraph by its index in `ModelSpec.subgraphs`. An operator's
options have the names of `schema.options_of(builtin)`. A missing option has the format's default. Values of enumerations are
names: `padding="SAME"`, `out_data_type="int64"`.
"""

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat_tflite.flatbuffer.names import ENUMS

__all__ = ["ModelSpec", "OperatorSpec", "Quantization", "Signature", "SubGraph", "TensorSpec", "storage"]

_BITS = {"int4": 4, "uint4": 4, "int2": 2}
_STORAGE = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8", "int4": "uint8", "uint4": "uint8"}
_STORAGE["int2"] = "uint8"
_OPAQUE = ("string", "resource", "variant")


def storage(dtype: str, shape: Sequence[int]) -> "Tuple[Optional[np.dtype[Any]], int]":
    """Return (little-endian numpy dtype in which elements are stored, size in bytes of a constant of this shape).

    - A dtype that numpy lacks is stored as unsigned integers of the same width: bfloat16 as uint16.
    - A dtype of less than a byte is stored as uint8, with several elements in a byte, the first in the low bits.
    - The dtypes "string", "resource" and "variant" have no fixed width: returns (None, 0).
    """
    if dtype in _OPAQUE:
        return None, 0
    stored = np.dtype(_STORAGE.get(dtype, dtype)).newbyteorder("<")
    count = 1
    for size in shape:
        count *= int(size)
    return stored, (count * _BITS.get(dtype, 8 * stored.itemsize) + 7) // 8


@dataclass
class Quantization:
    """Quantisation of a tensor: real = scale * (stored - zero_point), with one scale, or one for each index of `axis`.

    `min`, `max`: the recorded range of the real values; kernels do not read them. `details`: another scheme, as (table
    name, fields), such as ("BlockwiseQuantization", {...}).
    """

    scale: List[float] = field(default_factory=list)
    zero_point: List[int] = field(default_factory=list)
    axis: int = 0
    min: Optional[List[float]] = None
    max: Optional[List[float]] = None
    details: Optional[Tuple[str, Dict[str, Any]]] = None


@dataclass
class TensorSpec:
    """A tensor of a subgraph. A tensor with a `buffer` is a constant; runtimes ignore a buffer without elements.

    A size of -1 in the argument `shape` is open, known at run time only. The attribute `shape` has 1 in its place, as
    runtimes expect. `shape_signature` keeps the -1; without an open size it is None. A `shape_signature` that the
    caller gives is kept.

    Raises ConversionError for an unknown `dtype`.
    """

    name: str
    dtype: str
    shape: Sequence[int] = ()
    buffer: "Optional[np.ndarray[Any, np.dtype[Any]]]" = None
    shape_signature: Optional[Sequence[int]] = None
    quantization: Optional[Quantization] = None
    is_variable: bool = False
    has_rank: bool = True
    sparsity: Optional[Dict[str, Any]] = None
    variant_tensors: Optional[List[Dict[str, Any]]] = None

    def __post_init__(self) -> None:
        ENUMS["TensorType"].number(self.dtype)
        shape = tuple(int(size) for size in self.shape)
        if self.shape_signature is None and any(size < 0 for size in shape):
            self.shape_signature = shape
        if self.shape_signature is not None:
            self.shape_signature = tuple(int(size) for size in self.shape_signature)
        self.shape = tuple(1 if size < 0 else size for size in shape)


@dataclass
class OperatorSpec:
    """An operator of a subgraph. `builtin`: its name in `names.OPERATORS`. `inputs`: tensor indices, None if omitted.

    `outputs` and `intermediates` are tensor indices too. `mutating`: for each input, whether it is a variable that the
    kernel changes. `custom_code` and `custom_options` belong to the builtin "CUSTOM". Without a `version`, the writer
    stores the lowest version that supports the dtypes, shapes and options.
    """

    builtin: str
    inputs: Sequence[Optional[int]] = ()
    outputs: Sequence[int] = ()
    options: Dict[str, Any] = field(default_factory=dict)
    version: Optional[int] = None
    intermediates: Sequence[int] = ()
    mutating: Sequence[bool] = ()
    custom_code: Optional[str] = None
    custom_options: Optional[bytes] = None


@dataclass
class SubGraph:
    """A subgraph: tensors, operators in the order of execution, and the tensor indices of its inputs and outputs."""

    tensors: List[TensorSpec] = field(default_factory=list)
    operators: List[OperatorSpec] = field(default_factory=list)
    inputs: List[int] = field(default_factory=list)
    outputs: List[int] = field(default_factory=list)
    name: str = ""

    def add(self, tensor: TensorSpec) -> int:
        """Append a tensor and return its index."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1


@dataclass
class Signature:
    """A named entry point of a file: inputs and outputs as {port name: tensor index in the subgraph}.

    `key`: the name of the signature. `subgraph`: the index of the subgraph that computes it.
    """

    inputs: Dict[str, int]
    outputs: Dict[str, int]
    key: str = "serving_default"
    subgraph: int = 0


@dataclass
class ModelSpec:
    """The content of a .tflite file.

    Subgraph 0 is the model. Other subgraphs are branches, parts of loops, or belong to signatures.
    """

    subgraphs: List[SubGraph] = field(default_factory=list)
    signatures: List[Signature] = field(default_factory=list)
    metadata: Dict[str, bytes] = field(default_factory=dict)
    description: str = ""
