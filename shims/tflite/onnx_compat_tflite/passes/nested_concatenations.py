"""CONCATENATION(CONCATENATION(a, b), c)  =>  CONCATENATION(a, b, c)

Conditions: both have the same axis, no other operator reads the inner result, and a, b and the inner result have the same
quantization. The new CONCATENATION has at most four inputs: some releases of XNNPACK accept no more.
"""

from typing import List, Optional

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter

__all__ = ["nested_concatenations"]

_MAX_PARTS = 4


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((1, 2), (1, 3), (1, 4))
    inner = graph.op("CONCATENATION", graph.inputs[:2], (1, 5), axis=1)
    return graph.model(graph.op("CONCATENATION", [inner, graph.inputs[2]], (1, 9), axis=1))


@graph_pass(
    "nested_concatenations", "CONCATENATION(CONCATENATION(a, b), c) => CONCATENATION(a, b, c)", _example,
    after=("dead_code",),
)  # fmt: skip
def nested_concatenations(graph: GraphRewriter, context: Context) -> int:
    """Merge a CONCATENATION into the CONCATENATION that reads its result.

    The merged operator must have at most four inputs. `_inner_concatenation` has the other conditions. The inner
    CONCATENATION stays, without readers. Returns the number of merges.
    """
    count = 0
    for op in graph.operators:
        if op.builtin != "CONCATENATION":
            continue
        for index in op.inputs:
            inner = _inner_concatenation(graph, op, index)
            if inner is not None and len(op.inputs) + len(inner.inputs) - 1 <= _MAX_PARTS:
                position = list(op.inputs).index(index)
                inputs: List[Optional[int]] = list(op.inputs)
                inputs[position : position + 1] = inner.inputs
                graph.set_inputs(op, inputs)
                count += 1
    return count


def _inner_concatenation(
    graph: GraphRewriter, outer: fb.OperatorSpec, index: Optional[int]
) -> Optional[fb.OperatorSpec]:
    """Return the CONCATENATION that computes the input `index` of `outer`, if it can be merged into `outer`.

    `index` is the tensor index of the input. Returns None if

    - no CONCATENATION computes the input,
    - the input has readers other than `outer`, or is an output,
    - the axes of the two CONCATENATIONs differ,
    - an input and the result of the inner CONCATENATION have different quantizations.

    The number of inputs after the merge is not checked here.
    """
    inner = graph.producer(index, "CONCATENATION")
    if inner is None or index is None or not graph.is_only_read_by(index, outer):
        return None
    quantization = graph.tensor(index).quantization
    is_alike = all(graph.tensor(part or 0).quantization == quantization for part in inner.inputs)
    axes = {op.options.get("axis", 0) % len(graph.sizes(index)) for op in (inner, outer)}
    return inner if is_alike and len(axes) == 1 else None
