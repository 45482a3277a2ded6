"""What is computed twice, and what is joined twice."""

from typing import Any, Dict, List, Optional

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.view import View

__all__ = ["join_joined", "share_results"]

#: Kernels whose result is that of their inputs and options.
_PURE = frozenset(
    "ABS ADD AND BATCH_MATMUL BROADCAST_ARGS BROADCAST_TO CAST CONCATENATION CONV_2D COS DEPTHWISE_CONV_2D DEQUANTIZE DIV"
    " EQUAL EXP EXPAND_DIMS FILL FLOOR FLOOR_DIV FLOOR_MOD FULLY_CONNECTED GATHER GATHER_ND GREATER GREATER_EQUAL LESS"
    " LESS_EQUAL LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC MAXIMUM MEAN MINIMUM MIRROR_PAD MUL NEG NOT_EQUAL PACK"
    " PAD PADV2 POW QUANTIZE RANGE REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD RELU RELU6 RESHAPE RSQRT"
    " SELECT_V2 SHAPE SIN SLICE SQRT SQUARE SQUEEZE STRIDED_SLICE SUB SUM TANH TILE TRANSPOSE".split()
)

_MOST = 4  # parts that XNNPACK joins everywhere


def share_results(graph: fb.SubGraph) -> None:
    """Operators that compute the same of the same are one; the others are swept away."""
    view = View(graph)
    first: Dict[Any, fb.OperatorSpec] = {}
    for operator in graph.operators:
        if operator.builtin not in _PURE or any(index in graph.outputs for index in operator.outputs):
            continue
        results = [graph.tensors[index] for index in operator.outputs]
        kinds = [(one.dtype, tuple(one.shape), repr(one.quantization)) for one in results]
        options = sorted((name, repr(value)) for name, value in operator.options.items())
        key = (operator.builtin, tuple(operator.inputs), tuple(options), tuple(kinds))
        same = first.setdefault(key, operator)
        if same is not operator:
            for old, new in zip(operator.outputs, same.outputs):
                view.read_all(old, new)


def join_joined(graph: fb.SubGraph) -> None:
    """A CONCATENATION of CONCATENATIONs along the same axis, as far as a delegate takes so many parts."""
    view = View(graph)
    for operator in graph.operators:
        if operator.builtin == "CONCATENATION":
            for index in operator.inputs:
                inner = _inner(view, operator, index)
                if inner is not None and len(operator.inputs) + len(inner.inputs) - 1 <= _MOST:
                    place = list(operator.inputs).index(index)
                    inputs: List[Any] = list(operator.inputs)
                    inputs[place : place + 1] = inner.inputs
                    view.turn_into(operator, "CONCATENATION", inputs, **operator.options)


def _inner(view: View, outer: fb.OperatorSpec, index: Optional[int]) -> Optional[fb.OperatorSpec]:
    """What joins a tensor for another CONCATENATION alone, along the same axis, and of parts of the same scale."""
    inner = view.writer(index, "CONCATENATION")
    if inner is None or index is None or not view.only_read_by(index, outer):
        return None
    alike = all(
        view.graph.tensors[index].quantization == view.graph.tensors[one or 0].quantization for one in inner.inputs
    )
    axes = {one.options.get("axis", 0) % len(view.sizes(index)) for one in (inner, outer)}
    return inner if alike and len(axes) == 1 else None
