"""Building blocks of attention operators: heads, masks, scores and the softmax over keys."""

import math
from typing import Any, Optional, Sequence, Tuple

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent, floordiv, is_equal
from onnx_compat.ir.dtypes import DType, float32, int32
from onnx_compat.tracing.values import Tensor, lift

__all__ = [
    "additive_mask",
    "apply_softcap",
    "attention_scale",
    "grouped_matmul",
    "join_heads",
    "masked_softmax",
    "position_grid",
    "rows_with_keys",
    "scale_queries_and_keys",
    "size_per_head",
    "split_heads",
]

#: An optional mask or bias.
Maybe = Optional[Tensor]


def size_per_head(extent: Extent, heads: Extent) -> Extent:
    """Return extent / heads, rounded down. Both sizes may be symbolic.

    Raises InvalidModelError if both are static, and `heads` is not positive or does not divide `extent`.
    """
    if isinstance(extent, int) and isinstance(heads, int) and (heads <= 0 or extent % heads):
        raise InvalidModelError("an axis of size %d cannot be divided among %d heads" % (extent, heads))
    return floordiv(extent, heads)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Reshape [batch, steps, heads * size] to [batch, heads, steps, size].

    Raises InvalidModelError if `heads` is not positive, or does not divide the static last axis.
    """
    parts = p.reshape(x, (x.shape[0], x.shape[1], heads, size_per_head(x.shape[2], heads)))
    return p.transpose(parts, (0, 2, 1, 3))


def join_heads(x: Tensor) -> Tensor:
    """Reshape [batch, heads, steps, size] to [batch, steps, heads * size]."""
    batch, heads, steps, size = x.shape
    return p.reshape(p.transpose(x, (0, 2, 1, 3)), (batch, steps, heads * size))


def grouped_matmul(x: Tensor, y: Tensor, transpose_y: bool = False) -> Tensor:
    """Multiply each head of x by the head of y that belongs to it (grouped-query attention). y may have fewer heads.

    - x: [batch, heads, rows, columns]
    - y: [batch, heads, columns, size]; with `transpose_y`, [batch, heads, size, columns]
    - result: [batch, heads of x, rows, size]

    Head h of x belongs to head h // (heads of x / heads of y) of y. Raises InvalidModelError if the number of heads of
    x is no multiple of that of y.
    """
    batch, heads, rows, columns = x.shape
    if is_equal(heads, y.shape[1]):
        return p.matmul(x, y, transpose_y=transpose_y)
    run = size_per_head(heads, y.shape[1])
    stacked = p.matmul(p.reshape(x, (batch, y.shape[1], run * rows, columns)), y, transpose_y=transpose_y)
    return p.reshape(stacked, (batch, heads, rows, y.shape[-2 if transpose_y else -1]))


def scale_queries_and_keys(q: Tensor, k: Tensor, scale: Optional[float]) -> Tuple[Tensor, Tensor]:
    """Return q and k, each multiplied by sqrt(scale), so that q @ k^T is scaled.

    A `scale` of 0 or None is 1 / sqrt(head size). Raises InvalidModelError for a negative scale, which has no root.
    """
    if scale is not None and not scale >= 0:
        raise InvalidModelError("the scale of an attention is 0 or more, not %g" % scale)
    root: Any = attention_scale(q, scale)
    root = p.cast(p.sqrt(root), q.dtype) if isinstance(root, Tensor) else math.sqrt(root)
    return p.mul(q, root), p.mul(k, root)


def attention_scale(q: Tensor, scale: Optional[float]) -> Any:
    """Return `scale`. If `scale` is 0 or None, return 1 / sqrt(head size), where the head size is the last axis of q.

    The result is a number, or a float32 scalar Tensor for a symbolic head size. A head size of 0 counts as 1: there
    is nothing to scale.
    """
    if scale:
        return scale
    size = q.shape[-1]
    return 1 / math.sqrt(max(size, 1)) if isinstance(size, int) else p.pow(p.cast(lift(size), float32), -0.5)


def apply_softcap(scores: Tensor, softcap: float) -> Tensor:
    """Return softcap * tanh(scores / softcap), or the scores if softcap is 0 or negative."""
    return p.tanh(scores / softcap) * softcap if softcap > 0 else scores


def position_grid(rows: Extent, columns: Extent, offset: Any = 0) -> Tuple[Tensor, Tensor]:
    """Return (positions of the queries [rows, 1], positions of the keys [1, columns]), both int32 tensors.

    `rows` and `columns` are the numbers of queries and keys. `offset` is the position of the first query: a size, or a
    vector with a position for each sample. With a vector, the positions of the queries are [batch, 1, rows, 1].
    """
    q = p.unsqueeze(p.iota(rows, int32), [1])
    k = p.unsqueeze(p.iota(columns, int32), [0])
    if isinstance(offset, Tensor):
        return p.add(p.reshape(p.cast(offset, int32), (offset.shape[0], 1, 1, 1)), q), k
    return p.add(q, lift(offset, int32)), k


def additive_mask(allowed: Sequence[Maybe], bias: Maybe, dtype: DType) -> Maybe:
    """Return a summand to the scores: the bias (0 without one) where all masks are True, else -inf.

    `allowed` has the masks; None among them has no effect. Without any mask, return the bias, which may be None.
    `dtype` is the dtype of the summand if there is no bias.
    """
    masks = [mask for mask in allowed if mask is not None]
    if not masks:
        return bias
    combined = masks[0]
    for mask in masks[1:]:
        combined = p.logical_and(combined, mask)
    return p.where(combined, lift(0, dtype) if bias is None else bias, -np.inf)


def rows_with_keys(bias: Tensor) -> Tensor:
    """Return whether each query may attend to any key: whether its row of the bias has an entry above -inf.

    The last axis of the result has size 1.
    """
    return p.greater(p.reduce_max(bias, [-1], keepdims=True), -np.inf)


def masked_softmax(scores: Tensor, has_keys: Maybe) -> Tensor:
    """Return the softmax of scores over keys (the last axis), with zeros for queries where `has_keys` is False.

    has_keys=None means that all queries have keys.
    """
    if has_keys is None:
        return p.softmax(scores, -1)
    return p.where(has_keys, p.softmax(p.where(has_keys, scores, 0), -1), 0)
