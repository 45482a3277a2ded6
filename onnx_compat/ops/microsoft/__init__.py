"""Operators of onnxruntime (the domain com.microsoft), which its optimizer and its quantizer write.

The import of this package registers their meanings.
"""

from onnx_compat.ops.microsoft import (
    activations,
    arrays,
    attention,
    blockwise,
    fused,
    group_query_attention,
    normalization,
    quantized,
    quantized_linear,
    rotary,
)

__all__ = [name for name in dir() if not name.startswith("_")]
