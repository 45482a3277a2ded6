"""Slices of symbolic axes: one operator if the slice ends at an edge of the axis or at a known distance from it."""

from typing import Any

import pytest
from programs import names

from onnx_compat import primitives as p

OPEN = (None, "t", 4)


@pytest.mark.parametrize("end", [None, -1, -3, 4, 0, 2**31 - 1])
@pytest.mark.parametrize("start", [0, 1, -2])
@pytest.mark.parametrize("step", [1, 2])
def test_of_an_open_axis(start: int, end: Any, step: int) -> None:
    for length in (6, 1, 2):
        result = names(lambda x: p.slice(x, [0, start, 0], [None, end, None], [1, step, 1]), OPEN, fed=[(2, length, 4)])
        assert result.count("STRIDED_SLICE") <= 1 and "PACK" not in result


@pytest.mark.parametrize("start", [0, 1])
def test_up_to_a_position_before_the_end(start: int) -> None:
    """The end of the slice is a symbolic size, as after a transposed convolution."""

    def cut(x: Any) -> Any:
        longer = p.pad(x, [0, 1, 0], [0, 2, 0])
        return p.slice(longer, [0, start, 0], [None, x.shape[1] + 1, None], [1, 1, 1])

    for length in (5, 2, 1):
        assert names(cut, OPEN, fed=[(2, length, 4)])[1:] == ["STRIDED_SLICE"]


def test_up_to_a_size_that_is_independent_of_the_axis() -> None:
    def cut(x: Any, y: Any) -> Any:
        return p.slice(x, [0, 1, 0], [None, y.shape[0], None], [1, 1, 1])

    for length in (2, 5, 9):
        assert "SHAPE" in names(cut, OPEN, ("n",), fed=[(2, 6, 4), (length,)])


def test_backwards_beside_an_open_end() -> None:
    def cut(x: Any) -> Any:
        return p.slice(x, [0, 3, -1], [None, 0, None], [1, -1, -1])

    assert len(names(cut, OPEN, fed=[(2, 6, 4)])) == 1


def test_an_empty_slice_forwards_and_backwards() -> None:
    """A slice with step -1 from 3 to an end far beyond the axis is empty."""

    def cut(x: Any) -> Any:
        return p.slice(x, [0, 1, 3], [None, None, 2**31 - 1], [1, 1, -1])

    assert len(names(cut, OPEN, fed=[(2, 6, 4)])) <= 1
