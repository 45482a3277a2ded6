"""Transposed convolutions whose result is cropped: one operator if that equals padding SAME, with the reference's
results.
"""

from typing import Any, Sequence, Tuple

import numpy as np
import pytest
from programs import check_program

from matrix.harness.generators import per_test
from onnx_compat import primitives as p
from onnx_compat.ir.window import Window

RANDOM = per_test(np.random.RandomState(0))
OPEN = (None, 4, None, None)


def spread(x: Any, kernel: Sequence[int], strides: Sequence[int], cut: Sequence[Tuple[int, int]], **more: Any) -> Any:
    """Return a transposed convolution whose result is cropped. `cut`: (elements at the start, at the end) of each axis."""
    groups, window = more.get("groups", 1), Window.of(kernel, strides, more.get("dilations"))
    w = np.random.RandomState(1).standard_normal((4, 6 // groups, *kernel)).astype(np.float32)
    bias = np.arange(6, dtype=np.float32)
    y = p.conv_transpose(x, w, bias, window=window, groups=groups)
    starts, ends = zip(*[(low, size - high) for (low, high), size in zip(cut, y.shape[2:])])
    return p.slice(y, [0, 0, *starts], [None, None, *ends], [1] * y.rank)


def compile_slices(shape: Any, fed: Any, *how: Any, **more: Any) -> Any:
    result = check_program(lambda x: spread(x, *how, **more), shape, fed=[fed])
    return [op for op in result if op.builtin not in ("TRANSPOSE", "SHAPE", "MUL", "ADD")]


@pytest.mark.parametrize("shape", [(2, 4, 3, 5), OPEN])
@pytest.mark.parametrize(
    ("kernel", "strides", "cut"),
    [
        ((4, 4), (2, 2), [(1, 1), (1, 1)]),
        ((3, 3), (1, 1), [(1, 1), (1, 1)]),
        ((3, 3), (2, 2), [(0, 1), (0, 1)]),
        ((3, 3), (2, 2), [(1, 1), (1, 1)]),
        ((5, 4), (2, 3), [(1, 2), (0, 1)]),
        ((6, 3), (4, 1), [(1, 1), (1, 1)]),
        ((2, 2), (2, 2), [(0, 1), (0, 1)]),
        ((4, 2), (2, 2), [(1, 1), (0, 0)]),
    ],
)
def test_edges_that_same_padding_drops_are_not_computed(shape: Any, kernel: Any, strides: Any, cut: Any) -> None:
    (only,) = compile_slices(shape, (2, 4, 3, 5), kernel, strides, cut)
    assert only.builtin == "TRANSPOSE_CONV" and only.options["padding"] == "SAME"


@pytest.mark.parametrize(
    ("kernel", "strides", "cut"),
    [
        ((3, 3), (2, 2), [(1, 0), (1, 0)]),  # the greater half at the beginning
        ((4, 4), (2, 2), [(1, 1), (0, 2)]),
        ((4, 4), (2, 2), [(2, 2), (1, 1)]),  # more than a stride: places whose windows are not all inside
        ((5, 5), (2, 2), [(0, 0), (1, 2)]),  # an axis that keeps more than a stride for each place
    ],
)
@pytest.mark.parametrize("shape", [(2, 4, 3, 5), OPEN])
def test_other_edges_are_sliced(shape: Any, kernel: Any, strides: Any, cut: Any) -> None:
    convolution, *cuts = compile_slices(shape, (2, 4, 3, 5), kernel, strides, cut)
    assert convolution.options["padding"] == "VALID" and len(cuts) == 1


def test_along_one_axis_and_in_groups() -> None:
    for shape in ((2, 4, 7), (None, 4, None)):
        result = [op.builtin for op in compile_slices(shape, (2, 4, 7), (4,), (2,), [(1, 1)])]
        assert "SLICE" not in result and "STRIDED_SLICE" not in result
    result = compile_slices((2, 4, 3, 5), (2, 4, 3, 5), (4, 4), (2, 2), [(1, 1)] * 2, groups=2)
    assert [op.options["padding"] for op in result if op.builtin == "TRANSPOSE_CONV"] == ["SAME"] * 2


def test_dilations() -> None:
    (only,) = compile_slices((2, 4, 3, 5), (2, 4, 3, 5), (3, 3), (1, 1), [(2, 2)] * 2, dilations=(2, 2))
    assert only.options["padding"] == "SAME"


def test_volumes_are_cropped() -> None:
    result = compile_slices((1, 4, 3, 5, 2), (1, 4, 3, 5, 2), (4, 4, 4), (2, 2, 2), [(1, 1)] * 3)
    assert "CONV_3D_TRANSPOSE" in [op.builtin for op in result] and len(result) > 1


def test_a_result_with_other_readers_is_not_cropped() -> None:
    def both(x: Any) -> Any:
        w = np.random.RandomState(1).standard_normal((4, 6, 4, 4)).astype(np.float32)
        y = p.conv_transpose(x, w, window=Window.of((4, 4), (2, 2)))
        inner = p.slice(y, [0, 0, 1, 1], [None, None, -1, -1], [1] * 4)
        return p.add(p.reduce_max(y, [2, 3], True), inner)

    convolution = next(op for op in check_program(both, (2, 4, 3, 5)) if op.builtin == "TRANSPOSE_CONV")
    assert convolution.options["padding"] == "VALID"


def test_strided_and_channel_slices_stay() -> None:
    def cut(x: Any, steps: Sequence[int], channels: Tuple[int, Any]) -> Any:
        w = np.random.RandomState(1).standard_normal((4, 6, 4, 4)).astype(np.float32)
        y = p.conv_transpose(x, w, window=Window.of((4, 4), (2, 2)))
        return p.slice(y, [0, channels[0], 1, 1], [None, channels[1], -1, -1], steps)

    for steps, channels in (([1, 1, 2, 2], (0, None)), ([1] * 4, (1, 4)), ([1] * 4, (0, 5))):
        builtins = [op.builtin for op in check_program(lambda x, s=steps, c=channels: cut(x, s, c), (2, 4, 3, 5))]
        assert "SLICE" in builtins or "STRIDED_SLICE" in builtins


def test_sizes_are_computed_at_once() -> None:
    builtins = [
        op.builtin for op in check_program(lambda x: spread(x, (3, 3), (2, 2), [(0, 0)] * 2), OPEN, fed=[(2, 4, 3, 5)])
    ]
    assert sorted(builtins) == ["ADD", "MUL", "SHAPE", "TRANSPOSE", "TRANSPOSE", "TRANSPOSE_CONV"]
