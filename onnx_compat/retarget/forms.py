"""Write a node by a few other operators of the target, where a trace would give more nodes or fails.

- HardSwish(x) => Mul(x, HardSigmoid(x, alpha=1/6))
- LayerNormalization(x, scale, b) => Add(Mul(y, scale), b), where y is InstanceNormalization(rows) in the shape of x. The
  rows are x in the shape [-1, 1, n], with the n elements that are normalized together as the only spatial axis.
- Shape(x, start, end) => Slice(Shape(x), start, end)
- Split(x, num_outputs) of an unknown size => Slice(x, k * part, (k + 1) * part), with part = ceil(size / num_outputs)
"""

from typing import TYPE_CHECKING, Callable, Dict, Optional, Sequence

import numpy as np

from onnx_compat.ir.dtypes import float16, float32
from onnx_compat.model.names import Names
from onnx_compat.retarget.edited_node import Inexpressible
from onnx_compat.retarget.inferred_facts import NodeFacts
from onnx_compat.retarget.protos import tensor_of
from onnx_compat.retarget.rewriting import Composed
from onnx_compat.retarget.runtime_axes import NodeWriter

if TYPE_CHECKING:
    import onnx

__all__ = ["write_form"]

#: The end of a Slice that keeps all elements.
_END = (1 << 63) - 1


def write_form(node: "onnx.NodeProto", facts: NodeFacts, names: Names, opset: int) -> Optional[Composed]:
    """Write a HardSwish, LayerNormalization, Shape or Split by a few other operators of the target. Return the nodes.

    Return None in these cases:

    - The node has another operator, or an attribute that each call of its function sets.
    - A HardSwish is neither float16 nor float32.
    - A LayerNormalization is not float32, is empty, has results besides the first, or normalizes open sizes.
    - A LayerNormalization before opset 14 has several open sizes, and another rank than 3.
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


def _write_layer_normalization(writer: NodeWriter) -> None:
    """Add an InstanceNormalization of the rows, with one channel, then Mul by the scale and Add of the bias.

    The rows are the parts of x that are normalized. Add no node for another dtype than float32: the statistics of other
    dtypes have another dtype, and onnxruntime 1.31 has no kernel for float64. Add none for further results, if the
    length of a row is not known, or if x has no elements. Add none if `_normalize_rows` returns None.
    """
    shape = writer.facts.input(0).shape
    if writer.facts.input(0).dtype != float32 or not shape or 0 in shape or any(writer.node.output[1:]):
        return
    first = writer.attributes.get("axis", -1) % len(shape)
    sizes = [size for size in shape[first:] if size is not None]
    result = _normalize_rows(writer, shape, int(np.prod(sizes))) if len(sizes) == len(shape) - first else None
    if result is None:
        return
    steps = list(zip(("Mul", "Add"), filter(None, writer.node.input[1:])))
    for number, (operator, vector) in enumerate(steps, 1):
        output = writer.node.output[0] if number == len(steps) else None
        result = writer.call(operator, result, vector, output=output)


def _normalize_rows(writer: NodeWriter, shape: Sequence[Optional[int]], length: int) -> Optional[str]:
    """Add nodes that normalize the rows of the first input. Return the name of the result, in the shape of the input.

    - shape: the shape of the input, with None for each open size.
    - length: the number of elements of a row.

    Before opset 14, Reshape takes no size of 0 from a computed shape. If several sizes are open there, the channels of
    [n, channels, length] are normalized without a Reshape. None: the input has other axes.
    """
    x, epsilon = writer.node.input[0], writer.attributes.get("epsilon", 1e-5)
    is_open = shape.count(None) > 1
    if is_open and writer.opset < 14:
        if len(shape) != 3 or shape[2] != length:
            return None
        channels = writer.call("Gather", writer.call("Shape", x), writer.constant([1]))
        ones = writer.call("ConstantOfShape", channels, value=tensor_of("one", np.ones(1, np.float32), float32))
        zeros = writer.call("ConstantOfShape", channels)
        return writer.call("InstanceNormalization", x, ones, zeros, epsilon=epsilon)
    rows = writer.call("Reshape", x, writer.constant([-1, 1, length]))
    parameters = [writer.constant([number], float32) for number in (1, 0)]
    normal = writer.call("InstanceNormalization", rows, *parameters, epsilon=epsilon)
    if is_open:
        return writer.call("Reshape", normal, writer.call("Shape", x), allowzero=1)
    return writer.call("Reshape", normal, writer.constant([-1 if size is None else size for size in shape]))


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
    "LayerNormalization": _write_layer_normalization,
    "Shape": _write_shape,
    "Split": _write_split,
}
