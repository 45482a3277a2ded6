"""The rows that a scan reads and writes: slices along the first axis."""

from typing import Sequence

import numpy as np

from onnx_compat.shim import Ref
from onnx_compat_tflite.emitter import (
    comparison,
    counting,
    elementwise,
    gathering,
    joining,
    runtime_sizes,
    slicing,
    subgraph_inputs,
)
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["can_drop_spare_rows", "drop_spare_rows", "pack_rows", "split_rows", "take_block", "take_row", "write_rows"]


def split_rows(builder: Builder, x: Handle, length: int) -> Sequence[Handle]:
    """Return the rows of x: the slices along the first axis, each without this axis.

    `length` is the known length of the first axis. The op is UNPACK. For a constant x, and for a dtype that UNPACK does
    not accept, a GATHER gives each row.
    """
    if x.is_constant or not builder.accepts("UNPACK", x.dtype):
        return [take_row(builder, x, Handle.of(np.asarray(k, np.int32))) for k in range(length)]
    return builder.add_ops("UNPACK", [x], [(x.dtype, x.dims[1:])] * length, num=length, axis=0)


def take_row(builder: Builder, x: Handle, index: Handle) -> Handle:
    """Return the row of x at an index, an int32 scalar, without the first axis."""
    return gathering.gather(builder, x, index, 0)


def pack_rows(builder: Builder, rows: Sequence[Handle]) -> Handle:
    """Stack rows of equal shape, at least one, along a new first axis."""
    return joining.pack(builder, rows[0], rows[1:])


def take_block(builder: Builder, x: Handle, index: Handle, count: int) -> Sequence[Handle]:
    """Return `count` rows of x, each without the first axis, from an index (an int32 scalar) on."""
    if count == 1:
        return [take_row(builder, x, index)]
    # GATHER, since a SLICE with a variable start has a dynamic shape: runtimes plan its consumers at each iteration.
    indices = elementwise.add(builder, index, Handle.of(np.arange(count, dtype=np.int32)))
    return split_rows(builder, gathering.gather(builder, x, indices, 0), count)


def write_rows(builder: Builder, buffer: Handle, rows: Sequence[Handle], index: Handle) -> Handle:
    """Return a copy of `buffer` whose rows from `index` (an int32 scalar) on are replaced by `rows`.

    Each of `rows` lacks the first axis. The op is DYNAMIC_UPDATE_SLICE, or SELECT_V2 if DYNAMIC_UPDATE_SLICE does not
    accept the dtype. For SELECT_V2, `rows` must have exactly one element.
    """
    block = pack_rows(builder, rows) if len(rows) > 1 else _prepend_row_axis(builder, rows[0])
    if builder.accepts("DYNAMIC_UPDATE_SLICE", buffer.dtype):
        start = runtime_sizes.stack(builder, [index, *[0] * rows[0].rank])
        return builder.add_op("DYNAMIC_UPDATE_SLICE", [buffer, block, start], buffer.dtype, buffer.dims)
    is_row = comparison.equal(builder, counting.grid(builder, buffer, 0), index)
    return comparison.where(builder, is_row, block, buffer)


def _prepend_row_axis(builder: Builder, row: Handle) -> Handle:
    """Return a row with a first axis of length 1."""
    shape = (
        joining.concatenate(builder, builder.ints(1), [builder.shape_tensor(row)], 0)
        if not row.is_static
        else builder.ints(1, *row.dims)
    )
    return builder.add_op("RESHAPE", [row, shape], row.dtype, (1, *row.dims))


def can_drop_spare_rows(builder: Builder, ref: Ref) -> bool:
    """Whether the runtime can write a stacked result `ref` into a buffer with spare rows, and slice these rows off.

    It can if its DYNAMIC_UPDATE_SLICE accepts the dtype, and its STRIDED_SLICE accepts the dtype and the rank.
    """
    feature = "rank 6" if ref.spec.rank > 5 else "plain"
    return builder.accepts("DYNAMIC_UPDATE_SLICE", subgraph_inputs.stored_type(ref)) and builder.accepts(
        "STRIDED_SLICE", subgraph_inputs.stored_type(ref), feature
    )


def drop_spare_rows(builder: Builder, buffer: Handle, rows: int, ref: Ref) -> Handle:
    """Return a result buffer without its last `rows` rows; the buffer itself for 0. `ref` has the final shape."""
    if not rows:
        return buffer
    begin, end = [0] * buffer.rank, [-rows, *[2**31 - 1] * (buffer.rank - 1)]
    return slicing.add_strided_slice(
        builder, buffer, builder.ints(*begin), builder.ints(*end), [1] * buffer.rank, ref.spec.shape
    )
