"""RotaryEmbedding of com.microsoft."""

from typing import Any

from onnx_compat import primitives as p
from onnx_compat.ops import attention_weights
from onnx_compat.ops.microsoft.common import DOMAIN
from onnx_compat.ops.registry import op
from onnx_compat.ops.rotary import apply_rotary_embedding
from onnx_compat.tracing.values import Tensor


@op("RotaryEmbedding", since=1, domain=DOMAIN)
def rotary_embedding(
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
    """Rotate pairs of features by the angles of their positions. Return a tensor in the shape of the input.

    - input: [batch, heads, steps, size] or [batch, steps, heads * size].
    - cos_cache, sin_cache: [positions, pairs]. Features of a head after the last pair do not change.
    - position_ids: [batch, steps], or [1] with the position of the first step.
    - interleaved: if nonzero, pair j is features 2j and 2j + 1 of a head, else features j and j + number of pairs.
    - num_heads: the number of heads of an input of rank 3. By default, the size of a head is twice the number of pairs.

    is_packed_batching, rotary_embedding_dim and scale have no effect. Raises InvalidModelError if the heads do not
    divide the last axis of an input of rank 3.
    """
    if position_ids.rank == 1:
        steps = p.iota(input.shape[1 if input.rank == 3 else 2], position_ids.dtype)
        position_ids = p.unsqueeze(p.add(position_ids, steps), [0])
    cos, sin = (p.take(cache, position_ids, 0) for cache in (cos_cache, sin_cache))
    count: Any = num_heads
    if input.rank == 3 and not num_heads:
        count = attention_weights.size_per_head(input.shape[2], cos.shape[2] * 2)
    return apply_rotary_embedding(input, cos, sin, count, bool(interleaved))
