"""Geometry of sliding windows: kernel, strides, dilations, padding, automatic padding, rounding up."""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent, ceildiv, floordiv, is_equal, is_static, maximum, minimum
from onnx_compat.ops.arguments import per_axis, split_pads

__all__ = ["WindowGeometry", "reach"]

Pads = List[Tuple[Extent, Extent]]


def reach(kernel: Extent, dilation: int) -> Extent:
    """Return the number of elements that a dilated kernel spans: (kernel - 1) * dilation + 1."""
    return (kernel - 1) * dilation + 1


class WindowGeometry(NamedTuple):
    """The sliding windows of a convolution or a pool: an entry for each spatial axis. `pads` are pairs (begin, end)."""

    kernel: List[Extent]
    strides: List[int]
    dilations: List[int]
    pads: Pads

    @staticmethod
    def of(
        extents: Sequence[Extent],
        kernel: Sequence[Extent],
        auto_pad: str,
        pads: Optional[Sequence[int]],
        strides: Optional[Sequence[int]],
        dilations: Optional[Sequence[int]] = None,
    ) -> "WindowGeometry":
        """Return the windows that the attributes of a node define over an image of these spatial sizes.

        `auto_pad` is resolved. Raises InvalidModelError if the attributes and the number of axes do not fit together.
        """
        rank = len(extents)
        if len(kernel) != rank or any(is_static(size) and size < 1 for size in kernel):
            raise InvalidModelError("a kernel %s does not fit %d spatial axes" % (list(kernel), rank))
        if pads and (len(pads) != 2 * rank or min(pads) < 0):
            raise InvalidModelError(
                "the padding %s must have %d entries, each of them 0 or more" % (list(pads), 2 * rank)
            )
        stride_list, dilation_list = per_axis(strides, rank, 1), per_axis(dilations, rank, 1)
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            spans = [reach(k, d) for k, d in zip(kernel, dilation_list)]
            padding = [
                _same_padding(*axis, upper=auto_pad == "SAME_UPPER") for axis in zip(extents, spans, stride_list)
            ]
        elif auto_pad in ("VALID", "NOTSET", ""):
            padding = split_pads(pads) if pads and auto_pad != "VALID" else [(0, 0)] * rank
        else:
            raise InvalidModelError("auto_pad is NOTSET, SAME_UPPER, SAME_LOWER or VALID, not %r" % auto_pad)
        return WindowGeometry(list(kernel), stride_list, dilation_list, padding)

    @property
    def padded(self) -> bool:
        """Whether any axis has padding."""
        return not all(is_equal(size, 0) for pair in self.pads for size in pair)

    def rounded_up(self, extents: Sequence[Extent]) -> "WindowGeometry":
        """Return the windows for ceil_mode: padding is added at the end, so that a partial last window counts too.

        A last window that would begin in the padding at the end is left out.
        """
        rounded = map(_rounded_up, extents, self.kernel, self.strides, self.dilations, self.pads)
        return self._replace(pads=list(rounded))

    def counts(self, extents: Sequence[Extent]) -> List[Extent]:
        """Return the number of windows on each axis of an image of these spatial sizes."""
        return [
            floordiv(extent + low + high - reach(k, d), s) + 1
            for extent, k, s, d, (low, high) in zip(extents, self.kernel, self.strides, self.dilations, self.pads)
        ]


def _same_padding(extent: Extent, span: Extent, stride: int, upper: bool) -> Tuple[Extent, Extent]:
    """Return the padding (begin, end) for ceil(extent / stride) windows.

    If it is odd, the end gets more if `upper`, else less.
    """
    total = (ceildiv(extent, stride) - 1) * stride + span - extent
    if not (is_static(span) and span >= stride):  # else the total is never negative
        total = maximum(total, 0)
    half = floordiv(total, 2)
    return (half, total - half) if upper else (total - half, half)


def _rounded_up(extent: Extent, kernel: Extent, stride: int, dilation: int, pads: Tuple[Extent, Extent]) -> Any:
    """Return the padding (begin, end) of an axis for ceil_mode: the end is extended for a partial last window."""
    low, high = pads
    span = reach(kernel, dilation)
    count = ceildiv(extent + low + high - span, stride) + 1
    count = minimum(count, floordiv(extent + low - 1, stride) + 1)
    needed = (count - 1) * stride + span - extent - low
    return low, maximum(needed, 0)
