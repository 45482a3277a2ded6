"""Write a node by a few other operators of the target, where a trace would give more nodes or fails.

- HardSwish(x) => Mul(x, HardSigmoid(x, alpha=1/6))
- LayerNormalization(x, scale, b) => Add(Mul(y, scale), b), where y is InstanceNormalization(rows) in the shape of x. The
  rows are x in the shape [-1, 1, n], with the n elements that are normalized together as the only spatial axis.
- Shape(x, start, end) => Slice(Shape(x), start, end)
- Split(x, num_outputs) of an unknown size => Slice(x, k * part, (k + 1) * part), with part = ceil(size / num_outputs);
  before opset 10, where Slice has constant bounds: Gather(x, NonZero(k * part <= position < (k + 1) * part))
- Reshape(x, shape, allowzero=1) of an x without elements => Expand(0, shape), with 0 in place of -1
- Identity(s), OptionalGetElement(s) of a sequence => Identity(s), or SequenceErase(SequenceInsert(s, 0))
"""

from typing import TYPE_CHECKING, Callable, Dict, Optional, Sequence

import numpy as np

from onnx_compat.ir.dtypes import float16, float32
from onnx_compat.model.names import Names
from onnx_compat.model.write import tensor_proto
from onnx_compat.retarget.edited_node import Inexpressible
from onnx_compat.retarget.inferred_facts import Fact, NodeFacts
from onnx_compat.retarget.rewriting import Composed
from onnx_compat.retarget.runtime_axes import NodeWriter

if TYPE_CHECKING:
    import onnx

__all__ = ["write_form"]

#: The end of a Slice that keeps all elements.
_END = (1 << 63) - 1


def write_form(node: "onnx.NodeProto", facts: NodeFacts, names: Names, opset: int) -> Optional[Composed]:
    """Write a node by a few other operators of the target: see this module. Return the nodes.

    Return None in these cases:

    - The node has another operator, or an attribute that each call of its function sets.
    - A HardSwish is neither float16 nor float32.
    - A LayerNormalization is not float32, is empty, has results besides the first, or normalizes open sizes.
    - A LayerNormalization before opset 14 has several open sizes, and another rank than 3.
    - The sizes that a Shape gives are known.
    - A Split has no `num_outputs`.
    - A Reshape has no `allowzero`, a known shape, or data that may have elements.
    - An Identity or OptionalGetElement reads no sequence.

    Raises Inexpressible for a Split along a negative axis if the rank is not known, and if the target lacks an operator
    of these nodes.
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
        scale = writer.call("ConstantOfShape", channels, value=tensor_proto(np.ones(1, np.float32), float32, "one"))
        bias = writer.call("ConstantOfShape", channels)
        return writer.call("InstanceNormalization", x, scale, bias, epsilon=epsilon)
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
    """Add a Slice or a Gather for each part of a Split into `num_outputs` parts.

    Add no node for a Split without `num_outputs`. Raises Inexpressible for a negative axis if the rank is not known.
    """
    count, axis = writer.attributes.get("num_outputs"), writer.attributes.get("axis", 0)
    if count is None:
        return
    if axis < 0:
        rank = writer.facts.input(0).rank
        if rank is None:
            raise Inexpressible("the rank of '%s' is not known" % writer.node.input[0])
        axis += rank
    position = writer.constant([axis])
    size = writer.call("Gather", writer.call("Shape", writer.node.input[0]), position, axis=0)
    part = writer.call("Div", writer.call("Add", size, writer.constant([count - 1])), writer.constant([count]))
    start = writer.constant([0])
    positions = _positions(writer, size) if writer.opset < 10 else ""
    for output in writer.node.output:
        stop = writer.call("Add", start, part)
        if output and writer.opset >= 10:
            writer.call("Slice", writer.node.input[0], start, stop, position, output=output)
        elif output:
            is_reached = writer.call("Not", writer.call("Less", positions, start))
            is_inside = writer.call("And", is_reached, writer.call("Less", positions, stop))
            indices = writer.call("Reshape", writer.call("NonZero", is_inside), writer.constant([-1]))
            writer.call("Gather", writer.node.input[0], indices, output=output, axis=axis)
        start = stop


def _positions(writer: NodeWriter, size: str) -> str:
    """Add nodes that compute 0, 1, … size - 1. Return the name of this vector. `size`: a vector of length 1."""
    matches = writer.call("NonZero", writer.call("Expand", writer.constant([1]), size))
    return writer.call("Reshape", matches, writer.constant([-1]))


def _write_empty_reshape(writer: NodeWriter) -> None:
    """Add an Expand of a constant to the shape of a Reshape with `allowzero`, if the data has no elements.

    The shape has -1 only beside sizes other than 0: it then stands for the size 0. Add no node for a known shape, for
    data that may have elements, and if the dtype is not known.
    """
    data, shape = writer.facts.input(0), writer.facts.input(1)
    is_empty = data.shape is not None and 0 in data.shape
    if not writer.attributes.get("allowzero", 0) or shape.value is not None or not is_empty or data.dtype is None:
        return
    zero = writer.constant([0])
    sizes = writer.call("Where", writer.call("Less", writer.node.input[1], zero), zero, writer.node.input[1])
    element = writer.constant("" if data.dtype.kind == "s" else 0, data.dtype)
    writer.call("Expand", element, sizes, output=writer.node.output[0])


def _write_sequence_copy(writer: NodeWriter) -> None:
    """Add an Identity of a sequence, or insert and erase an element: before opset 14, Identity takes tensors only.

    Add no node for another type. Raises Inexpressible before opset 11, which has no sequences.
    """
    kind = writer.facts.input(0).type or ""
    if not kind.startswith("seq(tensor("):
        return
    if writer.opset >= 14:
        writer.call("Identity", writer.node.input[0], output=writer.node.output[0])
        return
    dtype = Fact(kind[len("seq(") : -1]).dtype
    assert dtype is not None  # the type of a tensor
    element = writer.constant("" if dtype.kind == "s" else 0, dtype)
    longer = writer.call("SequenceInsert", writer.node.input[0], element)
    writer.call("SequenceErase", longer, output=writer.node.output[0])


_FORMS: Dict[str, Callable[[NodeWriter], None]] = {
    "HardSwish": _write_hard_swish,
    "Identity": _write_sequence_copy,
    "LayerNormalization": _write_layer_normalization,
    "OptionalGetElement": _write_sequence_copy,
    "Reshape": _write_empty_reshape,
    "Shape": _write_shape,
    "Split": _write_split,
}
