"""The emitter of ONNX graphs: every primitive as operators of a target's operator set."""

from typing import Any, Dict, Mapping, Sequence, Tuple

from onnx_compat.ir.dtypes import DType
from onnx_compat.onnx_shim.graph_builder import Value
from onnx_compat.onnx_shim.lowering.bits import BitLowering
from onnx_compat.onnx_shim.natives import natives_of_offer, operator_of, respelled_call
from onnx_compat.primitives.carried import MOVES
from onnx_compat.shim.natives import Native

__all__ = ["OnnxEmitter"]


class OnnxEmitter(BitLowering):
    """Emits primitives as calls of ONNX operators. Values of carried dtypes have the dtype of their carrier."""

    # -- natives -------------------------------------------------------------------------------------------------------
    def natives(self) -> Dict[Tuple[str, str], Native]:
        """Return the operators that the target has as a whole, and that take several primitives otherwise."""
        return {**natives_of_offer(self.offer), **super().natives()}

    def has(self, primitive: str) -> bool:
        """Whether `primitive` is implemented, or names the method of a native."""
        return operator_of(primitive) is not None or super().has(primitive)

    def apply(self, primitive: str, args: Sequence[Any], params: Mapping[str, Any]) -> Any:
        """Emit a primitive, or a node of the model as a whole."""
        native = operator_of(primitive)
        return super().apply(primitive, args, params) if native is None else self._node_of(*native, args, params)

    def _node_of(self, domain: str, operator: str, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """Emit the node that is being emitted as a call of its own operator, in the form of the target's version.

        Raises UnsupportedError if the operator has no such form.
        """
        origin = self.node.origin
        assert origin is not None
        known = lambda value: value.array  # noqa: E731 (a line)
        call = respelled_call(domain, operator, origin.opset, self.offer, args, attributes, known, self.vector)
        if call is None:
            raise self.refusal(operator, self.node.outputs[0].spec.dtype)
        results = [Value(ref.spec.dtype, ref.spec.shape) for ref in self.node.outputs]
        return self.builder.call(operator, call.inputs, results, call.attributes, domain)

    # -- carried dtypes ------------------------------------------------------------------------------------------------
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
