"""Rotary position embedding: rotate pairs of features by an angle that is proportional to the position."""

from typing import Optional

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent
from onnx_compat.ops import attention_weights
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor


def rotate(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """Rotate pairs of features along the last axis of x. Return a tensor of the shape of x.

    `cos` and `sin` are the cosine and sine of the angles. Their last axis has one entry for each pair; their other axes
    broadcast to those of x.

    If `interleaved`, a pair is two adjacent features: [a1, b1, a2, b2]. Otherwise the first features of all pairs come
    first: [a1, a2, b1, b2]. Features after the last pair stay unchanged.
    """
    size = cos.shape[-1] * 2
    part = p.slice_axis(x, -1, 0, size)
    if interleaved:
        first, second = p.slice_axis(part, -1, 0, None, 2), p.slice_axis(part, -1, 1, None, 2)
    else:
        first, second = p.split(part, -1, [cos.shape[-1]] * 2)
    real = p.sub(p.mul(first, cos), p.mul(second, sin))
    imaginary = p.add(p.mul(first, sin), p.mul(second, cos))
    if interleaved:
        rotated = p.reshape(p.stack([real, imaginary], x.rank), (*x.shape[:-1], size))
    else:
        rotated = p.concat([real, imaginary], -1)
    return p.concat([rotated, p.slice_axis(x, -1, size, None)], -1) if _may_exceed(x.shape[-1], size) else rotated


def _may_exceed(extent: Extent, size: Extent) -> bool:
    """Return whether `extent`, the size of an axis, may be larger than `size`, the number of rotated features.

    True if either is symbolic: the caller may append an empty slice without effect.
    """
    return not (isinstance(extent, int) and isinstance(size, int)) or extent > size


def apply_rotary_embedding(x: Tensor, cos: Tensor, sin: Tensor, count: Extent, interleaved: bool) -> Tensor:
    """Rotate the features of each head by the angles of its step. Return a tensor of the shape of x.

    - x: [batch, heads, steps, size], or [batch, steps, heads * size] with `count` heads.
    - cos, sin: [batch or 1, steps, pairs].
    - interleaved: True: a pair is two adjacent features. False: the first features of all pairs come first.

    Features of a head after the last pair stay unchanged. Raises InvalidModelError if x has rank 3, and `count` does
    not divide its last axis.
    """
    if x.rank == 4:
        return rotate(x, p.unsqueeze(cos, [1]), p.unsqueeze(sin, [1]), interleaved)
    parts = p.reshape(x, (x.shape[0], x.shape[1], count, attention_weights.size_per_head(x.shape[2], count)))
    return p.reshape(rotate(parts, p.unsqueeze(cos, [2]), p.unsqueeze(sin, [2]), interleaved), x.shape)


@op("RotaryEmbedding", since=23)
def rotary_embedding(
    X: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    position_ids: Optional[Tensor] = None,
    *,
    interleaved: int = 0,
    num_heads: Optional[int] = None,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """Rotate pairs of features by the angles of their positions. Features of a head after the last pair do not change.

    - X: [batch, heads, steps, size], or [batch, steps, heads * size] with num_heads.
    - cos_cache, sin_cache: [positions, pairs] if position_ids is given, else [batch, steps, pairs].
    - position_ids: the row of the caches for each step, [batch, steps].
    - interleaved: nonzero: a pair is two adjacent features. 0: the first features of all pairs come first.
    - rotary_embedding_dim: if it is nonzero, only the first rotary_embedding_dim // 2 columns of the caches are used.

    At rank 3, raises InvalidModelError without num_heads, or if num_heads does not divide the last axis.
    """
    if X.rank == 3 and not num_heads:
        raise InvalidModelError("RotaryEmbedding of a tensor of rank 3 needs num_heads")
    cos, sin = cos_cache, sin_cache
    if rotary_embedding_dim:
        cos, sin = (p.slice_axis(cache, -1, 0, rotary_embedding_dim // 2) for cache in (cos, sin))
    if position_ids is not None:
        cos, sin = (p.take(cache, position_ids, 0) for cache in (cos, sin))
    return apply_rotary_embedding(X, cos, sin, num_heads or 0, bool(interleaved))
