"""Running sums and products."""

from typing import List

from onnx_compat import primitives as p
from onnx_compat.ir.dims import is_equal
from onnx_compat.ir.dtypes import float32, int64
from onnx_compat.ops.arguments import known_number
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift


@op("CumSum", since=(11, 14))
def cumsum(x: Tensor, axis: Tensor, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    place = known_number(axis, "the axis of a CumSum")
    if x.dtype.kind == "u":
        return p.cast(p.cumsum(p.cast(x, int64), place, bool(exclusive), bool(reverse)), x.dtype)
    return p.cumsum(x, place, bool(exclusive), bool(reverse))


@op("CumProd", since=26)
def cumprod(x: Tensor, axis: Tensor, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """One slice of the axis after the other. What is narrower than float32 is not rounded on the way."""
    place = p.axis_of(known_number(axis, "the axis of a CumProd"), x.rank)
    length = x.shape[place]
    if is_equal(length, 0):
        return x
    inner = float32 if x.dtype.kind == "f" and x.dtype.bits < 32 else x.dtype
    front = [place, *[k for k in range(x.rank) if k != place]]
    slices = p.transpose(p.cast(x, inner), front)

    def step(total: Tensor, factor: Tensor) -> List[Tensor]:
        after = total * factor
        return [after, total if exclusive else after]

    start = p.broadcast_to(lift(1, inner), slices.shape[1:])
    running = p.scan(step, [start], [slices], length, bool(reverse))[1]
    return p.cast(p.transpose(running, [front.index(k) for k in range(x.rank)]), x.dtype)
