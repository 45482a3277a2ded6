"""Primitives that repeat elements: broadcasts to a shape, and tiles."""

from typing import Any, Optional, Sequence

import numpy as np

from onnx_compat.shim import Sizes
from onnx_compat_tflite.emitter import broadcasting, extremes, joining, reshaping, slicing
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.emitter.widening import widen_for
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["broadcast_known", "broadcast_to", "tile"]


@primitive
def broadcast_to(builder: Builder, x: Handle, sizes: Sizes) -> Handle:
    """Broadcast x to `sizes`, known or computed at run time: by BROADCAST_TO, FILL or TILE.

    For an x without strings:

    - If x provably has these sizes, six at most, the result is x.
    - If x is a constant and the result has at most 64 elements, the result is a constant.

    Raises UnsupportedError if no kernel accepts x's dtype or a wider dtype.
    """
    known = sizes.known
    target = builder.ints(*known) if known is not None else sizes.tensor
    if x.dtype == "string":
        return _tile_text(builder, x, known, target)
    if x.rank == 0 and builder.accepts("FILL", x.dtype) and not (known is not None and int(np.prod(known)) <= 64):
        return builder.add_op("FILL", [target, x], x.dtype, builder.out.shape)
    if len(sizes) > 6 and known is not None and x.is_static:
        return _broadcast_merged(builder, x, known)
    return broadcasting.broadcast(builder, x, target, builder.out.shape if known is None else known)


def broadcast_known(builder: Builder, x: Handle, sizes: Sequence[int]) -> Handle:
    """Broadcast x to known sizes; return x itself if it has these sizes. For more than six sizes, x must be static."""
    if x.dims == tuple(sizes):
        return x
    if len(sizes) > 6:
        return _broadcast_merged(builder, x, sizes)
    return broadcasting.broadcast(builder, x, builder.ints(*sizes), sizes)


def _broadcast_merged(builder: Builder, x: Handle, sizes: Sequence[int]) -> Handle:
    """Broadcast a static x to known sizes. Adjacent axes along which x is not repeated are merged first."""
    full = (1,) * (len(sizes) - x.rank) + x.dims
    runs = slicing.merge_unchanged_axes([source_size != target_size for source_size, target_size in zip(full, sizes)])
    narrow, wide = ([int(np.prod([dims[axis] for axis in run])) for run in runs] for dims in (full, sizes))
    merged = reshaping.reshape_to(builder, x, narrow)
    return reshaping.reshape_to(builder, broadcasting.broadcast(builder, merged, builder.ints(*wide), wide), sizes)


def _tile_text(builder: Builder, x: Handle, known: Optional[Sequence[int]], target: Handle) -> Handle:
    """Broadcast strings by TILE: an axis of length 1 is repeated up to its target size. Missing leading axes are added.

    `known` has the target sizes, or is None if they are unknown. `target` has the target sizes as an integer vector.
    """
    dims = builder.out.shape
    if known is None or not x.is_static:
        leading_ones = builder.ints(*[1] * (len(dims) - x.rank))
        source_shape = builder.shape_tensor(x)
        if len(dims) != x.rank:
            source_shape = joining.concatenate(builder, leading_ones, [source_shape], 0)
        divisor = extremes.maximum(builder, builder.like(source_shape, 1), source_shape)
        repeats = broadcasting.add_op(builder, "FLOOR_DIV", [target, divisor])
        source = builder.add_op("RESHAPE", [x, source_shape], x.dtype, (None,) * len(dims))
        return _add_tile(builder, source, repeats, dims)
    full = (1,) * (len(known) - x.rank) + x.dims
    repeats = builder.ints(*[target_size if source_size == 1 else 1 for source_size, target_size in zip(full, known)])
    return _add_tile(builder, reshaping.reshape_to(builder, x, full), repeats, known)


@primitive
def tile(builder: Builder, x: Handle, sizes: Sizes) -> Handle:
    """Repeat x along each axis: `sizes` are the numbers of repetitions, one for each axis."""
    repeats = builder.ints(*sizes.known) if sizes.known is not None else sizes.tensor
    return _add_tile(builder, x, repeats, builder.out.shape)


@widen_for("TILE")
def _add_tile(builder: Builder, x: Handle, repeats: Handle, dims: Sequence[Any]) -> Handle:
    return builder.add_op("TILE", [x, repeats], x.dtype, dims)
