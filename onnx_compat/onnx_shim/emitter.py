"""The emitter of ONNX graphs: every primitive as operators of a target's operator set."""

from typing import Any

from onnx_compat.ir.dtypes import DType
from onnx_compat.onnx_shim.graph_builder import Value
from onnx_compat.onnx_shim.lowering.bits import Bits
from onnx_compat.primitives.carried import MOVES

__all__ = ["OnnxEmitter"]


class OnnxEmitter(Bits):
    """Emits primitives as calls of ONNX operators. Values of carried dtypes have the dtype of their carrier."""

    def finish(self, handle: Any, dtype: DType) -> Any:
        """Round a result to the values of a carried dtype: by Cast to this dtype and back, if the target has it."""
        if dtype.native or self.node.primitive in MOVES:
            return handle
        if self.rounds_to(dtype, handle):
            flags = {"saturate": 0} if dtype.bits == 8 else {}
            return self.convert(self.convert(handle, dtype, **flags), handle.dtype)
        return super().finish(handle, dtype)

    def rounds_to(self, dtype: DType, handle: Value) -> bool:
        """Whether a cast to a carried dtype and back rounds as `DType.round` does."""
        casts = self.has_cast(handle.dtype, dtype) and self.has_cast(dtype, handle.dtype)
        is_nearest = dtype.format is not None and dtype.format.special != "scale"  # float8e8m0 rounds up in Cast
        return is_nearest and casts and self.offer.reliable("Cast to " + dtype.name)
