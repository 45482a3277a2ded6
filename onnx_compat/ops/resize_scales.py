"""Sizes and factors of the axes of a Resize."""

from fractions import Fraction
from typing import Any, List, NamedTuple, Optional, Sequence, Union

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, NeedsKnownError
from onnx_compat.ir.dims import Extent, exact_quotient, floordiv, is_equal, is_static
from onnx_compat.ir.dtypes import float32, float64, int64
from onnx_compat.tracing.values import Tensor, as_sizes, known_array, lift

__all__ = ["ResizedAxis", "axes_at_run_time", "axes_from_scales", "axes_from_sizes"]


class ResizedAxis(NamedTuple):
    """An axis of a Resize: its sizes before and after, which may be symbolic, and the scale factor.

    A factor None means that only the sizes are given: the scale is their ratio, after / before. A factor that is only
    known at run time is a float32 scalar.
    """

    before: Extent
    after: Extent
    factor: Union[float, Tensor, None]

    @property
    def number(self) -> Optional[float]:
        """The factor as a number; None without a factor, and for a factor that is only known at run time."""
        return None if isinstance(self.factor, Tensor) else self.factor

    @property
    def unchanged(self) -> bool:
        """Whether the Resize keeps the axis: its sizes are equal, and the factor is 1 or not given."""
        return is_equal(self.before, self.after) and not isinstance(self.factor, Tensor) and self.factor in (None, 1.0)

    def scale(self) -> Tensor:
        """Return the factor as a float32 scalar; without a factor, after / before."""
        if isinstance(self.factor, Tensor):
            return self.factor
        if self.factor is not None:
            return lift(self.factor, float32)
        return p.div(p.cast(lift(self.after), float32), p.cast(lift(self.before), float32))

    def narrowing(self) -> float:
        """Return min(scale, 1). An antialiasing filter is wider by 1 / scale where the axis shrinks.

        Return 1 if the axis is empty before or after the Resize: no element is filtered. Raises NeedsKnownError without
        a known factor, if the sizes are not static.
        """
        if is_equal(self.before, 0) or is_equal(self.after, 0):
            return 1.0
        factor = self.number
        if factor is None:
            if not (is_static(self.before) and is_static(self.after)):
                raise NeedsKnownError(
                    "an antialiased Resize needs sizes that are known", lift([self.before, self.after])
                )
            factor = float(self.after) / float(self.before)
        return min(1.0, factor)


def axes_from_scales(extents: Sequence[Extent], scales: Tensor) -> List[ResizedAxis]:
    """Return a list with a `ResizedAxis` for each size in `extents`: the new size is size * scale, rounded down.

    Raises InvalidModelError if a scale is not positive and finite, or if there is not one scale for each size. Raises
    NeedsKnownError if the scales are not known, or if a symbolic size has a scale that is no simple fraction.
    """
    factors = [float(factor) for factor in known_array(scales, "the scales of a Resize").reshape(-1)]
    if not all(0 < factor < float("inf") for factor in factors):
        raise InvalidModelError("the scales of a Resize are %s: each must be above 0" % factors)
    if len(factors) != len(extents):
        raise InvalidModelError("%d scales were given for %d axes" % (len(factors), len(extents)))
    return [ResizedAxis(extent, _scale_size(extent, factor), factor) for extent, factor in zip(extents, factors)]


def _scale_size(extent: Extent, factor: float) -> Extent:
    """Return floor(extent * factor), computed in float32 as runtimes do.

    A symbolic size is multiplied by the factor as a fraction. Raises NeedsKnownError if the factor of a symbolic size
    is no fraction with a denominator up to 1000.
    """
    if is_static(extent):
        return int(np.floor(np.float32(int(extent)) * np.float32(factor)))
    fraction = Fraction(factor).limit_denominator(1000)
    if np.float32(float(fraction)) != np.float32(factor):
        raise NeedsKnownError(
            "a size times %r is not a simple fraction of it: the size must be known" % factor, lift([extent])
        )
    return floordiv(extent * fraction.numerator, fraction.denominator)


def _exact_factor(before: Extent, after: Extent) -> Optional[float]:
    """Return after / before if `before` is symbolic and the quotient is always the same positive integer: 2n / n is 2.

    Return None in any other case, also for static sizes and for a quotient like 1/2.
    """
    times = None if is_static(before) else exact_quotient(after, before)
    return None if times is None else float(times)


def axes_from_sizes(extents: Sequence[Extent], sizes: Tensor, policy: str) -> List[ResizedAxis]:
    """Return a list with a `ResizedAxis` for each size in `extents` and its new size in `sizes`.

    `policy` (keep_aspect_ratio_policy) may adjust the new sizes:

    - stretch: the new sizes as given. An axis has no factor, except where a symbolic size grows by a constant integer.
    - not_larger: the least ratio of new size to size is the factor of all axes.
    - not_smaller: the greatest ratio of new size to size is the factor of all axes.

    With a common factor, the new sizes are size * factor, rounded to the nearest integer, halves up. Empty axes stay
    empty and have no ratio; if all axes are empty, the factor is 1.

    Raises InvalidModelError for another policy, a negative size, another number of sizes, or an empty axis with a new
    size above 0. Raises NeedsKnownError for symbolic sizes, unless the policy is stretch.
    """
    if policy not in ("stretch", "not_larger", "not_smaller"):
        raise InvalidModelError("keep_aspect_ratio_policy is stretch, not_larger or not_smaller, not %r" % policy)
    wanted = as_sizes(sizes, len(extents))
    if len(wanted) != len(extents) or any(is_static(size) and size < 0 for size in wanted):
        raise InvalidModelError("a Resize of the axes %s cannot give the sizes %s" % (list(extents), wanted))
    if any(is_equal(before, 0) and is_static(after) and after > 0 for before, after in zip(extents, wanted)):
        raise InvalidModelError(
            "a Resize of the axes %s cannot give the sizes %s: an empty axis stays empty" % (list(extents), wanted)
        )
    if policy == "stretch":
        return [ResizedAxis(before, after, _exact_factor(before, after)) for before, after in zip(extents, wanted)]
    if not all(map(is_static, (*extents, *wanted))):
        raise NeedsKnownError(
            "a Resize that keeps the aspect ratio needs sizes that are known", lift([*extents, *wanted])
        )
    ratios = [after / before for before, after in zip(extents, wanted) if before] or [1.0]  # type: ignore[operator]  # all sizes are static behind the check
    factor: Any = min(ratios) if policy == "not_larger" else max(ratios)
    return [ResizedAxis(before, int(np.floor(before * factor + 0.5)), factor) for before in extents]


def axes_at_run_time(
    extents: Sequence[Extent], scales: Optional[Tensor], sizes: Optional[Tensor], policy: str
) -> List[ResizedAxis]:
    """Return a list with a `ResizedAxis` for each size in `extents`, for scales or sizes that only a run knows.

    The new sizes are symbolic: sizes of recorded vectors. Without `scales`, `sizes` has the new sizes, and `policy`
    may adjust them as in `axes_from_sizes`: "stretch" takes them as given, "not_larger" and "not_smaller" give a
    common factor. Nothing is checked.
    """
    bounds = sizes if scales is None else scales
    assert bounds is not None  # a Resize has either
    parts = [p.reshape(part, ()) for part in p.split(bounds, 0, [1] * len(extents))]
    if scales is not None:
        lengths = [p.floor(p.cast(lift(before), float32) * factor) for before, factor in zip(extents, parts)]
        return [ResizedAxis(*item) for item in zip(extents, map(_recorded_size, lengths), parts)]
    if policy == "stretch":
        return [ResizedAxis(before, _recorded_size(after), None) for before, after in zip(extents, parts)]
    befores = [p.cast(lift(before), float64) for before in extents]
    factor = p.div(p.cast(parts[0], float64), befores[0])
    for before, after in zip(befores[1:], parts[1:]):
        ratio = p.div(p.cast(after, float64), before)
        factor = p.minimum(factor, ratio) if policy == "not_larger" else p.maximum(factor, ratio)
    afters = [_recorded_size(p.floor(p.add(p.mul(before, factor), 0.5))) for before in befores]
    scale = p.cast(factor, float32)
    return [ResizedAxis(before, after, scale) for before, after in zip(extents, afters)]


def _recorded_size(length: Tensor) -> Extent:
    """Return a number that is only known at run time as a size."""
    return p.arange(lift(0, int64), p.cast(length, int64), lift(1, int64)).shape[0]
