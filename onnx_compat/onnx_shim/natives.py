"""Operators that are emitted as a whole: the node itself, in the form of the target's version of the operator.

A node is emitted as a whole if the target has the operator for its dtypes, and if both versions have one meaning. The
operators are those that several primitives make up. An operator that is a single primitive needs no native, and a
primitive avoids the kernels that a runtime computes wrongly.
"""

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.errors import OnnxCompatError
from onnx_compat.ir.dtypes import DType
from onnx_compat.model.graph import GraphNode
from onnx_compat.model.initializer import Constant
from onnx_compat.onnx_shim.operator_sets import Offer
from onnx_compat.onnx_shim.signatures import Signature, signature_of
from onnx_compat.onnx_shim.spelling import Spelling, respell
from onnx_compat.shim.natives import Native
from onnx_compat.tracing.values import Tensor

__all__ = ["OPERATORS", "natives_of_offer", "operator_of", "respelled_call"]

_PREFIX = "node:"

#: Domain -> operators of several primitives.
OPERATORS: Dict[str, Tuple[str, ...]] = {
    "": tuple(
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
    ),
}


def _has_scaled_corners(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> bool:
    """Whether a Resize by scales aligns corners: onnxruntime takes the rounded size, not the scaled one."""
    is_scaled = len(inputs) > 2 and inputs[2] is not None and 0 not in inputs[2].shape
    return is_scaled and attributes.get("coordinate_transformation_mode") == "align_corners"


#: Operator -> whether a node is composed although the target has the operator, because runtimes compute it wrongly.
_COMPOSED: Dict[str, Callable[[Sequence[Any], Mapping[str, Any]], bool]] = {"Resize": _has_scaled_corners}


def natives_of_offer(offer: Offer) -> Dict[Tuple[str, str], Native]:
    """Return (domain, operator) -> `Native` for the operators of several primitives that a target has."""
    return {
        (domain, operator): Native(_Acceptance(offer), "%s%s:%s" % (_PREFIX, domain, operator), False)
        for domain, operators in OPERATORS.items()
        for operator in operators
        if offer.signature(operator, domain) is not None
    }


def operator_of(method: str) -> Optional[Tuple[str, str]]:
    """Return (domain, operator) of the method of a native. None: the method is no native."""
    if not method.startswith(_PREFIX):
        return None
    domain, _, operator = method[len(_PREFIX) :].rpartition(":")
    return domain, operator


class _Acceptance:
    """Decides whether a target takes a node as it is, or in another form."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer

    def __call__(self, node: GraphNode, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> bool:
        values = [value for value in inputs if value is not None]
        if not all(isinstance(value, Tensor) and value.dtype.native for value in values):
            return False
        outputs = node.outputs if len(node.outputs) == 1 else _read(node)
        declines = _COMPOSED.get(node.operator)
        if declines is not None and declines(inputs, attributes):
            return False
        if "" in outputs or not has_same_meaning(node.domain, node.operator, node.opset, self._offer):
            return False
        spelled = respelled_call(node.domain, node.operator, node.opset, self._offer, inputs, attributes, _value, _lift)
        if spelled is None:
            return False
        kinds = [None if value is None else value.dtype for value in spelled.inputs]
        return self._offer.has_call(node.operator, kinds, len(outputs), spelled.attributes, node.domain)


def _read(node: GraphNode) -> List[str]:
    """Return the outputs up to the last one that is read."""
    count = max((k for k, name in enumerate(node.outputs) if name), default=0) + 1
    return list(node.outputs[:count])


def has_same_meaning(domain: str, operator: str, opset: int, offer: Offer) -> bool:
    """Whether an operator means the same at version `opset` of its domain as at the target's."""
    from onnx_compat.ops.registry import lookup

    try:
        here, there = (lookup(domain, operator, version) for version in (opset, offer.opsets[domain]))
    except OnnxCompatError:
        return False
    return here.function is there.function


def respelled_call(
    domain: str,
    operator: str,
    opset: int,
    offer: Offer,
    inputs: Sequence[Any],
    attributes: Mapping[str, Any],
    known: Any,
    constant: Any,
) -> Optional[Spelling]:
    """Return a call of version `opset` in the form that the target's version has. None: it has no such form.

    known, constant: as for `respell`.
    """
    source: Optional[Signature] = signature_of(domain, operator, opset)
    target = offer.signature(operator, domain)
    if source is None or target is None:
        return None
    stored = {name: _to_stored(value) for name, value in attributes.items()}
    return respell(Spelling(tuple(inputs), stored), source, target, known, constant)


def _to_stored(value: Any) -> Any:
    """Return the value of an attribute in the form that graphs have: a known Tensor becomes a `Constant`."""
    return Constant(value.value, value.dtype) if isinstance(value, Tensor) else value


def _value(tensor: Tensor) -> Optional[np.ndarray]:
    return tensor.value if tensor.known else None


def _lift(array: np.ndarray) -> Tensor:
    return Tensor(DType.of(array.dtype), array.shape, array)
