"""Shapes as far as they are known: comparison, broadcasting, and products of sizes."""

import functools
import operator
from typing import Any, Sequence, Tuple

from onnx_compat.shim import is_equal
from onnx_compat_tflite.subgraph_builder import Size

__all__ = ["broadcast_dims", "choose_known_size", "is_same_shape", "is_viewable", "product"]


def choose_known_size(a: Size, b: Size) -> Any:
    """Return the more informative of two descriptions of a size: an int, else a symbolic size, else None.

    For two ints, returns `a`. For two symbolic sizes, returns `b`.
    """
    return a if isinstance(a, int) or b is None else b


def is_same_shape(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two shapes are provably equal. An unknown size (None) equals no size."""
    return len(a) == len(b) and all(x is not None and y is not None and is_equal(x, y) for x, y in zip(a, b))


def broadcast_dims(shapes: Sequence[Sequence[Any]]) -> Tuple[Any, ...]:
    """Return the shape to which the shapes broadcast: a tuple of sizes that are ints, symbolic, or None if unknown.

    `shapes` has at least one shape. The shapes must be compatible, which is not checked. Along an axis, an int other
    than 1 is the size of the result. Without such an int, the size is 1 if all sizes are 1. It is symbolic if all sizes
    other than 1 equal this symbolic size, and else None.
    """
    rank = max(map(len, shapes))
    return tuple(_broadcast_size([s[axis - rank] for s in shapes if len(s) >= rank - axis]) for axis in range(rank))


def _broadcast_size(sizes: Sequence[Any]) -> Any:
    """Return the size of an axis after broadcasting. `sizes` are the sizes of the operands along this axis.

    - If a size is an int other than 1, the result is that int.
    - If all sizes are 1, the result is 1.
    - If the sizes other than 1 are equal symbolic sizes, the result is that symbolic size.
    - Otherwise the result is unknown: None.
    """
    wide_sizes = [size for size in sizes if not (isinstance(size, int) and size == 1)]
    known = [size for size in wide_sizes if isinstance(size, int)]
    if known or not wide_sizes:
        return known[0] if known else 1
    first = wide_sizes[0]
    return first if first is not None and all(s is not None and is_equal(first, s) for s in wide_sizes) else None


def product(sizes: Sequence[Any]) -> Any:
    """Return the product of sizes that are ints, symbolic, or None if unknown.

    Returns None if a size is None. Raises TypeError if `sizes` is empty.
    """
    return None if any(size is None for size in sizes) else functools.reduce(operator.mul, sizes)


def is_viewable(dims: Sequence[Any]) -> bool:
    """Whether RESHAPE can express the shape by constant sizes, with -1 for a single unknown size.

    True if all sizes are ints. True also if exactly one size is no int, and no size is zero.
    """
    unknown = sum(not isinstance(size, int) for size in dims)
    return unknown == 0 or (unknown == 1 and not any(is_equal(size, 0) for size in dims))
