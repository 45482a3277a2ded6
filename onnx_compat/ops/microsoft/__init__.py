"""What onnxruntime's own operators mean (the domain com.microsoft): those that its optimiser and its quantizer write."""

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
)

__all__ = [name for name in dir() if not name.startswith("_")]
