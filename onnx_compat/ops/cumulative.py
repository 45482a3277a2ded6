"""Cumulative sums and products."""

from typing import List

from onnx_compat import primitives as p
from onnx_compat.ir.dims import is_equal
from onnx_compat.ir.dtypes import float32, int64
from onnx_compat.ops.arguments import known_number
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift


@op("CumSum", since=(11, 14))
def cumsum(x: Tensor, axis: Tensor, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Return the cumulative sum along an axis, in the shape and dtype of x. Unsigned integers are summed in int64.

    `exclusive` leaves out the element itself; `reverse` sums from the end. Raises NeedsKnownError if the axis is not
    known.
    """
    axis_index = known_number(axis, "the axis of a CumSum")
    if x.dtype.kind == "u":
        return p.cast(p.cumsum(p.cast(x, int64), axis_index, bool(exclusive), bool(reverse)), x.dtype)
    return p.cumsum(x, axis_index, bool(exclusive), bool(reverse))


@op("CumProd", since=26)
def cumprod(x: Tensor, axis: Tensor, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Return the cumulative product along an axis, as a scan over its slices. 16-bit floats are computed in float32.

    `exclusive` leaves out the element itself; `reverse` multiplies from the end. An axis of size 0 returns x. Raises
    NeedsKnownError if the axis is not known.
    """
    axis_index = p.axis_of(known_number(axis, "the axis of a CumProd"), x.rank)
    length = x.shape[axis_index]
    if is_equal(length, 0):
        return x
    compute_type = float32 if x.dtype.kind == "f" and x.dtype.bits < 32 else x.dtype
    permutation = [axis_index, *[k for k in range(x.rank) if k != axis_index]]
    slices = p.transpose(p.cast(x, compute_type), permutation)

    def step(total: Tensor, factor: Tensor) -> List[Tensor]:
        product = total * factor
        return [product, total if exclusive else product]

    start = p.broadcast_to(lift(1, compute_type), slices.shape[1:])
    running = p.scan(step, [start], [slices], length, bool(reverse))[1]
    return p.cast(p.transpose(running, [permutation.index(k) for k in range(x.rank)]), x.dtype)
