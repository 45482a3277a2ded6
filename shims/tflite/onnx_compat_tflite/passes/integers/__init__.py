"""QUANTIZE(CONV_2D(DEQUANTIZE(x), DEQUANTIZE(w)))  =>  CONV_2D(x, w) on int8 or int16 tensors

A float operator between a DequantizeLinear and a QuantizeLinear becomes the integer kernel of the same op, with the same scales
and zero points. uint8 becomes int8 with a zero point that is less by 128. Conditions: the scale and the zero point are
constants and per tensor, and TFLite has an integer kernel for the op and these parameters.

The result differs from the float result by at most one scale of the output: kernels round halves away from zero, ONNX rounds
halves to even. So a QuantizeLinear becomes QUANTIZE only if an integer kernel reads its result. A DequantizeLinear becomes
DEQUANTIZE only if an integer kernel computes its input. All others stay as emitted, which is exact.
"""

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.integers.operators import find_kernel
from onnx_compat_tflite.passes.integers.region import QuantizedRegion
from onnx_compat_tflite.passes.rewriter import GraphRewriter
from onnx_compat_tflite.quantize.schemes import KEY, MODELS_OWN

__all__ = ["integer_kernels"]


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((2, 3), dtype="uint8")
    as_float = {"in_data_type": "uint8", "out_data_type": "float32"}
    x = graph.op("CAST", [graph.inputs[0]], (2, 3), **as_float)
    x = graph.op("MUL", [x, graph.constant(0.5)], (2, 3))
    x = graph.op("ADD", [x, graph.constant(np.asarray([1, 2, 3]) / 2)], (2, 3))
    x = graph.op("ROUND", [graph.op("DIV", [x, graph.constant(0.5)], (2, 3))], (2, 3))
    x = graph.op("MINIMUM", [graph.op("MAXIMUM", [x, graph.constant(0)], (2, 3)), graph.constant(255)], (2, 3))
    return graph.model(graph.op("CAST", [x], (2, 3), "uint8", in_data_type="float32", out_data_type="uint8"))


@graph_pass(
    "integer_kernels", "QUANTIZE(CONV_2D(DEQUANTIZE(x))) => CONV_2D(x) on int8 or int16; also other kernels", _example,
    after=("redundant_reshapes", "hard_activations", "same_padding"),
)  # fmt: skip
def integer_kernels(graph: GraphRewriter, context: Context) -> int:
    """Replace float operators before QuantizeLinears by integer kernels; return the number of replaced QuantizeLinears.

    A QuantizeLinear is not replaced if its float input is an output, has several readers, or is computed by no integer
    kernel (see `find_kernel`). Returns 0, without a change, if the subgraph has no DequantizeLinear.

    Side effect if the number is not 0: the file's metadata gets the scheme of a model that is quantised in ONNX.
    """
    region, count = QuantizedRegion(graph), 0
    if not region.dequantized:
        return 0
    for index, quantized in region.quantized.items():
        is_unshared = region.has_single_reader(quantized.source)
        write = find_kernel(region, quantized.source, quantized.parameters.signed) if is_unshared else None
        if write is not None:
            region.write_quantized(index, write)
            count += 1
    region.finish()
    if count:
        context.set_metadata(KEY, MODELS_OWN.kind.encode())
    return count
