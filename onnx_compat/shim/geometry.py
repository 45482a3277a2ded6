"""Geometry of windows and of resized axes, from the meanings of Conv, pooling and Resize, for native operators."""

from onnx_compat.ops.resize_scales import ResizedAxis, axes_from_scales, axes_from_sizes
from onnx_compat.ops.resize_weights import nearest_index, source_positions
from onnx_compat.ops.window_geometry import WindowGeometry, reach

__all__ = [
    "ResizedAxis",
    "WindowGeometry",
    "axes_from_scales",
    "axes_from_sizes",
    "nearest_index",
    "reach",
    "source_positions",
]
