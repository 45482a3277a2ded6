"""RELU(CONV_2D(x))            =>  CONV_2D(x) with the fused activation RELU
RELU(RESHAPE(CONV_2D(x)))   =>  RESHAPE(CONV_2D(x) with the fused activation RELU)

Also RELU6 and RELU_N1_TO_1, the ops of `_FUSING` in place of CONV_2D, and the ops of `_MOVES` in place of RESHAPE. Also
TRANSPOSE_CONV, if the target runtime has its version 4.

Conditions: no other operator reads the intermediate tensors, and they are no outputs. Every element that the activation
reads comes from such an op without an activation. Results of the moves are float32.
"""

from typing import List, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter, is_unfused

__all__ = ["CLAMPS", "activation_fusion"]

#: Activations that TFLite kernels can apply to their results (fuse).
CLAMPS = ("RELU", "RELU6", "RELU_N1_TO_1")
_FUSING = (
    "ADD",
    "AVERAGE_POOL_2D",
    "CONV_2D",
    "CONV_3D",
    "DEPTHWISE_CONV_2D",
    "DIV",
    "FULLY_CONNECTED",
    "MAX_POOL_2D",
    "MUL",
    "SUB",
)
#: Ops that move elements and compute nothing: an activation before them gives the same result as after them.
_MOVES = (
    "CONCATENATION",
    "DEPTH_TO_SPACE",
    "EXPAND_DIMS",
    "RESHAPE",
    "SLICE",
    "SPACE_TO_DEPTH",
    "SQUEEZE",
    "STRIDED_SLICE",
    "TRANSPOSE",
)


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((2, 4))
    x = graph.op("FULLY_CONNECTED", [graph.inputs[0], graph.filters(6, 4), graph.constant(np.zeros(6))], (2, 6))
    return graph.model(graph.op("RELU", [graph.move("RESHAPE", x, [3, 4], (3, 4))], (3, 4)))


@graph_pass(
    "activation_fusion", "RELU(CONV_2D(x)) => CONV_2D(x) with a fused RELU; also RELU6, RELU_N1_TO_1", _example,
    after=("dead_code", "nested_concatenations", "fully_connected_reshapes"),
)  # fmt: skip
def activation_fusion(graph: GraphRewriter, context: Context) -> int:
    """Fuse each RELU, RELU6 and RELU_N1_TO_1 into the operators that compute its input; return the number of fusions.

    Applies under the conditions of this module. The activation is erased, and the operator before it writes its result.
    If that operator is a move, the operators before the move write new tensors.
    """
    count = 0
    fusing = (*_FUSING, "TRANSPOSE_CONV") if context.kernels.has("TRANSPOSE_CONV", 4) else _FUSING
    for activation in graph.operators:
        producers = _find_producers(graph, activation, [0], fusing) if activation.builtin in CLAMPS else None
        if producers is None:
            continue
        *inner, last = producers
        for op in inner:
            graph.write_new_tensor(op, "/bounded")
        for op in producers:
            if op.builtin in fusing:
                graph.set_options(op, fused_activation_function=activation.builtin)
        graph.take_outputs(last, activation)
        count += 1
    return count


def _find_producers(
    graph: GraphRewriter, reader: fb.OperatorSpec, positions: List[int], fusing: Tuple[str, ...]
) -> Optional[List[fb.OperatorSpec]]:
    """Return the operators that compute the inputs of `reader` at `positions`, in the order of execution.

    The search goes backwards from the inputs, through moves, to ops of `fusing`. Moves are the ops of `_MOVES` with
    float32 results. The list has the moves too. Its last operator writes the input at the last position. Returns None
    if an input of `reader` at `positions`, or a tensor before a move,

    - is computed by another op, or by an operator with a fused activation,
    - is an output, or is read more than once.
    """
    producers: List[fb.OperatorSpec] = []
    for position in positions:
        source = reader.inputs[position]
        op = graph.producer(source, *fusing, *_MOVES)
        if op is None or source is None or reader.inputs.count(source) > 1 or not graph.is_only_read_by(source, reader):
            return None
        if not is_unfused(op):
            return None
        if op.builtin in _MOVES:
            inner_positions = range(len(op.inputs)) if op.builtin == "CONCATENATION" else [0]
            is_float = graph.tensor(source).dtype == "float32"
            before = _find_producers(graph, op, list(inner_positions), fusing) if is_float else None
            if before is None:
                return None
            producers += before
        producers.append(op)
    return producers
