"""Emitter methods for the elementwise primitives, on symbolic Keras tensors."""

import math
from dataclasses import replace
from typing import Any, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Arg, Const, DType, Ref, UnsupportedError
from onnx_compat_keras.arrays.elementwise import clip_bound
from onnx_compat_keras.features import is_exact
from onnx_compat_keras.framework_types import Handle
from onnx_compat_keras.functional.base import Known, carrier, is_known, storage
from onnx_compat_keras.functional.sizes import LENGTHS, Counted, Sizing
from onnx_compat_keras.pointwise import Pointwise

__all__ = ["Elementwise"]


class Elementwise(Pointwise, Sizing):
    """Emitter methods for the primitives of `onnx_compat.primitives.elementwise` that Keras computes exactly."""

    def call_namespace(self, name: str, *operands: Handle) -> Handle:
        return getattr(self.ops, name)(*self.operands(*operands))

    # Keras infers the dtype of an operation on bits from the dtypes of tensors: a file keeps no dtype of a literal.
    def bitwise_and(self, x: Handle, y: Handle) -> Handle:
        return self.ops.bitwise_and(self.tensor(x), self.tensor(y))

    def bitwise_or(self, x: Handle, y: Handle) -> Handle:
        return self.ops.bitwise_or(self.tensor(x), self.tensor(y))

    def bitwise_xor(self, x: Handle, y: Handle) -> Handle:
        return self.ops.bitwise_xor(self.tensor(x), self.tensor(y))

    # -- layers ------------------------------------------------------------------------------------------------------
    def tanh(self, x: Handle) -> Handle:
        return self.layer("Activation", self.tensor(x), activation="tanh")

    def sigmoid(self, x: Handle) -> Handle:
        return self.layer("Activation", self.tensor(x), activation="sigmoid")

    def activation(self, x: Handle, kind: str, approximate: bool = False) -> Handle:
        """Return an activation of x. `kind`: the name of a function of `keras.activations`.

        `approximate`: return GELU, approximated by tanh, whatever `kind` is. An Activation layer lacks this option.
        """
        if approximate:
            return self.ops.gelu(self.tensor(x), approximate=True)
        return self.layer("Activation", self.tensor(x), activation=kind)

    def elu(self, x: Handle, **_: object) -> Handle:
        return self.activation(x, "elu")

    def selu(self, x: Handle, **_: object) -> Handle:
        return self.activation(x, "selu")

    def mul(self, x: Handle, y: Handle) -> Handle:
        if isinstance(x, LENGTHS) or isinstance(y, LENGTHS):
            return self.combine_sizes("mul", x, y)
        return self._narrow(self.ops.multiply(*self.operands(x, y)))

    def add(self, x: Handle, y: Handle) -> Handle:
        if isinstance(x, LENGTHS) or isinstance(y, LENGTHS):
            return self.combine_sizes("add", x, y)
        if self._can_merge(x, y):
            return self.layer("Add", [x, y])
        if _is_taken_for_bias(self._shape_of(x), self._shape_of(y)):
            left, right = self.operands(x, y)
            if self.out.dtype.kind == "u":  # TensorFlow negates no unsigned integers
                return self._narrow(self.ops.subtract(left, self.ops.subtract(self.ops.zeros_like(right), right)))
            return self._narrow(self.ops.subtract(left, self.ops.negative(right)))
        return self._narrow(self.ops.add(*self.operands(x, y)))

    @staticmethod
    def _shape_of(x: Handle) -> Sequence[Optional[int]]:
        return tuple(x.array.shape if isinstance(x, Known) else x.shape)

    def sub(self, x: Handle, y: Handle) -> Handle:
        return self._narrow(self.ops.subtract(*self.operands(x, y)))

    def _narrow(self, result: Handle) -> Handle:
        """Return the result of arithmetic, cast back to the dtype of the node if this is an integer below 32 bits.

        Keras may widen such a result if an operand is a Python number. For another dtype, the result is returned
        unchanged.
        """
        return self.restore_dtype(result) if self.out.dtype.bits < 32 else result

    def minimum(self, x: Handle, y: Handle) -> Handle:
        if isinstance(x, LENGTHS) or isinstance(y, LENGTHS):
            return self.combine_sizes("min", x, y)
        if self.out.dtype.kind == "b":
            return self.logical_and(x, y)
        return self._extreme("minimum", *self.operands(x, y))

    def maximum(self, x: Handle, y: Handle) -> Handle:
        if isinstance(x, LENGTHS) or isinstance(y, LENGTHS):
            return self.combine_sizes("max", x, y)
        if self.out.dtype.kind == "b":
            return self.logical_or(x, y)
        slope = self._factor_of(self.node.args[1], self.node.args[0]) if self.node.primitive == "maximum" else None
        if slope is not None and slope.size == 1 and self.out.dtype.kind == "f":  # LeakyRelu with a slope of at most 1
            return self.layer("LeakyReLU", self.tensor(x), negative_slope=slope.item())
        return self._extreme("maximum", *self.operands(x, y))

    def _extreme(self, name: str, x: Handle, y: Handle) -> Handle:
        """Return the elementwise maximum or minimum of x and y. `name` is "maximum" or "minimum".

        If keras.ops.<name> computes int64 in fewer bits, `less` and `where` compute the result.
        """
        if self.out.dtype.name != "int64" or self.back_end == "tensorflow" or is_exact(name, "int64"):
            return getattr(self.ops, name)(x, y)
        below = self.ops.less(x, y)
        return self.ops.where(below, y, x) if name == "maximum" else self.ops.where(below, x, y)

    def where(self, condition: Handle, x: Handle, y: Handle) -> Handle:
        slope = self._slope()
        if slope is not None and slope.size == 1:
            return self.layer("LeakyReLU", self.tensor(y), negative_slope=slope.item())
        if slope is not None:
            shape = [1] * (len(y.shape) - slope.ndim) + list(slope.shape)
            if self.has_weights and shape[0] == 1 and all(n in (1, size) for n, size in zip(shape[1:], y.shape[1:])):
                shared = [axis for axis, n in enumerate(shape) if axis and n == 1]
                alpha = np.ascontiguousarray(slope).reshape(shape[1:])
                return self.layer("PReLU", y, weights=[alpha], shared_axes=shared, alpha_initializer="zeros")
        if is_known(x, y) and self.out.dtype.name == "float64":  # from two Python numbers Keras chooses float32
            x = self.tensor(x)
        condition, x, y = self.operands(condition, x, y)
        chosen = self.ops.where(condition, x, y)
        if not any(hasattr(value, "dtype") for value in (x, y)):  # from two Python numbers Keras chooses another dtype
            chosen = self.ops.cast(chosen, storage(self.out.dtype))
        return chosen

    def _slope(self) -> Optional[np.ndarray]:
        """Return the constant a if the current node is where(x < 0, x * a, x) of a float x: a leaky or parametric ReLU.

        Returns None for any other node. See `_factor_of` for the form of a.
        """
        condition, scaled, x = self.node.args
        test = condition.node if isinstance(condition, Ref) else None
        if test is None or test.primitive != "less" or test.args[0] is not x or self.out.dtype.kind != "f":
            return None
        zero = test.args[1]
        return self._factor_of(scaled, x) if isinstance(zero, Const) and not zero.array.any() else None

    def _factor_of(self, scaled: Arg, x: Arg) -> Optional[np.ndarray]:
        """Return the constant a if `scaled` is mul(x, a), in this order, and a has at most the rank of x.

        Returns None for any other argument.
        """
        product = scaled.node if isinstance(scaled, Ref) else None
        if product is None or product.primitive != "mul" or product.args[0] is not x:
            return None
        factor = product.args[1]
        if not isinstance(factor, Const) or not isinstance(x, Ref) or factor.spec.rank > x.spec.rank:
            return None
        return factor.array

    def _can_merge(self, x: Handle, y: Handle) -> bool:
        """Whether an Add layer can add x and y: two different float tensors of rank 2 or more and of one shape.

        The shape must be static except for axis 0. Returns False for a constant. Returns False for integers, because
        the layer declares float32, the dtype of its policy, for its result.
        """
        if self.out.dtype.kind != "f":
            return False
        if not hasattr(x, "_keras_history") or not hasattr(y, "_keras_history") or x is y:
            return False
        return len(x.shape) > 1 and tuple(x.shape) == tuple(y.shape) and None not in x.shape[1:]

    def clip(self, x: Handle, low: Optional[float] = None, high: Optional[float] = None) -> Handle:
        dtype = self.out.dtype
        if low == 0 and dtype.kind == "f" and (high is None or high > 0):
            options: Any = {} if high is None else {"max_value": float(high)}
            return self.layer("ReLU", self.tensor(x), **options)
        x = self.tensor(x)
        for name, bound, rounding in (("maximum", low, math.ceil), ("minimum", high, math.floor)):
            if bound is not None:
                x = self._extreme(name, x, self.operand(Known(clip_bound(bound, dtype)(rounding), dtype)))
        return x

    # -- primitives that need several operations -----------------------------------------------------------------------
    def erf(self, x: Handle) -> Handle:
        x = self.tensor(x)
        if self.out.dtype.name == "float64":  # TensorFlow returns NaN for infinity; erf(8) rounds to 1
            x = self.ops.minimum(self.ops.maximum(x, -8.0), 8.0)
        return self.ops.erf(x)

    def neg(self, x: Handle) -> Handle:
        if self.out.dtype.kind == "u":
            raise UnsupportedError("a Keras model does not negate unsigned integers")
        return self.ops.negative(self.tensor(x))

    def abs(self, x: Handle) -> Handle:
        if self.out.dtype.kind in "uc":
            raise UnsupportedError("a Keras model has no absolute value of this type")
        return self.ops.absolute(self.tensor(x))

    def sign(self, x: Handle) -> Handle:
        x = self.tensor(x)
        if self.out.dtype.kind == "u":
            raise UnsupportedError("a Keras model has no sign of unsigned integers")
        signs = self.ops.sign(x)
        return self.ops.where(self.ops.equal(x, x), signs, x) if self.out.dtype.kind == "f" else signs

    def div(self, x: Handle, y: Handle) -> Handle:
        if self.out.dtype.kind in "fc":
            return self.real_quotient(x, y)
        whole, x, y = self._floor_divide(x, y)
        inexact = self.ops.not_equal(self.ops.multiply(whole, y), x)
        below = self.ops.not_equal(self.ops.less(x, 0), self.ops.less(y, 0))
        rounded = self.ops.add(whole, self.ops.cast(self.ops.logical_and(inexact, below), self.out.dtype.name))
        return self.restore_dtype(rounded)

    def floordiv(self, x: Handle, y: Handle) -> Handle:
        if isinstance(x, LENGTHS) or isinstance(y, LENGTHS):
            return self.combine_sizes("floordiv", x, y)
        if self.out.dtype.kind == "f":
            return self.ops.floor(self.real_quotient(x, y))
        return self._floor_divide(x, y)[0]

    def mod(self, x: Handle, y: Handle) -> Handle:
        if isinstance(x, LENGTHS) or isinstance(y, LENGTHS):
            return self.combine_sizes("mod", x, y)
        if self.out.dtype.kind == "f":
            return self.ops.mod(*self.operands(x, y))
        return self.restore_dtype(self.ops.mod(*self._division_operands(x, y)))

    def fmod(self, x: Handle, y: Handle) -> Handle:
        x, y = self.operands(x, y)
        if self.out.dtype.kind == "u":
            return self.restore_dtype(self.ops.mod(*self._division_operands(x, y)))
        if self.out.dtype.kind == "i":
            y = self._division_operands(x, y)[1]
            rest = self.restore_dtype(self.ops.mod(x, y))  # with the sign of y
            has_other_sign = self.ops.logical_and(
                self.ops.not_equal(rest, 0), self.ops.not_equal(self.ops.less(x, 0), self.ops.less(y, 0))
            )
            return self.restore_dtype(self.ops.where(has_other_sign, self.ops.subtract(rest, y), rest))
        rest = self.ops.mod(self.ops.absolute(x), self.ops.absolute(y))
        return self.ops.where(self.ops.less(x, 0), self.ops.negative(rest), rest)

    def _floor_divide(self, x: Handle, y: Handle) -> Tuple[Handle, Handle, Handle]:
        """Return (x // y, x, y) of integers, after zeros of y are replaced by 1."""
        x, y = self._division_operands(x, y)
        return self.restore_dtype(self.ops.floor_divide(x, y)), x, y

    def _division_operands(self, x: Handle, y: Handle) -> Tuple[Handle, Handle]:
        """Return (x, y) as operands of a division of integers, with zeros of y replaced by 1.

        The replacement is needed because back ends differ in the division of integers by 0, or raise.
        """
        x, y = self.operands(x, y)
        if not hasattr(y, "dtype"):
            return x, y or 1
        if isinstance(y, np.ndarray):
            return x, np.where(y == 0, 1, y).astype(y.dtype)
        return x, self.restore_dtype(
            self.ops.where(self.ops.equal(y, 0), self.ops.cast(self.ops.add(self.ops.zeros_like(y), 1), y.dtype), y)
        )

    def shift_left(self, x: Handle, y: Handle) -> Handle:
        return self._shift("left_shift", x, y)

    def shift_right(self, x: Handle, y: Handle) -> Handle:
        return self._shift("right_shift", x, y)

    def _shift(self, name: str, x: Handle, y: Handle) -> Handle:
        """Return x shifted by y bits. `name` is "left_shift" or "right_shift".

        The result is 0 where y is at least the number of bits of the dtype.
        """
        x, y = self.tensor(x), self.tensor(y)
        bits, dtype = self.out.dtype.bits, self.out.dtype.name
        shifted = self.ops.cast(getattr(self.ops, name)(x, self.ops.cast(self.ops.minimum(y, bits - 1), dtype)), dtype)
        return self.ops.where(self.ops.less(y, bits), shifted, self.ops.zeros_like(shifted))

    def pow(self, x: Handle, y: Handle) -> Handle:
        small = isinstance(y, Known) and bool(((y.array >= 0) & (y.array < 64)).all())
        if self.out.dtype.kind == "f" or small:
            return self._narrow(self.ops.power(*self.operands(x, y)))
        if self.back_end == "jax" or self.out.dtype.kind != "i":  # JAX reads six bits; TensorFlow reads y as signed
            raise UnsupportedError("a Keras model raises these integers to known powers below 64 only")
        return self._integer_power(self.tensor(x), self.tensor(y))

    def _integer_power(self, x: Handle, y: Handle) -> Handle:
        """Return x ** y of signed integers. For y < 0, the result is 0, unless x is 1 or -1: 1 / x**-y is truncated."""
        ops = self.ops
        whole = self.restore_dtype(ops.power(x, self._extreme("maximum", y, 0)))
        odd = ops.where(ops.equal(ops.mod(y, 2), 0), ops.ones_like(x), x)
        inverse = ops.where(ops.equal(ops.absolute(x), 1), odd, ops.zeros_like(x))
        return self.restore_dtype(ops.where(ops.less(y, 0), inverse, whole))

    def bitcast(self, x: Handle, dtype: DType) -> Handle:
        x, name = self.tensor(x), storage(dtype)
        if x.dtype == name:
            return x
        if self.back_end != "tensorflow" or not len(x.shape):
            return self.ops.view(x, dtype=name)
        # Keras 3.15 on TensorFlow needs a last axis of a known length.
        return self.ops.squeeze(self.ops.view(self.ops.expand_dims(x, -1), dtype=name), -1)

    def cast(self, x: Handle, dtype: DType) -> Handle:
        dtype = carrier(dtype)
        if isinstance(x, Counted) and dtype.kind == "i" and dtype.bits >= 32:
            return replace(x, dtype=dtype)
        x = self.tensor(x)
        if dtype.kind == "b":
            return self.ops.not_equal(x, 0)
        return self.ops.cast(x, storage(dtype))


def _is_taken_for_bias(x: Sequence[Optional[int]], y: Sequence[Optional[int]]) -> bool:
    """Whether `keras.ops.add` may add tensors of the shapes `x` and `y` along a wrong axis.

    If all axes of y but one have length 1, Keras 3.15 on TensorFlow may call `tf.nn.bias_add`. Keras first compares the
    length of this axis with the second and the last axis of x. Example: [2, 4, 1] + [4] gives [2, 4, 1].
    """
    long_axes = [axis - len(y) for axis, size in enumerate(y) if size != 1]
    if len(x) < 2 or len(long_axes) != 1:
        return False
    (axis,) = long_axes
    if y[axis] is None or -axis > len(x) or x[axis] != y[axis]:
        return True
    is_second = len(x) + axis == 1 and x[-1] is not None and x[-1] != y[axis]
    return axis != -1 and not is_second
