"""Losses of whole structures: the overlap of masks, embeddings of a batch, and sequences (CTC)."""

from typing import Any, List, Optional, Sequence, Tuple, Union

from onnx_compat import primitives as p
from onnx_compat.errors import InputError
from onnx_compat.ir.dims import is_static
from onnx_compat.ir.dtypes import int64
from onnx_compat.tracing.values import Tensor
from onnx_compat.training.loss_inputs import EPSILON, align, check_predictions, log_sum_exp, softplus

Axes = Union[None, int, Sequence[int]]


def _axes(axis: Axes) -> Optional[Sequence[int]]:
    return [axis] if isinstance(axis, int) else axis


def dice(labels: Tensor, predictions: Tensor, *, axis: Axes = None) -> Tensor:
    """Return 1 - 2 * sum(label * prediction) / (sum(label) + sum(prediction) + 1e-7).

    The sums are over `axis`, an int or a list of them. By default they are over all axes, and the loss is a scalar.
    """
    labels, predictions = align(labels, predictions)
    axes = _axes(axis)
    overlap: Any = p.reduce_sum(p.mul(labels, predictions), axes)
    return p.sub(1, overlap * 2 / (p.reduce_sum(labels, axes) + p.reduce_sum(predictions, axes) + EPSILON))


def tversky(labels: Tensor, predictions: Tensor, *, alpha: float = 0.5, beta: float = 0.5, axis: Axes = None) -> Tensor:
    """Return 1 - overlap / (overlap + alpha * sum(label * (1 - prediction)) + beta * sum((1 - label) * prediction)).

    overlap is sum(label * prediction), and 1e-7 is added to the divisor. `axis` is that of `dice`.
    """
    labels, predictions = align(labels, predictions)
    axes = _axes(axis)
    overlap: Any = p.reduce_sum(labels * predictions, axes)
    missed: Any = p.reduce_sum(labels * (1 - predictions), axes)
    invented: Any = p.reduce_sum((1 - labels) * predictions, axes)
    return p.sub(1, overlap / (overlap + missed * alpha + invented * beta + EPSILON))


def circle(
    labels: Tensor, predictions: Tensor, *, gamma: float = 80.0, margin: float = 0.4, remove_diagonal: bool = True
) -> Tensor:
    """Return the circle loss of each example: pairs of the batch with one label are near, the other pairs far.

    - labels: class indices [N] or [N, 1].
    - predictions: embeddings [N, D] of Euclidean norm 1.
    - gamma: the scale of the logits. margin: the relaxation.
    - remove_diagonal: an example is no pair with itself.

    Examples with the loss 0 do not count in a mean. Raises InputError for other ranks.
    """
    check_predictions(predictions)
    if predictions.rank != 2 or labels.rank not in (1, 2):
        raise InputError(
            "labels %s and embeddings %s must have the shapes [N] and [N, D]" % (labels.spec, predictions.spec)
        )
    classes = p.reshape(p.cast(labels, int64), [predictions.shape[0], 1])
    distances: Any = p.maximum(1 - p.matmul(predictions, predictions, None, False, True), 0)
    is_positive = is_like = p.equal(classes, p.transpose(classes, [1, 0]))
    if remove_diagonal:
        index = p.iota(predictions.shape[0])
        is_positive = p.logical_and(is_like, p.not_equal(p.unsqueeze(index, [1]), p.unsqueeze(index, [0])))
    is_negative = p.logical_not(is_like)
    near = p.maximum(distances + margin, 0) * (distances - margin) * gamma
    far = p.maximum(1 + margin - distances, 0) * (1 - margin - distances) * gamma
    loss: Tensor = softplus(p.add(log_sum_exp(near, 1, is_positive), log_sum_exp(far, 1, is_negative)))
    return loss


#: The log-probability of an impossible path. It is finite: the difference of two infinities would be NaN.
_IMPOSSIBLE = -1e30
#: The number of time steps up to which the recurrence of CTC is unrolled; longer or symbolic sequences are a scan.
_UNROLLED_STEPS = 64
#: The class of CTC that is no symbol: it separates equal symbols, and fills the labels of short sequences.
_BLANK = 0


def ctc(labels: Tensor, predictions: Tensor) -> Tensor:
    """Return the connectionist temporal classification loss: -log(sum of the probabilities of all alignments).

    - labels: class indices [N, L] from 1 on. 0 is the blank, and fills labels that are shorter than L.
    - predictions: logits [N, T, C].

    The loss is inf if T steps are too few for the labels, and NaN for a label out of range. Raises InputError for other
    ranks.
    """
    check_predictions(predictions)
    if labels.rank != 2 or predictions.rank != 3:
        raise InputError("labels %s and logits %s must have the ranks 2 and 3" % (labels.spec, predictions.spec))
    classes, states = p.cast(labels, int64), _alignment_states(p.cast(labels, int64))
    emissions, is_known = _emissions(states, predictions)
    can_skip = p.logical_and(p.not_equal(states, _BLANK), p.not_equal(states, _shift(states, 2, _BLANK)))
    position: Any = p.unsqueeze(p.iota(states.shape[1]), [0])
    start = p.where(p.equal(position, 0), p.full((1, 1), 0, predictions.dtype), _IMPOSSIBLE)

    def advance(paths: Any, emission: Any) -> List[Tensor]:
        """Return the log-probabilities of the paths that end in each state, after another time step."""
        previous = _shift(paths, 1, _IMPOSSIBLE)
        skipping = p.where(can_skip, _shift(paths, 2, _IMPOSSIBLE), _IMPOSSIBLE)
        return [p.add(log_sum_exp(p.stack([paths, previous, skipping], 0), 0), emission)]

    paths = _repeat(advance, p.broadcast_to(start, states.shape), emissions)
    last: Any = p.reduce_sum(p.cast(p.not_equal(classes, _BLANK), int64), [1], keepdims=True) * 2
    is_end = p.logical_or(p.equal(position, last), p.equal(position, last - 1))
    total: Any = log_sum_exp(paths, 1, is_end)
    loss = p.where(total < _IMPOSSIBLE / 2, float("inf"), p.neg(total))
    return p.where(is_known, loss, float("nan"))


def _alignment_states(classes: Any) -> Any:
    """Return the states of an alignment [N, 2L + 1]: the class indices [N, L] with a blank before and after each."""
    blanks = p.full(classes.shape, _BLANK, int64)
    pairs = p.reshape(p.stack([blanks, classes], 2), [classes.shape[0], classes.shape[1] * 2])
    return p.concat([pairs, p.full([classes.shape[0], 1], _BLANK, int64)], 1)


def _shift(x: Any, count: int, value: float) -> Any:
    """Return x [N, S] moved by `count` along axis 1. The first elements are `value`; the last ones are dropped."""
    return p.slice_axis(p.concat([p.full([x.shape[0], count], value, x.dtype), x], 1), 1, 0, x.shape[1])


def _emissions(states: Any, predictions: Any) -> Tuple[Any, Any]:
    """Return (log-probability [T, N, S] of the class of each state at each time, whether each example is valid [N]).

    An example is valid if the classes of all its states are in range.
    """
    log_probabilities = p.clip(p.log_softmax(predictions, 2), _IMPOSSIBLE, None)
    hot = p.one_hot(states, predictions.shape[2], 1)
    emissions = p.matmul(log_probabilities, p.cast(hot, predictions.dtype))
    return p.transpose(emissions, [1, 0, 2]), p.reduce_min(p.reduce_max(hot, [1]), [1])


def _repeat(advance: Any, state: Any, xs: Any) -> Any:
    """Return the last state of `state = advance(state, x)[0]` over the slices x of `xs` along its first axis."""
    steps = xs.shape[0]
    if not is_static(steps) or steps > _UNROLLED_STEPS:
        return p.scan(advance, [state], [xs], steps)[0]
    for step in range(int(steps)):
        state = advance(state, p.squeeze(p.slice_axis(xs, 0, step, step + 1), [0]))[0]
    return state
