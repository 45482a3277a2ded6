"""y = f(x), z = f(x)  =>  y = f(x), where readers of z read y

Conditions: f is an op of `_PURE` with the same inputs and options. The results have the same dtype, shape and quantization,
and are no outputs of the subgraph.
"""

from typing import Any, Dict

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter

__all__ = ["common_subexpressions"]

#: Ops whose results depend on their inputs and options only: no state, no random numbers.
_PURE = frozenset(
    "ABS ADD AND BATCH_MATMUL BROADCAST_ARGS BROADCAST_TO CAST CONCATENATION CONV_2D COS DEPTHWISE_CONV_2D DEQUANTIZE DIV"
    " EQUAL EXP EXPAND_DIMS FILL FLOOR FLOOR_DIV FLOOR_MOD FULLY_CONNECTED GATHER GATHER_ND GREATER GREATER_EQUAL LESS"
    " LESS_EQUAL LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC MAXIMUM MEAN MINIMUM MIRROR_PAD MUL NEG NOT_EQUAL PACK"
    " PAD PADV2 POW QUANTIZE RANGE REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD RELU RELU6 RESHAPE RSQRT"
    " SELECT_V2 SHAPE SIN SLICE SQRT SQUARE SQUEEZE STRIDED_SLICE SUB SUM TANH TILE TRANSPOSE".split()
)


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((2, 3))
    left, right = (graph.op("EXP", [graph.inputs[0]], (2, 3)) for _ in range(2))
    return graph.model(graph.op("MUL", [left, right], (2, 3)))


@graph_pass("common_subexpressions", "f(x), f(x) => one f(x)", _example, after=("identities",))
def common_subexpressions(graph: GraphRewriter, context: Context) -> int:
    """Common subexpression elimination: readers of a repeated operator read the result of the first equal operator.

    Applies under the conditions of this module. The repeated operator stays, without readers. Returns the number of
    repeated operators that had readers.
    """
    count = 0
    first: Dict[Any, fb.OperatorSpec] = {}
    for op in graph.operators:
        if op.builtin not in _PURE or any(graph.is_output(index) for index in op.outputs):
            continue
        results = [graph.tensor(index) for index in op.outputs]
        types = [(result.dtype, tuple(result.shape), repr(result.quantization)) for result in results]
        options = sorted((name, repr(value)) for name, value in op.options.items())
        key = (op.builtin, tuple(op.inputs), tuple(options), tuple(types))
        same = first.setdefault(key, op)
        if same is not op:
            count += any(graph.readers(index) for index in op.outputs)
            for old, new in zip(op.outputs, same.outputs):
                graph.replace_reads(old, new)
    return count
