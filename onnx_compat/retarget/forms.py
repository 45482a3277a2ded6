"""Write a node by a few other operators of the target, where a trace would give more nodes or fails.

- HardSwish(x) => Mul(x, HardSigmoid(x, alpha=1/6))
- Shape(x, start, end) => Slice(Shape(x), start, end)
- Split(x, num_outputs) of an unknown size => Slice(x, k * part, (k + 1) * part), with part = ceil(size / num_outputs)
"""

from typing import TYPE_CHECKING, Callable, Dict, Optional

from onnx_compat.ir.dtypes import float16, float32
from onnx_compat.model.names import Names
from onnx_compat.retarget.edited_node import Inexpressible
from onnx_compat.retarget.inferred_facts import NodeFacts
from onnx_compat.retarget.rewriting import Composed
from onnx_compat.retarget.runtime_axes import NodeWriter

if TYPE_CHECKING:
    import onnx

__all__ = ["write_form"]

#: The end of a Slice that keeps all elements.
_END = (1 << 63) - 1


def write_form(node: "onnx.NodeProto", facts: NodeFacts, names: Names, opset: int) -> Optional[Composed]:
    """Write a HardSwish, Shape or Split by a few other operators of the target. Return the nodes.

    Return None in these cases:

    - The node has another operator, or an attribute that each call of its function sets.
    - A HardSwish is neither float16 nor float32.
    - The sizes that a Shape gives are known.
    - A Split has no `num_outputs`.

    Raises Inexpressible for a Split before opset 10, and for a Split along a negative axis if the rank is not known.
    """
    write = _FORMS.get(node.op_type) if not node.domain else None
    if write is None or any(attribute.ref_attr_name for attribute in node.attribute):
        return None
    writer = NodeWriter(node, facts, names, opset)
    write(writer)
    return Composed(writer.nodes, writer.initializers, {"": opset}) if writer.nodes else None


def _write_hard_swish(writer: NodeWriter) -> None:
    """Add Mul(x, HardSigmoid(x, alpha=1/6)) for float16 and float32.

    Add no node for another or an unknown dtype: the attribute of HardSigmoid is a float32.
    """
    if writer.facts.input(0).dtype in (float16, float32):
        gate = writer.call("HardSigmoid", writer.node.input[0], alpha=1 / 6, beta=0.5)
        writer.call("Mul", writer.node.input[0], gate, output=writer.node.output[0])


def _write_shape(writer: NodeWriter) -> None:
    """Add Slice(Shape(x), start, end). Add no node if the result is known: a trace gives a constant."""
    if writer.facts.output(0).value is not None:
        return
    start, end = writer.attributes.get("start", 0), writer.attributes.get("end", _END)
    sizes = writer.call("Shape", writer.node.input[0])
    if writer.opset < 10:
        writer.call("Slice", sizes, output=writer.node.output[0], axes=[0], starts=[start], ends=[end])
        return
    bounds = [writer.constant([bound]) for bound in (start, end)]
    writer.call("Slice", sizes, *bounds, output=writer.node.output[0])


def _write_split(writer: NodeWriter) -> None:
    """Add a Slice for each part of a Split into `num_outputs` parts. Add no node for a Split without `num_outputs`.

    Raises Inexpressible before opset 10, where the bounds of Slice are attributes. Raises it also for a negative axis
    if the rank is not known.
    """
    count, axis = writer.attributes.get("num_outputs"), writer.attributes.get("axis", 0)
    if count is None:
        return
    if writer.opset < 10:
        raise Inexpressible("its sizes are not known")
    if axis < 0:
        rank = writer.facts.input(0).rank
        if rank is None:
            raise Inexpressible("the rank of '%s' is not known" % writer.node.input[0])
        axis += rank
    position = writer.constant([axis])
    size = writer.call("Gather", writer.call("Shape", writer.node.input[0]), position, axis=0)
    part = writer.call("Div", writer.call("Add", size, writer.constant([count - 1])), writer.constant([count]))
    start = writer.constant([0])
    for output in writer.node.output:
        stop = writer.call("Add", start, part)
        if output:
            writer.call("Slice", writer.node.input[0], start, stop, position, output=output)
        start = stop


_FORMS: Dict[str, Callable[[NodeWriter], None]] = {
    "HardSwish": _write_hard_swish,
    "Shape": _write_shape,
    "Split": _write_split,
}
