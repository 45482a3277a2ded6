"""op whose results are not read  =>  nothing

A tensor that a dead operator reads has one reader too many: passes that ask for a single reader run after this pass.
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
    """Erase dead operators, and tensors that no operator names."""
    return graph.erase_dead_code()
