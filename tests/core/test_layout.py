"""Pending permutations: a channels-last shim gives the right results, and no transpose stays inside a convolutional
network.
"""

from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np
import pytest
from channels_last import ChannelsLast
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_compat import primitives
from onnx_compat.ir.dims import is_static
from onnx_compat.ir.dtypes import float32
from onnx_compat.ir.window import Window
from onnx_compat.ops.normalization import instance_normalization
from onnx_compat.ops.shape import depth_to_space, space_to_depth
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Port, Program
from onnx_compat.tracing.layout import channels_last_order, order_with_axes, reshape_orders
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import lift

# -- random sequences ------------------------------------------------------------------------------------------------
Step = Callable[[Any], Any]


class Making:
    """Draws random operations with hypothesis. `shape` is the concrete shape of the tensor that the operation gets."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def number(self, low: int, high: int) -> int:
        return int(self.data.draw(st.integers(low, high)))

    def array(self, *shape: int) -> Any:
        return np.random.RandomState(self.number(0, 999)).uniform(-1, 1, shape).astype(np.float32)

    def step(self, name: str, shape: Tuple[int, ...]) -> Step:
        return getattr(self, name)(shape, len(shape))

    def transpose(self, shape: Any, rank: int) -> Step:
        perm = self.data.draw(st.permutations(range(rank)))
        return lambda x: primitives.transpose(x, perm)

    def to_last(self, shape: Any, rank: int) -> Step:
        perm = [0, *range(2, rank), 1] if rank > 2 else list(range(rank))
        return lambda x: primitives.transpose(x, perm)

    def conv(self, shape: Any, rank: int) -> Step:
        if rank < 3 or rank > 5:
            return self.relu(shape, rank)
        groups = shape[1] if self.number(0, 2) == 2 else 1
        filters = groups * self.number(1, 2)
        w = self.array(filters, shape[1] // groups, *[1 + (size > 1) * self.number(0, 1) for size in shape[2:]])
        bias = self.array(filters)
        window = Window.of(w.shape[2:], pads=[(0, self.number(0, 1)) for _ in shape[2:]])
        return lambda x: primitives.conv(_countable(x, shape), w, bias, window=window, groups=groups)

    def conv_transpose(self, shape: Any, rank: int) -> Step:
        if rank < 3 or rank > 5:
            return self.relu(shape, rank)
        w = self.array(shape[1], 2, *[self.number(1, 2) for _ in shape[2:]])
        window = Window.of(w.shape[2:], [self.number(1, 2) for _ in shape[2:]])
        return lambda x: primitives.conv_transpose(_countable(x, shape), w, window=window)

    def pool(self, shape: Any, rank: int) -> Step:
        if rank < 3 or rank > 5:
            return self.relu(shape, rank)
        window = Window.of([min(2, size) for size in shape[2:]])
        if self.number(0, 1):
            return lambda x: primitives.avg_pool(x, window)
        return lambda x: primitives.max_pool(x, window)

    def relu(self, shape: Any, rank: int) -> Step:
        return primitives.relu

    def add(self, shape: Any, rank: int) -> Step:
        cut = self.number(0, rank)
        operand = self.array(*[size if self.number(0, 1) else 1 for size in shape[cut:]])
        return lambda x: primitives.add(x, operand)

    def against_itself(self, shape: Any, rank: int) -> Step:
        axis = self.number(0, rank - 1)
        return lambda x: primitives.sub(primitives.tanh(x), primitives.reduce_max(x, [axis], keepdims=True))

    def lower_rank(self, shape: Any, rank: int) -> Step:
        if rank < 2:
            return self.relu(shape, rank)
        return lambda x: primitives.mul(x, primitives.reduce_mean(x, [0]))

    def reduce(self, shape: Any, rank: int) -> Step:
        axis, keep = self.number(0, rank - 1), bool(self.number(0, 1)) or rank < 2
        return lambda x: primitives.reduce_mean(x, [axis], keepdims=keep)

    def softmax(self, shape: Any, rank: int) -> Step:
        axis = self.number(0, rank - 1)
        return lambda x: primitives.softmax(x, axis)

    def concat(self, shape: Any, rank: int) -> Step:
        axis = self.number(0, rank - 1)
        return lambda x: primitives.concat([x, primitives.neg(x)], axis)

    def turned_and_joined(self, shape: Any, rank: int) -> Step:
        """Return an operation on two operands whose pending orders differ."""
        perm = self.data.draw(st.permutations(range(rank)))
        back = [perm.index(axis) for axis in range(rank)]
        return lambda x: primitives.add(
            x,
            primitives.transpose(primitives.exp(primitives.neg(primitives.relu(primitives.transpose(x, perm)))), back),
        )

    def slice(self, shape: Any, rank: int) -> Step:
        axis = self.number(0, rank - 1)
        if shape[axis] < 2:
            return self.relu(shape, rank)
        return lambda x: primitives.slice_axis(x, axis, 1, None)

    def reverse(self, shape: Any, rank: int) -> Step:
        axis = self.number(0, rank - 1)
        return lambda x: primitives.reverse(x, [axis])

    def pad(self, shape: Any, rank: int) -> Step:
        before, after = ([self.number(0, 1) for _ in shape] for _ in range(2))
        return lambda x: primitives.pad(x, before, after, value=0.5)

    def take(self, shape: Any, rank: int) -> Step:
        axis = self.number(0, rank - 1)
        indices = np.asarray([[0], [shape[axis] - 1, 0], [[0, 0]]][self.number(0, 2 if rank < 5 else 1)])
        return lambda x: primitives.take(x, indices, axis)

    def top_k(self, shape: Any, rank: int) -> Step:
        axis = self.number(0, rank - 1)
        return lambda x: primitives.top_k(x, 1, axis)[0]

    def cumsum(self, shape: Any, rank: int) -> Step:
        axis = self.number(0, rank - 1)
        return lambda x: primitives.cumsum(x, axis)

    def merge(self, shape: Any, rank: int) -> Step:
        if rank < 2:
            return self.relu(shape, rank)
        axis = self.number(0, rank - 2)
        return lambda x: primitives.reshape(
            x, [*x.shape[:axis], x.shape[axis] * x.shape[axis + 1], *x.shape[axis + 2 :]]
        )

    def divide(self, shape: Any, rank: int) -> Step:
        axis = self.number(0, rank - 1)
        if shape[axis] % 2 or rank > 5:
            return self.relu(shape, rank)
        return lambda x: primitives.reshape(x, [*x.shape[:axis], 2, x.shape[axis] // 2, *x.shape[axis + 1 :]])

    def flatten(self, shape: Any, rank: int) -> Step:
        return lambda x: primitives.reshape(x, [x.shape[0], lift(x).size // x.shape[0]] if rank else [1, 1])

    def unsqueeze(self, shape: Any, rank: int) -> Step:
        axis = self.number(0, rank)
        return (lambda x: primitives.unsqueeze(x, [axis])) if rank < 6 else primitives.relu

    def squeeze(self, shape: Any, rank: int) -> Step:
        unit_axes = [axis for axis, size in enumerate(shape) if size == 1]
        return (lambda x: primitives.squeeze(x, unit_axes[:1])) if rank > 1 else primitives.relu

    def tile(self, shape: Any, rank: int) -> Step:
        repeats = [self.number(1, 2) for _ in shape]
        return lambda x: primitives.tile(x, repeats)

    def matmul(self, shape: Any, rank: int) -> Step:
        if rank < 2:
            return self.relu(shape, rank)
        w, flag = self.array(shape[-1], 3), bool(self.number(0, 1))
        return lambda x: (
            primitives.matmul(primitives.transpose(x, [*range(rank - 2), rank - 1, rank - 2]), w, transpose_x=True)
            if flag
            else (primitives.matmul(x, w))
        )


NAMES = sorted(name for name in vars(Making) if not name.startswith("_") and name not in ("number", "array", "step"))


def _countable(x: Any, shape: Sequence[int]) -> Any:
    """Return the tensor with a static number of channels: add a Reshape if the trace does not know the number."""
    x = lift(x)
    return x if is_static(x.shape[1]) else primitives.reshape(x, [x.shape[0], shape[1], *x.shape[2:]])


def _run(program: Program, *arrays: Any) -> List[Any]:
    return emit(program.region, ChannelsLast(), list(arrays))


@settings(max_examples=150, deadline=None)
@given(
    st.data(),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=8),
    st.lists(st.integers(1, 4), min_size=3, max_size=4),
    st.booleans(),
)
def test_any_sequence_computes_the_same(data: Any, names: List[str], shape: List[int], symbolic: bool) -> None:
    making = Making(data)
    x = making.array(*shape)
    eager: Any = lift(x)
    steps = []
    for name in names:
        step = making.step(name, eager.shape)
        eager = step(eager)
        steps.append(step)
        if eager.size > 20_000:
            break

    def function(tensor: Any) -> Any:
        for step in steps:
            tensor = step(tensor)
        return [tensor]

    sizes: Any = ["n", *shape[1:2], *[None] * (len(shape) - 2)] if symbolic else shape
    program = record_program(function, [Port("x", float32, tuple(sizes))], ChannelsLast())
    (result,) = _run(program, x)
    np.testing.assert_allclose(result, eager.value, rtol=1e-4, atol=1e-4)


# -- no transpositions -----------------------------------------------------------------------------------------------
def _weights(*shape: int) -> Any:
    return np.random.RandomState(0).uniform(-0.3, 0.3, shape).astype(np.float32)


def _same(x: Any, w: Any, stride: int = 1, groups: int = 1) -> Any:
    edge = w.shape[2] // 2
    window = Window.of(w.shape[2:], [stride] * 2, pads=[(edge, edge)] * 2)
    return primitives.conv(x, w, window=window, groups=groups)


def _residual(x: Any) -> Any:
    y = primitives.relu(_same(x, _weights(8, 3, 3, 3), 2))
    z = primitives.mul(_same(primitives.relu(_same(y, _weights(8, 8, 3, 3))), _weights(8, 8, 1, 1)), _weights(8, 1, 1))
    z = primitives.add(primitives.relu(primitives.add(y, z)), _weights(1, 8, 1, 1))
    z = primitives.max_pool(z, Window.of((3, 3), (2, 2), pads=[(1, 1), (1, 1)]))
    z = primitives.reduce_mean(z, [2, 3], keepdims=True)
    return primitives.matmul(primitives.reshape(z, [x.shape[0], 8]), _weights(8, 5))


def _squeeze_and_excite(x: Any) -> Any:
    y = _same(x, _weights(8, 3, 1, 1))
    y = _same(y, _weights(8, 1, 3, 3), groups=8)
    gate = primitives.sigmoid(_same(primitives.reduce_mean(y, [2, 3], keepdims=True), _weights(8, 8, 1, 1)))
    y = primitives.mul(primitives.mul(y, primitives.sigmoid(y)), gate)
    parts = primitives.split(primitives.concat([y, y], 1), 1, [4, 12])
    return primitives.softmax(primitives.reduce_max(primitives.pad(parts[1], [0, 0, 1, 1], [0, 0, 1, 1]), [2, 3]), 1)


def _up_and_down(x: Any) -> Any:
    down = primitives.relu(_same(x, _weights(4, 3, 3, 3), 2))
    up = primitives.conv_transpose(down, _weights(4, 6, 2, 2), window=Window.of((2, 2), (2, 2)))
    both = primitives.concat([up, x], 1)
    return primitives.reduce_mean(_same(both, _weights(2, 9, 3, 3)), [2, 3])


def _shuffle(x: Any) -> Any:
    """Return the channel shuffle of ShuffleNet between convolutions. It needs one transpose instead of four."""
    y = _same(x, _weights(6, 3, 1, 1))
    height, width = y.shape[2:]
    y = primitives.reshape(y, [y.shape[0], 2, 3, height, width])
    y = primitives.reshape(primitives.transpose(y, [0, 2, 1, 3, 4]), [y.shape[0], 6, height, width])
    return primitives.reduce_mean(_same(y, _weights(4, 6, 3, 3)), [2, 3])


def _as_one_row(x: Any) -> Any:
    """Return a normalisation over all channels as one group, in the form that exporters write."""
    y = _same(x, _weights(6, 3, 3, 3))
    rows = primitives.reshape(y, [y.shape[0], 1, y.shape[1] * y.shape[2] * y.shape[3]])
    rows = instance_normalization(rows, lift(_weights(1)), lift(_weights(1)))
    y = primitives.mul(primitives.reshape(rows, y.shape), _weights(6, 1, 1))
    return primitives.reduce_mean(_same(y, _weights(4, 6, 3, 3)), [2, 3])


def _pixels(x: Any) -> Any:
    """Return DepthToSpace and SpaceToDepth between convolutions.

    Each needs one transpose, whose result a convolution reads.
    """
    y = depth_to_space(_same(x, _weights(8, 3, 3, 3)), blocksize=2, mode="CRD")
    y = depth_to_space(_same(y, _weights(8, 2, 3, 3)), blocksize=2)
    y = space_to_depth(_same(y, _weights(2, 2, 3, 3)), blocksize=2)
    y = space_to_depth(_same(y, _weights(2, 8, 3, 3)), blocksize=2, mode="CRD")
    return primitives.reduce_mean(_same(y, _weights(4, 8, 3, 3)), [2, 3])


@pytest.mark.parametrize("sizes", [(2, 3, 8, 8), ("n", 3, "h", "w")], ids=["fixed", "symbolic"])
@pytest.mark.parametrize(
    ("network", "most"),
    [(_residual, 1), (_squeeze_and_excite, 1), (_up_and_down, 1), (_shuffle, 2), (_as_one_row, 1), (_pixels, 5)],
)
def test_networks_of_convolutions_are_not_transposed(network: Any, most: int, sizes: Any) -> None:
    program = record_program(lambda x: [network(x)], [Port("x", float32, sizes)], ChannelsLast())
    counts: Dict[str, int] = {}
    for node in program.region.live():
        counts[node.primitive] = counts.get(node.primitive, 0) + 1
    assert counts.get("transpose", 0) <= most, counts
    x = _weights(2, 3, 8, 8)
    np.testing.assert_allclose(_run(program, x)[0], network(lift(x)).value, rtol=1e-4, atol=1e-5)


def _concat_cache(x: Any, past: Any) -> Any:
    """Return the key cache of a decoder: the given keys and the result both have the logical order."""
    heads = primitives.reshape(primitives.matmul(x, _weights(6, 6)), [x.shape[0], x.shape[1], 2, 3])
    return primitives.concat([past, primitives.transpose(heads, [0, 2, 1, 3])], 2)


def _patches(x: Any, past: Any) -> Any:
    """Return the patches of MobileViT: rows of distant pixels, in matrix products with residual sums."""
    n = x.shape[0]
    rows = primitives.transpose(primitives.reshape(x, [n, 4, 6]), [2, 1, 0])
    for _ in range(3):
        rows = primitives.add(primitives.matmul(rows, _weights(n, n)), rows)
    return primitives.add(primitives.reduce_mean(rows, [0, 1, 2]), past)


@pytest.mark.parametrize(("network", "most"), [(_concat_cache, 1), (_patches, 1)])
def test_matrix_products_keep_the_logical_order(network: Any, most: int) -> None:
    """Only the other operand is transposed, once, into the logical order of the product or of the cache."""
    shapes = (2, 4, 6), (2, 2, 5, 3)
    ports = [Port(name, float32, shape) for name, shape in zip("xy", shapes)]
    program = record_program(lambda x, y: [network(x, y)], ports, ChannelsLast())
    moved = [node.args[0] for node in program.region.live() if node.primitive == "transpose"]
    assert len(moved) <= most and program.region.inputs[1] not in moved
    arrays = [_weights(*shape) for shape in shapes]
    wanted = network(*map(lift, arrays)).value
    np.testing.assert_allclose(emit(program.region, ChannelsLast(), arrays)[0], wanted, rtol=1e-4, atol=1e-5)


# -- the rules themselves --------------------------------------------------------------------------------------------
@settings(max_examples=300, deadline=None)
@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_a_reshape_of_a_pending_order_has_the_declared_order(data: Any, shape: List[int]) -> None:
    after = [int(n) for size in shape for n in _factors(data, size)]
    if data.draw(st.booleans()) and len(after) > 1:
        k = data.draw(st.integers(0, len(after) - 2))
        after[k : k + 2] = [after[k] * after[k + 1]]
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    operand_order, result_order = reshape_orders(shape, order, after)
    logical = np.arange(int(np.prod(shape))).reshape(shape)
    physical = logical.transpose(operand_order or range(len(shape)))
    stored_axes = result_order or tuple(range(len(after)))
    moved = physical.reshape([after[axis] for axis in stored_axes])
    assert np.array_equal(moved.transpose(np.argsort(stored_axes)), logical.reshape(after))


def _factors(data: Any, size: int) -> List[int]:
    if size == 4 and data.draw(st.booleans()):
        return [2, 2]
    return (
        data.draw(st.sampled_from([[size], [size], [1, size], [size, 1]]))
        if size > 1
        else data.draw(st.sampled_from([[1], []]))
    )


def test_rows_of_groups_are_read_in_logical_order() -> None:
    """Groups are normalised as rows in logical order, and so is a group that is later read as a row."""

    def read(x: Any, groups: int) -> Any:
        y = _same(x, _weights(6, 3, 1, 1))
        rows = primitives.reshape(y, [2, groups, 96 // groups])
        normal = instance_normalization(rows, lift(_weights(groups)), lift(_weights(groups)))
        return primitives.mul(normal, np.arange(96 // groups, dtype=np.float32))

    x = _weights(2, 3, 4, 4)
    for groups in (1, 2, 6, 12):
        program = record_program(
            lambda x, groups=groups: [read(x, groups)], [Port("x", float32, x.shape)], ChannelsLast()
        )
        np.testing.assert_allclose(_run(program, x)[0], read(lift(x), groups).value, rtol=1e-3, atol=1e-4)


def test_axes_of_length_one_keep_an_image_channels_last() -> None:
    assert channels_last_order(4) == (0, 2, 3, 1)
    assert order_with_axes((0, 2, 1), [3], 4) == (0, 2, 1, 3)
