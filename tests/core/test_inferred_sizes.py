"""Inferred symbolic sizes equal the sizes of the computed arrays, for several lengths.

Each case says which are inferred.
"""

from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np
import pytest
from channels_last import ChannelsLast

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import atoms_of, is_equal_shape, is_static, maximum
from onnx_compat.ir.dtypes import bool_, float32, int64, string, uint8
from onnx_compat.ir.window import Window
from onnx_compat.reference import Reference
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import lift

FAR = 2**31 - 1
LENGTHS = range(7)


def measure(function: Callable[..., Any], ports: Sequence[Port], feeds: Sequence[Sequence[np.ndarray]]) -> bool:
    """Return whether the sizes of the result are expressions of input sizes. Assert that they are right for each feed."""
    known: List[bool] = []

    def body(*tensors: Any) -> Any:
        result = function(*tensors)
        sources = {atom.args[0] for size in result.shape for atom in atoms_of(size)}
        known.append(sources <= {tensor.ref for tensor in tensors})
        return [result, p.shape_of(result)]

    program = record_program(body, ports, Reference())
    for arrays in feeds:
        array, shape = emit(program.region, Reference(), list(arrays))
        assert array.shape == tuple(shape), "the inferred sizes are not those of the array"
    return known[0]


def vectors(*names: str) -> List[Port]:
    """Return the types of vectors whose lengths are symbolic."""
    return [Port(name, float32, (name,)) for name in names]


def numbers(*shape: int) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


# -- slices ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("start", "end", "step", "known"),
    [
        (0, None, 2, True),
        (0, FAR, 3, True),
        (1, None, 1, True),
        (3, None, 2, True),
        (-1, None, 1, True),
        (-3, None, 1, True),
        (-3, None, 2, True),
        (0, 1, 1, True),
        (0, 4, 1, True),
        (0, 4, 3, True),
        (0, 0, 1, True),
        (0, -1, 1, True),
        (0, -3, 1, True),
        (0, -3, 2, True),
        (-1, None, -1, True),
        (-1, None, -2, True),
        (-1, -FAR, -3, True),
        (2, None, -1, False),
        (-2, None, -1, False),
        (-1, 2, -1, False),
        (-1, -3, -1, False),
        (1, 4, 1, False),
        (1, -1, 1, False),
        (-4, -1, 1, False),
        (-4, -1, 2, False),
        (-3, 4, 1, False),
    ],
)
def test_a_slice_of_a_symbolic_axis(start: int, end: Optional[int], step: int, known: bool) -> None:
    def cut(x: Any) -> Any:
        return p.slice_axis(x, 0, start, end, step)

    for length in LENGTHS:
        array = numbers(length)
        stop = None if end == -FAR else end
        np.testing.assert_array_equal(cut(lift(array)).value, array[start:stop:step])
    assert measure(cut, vectors("n"), [[numbers(length)] for length in LENGTHS]) is known


@pytest.mark.parametrize(
    ("bounds", "known"),
    [
        (lambda n, m: (0, m, 1), True),
        (lambda n, m: (0, m, 2), True),
        (lambda n, m: (m, None, 1), True),
        (lambda n, m: (m, n + m, 2), True),
        (lambda n, m: (1, n, 1), True),
        (lambda n, m: (3, n, 2), True),
        (lambda n, m: (0, n - m, 1), False),
        (lambda n, m: (0, -m, 1), False),
        # A start that is never positive counts from the end, but zero is the front.
        (lambda n, m: (-m, None, 1), False),
        (lambda n, m: (-m, n + m, 2), False),
        (lambda n, m: (-n - m, None, 1), False),
        (lambda n, m: (-m - 1, None, 1), False),
        # A start that is negative for some sizes counts from the end for those.
        (lambda n, m: (n - m, None, 1), False),
        (lambda n, m: (n + m - 3, None, 2), False),
        (lambda n, m: (maximum(n - m, 0), None, 1), True),
        (lambda n, m: (m, n, 1), False),
        (lambda n, m: (-2, n, 1), False),
    ],
)
def test_a_slice_with_symbolic_bounds(bounds: Any, known: bool) -> None:
    """The sliced axis has n + m elements."""

    def cut(x: Any, y: Any) -> Any:
        both = p.concat([x, y], 0)
        return p.slice_axis(both, 0, *bounds(x.shape[0], y.shape[0]))

    feeds = [[numbers(n), numbers(m)] for n in LENGTHS for m in range(4)]
    assert measure(cut, vectors("n", "m"), feeds) is known


@pytest.mark.parametrize("length", [0, 1, 5])
@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_a_slice_of_a_known_axis_equals_pythons(length: int, step: int) -> None:
    """The other axis of the tensor is symbolic and keeps its size."""
    for start in (-9, -5, -1, 0, 1, 4, 9):
        for end in (None, -9, -5, -1, 0, 1, 4, 9):

            def cut(x: Any, start: int = start, end: Any = end) -> Any:
                return p.slice_axis(x, 1, start, end, step)

            array = numbers(2, length)
            np.testing.assert_array_equal(cut(lift(array)).value, array[:, start:end:step])
            program = record_program(lambda x, cut=cut: [cut(x)], [Port("x", float32, ("n", length))], Reference())
            np.testing.assert_array_equal(emit(program.region, Reference(), [array])[0], array[:, start:end:step])
            assert program.region.outputs[0].spec.shape[1] == len(range(length)[start:end:step])


@pytest.mark.parametrize("end", [None, 4, FAR])
def test_a_slice_of_a_known_axis_may_start_at_a_symbolic_position(end: Any) -> None:
    def cut(x: Any, y: Any) -> Any:
        return p.slice_axis(x, 0, y.shape[0], end)

    ports = [Port("x", float32, (5,)), Port("y", float32, ("m",))]
    feeds = [[numbers(5), numbers(m)] for m in range(7)]
    assert measure(cut, ports, feeds) is (end != 4)
    for feed in feeds:
        np.testing.assert_array_equal(cut(*map(lift, feed)).value, numbers(5)[len(feed[1]) : end])


def test_a_slice_of_a_known_axis_may_end_at_a_symbolic_position() -> None:
    def cut(x: Any, y: Any) -> Any:
        return p.slice_axis(x, 0, 0, y.shape[0])

    ports = [Port("x", float32, (5,)), Port("y", float32, ("m",))]
    assert measure(cut, ports, [[numbers(5), numbers(m)] for m in range(7)])


def test_a_slice_of_the_whole_tensor_is_no_node() -> None:
    def cuts(x: Any) -> Any:
        return [p.slice(x, [0, 0], ends, [1, 1]) for ends in ([None, None], [FAR, 3], [x.shape[0], 9])]

    program = record_program(cuts, [Port("x", float32, ("n", 3))], Reference())
    assert not program.region.live()
    backwards = record_program(
        lambda x: [p.slice(x, [0, -1], [None, None], [1, -1])], [Port("x", float32, ("n", 3))], Reference()
    )
    assert [node.primitive for node in backwards.region.live()] == ["slice"]


# -- other primitives that change sizes --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("function", "known"),
    [
        (lambda x, y: p.concat([x, y, x], 0), True),
        (lambda x, y: p.tile(x, [3]), True),
        (lambda x, y: p.tile(x, [y.shape[0]]), True),
        (lambda x, y: p.pad(x, [2], [y.shape[0]]), True),
        (lambda x, y: p.iota(x.shape[0]), True),
        (lambda x, y: p.arange(lift(2, int64), lift(x.shape[0], int64), lift(3, int64)), True),
        (lambda x, y: p.arange(lift(y.shape[0], int64), lift(x.shape[0], int64), lift(2, int64)), True),
        (lambda x, y: p.arange(lift(x.shape[0], int64), lift(0, int64), lift(-1, int64)), False),
        (lambda x, y: p.arange(lift(0, int64), p.reduce_sum(p.cast(x, int64), [0]), lift(1, int64)), False),
        (lambda x, y: p.arange(p.reduce_sum(p.cast(x, int64), [0]), lift(9, int64), lift(1, int64)), False),
        (lambda x, y: p.arange(lift(0, int64), lift(9, int64), p.cast(p.iota(x.shape[0]).shape[0] + 1, int64)), False),
        (lambda x, y: p.nonzero(x), False),
        (lambda x, y: p.reshape(x, [1, -1]), True),
        (lambda x, y: p.matmul(p.unsqueeze(x, [1]), p.unsqueeze(y, [0])), True),
        (lambda x, y: p.reduce_sum(p.mul(p.unsqueeze(x, [1]), y), [0]), True),
        (lambda x, y: p.reduce_sum(p.mul(p.unsqueeze(x, [1]), y), [1], keepdims=True), True),
        (lambda x, y: p.broadcast_to(x, [y.shape[0], x.shape[0]]), True),
    ],
)
def test_sizes_that_follow_from_the_inputs(function: Any, known: bool) -> None:
    feeds = [[numbers(n), numbers(m)] for n in range(1, 6) for m in range(1, 4)]
    assert measure(function, vectors("n", "m"), feeds) is known


def test_a_range_to_a_fed_number_has_a_new_size() -> None:
    def count(stop: Any) -> Any:
        return p.arange(lift(0, int64), stop, lift(1, int64))

    feeds = [[np.array(stop)] for stop in (0, 3, -2)]
    assert not measure(count, [Port("stop", int64, ())], feeds)


def test_sizes_of_split_texts_and_decoded_images_are_new() -> None:
    shapes: List[Any] = []

    def body(texts: Any, image: Any) -> Any:
        parts, counts = p.string_split(texts, ",", None)
        pixels = p.image_decode(image, 3)
        shapes.append((parts.shape, counts.shape, pixels.shape))
        return [parts, counts, pixels]

    ports = [Port("texts", string, ("n", 2)), Port("image", uint8, (None,))]
    program = record_program(body, ports, Reference())
    ((n, _),) = [input_value.spec.shape for input_value in program.region.inputs[:1]]
    ((parts, counts, pixels),) = shapes
    assert is_equal_shape(counts, (n, 2)) and is_equal_shape(parts[:2], (n, 2)) and len(parts) == len(pixels) == 3
    assert not is_static(parts[2]) and [is_static(size) for size in pixels] == [False, False, True]
    assert pixels[2] == 3


IMAGE = [Port("x", float32, ("n", 2, "h", "w"))]
IMAGES = [[np.ones((n, 2, height, width), np.float32)] for n, height, width in [(1, 4, 5), (2, 7, 6), (3, 5, 8)]]
FILTERS = np.ones((3, 2, 3, 2), np.float32)


@pytest.mark.parametrize("strides", [(1, 1), (2, 3)])
@pytest.mark.parametrize("dilations", [(1, 1), (1, 2)])
def test_the_sizes_of_windows(strides: Any, dilations: Any) -> None:
    window = Window.of((3, 2), strides, dilations)
    padded = window._replace(pads=((1, 0), (2, 1)))
    functions: List[Tuple[Callable[[Any], Any], int]] = [
        (lambda x: p.conv(x, FILTERS, window=padded), 3),
        (lambda x: p.conv(x, np.ones((4, 1, 3, 2), "f"), window=padded, groups=2), 4),
        (lambda x: p.conv_transpose(x, np.ones((2, 3, 3, 2), "f"), window=window), 3),
        (lambda x: p.conv_transpose(x, np.ones((2, 3, 3, 2), "f"), window=window, groups=2), 6),
        (lambda x: p.max_pool(x, padded), 2),
        (lambda x: p.avg_pool(x, window), 2),
    ]
    for function, channels in functions:
        assert measure(function, IMAGE, IMAGES)
        expected = [function(lift(*feed)).value.shape for feed in IMAGES]
        for emitter in (Reference(), ChannelsLast()):
            shapes = [_traced_shape(function, feed[0].shape, emitter) for feed in IMAGES]
            assert shapes == expected, "logical sizes do not depend on the layout of the shim"
        assert all(shape[1] == channels for shape in expected)


def _traced_shape(function: Callable[[Any], Any], shape: Sequence[int], emitter: Any) -> Any:
    """Return the logical shape of the result of a function that is traced for an emitter."""
    shapes: List[Any] = []

    def body(x: Any) -> Any:
        result = function(x)
        shapes.append(result.shape)
        return [result]

    record_program(body, [Port("x", float32, tuple(shape))], emitter)
    return shapes[0]


@pytest.mark.parametrize(("transpose_x", "transpose_y"), [(False, False), (True, False), (False, True), (True, True)])
def test_the_sizes_of_products(transpose_x: bool, transpose_y: bool) -> None:
    x, y = numbers(2, 1, 3, 4), numbers(5, 4, 6)
    stored = [np.swapaxes(x, -1, -2) if transpose_x else x, np.swapaxes(y, -1, -2) if transpose_y else y]
    ports = [Port(name, float32, array.shape) for name, array in zip("xy", stored)]
    program = record_program(
        lambda x, y: [p.matmul(x, y, transpose_x=transpose_x, transpose_y=transpose_y)], ports, Reference()
    )
    assert program.region.outputs[0].spec.shape == (2, 5, 3, 6)
    np.testing.assert_array_equal(emit(program.region, Reference(), stored)[0], x @ y)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: p.take(x, np.zeros((5, 2), np.int64), 1),
        lambda x: p.take(x, np.int64(0), 0),
        lambda x: p.take_along(x, np.zeros((2, 3, 1), np.int64), 2),
        lambda x: p.gather_nd(x, np.zeros((7, 2), np.int64)),
        lambda x: p.gather_nd(x, np.zeros((2, 7, 1), np.int64), batch_dims=1),
        lambda x: p.top_k(x, 2, 1)[0],
        lambda x: p.top_k(x, 2, 2)[1],
        lambda x: p.argmax(x, 1),
        lambda x: p.argmin(x, 0),
        lambda x: p.reduce_max(x, [0, 2]),
        lambda x: p.reduce_max(x, [0, 2], keepdims=True),
        lambda x: p.transpose(x, [2, 0, 1]) + 0,
        lambda x: p.cast(x, bool_),
        lambda x: p.cumsum(x, 1),
        lambda x: p.concat([x, x], 2),
        lambda x: p.reverse(x, [1]),
    ],
)
def test_static_sizes_are_those_of_the_reference(function: Any) -> None:
    x = numbers(2, 3, 4)
    eager = function(lift(x))
    traced: List[Any] = []

    def body(tensor: Any) -> Any:
        traced.append(function(tensor))
        return [traced[0]]

    program = record_program(body, [Port("x", float32, x.shape)], Reference())
    assert (traced[0].shape, traced[0].dtype) == (eager.shape, eager.dtype)
    np.testing.assert_array_equal(emit(program.region, Reference(), [x])[0], eager.value)


def test_joined_tensors_take_a_known_size_from_any_of_them() -> None:
    """The sizes of axes that are not concatenated must agree. If one tensor has a static size there, so has the result."""
    ports = [Port("x", float32, ("n", "m", 2)), Port("y", float32, ("k", 3, 2))]
    shapes: List[Any] = []

    def body(x: Any, y: Any) -> Any:
        shapes.append((p.concat([x, y], 0).shape, x.shape, y.shape))
        return [x, y]

    record_program(body, ports, Reference())
    ((joined, x, y),) = shapes
    assert is_static(joined[1]) and joined[1:] == (3, 2)
    assert joined[0] == x[0] + y[0]


def test_tensors_that_cannot_be_joined_are_refused() -> None:
    for shapes in [((2, 3), (2, 4)), ((2, 3), (2, 3, 1)), ((), ())]:
        with pytest.raises(InvalidModelError):
            p.concat([lift(numbers(*shape)) for shape in shapes], 0)
        ports = [Port(name, float32, shape) for name, shape in zip("xy", shapes)]
        with pytest.raises(InvalidModelError):
            record_program(lambda x, y: [p.concat([x, y], 0)], ports, Reference())
