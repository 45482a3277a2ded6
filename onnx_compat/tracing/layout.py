"""Pending permutations: which order an operation works in, and how an axis or a shape looks there.

An order is a tuple that says, for each physical axis, which logical axis lies there; None is the order as written.
The rule of the whole library: an operation takes its operands in an order in which they already are, and says in which
order its result is. A permutation is carried out only where two operands disagree, or where the order truly matters.
"""

from typing import List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.ir import Arg
from onnx_compat.ir.dims import Extent, floordiv, is_equal, is_static
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Order, Tensor

__all__ = [
    "broadcast_operand",
    "channels_last_order",
    "common_order",
    "order_with_axes",
    "order_without_axes",
    "permute_shape",
    "physical_axis",
    "reshape_orders",
]


def normalize_order(order: Optional[Sequence[int]]) -> Order:
    """None for the order as written."""
    return None if order is None or list(order) == sorted(order) else tuple(order)


def channels_last_order(rank: int) -> Order:
    """[N, C, spatial...] stored as [N, spatial..., C]."""
    return normalize_order((0,) + tuple(range(2, rank)) + (1,))


def physical_axis(axis: int, order: Order) -> int:
    """The physical place of a logical axis."""
    return axis if order is None else order.index(axis)


def permute_shape(values: Sequence[Extent], order: Order) -> Tuple[Extent, ...]:
    """A logical shape (or any list with an entry per axis) in physical order."""
    return tuple(values) if order is None else tuple(values[axis] for axis in order)


def common_order(tensors: Sequence[Tensor], rank: int) -> Order:
    """The order in which operands of one shape meet: the pending one of most elements, else as written. One that no
    convolution asks for gives way to an operand that is as written: products of matrices, which made it, ask for that.
    """
    whole = [t for t in tensors if t.ref is not None and t.rank == rank]
    pending = [t for t in whole if t.order is not None]
    if not pending:
        return None
    most = max(pending, key=_weight)
    if most.order != channels_last_order(rank) and any(t.order is None and _weight(t) >= _weight(most) for t in whole):
        return None
    return most.order


def _weight(tensor: Tensor) -> int:
    return int(np.prod([int(d) if is_static(d) else 64 for d in tensor.shape]))


def broadcast_operand(tensor: Tensor, order: Order, rank: int) -> Arg:
    """An operand for broadcasting to `rank` in `order`: lower ranks are filled with leading axes of length one."""
    if tensor.known and tensor.value is not None:
        array = tensor.value
        if array.size == 1 and array.ndim < rank:  # of full rank, it may be what gives the result its rank
            return current_trace().constant(array.reshape(()), tensor.dtype)
        if order is not None and array.ndim < rank:
            array = array.reshape((1,) * (rank - array.ndim) + array.shape)
        return current_trace().constant(array, tensor.dtype, order if array.ndim == rank else None)
    if tensor.rank < rank and order is not None:
        from onnx_compat.primitives.shape import reshape

        tensor = reshape(tensor, (1,) * (rank - tensor.rank) + tensor.shape)
    return current_trace().argument(tensor, order if tensor.rank == rank else None)


def order_without_axes(order: Order, axes: Sequence[int]) -> Order:
    """The order of what is left when logical axes are taken out."""
    if order is None:
        return None
    left = [axis for axis in range(len(order)) if axis not in axes]
    return normalize_order([left.index(axis) for axis in order if axis not in axes])


def order_with_axes(order: Order, axes: Sequence[int], rank: int) -> Order:
    """The order when axes of length one are put in at these places of the new shape (stored before their neighbour)."""
    if order is None:
        return None
    old = [axis for axis in range(rank) if axis not in axes]
    result: List[int] = [old[axis] for axis in order]
    for axis in sorted(axes):
        following = [other for other in range(axis + 1, rank) if other in result]
        result.insert(result.index(following[0]) if following else len(result), axis)
    return normalize_order(result)


def reshape_orders(before: Sequence[Extent], order: Order, after: Sequence[Extent]) -> Tuple[Order, Order]:
    """In which order to take `before`, stored in `order`, so that it can be reshaped to `after` as it lies; and the
    order of the result.

    The two shapes are cut into groups of axes with equal products ([N, C, H, W] -> [N, g, C/g, H*W] is N; C -> g, C/g;
    H, W -> H*W). A group that is stored together is put in order where it is (mostly it is already: nothing moves) and
    its new axes take its place; if one is scattered, everything is taken as written, or an image with its channels last.
    """
    if order is None:
        return None, None
    groups = _groups(before, after)
    taken: List[int] = []
    place: List[int] = []
    physical = [axis for axis in order if not _unit(before[axis])]
    while len(taken) < len(physical):
        group = next((g for g in groups if physical[len(taken)] in g[0]), None)
        if group is None or sorted(physical[len(taken) : len(taken) + len(group[0])]) != group[0]:
            return _as_image(groups, physical, before, after)
        taken.extend(group[0])
        place.extend(group[1])
    if any(not _unit(extent) for axis, extent in enumerate(after) if axis not in place):
        return None, None
    return order if taken == physical else _completed(taken, len(before)), _completed(place, len(after))


def _as_image(
    groups: Sequence[Tuple[List[int], List[int]]],
    physical: List[int],
    before: Sequence[Extent],
    after: Sequence[Extent],
) -> Tuple[Order, Order]:
    """What has to be moved anyway (blocks of channels that become pixels, or pixels that become channels) is moved to where
    the next convolution wants it: if pixels begin in that order as they are stored, and some of the channels are behind.
    """
    last = channels_last_order(4)
    if current_trace().layout != "channels_last" or len(after) != 4 or any(len(group[1]) != 1 for group in groups):
        return None, None
    places = {outs[0]: [physical.index(axis) for axis in ins] for ins, outs in groups}
    ranked = sorted(groups, key=lambda group: max(places[1]) if group[1] == [1] else places[group[1][0]][0])
    if [axis for _, (axis,) in ranked] != [axis for axis in last or () if not _unit(after[axis])]:
        return None, None
    return _completed([axis for ins, _ in ranked for axis in ins], len(before)), last


def _completed(place: List[int], rank: int) -> Order:
    """With the axes of length one that are missing, each before its neighbour."""
    for axis in range(rank):
        if axis not in place:
            following = [k for k, other in enumerate(place) if other > axis]
            place.insert(following[0] if following else len(place), axis)
    return normalize_order(place)


def _unit(extent: Extent) -> bool:
    return is_equal(extent, 1)


def _groups(before: Sequence[Extent], after: Sequence[Extent]) -> List[Tuple[List[int], List[int]]]:
    """Axes of the one shape beside the axes of the other that hold the same elements, as finely as can be told."""
    ins = [axis for axis in range(len(before)) if not _unit(before[axis])]
    outs = [axis for axis in range(len(after)) if not _unit(after[axis])]
    groups = []
    i = j = 0
    while i < len(ins) and j < len(outs):
        group: Tuple[List[int], List[int]] = ([ins[i]], [outs[j]])
        left, right = before[ins[i]], after[outs[j]]
        i, j = i + 1, j + 1
        while not is_equal(left, right):
            if _divides(left, right) and i < len(ins):
                left = left * before[ins[i]]
                group[0].append(ins[i])
                i += 1
            elif _divides(right, left) and j < len(outs):
                right = right * after[outs[j]]
                group[1].append(outs[j])
                j += 1
            else:  # no telling: the rest is one group
                group[0].extend(ins[i:])
                group[1].extend(outs[j:])
                i, j = len(ins), len(outs)
                break
        groups.append(group)
    if groups and (i < len(ins) or j < len(outs)):
        groups[-1][0].extend(ins[i:])
        groups[-1][1].extend(outs[j:])
    return groups


def _divides(part: Extent, whole: Extent) -> bool:
    if is_static(part) and is_static(whole):
        return 0 < int(part) < int(whole)
    quotient = floordiv(whole, part)
    return is_equal(quotient * part, whole)
