"""Shapes, slices and indices, with static and with symbolic sizes."""

import numpy as np
import pytest
from meanings import apply_operator, meaning, primitives, record_function

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, NeedsKnownError


@pytest.mark.parametrize(
    ("shape", "wanted", "allowzero", "expected"),
    [
        ((2, 3, 4), [0, -1], 0, (2, 12)),
        ((2, 3, 4), [4, 0, -1], 0, (4, 3, 2)),
        ((0, 3), [0, 5], 1, (0, 5)),
        ((0, 3), [-1, 3], 0, (0, 3)),
        ((2, 3), [-1], 0, (6,)),
        ((1,), [], 0, ()),
    ],
)
def test_reshape(shape, wanted, allowzero, expected):
    x = np.zeros(shape, np.float32)
    assert apply_operator("Reshape", 14, x, np.array(wanted, np.int64), allowzero=allowzero).shape == expected


def test_an_invalid_reshape_is_refused():
    with pytest.raises(InvalidModelError, match="cannot be reshaped"):
        apply_operator("Reshape", 13, np.zeros((2, 3), np.float32), np.array([4, 2]))
    with pytest.raises(InvalidModelError, match="more than one -1"):
        apply_operator("Reshape", 13, np.zeros((2, 3), np.float32), np.array([-1, -1]))


def test_a_reshape_by_symbols_leaves_no_arithmetic():
    """Shape -> Gather -> Concat -> Reshape, as exporters write a reshape for any batch size."""

    def function(x):
        batch = meaning("Gather", 13)(meaning("Shape", 13)(x), np.array([0]))
        return meaning("Reshape", 13)(x, p.concat([batch, np.array([-1, 4])], 0))

    run = record_function(function, ["n", "t", 8])
    assert primitives(run) == ["reshape"]
    for n, t in ((2, 3), (5, 1)):
        assert run(np.zeros((n, t, 8), np.float32)).shape == (n, 2 * t, 4)


def test_a_reshape_to_numbers_of_the_run_is_specialised():
    with pytest.raises(NeedsKnownError, match="shape of a Reshape"):
        record_function(lambda x, s: meaning("Reshape", 13)(x, p.cast(s, p.shape_of(x).dtype)), [4], [2])


def test_expand_as_exporters_write_it():
    """The expression Where(shape == -1, 1, shape) is folded while tracing."""

    def function(x):
        wanted = p.concat([meaning("Shape", 13)(x), np.array([-1])], 0)
        wanted = p.where(p.equal(wanted, -1), 1, wanted)
        return meaning("Expand", 13)(p.unsqueeze(x, [1]), wanted)

    run = record_function(function, ["n"])
    assert run([1.0, 2.0]).tolist() == [[1], [2]]
    assert "where" not in primitives(run)


def test_an_expand_before_arithmetic_is_a_broadcast():
    def scale(x, y):
        return p.mul(x, p.broadcast_to(y, x.shape))

    def permute(y):
        return p.transpose(p.broadcast_to(y, (4, 3, 2)), (2, 1, 0))

    x, y = (np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape) for shape in ((2, 3, 4), (3, 1)))
    for shape in ([2, 3, 4], ["n", 3, 4]):
        run = record_function(scale, shape, [3, 1])
        assert run(x, y).tolist() == (x * y).tolist()
        assert primitives(run) == ["mul"]
    run = record_function(lambda x, y: p.where(p.less(x, 9.0), x, permute(y)), [2, 3, 4], [3, 1])
    assert run(x, y).tolist() == np.where(x < 9, x, y[None, :, 0, None]).tolist()
    assert "broadcast_to" in primitives(run)  # of fewer axes, and transposed


def test_an_expand_beyond_arithmetic_stays():
    def both(x, y):
        return p.add(p.broadcast_to(x, (2, 3)), p.broadcast_to(y, (2, 3)))

    assert record_function(both, [3], [1])([1.0, 2.0, 3.0], [1.0]).tolist() == [[2, 3, 4]] * 2
    run = record_function(both, [2, 1], [1, 3])
    assert run([[1.0], [2.0]], [[1.0, 2.0, 3.0]]).tolist() == [[2, 3, 4], [3, 4, 5]]
    assert primitives(run) == ["add"]


def test_expand_broadcasts_both_operands():
    x = np.arange(3, dtype=np.float32).reshape(3, 1)
    assert apply_operator("Expand", 8, x, np.array([2, 1, 4])).shape == (2, 3, 4)
    assert apply_operator("Expand", 8, x, np.array([1])).shape == (3, 1)


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps", "expected"),
    [
        ([1], [2**63 - 1], [0], [1], [1, 2, 3, 4]),
        ([-1], [-(2**63)], [0], [-1], [4, 3, 2, 1, 0]),
        ([-2], [-1], [0], [1], [3]),
        ([4], [0], [-1], [-2], [4, 2]),
        ([9], [20], [0], [1], []),
    ],
)
def test_slices(starts, ends, axes, steps, expected):
    bounds = [np.array(item, np.int64) for item in (starts, ends, axes, steps)]
    assert apply_operator("Slice", 13, np.arange(5, dtype=np.float32), *bounds).tolist() == expected
    later = record_function(lambda x: meaning("Slice", 13)(x, *bounds), ["n"])
    assert later(np.arange(5, dtype=np.float32)).tolist() == expected


def test_a_slice_by_a_symbol():
    def function(x, y):
        return meaning("Slice", 13)(x, np.array([0]), p.shape_of(y), np.array([1]))

    run = record_function(function, [2, None], [None])
    assert run(np.zeros((2, 9), np.float32), np.zeros(4, np.float32)).shape == (2, 4)


def test_one_index_is_a_slice():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    run = record_function(lambda x: meaning("Gather", 13)(x, np.array(-1), axis=1), ["n", None])
    assert "take" not in primitives(run)
    assert run(x).tolist() == [2, 5]


def test_a_split_with_a_smaller_last_part():
    class Two:
        outputs = 2

    parts = meaning("Split", 18)(Two, np.arange(5, dtype=np.float32), num_outputs=2)
    assert [part.value.tolist() for part in parts] == [[0, 1, 2], [3, 4]]
    later = record_function(lambda x: meaning("Split", 18)(Two, x, num_outputs=2), ["n"])
    assert [part.tolist() for part in later([1.0, 2.0, 3.0])] == [[1, 2], [3]]
    with pytest.raises(InvalidModelError, match="equal parts"):
        meaning("Split", 11)(Two, np.zeros(5, np.float32))


def test_padding():
    x = np.array([[1.0, 2.0, 3.0]], np.float32)
    assert apply_operator("Pad", 2, x, pads=[0, 1, 0, -1], value=9.0).tolist() == [[9, 1, 2]]
    assert apply_operator("Pad", 18, x, np.array([2, 0]), None, np.array([-1]), mode="reflect").tolist() == [
        [3, 2, 1, 2, 3]
    ]
    assert apply_operator("Pad", 19, x, np.array([0, 1, 0, 0]), mode="wrap").tolist() == [[3, 1, 2, 3]]


def test_squeeze_and_unsqueeze():
    x = np.zeros((1, 3, 1), np.float32)
    assert apply_operator("Squeeze", 11, x).shape == (3,)
    assert apply_operator("Squeeze", 13, x, np.array([-1])).shape == (1, 3)
    assert apply_operator("Unsqueeze", 13, x, np.array([0, -1])).shape == (1, 1, 3, 1, 1)
    with pytest.raises(InvalidModelError, match="not of length one"):
        apply_operator("Squeeze", 13, x, np.array([1]))
    with pytest.raises(NeedsKnownError):
        record_function(meaning("Squeeze", 13), [1, None])


def test_shape_of_a_part():
    x = np.zeros((2, 3, 4), np.float32)
    assert apply_operator("Shape", 15, x, start=-2).tolist() == [3, 4]
    assert apply_operator("Shape", 15, x, start=2, end=1).tolist() == []
    assert apply_operator("Size", 13, x) == 24


def test_triangles():
    x = np.ones((2, 3), np.float32)
    assert apply_operator("Trilu", 14, x).tolist() == [[1, 1, 1], [0, 1, 1]]
    assert apply_operator("Trilu", 14, x, np.array(-1), upper=0).tolist() == [[0, 0, 0], [1, 0, 0]]


def test_scattering_along_an_axis():
    x, indices, updates = np.zeros((2, 3), np.float32), np.array([[-1], [0]]), np.array([[5], [7]], np.float32)
    assert apply_operator("ScatterElements", 18, x, indices, updates, axis=1).tolist() == [[0, 0, 5], [7, 0, 0]]
    twice = apply_operator(
        "ScatterElements", 18, x, np.array([[1, 1]]), np.array([[2, 3]], np.float32), axis=1, reduction="add"
    )
    assert twice.tolist() == [[0, 5, 0], [0, 0, 0]]


def test_indices_from_the_end():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert apply_operator("GatherND", 13, x, np.array([[-1, -1], [0, 1]])).tolist() == [5, 1]
    assert apply_operator("GatherElements", 13, x, np.array([[-1, 0]]), axis=1).tolist() == [[2, 0]]
    hot = apply_operator("OneHot", 11, np.array([-1, 7, 0]), np.array([3]), np.array([2, 5]))
    assert hot.tolist() == [[2, 2, 5], [2, 2, 2], [5, 2, 2]]


def test_sequences_are_reversed():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert apply_operator("ReverseSequence", 10, x, np.array([3, 2])).tolist() == [[4, 3], [2, 1], [0, 5]]
    transposed = apply_operator("ReverseSequence", 10, x.T, np.array([3, 2]), batch_axis=0, time_axis=1)
    assert transposed.tolist() == [[4, 2, 0], [3, 1, 5]]


def test_einsum():
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(12, dtype=np.float32).reshape(3, 4)
    for equation, arrays in (
        ("ij,jk->ik", (x, y)),
        ("ij->ji", (x,)),
        ("ij,ij", (x, x)),
        ("...j,jk", (x, y)),
        ("ij,jk->", (x, y)),
    ):
        expected = np.einsum(equation, *arrays)
        np.testing.assert_allclose(apply_operator("Einsum", 12, *arrays, equation=equation), expected)
    assert apply_operator("Einsum", 12, np.eye(3, dtype=np.float32) * 2, equation="ii") == 6
