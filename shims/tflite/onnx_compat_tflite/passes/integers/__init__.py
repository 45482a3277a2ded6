"""A quantized model's arithmetic, on integers.

A float operator between a DequantizeLinear and a QuantizeLinear whose scales are known becomes TFLite's kernel on int8 (or
int16) tensors with the same scales and zero points; uint8 is int8 with a zero point that is less by 128. The result is
within one step of the output's scale of what the floats give: kernels round halves away from zero where ONNX rounds
them to even. So a QuantizeLinear is TFLite's QUANTIZE only where such a kernel reads it, and a DequantizeLinear only where
a kernel's result goes back to floats; alone they stay what the emitter made of them, to the last digit.
"""

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.integers.operators import plan
from onnx_compat_tflite.passes.integers.region import Region

__all__ = ["use_integers"]


def use_integers(graph: fb.SubGraph) -> bool:
    """Every QuantizeLinear whose number can be computed on integers has it from there; whether there is one."""
    region, used = Region(graph), False
    if not region.dequantized:
        return False
    for index, one in region.quantized.items():
        found = plan(region, one.source, one.grid.signed) if region.alone(one.source) else None
        if found is not None:
            region.written(index, found)
            used = True
    region.finish()
    return used
