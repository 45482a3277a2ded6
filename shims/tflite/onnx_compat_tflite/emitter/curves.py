"""Activations that have a kernel of their own: `passes.recorded` finds them in a program."""

from onnx_compat_tflite.emitter.control import Control
from onnx_compat_tflite.graph import Handle

__all__ = ["Curves"]


class Curves(Control):
    """Of float32 alone."""

    def gelu(self, x: Handle, approximate: bool) -> Handle:
        return self.add_op("GELU", [x], x.dtype, x.dims, approximate=approximate)

    def elu(self, x: Handle) -> Handle:
        return self.unary("ELU", x)

    def leaky_relu(self, x: Handle, alpha: float) -> Handle:
        return self.add_op("LEAKY_RELU", [x], x.dtype, x.dims, alpha=alpha)

    def prelu(self, x: Handle, slope: Handle) -> Handle:
        """The slopes with as many axes as an image has but the batch, which is what some kernels want."""
        one_each = self.shaped(slope, (1,) * (x.rank - 2) + slope.dims[-1:])
        return self.add_op("PRELU", [x, one_each], x.dtype, x.dims)
