"""Geometry of windows (Conv, pooling) and of resized axes (Resize), for native operators.

The functions are imported from the meanings.
"""

from onnx_compat.ops.resize_scales import ResizedAxis, axes_from_scales, axes_from_sizes
from onnx_compat.ops.resize_weights import nearest_index, source_positions
from onnx_compat.ops.window_geometry import window_from_attributes

__all__ = [
    "ResizedAxis",
    "axes_from_scales",
    "axes_from_sizes",
    "nearest_index",
    "source_positions",
    "window_from_attributes",
]
