"""The emitter of ONNX graphs: every primitive as operators of a target's operator set."""

from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from onnx_compat.ir import Node
from onnx_compat.ir.dtypes import DType
from onnx_compat.model.graph import Graph, GraphNode, ValueInfo
from onnx_compat.onnx_shim.equivalents import NodeCall
from onnx_compat.onnx_shim.graph_builder import Value
from onnx_compat.onnx_shim.lowering.bits import BitLowering
from onnx_compat.onnx_shim.natives import native_call, natives_of_offer, operator_of, stored_attribute
from onnx_compat.onnx_shim.recognition import form_of
from onnx_compat.primitives.carried import MOVES
from onnx_compat.shim.natives import Native
from onnx_compat.tracing.interpreter import Interpreter

__all__ = ["OnnxEmitter"]


class OnnxEmitter(BitLowering):
    """Emits primitives as calls of ONNX operators. Values of carried dtypes have the dtype of their carrier."""

    def at(self, node: Node) -> "OnnxEmitter":
        """Return this emitter, for a node. A node without an origin is a part of the node before it."""
        super().at(node)
        if node.origin is not None:
            self.builder.origin = node.origin.node
        return self

    # -- natives -------------------------------------------------------------------------------------------------------
    def natives(self) -> Dict[Tuple[str, str], Native]:
        """Return (domain, operator) -> `Native` for the operators that the target may have as a whole."""
        return {**natives_of_offer(self.offer), **super().natives()}

    def has(self, primitive: str) -> bool:
        """Whether `primitive` is implemented, or names a native or a recognised operator."""
        is_operator = operator_of(primitive) is not None or form_of(primitive) is not None
        return is_operator or super().has(primitive)

    def apply(self, primitive: str, args: Sequence[Any], params: Mapping[str, Any]) -> Any:
        """Emit a primitive, a native or a recognised operator, named by `primitive`. Return its result or its results.

        A recognised operator that the target has in no form gives None.
        """
        native, form = operator_of(primitive), form_of(primitive)
        if native is not None:
            return self._node_of(*native, args, params)
        if form is not None:
            return self._call_of(NodeCall("", *form, tuple(args), dict(params), 1))
        return super().apply(primitive, args, params)

    def _node_of(self, domain: str, operator: str, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """Emit the current node as one call of its operator, in the form of the target's version. Return its results.

        If the target has no such form, emit the meaning of the operator: the program was recorded for another target.
        """
        assert self.node.origin is not None
        opset = self.node.origin.opset
        call = NodeCall(domain, operator, opset, tuple(args), dict(attributes), len(self.node.outputs))
        results = self._call_of(call)
        return self._compose_call(call, self.node.origin.node) if results is None else results

    def _call_of(self, call: NodeCall) -> Optional[Tuple[Value, ...]]:
        """Emit a call, or an equivalent one, in the form of the target's version. None: there is no such form.

        Return the results, with the dtypes and shapes of the results of the current node.
        """
        spelled = native_call(call, self.offer, lambda value: value.array, self.array_value)
        if spelled is None:
            return None
        results = [Value(ref.spec.dtype, ref.spec.shape) for ref in self.node.outputs]
        return self.builder.call(spelled.operator, spelled.inputs, results, spelled.attributes, spelled.domain)

    def _compose_call(self, call: NodeCall, name: str) -> Any:
        """Emit the meaning of a call over primitives. Return its results. `name`: the name of the node, for errors."""
        outputs = ["y%d" % k for k in range(call.outputs)]
        names = ["" if value is None else "x%d" % k for k, value in enumerate(call.inputs)]
        attributes = {name: stored_attribute(value) for name, value in call.attributes.items()}
        node = GraphNode(call.operator, names, outputs, attributes, call.domain, call.opset, name)
        ports = [[ValueInfo(name, None) for name in part if name] for part in (names, outputs)]
        graph = Graph("node", ports[0], ports[1], [node])
        given = [value for value in call.inputs if value is not None]
        return self.compose(lambda *tensors: Interpreter().run(graph, tensors), *given)

    # -- carried dtypes ------------------------------------------------------------------------------------------------
    def finish(self, handle: Any, dtype: DType) -> Any:
        """Round a result, stored in its carrier, to the values of its dtype. Return the rounded value.

        The target rounds by Cast to the dtype and back if these casts are right, else by arithmetic. A result of a
        native dtype, or of a primitive that only moves elements, is returned unchanged.
        """
        if dtype.native or self.node.primitive in MOVES:
            return handle
        if self.rounds_to(dtype, handle):
            return self.convert(self.narrow(handle, dtype), handle.dtype)
        return super().finish(handle, dtype)

    def rounds_to(self, dtype: DType, handle: Value) -> bool:
        """Whether a cast of `handle` to a carried dtype and back rounds as `DType.round` does.

        False if the target lacks one of the casts.
        """
        flags = {"to": dtype.onnx, **_rounding(dtype)}
        casts = self.offer.has("Cast", [handle.dtype], [dtype], flags) and self.has_cast(dtype, handle.dtype)
        return casts and self.offer.is_reliable("Cast to " + dtype.name)

    def narrow(self, handle: Value, dtype: DType) -> Value:
        """Return a value, stored in its carrier, as a value of its own dtype: see `rounds_to`.

        Before opset 24, a Cast to float8e8m0 rounds up; values of this dtype do not change.

        Raises UnsupportedError if the target lacks the Cast.
        """
        flags = _rounding(dtype)
        if not flags:
            return self.convert(handle, dtype)
        has_flags = self.offer.has("Cast", [handle.dtype], [dtype], {"to": dtype.onnx, **flags})
        return self.convert(handle, dtype, **(flags if has_flags else {}))

    def name_value(self, handle: Value, name: str) -> None:
        """Let a value prefer this name. A value of a carried dtype, and not its carrier, has the name in the model."""
        source = self.cast_source(handle)
        is_carrier = source is not None and not source.dtype.native and not source.preferred_name
        super().name_value(source if source is not None and is_carrier else handle, name)


def _rounding(dtype: DType) -> Dict[str, Any]:
    """Return the attributes with which Cast rounds to a carried dtype as `DType.round` does."""
    if dtype.format is None or dtype.bits != 8:
        return {}
    return {"saturate": 0, "round_mode": "nearest"} if dtype.format.special == "scale" else {"saturate": 0}
