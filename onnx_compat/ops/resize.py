"""Resize and Upsample, axis by axis: each output element is a weighted sum of a few input elements.

Primitives compute the source positions: constants for static sizes, run-time values for symbolic sizes.
"""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, NeedsKnownError
from onnx_compat.ir.dims import is_equal
from onnx_compat.ir.dtypes import DType, float32, int64
from onnx_compat.ops.arguments import align_to_axis, normalize_axes
from onnx_compat.ops.older_versions import older_version
from onnx_compat.ops.registry import op
from onnx_compat.ops.resize_scales import ResizedAxis, axes_at_run_time, axes_from_scales, axes_from_sizes
from onnx_compat.ops.resize_weights import Kernel, cubic_kernel, linear_kernel, nearest_index, source_positions
from onnx_compat.tracing.values import Tensor, lift

Ints = Optional[Sequence[int]]


@op("Resize", since=19)
def resize(
    X: Tensor,
    roi: Optional[Tensor] = None,
    scales: Optional[Tensor] = None,
    sizes: Optional[Tensor] = None,
    *,
    antialias: int = 0,
    axes: Ints = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """Return X resized by the factors `scales`, or to `sizes` if `scales` is absent or empty.

    `axes`: the axes that are resized, by default all. `scales`, `sizes` and `roi` have entries for these axes only.

    - mode: nearest, linear or cubic. Linear and cubic interpolate an integer image in float32, and convert it back.
    - keep_aspect_ratio_policy: not_larger and not_smaller replace `sizes` by a common factor, see `axes_from_sizes`.
    - roi, extrapolation_value: the region, and the value outside of X. Used by tf_crop_and_resize only.
    - nearest_mode: used by mode nearest. cubic_coeff_a: used by mode cubic.
    - exclude_outside, antialias: used by modes linear and cubic.

    Raises InvalidModelError if scales and sizes are both missing or do not fit the axes. Raises it as well if
    tf_crop_and_resize has no roi, and for an unknown mode.

    Raises NeedsKnownError if the scales are not known. For a symbolic size, raises it in these cases:

    - Its scale is no simple fraction.
    - The policy asks for a common factor, or an antialiased Resize has no scales.
    """
    axis_indices = normalize_axes(range(X.rank) if axes is None else axes, X.rank)
    if scales is not None and not is_equal(scales.size, 0):
        scaled = axes_from_scales([X.shape[axis] for axis in axis_indices], scales)
    elif sizes is not None:
        scaled = axes_from_sizes([X.shape[axis] for axis in axis_indices], sizes, keep_aspect_ratio_policy)
    else:
        raise InvalidModelError("a Resize needs either scales or sizes")
    sampling = _Sampling(
        mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside), bool(antialias)
    )
    crop = coordinate_transformation_mode == "tf_crop_and_resize"
    if crop and roi is None:
        raise InvalidModelError("a Resize with tf_crop_and_resize needs a roi")
    edges = _roi_edges(lift(roi), len(axis_indices)) if crop else [(None, None)] * len(axis_indices)
    return _resize_axes(X, list(zip(axis_indices, scaled, edges)), sampling, extrapolation_value if crop else None)


def resize_at_run_time(
    X: Tensor,
    scales: Optional[Tensor],
    sizes: Optional[Tensor],
    *,
    antialias: int = 0,
    axes: Ints = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """Return X resized by `scales`, or to `sizes` if `scales` is None. Their values are known at run time only.

    The attributes are those of `resize`. Raises InvalidModelError for an unknown mode. Raises NeedsKnownError for
    tf_crop_and_resize and, with scales or a common factor, for an antialiased Resize.
    """
    axis_indices = normalize_axes(range(X.rank) if axes is None else axes, X.rank)
    if coordinate_transformation_mode == "tf_crop_and_resize":
        raise NeedsKnownError("the sizes of a cropped Resize must be known", X)
    scaled = axes_at_run_time([X.shape[axis] for axis in axis_indices], scales, sizes, keep_aspect_ratio_policy)
    sampling = _Sampling(
        mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside), bool(antialias)
    )
    return _resize_axes(X, [(axis, entry, (None, None)) for axis, entry in zip(axis_indices, scaled)], sampling, None)


op("Resize", since=18)(older_version(resize))
op("Resize", since=(11, 13))(older_version(resize, without=["antialias", "axes", "keep_aspect_ratio_policy"]))


@op("Resize", since=10)
def resize_10(X: Tensor, scales: Tensor, *, mode: str = "nearest") -> Tensor:
    """Return X resized by a scale for each axis: Resize of opset 10, with asymmetric coordinates.

    Mode nearest rounds positions up on an axis with a scale below 1, and down on any other axis.

    Raises InvalidModelError for an unknown mode, for a scale that is not positive and finite, and for another number
    of scales than of axes. Raises NeedsKnownError if the scales are not known, or if a symbolic size has a scale that
    is no simple fraction.
    """
    sampling = _Sampling(mode, "asymmetric", "simple")
    return _resize_axes(X, _scale_all_axes(X, scales), sampling, None)


@op("Upsample", since=(9, 10))
def upsample(X: Tensor, scales: Tensor, *, mode: str = "nearest") -> Tensor:
    """Return X with each axis resized by the factor `scales[axis]`, with asymmetric coordinates.

    A factor below 1 shrinks the axis. Mode nearest rounds positions down.

    Raises InvalidModelError for an unknown mode, for a scale that is not positive and finite, and for another number
    of scales than of axes. Raises NeedsKnownError if the scales are not known, or if a symbolic size has a scale that
    is no simple fraction.
    """
    return _resize_axes(X, _scale_all_axes(X, scales), _Sampling(mode, "asymmetric", "floor"), None)


@op("Upsample", since=7)
def upsample_7(X: Tensor, *, scales: Sequence[float], mode: str = "nearest") -> Tensor:
    """Return X with each axis resized by the factor `scales[axis]`: Upsample with the scales as an attribute.

    Mode nearest rounds positions down. Raises InvalidModelError for an unknown mode, for a scale that is not positive
    and finite, and for another number of scales than of axes. Raises NeedsKnownError if a symbolic size has a scale
    that is no simple fraction.
    """
    return upsample(X, lift(list(scales), float32), mode=mode)


@op("Upsample", since=1)
def upsample_1(X: Tensor, *, height_scale: float, width_scale: float, mode: str = "nearest") -> Tensor:
    """Return images [N, C, H, W] with H and W resized by the factors height_scale and width_scale.

    Mode nearest rounds positions down. Raises InvalidModelError for an unknown mode, for a scale that is not positive
    and finite, and if X has not four axes. Raises NeedsKnownError if a symbolic size has a scale that is no simple
    fraction.
    """
    return upsample(X, lift([1.0, 1.0, height_scale, width_scale], float32), mode=mode)


class _Sampling(NamedTuple):
    """The attributes of a Resize that define how an output element is computed from input elements.

    `transformation` is coordinate_transformation_mode, `rounding` is nearest_mode, and `a` is cubic_coeff_a.
    """

    mode: str
    transformation: str
    rounding: str
    a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False

    def kernel(self) -> Optional[Kernel]:
        """Return the interpolation kernel of mode linear, bilinear or cubic; None for mode nearest.

        Raises InvalidModelError for an unknown mode.
        """
        if self.mode in ("linear", "bilinear"):
            return linear_kernel
        if self.mode == "cubic":
            return cubic_kernel(self.a)
        if self.mode != "nearest":
            raise InvalidModelError("a Resize is nearest, linear or cubic, not %r" % self.mode)
        return None

    def copies(self, scaled: ResizedAxis) -> bool:
        """Return whether nearest sampling of this axis repeats each element exactly `scaled.factor` times.

        False without a factor, and for a factor that is no integer. False also if the coordinate transformation or the
        rounding may select other elements.
        """
        factor = scaled.number
        if factor is None or factor != int(factor):
            return False
        if self.transformation in ("asymmetric", "tf_half_pixel_for_nn"):
            return self.rounding in ("floor", "simple")
        return self.transformation in ("half_pixel", "pytorch_half_pixel") and self.rounding.startswith("round_prefer")


Axis = Tuple[int, ResizedAxis, Tuple[Any, Any]]


def _scale_all_axes(X: Tensor, scales: Tensor) -> List[Axis]:
    return [(axis, scaled, (None, None)) for axis, scaled in enumerate(axes_from_scales(X.shape, scales))]


def _roi_edges(roi: Tensor, count: int) -> List[Tuple[Any, Any]]:
    """Return (start, end) of the region of interest on each of `count` axes, as float32 scalars.

    `roi` is the vector [start of each axis, end of each axis].
    """
    values = [p.cast(p.reshape(value, ()), float32) for value in p.split(roi, 0, [1] * (2 * count))]
    return list(zip(values[:count], values[count:]))


def _is_known_as(value: Tensor, number: int) -> bool:
    return value.known and value.value is not None and bool(value.value == number)


def _resize_axes(x: Tensor, axes: Sequence[Axis], sampling: _Sampling, outside_value: Optional[float]) -> Tensor:
    """Return x resized along `axes`: tuples (axis, its `ResizedAxis`, (start, end) of the region or (None, None)).

    `outside_value` replaces elements whose position is outside of x; None: positions are clamped to x.
    """
    kernel = sampling.kernel()
    if kernel is not None and x.dtype.kind not in "fc":
        return _to_integers(_resize_axes(p.cast(x, float32), axes, sampling, outside_value), x.dtype, sampling)
    outside_masks: List[Tensor] = []
    for axis, scaled, (start, end) in axes:
        if scaled.unchanged and (start is None or (_is_known_as(start, 0) and _is_known_as(end, 1))):
            continue
        if kernel is None and sampling.copies(scaled):
            x = p.take(x, p.floordiv(p.iota(scaled.after), int(scaled.number or 1)), axis)
            continue
        positions = source_positions(sampling.transformation, scaled, start, end)
        if outside_value is not None:
            last = lift(scaled.before - 1, int64)
            is_outside = p.logical_or(p.less(positions, 0), p.greater(positions, p.cast(last, float32)))
            outside_masks.append(align_to_axis(is_outside, axis, x.rank))
        if kernel is None:
            x = p.take(x, nearest_index(positions, sampling.rounding, scaled), axis)
        else:
            x = _interpolate(x, axis, positions, scaled, kernel, sampling)
    for is_outside in outside_masks:
        x = p.where(is_outside, outside_value, x)
    return x


def _to_integers(x: Tensor, dtype: DType, sampling: _Sampling) -> Tensor:
    """Cast interpolated values back to an integer or bool dtype, as runtimes do.

    Linearly interpolated values are truncated. Cubic and antialiased values are rounded; they may overshoot. All values
    are clipped before the cast if the dtype is an integer of less than 32 bits.
    """
    if sampling.mode == "cubic" or sampling.antialias:
        x = p.round(x)
    return p.cast(p.clip(x, dtype.min, dtype.max) if dtype.bits < 32 and dtype.kind in "iu" else x, dtype)


def _interpolate(
    x: Tensor, axis: int, positions: Tensor, scaled: ResizedAxis, kernel: Kernel, sampling: _Sampling
) -> Tensor:
    """Return x interpolated at `positions` of an axis: the weighted sum of the elements around each position.

    An index outside the axis is clamped; with `exclude_outside`, it also gets the weight 0. Weights are divided by
    their sum in two cases: with `exclude_outside`, and if an antialiased axis shrinks.
    """
    floor = p.floor(positions)
    base, fraction = p.cast(floor, int64), p.sub(positions, floor)
    width = scaled.narrowing() if sampling.antialias else 1.0
    last = lift(scaled.before - 1, int64)
    indices = [p.add(base, offset) for offset in kernel.offsets(width)]
    weights = kernel.weights(fraction, width)
    if sampling.exclude_outside:
        is_inside = [p.logical_and(p.greater_equal(n, 0), p.less_equal(n, last)) for n in indices]
        weights = [p.where(is_kept, weight, 0) for is_kept, weight in zip(is_inside, weights)]
    if sampling.exclude_outside or width != 1.0:
        total = weights[0]
        for weight in weights[1:]:
            total = p.add(total, weight)
        weights = [p.div(weight, total) for weight in weights]
    result: Optional[Tensor] = None
    for index, weight in zip(indices, weights):
        clamped = p.minimum(p.maximum(index, 0), last)
        part = p.mul(p.take(x, clamped, axis), align_to_axis(p.cast(weight, x.dtype), axis, x.rank))
        result = part if result is None else p.add(result, part)
    assert result is not None  # a kernel has offsets
    return result
