"""Support vector machines: SVMClassifier and SVMRegressor."""

from typing import Any, List, NamedTuple, Sequence, Tuple

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import float32
from onnx_compat.ops.arguments import Floats, Ints, Strings
from onnx_compat.ops.ml.common import (
    DOMAIN,
    apply_post_transform,
    as_rows,
    expand_to_two_scores,
    label_tensor,
    transform_single_score,
)
from onnx_compat.ops.ml.coupling import couple_probabilities
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift


class _Kernel(NamedTuple):
    """The kernel function (LINEAR, POLY, RBF or SIGMOID) and its parameters, as `_kernel_products` uses them."""

    name: str
    gamma: float
    coef0: float
    degree: float


def _kernel(name: str, params: Any) -> _Kernel:
    if name not in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        raise InvalidModelError("kernel_type is LINEAR, POLY, RBF or SIGMOID, not %r" % name)
    if params and len(params) != 3:
        raise InvalidModelError("kernel_params has %d entries; it is gamma, coef0 and degree" % len(params))
    gamma, coef0, degree = params or (0.0, 0.0, 0.0)
    return _Kernel(name, gamma, coef0, degree)


def _rows(name: str, values: Sequence[float], count: int) -> np.ndarray:
    """Return the attribute `name` as a float32 array of `count` rows.

    Raises InvalidModelError if the attribute is empty, or if the number of its entries is no multiple of `count`.
    """
    table = np.asarray(values, np.float32)
    if not table.size or table.size % count:
        raise InvalidModelError(
            "%s has %d entries, which cannot be divided among %d support vectors or classes" % (name, table.size, count)
        )
    return table.reshape(count, -1)


def _kernel_products(x: Tensor, vectors: np.ndarray, kernel: _Kernel) -> Tensor:
    """Return the kernel function of each row of x with each support vector: [rows, vectors].

    The value for a row x and a vector v, where x.v is the dot product:

    - LINEAR: x.v
    - POLY: (gamma * x.v + coef0) ** degree
    - SIGMOID: tanh(gamma * x.v + coef0)
    - RBF: exp(-gamma * |x - v| ** 2)
    """
    table = lift(np.ascontiguousarray(vectors.T))
    if kernel.name == "RBF":
        # The squares of the differences: the difference of large squares would lose precision.
        difference = p.sub(p.unsqueeze(x, [1]), lift(vectors[None]))
        return p.exp(p.mul(p.reduce_sum(p.mul(difference, difference), [2]), -kernel.gamma))
    dot = p.matmul(x, table)
    if kernel.name == "LINEAR":
        return dot
    dot = p.add(p.mul(dot, kernel.gamma), kernel.coef0)
    return p.pow(dot, kernel.degree) if kernel.name == "POLY" else p.tanh(dot)


@op("SVMRegressor", since=1, domain=DOMAIN)
def svm_regressor(
    X: Tensor,
    *,
    coefficients: Sequence[float] = (),
    kernel_params: Floats = None,
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    rho: Sequence[float] = (),
    support_vectors: Sequence[float] = (),
) -> Tensor:
    """Return the score [rows, 1] of a support vector machine, or of a linear model if n_supports is 0.

    The score includes the constant rho[0]; without `rho`, the constant is 0. If `one_class`, return 1 for a positive
    score, else -1. As in onnxruntime, a post_transform has no effect.

    Raises InvalidModelError if the rank of X is not 1 or 2, or if the lengths of attributes do not fit each other. A
    support vector machine with an unknown kernel_type raises it too.
    """
    x, weights = as_rows(X), np.asarray(coefficients, np.float32).reshape(-1, 1)
    if n_supports > 0:
        vectors = _rows("support_vectors", support_vectors, n_supports)
        x = _kernel_products(x, vectors, _kernel(kernel_type, kernel_params))
    score = p.add(p.matmul(x, lift(weights)), rho[0] if rho else 0.0)
    if one_class:
        return p.where(p.greater(score, 0.0), lift(1.0, float32), lift(-1.0, float32))
    return score


@op("SVMClassifier", since=1, domain=DOMAIN)
def svm_classifier(
    X: Tensor,
    *,
    classlabels_ints: Ints = None,
    classlabels_strings: Strings = None,
    coefficients: Sequence[float] = (),
    kernel_params: Floats = None,
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: Floats = None,
    prob_b: Floats = None,
    rho: Sequence[float] = (),
    support_vectors: Sequence[float] = (),
    vectors_per_class: Ints = None,
) -> List[Tensor]:
    """Return [label of each row, scores of each row after post_transform].

    - Without vectors_per_class, or if it adds up to 0: a linear model with one score for each class. The label is the
      class with the greatest score.
    - With vectors_per_class: a decision value for each pair of classes. The label is the class that wins most
      decisions. With `prob_a`, the scores are a probability for each class. Without it, the scores are the decision
      values.

    Exception, as in onnxruntime: a linear model with two labels and without `prob_a` selects the second label if the
    greatest score is > 0. If no coefficient is negative, the greatest score must be >= 1/2 instead.

    A single decision value s of two classes gives two scores: -s and s for the post_transform NONE, sigmoid(-s) and
    sigmoid(s) for LOGISTIC, probit(1 - s) and probit(s) for PROBIT, else 1 - s and s.

    Raises InvalidModelError without labels, and if the lengths of attributes do not fit each other. With support
    vectors, an unknown kernel_type raises it; with several scores, an unknown post_transform.
    """
    labels = label_tensor(classlabels_ints, classlabels_strings)
    if labels is None:
        raise InvalidModelError("an SVMClassifier needs the labels of its classes")
    names: List[Any] = [*(classlabels_strings or classlabels_ints or ())]
    x, table = as_rows(X), np.asarray(coefficients, np.float32)
    if not vectors_per_class or not sum(vectors_per_class):  # a linear model with a row for each class
        rows = _rows("coefficients", coefficients, len(names))
        scores = p.add(p.matmul(x, lift(np.ascontiguousarray(rows.T))), rho[0] if rho else 0.0)
        winner = p.argmax(scores, 1)
        best_score = p.reduce_max(scores, [1])
    else:
        _check_vectors_per_class(vectors_per_class, len(names))
        vectors = _rows("support_vectors", support_vectors, sum(vectors_per_class))
        products = _kernel_products(x, vectors, _kernel(kernel_type, kernel_params))
        scores = _decisions(products, table, vectors_per_class, rho)
        votes = _votes(scores, len(names))
        best_score, winner = None, p.argmax(votes, 1)
        if prob_a:
            _check_pairs(len(names), prob_a=prob_a, prob_b=prob_b or ())
            scores = couple_probabilities(scores, prob_a, prob_b or (), len(names))
    label = p.take(labels, winner, 0)
    if (
        len(names) == 2 and best_score is not None and not prob_a
    ):  # by the decision boundary of the second class, as in onnxruntime
        is_second = p.greater_equal(best_score, 0.5) if (table >= 0).all() else p.greater(best_score, 0.0)
        label = p.where(is_second, lift(names[1], labels.dtype), label)
    if scores.shape[1] != 1:
        return [label, apply_post_transform(scores, post_transform)]
    if len(names) == 2:
        return [label, expand_to_two_scores(scores, post_transform, mixed=post_transform == "NONE")]
    return [label, transform_single_score(scores, post_transform)]


def _check_vectors_per_class(counts: Sequence[int], classes: int) -> None:
    """Raise InvalidModelError unless there is a number of support vectors, 0 or more, for each class."""
    if len(counts) != classes or min(counts) < 0:
        raise InvalidModelError(
            "vectors_per_class is %s; it must have a number of 0 or more for each of %d classes"
            % (list(counts), classes)
        )


def _check_pairs(classes: int, **attributes: Sequence[float]) -> None:
    """Raise InvalidModelError if an attribute has fewer entries than there are pairs of classes."""
    pairs = len(_class_pairs(classes))
    for name, values in attributes.items():
        if len(values) < pairs:
            raise InvalidModelError("%s has %d entries for %d pairs of classes" % (name, len(values), pairs))


def _class_pairs(classes: int) -> List[Tuple[int, int]]:
    return [(i, j) for i in range(classes) for j in range(i + 1, classes)]


def _decisions(products: Tensor, table: np.ndarray, counts: Sequence[int], rho: Sequence[float]) -> Tensor:
    """Return the decision value of each pair of classes, [rows, pairs]; positive for the first class of the pair.

    - products: the kernel function of each row with each support vector, [rows, vectors].
    - table: the weights of the support vectors as libsvm stores them, [classes - 1, vectors]. The array may be flat.
    - counts: the number of support vectors of each class.
    - rho: the constant that is added for each pair.

    The pairs have the order (0, 1), (0, 2), …, (1, 2), …. Raises InvalidModelError if rho has fewer entries than pairs,
    or if the number of weights is not (classes - 1) * vectors.
    """
    total = int(sum(counts))
    ends = np.cumsum([0, *counts])
    if table.size != (len(counts) - 1) * total:
        raise InvalidModelError(
            "coefficients has %d entries; %d support vectors of %d classes need %d"
            % (table.size, total, len(counts), (len(counts) - 1) * total)
        )
    weights = table.reshape(-1, total)
    _check_pairs(len(counts), rho=rho)
    pairs = _class_pairs(len(counts))
    pair_weights = np.zeros((total, len(pairs)), np.float32)
    for k, (i, j) in enumerate(pairs):
        pair_weights[ends[i] : ends[i + 1], k] = weights[j - 1, ends[i] : ends[i + 1]]
        pair_weights[ends[j] : ends[j + 1], k] = weights[i, ends[j] : ends[j + 1]]
    return p.add(p.matmul(products, lift(pair_weights)), lift(np.asarray(rho[: len(pairs)], np.float32)))


def _votes(scores: Tensor, classes: int) -> Tensor:
    """Return how many decisions between pairs of classes each class wins: [rows, classes].

    `scores` has a decision value for each pair, [rows, pairs], in the order (0, 1), (0, 2), …, (1, 2), …; a positive
    value counts for the first class, any other for the second.
    """
    votes = np.zeros((2, classes * (classes - 1) // 2, classes), np.float32)
    for k, (i, j) in enumerate(_class_pairs(classes)):
        votes[0, k, i] = votes[1, k, j] = 1
    first_wins = p.cast(p.greater(scores, 0.0), float32)
    return p.add(p.matmul(first_wins, lift(votes[0])), p.matmul(p.sub(1.0, first_wins), lift(votes[1])))
