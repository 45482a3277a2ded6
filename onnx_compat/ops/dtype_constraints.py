"""Check the dtypes of a node's inputs against the types that ONNX allows for the operator.

An entry of `TABLE` allows each dtype that any version of the operator allows. Two inputs must have equal dtypes if
every version requires it. onnxruntime refuses both faults when it loads a model. If ONNX allows booleans and strings
for an input, the operator only moves data: every dtype passes. An operator without an entry is not checked.

`tests/core/test_dtype_constraints.py` compares the table with the schemas of the installed onnx.
"""

import functools
from typing import Any, Dict, FrozenSet, NamedTuple, Optional, Sequence, Tuple

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import DType
from onnx_compat.tracing.values import Tensor

__all__ = ["TABLE", "Constraints", "check", "constraints"]

_SETS = {
    "floats": "float16 bfloat16 float32 float64",
    "short_floats": "float16 bfloat16 float32",
    "float8": "float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz",
    "integers": "int8 int16 int32 int64 uint8 uint16 uint32 uint64",
    "wide": "int32 int64 uint32 uint64",
    "index": "int32 int64",
    "bytes": "int8 uint8",
    "quantized": "int8 uint8 int16 uint16 int4 uint4 int2 uint2 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz"
    " float4e2m1 float6e2m3 float6e3m2",
}

#: Operator -> an entry for each input, `GROUP:dtypes`. The dtypes are names, or names of `_SETS`, joined by `|`; `*` is
#: every dtype. Inputs of one GROUP have equal dtypes. `...` repeats the last entry for all further inputs. Without it,
#: inputs after the last entry accept every dtype.
TABLE = {
    "Abs": "floats|integers",
    "Acos": "floats",
    "Acosh": "floats",
    "Add": "T:floats|integers T:floats|integers",
    "AffineGrid": "floats int64",
    "And": "T:bool T:bool",
    "ArgMax": "floats|integers",
    "ArgMin": "floats|integers",
    "Asin": "floats",
    "Asinh": "floats",
    "Atan": "floats",
    "Atanh": "floats",
    "Attention": "T:floats T:floats U:floats floats|integers|bool T:floats U:floats int64",
    "AveragePool": "floats",
    "BatchNormalization": "floats T:floats T:floats U:floats U:floats",
    "Bernoulli": "floats",
    "BitCast": "floats|integers|float8|bool|complex64|complex128|uint4|int4|float4e2m1|float8e8m0|uint2|int2",
    "BitShift": "T:integers T:integers",
    "BitwiseAnd": "T:integers T:integers",
    "BitwiseNot": "integers",
    "BitwiseOr": "T:integers T:integers",
    "BitwiseXor": "T:integers T:integers",
    "BlackmanWindow": "index",
    "CausalConvWithState": "T:short_floats T:short_floats T:short_floats T:short_floats",
    "Ceil": "floats",
    "Celu": "floats",
    "CenterCropPad": "* index",
    "Clip": "T:floats|integers T:floats|integers T:floats|integers",
    "Col2Im": "* int64 int64",
    "Compress": "* bool",
    "Concat": "T:* ...",
    "ConstantOfShape": "int64",
    "Conv": "T:floats T:floats T:floats",
    "ConvInteger": "T:bytes U:bytes T:bytes U:bytes",
    "ConvTranspose": "T:floats T:floats T:floats",
    "Cos": "floats",
    "Cosh": "floats",
    "CumProd": "floats|wide index",
    "CumSum": "floats|wide index",
    "DFT": "floats index int64",
    "DeformConv": "T:floats T:floats T:floats T:floats T:floats",
    "DequantizeLinear": "T:quantized|int32 short_floats|float8e8m0 T:quantized|int32",
    "Det": "floats",
    "Div": "T:floats|integers T:floats|integers",
    "Dropout": "floats|float8 floats|float8 bool",
    "DynamicQuantizeLinear": "float32",
    "Einsum": "T:floats|integers ...",
    "Elu": "floats",
    "Equal": "T:* T:*",
    "Erf": "floats|integers",
    "Exp": "floats",
    "Expand": "* int64",
    "EyeLike": "floats|integers|bool",
    "Floor": "floats",
    "GRU": "T:floats T:floats T:floats T:floats int32 T:floats",
    "Gather": "* index",
    "GatherElements": "* index",
    "GatherND": "* int64",
    "Gelu": "floats",
    "Gemm": "T:floats|wide T:floats|wide T:floats|wide",
    "GlobalAveragePool": "floats",
    "GlobalLpPool": "floats",
    "GlobalMaxPool": "floats",
    "Greater": "T:floats|integers T:floats|integers",
    "GreaterOrEqual": "T:floats|integers T:floats|integers",
    "GridSample": "* floats",
    "GroupNormalization": "T:floats T:floats T:floats",
    "HammingWindow": "index",
    "HannWindow": "index",
    "HardSigmoid": "floats",
    "HardSwish": "floats",
    "Hardmax": "floats",
    "If": "bool",
    "ImageDecoder": "uint8",
    "InstanceNormalization": "T:floats T:floats T:floats",
    "IsInf": "floats|float8",
    "IsNaN": "floats|float8",
    "LRN": "floats",
    "LSTM": "T:floats T:floats T:floats T:floats int32 T:floats T:floats T:floats",
    "LayerNormalization": "T:floats T:floats T:floats",
    "LeakyRelu": "floats",
    "Less": "T:floats|integers T:floats|integers",
    "LessOrEqual": "T:floats|integers T:floats|integers",
    "LinearAttention": "T:short_floats T:short_floats T:short_floats short_floats T:short_floats T:short_floats",
    "Log": "floats",
    "LogSoftmax": "floats",
    "Loop": "int64 bool * ...",
    "LpNormalization": "floats",
    "LpPool": "floats",
    "MatMul": "T:floats|wide T:floats|wide",
    "MatMulInteger": "T:bytes U:bytes T:bytes U:bytes",
    "Max": "T:floats|integers ...",
    "MaxPool": "floats|bytes",
    "MaxRoiPool": "T:floats T:floats",
    "MaxUnpool": "floats T:int64 T:int64",
    "Mean": "T:floats ...",
    "MeanVarianceNormalization": "floats",
    "MelWeightMatrix": "T:index T:index T:index U:floats U:floats",
    "Min": "T:floats|integers ...",
    "Mish": "floats",
    "Mod": "T:floats|integers T:floats|integers",
    "Mul": "T:floats|integers T:floats|integers",
    "Multinomial": "floats",
    "Neg": "floats|index|int8|int16",
    "NegativeLogLikelihoodLoss": "T:floats index T:floats",
    "NonMaxSuppression": "float32 float32 int64 float32 float32",
    "Not": "bool",
    "OneHot": "integers|float32|float16|float64 integers|float32|float16|float64",
    "Or": "T:bool T:bool",
    "PRelu": "T:floats|wide T:floats|wide",
    "Pad": "T:* int64 T:* index",
    "Pow": "floats|index floats|integers",
    "QLinearConv": "T:bytes float32 T:bytes U:bytes float32 U:bytes float32 bytes int32",
    "QLinearMatMul": "T:float8|bytes short_floats T:float8|bytes U:float8|bytes"
    " short_floats U:float8|bytes short_floats float8|bytes",
    "QuantizeLinear": "short_floats|int32 short_floats|int32|float8e8m0 quantized",
    "RMSNormalization": "floats floats",
    "RNN": "T:floats T:floats T:floats T:floats int32 T:floats",
    "Range": "T:floats|index|int16 T:floats|index|int16 T:floats|index|int16",
    "Reciprocal": "floats",
    "ReduceL1": "floats|wide int64",
    "ReduceL2": "floats|wide int64",
    "ReduceLogSum": "floats|wide int64",
    "ReduceLogSumExp": "floats|wide int64",
    "ReduceMax": "floats|wide|bytes|bool int64",
    "ReduceMean": "floats|wide int64",
    "ReduceMin": "floats|wide|bytes|bool int64",
    "ReduceProd": "floats|wide int64",
    "ReduceSum": "floats|wide int64",
    "ReduceSumSquare": "floats|wide int64",
    "RegexFullMatch": "string",
    "Relu": "floats|index|int8|int16",
    "Reshape": "* int64",
    "Resize": "* float32|float16|float64 float32 int64",
    "ReverseSequence": "* int64",
    "RoiAlign": "T:floats T:floats int64",
    "RotaryEmbedding": "T:short_floats T:short_floats T:short_floats int64",
    "Round": "floats",
    "STFT": "T:floats U:index T:floats U:index",
    "Scatter": "T:* index T:*",
    "ScatterElements": "T:* index T:*",
    "ScatterND": "T:* int64 T:*",
    "Selu": "floats",
    "SequenceAt": "* index",
    "SequenceConstruct": "T:* ...",
    "SequenceErase": "* index",
    "SequenceInsert": "* * index",
    "Shrink": "integers|float32|float16|float64",
    "Sigmoid": "floats",
    "Sign": "floats|integers",
    "Sin": "floats",
    "Sinh": "floats",
    "Slice": "* T:index T:index T:index T:index",
    "Softmax": "floats",
    "SoftmaxCrossEntropyLoss": "T:floats index T:floats",
    "Softplus": "floats",
    "Softsign": "floats",
    "Split": "* float32|int64|float16|float64",
    "SplitToSequence": "* index",
    "Sqrt": "floats",
    "Squeeze": "* int64",
    "StringConcat": "T:string T:string",
    "StringNormalizer": "string",
    "StringSplit": "string",
    "Sub": "T:floats|integers T:floats|integers",
    "Sum": "T:floats ...",
    "SwiGLU": "T:floats T:floats",
    "Swish": "floats",
    "Tan": "floats",
    "Tanh": "floats",
    "TensorScatter": "T:* T:* int64",
    "TfIdfVectorizer": "index|string",
    "ThresholdedRelu": "floats",
    "Tile": "T:* float32|int64|float16|float64 T:float32|float16|float64",
    "TopK": "floats|integers int64",
    "Trilu": "* int64",
    "Unsqueeze": "* int64",
    "Upsample": "* float32",
    "Where": "bool T:* T:*",
    "Xor": "T:bool T:bool",
    "ai.onnx.ml::ArrayFeatureExtractor": "index|float32|string|float64 int64",
    "ai.onnx.ml::Binarizer": "index|float32|float64",
    "ai.onnx.ml::CategoryMapper": "int64|string",
    "ai.onnx.ml::FeatureVectorizer": "T:index|float32|float64 ...",
    "ai.onnx.ml::Imputer": "index|float32|float64",
    "ai.onnx.ml::LabelEncoder": "index|float32|int16|string|float64",
    "ai.onnx.ml::LinearClassifier": "index|float32|float64",
    "ai.onnx.ml::LinearRegressor": "index|float32|float64",
    "ai.onnx.ml::Normalizer": "index|float32|float64",
    "ai.onnx.ml::OneHotEncoder": "index|float32|string|float64",
    "ai.onnx.ml::SVMClassifier": "index|float32|float64",
    "ai.onnx.ml::SVMRegressor": "index|float32|float64",
    "ai.onnx.ml::Scaler": "index|float32|float64",
    "ai.onnx.ml::TreeEnsemble": "float32|float16|float64",
    "ai.onnx.ml::TreeEnsembleClassifier": "index|float32|float64",
    "ai.onnx.ml::TreeEnsembleRegressor": "index|float32|float64",
    "ai.onnx.ml::ZipMap": "float32",
    "ai.onnx.preview::FlexAttention": "T:floats T:floats T:floats",
    "ai.onnx.preview.training::Adagrad": "float32|float64 int64 float32|float64 ...",
    "ai.onnx.preview.training::Adam": "float32|float64 int64 float32|float64 ...",
    "ai.onnx.preview.training::Momentum": "float32|float64 int64 float32|float64 ...",
}


class Constraints(NamedTuple):
    """The parsed entry of `TABLE` for an operator.

    Attributes:
        allowed: For each input, the names of the allowed dtypes; the empty set allows every dtype.
        groups: For each input, the name of its group; "" is no group. Inputs of one group have equal dtypes.
        repeated: Whether the last entry also holds for all further inputs. If not, further inputs are not constrained.
    """

    allowed: Tuple[FrozenSet[str], ...]
    groups: Tuple[str, ...]
    repeated: bool


@functools.lru_cache(maxsize=None)
def constraints(domain: str, operator: str) -> Optional[Constraints]:
    """Return the parsed entry of `TABLE` for an operator, or None if the operator has no entry.

    `domain` is "" for the operators of ai.onnx.
    """
    text = TABLE.get("%s::%s" % (domain, operator) if domain else operator)
    if text is None:
        return None
    entries = text.split()
    repeated = entries[-1] == "..."
    pairs = [entry.rpartition(":") for entry in (entries[:-1] if repeated else entries)]
    return Constraints(tuple(_dtypes(names) for *_, names in pairs), tuple(group for group, *_ in pairs), repeated)


def _dtypes(names: str) -> FrozenSet[str]:
    return frozenset() if names == "*" else frozenset(" ".join(_SETS.get(n, n) for n in names.split("|")).split())


def check(domain: str, operator: str, inputs: Sequence[Any]) -> None:
    """Raise InvalidModelError if no version of the operator allows the dtype of an input.

    Raise InvalidModelError also if two inputs must have equal dtypes and differ. These are not checked:

    - operators without an entry in `TABLE`
    - inputs that the entry does not cover
    - inputs that are absent, or are no tensor
    """
    _check(domain, operator, tuple([value.dtype if isinstance(value, Tensor) else None for value in inputs]))


@functools.lru_cache(maxsize=4096)  # a model has few combinations
def _check(domain: str, operator: str, dtypes: Tuple[Optional[DType], ...]) -> None:
    row = constraints(domain, operator)
    if row is None:
        return
    last = len(row.allowed) - 1
    group_dtypes: Dict[str, Tuple[int, DType]] = {}
    for k, dtype in enumerate(dtypes):
        if dtype is None or (k > last and not row.repeated):
            continue
        allowed, group = row.allowed[min(k, last)], row.groups[min(k, last)]
        if allowed and dtype.name not in allowed:
            raise InvalidModelError(
                "the input number %d is %s, %s takes %s" % (k, dtype.name, operator, ", ".join(sorted(allowed))),
                hint="put a Cast in front of it, or export the model again",
            )
        if group and group_dtypes.setdefault(group, (k, dtype))[1] is not dtype:
            first, other_dtype = group_dtypes[group]
            raise InvalidModelError(
                "the inputs number %d and %d are %s and %s, %s takes one type for both"
                % (first, k, other_dtype.name, dtype.name, operator),
                hint="put a Cast in front of one of them, or export the model again",
            )
