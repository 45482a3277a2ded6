"""Physical orders: the common order of several operands, and the order after axes are added, removed or reshaped."""

import itertools
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np
import pytest

from onnx_compat import primitives as p
from onnx_compat.ir import Const
from onnx_compat.ir.dims import Dim
from onnx_compat.ir.dtypes import float32
from onnx_compat.reference import Reference
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.layout import (
    channels_last_order,
    common_order,
    normalize_order,
    order_with_axes,
    order_without_axes,
    permute_shape,
    physical_axis,
    reshape_orders,
)
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import lift

LAST = (0, 2, 3, 1)
N, C = (Dim.atom("axis", name, 0) for name in "nc")


class ChannelsLast(Reference):
    """The reference as a shim that stores images channels-last."""

    layout = "channels_last"


def numbers(shape: Sequence[int]) -> np.ndarray:
    """Return an array whose elements are all different."""
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def to_physical(logical: np.ndarray, order: Optional[Sequence[int]]) -> np.ndarray:
    """Permute a logical array to its physical order."""
    return logical if order is None else logical.transpose(order)


# -- names of orders ---------------------------------------------------------------------------------------------------
def test_the_order_as_written_is_none() -> None:
    assert normalize_order(None) is None
    assert normalize_order([0, 1, 2]) is None
    assert normalize_order([0, 2, 1]) == (0, 2, 1)


def test_channels_are_last_behind_all_spatial_axes() -> None:
    assert [channels_last_order(rank) for rank in (2, 3, 4, 5)] == [None, (0, 2, 1), LAST, (0, 2, 3, 4, 1)]


def test_axes_and_shapes_in_physical_order() -> None:
    assert [physical_axis(axis, LAST) for axis in range(4)] == [0, 3, 1, 2]
    assert physical_axis(2, None) == 2
    assert permute_shape(["N", "C", "H", "W"], LAST) == ("N", "H", "W", "C")
    assert permute_shape(["N", "C"], None) == ("N", "C")


# -- the order in which operands meet ----------------------------------------------------------------------------------
def meet(operands: Sequence[Tuple[Any, Optional[Sequence[int]]]], rank: int = 3) -> Any:
    """Return the common physical order of operands.

    Each operand is a shape, and the permutation of a transpose of it (or None).
    """
    orders: List[Any] = []

    def function(*tensors: Any) -> Any:
        permuted_operands = [x if perm is None else p.transpose(x, perm) for x, (_, perm) in zip(tensors, operands)]
        orders.append(common_order(permuted_operands, rank))
        return list(tensors)

    ports = [Port("x%d" % k, float32, shape) for k, (shape, _) in enumerate(operands)]
    record_program(function, ports, Reference())
    return orders[0]


IMAGE = (0, 2, 1)  # of rank 3, it is its own inverse
REVERSED = (2, 1, 0)


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ([((2, 3, 4), None), ((2, 3, 4), None)], None),
        ([((2, 4, 3), IMAGE), ((2, 3, 4), None)], IMAGE),
        ([((2, 3, 4), None), ((2, 4, 3), IMAGE)], IMAGE),
        # Of two pending orders, the order of more elements.
        ([((1, 4, 3), IMAGE), ((4, 3, 2), REVERSED)], REVERSED),
        ([((2, 4, 3), IMAGE), ((4, 3, 1), REVERSED)], IMAGE),
        # An order that no convolution requests loses to an operand as written that is not smaller.
        ([((4, 3, 2), REVERSED), ((2, 3, 4), None)], None),
        ([((4, 3, 2), REVERSED), ((1, 3, 4), None)], REVERSED),
        # A symbolic size counts as 64 elements.
        ([(("n", 3, 4), REVERSED), ((4, 3, 63), None)], REVERSED),
        ([(("n", 3, 4), REVERSED), ((4, 3, 64), None)], None),
        # Operands of a lower rank follow.
        ([((2, 4, 3), IMAGE), ((3, 400), None)], IMAGE),
        ([((2, 4), (1, 0)), ((2, 3, 4), None)], None),
    ],
)
def test_operands_meet_in_an_order_that_moves_few_elements(operands: Any, expected: Any) -> None:
    assert meet(operands) == expected


def test_a_constant_does_not_decide_the_order() -> None:
    orders: List[Any] = []

    def function(x: Any) -> Any:
        orders.append(common_order([p.transpose(x, REVERSED), lift(numbers((2, 3, 4)))], 3))
        return [x]

    record_program(function, [Port("x", float32, (4, 3, 2))], Reference())
    assert orders == [REVERSED], "a constant is stored in any order at no cost"


# -- axes of length one ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_removed_axes_leave_the_other_axes_in_order(order: Tuple[int, ...]) -> None:
    for axes in [(1,), (0, 3), (2, 1, 3)]:
        shape = [1 if axis in axes else axis + 2 for axis in range(4)]
        logical = numbers(shape)
        rest = order_without_axes(order, axes)
        expected = np.squeeze(to_physical(logical, order))
        np.testing.assert_array_equal(to_physical(np.squeeze(logical, tuple(axes)), rest), expected)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_inserted_axes_move_no_element(order: Tuple[int, ...]) -> None:
    logical = numbers((2, 3, 4))
    for axes in [(0,), (3,), (1, 2), (0, 4), (4, 3)]:
        rank = 3 + len(axes)
        there = order_with_axes(order, axes, rank)
        expanded = np.expand_dims(logical, tuple(axes))
        physical = to_physical(expanded, there)
        np.testing.assert_array_equal(physical.reshape(-1), to_physical(logical, order).reshape(-1))


@pytest.mark.parametrize(
    ("order", "axes", "expected"),
    [
        ((0, 2, 1), [0], (0, 1, 3, 2)),
        ((0, 2, 1), [1], (0, 3, 1, 2)),
        ((0, 2, 1), [2], (0, 2, 3, 1)),
        ((1, 0), [2], (1, 0, 2)),
        ((1, 0), [0, 1], (3, 0, 1, 2)),
        ((2, 1, 0), [1, 4], (3, 1, 2, 0, 4)),
    ],
)
def test_an_axis_is_stored_before_the_logical_axis_that_follows(order: Any, axes: Any, expected: Any) -> None:
    assert order_with_axes(order, axes, len(order) + len(axes)) == expected


def test_the_order_as_written_stays() -> None:
    assert order_with_axes(None, [0], 3) is None
    assert order_without_axes(None, [0]) is None
    assert order_without_axes((1, 0), [0]) is None


# -- reshapes ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("before", "order", "after", "expected"),
    [
        # Pixels in a row, channels last: nothing moves.
        ((2, 3, 4, 5), LAST, (2, 3, 20), (LAST, (0, 2, 1))),
        ((N, C, 4, 5), LAST, (N, C, 20), (LAST, (0, 2, 1))),
        ((N, 3, 4, C), LAST, (N, 3, 4 * C), (LAST, (0, 2, 1))),
        # Channels in groups stay together.
        ((2, 6, 4, 5), LAST, (2, 2, 3, 4, 5), (LAST, (0, 3, 4, 1, 2))),
        ((N, 2 * C, 4, 5), LAST, (N, 2, C, 4, 5), (LAST, (0, 3, 4, 1, 2))),
        # Pixels that are stored out of order are put in order, where they are.
        ((2, 3, 4, 5), (0, 3, 2, 1), (2, 3, 20), (LAST, (0, 2, 1))),
        ((2, 3, 4, 2, 5, 2), (0, 2, 4, 3, 5, 1), (2, 3, 80), ((0, 2, 3, 4, 5, 1), (0, 2, 1))),
        # Pixels that are stored apart: as written.
        ((2, 3, 4, 5), (2, 0, 1, 3), (2, 3, 20), (None, None)),
        # Channels and pixels in one axis: as written.
        ((2, 3, 4, 5), LAST, (2, 60), (None, None)),
        ((N, C, 4, 5), LAST, (N, 20 * C), (None, None)),
        # Axes of length one follow.
        ((2, 3, 4, 5), LAST, (2, 1, 3, 20), (LAST, (0, 1, 3, 2))),
        ((2, 3, 4, 5), LAST, (2, 3, 1, 20), (LAST, LAST)),
        ((2, 3, 4, 1), LAST, (2, 3, 4), (LAST, (0, 2, 1))),
        ((2, 1, 4, 5), LAST, (2, 4, 5), (LAST, None)),
        ((2, 3), (1, 0), (2, 3, 1), ((1, 0), (1, 0, 2))),
        # Sizes of which it is not known which holds which: as written.
        ((N, C, 4, 5), LAST, (C, N, 20), (None, None)),
        ((2, 3, 4), None, (6, 4), (None, None)),
    ],
)
def test_a_reshape_keeps_groups_of_axes_in_physical_order(before: Any, order: Any, after: Any, expected: Any) -> None:
    assert reshape_orders(before, order, after) == expected


def shape_factors(size: int) -> List[Tuple[int, ...]]:
    """Return all shapes with `size` elements and up to three axes, each of length 2 or more."""
    shapes = [(size,)]
    for first in range(2, size):
        if size % first == 0:
            shapes += [(first, *rest) for rest in shape_factors(size // first) if len(rest) < 3]
    return shapes


def test_every_reshape_of_24_elements_in_every_order() -> None:
    for before, after in itertools.product(shape_factors(24), repeat=2):
        logical = numbers(before)
        for order in itertools.permutations(range(len(before))):
            source_order, result_order = reshape_orders(before, normalize_order(order), after)
            physical = to_physical(logical, source_order).reshape(permute_shape(after, result_order))
            np.testing.assert_array_equal(physical, to_physical(logical.reshape(after), result_order))
            if before == after:
                assert source_order == result_order == normalize_order(order), (
                    "a reshape to the same shape moves nothing"
                )


@pytest.mark.parametrize(
    ("before", "order", "after", "expected"),
    [
        ((4, 0, 3), (2, 1, 0), (4, 0), ((1, 2, 0), (1, 0))),
        ((4, 0), (1, 0), (4, 0, 3), ((1, 0), (1, 2, 0))),
        ((0, 3), (1, 0), (0,), (None, None)),
        ((3, 0, 2), (2, 0, 1), (3, 0), (None, None)),
        ((2, 0), (1, 0), (0, 5), (None, None)),
    ],
)
def test_a_reshape_of_no_elements_has_an_order_too(before: Any, order: Any, after: Any, expected: Any) -> None:
    assert reshape_orders(before, order, after) == expected


def image_orders(before: Any, order: Any, after: Any, emitter: Any) -> Any:
    """Return the physical orders of a reshape from `before`, stored in `order`, to `after`, while tracing for a shim."""
    orders: List[Any] = []

    def body(x: Any) -> Any:
        orders.append(reshape_orders(before, order, after))
        return [x]

    record_program(body, [Port("x", float32, (1,))], emitter)
    return orders[0]


BLOCKS = (0, 2, 4, 3, 5, 1)  # pixels before the two axes of a block, and channels last
PIXELS = (0, 4, 1, 5, 2, 3)  # pixels between the axes of a block, and channels last


@pytest.mark.parametrize(
    ("before", "order", "after", "expected"),
    [
        # [N, C, H, 2, W, 2] => [N, C, 2 * H, 2 * W]: blocks of channels become pixels.
        ((2, 3, 4, 2, 5, 2), BLOCKS, (2, 3, 8, 10), ((0, 2, 3, 4, 5, 1), LAST)),
        ((N, 3, 4, 2, 5, 2), BLOCKS, (N, 3, 8, 10), ((0, 2, 3, 4, 5, 1), LAST)),
        ((1, 3, 4, 2, 5, 2), BLOCKS, (1, 3, 8, 10), ((0, 2, 3, 4, 5, 1), LAST)),
        ((2, 1, 4, 2, 5, 2), BLOCKS, (2, 1, 8, 10), (None, LAST)),
        # [N, 2, 2, C, H, W] => [N, 4 * C, H, W]: pixels become channels.
        ((2, 2, 2, 3, 4, 5), PIXELS, (2, 12, 4, 5), ((0, 4, 5, 1, 2, 3), LAST)),
        # Channels that are stored before the pixels stay there.
        ((2, 3, 4, 2, 5, 2), (0, 1, 2, 4, 3, 5), (2, 3, 8, 10), (None, None)),
        ((2, 3, 4, 2, 5, 2), (0, 4, 2, 3, 5, 1), (2, 3, 8, 10), (None, None)),
        # No image, or axes that are cut apart.
        ((2, 3, 4, 2, 5, 2), BLOCKS, (2, 3, 8, 10, 1), (None, None)),
        ((2, 6, 4, 5), (2, 0, 1, 3), (2, 6, 10, 2), (None, None)),
    ],
)
def test_a_transposed_image_is_stored_channels_last(before: Any, order: Any, after: Any, expected: Any) -> None:
    assert image_orders(before, order, after, ChannelsLast()) == expected
    assert image_orders(before, order, after, Reference()) == (None, None), "only where convolutions want it so"


# -- operands of lower rank --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("shape", "perm", "stored_shape"),
    [
        ((), None, ()),
        ((1,), None, ()),
        ((1, 1), None, ()),
        ((1, 1), IMAGE, ()),
        ((1, 1, 1), None, (1, 1, 1)),
        ((4,), None, (4,)),
        ((3, 4), None, (3, 4)),
        ((4,), IMAGE, (1, 4, 1)),
        ((3, 4), IMAGE, (1, 4, 3)),
        ((2, 3, 4), IMAGE, (2, 4, 3)),
    ],
)
def test_a_constant_operand_is_stored_for_its_broadcast(shape: Any, perm: Any, stored_shape: Any) -> None:
    """A constant of one element becomes a scalar, which every framework broadcasts. Other constants get all axes."""

    def function(x: Any) -> Any:
        return [p.add(x if perm is None else p.transpose(x, perm), numbers(shape) + 1)]

    x = numbers((2, 3, 4) if perm is None else (2, 4, 3))
    program = record_program(function, [Port("x", float32, x.shape)], ChannelsLast())
    (add,) = [node for node in program.region.live() if node.primitive == "add"]
    (constant,) = [arg for arg in add.args if isinstance(arg, Const)]
    assert constant.array.shape == stored_shape
    expected = (x if perm is None else x.transpose(perm)) + numbers(shape) + 1
    np.testing.assert_array_equal(emit(program.region, ChannelsLast(), [x])[0], expected)


@pytest.mark.parametrize("perm", [(0, 2, 1), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 4), (3, 1), (1, 4), (2, 3, 4), (2, 1, 4), (1, 1, 1)])
@pytest.mark.parametrize("known", [True, False])
def test_an_operand_of_any_rank_broadcasts_to_a_pending_order(perm: Any, shape: Any, known: bool) -> None:
    back = [perm.index(axis) for axis in range(3)]
    x = numbers((2, 3, 4)).transpose(back)
    operand = 100 * numbers(shape) + 1

    def function(x: Any, y: Any) -> Any:
        return [p.sub(p.transpose(x, perm), operand if known else y), y]

    ports = [Port("x", float32, x.shape), Port("y", float32, operand.shape)]
    program = record_program(function, ports, ChannelsLast())
    result = emit(program.region, ChannelsLast(), [x, operand])[0]
    np.testing.assert_array_equal(result, numbers((2, 3, 4)) - operand)
