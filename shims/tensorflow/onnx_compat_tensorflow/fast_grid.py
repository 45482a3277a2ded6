"""GridSample along straight lines by TensorFlow Probability, where that is faster."""

from typing import Any, Sequence

from onnx_compat.shim import is_static, native
from onnx_compat_tensorflow.base import Base
from onnx_compat_tensorflow.probability import installed, interpolation

__all__ = ["FastGrid"]

_CHANNELS = 3  # fewer, and what the points cost outweighs what the pixels do


def _zeros_outside(_: Any, inputs: Sequence[Any], attributes: Any) -> bool:
    """Images of many channels, with zeros around: with other paddings no pixel has to be left out."""
    x, grid = inputs
    mode, padding = attributes.get("mode", "linear"), attributes.get("padding_mode", "zeros")
    if mode not in ("linear", "bilinear") or padding != "zeros":
        return False
    if x.dtype.name not in ("float32", "float64") or grid.dtype != x.dtype:
        return False
    return is_static(x.shape[1]) and x.shape[1] >= _CHANNELS and interpolation().function is not None


class FastGrid(Base):
    """Zeros are laid around the image, two on each side: out there nothing of the image is near any more."""

    @native("GridSample", _zeros_outside, spatial=True, available=lambda _: installed())
    def grid_sample(self, X: Any, grid: Any, **attributes: Any) -> Any:
        raw, dtype = self.raw, X.dtype
        batch, *points, count = self.lengths(grid)
        extents = self.lengths(X)[1:-1]
        last = raw.Cast(x=self.vector([extent - 1 for extent in extents]), DstT=dtype)
        places = self._places(grid, last, bool(attributes.get("align_corners", 0)))
        function = interpolation().function
        assert function is not None
        sampled = function(
            raw.Reshape(tensor=places, shape=self.vector([batch, self._product(points), count])),
            x_ref_min=raw.Sub(x=raw.ZerosLike(x=last), y=self.number(2, dtype)),
            x_ref_max=raw.AddV2(x=last, y=self.number(2, dtype)),
            y_ref=raw.Pad(input=X, paddings=[[0, 0], *[[2, 2]] * count, [0, 0]]),
            axis=-1 - count,
            fill_value="constant_extension",
        )
        return raw.Reshape(tensor=sampled, shape=self.vector([batch, *points, self.lengths(X)[-1]]))

    def _places(self, grid: Any, last: Any, aligned: bool) -> Any:
        """From [-1, 1], the last axis first, to pixels. What is no number is nowhere: beyond the edge."""
        raw = self.raw
        one, half = self.number(1, grid.dtype), self.number(0.5, grid.dtype)
        from_edge = raw.AddV2(x=raw.ReverseV2(tensor=grid, axis=[-1]), y=one)
        if aligned:
            places = raw.Mul(x=raw.Mul(x=from_edge, y=half), y=last)
        else:
            extents = raw.AddV2(x=last, y=one)
            places = raw.Mul(x=raw.Sub(x=raw.Mul(x=from_edge, y=extents), y=one), y=half)
        outside = self.number(-2, grid.dtype)
        return raw.SelectV2(condition=raw.IsNan(x=places), t=outside, e=places)

    def _product(self, sizes: Sequence[Any]) -> Any:
        """Of ints and scalars."""
        product: Any = 1
        for size in sizes:
            product = product * size
        return product
