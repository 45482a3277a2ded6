"""Calls of operators that mean a call of another operator or version: the operators that onnxruntime fuses, and others.

    com.microsoft::Gelu(x)                      =>  Gelu-20(x)
    com.microsoft::QuickGelu(x, alpha)          =>  Swish-24(x, alpha)
    SimplifiedLayerNormalization(x, scale)      =>  RMSNormalization-23(x, scale)
    BatchNormalization-9(x, …) of one result    =>  BatchNormalization-14(x, …), and the reverse

A function of the table returns the call in the form of one version of an operator of ai.onnx. It returns None if the
inputs, attributes or results have no counterpart there.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

__all__ = ["WITH_EQUIVALENTS", "NodeCall", "equivalent_calls"]

MICROSOFT = "com.microsoft"


class NodeCall(NamedTuple):
    """A call of an operator, in the form of version `opset` of its domain.

    - inputs: values with a dtype and a shape, without trailing None; None for an omitted input.
    - outputs: the number of results that the call names.
    """

    domain: str
    operator: str
    opset: int
    inputs: Tuple[Any, ...]
    attributes: Dict[str, Any]
    outputs: int

    def input(self, position: int) -> Any:
        """Return an input; None if the call omits it."""
        return self.inputs[position] if position < len(self.inputs) else None

    def as_operator(
        self, operator: str, opset: int, inputs: Optional[Sequence[Any]] = None, **attributes: Any
    ) -> "NodeCall":
        """Return a call of `operator` of ai.onnx in version `opset`, with as many results as this call.

        - inputs: by default those of this call. Trailing None is dropped.
        - attributes: all attributes of the new call. Those of this call are not copied.
        """
        values = list(self.inputs if inputs is None else inputs)
        while values and values[-1] is None:
            values.pop()
        return NodeCall("", operator, opset, tuple(values), attributes, self.outputs)


Equivalent = Callable[[NodeCall], Optional[NodeCall]]


def _gelu(call: NodeCall) -> Optional[NodeCall]:
    return call.as_operator("Gelu", 20)


def _fast_gelu(call: NodeCall) -> Optional[NodeCall]:
    return call.as_operator("Gelu", 20, approximate="tanh") if call.input(1) is None else None


def _quick_gelu(call: NodeCall) -> Optional[NodeCall]:
    return call.as_operator("Swish", 24, alpha=call.attributes.get("alpha", 1.702))


def _matrix_product(call: NodeCall) -> Optional[NodeCall]:
    """Return a Gemm for a FusedMatMul or TransposeMatMul of two matrices. None for an operand of another rank.

    transBatchA and transBatchB are dropped: they do not change matrices.
    """
    names = ("alpha", "transA", "transB")
    given = {name: call.attributes[name] for name in names if name in call.attributes}
    return call.as_operator("Gemm", 13, **given) if [x.rank for x in call.inputs] == [2, 2] else None


def _simplified_layer_normalization(call: NodeCall) -> Optional[NodeCall]:
    """Return an RMSNormalization. None if the second result, 1 / RMS, is read: RMSNormalization lacks it."""
    return call.as_operator("RMSNormalization", 23, **call.attributes) if call.outputs == 1 else None


def _layer_normalization(call: NodeCall) -> Optional[NodeCall]:
    """Return a LayerNormalization-17 for a node that onnxruntime fused in an older model. None from opset 17 on."""
    return call.as_operator("LayerNormalization", 17, **call.attributes) if call.opset < 17 else None


def _rotary_embedding(call: NodeCall) -> Optional[NodeCall]:
    """Return a RotaryEmbedding of ai.onnx for a RotaryEmbedding of com.microsoft.

    The result gets attributes for the number of heads and the rotated size; com.microsoft infers both from shapes.

    None: the position_ids are no matrix, or the last size of x or of the cos cache is not static.
    """
    x, positions, cos, sin = call.inputs
    heads, pairs = call.attributes.get("num_heads", 0), cos.shape[-1]
    size = x.shape[-1]
    if positions.rank != 2 or not isinstance(pairs, int) or not isinstance(size, int):
        return None
    if x.rank == 3:
        heads = heads or size // (2 * pairs)
        size //= heads
    given: Dict[str, Any] = {"interleaved": call.attributes.get("interleaved", 0)}
    if x.rank == 3:
        given["num_heads"] = heads
    if size != 2 * pairs:
        given["rotary_embedding_dim"] = 2 * pairs
    return call.as_operator("RotaryEmbedding", 23, [x, cos, sin, positions], **given)


#: Inputs of MultiHeadAttention that Attention lacks: bias, key_padding_mask, past_sequence_length, cache_indirection.
_UNMATCHED = (3, 4, 8, 9)


def _multi_head_attention(call: NodeCall) -> Optional[NodeCall]:
    """Return an Attention of ai.onnx for separate queries, keys and values of rank 3.

    Return None in these cases:

    - A query, key or value is omitted, or has another rank.
    - The call has an input or a result that Attention lacks, or only one of past_key and past_value.
    - The mask is causal, and there is a past_key, or the numbers of queries and keys differ or are not static. A single
      query of MultiHeadAttention has no causal mask.
    """
    query, key, value, mask, past_key, past_value = (call.input(k) for k in (0, 1, 2, 5, 6, 7))
    if any(x is None or x.rank != 3 for x in (query, key, value)) or call.outputs > (1 if past_key is None else 3):
        return None
    if any(call.input(k) is not None for k in _UNMATCHED) or (past_key is None) != (past_value is None):
        return None
    heads = call.attributes["num_heads"]
    given: Dict[str, Any] = {"q_num_heads": heads, "kv_num_heads": heads}
    if call.attributes.get("unidirectional"):
        steps = (query.shape[1], key.shape[1])
        if past_key is not None or steps[0] != steps[1] or not isinstance(steps[0], int):
            return None
        given["is_causal"] = 1
    if call.attributes.get("scale"):
        given["scale"] = call.attributes["scale"]
    return call.as_operator("Attention", 23, [query, key, value, mask, past_key, past_value], **given)


def _quantization(operator: str) -> Equivalent:
    """Return a function that turns a call of `operator` of com.microsoft into a call of `operator` of ai.onnx.

    `operator`: QuantizeLinear or DequantizeLinear. Both domains have the same attributes.
    """
    return lambda call: call.as_operator(operator, 21, **call.attributes)


_STATISTICS = ("epsilon", "momentum")


def _batch_normalization(call: NodeCall) -> Optional[NodeCall]:
    """Return a call from opset 14 on as BatchNormalization-9, and an older call as BatchNormalization-14.

    None: the node trains, or has statistics for each element, which versions 1 to 8 allow.
    """
    given = {name: call.attributes[name] for name in _STATISTICS if name in call.attributes}
    if call.opset >= 14:
        return None if call.attributes.get("training_mode") else call.as_operator("BatchNormalization", 9, **given)
    is_training = call.outputs > 1 and not call.attributes.get("is_test")
    return None if is_training or call.inputs[3].rank != 1 else call.as_operator("BatchNormalization", 14, **given)


_GRID_MODES = {"bilinear": "linear", "bicubic": "cubic"}


def _grid_sample(call: NodeCall) -> Optional[NodeCall]:
    """Return a call before opset 20 as GridSample-20, and a later call as GridSample-16. They name modes differently.

    None: a later call samples a tensor of another rank than 4. Version 16 samples images only.
    """
    if call.opset < 20:
        modes, opset, default = _GRID_MODES, 20, "bilinear"
    else:
        modes, opset, default = {newer: older for older, newer in _GRID_MODES.items()}, 16, "linear"
        if call.inputs[0].rank != 4:
            return None
    mode = call.attributes.get("mode", default)
    return call.as_operator("GridSample", opset, **dict(call.attributes, mode=modes.get(mode, mode)))


def _attention(call: NodeCall) -> Optional[NodeCall]:
    """Return an Attention-23 call as Attention-24, and a later call as Attention-23.

    Return None in these cases:

    - The mask has another number of keys than key and past_key together, or one of these sizes is not static. The
      versions differ for a shorter mask.
    - A later call has windows or valid lengths, which version 23 lacks.
    """
    key, mask, past_key = (call.input(k) for k in (1, 3, 4))
    sizes = [key.shape[-2], 0 if past_key is None else past_key.shape[2]]
    if mask is not None and not all(isinstance(size, int) for size in (*sizes, mask.shape[-1])):
        return None
    if mask is not None and mask.shape[-1] != sum(sizes):
        return None
    if call.opset < 24:
        return call.as_operator("Attention", 24, **call.attributes)
    windows = [call.attributes.get(name, -1) for name in _WINDOWS]
    if call.input(6) is not None or windows != [-1, -1]:
        return None
    given = {name: value for name, value in call.attributes.items() if name not in _WINDOWS}
    return call.as_operator("Attention", 23, **given)


_WINDOWS = ("left_window_size", "right_window_size")

_EQUIVALENTS: Dict[Tuple[str, str], Equivalent] = {
    ("", "Attention"): _attention,
    ("", "BatchNormalization"): _batch_normalization,
    ("", "GridSample"): _grid_sample,
    ("", "LayerNormalization"): _layer_normalization,
    ("", "SimplifiedLayerNormalization"): _simplified_layer_normalization,
    (MICROSOFT, "DequantizeLinear"): _quantization("DequantizeLinear"),
    (MICROSOFT, "FastGelu"): _fast_gelu,
    (MICROSOFT, "FusedMatMul"): _matrix_product,
    (MICROSOFT, "Gelu"): _gelu,
    (MICROSOFT, "MultiHeadAttention"): _multi_head_attention,
    (MICROSOFT, "QuantizeLinear"): _quantization("QuantizeLinear"),
    (MICROSOFT, "QuickGelu"): _quick_gelu,
    (MICROSOFT, "RotaryEmbedding"): _rotary_embedding,
    (MICROSOFT, "SimplifiedLayerNormalization"): _simplified_layer_normalization,
    (MICROSOFT, "TransposeMatMul"): _matrix_product,
}
#: The operators with an equivalent call.
WITH_EQUIVALENTS = tuple(_EQUIVALENTS)


def equivalent_calls(call: NodeCall) -> List[NodeCall]:
    """Return the calls that mean the same as `call`, with `call` itself first.

    Each further call is the equivalent of the call before it. The list ends before a call whose domain, operator and
    opset it has already, and after a call without an equivalent.
    """
    calls = [call]
    while True:
        equivalent = _EQUIVALENTS.get((calls[-1].domain, calls[-1].operator))
        following = None if equivalent is None else equivalent(calls[-1])
        if following is None or following[:3] in [earlier[:3] for earlier in calls]:
            return calls
        calls.append(following)
