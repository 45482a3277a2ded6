"""Reshapes: the elements keep their order, and most reshapes insert or remove axes of length 1."""

from typing import Any, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Sizes
from onnx_compat_tflite.emitter import joining
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.known_shapes import is_same_shape
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = [
    "append_axis",
    "flatten",
    "insert_axis",
    "insert_height",
    "prepend_axes",
    "remove_height",
    "reshape",
    "reshape_to",
]


@primitive
def reshape(builder: Builder, x: Handle, sizes: Sizes) -> Handle:
    """Reshape x to sizes, some of which may be computed at run time.

    If all sizes are known, returns the result of `reshape_to`: x itself, a constant or a RESHAPE. Otherwise appends
    RESHAPE, also for a constant x.
    """
    if sizes.known is not None:
        return reshape_to(builder, x, sizes.known)
    if x.is_constant:
        x = builder.graph.copy(x)
    fixed = sizes.with_wildcard
    shape = sizes.tensor if fixed is None else builder.ints(*fixed)
    return builder.add_op("RESHAPE", [x, shape], x.dtype, builder.out.shape)


def reshape_to(builder: Builder, x: Handle, dims: Sequence[Any]) -> Handle:
    """Return x in the shape `dims`.

    - If the shape of x is provably `dims`, the result is x.
    - If x is a constant, the result is a constant. All of `dims` must then be ints.
    - Otherwise RESHAPE computes the result. One size may then be symbolic or None, if no other size is zero.
    """
    if is_same_shape(x.dims, dims):
        return x
    if x.is_constant:
        return Handle.of(x.array.reshape(dims))
    if not dims:
        return builder.add_op("RESHAPE", [x], x.dtype, (), new_shape=[])
    target = builder.ints(*[size if isinstance(size, int) else -1 for size in dims])
    return builder.add_op("RESHAPE", [x, target], x.dtype, dims)


def flatten(builder: Builder, x: Handle) -> Handle:
    """Reshape x to a vector; a scalar becomes a vector of one element."""
    if x.is_static:
        return reshape_to(builder, x, (int(np.prod(x.dims)),))
    return builder.add_op("RESHAPE", [x, builder.ints(-1)], x.dtype, (None,))


def append_axis(builder: Builder, x: Handle) -> Handle:
    """Return x with a new last axis of length 1."""
    if x.is_static:
        return reshape_to(builder, x, (*x.dims, 1))
    last = Handle.of(np.asarray(x.rank, np.int32))
    return builder.add_op("EXPAND_DIMS", [x, last], x.dtype, (*x.dims, 1))


def insert_axis(builder: Builder, x: Handle, offset: int) -> Handle:
    """Insert an axis of length 1 at axis rank + `offset`: 0 makes it the last axis, -1 the last but one."""
    axis = x.rank + offset
    dims = x.dims[:axis] + (1,) + x.dims[axis:]
    if x.is_static:
        return reshape_to(builder, x, dims)
    return builder.add_op("EXPAND_DIMS", [x, Handle.of(np.asarray(axis, np.int32))], x.dtype, dims)


def prepend_axes(builder: Builder, x: Handle, rank: int) -> Handle:
    """Reshape x to a rank by new leading axes of length 1: rank 4, [2, 3] -> [1, 1, 2, 3].

    If x has this rank, returns x. `rank` must not be less than the rank of x.
    """
    if x.rank == rank:
        return x
    dims: Tuple[Any, ...] = (1,) * (rank - x.rank) + x.dims
    if x.is_static:
        return reshape_to(builder, x, dims)
    if not x.is_empty and sum(not isinstance(size, int) for size in dims) == 1:
        shape = builder.ints(*[size if isinstance(size, int) else -1 for size in dims])
    else:
        shape = joining.concatenate(builder, builder.ints(*dims[: rank - x.rank]), [builder.shape_tensor(x)], 0)
    return builder.add_op("RESHAPE", [x, shape], x.dtype, dims)


def insert_height(builder: Builder, x: Handle) -> Handle:
    """Insert an axis of length 1 after the first axis: [n, w, c] becomes [n, 1, w, c]."""
    dims = (x.dims[0], 1, *x.dims[1:])
    if x.is_static:
        return reshape_to(builder, x, dims)
    return builder.add_op("EXPAND_DIMS", [x, Handle.of(np.asarray(1, np.int32))], x.dtype, dims)


def remove_height(builder: Builder, x: Handle) -> Handle:
    """Return x without its second axis, of length 1: [n, 1, w, c] becomes [n, w, c]. The inverse of `insert_height`."""
    dims = (x.dims[0], *x.dims[2:])
    if x.is_static:
        return reshape_to(builder, x, dims)
    return builder.add_op("SQUEEZE", [x], x.dtype, dims, squeeze_dims=[1])
