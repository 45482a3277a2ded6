"""op whose results no operator reads  =>  nothing

Condition: no result is an output of the subgraph. A dead operator counts as a reader of its inputs, so passes that require a
single reader run after this pass.
"""

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter

__all__ = ["dead_code"]


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((2, 3))
    graph.op("NEG", [graph.inputs[0]], (2, 3))
    return graph.model(graph.op("ABS", [graph.inputs[0]], (2, 3)))


@graph_pass("dead_code", "op whose results are not read => nothing", _example)
def dead_code(graph: GraphRewriter, context: Context) -> int:
    """Dead code elimination: erase operators on which no output depends, then unused tensors.

    Returns the number of erased operators.
    """
    return graph.erase_dead_code()
