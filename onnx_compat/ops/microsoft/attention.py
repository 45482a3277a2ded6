"""Attention operators of com.microsoft in which each query head has a key head of its own.

They are Attention, MultiHeadAttention and DecoderMaskedMultiHeadAttention.
"""

from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, UnsupportedError
from onnx_compat.ir.dims import Extent, is_equal, is_static
from onnx_compat.ir.dtypes import int32
from onnx_compat.ops import attention_weights
from onnx_compat.ops.arguments import as_size, known_integers, known_number, take_slice
from onnx_compat.ops.microsoft.common import DOMAIN
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift

if TYPE_CHECKING:
    from onnx_compat.tracing.interpreter import Context


Maybe = Optional[Tensor]


class _ScoreRules:
    """The rules by which an attention scales and masks its scores.

    scale: the factor of the scores; 0 means 1 / sqrt(head size).
    padding_value: the summand to the score of a padding key.
    is_causal: whether a query attends to no later key.
    """

    def __init__(self, scale: float, padding_value: float, is_causal: bool = False) -> None:
        self.scale = scale
        #: Added to the score of a padding key. It is finite, so a sample of padding alone gives the mean of its values.
        self.padding_value = padding_value
        self.is_causal = is_causal


@op("Attention", since=1, domain=DOMAIN)
def attention(
    ctx: "Context",
    input: Tensor,
    weights: Tensor,
    bias: Maybe = None,
    mask_index: Maybe = None,
    past: Maybe = None,
    attention_bias: Maybe = None,
    past_sequence_length: Maybe = None,
    *,
    do_rotary: int = 0,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: Optional[Sequence[int]] = None,
    rotary_embedding_dim: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> List[Maybe]:
    """Return [multi-head attention [batch, steps, heads * size], present keys and values as one tensor].

    Queries, keys and values are the three parts of the product input @ weights + bias. The parts have equal widths,
    unless `qkv_hidden_sizes` gives their widths.

    - mask_index: which keys are padding (see `_key_mask`): 0 for padding, as [batch, keys] or [batch, queries,
      keys]; or a vector with the end, and perhaps the start, of the keys of each sample.
    - mask_filter_value: the summand to the scores of padding.
    - past: [2, batch, heads, past steps, size]: keys and values that precede those of the input.
    - attention_bias: a summand to the scores.
    - scale: the factor of the scores; 0 is 1 / sqrt(head size).
    - unidirectional: if nonzero, a query attends to no later key.

    past_sequence_length and rotary_embedding_dim have no effect. The present tensor is [2, batch, heads, past steps +
    steps, size], or None if it is not requested.

    Raises UnsupportedError for do_rotary, past_present_share_buffer, and a mask of a rank other than 1, 2 and 3.
    For a mask of rank 1, raises NeedsKnownError if its length or the batch size is not known, unless both are provably
    equal.
    """
    if do_rotary or past_present_share_buffer:
        raise UnsupportedError(
            "Attention with do_rotary or past_present_share_buffer is supported by onnxruntime on GPUs only"
        )
    sizes: Any = qkv_hidden_sizes or [attention_weights.size_per_head(weights.shape[1], 3)] * 3
    q, k, v = (attention_weights.split_heads(x, num_heads) for x in p.split(p.matmul(input, weights, bias), 2, sizes))
    past_length: Extent = 0
    if past is not None:
        past_length = past.shape[3]
        k, v = (p.concat([take_slice(past, n), x], 2) for n, x in enumerate((k, v)))
    rules = _ScoreRules(scale, mask_filter_value, bool(unidirectional))
    y, _ = _attend(q, k, v, mask_index, attention_bias, past_length, rules)
    return [y, p.stack([k, v], 0) if ctx.wants(1) else None]


@op("MultiHeadAttention", since=1, domain=DOMAIN)
def multi_head_attention(
    query: Tensor,
    key: Maybe = None,
    value: Maybe = None,
    bias: Maybe = None,
    key_padding_mask: Maybe = None,
    attention_bias: Maybe = None,
    past_key: Maybe = None,
    past_value: Maybe = None,
    past_sequence_length: Maybe = None,
    cache_indirection: Maybe = None,
    *,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> List[Tensor]:
    """Return [attention [batch, steps, heads * size], present keys, present values, scores before the softmax].

    The scores include attention_bias and all masks.

    - query, key, value: `query` may also hold the keys and values, and `key` the values (see `_split_inputs`).
    - bias: a vector that is added to the queries, the keys and the values, with a part for each of them.
    - key_padding_mask: which keys are padding (see `_key_mask`). `mask_filter_value` is added to their scores.
    - attention_bias: a summand to the scores.
    - past_key, past_value: if both are given, they precede the keys and values of this call.
    - past_sequence_length: the number of valid steps of the past. If it is given, past and present share a buffer
      (see `_append_to_buffer`).
    - scale: the factor of the scores; 0 is 1 / sqrt(head size).
    - unidirectional: if nonzero, a query attends to no later key. This mask is left out for a single query.

    Raises UnsupportedError for a cache_indirection of several beams, and a mask of a rank other than 1, 2 and 3.
    Raises InvalidModelError if a key of rank 3 or 4 is given without a value, unless the query has rank 5. Raises it
    also if the new steps do not fit the buffer.
    """
    if cache_indirection is not None and not is_equal(cache_indirection.shape[1], 1):
        raise UnsupportedError("MultiHeadAttention with several beams is not supported")
    q, k, v = _split_inputs(query, key, value, bias, num_heads)
    past_length: Extent = 0
    present = None
    if past_key is not None and past_value is not None:
        past_length = past_key.shape[2]
        if past_sequence_length is not None:
            past_length = as_size(past_sequence_length, "past_sequence_length")
            (k, v), present = _append_to_buffer([past_key, past_value], [k, v], past_length)
        else:
            k, v = p.concat([past_key, k], 2), p.concat([past_value, v], 2)
    rules = _ScoreRules(scale, mask_filter_value, bool(unidirectional))
    y, scores = _attend(q, k, v, key_padding_mask, attention_bias, past_length, rules)
    return [y, *(present or [k, v]), scores]


@op("DecoderMaskedMultiHeadAttention", since=1, domain=DOMAIN)
def decoder_masked_multi_head_attention(
    query: Tensor,
    key: Maybe = None,
    value: Maybe = None,
    mask_index: Maybe = None,
    attention_bias: Maybe = None,
    past_key: Maybe = None,
    past_value: Maybe = None,
    past_sequence_length: Maybe = None,
    beam_width: Maybe = None,
    cache_indirection: Maybe = None,
    bias: Maybe = None,
    *,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    output_qk: int = 0,
    past_present_share_buffer: int = 0,
    scale: float = 0.0,
) -> List[Tensor]:
    """Return [attention of one decoding step, present keys, present values, scores before the softmax].

    If past_present_share_buffer is 0, the present keys and values are those of the past, then those of the new step. If
    it is nonzero, the past is a buffer whose first `past_sequence_length` steps are valid. The present is this buffer
    with the new step written after the valid steps; only these steps are attended to. A past needs both past_key and
    past_value.

    `query` may also hold the keys and values, and `key` the values (see `_split_inputs`). There is no causal mask.
    `output_qk` has no effect.

    Raises UnsupportedError in these cases:

    - cache_indirection is given, and beam_width is absent or not 1
    - the rank of the mask is not 1, 2 or 3

    Raises InvalidModelError for a shared buffer with a past and without past_sequence_length, and for a key of rank 3
    or 4 without a value. Raises NeedsKnownError if cache_indirection is given and beam_width is not known.
    """
    if cache_indirection is not None and (beam_width is None or known_number(beam_width, "a beam_width") != 1):
        raise UnsupportedError("DecoderMaskedMultiHeadAttention with several beams is not supported")
    q, k, v = _split_inputs(query, key, value, bias, num_heads)
    present = None
    if past_key is not None and past_value is not None:
        caches = [past_key, past_value]
        if past_present_share_buffer:
            if past_sequence_length is None:
                raise InvalidModelError("past_present_share_buffer needs past_sequence_length")
            filled = as_size(past_sequence_length, "past_sequence_length")
            (k, v), present = _append_to_buffer(caches, [k, v], filled)
        else:
            k, v = (p.concat([cache, x], 2) for cache, x in zip(caches, (k, v)))
    y, scores = _attend(q, k, v, mask_index, attention_bias, 0, _ScoreRules(scale, mask_filter_value))
    return [y, *(present or [k, v]), scores]


def _append_to_buffer(
    buffers: Sequence[Tensor], new: Sequence[Tensor], filled: Extent
) -> Tuple[List[Tensor], List[Tensor]]:
    """Append new steps to the valid steps of buffers. Return (valid steps and new steps, buffers with the new steps).

    A buffer is [batch, heads, slots, size], of which the first `filled` slots are valid. The new steps replace the next
    slots, and the slots behind them stay. Raises InvalidModelError if static sizes say that the new steps do not fit.
    """
    steps, slots = new[0].shape[2], buffers[0].shape[2]
    if all(map(is_static, (filled, steps, slots))) and int(filled) + int(steps) > int(slots):  # type: ignore[arg-type]  # all are static
        raise InvalidModelError("a buffer of %s steps cannot hold %s more after %s" % (slots, steps, filled))
    valid = [p.concat([p.slice_axis(x, 2, 0, filled), step], 2) for x, step in zip(buffers, new)]
    rest = [p.slice_axis(x, 2, filled + steps, None) for x in buffers]
    return valid, [p.concat([x, tail], 2) for x, tail in zip(valid, rest)]


def _split_inputs(query: Tensor, key: Maybe, value: Maybe, bias: Maybe, count: int) -> Tuple[Tensor, Tensor, Tensor]:
    """Split the inputs of an attention. Return (queries, keys, values), each [batch, heads, steps, size].

    The first form that fits is used:

    - A query [batch, steps, heads, 3, size] holds queries, keys and values.
    - A query [batch, steps, 3 * heads * size] without a key holds queries, keys and values.
    - A key [batch, steps, heads, 2, size] holds keys and values.
    - Otherwise, query, key and value are separate: [batch, steps, heads * size], or already
      [batch, heads, steps, size].

    `count` is the number of heads. `bias` is a vector with a part for the queries, the keys and the values. Inputs that
    are already [batch, heads, steps, size] get no bias. Raises InvalidModelError for separate inputs without a value.
    """
    if query.rank == 5:  # [batch, steps, heads, 3, size]
        parts = [_merge_heads(take_slice(query, n, 3)) for n in range(3)]
    elif key is None:
        parts = p.split(query, 2, [attention_weights.size_per_head(query.shape[2], 3)] * 3)
    elif key.rank == 5:  # [batch, steps, heads, 2, size]
        parts = [query, *[_merge_heads(take_slice(key, n, 3)) for n in range(2)]]
    elif value is None:
        raise InvalidModelError("the input 'key' is present and 'value' is missing")
    else:
        parts = [query, key, value]
    if bias is not None:
        widths = [x.shape[2] if x.rank == 3 else x.shape[1] * x.shape[3] for x in parts]
        biases = p.split(bias, 0, widths)
        parts = [p.add(x, b) if x.rank == 3 else x for x, b in zip(parts, biases)]
    q, k, v = (x if x.rank == 4 else attention_weights.split_heads(x, count) for x in parts)
    return q, k, v


def _merge_heads(x: Tensor) -> Tensor:
    """Reshape [batch, steps, heads, size] to [batch, steps, heads * size]."""
    return p.reshape(x, (x.shape[0], x.shape[1], x.shape[2] * x.shape[3]))


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Maybe, attention_bias: Maybe, past_length: Extent, rules: _ScoreRules
) -> Tuple[Tensor, Tensor]:
    """Return (softmax(scores) @ v as [batch, steps, heads * size], scores). The scores include the bias and all masks.

    - q, k, v: [batch, heads, steps, size].
    - mask: which keys are padding, in one of the forms of `_key_mask`; None: no key is padding.
    - attention_bias: a summand to the scores; None: 0.
    - past_length: the number of keys before the first query, for the causal mask.
    - rules: the scale of the scores and the number that masks padding. If `is_causal`, a query attends to no later key.
      This mask is left out for a single query.
    """
    steps, total = q.shape[2], k.shape[2]
    bias = None if mask is None else p.where(_key_mask(mask, q.shape[0], total), lift(0, q.dtype), rules.padding_value)
    if attention_bias is not None:
        bias = attention_bias if bias is None else p.add(attention_bias, bias)
    if rules.is_causal and not is_equal(steps, 1):
        rows, columns = attention_weights.position_grid(steps, total, past_length)
        bias = attention_weights.additive_mask([p.less_equal(columns, rows)], bias, q.dtype)
    scores = p.matmul(p.mul(q, attention_weights.attention_scale(q, rules.scale)), k, transpose_y=True)
    scores = scores if bias is None else p.add(scores, bias)
    return attention_weights.join_heads(p.matmul(p.softmax(scores, -1), v)), scores


def _key_mask(mask: Tensor, batch: Extent, total: Extent) -> Tensor:
    """Return a bool tensor that is True for keys that are not padding; it broadcasts to [batch, heads, queries, keys].

    - A mask of rank 2, [batch, keys], or rank 3, [batch, queries, keys]: 1 for a key, 0 for padding.
    - A mask of rank 1: the end, and perhaps the start, of the keys of each sample (see `_key_bounds`).

    `total`: the number of keys. Raises UnsupportedError for a mask of any other rank.
    """
    if mask.rank == 2:
        return p.greater(p.unsqueeze(mask, [1, 2]), 0)
    if mask.rank == 3:
        return p.greater(p.unsqueeze(mask, [1]), 0)
    if mask.rank != 1:
        raise UnsupportedError("a mask of rank %d is not supported: onnxruntime supports it on GPUs only" % mask.rank)
    columns = p.reshape(p.iota(total, int32), (1, 1, 1, total))
    ends, starts = _key_bounds(p.cast(mask, int32), batch)
    inside = p.less(columns, ends)
    return inside if starts is None else p.logical_and(inside, p.less_equal(starts, columns))


def _key_bounds(mask: Tensor, batch: Extent) -> Tuple[Tensor, Maybe]:
    """Return (end of the keys, start of the keys) of each sample, as tensors [batch, 1, 1, 1].

    `mask` is a vector in one of these forms:

    - [batch]: the ends; the start is None.
    - [2 * batch]: the ends, then the starts.
    - [3 * batch + 2]: the lengths, which are the ends, then offsets, which are ignored; the start is None.

    Raises NeedsKnownError if the length of the mask or the batch size is not known, unless both are equal.
    """
    pieces = 1
    if not is_equal(mask.shape[0], batch):
        length, count = known_integers(lift([mask.shape[0], batch]), "the length of a mask index")
        pieces = 2 if length == 2 * count else 1
    ends, *starts = (
        p.reshape(p.slice_axis(mask, 0, batch * n, batch * (n + 1)), (batch, 1, 1, 1)) for n in range(pieces)
    )
    return ends, starts[0] if starts else None
