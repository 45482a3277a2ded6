"""Source positions of the elements of a resized axis, and interpolation kernels."""

import math
from typing import Any, Callable, List, NamedTuple, Optional

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent
from onnx_compat.ir.dtypes import float32, int64
from onnx_compat.ops.resize_scales import ResizedAxis
from onnx_compat.tracing.values import Tensor, lift

__all__ = ["Kernel", "cubic_kernel", "linear_kernel", "nearest_index", "source_positions"]


def source_positions(transformation: str, scaled: ResizedAxis, start: Optional[Tensor], end: Optional[Tensor]) -> Any:
    """Return a float32 Tensor with the position on the input axis for each element of the resized axis.

    - transformation: the attribute coordinate_transformation_mode.
    - scaled: the axis before and after the resize.
    - start, end: the bounds of the region of interest, as fractions of the axis; None except for tf_crop_and_resize.

    Raises InvalidModelError for an unknown transformation.
    """
    where = _TRANSFORMATIONS.get(transformation)
    if where is None:
        raise InvalidModelError("there is no coordinate_transformation_mode %r" % transformation)
    return where(p.iota(scaled.after, int64), scaled, start, end)


def _as_float(extent: Extent) -> Any:
    return p.cast(lift(extent), float32)


def _divide_by_scale(x: Tensor, scaled: ResizedAxis) -> Any:
    """Return x / scale. If the factor is not given, return x * before / after.

    Without a factor, a position halfway between two elements is exact in this way.
    """
    if scaled.factor is None:
        return x * _as_float(scaled.before) / _as_float(scaled.after)
    return x / scaled.scale()


def _half_pixel(x: Tensor, scaled: ResizedAxis, start: Optional[Tensor], end: Optional[Tensor]) -> Any:
    return _divide_by_scale(p.cast(x, float32) + 0.5, scaled) - 0.5


def _half_pixel_symmetric(x: Tensor, scaled: ResizedAxis, start: Optional[Tensor], end: Optional[Tensor]) -> Any:
    """Return half-pixel positions, shifted so that the centres of the two axes coincide.

    Without the shift, the centres may differ, because the new size is rounded. `x` has the numbers of the new elements.
    `start` and `end` are not read.
    """
    exact = _as_float(scaled.before) * scaled.scale()
    centre = _as_float(scaled.before) / 2
    return centre * (1 - _as_float(scaled.after) / exact) + _divide_by_scale(p.cast(x, float32) + 0.5, scaled) - 0.5


def _pytorch_half_pixel(x: Tensor, scaled: ResizedAxis, start: Optional[Tensor], end: Optional[Tensor]) -> Any:
    return p.where(_is_single_element(scaled), 0, _half_pixel(x, scaled, start, end))


def _align_corners(x: Tensor, scaled: ResizedAxis, start: Optional[Tensor], end: Optional[Tensor]) -> Any:
    """Return x * (before - 1) / (after - 1): the first element maps to the first, the last to the last.

    A single new element gets position 0. `start` and `end` are not read. With a factor, before * factor replaces
    `after`: onnx's recorded cases have a fractional `length_resized` (resize_downsample_scales_linear_align_corners,
    opsets 11 to 19). onnxruntime rounds it down.
    """
    exact = _as_float(scaled.after) if scaled.factor is None else _as_float(scaled.before) * scaled.scale()
    gaps = p.where(_is_single_element(scaled), 1, exact - 1)
    return p.cast(x, float32) * _as_float(scaled.before - 1) / gaps


def _asymmetric(x: Tensor, scaled: ResizedAxis, start: Optional[Tensor], end: Optional[Tensor]) -> Any:
    return _divide_by_scale(p.cast(x, float32), scaled)


def _tf_half_pixel_for_nn(x: Tensor, scaled: ResizedAxis, start: Optional[Tensor], end: Optional[Tensor]) -> Any:
    return _divide_by_scale(p.cast(x, float32) + 0.5, scaled)


def _tf_crop_and_resize(x: Tensor, scaled: ResizedAxis, start: Optional[Tensor], end: Optional[Tensor]) -> Any:
    """Return evenly spaced positions from the start to the end of the region. A single element gets the centre.

    `x` has the numbers of the new elements. `start` and `end` are fractions of the axis: 0 is its first element, 1 its
    last.
    """
    assert start is not None and end is not None  # the roi of a Resize
    span = _as_float(scaled.before - 1)
    gaps = p.maximum(_as_float(scaled.after) - 1, 1)
    corner = start * span + p.cast(x, float32) * (end - start) * span / gaps
    return p.where(_is_single_element(scaled), (start + end) * 0.5 * span, corner)


def _is_single_element(scaled: ResizedAxis) -> Tensor:
    return p.less_equal(lift(scaled.after), 1)


_TRANSFORMATIONS = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "tf_half_pixel_for_nn": _tf_half_pixel_for_nn,
    "tf_crop_and_resize": _tf_crop_and_resize,
}


def nearest_index(positions: Tensor, rounding: str, scaled: ResizedAxis) -> Tensor:
    """Round each position to an index of the input axis by the nearest_mode `rounding`, and clamp it to the axis.

    "simple", of opset 10, rounds up where a factor below 1 is given, else down. Raises InvalidModelError for an unknown
    mode.
    """
    if rounding == "simple":
        rounding = "ceil" if scaled.number is not None and scaled.number < 1 else "floor"
    rounded = {
        "round_prefer_floor": lambda: p.ceil(positions - 0.5),
        "round_prefer_ceil": lambda: p.floor(positions + 0.5),
        "floor": lambda: p.floor(positions),
        "ceil": lambda: p.ceil(positions),
    }.get(rounding)
    if rounded is None:
        raise InvalidModelError("there is no nearest_mode %r" % rounding)
    last = lift(scaled.before - 1, int64)
    return p.minimum(p.maximum(p.cast(rounded(), int64), 0), last)


class Kernel(NamedTuple):
    """An interpolation kernel.

    - weight: maps a distance (of any sign) to a weight, which is 0 from the distance `radius` on.
    - radius: the number of elements on each side of a position that have a weight.
    """

    weight: Callable[[Any], Tensor]
    radius: int

    def offsets(self, width: float) -> List[int]:
        """Return the indices of the elements with a weight, relative to the element below a position.

        `width` is 1, or less for antialiasing: the kernel is stretched by 1 / width, and more elements have a weight.
        Linear: [0, 1] for width 1, [-1, 0, 1, 2] for width 0.5.
        """
        first = math.floor(-self.radius / width) + 1
        return list(range(first, 2 - first))

    def weights(self, fraction: Tensor, width: float = 1.0) -> List[Any]:
        """Return a weight for each of `offsets(width)`, of an element at this offset from the element below a position.

        `fraction` is the distance of the position from the element below, from 0 to less than 1. The two weights of
        linear interpolation have a derivative by the position at each element, which `weight` lacks.
        """
        if self is linear_kernel and width == 1:
            return [1 - fraction, fraction]
        return [self.weight(p.mul(p.sub(float(offset), fraction), width)) for offset in self.offsets(width)]


def _linear(distance: Tensor) -> Tensor:
    return p.relu(1 - p.abs(distance))


linear_kernel = Kernel(_linear, 1)


def cubic_kernel(a: float) -> Kernel:
    """Return the kernel of cubic convolution (Keys) with the coefficient `a`, as for bicubic interpolation."""

    def weight(distance: Tensor) -> Tensor:
        x: Any = p.abs(distance)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return p.where(p.less_equal(x, 1), near, p.where(p.less(x, 2), far, 0))

    return Kernel(weight, 2)
