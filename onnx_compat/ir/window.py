"""The sliding window of a convolution or a pool."""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from onnx_compat.ir.dims import Extent, ceildiv, floordiv, is_equal

__all__ = ["Window"]

Pads = Sequence[Tuple[Extent, Extent]]


class Window(NamedTuple):
    """A sliding window. Each field has an entry for each spatial axis: in `pads` a pair, in the other fields a size.

    In a recorded node all sizes are ints, except in `kernel`: None stands for a symbolic size of the filter.
    """

    #: The number of taps: the size of a pool, or of a filter.
    kernel: Tuple[Any, ...]
    #: The distance from one position of the window to the next.
    strides: Tuple[int, ...]
    #: The distance from one tap to the next; 1 without dilation.
    dilations: Tuple[int, ...]
    #: The sizes of the padding (before, after) the axis. A negative size crops.
    pads: Tuple[Tuple[Any, Any], ...]

    @staticmethod
    def of(
        kernel: Sequence[Optional[Extent]],
        strides: Optional[Sequence[int]] = None,
        dilations: Optional[Sequence[int]] = None,
        pads: Optional[Pads] = None,
    ) -> "Window":
        """Return a window with these fields, converted to tuples. `pads` has a pair (before, after) for each axis.

        None for strides or dilations gives 1 for each axis. None for pads gives no padding.
        """
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
        """Whether the dilation of any axis is not 1, also of an axis on which the kernel has a single tap."""
        return any(dilation != 1 for dilation in self.dilations)

    @property
    def is_padded(self) -> bool:
        """Whether any axis has a pad that is not 0: a positive, a negative or a symbolic size."""
        return not all(is_equal(size, 0) for pair in self.pads for size in pair)

    @property
    def spans(self) -> List[Any]:
        """The sizes of the dilated kernel: the distance from the first tap to the last, plus 1.

        Raises TypeError for a kernel size of None.
        """
        return [(taps - 1) * dilation + 1 for taps, dilation in zip(self.kernel, self.dilations)]

    def without_pads(self) -> "Window":
        """Return a copy of the window without padding."""
        return self._replace(pads=((0, 0),) * len(self.pads))

    def as_plane(self) -> "Window":
        """Return this window of one axis with a new first axis: one tap, stride 1, dilation 1, no padding."""
        return Window((1, *self.kernel), (1, *self.strides), (1, *self.dilations), ((0, 0), *self.pads))

    def counts(self, extents: Sequence[Extent]) -> List[Extent]:
        """Return a list with the number of positions of the window on each axis. `extents`: the sizes of the axes.

        The padding of the window counts as a part of the axis. A position at which the dilated kernel exceeds the
        padded axis does not count. The number is 0 or negative if the padded axis is shorter than the dilated kernel.
        Raises TypeError for a kernel size of None.
        """
        along = zip(extents, self.spans, self.strides, self.pads)
        return [floordiv(extent + low + high - span, stride) + 1 for extent, span, stride, (low, high) in along]

    def same_padding(self, extents: Sequence[Optional[Extent]]) -> List[Any]:
        """Return a list with the total padding of each axis that gives ceil(extent / stride) positions.

        `extents`: the sizes of the axes. The padding is negative if no position reads the end of the axis. A kernel
        size of None gives None. An extent of None gives None too, except for a stride of 1. The window's own padding
        has no effect.
        """
        return [_same_padding(*axis) for axis in zip(extents, self.kernel, self.strides, self.dilations)]

    def has_same_padding(self, extents: Sequence[Optional[int]]) -> bool:
        """Whether the padding is SAME as TensorFlow defines it.

        SAME is half of `same_padding` at each end of an axis, and an odd element at the end. A negative `same_padding`
        counts as 0. False if `same_padding` gives None for an axis.
        """
        totals = self.same_padding(extents)
        return all(
            total is not None and pair == (max(total, 0) // 2, max(total, 0) - max(total, 0) // 2)
            for total, pair in zip(totals, self.pads)
        )

    def transposed_sizes(self, extents: Sequence[Extent]) -> List[Any]:
        """Return the spatial result sizes of a transposed convolution of an image with the spatial sizes `extents`.

        Padding is ignored: nothing is cropped. Raises TypeError for a kernel size of None.
        """
        return [(extent - 1) * stride + span for extent, stride, span in zip(extents, self.strides, self.spans)]


def _same_padding(extent: Optional[Extent], kernel: Optional[Extent], stride: int, dilation: int) -> Any:
    if kernel is None or (extent is None and stride != 1):
        return None
    span = (kernel - 1) * dilation + 1
    if stride == 1 or extent is None:
        return span - 1
    return (ceildiv(extent, stride) - 1) * stride + span - extent
