"""Operands of different shape for kernels that broadcast only four axes (older ones end the process beyond that)."""

import functools
import operator
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import is_equal
from onnx_compat_tflite.emitter.base import Base, is_same_shape
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Broadcasting", "broadcast_dims"]

_AXES = 4


def broadcast_dims(shapes: Sequence[Sequence[Any]]) -> Tuple[Any, ...]:
    """The shape that these have in common, None where it cannot be told."""
    rank = max(map(len, shapes))
    return tuple(_size([s[axis - rank] for s in shapes if len(s) >= rank - axis]) for axis in range(rank))


def _size(sizes: Sequence[Any]) -> Any:
    other = [size for size in sizes if not (isinstance(size, int) and size == 1)]
    known = [size for size in other if isinstance(size, int)]
    if known or not other:
        return known[0] if known else 1
    first = other[0]
    return first if first is not None and all(s is not None and is_equal(first, s) for s in other) else None


class Broadcasting(Base):
    """Element-wise operators."""

    def elementwise(
        self, builtin: str, operands: Sequence[Handle], dtype: Optional[str] = None, **options: Any
    ) -> Handle:
        """An operator over operands that broadcast together; the result has the type of the last one, or `dtype`."""
        met, restored = self.align_operands(operands)
        result = self.add_op(
            builtin, met, dtype or operands[-1].dtype, broadcast_dims([h.dims for h in met]), **options
        )
        return restored(result)

    def align_operands(self, operands: Sequence[Handle]) -> Tuple[List[Handle], Callable[[Handle], Handle]]:
        """The operands in shapes that every kernel broadcasts, and how the result gets its own shape again."""
        shapes = [handle.dims for handle in operands]
        whole = broadcast_dims(shapes)
        if len(whole) <= _AXES or all(is_same_shape(shape, shapes[0]) for shape in shapes[1:]):
            return list(operands), lambda result: result
        if all(map(is_viewable, [*shapes, whole])) and _told(shapes, len(whole)):
            groups = _groups(shapes, len(whole))
            if len(groups) <= _AXES:
                met = [self.reshape_to(handle, _merged(handle.dims, groups, len(whole))) for handle in operands]
                return met, lambda result: self.reshape_to(result, whole)
        if all(handle.is_static for handle in operands):
            target = self.ints(*whole)
        else:
            target = self.shape_tensor(operands[0])
            for handle in operands[1:]:
                dims = (max(handle.rank, target.dims[0]),)
                target = self.add_op("BROADCAST_ARGS", [target, self.shape_tensor(handle)], "int32", dims)
        return [self.broadcast(handle, target, whole) for handle in operands], lambda result: result

    def reshape_to(self, x: Handle, dims: Sequence[Any]) -> Handle:
        """x under another shape, of which one size may be open if none is zero."""
        if is_same_shape(x.dims, dims):
            return x
        if x.is_constant:
            return Handle.of(x.array.reshape(dims))
        if not dims:
            return self.add_op("RESHAPE", [x], x.dtype, (), new_shape=[])
        target = self.ints(*[size if isinstance(size, int) else -1 for size in dims])
        return self.add_op("RESHAPE", [x, target], x.dtype, dims)

    def broadcast(self, x: Handle, target: Handle, dims: Sequence[Any]) -> Handle:
        """x broadcast to a shape that is a tensor."""
        if is_same_shape(x.dims, dims):
            return x
        if x.is_constant and all(isinstance(size, int) for size in dims) and int(np.prod(dims)) <= 64:
            return Handle.of(np.broadcast_to(x.array, dims).copy())
        repeats = _repeats(x.dims, dims)
        if repeats is not None and self.accepts("TILE", x.dtype):
            return self.add_op("TILE", [x, self.ints(*repeats)], x.dtype, dims)
        if not self.accepts("BROADCAST_TO", x.dtype):
            narrow: Handle = self.call_widened(
                lambda _, y: self.broadcast(y, target, dims), ["BROADCAST_TO"], x, (), {}
            )
            return narrow
        if self.accepts("BROADCAST_TO", "float32", "none") or all(isinstance(size, int) and size for size in dims):
            return self.add_op("BROADCAST_TO", [x, target], x.dtype, dims)
        return self._broadcast_beyond_empty(x, target, dims)

    def _broadcast_beyond_empty(self, x: Handle, target: Handle, dims: Sequence[Any]) -> Handle:
        """Kernels may write beyond the end where an axis becomes empty: it gets one element, which is cut off again."""
        own = self.shape_tensor(x)
        if x.rank < len(dims):
            ones = Handle.of(np.ones(len(dims) - x.rank, np.int32))
            own = self.add_op("CONCATENATION", [ones, own], "int32", (len(dims),), axis=0) if x.rank else ones
        least = self.add_op("MINIMUM", [Handle.of(np.ones((), np.int32)), own], "int32", (len(dims),))
        size = self.add_op("MAXIMUM", [least, target], "int32", (len(dims),))
        whole = self.add_op("BROADCAST_TO", [x, size], x.dtype, [None] * len(dims))
        kept: Handle = self._add_slice(whole, Handle.of(np.zeros(len(dims), np.int32)), target, dims)
        return kept

    _add_slice: Callable[..., Handle]  # see shape


def _repeats(narrow: Sequence[Any], wide: Sequence[Any]) -> Optional[List[int]]:
    """How often each axis is repeated, where that is known and not zero times: TILE copies whole rows, and takes a hundredth of
    the time of BROADCAST_TO, which looks up the place of every element.
    """
    if len(narrow) != len(wide):
        return None
    repeats: List[int] = []
    for here, there in zip(narrow, wide):
        if is_same_shape([here], [there]):
            repeats.append(1)
        elif is_equal(here, 1) and isinstance(there, int) and there > 0:
            repeats.append(there)
        else:
            return None
    return repeats


def _groups(shapes: Sequence[Sequence[int]], rank: int) -> List[List[int]]:
    """Neighbouring axes that broadcast alike, as one axis each; axes of length one everywhere belong to any."""
    groups: List[List[int]] = []
    before: Any = None
    for axis in range(rank):
        sizes = [shape[axis - rank] if len(shape) >= rank - axis else 1 for shape in shapes]
        alone = [is_equal(size, 1) for size in sizes]
        pattern = None if all(alone) else alone
        if groups and (pattern is None or before is None or pattern == before):
            groups[-1].append(axis)
        else:
            groups.append([axis])
        before = pattern or before
    return groups


def _merged(dims: Sequence[Any], groups: Sequence[Sequence[int]], rank: int) -> Tuple[Any, ...]:
    full = (1,) * (rank - len(dims)) + tuple(dims)
    return tuple(product([full[axis] for axis in group]) for group in groups)


def product(sizes: Sequence[Any]) -> Any:
    return None if any(size is None for size in sizes) else functools.reduce(operator.mul, sizes)


def is_viewable(dims: Sequence[Any]) -> bool:
    """Whether a RESHAPE can say it: with one -1 for an open size, and no zero beside that."""
    many = sum(not isinstance(size, int) for size in dims)
    return many == 0 or (many == 1 and not any(is_equal(size, 0) for size in dims))


def _told(shapes: Sequence[Sequence[Any]], rank: int) -> bool:
    """Whether it is known of each axis which operands are repeated along it: an open size beside a number may be one."""
    for axis in range(rank):
        sizes = [shape[axis - rank] for shape in shapes if len(shape) >= rank - axis]
        wide = [size for size in sizes if not is_equal(size, 1)]
        if not is_same_shape(wide, wide[:1] * len(wide)):
            return False
    return True
