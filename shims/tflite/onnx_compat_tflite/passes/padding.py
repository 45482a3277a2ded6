"""CONV_2D(PAD(x), VALID)  =>  CONV_2D(x, SAME)        PAD(TRANSPOSE(x))  =>  TRANSPOSE(PAD(x))

First rewrite (same_padding): the PAD adds the zeros that the padding SAME of the convolution adds; for open sizes, at
every size. Its amounts are constant. Also DEPTHWISE_CONV_2D.

Second rewrite (pad_before_transpose): x is float32, its last axis is open or longer than that of the TRANSPOSE, and no
other operator reads the TRANSPOSE. The permutation and the amounts are constant. PAD copies row by row, so long rows
are faster: the rows of an NCHW image have its width, those of an NHWC image three elements.
"""

from typing import Any, Optional, Sequence

import numpy as np

from onnx_compat.shim import Window
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.emitter.window_padding import conv_padding_of
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter

__all__ = ["pad_before_transpose", "same_padding"]


def _same_example() -> fb.ModelSpec:
    graph = ExampleGraph((1, 4, 4, 2))
    ends = graph.constant([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)
    padded = graph.op("PAD", [graph.inputs[0], ends], (1, 6, 6, 2))
    return graph.model(graph.conv(padded, graph.filters(3, 3, 3, 2), (1, 4, 4, 3)))


@graph_pass(
    "same_padding", "CONV_2D(PAD(x), VALID) => CONV_2D(x, SAME); also DEPTHWISE_CONV_2D", _same_example,
    before=("integer_kernels",),
)  # fmt: skip
def same_padding(graph: GraphRewriter, context: Context) -> int:
    """Fold a PAD into the CONV_2D or DEPTHWISE_CONV_2D that reads it, as padding SAME, if SAME adds the same zeros.

    The convolution must have the padding VALID, and the PAD constant amounts. The convolution then reads the input of
    the PAD. The PAD itself is not erased. Returns the number of changed convolutions.
    """
    count = 0
    for op in graph.operators:
        if op.builtin in ("CONV_2D", "DEPTHWISE_CONV_2D") and op.options.get("padding") == "VALID":
            pad = graph.producer(op.inputs[0], "PAD")
            if pad is not None and pad.inputs[0] is not None and _is_same(graph, pad, op):
                graph.set_input(op, 0, pad.inputs[0])
                graph.set_options(op, padding="SAME")
                count += 1
    return count


def _is_same(graph: GraphRewriter, pad: fb.OperatorSpec, conv: fb.OperatorSpec) -> bool:
    ends: Optional[Any] = graph.constant(pad.inputs[1])
    if ends is None or np.any(ends[0]) or np.any(ends[3]):
        return False
    space: Sequence[Any] = [size if size >= 0 else None for size in graph.sizes(pad.inputs[0] or 0)[1:3]]
    window = Window.of(
        graph.sizes(conv.inputs[1] or 0)[1:3],
        [conv.options["stride_h"], conv.options["stride_w"]],
        [conv.options.get("dilation_h_factor", 1), conv.options.get("dilation_w_factor", 1)],
        [(int(low), int(high)) for low, high in ends[1:3]],
    )
    return conv_padding_of(space, window) == "SAME"


def _transpose_example() -> fb.ModelSpec:
    graph = ExampleGraph((1, 3, 5, 8))
    image = graph.move("TRANSPOSE", graph.inputs[0], [0, 2, 3, 1], (1, 5, 8, 3))
    ends = graph.constant([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)
    return graph.model(graph.op("PAD", [image, ends], (1, 7, 10, 3)))


@graph_pass(
    "pad_before_transpose", "PAD(TRANSPOSE(x)) => TRANSPOSE(PAD(x)), where the rows of x are longer", _transpose_example,
    after=("same_padding",),
)  # fmt: skip
def pad_before_transpose(graph: GraphRewriter, context: Context) -> int:
    """Swap a TRANSPOSE and the PAD that reads its result, if the TRANSPOSE makes the last axis shorter.

    PAD is faster on a long last axis. An open last axis before the TRANSPOSE counts as longer. Conditions: the tensor
    is float32, the permutation and the amounts are constant, and only the PAD reads the TRANSPOSE. Returns the number
    of swaps.
    """
    count = 0
    for pad in graph.operators:
        transpose = graph.producer(pad.inputs[0], "TRANSPOSE") if pad.builtin == "PAD" else None
        if transpose is None or not graph.is_only_read_by(transpose.outputs[0], pad):
            continue
        order, ends = graph.constant(transpose.inputs[1]), graph.constant(pad.inputs[1])
        source = transpose.inputs[0] or 0
        if order is None or ends is None or graph.tensor(source).dtype != "float32":
            continue
        row, other_row = graph.sizes(source)[-1], graph.sizes(pad.inputs[0] or 0)[-1]
        if other_row > 0 and (row < 0 or row > other_row):
            _swap(graph, transpose, pad, np.asarray(order), np.asarray(ends))
            count += 1
    return count


def _swap(
    graph: GraphRewriter, transpose: fb.OperatorSpec, pad: fb.OperatorSpec, order: np.ndarray, ends: np.ndarray
) -> None:
    """Swap a TRANSPOSE and the PAD that reads its result: `transpose` becomes a PAD, and `pad` a TRANSPOSE.

    `order`: the permutation of the TRANSPOSE. `ends`: the (before, after) amounts of the PAD for each axis of its old
    input. The new PAD gets them in the order of its own axes.
    """
    back = np.argsort(order)
    name, sizes = graph.tensor(pad.outputs[0]).name, graph.sizes(pad.outputs[0])
    swapped_ends = graph.add_constant(name + "/ends", ends[back])
    padded = graph.add_tensor(name + "/rows", "float32", [sizes[axis] for axis in back])
    source, permutation = transpose.inputs
    transpose_options, pad_options = dict(transpose.options), dict(pad.options)
    graph.replace_op(transpose, "PAD", [source, swapped_ends], **pad_options)
    graph.set_outputs(transpose, [padded])
    graph.replace_op(pad, "TRANSPOSE", [padded, permutation], **transpose_options)
