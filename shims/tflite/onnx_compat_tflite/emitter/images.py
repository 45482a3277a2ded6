"""Native operators on images (Resize, Upsample, LRN), for the cases that a kernel computes exactly as ONNX does."""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Extent, GraphNode, Tensor, dtypes, exact_quotient, is_equal, is_static, lift
from onnx_compat.shim.geometry import ResizedAxis, axes_from_scales, axes_from_sizes, nearest_index, source_positions
from onnx_compat_tflite.emitter import elementwise, slicing
from onnx_compat_tflite.emitter.builder import Attributes, Builder
from onnx_compat_tflite.emitter.registry import native
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["normalize_channels", "resize_image", "upsample_image"]

_TRIAL_SIZE = 64  # stands for an unknown size that grows by a power of two: all coordinates are then exact
_TOLERANCE = 1e-5  # the difference of coordinates, relative to the size of the axis, below which they agree


class _Resize(NamedTuple):
    """A Resize or an Upsample of the two axes of an image.

    - linear: whether it interpolates; False: it takes the nearest pixel.
    - transformation: a coordinate_transformation_mode of ONNX.
    - rounding: one of `nearest_index`, not read if `linear`.
    """

    linear: bool
    transformation: str
    rounding: str
    height: ResizedAxis
    width: ResizedAxis


class _Kernel(NamedTuple):
    """A kernel that resizes images, with its options."""

    builtin: str
    align_corners: bool = False
    half_pixel_centers: bool = False

    def coordinates(self, before: int, after: int) -> np.ndarray:
        """Return the coordinate on the old axis, of `before` pixels, for each of `after` new pixels. It is not clipped.

        A nearest kernel rounds the coordinate to a pixel: to the nearest with `align_corners`, down otherwise. The
        dtype is float32, in which all runtimes compute the coordinate.
        """
        count = np.arange(after, dtype=np.float32)
        float32 = np.float32
        if self.align_corners and after > 1:
            return count * (float32(before - 1) / float32(after - 1))
        scale = float32(before) / float32(after)
        if not self.half_pixel_centers:
            return count * scale
        return (count + float32(0.5)) * scale - float32(0.0 if self.is_nearest else 0.5)

    @property
    def is_nearest(self) -> bool:
        """Whether the kernel takes the nearest pixel, and does not interpolate."""
        return self.builtin == "RESIZE_NEAREST_NEIGHBOR"

    def agrees(self, resize: _Resize, scaled: ResizedAxis) -> bool:
        """Whether the kernel gives the results of ONNX along an axis. `_is_decidable` must hold for the axis.

        - A nearest kernel must take the same pixels as ONNX.
        - An interpolating kernel must use the same coordinates as ONNX, after clipping to the axis. They may differ by
          `_TOLERANCE` times the old size.

        The kernel is compared with ONNX for the sizes of `_trial_sizes`. Raises InvalidModelError for an unknown
        transformation or rounding.
        """
        before, after = _trial_sizes(scaled)
        exact = ResizedAxis(before, after, scaled.factor)
        expected = source_positions(resize.transformation, exact, None, None)
        actual = self.coordinates(before, after)
        if not self.is_nearest:
            difference = np.clip(np.asarray(expected.value), 0, before - 1) - np.clip(actual, 0, before - 1)
            return bool(np.abs(difference).max() <= _TOLERANCE * before)
        rounded = np.floor(actual + 0.5 if self.align_corners else actual).clip(0, before - 1)
        return bool(np.array_equal(rounded, np.asarray(nearest_index(expected, resize.rounding, exact).value)))


_KERNELS = [
    _Kernel(builtin, *flags)
    for builtin in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
    for flags in ((False, True), (True, False), (False, False))
]


def _trial_sizes(scaled: ResizedAxis) -> Tuple[int, int]:
    """Return the sizes (before, after) for which a kernel is compared with ONNX.

    They are the sizes of the axis, if both are known. Otherwise they are `_TRIAL_SIZE` and `_TRIAL_SIZE` times the
    factor.
    """
    if is_static(scaled.before) and is_static(scaled.after):
        return int(scaled.before), int(scaled.after)
    return _TRIAL_SIZE, int(_TRIAL_SIZE * (scaled.number or 1))


def _scaled_axis(before: Extent, after: Extent, factor: Optional[float]) -> ResizedAxis:
    """Return the `ResizedAxis` with the size `before`, the size `after`, and the factor, which may be None.

    For a symbolic `before`, a factor of None is replaced by after / before: 2 for 2n / n. The factor stays None if this
    quotient is not always the same positive integer.
    """
    if factor is None and not is_static(before):
        factor = exact_quotient(after, before)
    return ResizedAxis(before, after, factor)


def _is_decidable(scaled: ResizedAxis) -> bool:
    """Whether kernels can be compared with ONNX on this axis.

    They can if both sizes are known and positive. They can also if the size `before` is symbolic, and the factor is 1,
    2, 4 or 8.
    """
    if is_static(scaled.before) and is_static(scaled.after):
        return bool(scaled.before > 0 and scaled.after > 0)
    return not is_static(scaled.before) and scaled.factor in (1, 2, 4, 8)


def _matching_kernel(resize: Optional[_Resize]) -> Optional[_Kernel]:
    """Return the first of `_KERNELS` that gives the results of ONNX on both axes of the resize: see `_Kernel.agrees`.

    Returns None in these cases:

    - No kernel agrees.
    - `resize` is None.
    - An axis cannot be compared (see `_is_decidable`).
    """
    if resize is None or not (_is_decidable(resize.height) and _is_decidable(resize.width)):
        return None
    for kernel in _KERNELS:
        if kernel.is_nearest == resize.linear:
            continue
        if kernel.agrees(resize, resize.height) and kernel.agrees(resize, resize.width):
            return kernel
    return None


def _resize_modes(operator: str, opset: int, attributes: Attributes) -> Tuple[bool, str, str]:
    """Return the first three fields of `_Resize`: (linear, transformation, rounding).

    - Resize from opset 11 on: the transformation and the rounding are attributes, by default those of ONNX.
    - Resize before opset 11: the transformation is "asymmetric" and the rounding "simple".
    - Upsample: the transformation is "asymmetric" and the rounding "floor".

    `linear` tells whether the resize interpolates: True if the attribute mode is linear or bilinear, else False.
    """
    linear = attributes.get("mode", "nearest") in ("linear", "bilinear")
    if operator == "Upsample":
        return linear, "asymmetric", "floor"
    if opset < 11:
        return linear, "asymmetric", "simple"
    transformation = attributes.get("coordinate_transformation_mode", "half_pixel")
    return linear, transformation, attributes.get("nearest_mode", "round_prefer_floor")


def _requested_resize(node: GraphNode, inputs: Sequence[Optional[Tensor]], attributes: Attributes) -> Optional[_Resize]:
    """Return the resize that a Resize or Upsample node requests. Returns None if the kernels cannot express it.

    The kernels can express a node that fulfils all of these conditions:

    - x has rank 4, and the kernels have its dtype and the mode.
    - There are four known scales, or four sizes, each known or symbolic. Batch and channels do not change.
    - The node uses none of antialias, exclude_outside, axes and tf_crop_and_resize.
    - The keep_aspect_ratio_policy is stretch.

    Raises InvalidModelError for invalid scales or sizes, such as a negative size. Raises NeedsKnownError if a symbolic
    size has a scale that is no simple fraction.
    """
    x, optional_inputs = inputs[0], [*inputs[1:], None, None, None]
    linear, transformation, rounding = _resize_modes(node.operator, node.opset, attributes)
    dtypes_of_kernel = ("float32",) if linear else ("float32", "int8", "uint8", "int16")
    if x is None or x.rank != 4 or x.dtype.name not in dtypes_of_kernel or attributes.get("mode", "nearest") == "cubic":
        return None
    if any(attributes.get(name) for name in ("antialias", "exclude_outside", "axes")):
        return None
    if "scales" in attributes:
        axes = axes_from_scales(x.shape, lift(list(attributes["scales"]), dtypes.float32))
    else:
        scales, sizes = (
            optional_inputs[1:3] if node.operator == "Resize" and node.opset > 10 else (optional_inputs[0], None)
        )
        if scales is not None and scales.known and scales.size == 4:
            axes = axes_from_scales(x.shape, scales)
        elif sizes is not None and sizes.value is not None and sizes.value.size == 4:
            axes = axes_from_sizes(x.shape, sizes, "stretch")
        else:
            return None
    fixed = all(is_equal(axis.before, axis.after) and axis.factor in (None, 1) for axis in axes[:2])
    if transformation == "tf_crop_and_resize" or attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    return _Resize(linear, transformation, rounding, axes[2], axes[3]) if fixed else None


def _accepts_resize(node: GraphNode, inputs: Sequence[Any], attributes: Attributes) -> bool:
    """Whether a kernel gives the results of ONNX for this Resize or Upsample node.

    Errors of `_requested_resize` and `_matching_kernel` propagate.
    """
    return _matching_kernel(_requested_resize(node, inputs, attributes)) is not None


def _accepts_lrn(_: GraphNode, inputs: Sequence[Any], attributes: Attributes) -> bool:
    """Whether the kernel computes this LRN: float32 of rank 4, and a window of an odd number of channels."""
    return bool(inputs[0].rank == 4 and inputs[0].dtype.name == "float32" and attributes["size"] % 2)


@native("Resize", _accepts_resize, spatial=True)
def resize_image(builder: Builder, x: Handle, *inputs: Optional[Handle], **attributes: Any) -> Handle:
    """Emit Resize of a channels-last x by the kernel that computes the same positions as ONNX.

    `inputs` are the inputs after x: roi, scales and sizes from opset 11 on, before that the scales. An omitted input
    may be None. `_accepts_resize` must hold for the node.
    """
    arrays = [x.array for x in inputs if x is not None and x.is_constant and x.dtype == "float32"]
    scales = next((array for array in arrays if array.size == 4), None)  # the roi has 8 elements, or none
    factors = [None] * 4 if scales is None else scales.reshape(-1).tolist()
    return _add_resize(builder, x, factors, attributes)


@native("Upsample", _accepts_resize, spatial=True)
def upsample_image(builder: Builder, x: Handle, *inputs: Handle, **attributes: Any) -> Handle:
    """Emit Upsample of a channels-last x by the kernel that computes the same positions as ONNX.

    `_accepts_resize` must hold for the node. The scales are an attribute, or a constant, the only element of `inputs`.
    """
    factors = attributes["scales"] if "scales" in attributes else inputs[0].array.reshape(-1).tolist()
    return _add_resize(builder, x, factors, attributes)


def _add_resize(builder: Builder, x: Handle, factors: Sequence[Any], attributes: Attributes) -> Handle:
    """Append the resize op that computes the same positions as ONNX, and return its result.

    x is channels last, and `_accepts_resize` must hold for the node. `factors` has the scale of each of the axes N, C,
    H, W, or None for an unknown scale. If a size of the result is unknown while tracing, it is computed at run time as
    a multiple of the input's size.
    """
    before, after, origin = x.dims[1:3], builder.out.shape[1:3], builder.node.origin
    height, width = (_scaled_axis(*axis) for axis in zip(before, after, factors[2:]))
    assert origin is not None
    kernel = _matching_kernel(_Resize(*_resize_modes(origin.operator, origin.opset, attributes), height, width))
    assert kernel is not None
    if all(map(is_static, after)):
        size = builder.ints(*after)
    else:
        multipliers = [0 if is_static(axis.after) else int(axis.number or 1) for axis in (height, width)]
        fixed_sizes: List[Any] = [axis.after if is_static(axis.after) else 0 for axis in (height, width)]
        size = elementwise.mul(
            builder, slicing.slice_axis(builder, builder.shape_tensor(x), 0, 1, 3), builder.ints(*multipliers)
        )
        size = elementwise.add(builder, size, builder.ints(*fixed_sizes)) if any(fixed_sizes) else size
    dims = (x.dims[0], *after, x.dims[3])
    flags = {"align_corners": kernel.align_corners, "half_pixel_centers": kernel.half_pixel_centers}
    return builder.add_op(kernel.builtin, [x, size], x.dtype, dims, **flags)


@native("LRN", _accepts_lrn, spatial=True)
def normalize_channels(
    builder: Builder, x: Handle, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Handle:
    """Emit LRN of a channels-last x, by LOCAL_RESPONSE_NORMALIZATION with the radius size // 2 and alpha / size.

    `size` is the odd number of channels in the window.
    """
    options = {"radius": size // 2, "bias": bias, "alpha": alpha / size, "beta": beta}
    return builder.add_op("LOCAL_RESPONSE_NORMALIZATION", [x], x.dtype, x.dims, **options)
