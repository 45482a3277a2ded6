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

    The input is [batch, heads, steps, size] or [batch, steps, heads * size]. The two features of a pair are adjacent if
    `interleaved`, else as far apart as there are pairs. The caches have an angle for each pair; later features do not
    change. A `position_ids` of rank 1 has one element, the position of the first step. Without num_heads, the size of a
    head is twice the width of the caches.

    Three attributes do not change the result: is_packed_batching affects speed, onnxruntime never applied scale, and
    the caches imply rotary_embedding_dim.
    """
    if position_ids.rank == 1:
        steps = p.iota(input.shape[1 if input.rank == 3 else 2], position_ids.dtype)
        position_ids = p.unsqueeze(p.add(position_ids, steps), [0])
    cos, sin = (p.take(cache, position_ids, 0) for cache in (cos_cache, sin_cache))
    count: Any = num_heads
    if input.rank == 3 and not num_heads:
        count = attention_weights.size_per_head(input.shape[2], cos.shape[2] * 2)
    return apply_rotary_embedding(input, cos, sin, count, bool(interleaved))
