"""Activations that have a kernel of their own, or need few: `passes.composed_activations` finds them in a program."""

from onnx_compat_tflite.emitter.control import Control
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Activations"]

#: Of 2 atanh(x) / x by x^2, up to x = 1/3: off by 2e-7 at most.
_ATANH_OF_A_THIRD = (0.342260643, 0.39589459, 0.66676003, 1.99999967)


class Activations(Control):
    """Of float32 alone."""

    def gelu(self, x: Handle, approximate: bool) -> Handle:
        return self.add_op("GELU", [x], x.dtype, x.dims, approximate=approximate)

    def elu(self, x: Handle) -> Handle:
        return self.unary("ELU", x)

    def leaky_relu(self, x: Handle, alpha: float) -> Handle:
        return self.add_op("LEAKY_RELU", [x], x.dtype, x.dims, alpha=alpha)

    def prelu(self, x: Handle, slope: Handle) -> Handle:
        """The slopes with as many axes as an image has but the batch, which is what some kernels want."""
        one_each = self.reshape_to(slope, (1,) * (x.rank - 2) + slope.dims[-1:])
        return self.add_op("PRELU", [x, one_each], x.dtype, x.dims)

    def softplus(self, x: Handle) -> Handle:
        """2 atanh(e / (e + 2)) of e^-|x| as an odd polynomial: of a third at most, it needs none of what an atanh does. A NaN
        comes with the positive part.
        """
        small = self.unary("EXP", self.neg(self.abs(x)))
        part = self.div(small, self.add(small, self.like(x, 2)))
        rest = self.mul(part, self._polynomial(self.mul(part, part), _ATANH_OF_A_THIRD))
        return self.add(self.clip(x, 0), rest)

    def mish(self, x: Handle) -> Handle:
        """The tanh of a softplus is q / (2 - q) of q = s (2 - s), where s is the sigmoid: nothing overflows or cancels. The
        sigmoid of older kernels is off by 5e-4 of a small result, and not zero of the least numbers.
        """
        if self.finite_arithmetic:
            return self.mul(x, self.tanh(self.softplus(x)))
        two = self.like(x, 2)
        share = self.logistic(x)
        product = self.mul(share, self.sub(two, share))
        return self.mul(x, self.div(product, self.sub(two, product)))
