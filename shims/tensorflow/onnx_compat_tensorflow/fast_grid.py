"""Native linear GridSample by TensorFlow Probability, if it is faster here than the composed meaning."""

from typing import Any, Sequence

from onnx_compat.shim import is_static, native
from onnx_compat_tensorflow.base import Base
from onnx_compat_tensorflow.framework_types import Attributes, Size, TfTensor
from onnx_compat_tensorflow.probability import interpolation, is_installed

__all__ = ["FastGrid"]

_CHANNELS = 3  # for fewer channels, computing the positions takes longer than the composed meaning saves


def _can_use_probability(_: object, inputs: Sequence[Any], attributes: Attributes) -> bool:
    """Whether a GridSample runs natively. All of these conditions must hold:

    - The mode is linear, and the padding is "zeros". For other paddings, the composed meaning needs no mask, and is as
      fast.
    - The number of channels is static, and at least three.
    - The image and the grid are both float32 or both float64.
    - `interpolation().function` is not None. It is checked last, because the first check imports TensorFlow
      Probability.
    """
    x, grid = inputs
    mode, padding = attributes.get("mode", "linear"), attributes.get("padding_mode", "zeros")
    if mode not in ("linear", "bilinear") or padding != "zeros":
        return False
    if x.dtype.name not in ("float32", "float64") or grid.dtype != x.dtype:
        return False
    return is_static(x.shape[1]) and x.shape[1] >= _CHANNELS and interpolation().function is not None


class FastGrid(Base):
    """Native GridSample for zero padding. The image gets a border of two zeros; outer positions are clamped to it."""

    @native("GridSample", _can_use_probability, spatial=True, available=lambda _: is_installed())
    def grid_sample(self, X: TfTensor, grid: TfTensor, **attributes: Any) -> TfTensor:
        raw, dtype = self.raw, X.dtype
        batch, *points, count = self.lengths(grid)
        extents = self.lengths(X)[1:-1]
        last = raw.Cast(x=self.vector([extent - 1 for extent in extents]), DstT=dtype)
        positions = self._pixel_positions(grid, last, bool(attributes.get("align_corners", 0)))
        function = interpolation().function
        assert function is not None
        sampled = function(
            raw.Reshape(tensor=positions, shape=self.vector([batch, self._product(points), count])),
            x_ref_min=raw.Sub(x=raw.ZerosLike(x=last), y=self.number(2, dtype)),
            x_ref_max=raw.AddV2(x=last, y=self.number(2, dtype)),
            y_ref=raw.Pad(input=X, paddings=[[0, 0], *[[2, 2]] * count, [0, 0]]),
            axis=-1 - count,
            fill_value="constant_extension",
        )
        return raw.Reshape(tensor=sampled, shape=self.vector([batch, *points, self.lengths(X)[-1]]))

    def _pixel_positions(self, grid: TfTensor, last: TfTensor, aligned: bool) -> TfTensor:
        """Convert grid coordinates, -1 to 1 inside the image, to pixel positions. NaN becomes -2, in the zero border.

        The last axis of `grid` has the order x, y(, z); the last axis of the result has the reverse order.

        last: the index of the last pixel of each axis, as floats, in the order of the result.
        aligned: True if -1 and 1 are the centres of the first and last pixel: (g + 1) / 2 * last. False if they are the
        outer edges of these pixels: ((g + 1) * (last + 1) - 1) / 2.
        """
        raw = self.raw
        unit, half = self.number(1, grid.dtype), self.number(0.5, grid.dtype)
        from_edge = raw.AddV2(x=raw.ReverseV2(tensor=grid, axis=[-1]), y=unit)
        if aligned:
            positions = raw.Mul(x=raw.Mul(x=from_edge, y=half), y=last)
        else:
            extents = raw.AddV2(x=last, y=unit)
            positions = raw.Mul(x=raw.Sub(x=raw.Mul(x=from_edge, y=extents), y=unit), y=half)
        outside = self.number(-2, grid.dtype)
        return raw.SelectV2(condition=raw.IsNan(x=positions), t=outside, e=positions)

    def _product(self, sizes: Sequence[Size]) -> Size:
        """Return the product of sizes that are ints or scalar tensors; 1 for no sizes."""
        product: Size = 1
        for size in sizes:
            product = product * size
        return product
