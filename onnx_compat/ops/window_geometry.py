"""Sliding windows from the attributes of a node: automatic padding, and rounding up."""

from typing import Any, Optional, Sequence, Tuple

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent, ceildiv, floordiv, is_static, maximum, minimum
from onnx_compat.ir.window import Window
from onnx_compat.ops.arguments import per_axis, split_pads

__all__ = ["check_padding", "round_up", "window_from_attributes"]


def window_from_attributes(
    extents: Sequence[Extent],
    kernel: Sequence[Extent],
    auto_pad: str,
    pads: Optional[Sequence[int]],
    strides: Optional[Sequence[int]],
    dilations: Optional[Sequence[int]] = None,
) -> Window:
    """Return the window that the attributes of a node define over an image of the spatial sizes `extents`.

    The pads of the window:

    - auto_pad SAME_UPPER or SAME_LOWER: pads that give ceil(size / stride) positions. An odd total pads the end more
      for SAME_UPPER, the begin for SAME_LOWER.
    - auto_pad VALID: no pads.
    - auto_pad NOTSET or "": `pads`, by default 0.

    Absent strides and dilations are 1. Raises InvalidModelError in these cases:

    - There are no spatial axes.
    - `auto_pad` is unknown.
    - A kernel size, a stride or a dilation is below 1.
    - A pad is negative, even if `auto_pad` replaces `pads`.
    - A list does not fit the number of axes.
    """
    rank = len(extents)
    if not rank:
        raise InvalidModelError("the operator needs a spatial axis: its input is [N, C, H, ...]")
    if len(kernel) != rank or any(is_static(size) and size < 1 for size in kernel):
        raise InvalidModelError("a kernel %s does not fit %d spatial axes" % (list(kernel), rank))
    check_padding(auto_pad, pads, rank)
    window = Window.of(kernel, per_axis(strides, rank, 1), per_axis(dilations, rank, 1))
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        along = zip(window.same_padding(extents), window.spans, window.strides)
        return window._replace(pads=tuple(_split_padding(*axis, upper=auto_pad == "SAME_UPPER") for axis in along))
    return window._replace(pads=tuple(split_pads(pads))) if pads and auto_pad != "VALID" else window


def check_padding(auto_pad: str, pads: Optional[Sequence[int]], rank: int) -> None:
    """Raise InvalidModelError for attributes that define no padding of `rank` spatial axes. Otherwise do nothing.

    An unknown `auto_pad`, a negative pad, and `pads` without two entries for each axis raise it. `pads` is also
    checked if `auto_pad` replaces it, as in onnxruntime. Absent or empty pads are allowed.
    """
    if pads and (len(pads) != 2 * rank or min(pads) < 0):
        raise InvalidModelError("the padding %s must have %d entries, each of them 0 or more" % (list(pads), 2 * rank))
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET", ""):
        raise InvalidModelError("auto_pad is NOTSET, SAME_UPPER, SAME_LOWER or VALID, not %r" % auto_pad)


def _split_padding(total: Extent, span: Extent, stride: int, upper: bool) -> Tuple[Extent, Extent]:
    """Return the padding (begin, end) for a total padding; a negative total counts as 0.

    If the total is odd, the end gets more if `upper`, else the begin. `span` and `stride` are those of the window: if
    the span is at least the stride, the total cannot be negative.
    """
    if not (is_static(span) and span >= stride):
        total = maximum(total, 0)
    half = floordiv(total, 2)
    return (half, total - half) if upper else (total - half, half)


def round_up(window: Window, extents: Sequence[Extent]) -> Window:
    """Return the window for ceil_mode: the padding at the end is extended, so that a partial last window counts.

    `window` has its padding already. `extents`: the sizes of the axes. A last window that would begin in the padding
    at the end is left out. In that case the padding at the end may become smaller.
    """
    rounded = map(_rounded_up, extents, window.spans, window.strides, window.pads)
    return window._replace(pads=tuple(rounded))


def _rounded_up(extent: Extent, span: Extent, stride: int, pads: Tuple[Extent, Extent]) -> Any:
    """Return the padding (begin, end) of an axis for ceil_mode, from the padding `pads` without ceil_mode."""
    low, high = pads
    count = ceildiv(extent + low + high - span, stride) + 1
    count = minimum(count, floordiv(extent + low - 1, stride) + 1)
    needed = (count - 1) * stride + span - extent - low
    return low, maximum(needed, 0)
