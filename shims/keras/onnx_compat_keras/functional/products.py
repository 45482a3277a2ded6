"""Emitter methods for matrix products, by layers and operations of Keras.

Keras on TensorFlow multiplies matrices of integers in float32. Such a product is composed of exact products in float64, of parts
of 16 bits:

    x = x0 + 2**16 x1,  y = y0 + 2**16 y1  =>  x y = x0 y0 + 2**16 (x0 y1 + x1 y0)  modulo 2**32
"""

from typing import List, Optional, Tuple

import numpy as np

from onnx_compat.shim import Arg, Const, Node, Ref, UnsupportedError, dtypes
from onnx_compat_keras.features import is_exact, multiplies_integers
from onnx_compat_keras.framework_types import Handle
from onnx_compat_keras.functional.base import Base, Known, kernel_weights
from onnx_compat_keras.functional.origins import MOVES
from onnx_compat_keras.functional.shape import Shape

__all__ = ["Products"]

_PART = 16  # bits
#: A float64 sums this many products of two parts exactly.
_MOST_TERMS = 2 ** (53 - 2 * _PART)


class Products(Shape, Base):
    """Emitter methods for the primitive `matmul`."""

    def matmul(
        self, x: Handle, y: Handle, bias: Optional[Handle] = None, transpose_x: bool = False, transpose_y: bool = False
    ) -> Handle:
        if transpose_x:
            x = self._swap_last_axes(x)
        if transpose_y:
            y = self._swap_last_axes(y)
        if self.sums_in_float16():
            return self.through_float32(self.matmul, x, y, bias)
        if self.out.dtype.kind == "c":
            raise UnsupportedError("a Keras model multiplies no complex matrices")
        if self.out.dtype.kind != "f":
            product = self._multiply_integers(self.tensor(x), self.tensor(y))
            return product if bias is None else self.restore_dtype(self.ops.add(product, self.tensor(bias)))
        if isinstance(y, Known) and y.ndim == 2 and self._can_be_weights(y, bias) and not isinstance(x, Known):
            return self.layer(
                "Dense", x, weights=kernel_weights(y.array, bias), units=y.array.shape[1],
                use_bias=bias is not None, kernel_initializer="zeros",
            )  # fmt: skip
        return self._add_bias(self.ops.matmul(self.tensor(x), self.tensor(y)), bias)

    def _add_bias(self, out: Handle, bias: Optional[Handle]) -> Handle:
        return out if bias is None else self.ops.add(out, self.tensor(bias))

    def _can_be_weights(self, *operands: Optional[Handle]) -> bool:
        """Whether a layer can hold the operands as its weights: each must be a constant, or None.

        Returns False in the body of a branch or loop, whose layers have no weights.
        """
        return self.has_weights and all(operand is None or isinstance(operand, Known) for operand in operands)

    def _swap_last_axes(self, x: Handle) -> Handle:
        if isinstance(x, Known):
            return Known(np.swapaxes(x.array, -1, -2), x.dtype)
        rank = len(x.shape)
        return self.ops.transpose(x, (*range(rank - 2), rank - 1, rank - 2))

    def _multiply_integers(self, x: Handle, y: Handle) -> Handle:
        """Return the product of integer matrices; overflow wraps.

        x and y are the first two arguments of the current node, transposed if the node asks for it. Raises
        UnsupportedError if Keras cannot compute the product exactly.
        """
        self.check_dtypes()
        dtype, ops = self.out.dtype, self.unchecked_ops
        if multiplies_integers(x.dtype):
            return self.restore_dtype(ops.matmul(x, y))
        if self.back_end != "tensorflow" or not is_exact("left_shift", "int64"):
            raise self._inexact("matmul", dtype)
        if x.shape[-1] is not None and x.shape[-1] > _MOST_TERMS:
            raise UnsupportedError("a Keras model sums at most %d products of integers exactly" % _MOST_TERMS)
        left, right = (self._parts(tensor, arg) for tensor, arg in zip((x, y), self.node.args))
        total: Handle = None
        for shift in range(0, dtype.bits, _PART):
            for k, part in enumerate(left):
                right_index = shift // _PART - k
                if 0 <= right_index < len(right):
                    product = ops.cast(ops.matmul(part, right[right_index]), "int64")
                    product = ops.left_shift(product, self._int64(shift)) if shift else product
                    total = product if total is None else ops.add(total, product)
        return self.restore_dtype(total)

    def matmul_integer(
        self, a: Handle, b: Handle, a_zero_point: Optional[Handle] = None, b_zero_point: Optional[Handle] = None
    ) -> Handle:
        """Compute MatMulInteger as a product of floats, in a dtype that represents each partial sum exactly.

        The dtype is float32 for a known depth of at most 258 (258 * 255**2 < 2**24), else float64. A zero point of None
        is 0; that of `a` has one element. The result is int32, and wraps.
        """
        ops, depth = self.unchecked_ops, self.tensor(a).shape[-1]
        name = "float32" if depth is not None and depth * 255 * 255 < 2**24 else "float64"

        def subtract_zero_point(x: Handle, zero_point: Optional[Handle], is_scalar: bool) -> Handle:
            x = ops.cast(self.tensor(x), name)
            if zero_point is None or (isinstance(zero_point, Known) and not zero_point.array.any()):
                return x
            zero = ops.cast(self.tensor(zero_point), name)
            return ops.subtract(x, ops.reshape(zero, ()) if is_scalar else zero)

        product = ops.matmul(subtract_zero_point(a, a_zero_point, True), subtract_zero_point(b, b_zero_point, False))
        return ops.cast(ops.cast(product, "int64"), "int32")  # int32 wraps

    def _int64(self, number: int) -> Handle:
        return self.constant_tensor(Known(np.asarray(number, np.int64), dtypes.int64))

    def _parts(self, x: Handle, arg: Arg) -> List[Handle]:
        """Return the parts of 16 bits of an integer tensor x as float64, the lowest first. The last has the sign.

        `arg`: the recorded argument of the current node that x stands for. If its numbers are provably below 2**16 in
        magnitude, x is the single part.
        """
        ops = self.unchecked_ops
        bounds = _range(arg)
        if bounds is not None and max(-bounds[0], bounds[1]) < 2**_PART:
            return [ops.cast(x, "float64")]
        bits, wide = self.out.dtype.bits, ops.cast(x, "int64")
        parts: List[Handle] = []
        for shift in range(0, bits, _PART):
            part = ops.right_shift(wide, self._int64(shift)) if shift else wide
            if shift + _PART < bits:
                part = ops.bitwise_and(part, self._int64(2**_PART - 1))
            parts.append(ops.cast(part, "float64"))
        return parts


def _range(arg: Arg) -> Optional[Tuple[int, int]]:
    """Return bounds (least, greatest) of the integers of an argument. Returns None if no bounds are known.

    Bounds are known for constants, and for integer dtypes of at most 16 bits. They are computed for sums and
    differences of arguments with bounds, and for nodes that only move or cast their elements. A result that may exceed
    its dtype wraps, and has no bounds.
    """
    if not isinstance(arg, (Const, Ref)) or arg.spec.dtype.kind not in "iub":
        return None
    if isinstance(arg, Const):
        return int(arg.array.min(initial=0)), int(arg.array.max(initial=0))
    dtype, node = arg.spec.dtype, arg.node
    if dtype.kind == "b":
        return 0, 1
    if dtype.bits <= _PART:
        return int(dtype.min), int(dtype.max)
    bounds = None if node is None else _range_of_result(node)
    return None if bounds is None or bounds[0] < dtype.min or bounds[1] > dtype.max else bounds


def _range_of_result(node: Node) -> Optional[Tuple[int, int]]:
    """Return bounds of the integers that a node computes, before they wrap. Returns None if no bounds are known."""
    if node.primitive in MOVES - {"concat", "extents", "pad"}:
        return _range(node.args[0])
    bounds = [_range(operand) for operand in node.args] if node.primitive in ("add", "sub") else [None]
    known = [pair for pair in bounds if pair is not None]
    if len(known) < len(bounds):
        return None
    (least, greatest), (low, high) = known
    return (least + low, greatest + high) if node.primitive == "add" else (least - high, greatest - low)
