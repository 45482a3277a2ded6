"""The rules for dtypes and shapes of TFLite operators, which `graph_verifier` applies.

A rule is a function of a `Use`. It calls `require`, which raises VerificationError if a condition does not hold. A size of
-1 is unknown and matches every size. Ops without a rule are not checked here.
"""

from typing import Callable, Dict, List, Optional, Sequence

import numpy as np

from onnx_compat.shim import VerificationError
from onnx_compat_tflite import flatbuffer as fb

__all__ = ["RULES", "Use", "require"]

Sizes = Sequence[int]


class Use:
    """Give a rule access to an operator: its options, its input tensors (None if omitted) and its output tensors."""

    def __init__(self, graph: fb.SubGraph, operator: fb.OperatorSpec) -> None:
        self.options = operator.options
        self.inputs = [None if index is None else graph.tensors[index] for index in operator.inputs]
        self.outputs = [graph.tensors[index] for index in operator.outputs]

    def has(self, index: int) -> bool:
        """Whether the operator has an input at position `index`: it is listed, and not omitted (None)."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def input(self, index: int) -> fb.TensorSpec:
        """Return the input tensor at position `index`; raise VerificationError if the operator lacks this input."""
        require(self.has(index), "it has no input %d", index)
        tensor = self.inputs[index]
        assert tensor is not None
        return tensor

    def sizes(self, index: int) -> Sizes:
        """Return the sizes of an input, -1 for an unknown size.

        Raises VerificationError if the operator lacks the input.
        """
        return sizes_of(self.input(index))

    def dtype(self, index: int) -> str:
        return self.input(index).dtype

    def constant(self, index: int) -> Optional[List[int]]:
        """Return the elements of the constant integer input at position `index`, as a flat list.

        Returns None if the input is no constant. Raises VerificationError if the operator lacks the input.
        """
        buffer = self.input(index).buffer
        return None if buffer is None else [int(value) for value in np.asarray(buffer).reshape(-1)]

    def expect(self, sizes: Sizes, dtype: Optional[str] = None, index: int = 0) -> None:
        """Check the result at position `index` of the operator: its `sizes` and, if given, its `dtype`.

        A size of -1, on either side, agrees with every size. Raises VerificationError if the result differs.
        """
        result = self.outputs[index]
        require(
            agree(sizes, sizes_of(result)), "its result has the shape %s, not %s", list(sizes_of(result)), list(sizes)
        )
        require(dtype is None or result.dtype == dtype, "its result is %s, not %s", result.dtype, dtype)


Rule = Callable[[Use], None]
RULES: Dict[str, Rule] = {}


def _rule(builtins: str) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a function as the rule of these ops: `@_rule("ADD SUB")`."""

    def declare(function: Rule) -> Rule:
        RULES.update((builtin, function) for builtin in builtins.split())
        return function

    return declare


def require(holds: bool, defect: str, *values: object) -> None:
    """Raise VerificationError with the text `defect % values` unless `holds` is true."""
    if not holds:
        raise VerificationError(defect % values)


def sizes_of(tensor: fb.TensorSpec) -> Sizes:
    """Return the shape of a tensor, with -1 for an unknown size."""
    return tensor.shape if tensor.shape_signature is None else tensor.shape_signature


def agree(lhs: Sizes, rhs: Sizes) -> bool:
    """Whether two shapes can be equal at run time: equal ranks, and equal or unknown (-1) sizes on each axis."""
    return len(lhs) == len(rhs) and all(a == b or a < 0 or b < 0 for a, b in zip(lhs, rhs))


def _element_count(sizes: Sizes) -> int:
    """Return the number of elements of a shape; -1 if a size is unknown."""
    return -1 if any(size < 0 for size in sizes) else int(np.prod(sizes, dtype=np.int64))


def _normalize_axis(axis: int, rank: int) -> int:
    """Return an axis as a non-negative index: -1 of rank 4 is 3. Raise VerificationError if it is out of range."""
    require(-rank <= axis < rank, "the axis %d is out of range for the rank %d", axis, rank)
    return axis % rank


def _broadcast(shapes: Sequence[Sizes]) -> Sizes:
    """Return the shape that operands of these shapes broadcast to.

    Each size of the result is

    - the known size other than 1 along the axis, if an operand has such a size
    - else -1, if a size along the axis is unknown
    - else 1

    Raises VerificationError if the shapes do not broadcast.
    """
    rank = max(map(len, shapes))
    result = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in shapes if -axis <= len(shape)} - {1}
        require(len(sizes - {-1}) <= 1, "the shapes %s do not broadcast", [list(shape) for shape in shapes])
        result.append(max(sizes - {-1}) if sizes - {-1} else -1 if sizes else 1)
    return result


# -- elementwise operators ------------------------------------------------------------------------------------------------
@_rule(
    "ABS NEG EXP LOG SQRT RSQRT SIN COS FLOOR CEIL ROUND SIGN SQUARE RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1 ELU GELU LEAKY_RELU"
    " HARD_SWISH LOGISTIC TANH SOFTMAX LOG_SOFTMAX LOGICAL_NOT L2_NORMALIZATION LOCAL_RESPONSE_NORMALIZATION REVERSE_V2 CUMSUM"
    " ZEROS_LIKE"
)
def _like_first(use: Use) -> None:
    use.expect(use.sizes(0), use.dtype(0))


@_rule("QUANTIZE DEQUANTIZE")
def _shape_of_first(use: Use) -> None:
    use.expect(use.sizes(0))


@_rule("CAST")
def _cast(use: Use) -> None:
    use.expect(use.sizes(0))
    for name, tensor in (("in_data_type", use.input(0)), ("out_data_type", use.outputs[0])):
        declared_dtype = use.options.get(name, tensor.dtype)
        require(declared_dtype == tensor.dtype, "its %s is %s for a tensor of %s", name, declared_dtype, tensor.dtype)


@_rule(
    "ADD SUB MUL DIV MAXIMUM MINIMUM POW FLOOR_DIV FLOOR_MOD SQUARED_DIFFERENCE LOGICAL_AND LOGICAL_OR ATAN2 BITWISE_XOR"
    " RIGHT_SHIFT PRELU EQUAL NOT_EQUAL LESS LESS_EQUAL GREATER GREATER_EQUAL"
)
def _two_operands(use: Use) -> None:
    require(use.dtype(0) == use.dtype(1), "its operands are %s and %s", use.dtype(0), use.dtype(1))
    use.expect(_broadcast([use.sizes(0), use.sizes(1)]))


@_rule("SELECT_V2")
def _select(use: Use) -> None:
    require(use.dtype(0) == "bool", "its condition is %s", use.dtype(0))
    require(use.dtype(1) == use.dtype(2), "its operands are %s and %s", use.dtype(1), use.dtype(2))
    use.expect(_broadcast([use.sizes(0), use.sizes(1), use.sizes(2)]), use.dtype(1))


# -- shapes ------------------------------------------------------------------------------------------------------------
@_rule("RESHAPE SQUEEZE EXPAND_DIMS")
def _reshape(use: Use) -> None:
    before, after = _element_count(use.sizes(0)), _element_count(sizes_of(use.outputs[0]))
    require(before == after or min(before, after) < 0, "%d elements become %d", before, after)
    use.expect(sizes_of(use.outputs[0]), use.dtype(0))


@_rule("TRANSPOSE")
def _transpose(use: Use) -> None:
    sizes, perm = use.sizes(0), use.constant(1)
    if perm is not None:
        require(sorted(perm) == list(range(len(sizes))), "%s is no permutation of %d axes", perm, len(sizes))
        use.expect([sizes[axis] for axis in perm], use.dtype(0))


@_rule("CONCATENATION")
def _concatenation(use: Use) -> None:
    shapes = [list(use.sizes(index)) for index in range(len(use.inputs))]
    axis = _normalize_axis(use.options.get("axis", 0), len(shapes[0]))
    total = [shape[axis] for shape in shapes]
    require(len({use.dtype(index) for index in range(len(shapes))}) == 1, "its operands have several dtypes")
    for shape in shapes:
        expected = list(shape)
        expected[axis] = -1 if min(total) < 0 else sum(total)
        use.expect(expected, use.dtype(0))


@_rule("SLICE")
def _slice(use: Use) -> None:
    length = use.constant(2)
    require(len(use.sizes(0)) == len(sizes_of(use.outputs[0])), "it changes the rank")
    use.expect(sizes_of(use.outputs[0]) if length is None else length, use.dtype(0))


@_rule("PAD PADV2 MIRROR_PAD")
def _pad(use: Use) -> None:
    sizes, pads = use.sizes(0), use.constant(1)
    if pads is not None:
        require(len(pads) == 2 * len(sizes), "%d paddings for the rank %d", len(pads), len(sizes))
        padded = [size if size < 0 else size + pads[2 * k] + pads[2 * k + 1] for k, size in enumerate(sizes)]
        use.expect(padded, use.dtype(0))


@_rule("BROADCAST_TO")
def _broadcast_to(use: Use) -> None:
    sizes = use.constant(1)
    use.expect(sizes_of(use.outputs[0]) if sizes is None else sizes, use.dtype(0))
    _broadcast([use.sizes(0), sizes_of(use.outputs[0])])


@_rule("FILL")
def _fill(use: Use) -> None:
    sizes = use.constant(0)
    use.expect(sizes_of(use.outputs[0]) if sizes is None else sizes, use.dtype(1))


@_rule("TILE")
def _tile(use: Use) -> None:
    sizes, repeats = use.sizes(0), use.constant(1)
    if repeats is not None:
        require(len(repeats) == len(sizes), "%d repeats for the rank %d", len(repeats), len(sizes))
        use.expect([size if size < 0 else size * count for size, count in zip(sizes, repeats)], use.dtype(0))


@_rule("SHAPE")
def _shape(use: Use) -> None:
    use.expect([len(use.sizes(0))], use.options.get("out_type", "float32"))


@_rule("GATHER")
def _gather(use: Use) -> None:
    sizes, batches = list(use.sizes(0)), use.options.get("batch_dims", 0)
    axis = _normalize_axis(use.options.get("axis", 0), len(sizes))
    require(use.dtype(1) in ("int16", "int32", "int64"), "its indices are %s", use.dtype(1))
    use.expect([*sizes[:axis], *use.sizes(1)[batches:], *sizes[axis + 1 :]], use.dtype(0))


@_rule("PACK")
def _pack(use: Use) -> None:
    sizes = list(use.sizes(0))
    axis = _normalize_axis(use.options.get("axis", 0), len(sizes) + 1)
    require(use.options.get("values_count", 0) == len(use.inputs), "its values_count is not the number of its inputs")
    for index in range(len(use.inputs)):
        operand_sizes = list(use.sizes(index))
        use.expect([*operand_sizes[:axis], len(use.inputs), *operand_sizes[axis:]], use.dtype(index))


@_rule("UNPACK")
def _unpack(use: Use) -> None:
    sizes = list(use.sizes(0))
    axis = _normalize_axis(use.options.get("axis", 0), len(sizes))
    require(agree([sizes[axis]], [len(use.outputs)]), "%d results of an axis of %d", len(use.outputs), sizes[axis])
    for index in range(len(use.outputs)):
        use.expect([*sizes[:axis], *sizes[axis + 1 :]], use.dtype(0), index)


@_rule("SPLIT")
def _split(use: Use) -> None:
    axes, sizes = use.constant(0), list(use.sizes(1))
    require(use.options.get("num_splits", 0) == len(use.outputs), "its num_splits is not the number of its results")
    if axes is not None:
        axis = _normalize_axis(axes[0], len(sizes))
        part = -1 if sizes[axis] < 0 else sizes[axis] // len(use.outputs)
        require(
            sizes[axis] < 0 or part * len(use.outputs) == sizes[axis], "%d parts of %d", len(use.outputs), sizes[axis]
        )
        for index in range(len(use.outputs)):
            use.expect([*sizes[:axis], part, *sizes[axis + 1 :]], use.dtype(1), index)


@_rule("SUM MEAN REDUCE_PROD REDUCE_MAX REDUCE_MIN REDUCE_ANY REDUCE_ALL")
def _reduce(use: Use) -> None:
    sizes, axis_list = use.sizes(0), use.constant(1)
    if axis_list is not None:
        axes = {_normalize_axis(axis, len(sizes)) for axis in axis_list}
        keeps_axes = use.options.get("keep_dims", False)
        use.expect(
            [1 if k in axes else size for k, size in enumerate(sizes) if keeps_axes or k not in axes], use.dtype(0)
        )


@_rule("ARG_MAX ARG_MIN")
def _arg(use: Use) -> None:
    sizes, axes = list(use.sizes(0)), use.constant(1)
    if axes is not None:
        axis = _normalize_axis(axes[0], len(sizes))
        use.expect([*sizes[:axis], *sizes[axis + 1 :]], use.options.get("output_type", "float32"))


# -- products and windows ----------------------------------------------------------------------------------------------
@_rule("FULLY_CONNECTED")
def _fully_connected(use: Use) -> None:
    units, depth = use.sizes(1)
    result = sizes_of(use.outputs[0])
    require(len(result) > 0 and agree([units], result[-1:]), "%d units give the shape %s", units, list(result))
    elements = _element_count(use.sizes(0))
    require(elements < 0 or depth < 0 or elements % max(depth, 1) == 0, "%d elements in rows of %d", elements, depth)
    if use.has(2):
        require(agree([units], [_element_count(use.sizes(2))]), "a bias %s for %d units", list(use.sizes(2)), units)


@_rule("BATCH_MATMUL")
def _batch_matmul(use: Use) -> None:
    x, y = list(use.sizes(0)), list(use.sizes(1))
    require(len(x) > 1 and len(y) > 1, "its operands have the ranks %d and %d", len(x), len(y))
    (rows, inner), (inner_of_y, columns) = x[-2:], y[-2:]
    if use.options.get("adj_x", False):
        rows, inner = inner, rows
    if use.options.get("adj_y", False):
        inner_of_y, columns = columns, inner_of_y
    require(agree([inner], [inner_of_y]), "its inner sizes are %d and %d", inner, inner_of_y)
    use.expect([*_broadcast([x[:-2] or [1], y[:-2] or [1]])[: max(len(x), len(y)) - 2], rows, columns])


def _window_counts(use: Use, sizes: Sizes, kernel: Sizes) -> List[int]:
    """Return [height, width] of the output of a convolution or pool. An unknown size is -1; other sizes are at least 0.

    `sizes` (of the input) and `kernel` are (height, width). The strides, dilations and padding are options of `use`.
    Raises VerificationError if a stride is missing or not positive.
    """
    result = []
    for size, taps, letter in zip(sizes, kernel, "hw"):
        stride = use.options.get("stride_" + letter, 0)
        require(stride > 0, "its stride_%s is %d", letter, stride)
        span = (taps - 1) * use.options.get("dilation_%s_factor" % letter, 1) + 1
        same = use.options.get("padding", "SAME") == "SAME"
        known = size >= 0 and taps >= 0
        result.append(-1 if not known else -(-size // stride) if same else max(-(-(size - span + 1) // stride), 0))
    return result


@_rule("CONV_2D")
def _conv(use: Use) -> None:
    (batch, *space, channels), (output, *kernel, depth) = use.sizes(0), use.sizes(1)
    require(
        min(channels, depth) < 0 or channels % max(depth, 1) == 0, "a filter of %d channels for %d", depth, channels
    )
    use.expect([batch, *_window_counts(use, space, kernel), output])
    _check_bias(use, output)


@_rule("DEPTHWISE_CONV_2D")
def _depthwise(use: Use) -> None:
    (batch, *space, channels), (_, *kernel, output) = use.sizes(0), use.sizes(1)
    require(channels < 0 or output % max(channels, 1) == 0, "a filter of %d channels for %d", output, channels)
    use.expect([batch, *_window_counts(use, space, kernel), output])
    _check_bias(use, output)


def _check_bias(use: Use, channels: int, index: int = 2) -> None:
    if use.has(index):
        require(agree(use.sizes(index), [channels]), "a bias %s for %d channels", list(use.sizes(index)), channels)


@_rule("TRANSPOSE_CONV")
def _transpose_conv(use: Use) -> None:
    sizes = use.constant(0)
    (batch, *_, channels), (output, *_, depth) = use.sizes(2), use.sizes(1)
    require(agree([channels], [depth]), "a filter of %d channels for %d", depth, channels)
    use.expect([batch, -1, -1, output] if sizes is None else sizes)
    _check_bias(use, output, 3)


@_rule("MAX_POOL_2D AVERAGE_POOL_2D L2_POOL_2D")
def _pool(use: Use) -> None:
    batch, *space, channels = use.sizes(0)
    kernel = [use.options.get("filter_height", 0), use.options.get("filter_width", 0)]
    use.expect([batch, *_window_counts(use, space, kernel), channels], use.dtype(0))


@_rule("RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR")
def _resize(use: Use) -> None:
    batch, *_, channels = use.sizes(0)
    use.expect([batch, *(use.constant(1) or (-1, -1)), channels], use.dtype(0))


@_rule("DEPTH_TO_SPACE")
def _depth_to_space(use: Use) -> None:
    block, (batch, *space, channels) = use.options.get("block_size", 0), use.sizes(0)
    require(channels < 0 or channels % (block * block) == 0, "%d channels in blocks of %d", channels, block)
    pixels = [size if size < 0 else size * block for size in space]
    use.expect([batch, *pixels, -1 if channels < 0 else channels // block**2], use.dtype(0))


@_rule("SPACE_TO_DEPTH")
def _space_to_depth(use: Use) -> None:
    block, (batch, *space, channels) = use.options.get("block_size", 0), use.sizes(0)
    require(all(size < 0 or size % block == 0 for size in space), "%s pixels in blocks of %d", space, block)
    use.expect([batch, *(size // block for size in space), -1 if channels < 0 else channels * block**2], use.dtype(0))
