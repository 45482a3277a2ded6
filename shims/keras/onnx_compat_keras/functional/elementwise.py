"""Element by element, on symbolic tensors."""

import math
from dataclasses import replace
from typing import Any, Optional

import numpy as np

from onnx_compat.shim import Const, DType, Ref, UnsupportedError
from onnx_compat_keras.arrays.elementwise import within
from onnx_compat_keras.features import keeps
from onnx_compat_keras.functional.base import Base, Known
from onnx_compat_keras.functional.sizes import LENGTHS, Counted, Sizing

__all__ = ["Elementwise"]


def _same(name: str) -> Any:
    """A function of keras.ops that means what the primitive does."""

    def applied(self: Base, *operands: Any) -> Any:
        return getattr(self.ops, name)(*self.operands(*operands))

    applied.__name__ = name
    return applied


class Elementwise(Sizing):
    """The primitives of `onnx_compat.primitives.elementwise` that keras.ops has exactly."""

    exp = _same("exp")
    log = _same("log")
    sqrt = _same("sqrt")
    sin = _same("sin")
    cos = _same("cos")
    tan = _same("tan")
    asin = _same("arcsin")
    acos = _same("arccos")
    atan = _same("arctan")
    sinh = _same("sinh")
    cosh = _same("cosh")
    asinh = _same("arcsinh")
    acosh = _same("arccosh")
    atanh = _same("arctanh")
    floor = _same("floor")
    ceil = _same("ceil")
    round = _same("round")
    is_nan = _same("isnan")
    is_inf = _same("isinf")
    logical_not = _same("logical_not")
    logical_and = _same("logical_and")
    logical_or = _same("logical_or")
    logical_xor = _same("logical_xor")
    bitwise_not = _same("bitwise_not")
    bitwise_and = _same("bitwise_and")
    bitwise_or = _same("bitwise_or")
    bitwise_xor = _same("bitwise_xor")
    atan2 = _same("arctan2")
    equal = _same("equal")
    less = _same("less")
    less_equal = _same("less_equal")

    # -- layers ------------------------------------------------------------------------------------------------------
    def tanh(self, x: Any) -> Any:
        return self.layer("Activation", self.tensor(x), activation="tanh")

    def sigmoid(self, x: Any) -> Any:
        return self.layer("Activation", self.tensor(x), activation="sigmoid")

    def mul(self, x: Any, y: Any) -> Any:
        if isinstance(x, LENGTHS) or isinstance(y, LENGTHS):
            return self.combined("mul", x, y)
        return self._narrow(self.ops.multiply(*self.operands(x, y)))

    def add(self, x: Any, y: Any) -> Any:
        if isinstance(x, LENGTHS) or isinstance(y, LENGTHS):
            return self.combined("add", x, y)
        if self._alike(x, y):
            return self.layer("Add", [x, y])
        return self._narrow(self.ops.add(*self.operands(x, y)))

    def sub(self, x: Any, y: Any) -> Any:
        return self._narrow(self.ops.subtract(*self.operands(x, y)))

    def _narrow(self, result: Any) -> Any:
        """A sum or product: of less than 32 bits, beside a Python number, it may have become wider."""
        return self.settled(result) if self.node.outputs[0].spec.dtype.bits < 32 else result

    def minimum(self, x: Any, y: Any) -> Any:
        if isinstance(x, LENGTHS) or isinstance(y, LENGTHS):
            return self.combined("min", x, y)
        if self.out.dtype.kind == "b":
            return self.logical_and(x, y)
        return self._extreme("minimum", *self.operands(x, y))

    def maximum(self, x: Any, y: Any) -> Any:
        if self.out.dtype.kind == "b":
            return self.logical_or(x, y)
        slope = self._scaled(self.node.args[1], self.node.args[0]) if self.node.primitive == "maximum" else None
        if slope is not None and slope.size == 1 and self.out.dtype.kind == "f":  # LeakyRelu with a slope up to one
            return self.layer("LeakyReLU", self.tensor(x), negative_slope=slope.item())
        return self._extreme("maximum", *self.operands(x, y))

    def _extreme(self, name: str, x: Any, y: Any) -> Any:
        """The larger or smaller one; by a choice where Keras has no such operation on 64 bits."""
        if self.out.dtype.name != "int64" or self.back_end == "tensorflow" or keeps(name, "int64"):
            return getattr(self.ops, name)(x, y)
        below = self.ops.less(x, y)
        return self.ops.where(below, y, x) if name == "maximum" else self.ops.where(below, x, y)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        slope = self._slope()
        if slope is not None and slope.size == 1:
            return self.layer("LeakyReLU", self.tensor(y), negative_slope=slope.item())
        if slope is not None:
            shape = [1] * (len(y.shape) - slope.ndim) + list(slope.shape)
            if shape[0] == 1 and all(n in (1, size) for n, size in zip(shape[1:], y.shape[1:])):
                shared = [axis for axis, n in enumerate(shape) if axis and n == 1]
                alpha = np.ascontiguousarray(slope).reshape(shape[1:])
                return self.layer("PReLU", y, weights=[alpha], shared_axes=shared, alpha_initializer="zeros")
        condition, x, y = self.operands(condition, x, y)
        chosen = self.ops.where(condition, x, y)
        if not any(hasattr(value, "dtype") for value in (x, y)):  # two Python numbers: Keras picks a type of its own
            chosen = self.ops.cast(chosen, self.out.dtype.name)
        return chosen

    def _slope(self) -> Optional[np.ndarray]:
        """The slope a of `where(x < 0, x * a, x)`; None if this is something else."""
        condition, scaled, x = self.node.args
        test = condition.node if isinstance(condition, Ref) else None
        if test is None or test.primitive != "less" or test.args[0] is not x or self.out.dtype.kind != "f":
            return None
        zero = test.args[1]
        return self._scaled(scaled, x) if isinstance(zero, Const) and not zero.array.any() else None

    def _scaled(self, scaled: Any, x: Any) -> Optional[np.ndarray]:
        """The constant by which x is multiplied."""
        product = scaled.node if isinstance(scaled, Ref) else None
        if product is None or product.primitive != "mul" or product.args[0] is not x:
            return None
        factor = product.args[1]
        if not isinstance(factor, Const) or not isinstance(x, Ref) or factor.spec.rank > x.spec.rank:
            return None
        return factor.array

    def _alike(self, x: Any, y: Any) -> bool:
        """Two different tensors of one known shape (but for the batch): what merging layers take."""
        if not hasattr(x, "_keras_history") or not hasattr(y, "_keras_history") or x is y:
            return False
        return len(x.shape) > 1 and tuple(x.shape) == tuple(y.shape) and None not in x.shape[1:]

    def clip(self, x: Any, low: Any = None, high: Any = None) -> Any:
        dtype = self.out.dtype
        if low == 0 and dtype.kind == "f" and (high is None or high > 0):
            options: Any = {} if high is None else {"max_value": float(high)}
            return self.layer("ReLU", self.tensor(x), **options)
        x = self.tensor(x)
        if low is not None:
            x = self.ops.maximum(x, within(low, dtype)(math.ceil).item())
        return x if high is None else self.ops.minimum(x, within(high, dtype)(math.floor).item())

    # -- detours -------------------------------------------------------------------------------------------------------
    def erf(self, x: Any) -> Any:
        x = self.tensor(x)
        if self.out.dtype.name == "float64":  # TensorFlow gives NaN for an infinity; from six on it is one
            x = self.ops.minimum(self.ops.maximum(x, -8.0), 8.0)
        return self.ops.erf(x)

    def neg(self, x: Any) -> Any:
        if self.out.dtype.kind == "u":
            raise UnsupportedError("a Keras model does not negate unsigned integers")
        return self.ops.negative(self.tensor(x))

    def abs(self, x: Any) -> Any:
        if self.out.dtype.kind in "uc":
            raise UnsupportedError("a Keras model has no absolute value of this type")
        return self.ops.absolute(self.tensor(x))

    def sign(self, x: Any) -> Any:
        x = self.tensor(x)
        if self.out.dtype.kind == "u":
            raise UnsupportedError("a Keras model has no sign of unsigned integers")
        signs = self.ops.sign(x)
        return self.ops.where(self.ops.equal(x, x), signs, x) if self.out.dtype.kind == "f" else signs

    def div(self, x: Any, y: Any) -> Any:
        if self.node.outputs[0].spec.dtype.kind in "fc":
            return self.ops.divide(*self.operands(x, y))
        x, y = self._divided(x, y)
        whole = self.settled(self.ops.floor_divide(x, y))
        inexact = self.ops.not_equal(self.ops.multiply(whole, y), x)
        below = self.ops.less(x, 0) if y > 0 else self.ops.less(0, x)
        return self.ops.add(whole, self.ops.cast(self.ops.logical_and(inexact, below), self.out.dtype.name))

    def floordiv(self, x: Any, y: Any) -> Any:
        if isinstance(x, LENGTHS):
            return self.combined("floordiv", x, y)
        if self.node.outputs[0].spec.dtype.kind == "f":
            return self.ops.floor(self.ops.divide(*self.operands(x, y)))
        return self.settled(self.ops.floor_divide(*self._divided(x, y)))

    def mod(self, x: Any, y: Any) -> Any:
        if self.node.outputs[0].spec.dtype.kind == "f":
            return self.ops.mod(*self.operands(x, y))
        return self.settled(self.ops.mod(*self._divided(x, y)))

    def _divided(self, x: Any, y: Any) -> Any:
        """Integers divided by a number that cannot go wrong."""
        if not isinstance(y, Known) or y.array.size != 1 or y.array.item() in (0, -1):
            raise UnsupportedError("a Keras model divides integers by known numbers only")
        return self.tensor(x), y.array.item()

    def pow(self, x: Any, y: Any) -> Any:
        small = isinstance(y, Known) and bool(((y.array >= 0) & (y.array < 64)).all())  # JAX looks at six bits of it
        if self.out.dtype.kind != "f" and not small:
            raise UnsupportedError("a Keras model raises integers to known powers below 64 only")
        return self._narrow(self.ops.power(*self.operands(x, y)))

    def cast(self, x: Any, dtype: DType) -> Any:
        if isinstance(x, Counted) and dtype.kind == "i" and dtype.bits >= 32:
            return replace(x, dtype=dtype)
        x = self.tensor(x)
        if dtype.kind == "b":
            return self.ops.not_equal(x, 0)
        return self.ops.cast(x, dtype.name)
