"""Linear attention (a recurrence over a state matrix, without a softmax), and causal convolution with a state."""

from typing import Any, Dict, List, Optional

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, NeedsKnownError
from onnx_compat.ir.dims import is_equal, is_static
from onnx_compat.ir.dtypes import float32
from onnx_compat.ir.window import Window
from onnx_compat.ops import attention_weights
from onnx_compat.ops.activation import swish
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift

Maybe = Optional[Tensor]

#: Update rule -> the optional inputs that it needs; it takes no other.
_RULES: Dict[str, List[str]] = {
    "linear": [],
    "gated": ["decay"],
    "delta": ["beta"],
    "gated_delta": ["decay", "beta"],
}


@op("LinearAttention", since=27)
def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past_state: Maybe = None,
    decay: Maybe = None,
    beta: Maybe = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> List[Tensor]:
    """Return [output of linear attention, final state]. The steps are computed by a scan in float32.

    query, key and value are [batch, steps, heads * size]. The output is [batch, steps, q_num_heads * value size], in
    the dtype of the query. The state S is [batch, kv_num_heads, key size, value size]. It starts as `past_state`, by
    default 0. One step computes, in this order:

    - S = exp(decay) * S, by the rules "gated" and "gated_delta" only
    - v = beta * (v - k S), by the rules "delta" and "gated_delta" only
    - S = S + k^T v
    - output = scale * q S

    `update_rule` is one of these three rules, or "linear". A head of key and value serves q_num_heads / kv_num_heads
    heads of the query. A `scale` of 0 is 1 / sqrt(key size). `chunk_size` has no effect. Raises InvalidModelError in
    these cases:

    - an unknown update rule
    - decay or beta is missing and the rule needs it, or is given and the rule does not use it
    - a number of heads does not divide the static last axis of its input
    """
    if update_rule not in _RULES:
        raise InvalidModelError("the update rule %r is none of %s" % (update_rule, ", ".join(sorted(_RULES))))
    for name, given in (("decay", decay), ("beta", beta)):
        if (given is not None) != (name in _RULES[update_rule]):
            raise InvalidModelError(
                "the update rule %r %s '%s'" % (update_rule, "needs" if given is None else "takes no", name)
            )
    q, k, v = _steps_first(query, q_num_heads), _steps_first(key, kv_num_heads), _steps_first(value, kv_num_heads)
    steps, batch, _, size = q.shape
    q = p.reshape(
        p.mul(q, attention_weights.attention_scale(q, scale)),
        (steps, batch, kv_num_heads, q_num_heads // kv_num_heads, size),
    )
    xs = [q, k, v]
    if decay is not None:
        xs.append(
            p.exp(_steps_first(decay, kv_num_heads))
        )  # decay has an entry for each feature of a key, or one for the head
    if beta is not None:
        if not is_static(beta.shape[2]):  # beta has an entry for each head, or one entry for all heads
            beta = p.broadcast_to(beta, (beta.shape[0], beta.shape[1], kv_num_heads))
        xs.append(_steps_first(beta, 1 if is_equal(beta.shape[2], 1) else kv_num_heads))
    start = p.full((batch, kv_num_heads, size, v.shape[3]), 0, float32)
    start = start if past_state is None else p.cast(past_state, float32)

    def step(state: Tensor, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> List[Tensor]:
        if decay is not None:
            state = p.mul(state, p.unsqueeze(gates[0], [3]))
        if beta is not None:
            known = p.squeeze(p.matmul(p.unsqueeze(k, [2]), state), [2])
            v = p.mul(gates[-1], p.sub(v, known))
        state = p.add(state, p.mul(p.unsqueeze(k, [3]), p.unsqueeze(v, [2])))
        return [state, p.matmul(q, state)]

    state, outputs = p.scan(step, [start], xs, steps)
    outputs = p.reshape(p.transpose(outputs, (1, 0, 2, 3, 4)), (batch, steps, q_num_heads * v.shape[3]))
    return [p.cast(outputs, query.dtype), p.cast(state, (query if past_state is None else past_state).dtype)]


def _steps_first(x: Tensor, count: int) -> Tensor:
    """Reshape and transpose [batch, steps, count * size] to [steps, batch, count, size], in float32.

    Raises InvalidModelError if `count` is not positive, or does not divide the last axis. A symbolic last axis is not
    checked.
    """
    parts = p.reshape(
        p.cast(x, float32), (x.shape[0], x.shape[1], count, attention_weights.size_per_head(x.shape[2], count))
    )
    return p.transpose(parts, (1, 0, 2, 3))


@op("CausalConvWithState", since=27)
def causal_conv_with_state(
    input: Tensor, weight: Tensor, bias: Maybe = None, past_state: Maybe = None, *, activation: str = "none"
) -> List[Tensor]:
    """Return [causal depthwise convolution of the input, new state].

    - input: [batch, channels, steps]
    - weight: [channels, 1, kernel size]
    - past_state: the state of the previous call, [batch, channels, kernel size - 1]; by default zeros. The convolution
      runs over past_state followed by the input.
    - activation: "none", or "silu" or "swish", which are both x * sigmoid(x) in float32.

    The new state is the last kernel size - 1 steps of past_state followed by the input. Raises InvalidModelError for
    another activation. Raises NeedsKnownError if the number of channels is not known.
    """
    if activation not in ("none", "silu", "swish"):
        raise InvalidModelError("the activation %r is none of none, silu, swish" % activation)
    remembered = weight.shape[2] - 1
    steps = p.pad(input, [0, 0, remembered], [0, 0, 0]) if past_state is None else p.concat([past_state, input], 2)
    channels: Any = weight.shape[0]
    if not is_static(channels):
        raise NeedsKnownError("the number of channels of a depthwise convolution is not known", lift([channels]))
    y: Any = p.conv(steps, weight, bias, window=Window.of(weight.shape[2:]), groups=channels)
    if activation != "none":
        y = p.cast(swish(p.cast(y, float32)), input.dtype)
    return [y, p.slice_axis(steps, 2, input.shape[2], None)]
