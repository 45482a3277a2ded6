"""Geometry of windows and of resized axes, from the meanings of Conv, pooling and Resize, for native operators."""

from onnx_compat.ops.resize_scales import Scaled, by_scales, by_sizes
from onnx_compat.ops.resize_weights import nearest, origins
from onnx_compat.ops.window_geometry import WindowGeometry, reach

__all__ = ["Scaled", "WindowGeometry", "by_scales", "by_sizes", "nearest", "origins", "reach"]
