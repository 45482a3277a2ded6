"""Where the elements of a resized axis come from, and what their neighbours weigh."""

import math
from typing import Any, Callable, List, NamedTuple

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent
from onnx_compat.ir.dtypes import float32, int64
from onnx_compat.ops.resize_scales import Scaled
from onnx_compat.tracing.values import Tensor, lift

__all__ = ["Kernel", "cubic_kernel", "linear_kernel", "nearest", "origins"]


def origins(transformation: str, scaled: Scaled, start: Any, end: Any) -> Any:
    """The place on the old axis, in float32, of each element of the new one."""
    where = _TRANSFORMATIONS.get(transformation)
    if where is None:
        raise InvalidModelError("there is no coordinate_transformation_mode %r" % transformation)
    return where(p.iota(scaled.after, int64), scaled, start, end)


def _as_float(extent: Extent) -> Any:
    return p.cast(lift(extent), float32)


def _divide_by_scale(x: Any, scaled: Scaled) -> Any:
    """x / scale; by the lengths themselves where they say the scale, so that what lies halfway stays there."""
    if scaled.factor is None:
        return x * _as_float(scaled.before) / _as_float(scaled.after)
    return x / scaled.scale()


def _half_pixel(x: Any, scaled: Scaled, start: Any, end: Any) -> Any:
    return _divide_by_scale(p.cast(x, float32) + 0.5, scaled) - 0.5


def _half_pixel_symmetric(x: Any, scaled: Scaled, start: Any, end: Any) -> Any:
    """Around the centre, which a rounded size would shift."""
    exact = _as_float(scaled.before) * scaled.scale()
    centre = _as_float(scaled.before) / 2
    return centre * (1 - _as_float(scaled.after) / exact) + _divide_by_scale(p.cast(x, float32) + 0.5, scaled) - 0.5


def _pytorch_half_pixel(x: Any, scaled: Scaled, start: Any, end: Any) -> Any:
    return p.where(_is_single_element(scaled), 0, _half_pixel(x, scaled, start, end))


def _align_corners(x: Any, scaled: Scaled, start: Any, end: Any) -> Any:
    """From corner to corner of the new axis. Its length is that before it is rounded down: `length_resized` is fractional
    in what onnx records (resize_downsample_scales_linear_align_corners, opsets 11 to 19); onnxruntime rounds it down.
    """
    exact = _as_float(scaled.after) if scaled.factor is None else _as_float(scaled.before) * scaled.scale()
    gaps = p.where(_is_single_element(scaled), 1, exact - 1)
    return p.cast(x, float32) * _as_float(scaled.before - 1) / gaps


def _asymmetric(x: Any, scaled: Scaled, start: Any, end: Any) -> Any:
    return _divide_by_scale(p.cast(x, float32), scaled)


def _tf_half_pixel_for_nn(x: Any, scaled: Scaled, start: Any, end: Any) -> Any:
    return _divide_by_scale(p.cast(x, float32) + 0.5, scaled)


def _tf_crop_and_resize(x: Any, scaled: Scaled, start: Any, end: Any) -> Any:
    """The region of interest, from corner to corner; of a single element, its middle."""
    span = _as_float(scaled.before - 1)
    gaps = p.maximum(_as_float(scaled.after) - 1, 1)
    corner = start * span + p.cast(x, float32) * (end - start) * span / gaps
    return p.where(_is_single_element(scaled), (start + end) * 0.5 * span, corner)


def _is_single_element(scaled: Scaled) -> Tensor:
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


def nearest(places: Any, rounding: str, scaled: Scaled) -> Tensor:
    """The index next to each place."""
    if rounding == "simple":
        rounding = "ceil" if scaled.factor is not None and scaled.factor < 1 else "floor"
    rounded = {
        "round_prefer_floor": lambda: p.ceil(places - 0.5),
        "round_prefer_ceil": lambda: p.floor(places + 0.5),
        "floor": lambda: p.floor(places),
        "ceil": lambda: p.ceil(places),
    }.get(rounding)
    if rounded is None:
        raise InvalidModelError("there is no nearest_mode %r" % rounding)
    last = lift(scaled.before - 1, int64)
    return p.minimum(p.maximum(p.cast(rounded(), int64), 0), last)


class Kernel(NamedTuple):
    """A filter: the weight of a neighbour by its distance, and the distance at which it becomes nothing."""

    weight: Callable[[Any], Tensor]
    radius: int

    def offsets(self, width: float) -> List[int]:
        """The neighbours of a place, counted from the element below it, when distances count `width` each."""
        first = math.floor(-self.radius / width) + 1
        return list(range(first, 2 - first))


def _linear(distance: Any) -> Tensor:
    return p.relu(1 - p.abs(distance))


linear_kernel = Kernel(_linear, 1)


def cubic_kernel(a: float) -> Kernel:
    """Keys' cubic convolution."""

    def weight(distance: Any) -> Tensor:
        x: Any = p.abs(distance)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return p.where(p.less_equal(x, 1), near, p.where(p.less(x, 2), far, 0))

    return Kernel(weight, 2)
