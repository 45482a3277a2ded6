"""Write nodes whose axes or sizes are only known when the model runs, for versions that have them as attributes.

The rank of the data is known. So a Reduce becomes a conditional reduction of each axis. Compress removes sizes from a
shape.
"""

from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.ir.dtypes import DType, float32, int32, int64
from onnx_compat.model.names import Names
from onnx_compat.model.write import tensor_proto
from onnx_compat.onnx_shim.signatures import find_schema
from onnx_compat.retarget.edited_node import Inexpressible
from onnx_compat.retarget.inferred_facts import Fact, NodeFacts
from onnx_compat.retarget.rewriting import Composed
from onnx_compat.retarget.schemas import type_problem

if TYPE_CHECKING:
    import onnx

__all__ = ["NodeWriter", "write_runtime_axes"]

#: A number that is no axis.
_NO_AXIS = -(1 << 20)
#: The reductions that are a sum over all axes, between other operators.
_BY_SUM = dict.fromkeys(("ReduceL2", "ReduceLogSum", "ReduceSumSquare"), "ReduceSum")


def write_runtime_axes(node: "onnx.NodeProto", facts: NodeFacts, names: Names, opset: int) -> Optional[Composed]:
    """Write a node whose second input is only known when the model runs. Return the nodes that compute it.

    Return None if the operator is no reduction, Pad, Split, Squeeze or Unsqueeze, or if the node has no second input.
    Return None also for a Pad before opset 11, and for a Split before opset 10.

    Raises Inexpressible in these cases:

    - The rank of the data is not known. Of a reduction, also: the dtype of the data is not known.
    - The number of new axes of an Unsqueeze is not known.
    - A Pad without axes, a Pad in mode `wrap` before opset 19.
    """
    writer = _WRITERS.get("Reduce" if node.op_type.startswith("Reduce") else node.op_type)
    if writer is None or node.domain or len(node.input) < 2 or opset < _BEGINS.get(node.op_type, 0):
        return None
    shape = facts.input(0).shape
    if shape is None:
        raise Inexpressible("the rank of '%s' is not known" % node.input[0])
    builder = NodeWriter(node, facts, names, opset)
    writer(builder, len(shape))
    return Composed(builder.nodes, builder.initializers, {"": opset})


class NodeWriter:
    """Collect the nodes and initializers that replace a node.

    - node: the node to replace. facts: its facts.
    - names: the names in use, which gives the names of new values.
    - opset: the version of ai.onnx of the new nodes.
    - attributes: name -> value, of the node.
    - prefix: the start of new names.
    """

    def __init__(self, node: "onnx.NodeProto", facts: NodeFacts, names: Names, opset: int) -> None:
        import onnx

        self.node = node
        self.facts = facts
        self.names = names
        self.opset = opset
        self.attributes = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        self.nodes: List[onnx.NodeProto] = []
        self.initializers: List[onnx.TensorProto] = []
        self.prefix = node.name or node.output[0]

    def call(self, operator: str, *inputs: str, output: Optional[str] = None, **attributes: Any) -> str:
        """Add a node of the operator `operator`, and return the name of its output: by default a new name.

        `inputs` are names of values; `attributes` are those of the node. Raises Inexpressible if the target lacks the
        operator.
        """
        import onnx

        if find_schema("", operator, self.opset) is None:
            raise Inexpressible("opset %d has no %s" % (self.opset, operator))
        name = output or self.names.fresh("%s/%s" % (self.prefix, operator))
        self.nodes.append(onnx.helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def constant(self, value: object, dtype: DType = int64) -> str:
        """Add an initializer with the elements `value`, and return its name."""
        name = self.names.fresh("%s/constant" % self.prefix)
        self.initializers.append(tensor_proto(np.asarray(value, dtype.numpy), dtype, name))
        return name

    def branch(self, nodes: "List[onnx.NodeProto]", output: str, number: str) -> "onnx.GraphProto":
        """Return `nodes` as a graph for a branch of an If, with the value `output` as its output.

        Before opset 11, shape inference requires that both branches have one shape. So there, a Reshape hides it. Its
        shape depends on `number`, the name of an int64 scalar that only a run knows.

        The output has the dtype of the first input of the node to replace. Raises Inexpressible if this dtype is not
        known.
        """
        from onnx import helper

        dtype = self.facts.input(0).dtype
        if dtype is None:
            raise Inexpressible("the type of '%s' is not known" % self.node.input[0])
        if self.opset < 11:
            outer, self.nodes = self.nodes, list(nodes)
            shape = self.call("Add", self.call("Shape", output), self.call("Sub", number, number))
            output = self.call("Reshape", output, shape)
            self.nodes, nodes = outer, self.nodes
        port = helper.make_tensor_value_info(output, dtype.onnx, None)
        port.type.tensor_type.ClearField("shape")
        return helper.make_graph(nodes, "branch", [], [port])

    def choose(self, axis: str, parts: "Sequence[Tuple[int, onnx.GraphProto]]", rank: int) -> None:
        """Add nested Ifs that compute the output of the node to replace: each If runs the graph for one axis.

        - axis: the name of the value that chooses the axis at run time. It may count from the end.
        - parts: pairs (axis, graph), at least one. The last graph runs for any axis that no other pair has.
        - rank: the rank of the data.

        Raises Inexpressible if the dtype of the data is not known.
        """
        outer = self.nodes
        rest = parts[-1][1]
        for number, branch in reversed(parts[:-1]):
            self.nodes = []
            equals = [self.call("Equal", axis, self.constant(value)) for value in (number, number - rank)]
            flag = self.call("Or", *equals)
            result = self.call("If", flag, then_branch=branch, else_branch=rest)
            rest = self.branch(self.nodes, result, axis)
        self.nodes = [*outer, *rest.node]
        self.call("Identity", rest.output[0].name, output=self.node.output[0])

    def select_flags(self, rank: int) -> List[str]:
        """Return for each axis the name of a bool vector of size 1: whether the node's second input has the axis."""
        axes = self.call("Concat", self.node.input[1], self.constant([_NO_AXIS]), axis=0)
        flags: List[str] = []
        for axis in range(rank):
            equals = [self.call("Equal", axes, self.constant([number])) for number in (axis, axis - rank)]
            matches = self.call("Cast", self.call("Or", *equals), to=1)
            axes_of_flags: Dict[str, Any] = {} if self.opset >= 18 else {"axes": [0]}
            count = self.call("ReduceMax", matches, keepdims=1, **axes_of_flags)
            flags.append(self.call("Cast", count, to=9))
        return flags

    def remaining_shape(self, value: str, flags: Sequence[str]) -> str:
        """Add nodes that compute the shape of `value` without the axes whose flag is set. Return the name of the shape.

        `flags`: for each axis, the name of a bool vector of size 1.
        """
        kept = self.call("Not", self.call("Concat", *flags, axis=0))
        return self.call("Compress", self.call("Shape", value), kept, axis=0)


def _write_reduction(builder: NodeWriter, rank: int) -> None:
    """Add nodes that reduce one axis after the other, each only if the second input of the node has the axis.

    Rounding comes last, once: a mean of integers is their sum, divided by a count. Raises Inexpressible if the type of
    the data is not known.
    """
    operator = builder.node.op_type
    value = builder.node.input[0]
    dtype = builder.facts.input(0).dtype
    if dtype is None:
        raise Inexpressible("the type of '%s' is not known" % value)
    is_integer_mean = operator == "ReduceMean" and dtype.kind in "iu"
    reduction = "ReduceSum" if is_integer_mean else _BY_SUM.get(operator, operator)
    computed = _computed_dtype(operator, reduction, dtype, builder.opset)
    if computed is not dtype:
        value = builder.call("Cast", value, to=computed.onnx)
    if operator == "ReduceL1":  # of no axes: the absolute value
        value = builder.call("Abs", value)
    elif operator in ("ReduceL2", "ReduceSumSquare"):
        value = builder.call("Mul", value, value)
    flags = builder.select_flags(rank)
    if not builder.attributes.get("noop_with_empty_axes", 0):
        is_empty = builder.call("Equal", builder.call("Shape", builder.node.input[1]), builder.constant([0]))
        flags = [builder.call("Or", flag, is_empty) for flag in flags]
    reduce_axis = _reduce_if if builder.opset >= 11 else _reduce_and_gather
    for axis, flag in enumerate(flags):
        value = reduce_axis(builder, value, axis, flag, AxisReduction(reduction, computed, rank))
    if operator in _LAST_STEPS:
        value = builder.call(_LAST_STEPS[operator], value)
    if is_integer_mean and rank:
        value = builder.call("Div", value, _count_of(builder, flags))
    if rank and not builder.attributes.get("keepdims", 1):
        value = builder.call("Reshape", value, builder.remaining_shape(value, flags))
    if dtype.kind == "b":  # the reduction of no elements is the lowest or the highest number
        builder.call("Greater", value, builder.constant(0, computed), output=builder.node.output[0])
    else:
        builder.call("Cast", value, to=dtype.onnx, output=builder.node.output[0])


#: Reduction -> the operator that follows a sum over all axes.
_LAST_STEPS = {"ReduceL2": "Sqrt", "ReduceLogSum": "Log"}


def _computed_dtype(operator: str, reduction: str, dtype: DType, opset: int) -> DType:
    """Return the dtype in which the node's operator is computed by the operator `reduction`.

    Norms and logarithms of integers are computed in float32, as their meanings define it, means of integers in int64.
    Otherwise this is `dtype`, that of the data, if `reduction` takes it at the opset. If not: float32 for floats, int32
    for other dtypes up to 8 bits, and int64 for wider ones.
    """
    if dtype.kind in "iu" and operator in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp"):
        return float32
    if dtype.kind in "iu" and operator == "ReduceMean":
        return int64
    if type_problem(find_schema("", reduction, opset), [Fact("tensor(%s)" % dtype.spelling)], []) is None:
        return dtype
    if dtype.kind == "f":
        return float32
    return int32 if dtype.bits <= 8 else int64  # bools too: 0 and 1


def _count_of(builder: NodeWriter, flags: Sequence[str]) -> str:
    """Add nodes that compute how many elements are reduced to one. Return the name of this int64 vector of size 1.

    `flags`: for each axis, the name of a bool vector of size 1, which says whether the axis is reduced.
    """
    shape = builder.call("Shape", builder.node.input[0])
    kept_sizes = builder.constant([1] * len(flags))
    sizes = builder.call("Where", builder.call("Concat", *flags, axis=0), shape, kept_sizes)
    axes: Dict[str, Any] = {} if builder.opset >= 18 else {"axes": [0]}
    return builder.call("ReduceProd", sizes, keepdims=1, **axes)


class AxisReduction(NamedTuple):
    """A reduction of one axis: its operator, and the dtype and rank of the data."""

    operator: str
    dtype: DType
    rank: int


def _reduce_if(builder: NodeWriter, value: str, axis: int, flag: str, reduction: AxisReduction) -> str:
    """Add an If that reduces `axis` of `value` if `flag` is true, and keeps the value otherwise. Return its output."""
    from onnx import helper

    condition = builder.call("Reshape", flag, builder.constant(np.zeros(0)))
    branches = {}
    for branch in ("then_branch", "else_branch"):
        result = builder.names.fresh("%s/%s" % (builder.prefix, branch))
        if branch == "else_branch":
            inner = helper.make_node("Identity", [value], [result])
        elif builder.opset >= (13 if reduction.operator == "ReduceSum" else 18):
            inner = helper.make_node(reduction.operator, [value, builder.constant([axis])], [result], keepdims=1)
        else:
            inner = helper.make_node(reduction.operator, [value], [result], axes=[axis], keepdims=1)
        port = helper.make_tensor_value_info(result, reduction.dtype.onnx, [None] * reduction.rank)
        branches[branch] = helper.make_graph([inner], branch, [], [port])
    return builder.call("If", condition, **branches)


def _reduce_and_gather(builder: NodeWriter, value: str, axis: int, flag: str, reduction: AxisReduction) -> str:
    """Add nodes without an If that reduce `axis` of `value` if `flag` is true. Return the name of the result.

    Before opset 11, the branches of an If must have the same shape. So the reduced element is put before the others.
    Then either this element or all others are gathered.
    """
    reduced = builder.call(reduction.operator, value, axes=[axis], keepdims=1)
    both = builder.call("Concat", reduced, value, axis=axis)
    size = builder.call("Gather", builder.call("Shape", value), builder.constant([axis]), axis=0)
    count = builder.call("Where", flag, builder.constant([1]), size)
    first = builder.call("Where", flag, builder.constant([0]), builder.constant([1]))
    positions = builder.call("NonZero", builder.call("Expand", builder.constant([1]), count))
    positions = builder.call("Add", builder.call("Reshape", positions, builder.constant([-1])), first)
    return builder.call("Gather", both, positions, axis=axis)


def _write_squeeze(builder: NodeWriter, rank: int) -> None:
    """Add a Reshape to the shape of the data without the axes that the second input has."""
    shape = builder.remaining_shape(builder.node.input[0], builder.select_flags(rank))
    builder.call("Reshape", builder.node.input[0], shape, output=builder.node.output[0])


def _write_unsqueeze(builder: NodeWriter, rank: int) -> None:
    """Add a Reshape to a computed shape: each size is 1 for a new axis, else the next size of the data.

    Raises Inexpressible if the number of new axes is not known.
    """
    count = (builder.facts.input(1).shape or (None,))[0]
    if count is None:
        raise Inexpressible("the number of its axes is not known")
    sizes = builder.call("Concat", builder.call("Shape", builder.node.input[0]), builder.constant([1]), axis=0)
    position, parts = builder.constant([0]), []
    for flag in builder.select_flags(rank + count):
        size = builder.call("Gather", sizes, position, axis=0)
        parts.append(builder.call("Where", flag, builder.constant([1]), size))
        step = builder.call("Cast", builder.call("Not", flag), to=7)
        position = builder.call("Add", position, step)
    shape = builder.call("Concat", *parts, axis=0)
    builder.call("Reshape", builder.node.input[0], shape, output=builder.node.output[0])


def _write_pad(builder: NodeWriter, rank: int) -> None:
    """Add a Pad of all axes. Its pads are zeros, into which the pads of the given axes are scattered.

    Raises Inexpressible for a Pad without axes, and for mode `wrap` before opset 19.
    """
    if len(builder.node.input) < 4:
        raise Inexpressible("its pads are not known")
    if builder.opset < 19 and builder.attributes.get("mode") == b"wrap":
        raise Inexpressible("the other version has no mode 'wrap'")
    data, pads, value, axes = list(builder.node.input)[:4]
    if builder.facts.input(3).dtype is not int64:
        axes = builder.call("Cast", axes, to=int64.onnx)
    is_negative = builder.call("Less", axes, builder.constant([0]))
    front = builder.call("Where", is_negative, builder.call("Add", axes, builder.constant([rank])), axes)
    both = builder.call("Concat", front, builder.call("Add", front, builder.constant([rank])), axis=0)
    all_pads = builder.call("ScatterElements", builder.constant([0] * (2 * rank)), both, pads, axis=0)
    inputs = [data, all_pads, value] if value else [data, all_pads]
    builder.call("Pad", *inputs, output=builder.node.output[0], **builder.attributes)


def _write_split(builder: NodeWriter, rank: int) -> None:
    """Add a Slice for each part of a Split. The sizes of the parts are the second input."""
    axis = builder.constant([builder.attributes.get("axis", 0) % rank])
    start = builder.constant([0])
    for index, output in enumerate(builder.node.output):
        size = builder.call("Gather", builder.node.input[1], builder.constant([index]), axis=0)
        stop = builder.call("Add", start, size)
        if output:
            builder.call("Slice", builder.node.input[0], start, stop, axis, output=output)
        start = stop


_WRITERS: Dict[str, Callable[[NodeWriter, int], None]] = {
    "Pad": _write_pad,
    "Reduce": _write_reduction,
    "Split": _write_split,
    "Squeeze": _write_squeeze,
    "Unsqueeze": _write_unsqueeze,
}
#: Operator -> the first opset in which Pad and Slice take run-time values, with which it is written here.
_BEGINS = {"Pad": 11, "Split": 10}
