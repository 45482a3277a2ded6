"""Resize of pictures along straight lines as one kernel."""

from typing import Any, Sequence

from onnx_compat.shim import is_static, native
from onnx_compat_tensorflow.base import Base

__all__ = ["FastResize"]

_PLACES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")


def _bilinear(node: Any, inputs: Sequence[Any], attributes: Any) -> bool:
    """A plane of known size, made larger to just the size that the scales say."""
    x = inputs[0]
    if x.rank != 4 or x.dtype.name != "float32" or node.opset < 11 or attributes.get("mode") != "linear":
        return False
    if attributes.get("antialias") or attributes.get("axes") or attributes.get("exclude_outside"):
        return False
    place = attributes.get("coordinate_transformation_mode", "half_pixel")
    policy = attributes.get("keep_aspect_ratio_policy", "stretch")
    scales, sizes = (*inputs, None, None, None)[2:4]
    if place not in _PLACES or policy != "stretch" or not all(is_static(size) and size > 1 for size in x.shape[2:]):
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
    """The kernel has each pixel's place by the ratio of the sizes."""

    @native("Resize", _bilinear, spatial=True)
    def resize(self, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, **attributes: Any) -> Any:
        place = attributes.get("coordinate_transformation_mode", "half_pixel")
        after = self.node.outputs[0].spec.shape[1:-1]
        return self.raw.ResizeBilinear(
            images=x,
            size=self.vector(after, self.tf.int32),
            align_corners=place == "align_corners",
            half_pixel_centers=place.endswith("half_pixel"),
        )
