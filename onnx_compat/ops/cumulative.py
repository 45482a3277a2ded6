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
    """Return the cumulative sum along an axis, in the shape and dtype of x: [1, 2, 3] -> [1, 3, 6].

    - exclusive: if nonzero, a sum leaves out its own element: [1, 2, 3] -> [0, 1, 3].
    - reverse: if nonzero, sum from the end of the axis: [1, 2, 3] -> [6, 5, 3].

    Unsigned integers are summed in int64. Raises NeedsKnownError if the axis is not known, and InvalidModelError if it
    is out of range.
    """
    axis_index = known_number(axis, "the axis of a CumSum")
    if x.dtype.kind == "u":
        return p.cast(p.cumsum(p.cast(x, int64), axis_index, bool(exclusive), bool(reverse)), x.dtype)
    return p.cumsum(x, axis_index, bool(exclusive), bool(reverse))


@op("CumProd", since=26)
def cumprod(x: Tensor, axis: Tensor, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Return the cumulative product along an axis, in the shape and dtype of x: [2, 3, 4] -> [2, 6, 24].

    - exclusive: if nonzero, a product leaves out its own element: [2, 3, 4] -> [1, 2, 6].
    - reverse: if nonzero, multiply from the end of the axis: [2, 3, 4] -> [24, 12, 4].

    Floats of fewer than 32 bits are computed in float32. Raises NeedsKnownError if the axis is not known, and
    InvalidModelError if it is out of range.
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
