"""FULLY_CONNECTED(RESHAPE(x, [-1, n]), w)  =>  FULLY_CONNECTED(x, w)

The kernel reads an input of any rank as rows of n elements. Conditions: x has at least two axes, n is the second size of w, and
the option keep_num_dims is not set.
"""

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter

__all__ = ["fully_connected_reshapes"]


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((2, 3, 2))
    rows = graph.move("RESHAPE", graph.inputs[0], [2, 6], (2, 6))
    return graph.model(graph.op("FULLY_CONNECTED", [rows, graph.filters(4, 6), graph.constant(np.zeros(4))], (2, 4)))


@graph_pass(
    "fully_connected_reshapes", "FULLY_CONNECTED(RESHAPE(x, [-1, n])) => FULLY_CONNECTED(x)", _example,
    after=("affine_after_layer", "affine_before_layer"),
)  # fmt: skip
def fully_connected_reshapes(graph: GraphRewriter, context: Context) -> int:
    """Bypass a RESHAPE to rank 2 before a FULLY_CONNECTED: the FULLY_CONNECTED reads the input x of the RESHAPE.

    Conditions:

    - x has two or more axes.
    - The rows of the reshaped tensor have the length of the weights' rows.
    - The option keep_num_dims is not set.

    The RESHAPE is not erased. Returns the number of changed FULLY_CONNECTEDs.
    """
    count = 0
    for op in graph.operators:
        if op.builtin != "FULLY_CONNECTED" or op.options.get("keep_num_dims"):
            continue
        reshape = graph.producer(op.inputs[0], "RESHAPE")
        if reshape is None or op.inputs[1] is None or reshape.inputs[0] is None:
            continue
        rows, length = graph.sizes(reshape.outputs[0]), graph.sizes(op.inputs[1])[1]
        if len(rows) == 2 and rows[1] == length > 0 and len(graph.sizes(reshape.inputs[0])) > 1:
            graph.set_input(op, 0, reshape.inputs[0])
            count += 1
    return count
