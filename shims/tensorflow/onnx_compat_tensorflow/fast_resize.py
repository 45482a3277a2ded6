"""Native bilinear Resize of images by the kernel ResizeBilinear."""

from typing import Any, Optional, Sequence

from onnx_compat.shim import GraphNode, is_static, native
from onnx_compat_tensorflow.base import Base
from onnx_compat_tensorflow.framework_types import Attributes, TfTensor

__all__ = ["FastResize"]

_TRANSFORMATIONS = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")


def _is_bilinear_enlargement(node: GraphNode, inputs: Sequence[Any], attributes: Attributes) -> bool:
    """Whether ResizeBilinear can compute a Resize. All of these conditions must hold:

    - The opset is 11 or later, and the mode is linear.
    - The image is float32 and has rank 4.
    - Batch size and channels do not change.
    - Height and width are static and over 1, and do not shrink.
    - The new height and width are known integers, from known scales or static sizes.
    - The coordinate mode is in `_TRANSFORMATIONS`.
    - The node does not use antialias, axes or exclude_outside.
    - The keep_aspect_ratio_policy is absent or "stretch".
    """
    x = inputs[0]
    if x.rank != 4 or x.dtype.name != "float32" or node.opset < 11 or attributes.get("mode") != "linear":
        return False
    if attributes.get("antialias") or attributes.get("axes") or attributes.get("exclude_outside"):
        return False
    transformation = attributes.get("coordinate_transformation_mode", "half_pixel")
    policy = attributes.get("keep_aspect_ratio_policy", "stretch")
    scales, sizes = (*inputs, None, None, None)[2:4]
    if (
        transformation not in _TRANSFORMATIONS
        or policy != "stretch"
        or not all(is_static(size) and size > 1 for size in x.shape[2:])
    ):
        return False
    if scales is not None and scales.known and scales.value.size == 4:
        after = [float(factor) * int(size) for factor, size in zip(scales.value.reshape(-1)[2:], x.shape[2:])]
        unscaled = all(float(factor) == 1 for factor in scales.value.reshape(-1)[:2])
    elif sizes is not None and sizes.value is not None and sizes.value.size == 4:
        after = [size if is_static(size) else 0 for size in sizes.value.reshape(-1)[2:]]
        unscaled = all(given is size or given == size for given, size in zip(sizes.value.reshape(-1)[:2], x.shape[:2]))
    else:
        return False
    return unscaled and all(size == int(size) and size >= before for size, before in zip(after, x.shape[2:]))


class FastResize(Base):
    """Native Resize. The kernel computes positions from the ratio of the sizes, not from the scales of the model."""

    @native("Resize", _is_bilinear_enlargement, spatial=True)
    def resize(
        self,
        x: TfTensor,
        roi: Optional[TfTensor] = None,
        scales: Optional[TfTensor] = None,
        sizes: Optional[TfTensor] = None,
        **attributes: Any,
    ) -> TfTensor:
        transformation = attributes.get("coordinate_transformation_mode", "half_pixel")
        after = self.node.outputs[0].spec.shape[1:-1]
        return self.raw.ResizeBilinear(
            images=x,
            size=self.vector(after, self.tf.int32),
            align_corners=transformation == "align_corners",
            half_pixel_centers=transformation.endswith("half_pixel"),
        )
