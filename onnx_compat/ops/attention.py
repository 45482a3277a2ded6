"""The operators Attention (ai.onnx) and FlexAttention (ai.onnx.preview)."""

from typing import TYPE_CHECKING, Any, List, Optional, Tuple

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent, maximum
from onnx_compat.ir.dtypes import DType, bool_, float32, int32
from onnx_compat.model import Graph
from onnx_compat.ops import attention_weights
from onnx_compat.ops.older_versions import older_version
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift

if TYPE_CHECKING:
    from onnx_compat.tracing.interpreter import Context

Maybe = Optional[Tensor]


@op("Attention", since=25)
def attention(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    attn_mask: Maybe = None,
    past_key: Maybe = None,
    past_value: Maybe = None,
    nonpad_kv_seqlen: Maybe = None,
    *,
    is_causal: int = 0,
    kv_num_heads: Optional[int] = None,
    left_window_size: int = -1,
    q_num_heads: Optional[int] = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: Optional[float] = None,
    softcap: float = 0.0,
    softmax_precision: Optional[int] = None,
) -> List[Tensor]:
    """Return [softmax(softcap(scale * Q @ K^T) + mask) @ V, present keys, present values, requested scores].

    Q, K and V are [batch, heads, steps, size], or [batch, steps, heads * size] with the numbers of heads as attributes.
    K and V may have fewer heads than Q. The first result has the rank of Q. A query that may attend to no key gives
    zeros. The present keys and values have rank 4: the past, if any, followed by K or V.

    - scale: by default, and for 0, 1 / sqrt(head size).
    - softcap: a positive value replaces the scaled scores by softcap * tanh(scores / softcap).
    - softmax_precision: the number of the dtype of the softmax in TensorProto; by default the dtype of Q.
    - qk_matmul_output_mode: the requested scores: 0 scaled, 1 after the softcap, 2 after all masks, 3 after the
      softmax.
    - attn_mask: bool (True: attend), or numbers that are added to the scores. Keys beyond the end of the mask are
      masked.
    - left_window_size, right_window_size: how many keys before and after its position a query may attend to; -1: all.
    - is_causal: a nonzero value sets the right window to 0.
    - nonpad_kv_seqlen: the number of valid keys of each sample. The last query has the position of the last valid key.
      Without it, the first query has the position that follows the past keys.

    Raises InvalidModelError for a rank of 3 without numbers of heads, a negative scale, and another
    qk_matmul_output_mode. Raises it for past_key without past_value or the reverse, and for past_key together with
    nonpad_kv_seqlen.
    """
    if qk_matmul_output_mode not in (0, 1, 2, 3):
        raise InvalidModelError("qk_matmul_output_mode is 0, 1, 2 or 3, not %d" % qk_matmul_output_mode)
    q, k, v = _split_heads(Q, q_num_heads), _split_heads(K, kv_num_heads), _split_heads(V, kv_num_heads)
    k, v, past_length = _append_to_cache(q, k, v, past_key, past_value, nonpad_kv_seqlen)
    if attn_mask is not None:
        attn_mask = _pad_mask(attn_mask, k.shape[2])
    windows = (left_window_size, 0 if is_causal else right_window_size)
    bias = _attention_bias(q, k, attn_mask, past_length, nonpad_kv_seqlen, windows)
    # With only a right window, every query attends to the first key at least.
    always_has_keys = attn_mask is None and nonpad_kv_seqlen is None and left_window_size < 0
    has_keys = None if bias is None or always_has_keys else attention_weights.rows_with_keys(bias)

    scores = attention_weights.grouped_matmul(*attention_weights.scale_queries_and_keys(q, k, scale), transpose_y=True)
    capped = attention_weights.apply_softcap(scores, softcap)
    biased = capped if bias is None else p.add(capped, bias)
    precise = biased if softmax_precision is None else p.cast(biased, DType.of(softmax_precision))
    weights = p.cast(attention_weights.masked_softmax(precise, has_keys), q.dtype)
    y = attention_weights.grouped_matmul(weights, p.cast(v, q.dtype))
    requested_scores = [scores, capped, biased, weights][qk_matmul_output_mode]
    return [attention_weights.join_heads(y) if Q.rank == 3 else y, k, v, requested_scores]


@op("Attention", since=23)
def attention_23(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    attn_mask: Maybe = None,
    past_key: Maybe = None,
    past_value: Maybe = None,
    *,
    is_causal: int = 0,
    kv_num_heads: Optional[int] = None,
    q_num_heads: Optional[int] = None,
    qk_matmul_output_mode: int = 0,
    scale: Optional[float] = None,
    softcap: float = 0.0,
    softmax_precision: Optional[int] = None,
) -> List[Tensor]:
    """Return the results of Attention of opset 23, which has no windows and no nonpad_kv_seqlen.

    The results are [softmax(softcap(scale * Q @ K^T) + mask) @ V, present keys, present values, requested scores]. The
    parameters and the errors are those of `attention`, with one difference: a mask is not extended. Its last axis must
    have size 1, which broadcasts, or the number of keys, past keys included. Any other static size raises
    InvalidModelError.
    """
    if attn_mask is not None:
        total = K.shape[-2] if past_key is None else past_key.shape[2] + K.shape[-2]
        attn_mask = p.broadcast_to(attn_mask, (*attn_mask.shape[:-1], total))
    return attention(
        Q,
        K,
        V,
        attn_mask,
        past_key,
        past_value,
        is_causal=is_causal,
        kv_num_heads=kv_num_heads,
        q_num_heads=q_num_heads,
        qk_matmul_output_mode=qk_matmul_output_mode,
        scale=scale,
        softcap=softcap,
        softmax_precision=softmax_precision,
    )


op("Attention", since=24)(older_version(attention, without=["left_window_size", "right_window_size"]))


#: Windows of more positions are as large: positions are int32, also after the size of a window is added.
_MOST_POSITIONS = 2**30


def _split_heads(x: Tensor, count: Optional[int]) -> Tensor:
    """Return x as [batch, heads, steps, size]: unchanged at rank 4; at rank 3, x is [batch, steps, heads * size].

    `count` is the number of heads; it has no effect at rank 4. Raises InvalidModelError at rank 3 without `count`, or
    if `count` does not divide the last axis.
    """
    if x.rank == 4:
        return x
    if count is None:
        raise InvalidModelError("Attention of tensors of rank 3 needs q_num_heads and kv_num_heads")
    return attention_weights.split_heads(x, count)


def _append_to_cache(
    q: Tensor, k: Tensor, v: Tensor, past_key: Maybe, past_value: Maybe, valid_lengths: Maybe
) -> Tuple[Tensor, Tensor, Any]:
    """Append keys and values to the past. Return (all keys, all values, position of the first query).

    `valid_lengths` has the number of valid keys of each sample. The position of the first query:

    - With a past: the length of the past.
    - With `valid_lengths`: an int32 vector, `valid_lengths` minus the number of queries.
    - Without both: 0.

    Without a past, k and v are returned unchanged.

    Raises InvalidModelError if only one of `past_key` and `past_value` is given, or a past together with
    `valid_lengths`.
    """
    if (past_key is None) != (past_value is None):
        raise InvalidModelError("past_key and past_value must both be present or both be absent")
    if past_key is not None and past_value is not None:
        if valid_lengths is not None:
            raise InvalidModelError(
                "nonpad_kv_seqlen and past_key exclude each other: the first is for an external cache"
            )
        return p.concat([past_key, k], 2), p.concat([past_value, v], 2), past_key.shape[2]
    return k, v, 0 if valid_lengths is None else p.sub(p.cast(valid_lengths, int32), lift(q.shape[2], int32))


def _pad_mask(mask: Tensor, total: Extent) -> Tensor:
    """Pad the last axis of a mask at its end to `total` keys, with False or -inf: the added keys are masked.

    A mask with `total` or more keys does not change.
    """
    after: List[Extent] = [0] * mask.rank
    after[-1] = maximum(total - mask.shape[-1], 0)
    return p.pad(mask, [0] * mask.rank, after, value=False if mask.dtype == bool_ else -np.inf)


def _attention_bias(
    q: Tensor, k: Tensor, mask: Maybe, past_length: Tensor, valid_lengths: Maybe, windows: Tuple[int, int]
) -> Maybe:
    """Return a tensor to add to the scores; None without a mask, valid lengths and windows.

    The tensor is -inf where a bool mask, the valid lengths or a window excludes a key. Elsewhere it has the elements
    of a mask of numbers, or 0.

    - past_length: the position of the first query: a size, or an int32 vector with a position for each sample.
    - valid_lengths: the number of valid keys of each sample.
    - windows: how many keys (before, after) its own position a query may attend to; negative: all.
    """
    left, right = (min(size, _MOST_POSITIONS) for size in windows)
    rows, columns = attention_weights.position_grid(q.shape[2], k.shape[2], past_length)
    allowed: List[Maybe] = []
    if right >= 0:
        allowed.append(p.less_equal(columns, p.add(rows, right)))
    if left >= 0:
        allowed.append(p.less_equal(p.sub(rows, left), columns))
    if valid_lengths is not None:
        allowed.append(p.less(columns, p.reshape(p.cast(valid_lengths, int32), (valid_lengths.shape[0], 1, 1, 1))))
    bias = None
    if mask is not None and mask.dtype == bool_:
        allowed.append(mask)
    elif mask is not None:
        bias = p.cast(mask, q.dtype)
    return attention_weights.additive_mask(allowed, bias, q.dtype)


@op("FlexAttention", since=1, domain="ai.onnx.preview")
def flex_attention(
    ctx: "Context",
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    *,
    prob_mod: Optional[Graph] = None,
    scale: Optional[float] = None,
    score_mod: Optional[Graph] = None,
    softmax_precision: Optional[int] = None,
) -> Tensor:
    """Return the attention of Q on K and V, in the dtype of Q: softmax(scale * Q @ K^T) @ V.

    - score_mod: a graph that maps the scores before the softmax to the scores to use.
    - prob_mod: a graph that maps the weights after the softmax to the weights to use.
    - scale: by default, and for 0, 1 / sqrt(head size).

    Q, K and V are [batch, heads, steps, size]. K and V may have fewer heads than Q. Q @ K^T is computed in the dtype of
    Q. The later steps are computed in `softmax_precision`. Its default is float64 for a float64 Q, else float32.

    Raises InvalidModelError for a negative scale, and if the number of heads of K or V does not divide that of Q.
    """
    usual = Q.dtype if Q.dtype.kind == "f" and Q.dtype.bits > float32.bits else float32
    precise = usual if softmax_precision is None else DType.of(softmax_precision)
    scores = p.cast(
        attention_weights.grouped_matmul(*attention_weights.scale_queries_and_keys(Q, K, scale), transpose_y=True),
        precise,
    )
    if score_mod is not None:
        (scores,) = ctx.body(score_mod)(scores)
    weights = p.softmax(scores, -1)
    if prob_mod is not None:
        (weights,) = ctx.body(prob_mod)(weights)
    return p.cast(attention_weights.grouped_matmul(weights, p.cast(V, precise)), Q.dtype)
