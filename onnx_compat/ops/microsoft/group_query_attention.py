"""GroupQueryAttention of com.microsoft: fewer key heads than query heads, and a cache length for each sample."""

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, UnsupportedError
from onnx_compat.ir.dims import Extent, maximum
from onnx_compat.ir.dtypes import int32
from onnx_compat.ops import attention_weights
from onnx_compat.ops.key_value_cache import write_steps
from onnx_compat.ops.microsoft.common import DOMAIN
from onnx_compat.ops.registry import op
from onnx_compat.ops.rotary import apply_rotary_embedding
from onnx_compat.tracing.values import Tensor, as_sizes, lift

Maybe = Optional[Tensor]


@op("GroupQueryAttention", since=1, domain=DOMAIN)
def group_query_attention(
    query: Tensor,
    key: Maybe = None,
    value: Maybe = None,
    past_key: Maybe = None,
    past_value: Maybe = None,
    seqlens_k: Maybe = None,
    total_sequence_length: Maybe = None,
    cos_cache: Maybe = None,
    sin_cache: Maybe = None,
    position_ids: Maybe = None,
    attention_bias: Maybe = None,
    head_sink: Maybe = None,
    k_scale: Maybe = None,
    v_scale: Maybe = None,
    q_norm_weight: Maybe = None,
    k_norm_weight: Maybe = None,
    *,
    causal: int = 1,
    do_rotary: int = 0,
    k_quant_type: str = "NONE",
    kv_cache_bit_width: int = 0,
    kv_num_heads: int,
    local_window_size: int = -1,
    num_heads: int,
    qk_norm_epsilon: float = 1e-6,
    qk_output: int = 0,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    sliding_window_cache: int = 0,
    smooth_softmax: int = 0,
    softcap: float = 0.0,
    v_quant_type: str = "NONE",
) -> List[Maybe]:
    """Return [grouped-query attention, key cache, value cache, requested scores or None].

    If key or value is absent, `query` holds queries, keys and values in its last axis. The caches are
    [batch, kv_num_heads, slots, size]: past steps, then new steps, then zeros. Without a past, they are the new steps.

    - seqlens_k: the number of valid keys of each sample, including the new steps, minus 1.
    - total_sequence_length: the least number of slots of the caches, if there is a past.
    - causal: if nonzero, a query attends to no later key; if 0, it attends to all valid keys.
    - local_window_size: a query attends to no more than this number of keys up to its own position; 0 or less: no
      limit.
    - qk_output: 1: the requested scores are those before the softmax, with 0 for hidden keys; 2: those after the
      softmax; another number: None.

    Raises UnsupportedError for k_scale, v_scale (a quantized cache), q_norm_weight, k_norm_weight or
    sliding_window_cache. Raises InvalidModelError if seqlens_k or total_sequence_length is missing, or do_rotary lacks
    cos_cache or sin_cache.
    """
    scales, norms = (k_scale, v_scale), (q_norm_weight, k_norm_weight)
    _check_inputs(scales, norms, sliding_window_cache, seqlens_k, total_sequence_length)
    assert seqlens_k is not None and total_sequence_length is not None
    if key is None or value is None:
        size = attention_weights.size_per_head(query.shape[2], num_heads + 2 * kv_num_heads)
        query, key, value = p.split(query, 2, [size * num_heads, size * kv_num_heads, size * kv_num_heads])
    batch, steps = query.shape[:2]
    valid_lengths = p.reshape(p.add(p.cast(seqlens_k, int32), 1), (batch,))
    past_lengths = None if past_key is None else p.maximum(p.sub(valid_lengths, lift(steps, int32)), 0)
    if do_rotary:
        cos, sin = _select_angles(cos_cache, sin_cache, position_ids, past_lengths, steps)
        query = apply_rotary_embedding(query, cos, sin, num_heads, bool(rotary_interleaved))
        key = apply_rotary_embedding(key, cos, sin, kv_num_heads, bool(rotary_interleaved))
    q = attention_weights.split_heads(query, num_heads)
    (total,) = as_sizes(total_sequence_length, 1)
    k = _update_cache(past_key, key, past_lengths, kv_num_heads, total)
    v = _update_cache(past_value, value, past_lengths, kv_num_heads, total)

    rows, columns = attention_weights.position_grid(steps, k.shape[2], 0 if past_lengths is None else past_lengths)
    is_visible = p.less_equal(columns, rows) if causal else p.less(columns, p.reshape(valid_lengths, (batch, 1, 1, 1)))
    if local_window_size > 0:
        is_visible = p.logical_and(is_visible, p.less(p.sub(rows, local_window_size), columns))
    bias = None if attention_bias is None else _pad_bias(attention_bias, k.shape[2])
    scores = attention_weights.apply_softcap(
        attention_weights.grouped_matmul(p.mul(q, attention_weights.attention_scale(q, scale)), k, transpose_y=True),
        softcap,
    )
    scores = scores if bias is None else p.add(scores, bias)
    weights = _softmax_with_sink(p.where(is_visible, scores, -np.inf), head_sink, bool(smooth_softmax))
    requested_scores = {1: p.where(is_visible, scores, 0), 2: weights}.get(qk_output)
    return [attention_weights.join_heads(attention_weights.grouped_matmul(weights, v)), k, v, requested_scores]


def _check_inputs(scales: Sequence[Maybe], norms: Sequence[Maybe], window: int, lengths: Maybe, total: Maybe) -> None:
    """Raise UnsupportedError for an input that is not supported, and InvalidModelError for missing lengths.

    - UnsupportedError: a scale of the cache, a weight `norm` or a nonzero `window` (sliding_window_cache) is given.
    - InvalidModelError: `lengths` (seqlens_k) or `total` (total_sequence_length) is missing.
    """
    if any(scale is not None for scale in scales):
        raise UnsupportedError("GroupQueryAttention with a quantized cache is not supported")
    if any(weight is not None for weight in norms) or window:
        raise UnsupportedError(
            "GroupQueryAttention with q_norm_weight, k_norm_weight or sliding_window_cache is not supported"
        )
    if lengths is None or total is None:
        raise InvalidModelError("GroupQueryAttention needs seqlens_k and total_sequence_length")


def _select_angles(
    cos: Maybe, sin: Maybe, positions: Maybe, past_lengths: Maybe, steps: Extent
) -> Tuple[Tensor, Tensor]:
    """Return (cosines, sines) of the rotary embedding for each step, each [batch or 1, steps, width of the caches].

    They are the rows of `cos` and `sin` at `positions`. By default, the positions are past length, past length + 1, …,
    or 0, 1, … without a past. Raises InvalidModelError if `cos` or `sin` is missing.
    """
    if cos is None or sin is None:
        raise InvalidModelError("do_rotary needs cos_cache and sin_cache")
    if positions is None:
        positions = p.unsqueeze(p.iota(steps, int32), [0])
        positions = positions if past_lengths is None else p.add(positions, p.unsqueeze(past_lengths, [1]))
    return p.take(cos, positions, 0), p.take(sin, positions, 0)


def _update_cache(past: Maybe, new: Tensor, past_lengths: Maybe, count: int, total: Extent) -> Tensor:
    """Return the cache [batch, heads, slots, size]: past steps, then the new steps, then zeros.

    Sample b has `past_lengths[b]` past steps. `new` is [batch, steps, count * size]. The number of slots is that of the
    past, or `total` if this is greater. Without a past, return the new steps alone, as [batch, count, steps, size].
    Raises InvalidModelError, without a past, if `count` does not divide the last axis of `new`.
    """
    if past is None or past_lengths is None:
        return attention_weights.split_heads(new, count)
    batch, _, past_slots, size = past.shape
    slots = maximum(past_slots, total)
    cache = p.pad(past, [0] * 4, [0, 0, slots - past_slots, 0])
    is_filled = p.less(p.reshape(p.iota(slots, int32), (1, 1, slots, 1)), p.reshape(past_lengths, (batch, 1, 1, 1)))
    cache = p.transpose(p.where(is_filled, cache, 0), (0, 2, 1, 3))
    steps = p.reshape(new, (batch, new.shape[1], count, size))
    return p.transpose(write_steps(cache, steps, past_lengths), (0, 2, 1, 3))


def _pad_bias(bias: Tensor, slots: Extent) -> Tensor:
    """Pad the bias [batch, heads, steps, keys] with zeros to the number of slots; a longer bias does not change.

    The mask excludes the added slots, which hold no step yet.
    """
    return p.pad(bias, [0] * 4, [0, 0, 0, maximum(slots - bias.shape[3], 0)])


def _softmax_with_sink(scores: Tensor, sink: Maybe, smooth: bool) -> Tensor:
    """Return the softmax of scores with an attention sink: an additional score for each head, whose weight is dropped.

    `sink` has a score for each head. `smooth` without a sink is a sink of 0. Without both, return the usual softmax.
    """
    if sink is None and not smooth:
        return p.softmax(scores, -1)
    column: Any = lift(0, scores.dtype) if sink is None else p.reshape(sink, (1, sink.shape[0], 1, 1))
    column = p.broadcast_to(column, (*scores.shape[:3], 1))
    return p.slice_axis(p.softmax(p.concat([scores, column], -1), -1), -1, 0, scores.shape[3])
