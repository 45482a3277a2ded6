"""Activations with a kernel, or composed of a few operators. The pass `composed_activations` recognises them."""

from onnx_compat_tflite.emitter.control import Control
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Activations"]

#: The polynomial of 2 atanh(x) / x in x^2 for x up to 1/3. Its error is at most 2e-7.
_ATANH_OF_A_THIRD = (0.342260643, 0.39589459, 0.66676003, 1.99999967)


class Activations(Control):
    """Emit activations of float32."""

    def gelu(self, x: Handle, approximate: bool) -> Handle:
        return self.add_op("GELU", [x], x.dtype, x.dims, approximate=approximate)

    def elu(self, x: Handle) -> Handle:
        return self.unary("ELU", x)

    def leaky_relu(self, x: Handle, alpha: float) -> Handle:
        return self.add_op("LEAKY_RELU", [x], x.dtype, x.dims, alpha=alpha)

    def prelu(self, x: Handle, slope: Handle) -> Handle:
        """Emit PRELU with slopes that have all axes of x but the batch, as some kernels require."""
        slopes = self.reshape_to(slope, (1,) * (x.rank - 2) + slope.dims[-1:])
        return self.add_op("PRELU", [x, slopes], x.dtype, x.dims)

    def softplus(self, x: Handle) -> Handle:
        """Emit softplus: max(x, 0) + log(1 + e) with e = e^-|x|, where log(1 + e) = 2 atanh(e / (e + 2)).

        The argument is at most 1/3, so an odd polynomial suffices. A NaN passes through max(x, 0).
        """
        exponential = self.unary("EXP", self.neg(self.abs(x)))
        ratio = self.div(exponential, self.add(exponential, self.like(x, 2)))
        logarithm = self.mul(ratio, self._polynomial(self.mul(ratio, ratio), _ATANH_OF_A_THIRD))
        return self.add(self.clip(x, 0), logarithm)

    def mish(self, x: Handle) -> Handle:
        """Emit mish: x tanh(softplus(x)) = x q / (2 - q), with q = s (2 - s) and s = sigmoid(x).

        This form does not overflow or cancel. Without XNNPACK the sigmoid has a relative error of 5e-4 for small
        results, so tanh and softplus are emitted.
        """
        if self.finite_arithmetic:
            return self.mul(x, self.tanh(self.softplus(x)))
        two = self.like(x, 2)
        sigmoid = self.logistic(x)
        product = self.mul(sigmoid, self.sub(two, sigmoid))
        return self.mul(x, self.div(product, self.sub(two, product)))
