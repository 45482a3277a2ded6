"""Operators that are emitted as a whole: the node itself, in the form of the target's version of the operator.

A node is emitted as a whole if the target has the operator for its dtypes, and if both versions have one meaning. The
operators are those that several primitives make up, and those that mean one of them (see `equivalents`). An operator
that is a single primitive needs no native, and a primitive avoids the kernels that a runtime computes wrongly.
"""

import inspect
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.errors import OnnxCompatError
from onnx_compat.ir import dtypes
from onnx_compat.ir.dtypes import DType
from onnx_compat.model.graph import GraphNode
from onnx_compat.model.initializer import Constant
from onnx_compat.onnx_shim.equivalents import WITH_EQUIVALENTS, NodeCall, equivalent_calls
from onnx_compat.onnx_shim.operator_sets import OperatorOffer
from onnx_compat.onnx_shim.signatures import Attribute, Signature, signature_of
from onnx_compat.onnx_shim.spelling import Spelling, respell
from onnx_compat.ops.older_versions import ignored_attributes, newer_function
from onnx_compat.shim.natives import Native
from onnx_compat.tracing.values import Tensor

__all__ = ["OPERATORS", "native_call", "natives_of_offer", "operator_of", "stored_attribute"]

_PREFIX = "node:"
#: The number of elements from which on a constant that a DequantizeLinear reads stays quantised: runtimes recognise it
#: as a weight of a product of integers.
_WEIGHT = 64

#: Operators of ai.onnx of several primitives.
OPERATORS: Tuple[str, ...] = tuple(
    """
    AffineGrid Attention AveragePool BatchNormalization Celu CenterCropPad Col2Im DeformConv
    DepthToSpace DequantizeLinear Det DynamicQuantizeLinear Einsum Elu GRU Gelu Gemm GlobalAveragePool
    GlobalLpPool GlobalMaxPool GridSample GroupNormalization HardSigmoid HardSwish Hardmax
    InstanceNormalization LRN LSTM LayerNormalization LeakyRelu LpNormalization LpPool MatMulInteger MaxPool
    MaxRoiPool MeanVarianceNormalization MelWeightMatrix Mish NegativeLogLikelihoodLoss
    NonMaxSuppression PRelu QLinearConv QLinearMatMul QuantizeLinear RMSNormalization RNN Resize
    RoiAlign RotaryEmbedding Selu Shrink SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Swish
    TfIdfVectorizer ThresholdedRelu Unique
    """.split()
)


def _has_scaled_corners(call: NodeCall) -> bool:
    """Whether a Resize by scales aligns corners: onnxruntime takes the rounded size, not the scaled one."""
    scales = call.input(2)
    is_scaled = scales is not None and 0 not in scales.shape
    return is_scaled and call.attributes.get("coordinate_transformation_mode") == "align_corners"


def _has_carried_result(call: NodeCall) -> bool:
    """Whether a QuantizeLinear or DequantizeLinear gives a dtype that numpy lacks: other nodes read its carrier."""
    number = call.attributes.get("output_dtype")
    return bool(number) and not DType.of(number).native


def _has_scores_or_float16(call: NodeCall) -> bool:
    """Whether an Attention gives its scores, or computes in float16.

    onnxruntime 1.31 masks scores by the lowest number instead of -inf, and rounds float16 inside of the sums.
    """
    return call.outputs > 3 or call.inputs[0].dtype is dtypes.float16


def _has_negative_axes(call: NodeCall) -> bool:
    """Whether a CenterCropPad counts axes from the end: onnxruntime 1.14 ends the process."""
    return any(axis < 0 for axis in call.attributes.get("axes") or ())


#: Operator -> whether a node is composed although the target has the operator, because runtimes compute it wrongly, or
#: because its results are no values of the emitter.
_COMPOSED: Dict[str, Callable[[NodeCall], bool]] = {
    "Attention": _has_scores_or_float16,
    "CenterCropPad": _has_negative_axes,
    "DequantizeLinear": _has_carried_result,
    "QuantizeLinear": _has_carried_result,
    "Resize": _has_scaled_corners,
}


def natives_of_offer(offer: OperatorOffer) -> Dict[Tuple[str, str], Native]:
    """Return (domain, operator) -> `Native` for the operators that a target may have as a whole.

    `accepts` of the `Native` decides for each node.
    """
    names = [("", operator) for operator in OPERATORS if offer.signature(operator) is not None]
    natives = {
        (domain, operator): Native(_Acceptance(offer), "%s%s:%s" % (_PREFIX, domain, operator), False)
        for domain, operator in [*names, *WITH_EQUIVALENTS]
    }
    for key in [key for key in natives if key[1] == "DequantizeLinear"]:
        natives[key] = natives[key]._replace(keeps=_is_weight)
    return natives


def _is_weight(inputs: Sequence[Any]) -> bool:
    """Whether the first input has more than one axis and enough elements to be a weight, not a size or a scale."""
    return bool(inputs[0].rank > 1 and inputs[0].size >= _WEIGHT)


def operator_of(method: str) -> Optional[Tuple[str, str]]:
    """Return (domain, operator) of the method of a native. None: the method is no native."""
    if not method.startswith(_PREFIX):
        return None
    domain, _, operator = method[len(_PREFIX) :].rpartition(":")
    return domain, operator


class _Acceptance:
    """Decides whether a target takes a node of a model as one call, in its own form or in an equivalent one.

    An instance is called with (node, inputs, attributes). It returns False for an input of a carried dtype.
    """

    def __init__(self, offer: OperatorOffer) -> None:
        self._offer = offer

    def __call__(self, node: GraphNode, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> bool:
        values = [value for value in inputs if value is not None]
        if not all(isinstance(value, Tensor) and value.dtype.native for value in values):
            return False
        count = max((k for k, name in enumerate(node.outputs) if name), default=0) + 1
        call = NodeCall(node.domain, node.operator, node.opset, tuple(inputs), dict(attributes), count)
        return native_call(call, self._offer, _value, _lift) is not None


def native_call(
    call: NodeCall,
    offer: OperatorOffer,
    known: Callable[[Any], Optional[np.ndarray]],
    constant: Callable[[np.ndarray], Any],
) -> Optional[NodeCall]:
    """Return a call that means the same as `call`, and that a target computes as specified. None without such a call.

    - known: returns the elements of a value, or None if they are not known.
    - constant: returns a value with the elements of an array, and its dtype.
    """
    for candidate in equivalent_calls(call._replace(inputs=_without_trailing_none(call.inputs))):
        declines = _COMPOSED.get(candidate.operator)
        if declines is not None and declines(candidate):
            continue
        spelled = _spelled_call(candidate, offer, known, constant)
        if spelled is None or not has_same_meaning(candidate, spelled.attributes, offer):
            continue
        kinds = [None if value is None else value.dtype for value in spelled.inputs]
        if not offer.has_call(spelled.operator, kinds, spelled.outputs, spelled.attributes, spelled.domain):
            continue
        if spelled.domain or not kinds or _is_reliable(spelled, kinds[0], offer):
            return spelled
    return None


def _is_reliable(call: NodeCall, dtype: Any, offer: OperatorOffer) -> bool:
    """Whether the target computes an operator of ai.onnx as specified, also with the attributes of this call."""
    behaviours = [call.operator, *("%s with %s" % (call.operator, name) for name in call.attributes)]
    return all(offer.is_reliable(behaviour, dtype) for behaviour in behaviours)


def _without_trailing_none(inputs: Tuple[Any, ...]) -> Tuple[Any, ...]:
    while inputs and inputs[-1] is None:
        inputs = inputs[:-1]
    return inputs


def has_same_meaning(call: NodeCall, spelled: Mapping[str, Any], offer: OperatorOffer) -> bool:
    """Whether the operator of a call means the same at the target's version.

    - spelled: name -> value, the attributes of the call in the form of the target's version.

    Condition: one function computes both versions. An attribute that `spelled` lacks has the same default in both
    versions. If only the target declares the attribute, it has the default of the function.
    """
    from onnx_compat.ops.registry import lookup

    versions = (call.opset, offer.opsets[call.domain])
    try:
        here, there = (lookup(call.domain, call.operator, version).function for version in versions)
    except OnnxCompatError:
        return False
    function = newer_function(there)
    if newer_function(here) is not function:
        return False
    source, target = signature_of(call.domain, call.operator, call.opset), offer.signature(call.operator, call.domain)
    if here is there or source is None or target is None:
        return here is there
    parameters = inspect.signature(function).parameters
    return all(
        source.attributes[name].default == attribute.default
        if name in source.attributes
        else name not in parameters or _has_default(attribute, parameters[name].default)
        for name, attribute in target.attributes.items()
        if name not in spelled
    )


def _has_default(attribute: Attribute, value: Any) -> bool:
    """Whether an attribute declares no default, or the default `value`. Floats are compared as float32."""
    declared = attribute.default
    if declared is None or declared == value:
        return True
    return isinstance(declared, float) and isinstance(value, float) and np.float32(declared) == np.float32(value)


def _spelled_call(
    call: NodeCall,
    offer: OperatorOffer,
    known: Callable[[Any], Optional[np.ndarray]],
    constant: Callable[[np.ndarray], Any],
) -> Optional[NodeCall]:
    """Return a call in the form of the target's version of its operator. None: there is no such operator or form.

    - known: returns the elements of a value, or None if they are not known.
    - constant: returns a value with the elements of an array, and its dtype.
    """
    source: Optional[Signature] = signature_of(call.domain, call.operator, call.opset)
    target = offer.signature(call.operator, call.domain)
    if source is None or target is None:
        return None
    ignored = _ignored_attributes(call)
    stored = {name: stored_attribute(value) for name, value in call.attributes.items() if name not in ignored}
    spelling = respell(Spelling(call.inputs, stored), source, target, known, constant)
    return None if spelling is None else call._replace(inputs=spelling.inputs, attributes=spelling.attributes)


def _ignored_attributes(call: NodeCall) -> List[str]:
    """Return the names of the attributes that do not change results in the called version of the operator.

    The list is empty for an operator that this library does not know.
    """
    from onnx_compat.ops.registry import lookup

    try:
        return list(ignored_attributes(lookup(call.domain, call.operator, call.opset).function))
    except OnnxCompatError:
        return []


def stored_attribute(value: Any) -> Any:
    """Return the value of an attribute in the form that graphs have: a known Tensor becomes a `Constant`."""
    return Constant(value.value, value.dtype) if isinstance(value, Tensor) else value


def _value(tensor: Tensor) -> Optional[np.ndarray]:
    return tensor.value if tensor.known else None


def _lift(array: np.ndarray) -> Tensor:
    return Tensor(DType.of(array.dtype), array.shape, array)
