"""LinearClassifier and LinearRegressor."""

from typing import List, Optional, Sequence

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import is_equal
from onnx_compat.ir.dtypes import float32
from onnx_compat.ops.arguments import Floats, Ints, Strings
from onnx_compat.ops.ml.common import (
    DOMAIN,
    apply_post_transform,
    as_rows,
    expand_to_two_scores,
    label_tensor,
    select_label,
    transform_single_score,
    transform_target_scores,
)
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift


def _linear_scores(
    x: Tensor, coefficients: Sequence[float], intercepts: Optional[Sequence[float]], count: int
) -> Tensor:
    """Return x times the coefficients plus the intercepts, [rows, count], for `count` classes or targets.

    `coefficients` lists all coefficients of the first class or target, then those of the next. Without intercepts
    nothing is added. Raises InvalidModelError in these cases:

    - `count` is not positive or does not divide the number of coefficients
    - the number of coefficients of a class or target is not the static number of features
    """
    table = np.asarray(coefficients, np.float32)
    if count <= 0 or table.size % count:
        raise InvalidModelError("%d coefficients cannot be divided among %d classes or targets" % (table.size, count))
    scores = p.matmul(x, lift(np.ascontiguousarray(table.reshape(count, -1).T)))
    return p.add(scores, lift(np.asarray(intercepts, np.float32))) if intercepts else scores


@op("LinearClassifier", since=1, domain=DOMAIN)
def linear_classifier(
    X: Tensor,
    *,
    coefficients: Sequence[float],
    intercepts: Floats = None,
    classlabels_ints: Ints = None,
    classlabels_strings: Strings = None,
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> List[Tensor]:
    """Return [label of each row, scores of each row after the post_transform].

    The number of scores is that of the intercepts. Without intercepts, it is the number of coefficients divided by the
    number of features. If the latter is symbolic, it is the number of labels.

    - Several scores: the label is the class with the greatest score.
    - One score: the label is the second class if the score is positive, else the first. With two labels, these are
      the classes, and both get a score. Otherwise the classes are 0 and 1.

    `multi_class` has no effect. Raises InvalidModelError in these cases:

    - There are several scores without labels, or with an unknown post_transform.
    - Rows have no features, and there are no intercepts.
    - The coefficients do not fit the numbers of scores and features.
    """
    x = as_rows(X)
    labels = label_tensor(classlabels_ints, classlabels_strings)
    names = list(classlabels_strings or classlabels_ints or ())
    if intercepts:
        count = len(intercepts)
    else:
        width = x.shape[1]
        if is_equal(width, 0):
            raise InvalidModelError(
                "a LinearClassifier of rows without features has an unknown number of scores",
                hint="give it intercepts, or rows of at least one feature",
            )
        count = len(coefficients) // width if isinstance(width, int) else len(names)
    scores = _linear_scores(x, coefficients, intercepts, count)
    if labels is None and count > 1:
        raise InvalidModelError("a LinearClassifier needs the labels of its classes")
    if labels is not None and count > 1:
        return [p.take(labels, p.argmax(scores, 1), 0), apply_post_transform(scores, post_transform)]
    if len(names) != 2:
        names = ["0", "1"] if classlabels_strings else [0, 1]
    label = select_label(labels, p.squeeze(p.greater(scores, 0.0), [1]), names[1], names[0])
    if labels is not None and labels.shape[0] == 2:
        return [label, expand_to_two_scores(scores, post_transform, mixed=False)]
    return [label, transform_single_score(scores, post_transform)]


@op("LinearRegressor", since=1, domain=DOMAIN)
def linear_regressor(
    X: Tensor,
    *,
    coefficients: Sequence[float] = (),
    intercepts: Floats = None,
    post_transform: str = "NONE",
    targets: int = 1,
) -> Tensor:
    """Return the scores of a linear regression, [rows, targets]: X times the coefficients plus the intercepts.

    With a single target, only the post_transform PROBIT has an effect. Raises InvalidModelError if `targets` is not
    positive or does not divide the number of coefficients.
    """
    scores = _linear_scores(as_rows(X, float32), coefficients, intercepts, targets)
    return transform_target_scores(scores, targets, post_transform)
