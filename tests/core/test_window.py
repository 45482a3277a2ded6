"""The sliding window that convolutions and pools take, and what a primitive refuses of it."""

from typing import Any

import numpy as np
import pytest

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.window import Window

IMAGE = np.ones((1, 2, 5, 7), np.float32)
FILTERS = np.ones((2, 2, 3, 2), np.float32)


def test_the_defaults_are_steps_of_one_without_padding() -> None:
    assert Window.of([3, 2]) == Window((3, 2), (1, 1), (1, 1), ((0, 0), (0, 0)))
    assert not Window.of([3, 2]).is_dilated and not Window.of([3, 2]).is_padded


def test_the_sizes_of_results() -> None:
    window = Window.of([3, 2], [2, 1], [1, 3], [(1, 1), (0, 2)])
    assert window.is_dilated and window.is_padded
    assert window.spans == [3, 4]
    assert window.counts([5, 7]) == [3, 6]
    assert window.transposed_sizes([5, 7]) == [11, 10]
    assert not window.without_pads().is_padded


@pytest.mark.parametrize(
    ("size", "stride", "total", "pads"),
    [
        (5, 1, 4, (2, 2)),
        (None, 1, 4, (2, 2)),
        (5, 2, 4, (2, 2)),
        (6, 2, 3, (1, 2)),
        (None, 2, None, None),
        (9, 7, 3, (1, 2)),
    ],
)
def test_padding_that_equals_same(size: Any, stride: int, total: Any, pads: Any) -> None:
    window = Window.of([3], [stride], [2])
    assert window.same_padding([size]) == [total]
    assert not window._replace(pads=((2, 3),)).has_same_padding([size])
    assert pads is None or window._replace(pads=(pads,)).has_same_padding([size])


def test_a_window_that_skips_the_end_has_no_padding() -> None:
    window = Window.of([1], [4])
    assert window.same_padding([7]) == [-2] and window.has_same_padding([7])


def test_a_kernel_of_unknown_size_decides_no_padding() -> None:
    assert Window.of([None]).same_padding([5]) == [None]
    assert not Window.of([None]).has_same_padding([5])


def test_a_single_axis_becomes_a_plane_of_height_one() -> None:
    plane = Window.of([3], [2], [4], [(1, 0)]).as_plane()
    assert plane == Window((1, 3), (1, 2), (1, 4), ((0, 0), (1, 0)))


@pytest.mark.parametrize("primitive", [p.conv, p.conv_transpose])
def test_a_kernel_of_another_size_than_the_filters_is_refused(primitive: Any) -> None:
    with pytest.raises(InvalidModelError, match="kernel is 3, that of the filters is 2"):
        primitive(IMAGE, FILTERS, window=Window.of([3, 3]))
    with pytest.raises(InvalidModelError, match="a kernel of 1 axes does not fit"):
        primitive(IMAGE, FILTERS, window=Window.of([3]))


def test_padding_is_refused_where_the_primitive_has_none() -> None:
    padded = Window.of([3, 2], pads=[(1, 0), (0, 0)])
    with pytest.raises(InvalidModelError, match="avg_pool takes no padding"):
        p.avg_pool(IMAGE, padded)
    with pytest.raises(InvalidModelError, match="conv_transpose takes no padding"):
        p.conv_transpose(IMAGE, FILTERS, window=padded)
