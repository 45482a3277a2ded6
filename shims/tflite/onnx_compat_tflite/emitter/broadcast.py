"""Elementwise operators over operands of different shapes.

Kernels broadcast only four axes; older runtimes end the process beyond that.
"""

import functools
import operator
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import is_equal
from onnx_compat_tflite.emitter.base import Base, is_same_shape
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Broadcasting", "broadcast_dims"]

_BROADCAST_AXES = 4  # axes that every kernel broadcasts


def broadcast_dims(shapes: Sequence[Sequence[Any]]) -> Tuple[Any, ...]:
    """Return the shape of operands after broadcasting, None for a size that is unknown."""
    rank = max(map(len, shapes))
    return tuple(_broadcast_size([s[axis - rank] for s in shapes if len(s) >= rank - axis]) for axis in range(rank))


def _broadcast_size(sizes: Sequence[Any]) -> Any:
    """Return the size of an axis after broadcasting; None if it is unknown."""
    wide_sizes = [size for size in sizes if not (isinstance(size, int) and size == 1)]
    known = [size for size in wide_sizes if isinstance(size, int)]
    if known or not wide_sizes:
        return known[0] if known else 1
    first = wide_sizes[0]
    return first if first is not None and all(s is not None and is_equal(first, s) for s in wide_sizes) else None


class Broadcasting(Base):
    """Emit operators whose operands broadcast together."""

    def elementwise(
        self, builtin: str, operands: Sequence[Handle], dtype: Optional[str] = None, **options: Any
    ) -> Handle:
        """Append an operator over operands that broadcast together. The result has `dtype`, or that of the last
        operand.
        """
        aligned, restore = self.align_operands(operands)
        result = self.add_op(
            builtin,
            aligned,
            dtype or operands[-1].dtype,
            broadcast_dims([h.dims for h in aligned]),
            **options,
        )
        return restore(result)

    def align_operands(self, operands: Sequence[Handle]) -> Tuple[List[Handle], Callable[[Handle], Handle]]:
        """Return the operands in shapes that every kernel broadcasts, and a function that restores the result's shape.

        Operands of up to four axes, or of equal shapes, stay. Else adjacent axes are merged where all operands
        broadcast alike. Otherwise each operand is broadcast to the whole shape.
        """
        shapes = [handle.dims for handle in operands]
        result_dims = broadcast_dims(shapes)
        if len(result_dims) <= _BROADCAST_AXES or all(is_same_shape(shape, shapes[0]) for shape in shapes[1:]):
            return list(operands), lambda result: result
        if all(map(is_viewable, [*shapes, result_dims])) and _knows_repeated_axes(shapes, len(result_dims)):
            groups = _group_axes(shapes, len(result_dims))
            if len(groups) <= _BROADCAST_AXES:
                merged = [
                    self.reshape_to(handle, _merge_dims(handle.dims, groups, len(result_dims))) for handle in operands
                ]
                return merged, lambda result: self.reshape_to(result, result_dims)
        if all(handle.is_static for handle in operands):
            target = self.ints(*result_dims)
        else:
            target = self.shape_tensor(operands[0])
            for handle in operands[1:]:
                dims = (max(handle.rank, target.dims[0]),)
                target = self.add_op("BROADCAST_ARGS", [target, self.shape_tensor(handle)], "int32", dims)
        return [self.broadcast(handle, target, result_dims) for handle in operands], lambda result: result

    def reshape_to(self, x: Handle, dims: Sequence[Any]) -> Handle:
        """Return x with another shape, of which one size may be unknown if none is zero."""
        if is_same_shape(x.dims, dims):
            return x
        if x.is_constant:
            return Handle.of(x.array.reshape(dims))
        if not dims:
            return self.add_op("RESHAPE", [x], x.dtype, (), new_shape=[])
        target = self.ints(*[size if isinstance(size, int) else -1 for size in dims])
        return self.add_op("RESHAPE", [x, target], x.dtype, dims)

    def broadcast(self, x: Handle, target: Handle, dims: Sequence[Any]) -> Handle:
        """Return x broadcast to a shape that is given as a tensor, and by its sizes."""
        if is_same_shape(x.dims, dims):
            return x
        if x.is_constant and all(isinstance(size, int) for size in dims) and int(np.prod(dims)) <= 64:
            return Handle.of(np.broadcast_to(x.array, dims).copy())
        repeats = _tile_repeats(x.dims, dims)
        if repeats is not None and self.accepts("TILE", x.dtype):
            return self.add_op("TILE", [x, self.ints(*repeats)], x.dtype, dims)
        if not self.accepts("BROADCAST_TO", x.dtype):
            result: Handle = self.call_widened(
                lambda _, y: self.broadcast(y, target, dims), ["BROADCAST_TO"], x, (), {}
            )
            return result
        if self.accepts("BROADCAST_TO", "float32", "none") or all(isinstance(size, int) and size for size in dims):
            return self.add_op("BROADCAST_TO", [x, target], x.dtype, dims)
        return self._broadcast_beyond_empty(x, target, dims)

    def _broadcast_beyond_empty(self, x: Handle, target: Handle, dims: Sequence[Any]) -> Handle:
        """Broadcast with at least one element along each axis, and slice the result to the shape.

        BROADCAST_TO kernels write out of bounds where an axis becomes empty.
        """
        source_shape = self.shape_tensor(x)
        if x.rank < len(dims):
            leading_ones = Handle.of(np.ones(len(dims) - x.rank, np.int32))
            source_shape = (
                self.add_op("CONCATENATION", [leading_ones, source_shape], "int32", (len(dims),), axis=0)
                if x.rank
                else leading_ones
            )
        capped_shape = self.add_op("MINIMUM", [Handle.of(np.ones((), np.int32)), source_shape], "int32", (len(dims),))
        padded_shape = self.add_op("MAXIMUM", [capped_shape, target], "int32", (len(dims),))
        padded = self.add_op("BROADCAST_TO", [x, padded_shape], x.dtype, [None] * len(dims))
        result: Handle = self._add_slice(padded, Handle.of(np.zeros(len(dims), np.int32)), target, dims)
        return result

    _add_slice: Callable[..., Handle]  # defined in `shape`


def _tile_repeats(narrow: Sequence[Any], wide: Sequence[Any]) -> Optional[List[int]]:
    """Return how often TILE repeats each axis; None where that is unknown, or zero.

    TILE copies whole rows: it takes a hundredth of the time of BROADCAST_TO, which computes the index of every element.
    """
    if len(narrow) != len(wide):
        return None
    repeats: List[int] = []
    for source_size, target_size in zip(narrow, wide):
        if is_same_shape([source_size], [target_size]):
            repeats.append(1)
        elif is_equal(source_size, 1) and isinstance(target_size, int) and target_size > 0:
            repeats.append(target_size)
        else:
            return None
    return repeats


def _group_axes(shapes: Sequence[Sequence[int]], rank: int) -> List[List[int]]:
    """Group adjacent axes along which the same operands broadcast. An axis of size 1 everywhere joins any group."""
    groups: List[List[int]] = []
    last_pattern: Any = None
    for axis in range(rank):
        sizes = [shape[axis - rank] if len(shape) >= rank - axis else 1 for shape in shapes]
        is_one = [is_equal(size, 1) for size in sizes]
        pattern = None if all(is_one) else is_one
        if groups and (pattern is None or last_pattern is None or pattern == last_pattern):
            groups[-1].append(axis)
        else:
            groups.append([axis])
        last_pattern = pattern or last_pattern
    return groups


def _merge_dims(dims: Sequence[Any], groups: Sequence[Sequence[int]], rank: int) -> Tuple[Any, ...]:
    """Return the sizes with each group of axes as a single axis."""
    full = (1,) * (rank - len(dims)) + tuple(dims)
    return tuple(product([full[axis] for axis in group]) for group in groups)


def product(sizes: Sequence[Any]) -> Any:
    """Return the product of sizes; None if a size is unknown."""
    return None if any(size is None for size in sizes) else functools.reduce(operator.mul, sizes)


def is_viewable(dims: Sequence[Any]) -> bool:
    """Whether RESHAPE can express the shape: at most one unknown size, and no zero beside it."""
    unknown = sum(not isinstance(size, int) for size in dims)
    return unknown == 0 or (unknown == 1 and not any(is_equal(size, 0) for size in dims))


def _knows_repeated_axes(shapes: Sequence[Sequence[Any]], rank: int) -> bool:
    """Whether it is known for each axis which operands are repeated along it.

    It is unknown for an unknown size beside an integer: the size may be 1.
    """
    for axis in range(rank):
        sizes = [shape[axis - rank] for shape in shapes if len(shape) >= rank - axis]
        wide = [size for size in sizes if not is_equal(size, 1)]
        if not is_same_shape(wide, wide[:1] * len(wide)):
            return False
    return True
