"""Operators of ai.onnx.ml that compute features: selection, scaling, imputation, encoding."""

import math
from typing import Any, List, Sequence

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import is_static
from onnx_compat.ir.dtypes import float32, int64
from onnx_compat.ops.arguments import Floats, Ints, Strings, product
from onnx_compat.ops.ml.common import DOMAIN, label_tensor
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift


@op("ArrayFeatureExtractor", since=1, domain=DOMAIN)
def array_feature_extractor(X: Tensor, Y: Tensor) -> Tensor:
    """Return the elements of X at the indices Y on the last axis: [..., number of indices].

    Y is flattened. A vector X counts as a matrix of one row.
    """
    x = p.unsqueeze(X, [0]) if X.rank == 1 else X
    return p.take(x, p.reshape(Y, (Y.size,)), -1)


@op("Binarizer", since=1, domain=DOMAIN)
def binarizer(X: Tensor, *, threshold: float = 0.0) -> Tensor:
    """Return 1 where X exceeds the threshold, else 0, in the dtype of X; 0 for NaN.

    Integers are compared with the exact threshold: 1 exceeds 0.5.
    """
    bound: Any = threshold
    if X.dtype.kind != "f":
        if not X.dtype.min <= threshold <= X.dtype.max:
            return p.full(X.shape, int(threshold < 0), X.dtype)
        bound = math.floor(threshold)
    return p.cast(p.greater(X, bound), X.dtype)


@op("FeatureVectorizer", since=1, domain=DOMAIN)
def feature_vectorizer(*X: Tensor, inputdimensions: Ints = None) -> Tensor:
    """Concatenate the features of all inputs to a float32 tensor [rows, features]. A vector is one row.

    The features of an input are all its axes but the first, flattened. If `inputdimensions` is given, its entry k is
    the number of features of input k. Input k is then truncated or padded with zeros to this number.

    Raises InvalidModelError if `inputdimensions` does not have one entry for each input.
    """
    if inputdimensions and len(inputdimensions) != len(X):
        raise InvalidModelError("inputdimensions has %d entries for %d inputs" % (len(inputdimensions), len(X)))
    parts: List[Tensor] = []
    for k, x in enumerate(X):
        lead, inner = (1, x.shape) if x.rank == 1 else (x.shape[0], x.shape[1:])
        part = p.cast(p.reshape(x, (lead, product(inner))), float32)
        parts.append(_cut_or_pad(part, inputdimensions[k]) if inputdimensions else part)
    return p.concat(parts, 1)


def _cut_or_pad(x: Tensor, width: int) -> Tensor:
    if not is_static(x.shape[1]):  # padded by the largest possible amount, then truncated
        return p.slice_axis(p.pad(x, [0, 0], [0, width]), 1, 0, width)
    current = int(x.shape[1])
    return p.slice_axis(x, 1, 0, width) if current >= width else p.pad(x, [0, 0], [0, width - current])


@op("Imputer", since=1, domain=DOMAIN)
def imputer(
    X: Tensor,
    *,
    imputed_value_floats: Floats = None,
    imputed_value_int64s: Ints = None,
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Tensor:
    """Replace each element that equals replaced_value by the imputed value. Return the new tensor.

    A float X uses replaced_value_float, which may be NaN, and imputed_value_floats. Any other X uses the attributes of
    int64. There is one imputed value for all elements, or one for each position on the last axis. If there is another
    number of values and the last axis is static, the first value is used for all elements.

    Raises InvalidModelError if there are no imputed values for the dtype of X.
    """
    floats = X.dtype.kind == "f"
    values, replaced_value = (
        (imputed_value_floats, replaced_value_float) if floats else (imputed_value_int64s, replaced_value_int64)
    )
    if not values:
        raise InvalidModelError("the Imputer has no imputed values for %s" % X.dtype.name)
    width = X.shape[-1]
    if is_static(width) and width != len(values):  # onnxruntime takes the first value then
        values = values[:1]
    is_replaced = p.is_nan(X) if floats and math.isnan(replaced_value) else p.equal(X, replaced_value)
    return p.where(is_replaced, lift(np.asarray(values, X.dtype.numpy), X.dtype), X)


@op("Normalizer", since=1, domain=DOMAIN)
def normalizer(X: Tensor, *, norm: str = "MAX") -> Tensor:
    """Divide each row (the last axis) by its norm, in float32. A row whose norm is 0 does not change.

    - MAX: the maximum of the row, with its sign
    - L1: the sum of the absolute values
    - L2: the square root of the sum of squares

    Raises InvalidModelError for another `norm`.
    """
    x = p.cast(X, float32)
    if norm == "MAX":
        divisor = p.reduce_max(x, [-1], True)
    elif norm == "L1":
        divisor = p.reduce_sum(p.abs(x), [-1], True)
    elif norm == "L2":
        divisor = p.sqrt(p.reduce_sum(p.mul(x, x), [-1], True))
    else:
        raise InvalidModelError("norm is MAX, L1 or L2, not %r" % norm)
    return p.div(x, p.where(p.equal(divisor, 0.0), 1.0, divisor))


@op("OneHotEncoder", since=1, domain=DOMAIN)
def one_hot_encoder(X: Tensor, *, cats_int64s: Ints = None, cats_strings: Strings = None, zeros: int = 1) -> Tensor:
    """Encode categories as one-hot float32 vectors along a new last axis.

    Numbers are cast to int64. If a category is listed twice, its last position is used. An unknown category gives zeros
    if `zeros` is nonzero. If `zeros` is 0, it gives NaN, because a compiled program cannot raise the error that ONNX
    asks for.

    Raises InvalidModelError if no categories are given.
    """
    categories = label_tensor(cats_int64s, cats_strings)
    if categories is None:
        raise InvalidModelError("a OneHotEncoder needs its categories")
    x = X if X.dtype.kind == "s" else p.cast(X, int64)
    names: List[Any] = [*(cats_strings or cats_int64s or ())]
    last_index = {name: k for k, name in enumerate(names)}
    matches = p.equal(p.unsqueeze(x, [x.rank]), categories)
    if len(last_index) < len(names):
        matches = p.logical_and(matches, lift(np.asarray([last_index[name] == k for k, name in enumerate(names)])))
    encoded = p.cast(matches, float32)
    if zeros:
        return encoded
    return p.where(p.reduce_max(matches, [-1], True), encoded, float("nan"))


@op("Scaler", since=1, domain=DOMAIN)
def scaler(X: Tensor, *, offset: Sequence[float] = (), scale: Sequence[float] = ()) -> Tensor:
    """Return (X - offset) * scale, in float32. An empty `offset` is 0, an empty `scale` 1.

    `offset` and `scale` have a number for each feature, or a number for all features.
    """
    x = p.cast(X, float32)
    if offset:
        x = p.sub(x, lift(np.asarray(offset, np.float32)))
    return p.mul(x, lift(np.asarray(scale, np.float32))) if scale else x
