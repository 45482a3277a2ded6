"""Losses by name, and their reduction to a scalar.

A loss is a function `f(labels, predictions, **options)` over primitives that returns a loss for each example. Names,
options, defaults and results are those of Keras 3. `softmax_cross_entropy` and `negative_log_likelihood` are ONNX's.
"""

from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from onnx_compat import primitives as p
from onnx_compat.errors import InputError
from onnx_compat.ir.dims import is_static
from onnx_compat.ir.dtypes import float32, int64
from onnx_compat.tracing.values import Tensor, lift
from onnx_compat.training import class_losses, regression_losses, structure_losses
from onnx_compat.training.loss_inputs import align_ranks, class_indices
from onnx_compat.training.names import check_options, find, keyword_defaults

__all__ = ["LOSSES", "LossFunction", "example_counts", "loss_function", "mean", "scalar_loss", "weigh"]

LossFunction = Callable[..., Tensor]

_FUNCTIONS: List[LossFunction] = [
    class_losses.binary_crossentropy,
    class_losses.binary_focal_crossentropy,
    class_losses.categorical_crossentropy,
    class_losses.categorical_focal_crossentropy,
    class_losses.categorical_generalized_cross_entropy,
    class_losses.kl_divergence,
    class_losses.negative_log_likelihood,
    class_losses.softmax_cross_entropy,
    class_losses.sparse_categorical_crossentropy,
    regression_losses.categorical_hinge,
    regression_losses.cosine_similarity,
    regression_losses.hinge,
    regression_losses.huber,
    regression_losses.log_cosh,
    regression_losses.mean_absolute_error,
    regression_losses.mean_absolute_percentage_error,
    regression_losses.mean_squared_error,
    regression_losses.mean_squared_logarithmic_error,
    regression_losses.poisson,
    regression_losses.squared_hinge,
    structure_losses.circle,
    structure_losses.ctc,
    structure_losses.dice,
    structure_losses.tversky,
]

#: Name -> loss. `loss_function` takes other spellings too.
LOSSES: Dict[str, LossFunction] = {function.__name__: function for function in _FUNCTIONS}

#: The short names of Keras, and the operators of ONNX, in lower case -> name.
ALIASES = {
    "bce": "binary_crossentropy",
    "kld": "kl_divergence",
    "kullbackleiblerdivergence": "kl_divergence",
    "mae": "mean_absolute_error",
    "mape": "mean_absolute_percentage_error",
    "mse": "mean_squared_error",
    "msle": "mean_squared_logarithmic_error",
    "negativeloglikelihoodloss": "negative_log_likelihood",
    "softmaxcrossentropyloss": "softmax_cross_entropy",
}


def loss_function(name: str) -> LossFunction:
    """Return a loss by its name in any spelling: mean_squared_error, MeanSquaredError, mse.

    Raises InputError for another name.
    """
    return find("loss", name, LOSSES, ALIASES)


def _valid_classes(labels: Any, predictions: Any, losses: Any, options: Dict[str, Any]) -> Any:
    axis = p.axis_of(options.get("axis", -1), predictions.rank)
    classes = class_indices(labels, predictions, axis)
    return p.cast(class_losses.is_valid_class(classes, options.get("ignore_class")), losses.dtype)


def _positive_losses(_labels: Any, _predictions: Any, losses: Any, _options: Dict[str, Any]) -> Any:
    return p.cast(p.greater(losses, 0), losses.dtype)


def _class_weights(labels: Any, predictions: Any, _losses: Any, options: Dict[str, Any]) -> Any:
    return class_losses.class_weights(labels, predictions, options.get("weights"), options.get("ignore_index"))


_OF_ONNX = (class_losses.negative_log_likelihood, class_losses.softmax_cross_entropy)

#: Loss -> the function (labels, predictions, losses, options) that returns how much each loss counts in a mean.
_COUNTS: Dict[LossFunction, Callable[..., Any]] = {
    **dict.fromkeys(_OF_ONNX, _class_weights),
    class_losses.sparse_categorical_crossentropy: _valid_classes,
    structure_losses.circle: _positive_losses,
}


def weigh(losses: Tensor, sample_weight: Any) -> Tuple[Any, Any]:
    """Return (losses * weights, weights). A last axis of length 1 is added or removed first, as in `align_ranks`.

    Raises InputError unless the weights are a scalar, or have the rank of the losses and sizes that broadcast.
    """
    losses, weights = align_ranks(losses, p.cast(lift(sample_weight), losses.dtype))
    sizes = zip(weights.shape, losses.shape)
    if weights.rank and (
        weights.rank != losses.rank or any(is_static(w) and is_static(n) and w not in (1, n) for w, n in sizes)
    ):
        raise InputError(
            "sample weights of the shape %s do not fit losses of the shape %s"
            % (list(weights.shape), list(losses.shape)),
            hint="give a weight for each loss; an axis of length 1 repeats a weight",
        )
    return p.mul(losses, weights), weights


def scalar_loss(
    loss: Union[str, LossFunction],
    labels: Tensor,
    predictions: Tensor,
    sample_weight: Any = None,
    reduction: str = "mean",
    **options: Any,
) -> Tensor:
    """Return the loss of a batch: a scalar, float64 for float64 predictions, else float32.

    - loss: a name that `loss_function` takes, or a function (labels, predictions, **options) over primitives.
    - sample_weight: a factor for each loss, or a scalar; None: 1. An axis of length 1 repeats its factor.
    - reduction: "mean" is the sum of the weighted losses divided by their number, "sum" their sum, "none" the losses
      themselves. Ignored labels do not count in the number; the mean of no losses is 0. ONNX's two losses divide by the
      sum of the labels' class weights: their mean of no labels is NaN.
    - options: the options of the loss.

    Raises InputError for an unknown loss, option or reduction, and for labels or weights that do not fit.
    """
    if reduction not in ("mean", "sum", "none"):
        raise InputError("a loss is reduced by mean, sum or none, not by %r" % (reduction,))
    function = loss if callable(loss) else loss_function(loss)
    if function in LOSSES.values():
        check_options("the loss '%s'" % function.__name__, options, keyword_defaults(function))
    if predictions.dtype.kind == "f" and predictions.dtype.name != "float64":
        predictions = p.cast(predictions, float32)
    losses = function(labels, predictions, **options)
    weighted = losses if sample_weight is None else weigh(losses, sample_weight)[0]
    if reduction == "none":
        return weighted
    if reduction == "sum":
        return p.reduce_sum(weighted)
    return mean(weighted, example_counts(function, labels, predictions, losses, options), function)


def example_counts(
    function: LossFunction, labels: Tensor, predictions: Tensor, losses: Tensor, options: Dict[str, Any]
) -> Optional[Tensor]:
    """Return how much each loss that `function(labels, predictions, **options)` returned counts in a mean.

    None is returned if each counts as 1.
    """
    counts = _COUNTS.get(function)
    return None if counts is None else counts(labels, predictions, losses, options)


def mean(losses: Tensor, counts: Optional[Tensor], function: Optional[LossFunction] = None) -> Tensor:
    """Return the sum of the losses divided by the sum of `counts`; None: by their number.

    The mean is 0 if the divisor is 0, but NaN if `function` is a loss of ONNX.
    """
    total = p.reduce_sum(losses)
    count = p.cast(lift(losses.size, int64), total.dtype) if counts is None else p.reduce_sum(counts)
    if function in _OF_ONNX:
        return p.div(total, count)
    is_empty = p.equal(count, 0)
    return p.where(is_empty, 0, p.div(total, p.where(is_empty, 1, count)))
