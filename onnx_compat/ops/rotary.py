"""Rotary position embeddings: pairs of features turned by an angle that grows with the position."""

from typing import Any, Optional

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent
from onnx_compat.ops import attention_weights
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor


def rotate(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """The first features of x (twice as many as there are angles) turned: the two of a pair are neighbours if
    interleaved, else a half apart. The angles broadcast to x without its last axis.
    """
    size = cos.shape[-1] * 2
    part = p.slice_axis(x, -1, 0, size)
    if interleaved:
        a, b = p.slice_axis(part, -1, 0, None, 2), p.slice_axis(part, -1, 1, None, 2)
    else:
        a, b = p.split(part, -1, [cos.shape[-1]] * 2)
    real = p.sub(p.mul(a, cos), p.mul(b, sin))
    imaginary = p.add(p.mul(a, sin), p.mul(b, cos))
    if interleaved:
        whole = p.reshape(p.stack([real, imaginary], x.rank), (*x.shape[:-1], size))
    else:
        whole = p.concat([real, imaginary], -1)
    return p.concat([whole, p.slice_axis(x, -1, size, None)], -1) if _may_exceed(x.shape[-1], size) else whole


def _may_exceed(extent: Extent, size: Extent) -> bool:
    """Whether features are left as they are; if it cannot be told, an empty rest does no harm."""
    return not (isinstance(extent, int) and isinstance(size, int)) or extent > size


def apply_rotary_embedding(x: Tensor, cos: Tensor, sin: Tensor, count: Extent, interleaved: bool) -> Tensor:
    """Heads [batch, heads, steps, size], or [batch, steps, heads * size], turned by angles [batch or 1, steps, half]."""
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
    """With position_ids the caches have a row for each position. (At first they could have more columns than are used.)"""
    if X.rank == 3 and not num_heads:
        raise InvalidModelError("RotaryEmbedding of a tensor of rank 3 needs num_heads")
    cos, sin = cos_cache, sin_cache
    if rotary_embedding_dim:
        cos, sin = (p.slice_axis(cache, -1, 0, rotary_embedding_dim // 2) for cache in (cos, sin))
    if position_ids is not None:
        cos, sin = (p.take(cache, position_ids, 0) for cache in (cos, sin))
    return apply_rotary_embedding(X, cos, sin, num_heads or 0, bool(interleaved))


@op("RotaryEmbedding", since=1, domain="com.microsoft")
def contrib_rotary_embedding(
    input: Tensor,
    position_ids: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Tensor:
    """A single position is that of the first step. (Neither attribute that is left unread changes a result: batches
    are packed for speed alone, and the scale has never been applied.)
    """
    if position_ids.rank == 1:
        steps = p.iota(input.shape[1 if input.rank == 3 else 2], position_ids.dtype)
        position_ids = p.unsqueeze(p.add(position_ids, steps), [0])
    cos, sin = (p.take(cache, position_ids, 0) for cache in (cos_cache, sin_cache))
    count: Any = num_heads
    if input.rank == 3 and not num_heads:
        count = attention_weights.size_per_head(input.shape[2], cos.shape[2] * 2)
    return apply_rotary_embedding(input, cos, sin, count, bool(interleaved))
