"""Random numbers and Dropout."""

from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent
from onnx_compat.ir.dtypes import DType, bool_, float32, int32
from onnx_compat.ops.arguments import known_number
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift

if TYPE_CHECKING:
    from onnx_compat.tracing.interpreter import Context

_WIDE = frozenset(["float16", "float32", "float64"])


def _draw_uniform(shape: Sequence[Extent], dtype: DType, seed: Any) -> Any:
    return p.random_uniform(shape, dtype if dtype.name in _WIDE else float32, seed)


def _scale_to_range(low: float, high: float, numbers: Tensor) -> Any:
    return numbers if (low, high) == (0, 1) else numbers * (high - low) + low


def _draw_normal(shape: Sequence[Extent], dtype: DType, seed: Any) -> Any:
    return p.random_normal(shape, dtype if dtype.name in _WIDE else float32, seed)


@op("RandomUniform", since=(1, 22))
def random_uniform(
    *, shape: Sequence[int], dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: Optional[float] = None
) -> Tensor:
    """Return uniform random numbers in [low, high), by default float32.

    With a `seed`, each run draws the same numbers. Without a seed, each run draws different numbers.
    """
    return p.cast(_scale_to_range(low, high, _draw_uniform(shape, DType.of(dtype), seed)), DType.of(dtype))


@op("RandomNormal", since=(1, 22))
def random_normal(
    *, shape: Sequence[int], dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: Optional[float] = None
) -> Tensor:
    """Return normally distributed random numbers, by default float32. `scale` is the standard deviation.

    With a `seed`, each run draws the same numbers. Without a seed, each run draws different numbers.
    """
    return p.cast(_draw_normal(shape, DType.of(dtype), seed) * scale + mean, DType.of(dtype))


@op("RandomUniformLike", since=(1, 22))
def random_uniform_like(
    input: Tensor, *, dtype: Optional[int] = None, high: float = 1.0, low: float = 0.0, seed: Optional[float] = None
) -> Tensor:
    """Return uniform random numbers in [low, high), of the shape of the input.

    The result has the dtype of the input, unless `dtype` is given. With a `seed`, each run draws the same numbers.
    """
    kind = input.dtype if dtype is None else DType.of(dtype)
    return p.cast(_scale_to_range(low, high, _draw_uniform(input.shape, kind, seed)), kind)


@op("RandomNormalLike", since=(1, 22))
def random_normal_like(
    input: Tensor, *, dtype: Optional[int] = None, mean: float = 0.0, scale: float = 1.0, seed: Optional[float] = None
) -> Tensor:
    """Return normally distributed random numbers of the shape of the input; `scale` is the standard deviation.

    The result has the dtype of the input, unless `dtype` is given. With a `seed`, each run draws the same numbers.
    """
    kind = input.dtype if dtype is None else DType.of(dtype)
    return p.cast(_draw_normal(input.shape, kind, seed) * scale + mean, kind)


@op("Bernoulli", since=(15, 22))
def bernoulli(input: Tensor, *, dtype: Optional[int] = None, seed: Optional[float] = None) -> Tensor:
    """Return for each element of the input a random 1 or 0: the element is the probability of 1.

    The result has the dtype of the input, unless `dtype` is given. With a `seed`, each run draws the same numbers.
    """
    is_one = p.less(_draw_uniform(input.shape, input.dtype, seed), p.cast(input, _drawing_dtype(input.dtype)))
    return p.cast(is_one, input.dtype if dtype is None else DType.of(dtype))


def _drawing_dtype(dtype: DType) -> DType:
    return dtype if dtype.name in _WIDE else float32


@op("Multinomial", since=(7, 22))
def multinomial(
    input: Tensor, *, dtype: int = int32.onnx, sample_size: int = 1, seed: Optional[float] = None
) -> Tensor:
    """Return `sample_size` random class indices for each row, [rows, sample_size], int32 by default.

    `input` has unnormalized log-probabilities [rows, classes]: the softmax of a row gives the probability of each
    class. With a `seed`, each run draws the same indices.
    """
    bounds = p.cumsum(p.softmax(input, -1), -1)
    bounds = p.slice_axis(bounds, -1, 0, -1)  # the last bound is 1, up to rounding
    uniform = _draw_uniform((input.shape[0], sample_size), input.dtype, seed)
    is_passed = p.less_equal(p.unsqueeze(bounds, [1]), p.unsqueeze(p.cast(uniform, bounds.dtype), [2]))
    return p.reduce_sum(p.cast(is_passed, DType.of(dtype)), [2])


def _full_mask(data: Tensor, dtype: DType) -> Tensor:
    return p.full(data.shape, 1, dtype)


def _drop(data: Tensor, ratio: float, seed: Any) -> Tuple[Tensor, Tensor]:
    """Set each element to 0 with probability `ratio`; divide a kept element by 1 - ratio.

    Return (result, bool mask: True for the elements that were kept). With a ratio of 1, all elements are 0.
    """
    is_kept = p.greater_equal(_draw_uniform(data.shape, data.dtype, seed), ratio)
    factor = 0.0 if ratio == 1 else 1 / (1 - ratio)
    return p.mul(p.mul(data, p.cast(is_kept, data.dtype)), factor), is_kept


def _check_ratio(ratio: float) -> None:
    if not 0 <= ratio <= 1:  # also for NaN
        raise InvalidModelError("the ratio of a Dropout is %s; it must be from 0 to 1" % ratio)


@op("Dropout", since=(1, 6))
def dropout_6(ctx: "Context", data: Tensor, *, is_test: int = 0, ratio: float = 0.5) -> Tuple[Tensor, Optional[Tensor]]:
    """Drop random elements, unless `is_test`: Dropout of opsets 1 to 6. Return (result, mask in the dtype of the data).

    The mask is 1 for elements that were kept, else 0. With `is_test`, the data is returned unchanged, with a mask of
    ones (None if it is not requested). Otherwise, InvalidModelError is raised if the ratio is not in [0, 1].
    """
    if is_test:
        return data, _full_mask(data, data.dtype) if ctx.wants(1) else None
    _check_ratio(ratio)
    output, kept = _drop(data, ratio, None)
    return output, p.cast(kept, data.dtype)


@op("Dropout", since=7)
def dropout_7(ctx: "Context", data: Tensor, *, ratio: float = 0.5) -> Tuple[Tensor, Optional[Tensor]]:
    """Return (data, mask): Dropout of opset 7 is for inference only, and leaves the data unchanged.

    The mask has ones in the dtype of the data. It is None if it is not requested.
    """
    return data, _full_mask(data, data.dtype) if ctx.wants(1) else None


@op("Dropout", since=10)
def dropout_10(ctx: "Context", data: Tensor, *, ratio: float = 0.5) -> Tuple[Tensor, Optional[Tensor]]:
    """Return the data unchanged, and a mask of True, or None if the mask is not requested: inference only."""
    return data, _full_mask(data, bool_) if ctx.wants(1) else None


@op("Dropout", since=(12, 13, 22))
def dropout(
    ctx: "Context",
    data: Tensor,
    ratio: Optional[Tensor] = None,
    training_mode: Optional[Tensor] = None,
    *,
    seed: Optional[int] = None,
) -> Tuple[Tensor, Optional[Tensor]]:
    """Return (result, bool mask of the kept elements).

    - `training_mode` is True and `ratio` is not 0: each element is set to 0 with probability `ratio`. The other
      elements are divided by 1 - ratio.
    - Otherwise: the data, and a mask of True, which is None if it is not requested.

    The default ratio is 0.5. Raises NeedsKnownError if `training_mode` is given and not known, or if it is True and
    `ratio` is not known. Raises InvalidModelError if a known ratio is not in [0, 1].
    """
    if ratio is not None and ratio.known:
        _check_ratio(known_number(ratio, "the ratio of a Dropout"))
    if training_mode is None or not known_number(training_mode, "the training_mode of a Dropout"):
        return dropout_10(ctx, data)
    ratio_value = 0.5 if ratio is None else known_number(ratio, "the ratio of a Dropout")
    return _drop(data, ratio_value, seed) if ratio_value else dropout_10(ctx, data)


def dropout_at_run_time(
    data: Tensor, ratio: Optional[Tensor], training_mode: Optional[Tensor], seed: Optional[int]
) -> List[Tensor]:
    """Return [result, bool mask of the kept elements] of a Dropout whose ratio or mode is only known at run time.

    The arguments are those of `dropout`: a ratio of None is 0.5, a training_mode of None is False, and a seed of None
    draws other numbers in each run. The ratio is not checked.
    """
    uniform = _draw_uniform(data.shape, data.dtype, seed)
    share = lift(0.5, uniform.dtype) if ratio is None else p.cast(p.reshape(ratio, ()), uniform.dtype)
    is_training: Any = lift(False) if training_mode is None else p.cast(p.reshape(training_mode, ()), bool_)
    is_kept = p.logical_or(p.greater_equal(uniform, share), p.logical_not(is_training))
    factor = p.where(is_training, p.div(lift(1, uniform.dtype), p.sub(1, share)), 1)
    return [p.where(is_kept, p.mul(data, p.cast(factor, data.dtype)), 0), is_kept]
