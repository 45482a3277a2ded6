"""Choose the version of each op in a file: the lowest version that supports its dtypes, shapes and options.

A runtime refuses an op of a newer version, even if its kernel could run the op. Each rule returns the version that a single
feature requires, such as a dtype, a rank or an option. The version of the op is the maximum of its rules, at least 1.
"""

from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from onnx_compat_tflite.flatbuffer.model import OperatorSpec, SubGraph, TensorSpec

__all__ = ["required_version"]


class _Use(NamedTuple):
    """An operator as the rules read it: the options, the input tensors (None if omitted) and the output tensors."""

    options: Dict[str, Any]
    inputs: Tuple[Optional[TensorSpec], ...]
    outputs: Tuple[TensorSpec, ...]

    def dtype(self, index: int) -> str:
        tensor = self.inputs[index] if index < len(self.inputs) else None
        return "" if tensor is None else tensor.dtype

    def result(self) -> str:
        return self.outputs[0].dtype if self.outputs else ""

    def shape(self, index: int) -> Tuple[int, ...]:
        tensor = self.inputs[index] if index < len(self.inputs) else None
        return () if tensor is None else tuple(tensor.shape)

    def is_per_channel(self, index: int) -> bool:
        tensor = self.inputs[index] if index < len(self.inputs) else None
        return tensor is not None and tensor.quantization is not None and len(tensor.quantization.scale) > 1

    def is_quantized(self) -> bool:
        tensor = self.inputs[0] if self.inputs else None
        return tensor is not None and tensor.quantization is not None and bool(tensor.quantization.scale)


Rule = Callable[[_Use], int]


def required_version(operator: OperatorSpec, graph: SubGraph) -> int:
    """Return the lowest version of the operator's op that supports its dtypes, shapes and options.

    This is the maximum of the op's rules in `_RULES`. The version of an op without rules is 1. `operator.version` is
    not read.
    """
    inputs = tuple(None if index is None else graph.tensors[index] for index in operator.inputs)
    use = _Use(operator.options, inputs, tuple(graph.tensors[index] for index in operator.outputs))
    return max([1] + [rule(use) for rule in _RULES.get(operator.builtin, ())])


def _input(index: int, **versions: int) -> Rule:
    return lambda use: versions.get(use.dtype(index), 1)


def _either(**versions: int) -> Rule:
    return lambda use: max(versions.get(use.dtype(0), 1), versions.get(use.result(), 1))


def _rank(**over: int) -> Rule:
    """Return a rule on the rank of input 0. `_rank(over4=5)`: a rank over 4 requires version 5, another rank version 1.

    Of several arguments that apply, the greatest version counts.
    """
    limits = {int(name[4:]): version for name, version in over.items()}
    return lambda use: max([1] + [version for limit, version in limits.items() if len(use.shape(0)) > limit])


def _broadcast(version: int) -> Rule:
    """Return a rule that gives `version` if inputs 0 and 1 differ in shape and one has a rank over 4; otherwise 1."""

    def rule(use: _Use) -> int:
        is_over_4 = max(len(use.shape(0)), len(use.shape(1))) > 4
        return version if is_over_4 and use.shape(0) != use.shape(1) else 1

    return rule


def _option(name: str, version: int) -> Rule:
    return lambda use: version if use.options.get(name) not in (None, 0, False, "NONE", "float32") else 1


def _hybrid(plain: int, per_channel: int, asymmetric: int = 1) -> Rule:
    """Return a rule for ops that quantise a float32 input 0 at run time, because the weights (input 1) are int8.

    The rule gives the greatest of these versions:

    - `plain`
    - `per_channel`, if the weights have several scales
    - `asymmetric`, if the option asymmetric_quantize_inputs is set

    For other dtypes of the two inputs, it gives 1.
    """

    def rule(use: _Use) -> int:
        if (use.dtype(0), use.dtype(1)) != ("float32", "int8"):
            return 1
        for_inputs = asymmetric if use.options.get("asymmetric_quantize_inputs") else 1
        return max(plain, per_channel if use.is_per_channel(1) else 1, for_inputs)

    return rule


def _weights(data: str, weights: str, version: int) -> Rule:
    return lambda use: version if (use.dtype(0), use.dtype(1)) == (data, weights) else 1


def _blocks(version: int) -> Rule:
    """Return a rule that gives `version` if the weights (input 1) have a scale for each block of a row; otherwise 1."""

    def rule(use: _Use) -> int:
        quantization = None if len(use.inputs) < 2 or use.inputs[1] is None else use.inputs[1].quantization
        return version if quantization is not None and quantization.details is not None else 1

    return rule


def _group_rule(use: _Use) -> int:
    data, weights = use.shape(0), use.shape(1)
    return 6 if len(data) == 4 == len(weights) and data[3] != weights[3] else 1


def _dilation_rule(use: _Use) -> int:
    return 2 if any(use.options.get("dilation_%s_factor" % side, 1) != 1 for side in "wh") else 1


def _rescale_rule(use: _Use) -> int:
    """Return 3 for a quantised MUL with scale(x) * scale(y) / scale(output) >= 1, and 1 for any other MUL.

    Of a tensor with several scales, the first is used.
    """
    scales = [t.quantization.scale for t in (*use.inputs[:2], *use.outputs[:1]) if t is not None and t.quantization]
    if len(scales) != 3 or not all(scales) or not all(scale[0] for scale in scales):
        return 1
    return 3 if scales[0][0] * scales[1][0] / scales[2][0] >= 1 else 1


def _plain16(version: int) -> Rule:
    """Return a rule that gives `version` if input 0 is int16 and not quantised (it has no scale); otherwise 1."""
    return lambda use: version if use.dtype(0) == "int16" and not use.is_quantized() else 1


def _no_bias(use: _Use) -> int:
    return 6 if len(use.inputs) == 2 else 1


def _sparse_weights(use: _Use) -> int:
    weights = use.inputs[1] if len(use.inputs) > 1 else None
    return 8 if weights is not None and weights.sparsity is not None else 1


def _not_4d(use: _Use) -> int:
    return 1 if len(use.shape(0)) == 4 else 3


def _half_pixels(use: _Use) -> int:
    return 3 if use.options.get("half_pixel_centers") else 1


def _recurrent(weights: int, hybrid: int, asymmetric: int) -> Rule:
    def rule(use: _Use) -> int:
        if use.dtype(weights) != "int8" or use.result() != "float32":
            return 1
        return asymmetric if use.options.get("asymmetric_quantize_inputs") else hybrid

    return rule


_EIGHT = _input(0, int8=2)
_SIXTEEN = _input(0, int8=2, int16=3)
_ANY_EIGHT = _input(0, int8=2, uint8=2)
_CAST = _either(uint32=2, int8=3, uint16=4, float64=5, float16=5, int4=6, bfloat16=7, int2=8, uint4=8)

_RULES: Dict[str, Tuple[Rule, ...]] = {
    "ABS": (_ANY_EIGHT, _input(0, int16=3, int32=5), _plain16(4)),
    "ADD": (_input(0, int8=2, int16=3, int64=4, float16=6), _plain16(5)),
    "BATCH_MATMUL": (_SIXTEEN, _hybrid(1, 1, asymmetric=4)),
    "BIDIRECTIONAL_SEQUENCE_LSTM": (_recurrent(1, 2, 3),),
    "BIDIRECTIONAL_SEQUENCE_RNN": (_recurrent(1, 2, 3),),
    "BROADCAST_TO": (lambda _: 2, _input(0, int8=3, int16=3)),
    "CAST": (_CAST,),
    "CONCATENATION": (_input(0, int8=2, int16=3, uint32=4, int4=5),),
    "CONV_2D": (
        _input(0, int8=3, int16=4),
        _weights("int8", "int4", 7),
        _hybrid(2, 5),
        _group_rule,
        _option("quantized_bias_type", 8),
    ),
    "DEPTHWISE_CONV_2D": (_input(0, int8=3, int16=5), _weights("int8", "int4", 7), _hybrid(4, 6), _dilation_rule),
    "DEQUANTIZE": (
        _input(0, int8=2, int16=3, float16=3, int4=6, int2=7, uint4=8),
        lambda use: 5 if use.dtype(0) == "int8" and use.is_per_channel(0) else 1,
    ),
    "DIV": (_broadcast(2),),
    "DYNAMIC_UPDATE_SLICE": (_input(2, int64=2), _input(0, float16=3, int16=4, int4=5, bfloat16=6)),
    "EMBEDDING_LOOKUP": (_input(1, int4=4, int2=5), lambda use: 4 if use.is_per_channel(1) else 1),
    "EQUAL": (_input(0, int8=2, string=3, int16=5),),
    "FAKE_QUANT": (_option("narrow_range", 2),),
    "FILL": (_input(1, bool=2, string=2, int8=3, int16=3, float16=4),),
    "FLOOR_DIV": (_input(0, float32=2, int8=3, int16=3),),
    "FLOOR_MOD": (_input(0, int8=2, int16=2),),
    "FULLY_CONNECTED": (
        _input(0, int8=4),
        _weights("int16", "int16", 7),
        _weights("int8", "int4", 10),
        _weights("int16", "int4", 13),
        _weights("float32", "int4", 12),
        _blocks(13),
        _input(1, int2=14),
        _hybrid(3, 12, asymmetric=9),
        _option("weights_format", 2),
        _option("keep_num_dims", 5),
        _option("quantized_bias_type", 11),
        _no_bias,
        _sparse_weights,
    ),
    "GELU": (_ANY_EIGHT,),
    "GATHER": (_input(0, int8=2, bool=3, int16=4, int4=7), _input(1, int16=6), _option("batch_dims", 5)),
    "GATHER_ND": (_input(0, string=2, int16=3, bool=5), _input(1, int16=4)),
    "LEAKY_RELU": (_input(0, int16=2),),
    "LSTM": (
        _recurrent(2, 3, 4),
        _option("kernel_type", 2),
        lambda use: 5 if use.dtype(0) == "int16" and use.dtype(2) == "int8" else 1,
    ),
    "MUL": (_input(0, int8=2, int16=4, int64=5, complex64=6, uint32=7, float16=8), _plain16(7), _rescale_rule),
    "NOT_EQUAL": (_input(0, int8=2, string=3, int16=4),),
    "PACK": (_input(0, int8=2, int16=3, uint32=4),),
    "QUANTIZE": (
        _either(int16=1, int4=4, uint4=5),
        lambda use: 2 if use.result() == "int16" else 1,
        lambda use: 3 if any(t.quantization and len(t.quantization.scale) > 1 for t in use.outputs) else 1,
    ),
    "RANGE": (_input(0, int64=2),),
    "RELU": (_ANY_EIGHT, _input(0, int16=3)),
    "RESIZE_BILINEAR": (_input(0, int8=2, int16=4), _half_pixels),
    "RESIZE_NEAREST_NEIGHBOR": (_input(0, int8=2, int16=4), _half_pixels, _option("align_corners", 3)),
    "REVERSE_V2": (_input(0, bool=2, int8=3),),
    "RNN": (_recurrent(1, 2, 3),),
    "SELECT": (_input(0, uint32=4), _input(1, int8=2), lambda use: 3 if len(use.shape(1)) > 4 else 1),
    "SELECT_V2": (_input(1, uint32=2),),
    "SIGN": (_input(0, int32=2),),
    "SLICE": (_input(0, int8=2, string=3, int16=4, uint32=6, int4=7), _rank(over4=5)),
    "SPARSE_TO_DENSE": (_input(2, int64=2, int8=3, uint8=3),),
    "SPLIT": (_input(1, int8=2, int32=3, int16=4),),
    "SQUEEZE": (_input(0, string=2),),
    "STRIDED_SLICE": (
        _input(0, int8=2, bool=3, string=5, uint32=7),
        _rank(over4=4),
        _option("ellipsis_mask", 6),
        _option("new_axis_mask", 6),
        _option("offset", 8),
    ),
    "SUB": (_input(0, int8=2, int64=4, int16=5), _broadcast(3)),
    "SVDF": (_EIGHT, _input(0, int8=3), _recurrent(1, 2, 4)),
    "TILE": (_input(0, string=2, int8=3),),
    "TOPK_V2": (_input(0, int8=2, int16=3), _input(1, int16=3)),
    "TRANSPOSE": (_input(0, int8=2, bool=3, int16=5, int4=7, bfloat16=8), _rank(over4=4, over5=6, over6=8)),
    "TRANSPOSE_CONV": (
        _input(1, int8=2),
        lambda use: 3 if len(use.inputs) == 4 and use.inputs[3] is not None else 1,
        _option("fused_activation_function", 4),
        _option("quantized_bias_type", 5),
    ),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (
        _recurrent(2, 2, 3),
        _option("diagonal_recurrent_tensors", 4),
        lambda use: 5 if use.dtype(0) == "int16" and use.dtype(2) == "int8" else 1,
    ),
    "UNIDIRECTIONAL_SEQUENCE_RNN": (_recurrent(1, 2, 3),),
    "UNPACK": (_ANY_EIGHT, _input(0, bool=3, int16=4, float16=5, bfloat16=5)),
    "WHERE": (lambda use: 1 if use.dtype(0) == "bool" else 2,),
}

_ALIKE: Dict[str, Tuple[Rule, ...]] = {
    "MAXIMUM MINIMUM": (_input(0, int8=2, int16=4), _broadcast(3)),
    "PAD PADV2": (_input(0, int8=2, int16=3, bool=5), _rank(over4=4)),
    "BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND": (_input(0, int8=2, int16=4), _not_4d),
    "ARG_MAX ARG_MIN": (_input(0, int8=2, bool=3),),
    "EXP LOG REDUCE_PROD SQRT": (_input(0, int8=2, int16=2),),
    "AVERAGE_POOL_2D GREATER_EQUAL LESS LOGISTIC MAX_POOL_2D MEAN MIRROR_PAD REDUCE_MAX REDUCE_MIN": (_SIXTEEN,),
    "RELU6 RSQRT SOFTMAX TANH": (_SIXTEEN,),
    "DEPTH_TO_SPACE GREATER L2_NORMALIZATION LESS_EQUAL LOG_SOFTMAX SPACE_TO_DEPTH SPLIT_V": (_EIGHT,),
    "SQUARED_DIFFERENCE SUM": (_EIGHT,),
}
_RULES.update({name: rules for names, rules in _ALIKE.items() for name in names.split()})
