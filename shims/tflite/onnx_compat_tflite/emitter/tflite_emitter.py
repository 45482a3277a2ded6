"""The emitter of the TFLite shim: it calls the registered function of each primitive with the builder of the node."""

from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import DType, Emitter, Native, Node, Spec, dtypes, natives_of
from onnx_compat_tflite.emitter import runtime_sizes
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.parts import FUNCTIONS
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["TFLiteEmitter"]


class TFLiteEmitter(Emitter):
    """Emit every primitive that TFLite kernels can compute.

    An emitter belongs to the node of its builder, or to none. `at` returns the emitter of another node of the same
    model.
    """

    layout = "channels_last"
    filter_layout = "OHWI"
    index_dtype = dtypes.int32
    integers = True

    def __init__(self, kernels: Kernels, builder: Optional[Builder] = None) -> None:
        self.builder = Builder(kernels) if builder is None else builder

    # -- the primitives --------------------------------------------------------------------------------------------
    def at(self, node: Node) -> "TFLiteEmitter":
        return TFLiteEmitter(self.builder.kernels, self.builder.at(node))

    @property
    def node(self) -> Node:
        return self.builder.node

    def has(self, primitive: str) -> bool:
        return primitive in FUNCTIONS

    def apply(self, primitive: str, args: Sequence[Any], params: Mapping[str, Any]) -> Any:
        return FUNCTIONS[primitive](self.builder, *args, **params)

    def natives(self) -> Dict[Tuple[str, str], Native]:
        return natives_of(FUNCTIONS, self)

    # -- values and sizes ----------------------------------------------------------------------------------------------
    def constant(self, array: np.ndarray, dtype: DType) -> Handle:
        return self.builder.constant(array, dtype)

    def dim(self, handle: Handle, axis: int) -> Any:
        return self.builder.dim(handle, axis)

    def element(self, handle: Handle, index: Optional[int]) -> Any:
        return runtime_sizes.element(self.builder, handle, index)

    def promote(self, a: Handle, b: Handle) -> Tuple[Handle, Handle]:
        return runtime_sizes.promote(self.builder, a, b)

    def stack(self, scalars: Sequence[Any]) -> Handle:
        return runtime_sizes.stack(self.builder, scalars)

    def placeholder(self, spec: Spec) -> Handle:
        return self.builder.placeholder(spec)

    def finish(self, handle: Handle, dtype: DType) -> Handle:
        """Return the result `handle` of a primitive, rounded to the values of `dtype` if this is a carried dtype.

        Side effect: the unknown sizes of the result are set to the sizes of the trace. This is done only if the node
        has a single result, and this result is no constant.
        """
        dims = handle.dims
        result: Handle = super().finish(handle, dtype)
        result.dims = dims  # the program that rounds serves all sizes, and knows none of them
        if len(self.node.outputs) == 1 and not result.is_constant:
            self.builder.refine(result, self.out.shape)
        return result

    def name_value(self, handle: Handle, name: str) -> None:
        self.builder.name_value(handle, name)
