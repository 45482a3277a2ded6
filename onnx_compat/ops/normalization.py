"""Normalization over batches, instances, groups, layers and adjacent channels."""

from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

from onnx_compat import limits
from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import floordiv, is_equal, is_static
from onnx_compat.ops.arguments import compute_dtype, normalize_axes
from onnx_compat.ops.older_versions import older_version
from onnx_compat.ops.registry import op
from onnx_compat.primitives.ranges import check_same
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor, lift

if TYPE_CHECKING:
    from onnx_compat.tracing.interpreter import Context

Normalized = Tuple[Optional[Tensor], ...]


def moments(x: Tensor, axes: Sequence[int], keepdims: bool = True) -> Tuple[Tensor, Tensor, Tensor]:
    """Return (mean of x over the axes, variance over the axes, x minus the mean).

    The variance is divided by the number of elements. If `keepdims`, mean and variance keep the axes, with size 1;
    otherwise the axes are removed. The difference always has the shape of x.
    """
    mean = p.reduce_mean(x, axes, keepdims=True)
    distance = p.sub(x, mean)
    variance = p.reduce_mean(p.mul(distance, distance), axes, keepdims=keepdims)
    return mean if keepdims else p.squeeze(mean, axes), variance, distance


def _align_channels(vector: Tensor, x: Tensor) -> Tensor:
    """Reshape a vector over the channels so that it broadcasts to x [N, C, ...].

    Return any other tensor unchanged, and also a vector if x has fewer than three axes.
    """
    return p.reshape(vector, vector.shape + (1,) * (x.rank - 2)) if vector.rank == 1 and x.rank > 2 else vector


def _check_channels(x: Tensor, *vectors: Tensor) -> None:
    for vector in map(lift, vectors):
        if vector.rank == 1 and x.rank > 1:
            check_same("the length of a vector over channels", vector.shape[0], "the number of channels", x.shape[1])


def _scale_and_shift(x: Tensor, scale: Tensor, B: Tensor, mean: Tensor, var: Tensor, epsilon: float) -> Tensor:
    """Return (x - mean) / sqrt(var + epsilon) * scale + B, in the dtype of x.

    It is computed as x * factor + shift for each channel. A known factor and a known shift can be folded into a
    preceding convolution. Raises InvalidModelError if the static length of a vector is not the number of channels.
    """
    _check_channels(x, scale, B, mean, var)
    factor = p.div(p.cast(scale, var.dtype), p.sqrt(var + epsilon))
    shift = p.sub(p.cast(B, var.dtype), p.mul(mean, factor))
    factor, shift = (_align_channels(p.cast(vector, x.dtype), x) for vector in (factor, shift))
    return p.add(p.mul(x, factor), shift)


def _normalize_batch(
    X: Tensor, scale: Tensor, B: Tensor, mean: Tensor, var: Tensor, epsilon: float, momentum: float
) -> List[Any]:
    """Normalize each channel of X by its mean and variance in this batch, as in training; then scale and shift.

    Return [output, running mean, running variance, mean of the batch, variance of the batch]. A running statistic is
    momentum * (`mean` or `var`) + (1 - momentum) * the statistic of the batch.
    """
    axes = [axis for axis in range(X.rank) if axis != 1]
    batch_mean, batch_variance, _ = moments(p.cast(X, mean.dtype), axes, keepdims=False)
    running = [
        p.add(previous * momentum, current * (1 - momentum))
        for previous, current in ((mean, batch_mean), (var, batch_variance))
    ]
    return [_scale_and_shift(X, scale, B, batch_mean, batch_variance, epsilon), *running, batch_mean, batch_variance]


@op("BatchNormalization", since=(1, 6))
def batch_normalization_6(
    ctx: "Context",
    X: Tensor,
    scale: Tensor,
    B: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    is_test: int = 0,
    momentum: float = 0.9,
    spatial: int = 1,
) -> Sequence[Any]:
    """Normalize each channel by `mean` and `var`, then scale and shift: BatchNormalization of versions 1 to 9.

    Return [output]. If the node has several outputs and `is_test` is 0, the node trains: each channel is normalized by
    its mean and variance in this batch. Then return [output, running mean, running variance, mean of the batch,
    variance of the batch]. A running statistic is momentum * (`mean` or `var`) + (1 - momentum) * the statistic of the
    batch.

    `spatial` has no effect. If `mean` and `var` have the shape of a sample, each element of a sample is normalized by
    its own statistics. Raises InvalidModelError if the static length of a vector is not the number of channels.
    """
    if not is_test and ctx.outputs > 1:
        return _normalize_batch(X, scale, B, mean, var, epsilon, momentum)
    return [_scale_and_shift(X, scale, B, mean, var, epsilon)]


op("BatchNormalization", since=7)(older_version(batch_normalization_6, without=["is_test"]))
op("BatchNormalization", since=9)(older_version(batch_normalization_6, without=["is_test", "spatial"]))


@op("BatchNormalization", since=(14, 15))
def batch_normalization(
    X: Tensor,
    scale: Tensor,
    B: Tensor,
    input_mean: Tensor,
    input_var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> Sequence[Any]:
    """Normalize each channel, then scale and shift. Return [output].

    The statistics are input_mean and input_var. In training (`training_mode`) they are the mean and variance of the
    batch; return [output, running mean, running variance]. A running statistic is momentum * (input_mean or input_var)
    + (1 - momentum) * the statistic of the batch.

    Raises InvalidModelError if the static length of a vector is not the number of channels.
    """
    if training_mode:
        return _normalize_batch(X, scale, B, input_mean, input_var, epsilon, momentum)[:3]
    return [_scale_and_shift(X, scale, B, input_mean, input_var, epsilon)]


@op("InstanceNormalization", since=(1, 6, 22))
def instance_normalization(input: Tensor, scale: Tensor, B: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    """Normalize each channel of each sample over its spatial axes, then scale and shift each channel.

    Exporters write a GroupNormalization with one group as an InstanceNormalization of an image that is reshaped to one
    channel. In this pattern, the image before the reshape is normalized, with the same result.

    Raises InvalidModelError if the static length of `scale` or B is not the number of channels.
    """
    _check_channels(input, scale, B)
    source = current_trace().source(input) if is_equal(input.shape[1], 1) else None
    if source is not None and is_equal(source.shape[0], input.shape[0]):
        x, axes = source, list(range(1, source.rank))
    else:
        x, axes = input, list(range(2, input.rank))
    _, variance, distance = moments(x, axes)
    factor = p.div(_align_channels(scale, x), p.sqrt(variance + epsilon))
    return p.reshape(p.add(p.mul(distance, factor), _align_channels(B, x)), input.shape)


@op("GroupNormalization", since=18)
def group_normalization_18(X: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5) -> Tensor:
    """Normalize each group of channels of each sample; `scale` and `bias` have an entry for each group (opset 18).

    If all sizes of X are static, num_groups must divide the number of channels.
    """
    share = floordiv(X.shape[1], num_groups)
    repeated = [
        p.reshape(p.broadcast_to(p.unsqueeze(vector, [1]), (num_groups, share)), (X.shape[1],))
        for vector in (scale, bias)
    ]
    return group_normalization(X, *repeated, num_groups=num_groups, epsilon=epsilon)


@op("GroupNormalization", since=21)
def group_normalization(
    X: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """Normalize each group of channels of each sample; `scale` and `bias` have an entry for each channel.

    The statistics are computed in the wider of the dtype of X and `stash_type`. Raises InvalidModelError if the static
    length of `scale` or `bias` is not the number of channels. If all sizes of X are static, num_groups must divide the
    number of channels.
    """
    _check_channels(X, scale, bias)
    n, c = X.shape[:2]
    groups = p.reshape(p.cast(X, compute_dtype(X, stash_type)), (n, num_groups, floordiv(c, num_groups), *X.shape[2:]))
    _, variance, distance = moments(groups, list(range(2, groups.rank)))
    normal = p.reshape(p.div(distance, p.sqrt(variance + epsilon)), X.shape)
    return p.add(p.mul(p.cast(normal, X.dtype), _align_channels(scale, X)), _align_channels(bias, X))


@op("LayerNormalization", since=17)
def layer_normalization(
    ctx: "Context",
    X: Tensor,
    Scale: Tensor,
    B: Optional[Tensor] = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Normalized:
    """Normalize over the axes from `axis` on, then scale and shift. Return (result, mean, 1 / standard deviation).

    The standard deviation is sqrt(variance + epsilon). An absent B is 0.

    The mean and 1 / standard deviation keep the normalized axes, with size 1. Their dtype is the wider of the dtype of
    X and `stash_type`. 1 / standard deviation is None if it is not requested. Raises InvalidModelError for an axis that
    is out of range.
    """
    axes = list(range(p.axis_of(axis, X.rank), X.rank))
    mean, variance, distance = moments(p.cast(X, compute_dtype(X, stash_type)), axes)
    deviation = p.sqrt(variance + epsilon)
    y = p.mul(p.cast(p.div(distance, deviation), X.dtype), Scale)
    y = y if B is None else p.add(y, B)
    return y, mean, p.div(1.0, deviation) if ctx.wants(2) else None


@op("RMSNormalization", since=23)
def rms_normalization(
    X: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """Divide X by its root mean square over the axes from `axis` on, then scale. The result has the dtype of `scale`.

    epsilon is added to the mean square. The mean is computed in the wider of the dtype of X and `stash_type`. Raises
    InvalidModelError for an axis that is out of range.
    """
    axes = list(range(p.axis_of(axis, X.rank), X.rank))
    x: Any = p.cast(X, compute_dtype(X, stash_type))
    square: Any = p.reduce_mean(x * x, axes, keepdims=True)
    return p.mul(p.cast(x / p.sqrt(square + epsilon), scale.dtype), scale)


@op("LpNormalization", since=(1, 22))
def lp_normalization(input: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """Divide by the norm along an axis: L1 if p is 1, else L2. A slice whose norm is 0 does not change."""
    return _divide_by_norm(input, axis, p)


def _divide_by_norm(x: Tensor, axis: int, power: int) -> Tensor:
    """Divide x by its norm along an axis: L1 if `power` is 1, else L2. Slices whose norm is 0 do not change."""
    norm = p.reduce_sum(p.abs(x) if power == 1 else x * x, [axis], keepdims=True)
    kept = p.where(p.equal(norm, 0), 1, norm)  # before the root, whose derivative at 0 is infinite
    return p.div(x, kept if power == 1 else p.sqrt(kept))


@op("MeanVarianceNormalization", since=(9, 13))
def mean_variance_normalization(X: Tensor, *, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
    """Subtract the mean over the axes, and divide by the standard deviation over the axes plus 1e-9.

    Raises InvalidModelError for an axis that is out of range.
    """
    _, variance, distance = moments(X, normalize_axes(axes, X.rank))
    return p.div(distance, p.sqrt(variance) + 1e-9)


@op("MeanVarianceNormalization", since=1)
def mean_variance_normalization_1(X: Tensor, *, across_channels: int = 0, normalize_variance: int = 1) -> Tensor:
    """Subtract the mean, and divide by the standard deviation plus 1e-9: MeanVarianceNormalization of ONNX 1.0 to 1.3.

    If `across_channels` is nonzero, the statistics are over all axes. Otherwise they are over all axes but axis 1, the
    channels; the batch is included. If `normalize_variance` is 0, only the mean is subtracted.
    """
    axes = list(range(X.rank)) if across_channels else [axis for axis in range(X.rank) if axis != 1]
    _, variance, distance = moments(X, axes)
    return p.div(distance, p.sqrt(variance) + 1e-9) if normalize_variance else distance


@op("LRN", since=(1, 13))
def lrn(X: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    """Return X / (bias + alpha / size * s) ** beta, where s is the sum of squares over `size` adjacent channels.

    (size - 1) // 2 of these channels come before the channel itself, size // 2 after it. Size 4: one before, two after.
    Channels beyond the ends count as 0. Raises InvalidModelError for a size below 1. Raises LimitError for a size of
    more than `unrolled_rounds` channels.
    """
    if size < 1:
        raise InvalidModelError("the size of an LRN is 1 or more, not %d" % size)
    low, high = (size - 1) // 2, size - 1 - (size - 1) // 2
    if is_static(X.shape[1]):  # all further channels are padding
        low, high = min(low, X.shape[1]), min(high, X.shape[1])
    limits.check("unrolled_rounds", low + high + 1, "an LRN over %d channels" % size)
    rest = [0] * (X.rank - 2)
    squares = p.pad(X * X, [0, low, *rest], [0, high, *rest])
    window_sums: Any = p.slice_axis(squares, 1, 0, X.shape[1])
    for k in range(1, low + high + 1):
        window_sums = window_sums + p.slice_axis(squares, 1, k, X.shape[1] + k)
    return p.div(X, p.pow(window_sums * (alpha / size) + bias, beta))
