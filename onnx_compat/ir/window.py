"""The sliding window of a convolution or a pool."""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from onnx_compat.ir.dims import Extent, ceildiv, floordiv, is_equal

__all__ = ["Window"]

Pads = Sequence[Tuple[Extent, Extent]]


class Window(NamedTuple):
    """A sliding window. Each field has an entry for each spatial axis.

    In a recorded node every entry is an int; only a filter without a static size has the kernel None on that axis.
    """

    #: The number of taps: the size of a pool, or of a filter.
    kernel: Tuple[Any, ...]
    strides: Tuple[int, ...]
    dilations: Tuple[int, ...]
    #: The sizes of the padding before and after the axis.
    pads: Tuple[Tuple[Any, Any], ...]

    @staticmethod
    def of(
        kernel: Sequence[Optional[Extent]],
        strides: Optional[Sequence[int]] = None,
        dilations: Optional[Sequence[int]] = None,
        pads: Optional[Pads] = None,
    ) -> "Window":
        """Return a window. The default strides and dilations are 1, the default is no padding."""
        unit_steps, no_pads = (1,) * len(kernel), ((0, 0),) * len(kernel)
        pairs = no_pads if pads is None else tuple((low, high) for low, high in pads)
        return Window(
            tuple(kernel),
            unit_steps if strides is None else tuple(strides),
            unit_steps if dilations is None else tuple(dilations),
            pairs,
        )

    @property
    def is_dilated(self) -> bool:
        """Whether a dilation is not 1."""
        return any(dilation != 1 for dilation in self.dilations)

    @property
    def is_padded(self) -> bool:
        """Whether an axis has padding."""
        return not all(is_equal(size, 0) for pair in self.pads for size in pair)

    @property
    def spans(self) -> List[Any]:
        """The sizes of the dilated kernel: the distance from the first tap to the last, plus 1."""
        return [(taps - 1) * dilation + 1 for taps, dilation in zip(self.kernel, self.dilations)]

    def without_pads(self) -> "Window":
        """Return the window without padding."""
        return self._replace(pads=((0, 0),) * len(self.pads))

    def as_plane(self) -> "Window":
        """Return a window of a single axis with an axis of length 1 before it."""
        return Window((1, *self.kernel), (1, *self.strides), (1, *self.dilations), ((0, 0), *self.pads))

    def counts(self, extents: Sequence[Extent]) -> List[Extent]:
        """Return the number of positions of the window on each axis of these sizes."""
        along = zip(extents, self.spans, self.strides, self.pads)
        return [floordiv(extent + low + high - span, stride) + 1 for extent, span, stride, (low, high) in along]

    def same_padding(self, extents: Sequence[Optional[Extent]]) -> List[Any]:
        """Return the total padding of each axis that gives ceil(extent / stride) positions.

        It is negative where no position reads the end of the axis, and None where an unknown size decides it.
        """
        return [_same_padding(*axis) for axis in zip(extents, self.kernel, self.strides, self.dilations)]

    def has_same_padding(self, extents: Sequence[Optional[int]]) -> bool:
        """Whether the padding is SAME as TensorFlow defines it: half of `same_padding` at each end, an odd element at the end."""
        totals = self.same_padding(extents)
        return all(
            total is not None and pair == (max(total, 0) // 2, max(total, 0) - max(total, 0) // 2)
            for total, pair in zip(totals, self.pads)
        )

    def transposed_sizes(self, extents: Sequence[Extent]) -> List[Any]:
        """Return the sizes of a transposed convolution, without cropping, of an image of these sizes."""
        return [(extent - 1) * stride + span for extent, stride, span in zip(extents, self.strides, self.spans)]


def _same_padding(extent: Optional[Extent], kernel: Optional[Extent], stride: int, dilation: int) -> Any:
    if kernel is None or (extent is None and stride != 1):
        return None
    span = (kernel - 1) * dilation + 1
    if stride == 1 or extent is None:
        return span - 1
    return (ceildiv(extent, stride) - 1) * stride + span - extent
