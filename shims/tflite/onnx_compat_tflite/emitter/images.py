"""Whole operators over images for which there is a kernel that means just the same: natives, which decline all else."""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Tensor, dtypes, exact_quotient, is_equal, is_static, lift, native
from onnx_compat.shim.geometry import Scaled, by_scales, by_sizes, nearest, origins
from onnx_compat_tflite.emitter.control import Control
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Images"]

_STAND_IN = 64  # a size in the place of one that is not known, where it grows by a power of two: all places are exact
_NEAR = 1e-5  # of a pixel, by which a place may be off without being another


class _Asked(NamedTuple):
    """What a Resize or an Upsample asks for, of both axes of an image."""

    linear: bool
    transformation: str
    rounding: str
    height: Scaled
    width: Scaled


class _Kernel(NamedTuple):
    builtin: str
    align_corners: bool = False
    half_pixel_centers: bool = False

    def places(self, before: int, after: int) -> np.ndarray:
        """Where on the old axis each pixel of the new one is looked for, in float32 as all runtimes compute it."""
        count = np.arange(after, dtype=np.float32)
        one = np.float32
        if self.align_corners and after > 1:
            return count * (one(before - 1) / one(after - 1))
        scale = one(before) / one(after)
        if not self.half_pixel_centers:
            return count * scale
        return (count + one(0.5)) * scale - one(0.0 if self.rounds else 0.5)

    @property
    def rounds(self) -> bool:
        return self.builtin == "RESIZE_NEAREST_NEIGHBOR"

    def serves(self, asked: _Asked, scaled: Scaled) -> bool:
        """Whether it takes the very pixels that ONNX means, or for straight lines the places between them."""
        before, after = _stand_in(scaled)
        exact = Scaled(before, after, scaled.factor)
        wanted = origins(asked.transformation, exact, None, None)
        found = self.places(before, after)
        if not self.rounds:
            off = np.clip(np.asarray(wanted.value), 0, before - 1) - np.clip(found, 0, before - 1)
            return bool(np.abs(off).max() <= _NEAR * before)
        rounded = np.floor(found + 0.5 if self.align_corners else found).clip(0, before - 1)
        return bool(np.array_equal(rounded, np.asarray(nearest(wanted, asked.rounding, exact).value)))


_KERNELS = [
    _Kernel(builtin, *flags)
    for builtin in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
    for flags in ((False, True), (True, False), (False, False))
]


def _stand_in(scaled: Scaled) -> Tuple[int, int]:
    if is_static(scaled.before) and is_static(scaled.after):
        return int(scaled.before), int(scaled.after)
    return _STAND_IN, int(_STAND_IN * (scaled.factor or 1))


def _scaled(before: Any, after: Any, factor: Optional[float]) -> Scaled:
    """An axis whose factor may be that of its sizes, which nobody gave."""
    if factor is None and not is_static(before):
        factor = exact_quotient(after, before)
    return Scaled(before, after, factor)


def _tells(scaled: Scaled) -> bool:
    """Whether it can be told now what becomes of the axis."""
    if is_static(scaled.before) and is_static(scaled.after):
        return bool(scaled.before > 0 and scaled.after > 0)
    return not is_static(scaled.before) and scaled.factor in (1, 2, 4, 8)


def _kernel(asked: Optional[_Asked]) -> Optional[_Kernel]:
    """The one that agrees on both axes."""
    if asked is None or not (_tells(asked.height) and _tells(asked.width)):
        return None
    for kernel in _KERNELS:
        if kernel.rounds != asked.linear and kernel.serves(asked, asked.height) and kernel.serves(asked, asked.width):
            return kernel
    return None


def _manner(operator: str, opset: int, attributes: Any) -> Tuple[bool, str, str]:
    """Whether along straight lines, how places are found, and how they are rounded."""
    linear = attributes.get("mode", "nearest") in ("linear", "bilinear")
    if operator == "Upsample":
        return linear, "asymmetric", "floor"
    if opset < 11:
        return linear, "asymmetric", "simple"
    transformation = attributes.get("coordinate_transformation_mode", "half_pixel")
    return linear, transformation, attributes.get("nearest_mode", "round_prefer_floor")


def _asked(node: Any, inputs: Sequence[Optional[Tensor]], attributes: Any) -> Optional[_Asked]:
    """None for what is not about an image, or not about its two axes alone."""
    x, given = inputs[0], [*inputs[1:], None, None, None]
    linear, transformation, rounding = _manner(node.operator, node.opset, attributes)
    taken = ("float32",) if linear else ("float32", "int8", "uint8", "int16")
    if x is None or x.rank != 4 or x.dtype.name not in taken or attributes.get("mode", "nearest") == "cubic":
        return None
    if any(attributes.get(name) for name in ("antialias", "exclude_outside", "axes")):
        return None
    if "scales" in attributes:
        axes = by_scales(x.shape, lift(list(attributes["scales"]), dtypes.float32))
    else:
        scales, sizes = given[1:3] if node.operator == "Resize" and node.opset > 10 else (given[0], None)
        if scales is not None and scales.known and scales.size == 4:
            axes = by_scales(x.shape, scales)
        elif sizes is not None and sizes.value is not None and sizes.value.size == 4:
            axes = by_sizes(x.shape, sizes, "stretch")
        else:
            return None
    fixed = all(is_equal(one.before, one.after) and one.factor in (None, 1) for one in axes[:2])
    if transformation == "tf_crop_and_resize" or attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    return _Asked(linear, transformation, rounding, axes[2], axes[3]) if fixed else None


def _resizes(node: Any, inputs: Sequence[Any], attributes: Any) -> bool:
    return _kernel(_asked(node, inputs, attributes)) is not None


def _centred(_: Any, inputs: Sequence[Any], attributes: Any) -> bool:
    """As many channels on either side."""
    return bool(inputs[0].rank == 4 and inputs[0].dtype.name == "float32" and attributes["size"] % 2)


class Images(Control):
    """Images come channels last."""

    @native("Resize", _resizes, spatial=True)
    def resize_image(self, x: Handle, *given: Optional[Handle], **attributes: Any) -> Handle:
        numbers = [one.array for one in given if one is not None and one.is_constant and one.dtype == "float32"]
        scales = next((array for array in numbers if array.size == 4), None)  # not the roi: 8 numbers, or none
        factors = [None] * 4 if scales is None else scales.reshape(-1).tolist()
        return self._add_resize(x, factors, attributes)

    @native("Upsample", _resizes, spatial=True)
    def upsample_image(self, x: Handle, *given: Handle, **attributes: Any) -> Handle:
        factors = attributes["scales"] if "scales" in attributes else given[0].array.reshape(-1).tolist()
        return self._add_resize(x, factors, attributes)

    def _add_resize(self, x: Handle, factors: Sequence[Any], attributes: Any) -> Handle:
        before, after, origin = x.dims[1:3], self.out.shape[1:3], self.node.origin
        height, width = (_scaled(*axis) for axis in zip(before, after, factors[2:]))
        assert origin is not None
        kernel = _kernel(_Asked(*_manner(origin.operator, origin.opset, attributes), height, width))
        assert kernel is not None
        if all(map(is_static, after)):
            size = self.ints(*after)
        else:
            times = [0 if is_static(axis.after) else int(axis.factor or 1) for axis in (height, width)]
            more: List[Any] = [axis.after if is_static(axis.after) else 0 for axis in (height, width)]
            size = self.mul(self.slice_axis(self.shape_tensor(x), 0, 1, 3), self.ints(*times))
            size = self.add(size, self.ints(*more)) if any(more) else size
        dims = (x.dims[0], *after, x.dims[3])
        flags = {"align_corners": kernel.align_corners, "half_pixel_centers": kernel.half_pixel_centers}
        return self.add_op(kernel.builtin, [x, size], x.dtype, dims, **flags)

    @native("LRN", _centred, spatial=True)
    def normalize_channels(
        self, x: Handle, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
    ) -> Handle:
        how = {"radius": size // 2, "bias": bias, "alpha": alpha / size, "beta": beta}
        return self.add_op("LOCAL_RESPONSE_NORMALIZATION", [x], x.dtype, x.dims, **how)
