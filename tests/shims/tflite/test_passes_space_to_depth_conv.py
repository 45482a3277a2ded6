"""Space-to-depth, written as strided slices and a concatenation, before a convolution; compared with the reference."""

from typing import Any, List, Sequence

import numpy as np
import programs
import pytest

from onnx_compat import primitives as p
from onnx_compat.ir.window import Window

W = np.random.RandomState(0).standard_normal((8, 32, 3, 3)).astype(np.float32) / 5
FOCUS = ((0, 0), (1, 0), (0, 1), (1, 1))


def conv(x: Any, kernel: int = 3, stride: int = 1, pad: int = 1) -> Any:
    own = np.ascontiguousarray(W[:, : x.shape[1], :kernel, :kernel])
    window = Window.of((kernel, kernel), (stride, stride), pads=[(pad, pad)] * 2)
    return p.conv(x, own, W[0, :8, 0, 0], window=window)


def every(x: Any, axis: int, start: int, step: int = 2) -> Any:
    """Return every `step`-th element of an axis, from `start` on."""
    return p.slice_axis(x, axis, start, 2**31 - 1, step)


def focus(x: Any, starts: Sequence[Any] = FOCUS, step: int = 2) -> Any:
    """Return the Focus layer in the form that modules write: rows are sliced first, then columns."""
    rows = [every(x, 2, row, step) for row, _ in starts]
    return p.concat([every(part, 3, column, step) for part, (_, column) in zip(rows, starts)], 1)


def kinds(function: Any, sizes: Any = (2, 3, 8, 12)) -> List[str]:
    result = programs.check_program(function, sizes, fed=[[2 if size is None else size for size in sizes]])
    return [op.builtin for op in result if op.builtin != "TRANSPOSE"]


@pytest.mark.parametrize("sizes", [(2, 3, 8, 12), (None, 3, 8, 12)])
@pytest.mark.parametrize(("kernel", "stride", "pad"), [(3, 1, 1), (1, 1, 0), (3, 1, 0), (2, 2, 0)])
def test_a_convolution_reads_in_steps(kernel: int, stride: int, pad: int, sizes: Any) -> None:
    assert kinds(lambda x: conv(focus(x), kernel, stride, pad), sizes) == ["CONV_2D"]
    behind = kinds(lambda x: conv(focus(conv(x)), kernel, stride, pad), sizes)
    assert behind == ["CONV_2D", "CONV_2D"]


def test_any_strides_and_any_order() -> None:
    thirds = [(row, column) for row in range(3) for column in range(3)]
    assert kinds(lambda x: conv(focus(x, thirds, 3)), (1, 3, 9, 6)) == ["CONV_2D"]
    assert kinds(lambda x: conv(focus(x, FOCUS[::-1]))) == ["CONV_2D"]
    assert kinds(lambda x: conv(p.concat([every(x, 2, row) for row in (0, 1)], 1))) == ["CONV_2D"]
    twice = kinds(lambda x: conv(focus(every(x, 2, 0))), (1, 3, 16, 8))
    assert "STRIDED_SLICE" in twice  # half of the rows


def test_other_offsets_are_sliced() -> None:
    for starts in (FOCUS[:3], (*FOCUS[:3], (0, 0)), (*FOCUS, (0, 0))):
        result = kinds(lambda x, s=starts: conv(focus(x, s)))
        assert "STRIDED_SLICE" in result
    first = kinds(lambda x: conv(focus(p.slice_axis(x, 0, 0, 2))), (3, 3, 8, 12))
    assert first[-1] == "CONV_2D" and len(first) > 1

    def channels(x: Any) -> Any:
        parts = [every(every(x, 2, row), 3, column) for row, column in FOCUS]
        return conv(p.concat([*parts[:3], p.slice_axis(parts[3], 1, 0, 2)], 1))

    assert len(kinds(channels)) > 1


def test_tensors_with_other_readers_stay() -> None:
    def beside(x: Any) -> Any:
        x = focus(x)
        return p.add(conv(x), p.reduce_mean(p.tanh(x), [1, 2, 3], True))

    assert "CONCATENATION" in kinds(beside)


def test_uneven_padding_stays_with_the_smaller_steps() -> None:
    result = kinds(lambda x: conv(p.pad(focus(x), [0, 0, 0, 0], [0, 0, 1, 1]), 2, 1, 0))
    assert result[-1] == "CONV_2D" and "CONCATENATION" in result
