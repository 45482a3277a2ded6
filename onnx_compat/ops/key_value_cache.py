"""TensorScatter: write new steps into a key-value cache of attention."""

from typing import Optional

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import int64
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift


def write_steps(cache: Tensor, update: Tensor, first: Tensor, circular: bool = False) -> Tensor:
    """Return the cache [batch, slots, ...] with the update [batch, steps, ...] written from slot `first[b]` on.

    `first` is a vector with an entry for each sample b. If `circular`, steps beyond the last slot continue at slot 0.
    Otherwise `first[b]` + steps must not exceed the number of slots.
    """
    batch, steps = update.shape[:2]
    slots = p.add(p.unsqueeze(p.cast(first, int64), [1]), p.unsqueeze(p.iota(steps), [0]))
    if circular:
        slots = p.mod(slots, lift(cache.shape[1], int64))
    samples = p.broadcast_to(p.unsqueeze(p.iota(batch), [1]), (batch, steps))
    return p.scatter_nd(cache, p.stack([samples, slots], 2), update)


@op("TensorScatter", since=24)
def tensor_scatter(
    past_cache: Tensor, update: Tensor, write_indices: Optional[Tensor] = None, *, axis: int = -2, mode: str = "linear"
) -> Tensor:
    """Return the cache with the update written along an axis, from index `write_indices[b]` on for sample b.

    The samples are axis 0. Without write_indices, the update is written from index 0 on. The update must not be longer
    than the axis.

    - mode "linear": the update must fit between its index and the end of the axis.
    - mode "circular": an update that reaches the end of the axis continues at index 0.

    Raises InvalidModelError for axis 0, for an axis out of range, and for another mode.
    """
    if mode not in ("linear", "circular"):
        raise InvalidModelError("the mode of a TensorScatter is 'linear' or 'circular', not %r" % mode)
    axis = p.axis_of(axis, past_cache.rank)
    if axis == 0:
        raise InvalidModelError("the axis of a TensorScatter is 0, which is the batch; it must be another axis")
    if write_indices is None:
        return p.concat([update, p.slice_axis(past_cache, axis, update.shape[axis], None)], axis)
    order = [0, axis] + [k for k in range(1, past_cache.rank) if k != axis]
    back = [order.index(k) for k in range(past_cache.rank)]
    cache, steps = (p.transpose(x, order) for x in (past_cache, update))
    return p.transpose(write_steps(cache, steps, write_indices, mode == "circular"), back)
