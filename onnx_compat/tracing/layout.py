"""Pending permutations: choose the physical order in which an operation works, and map axes and shapes to it.

An order is a tuple with the logical axis of each physical axis; None is the logical order. An operation accepts its
operands in an order that they already have, and declares the order of its result. A transpose is recorded only where
two operands disagree, or where the operation needs one order.
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
    """Return an order as a tuple, and the logical order as None."""
    return None if order is None or list(order) == sorted(order) else tuple(order)


def channels_last_order(rank: int) -> Order:
    """Return the order in which [N, C, spatial...] is stored as [N, spatial..., C]."""
    return normalize_order((0,) + tuple(range(2, rank)) + (1,))


def physical_axis(axis: int, order: Order) -> int:
    """Return the physical axis of a logical axis."""
    return axis if order is None else order.index(axis)


def permute_shape(values: Sequence[Extent], order: Order) -> Tuple[Extent, ...]:
    """Permute a logical shape, or another list with an entry for each axis, to the physical order."""
    return tuple(values) if order is None else tuple(values[axis] for axis in order)


def common_order(tensors: Sequence[Tensor], rank: int) -> Order:
    """Return the order for operands of one shape: the pending order of the largest operand, else the logical order.

    A pending order that is not channels-last loses to an operand of equal size in the logical order. Matrix products
    make these orders, and they need operands in the logical order.
    """
    whole = [t for t in tensors if t.ref is not None and t.rank == rank]
    pending = [t for t in whole if t.order is not None]
    if not pending:
        return None
    most = max(pending, key=_element_count)
    if most.order != channels_last_order(rank) and any(
        t.order is None and _element_count(t) >= _element_count(most) for t in whole
    ):
        return None
    return most.order


def _element_count(tensor: Tensor) -> int:
    return int(np.prod([int(d) if is_static(d) else 64 for d in tensor.shape]))


def broadcast_operand(tensor: Tensor, order: Order, rank: int) -> Arg:
    """Return an operand of a broadcast to `rank`, stored in the layout `order`.

    If `order` is not None, an operand of lower rank gets leading axes of length one. A known single element of lower rank
    becomes a scalar.
    """
    if tensor.known and tensor.value is not None:
        array = tensor.value
        if (
            array.size == 1 and array.ndim < rank
        ):  # at full rank it may be the operand that decides the rank of the result
            return current_trace().constant(array.reshape(()), tensor.dtype)
        if order is not None and array.ndim < rank:
            array = array.reshape((1,) * (rank - array.ndim) + array.shape)
        return current_trace().constant(array, tensor.dtype, order if array.ndim == rank else None)
    if tensor.rank < rank and order is not None:
        from onnx_compat.primitives.shape import reshape

        tensor = reshape(tensor, (1,) * (rank - tensor.rank) + tensor.shape)
    return current_trace().argument(tensor, order if tensor.rank == rank else None)


def order_without_axes(order: Order, axes: Sequence[int]) -> Order:
    """Return the order of the remaining axes when logical axes are removed."""
    if order is None:
        return None
    kept = [axis for axis in range(len(order)) if axis not in axes]
    return normalize_order([kept.index(axis) for axis in order if axis not in axes])


def order_with_axes(order: Order, axes: Sequence[int], rank: int) -> Order:
    """Return the order when axes of length one are inserted at these axes of the new shape.

    Each is stored before the next axis of the new shape.
    """
    if order is None:
        return None
    old = [axis for axis in range(rank) if axis not in axes]
    result: List[int] = [old[axis] for axis in order]
    for axis in sorted(axes):
        following = [later_axis for later_axis in range(axis + 1, rank) if later_axis in result]
        result.insert(result.index(following[0]) if following else len(result), axis)
    return normalize_order(result)


def reshape_orders(before: Sequence[Extent], order: Order, after: Sequence[Extent]) -> Tuple[Order, Order]:
    """Return the order in which a reshape from `before` to `after` reads its operand, and the order of its result.

    `order` is the order in which the operand is stored. The shapes are divided into groups of axes with equal products:
    [N, C, H, W] -> [N, g, C/g, H*W] has the groups N -> N; C -> g, C/g; H, W -> H*W. If the axes of each group are
    stored side by side, the groups keep their storage order: mostly the data does not move. Otherwise both orders are
    logical, or channels-last for an image.
    """
    if order is None:
        return None, None
    groups = _groups(before, after)
    consumed: List[int] = []
    produced: List[int] = []
    physical = [axis for axis in order if not _is_unit(before[axis])]
    while len(consumed) < len(physical):
        group = next((g for g in groups if physical[len(consumed)] in g[0]), None)
        if group is None or sorted(physical[len(consumed) : len(consumed) + len(group[0])]) != group[0]:
            return _image_orders(groups, physical, before, after)
        consumed.extend(group[0])
        produced.extend(group[1])
    if any(not _is_unit(extent) for axis, extent in enumerate(after) if axis not in produced):
        return None, None
    return order if consumed == physical else _insert_unit_axes(consumed, len(before)), _insert_unit_axes(
        produced, len(after)
    )


def _image_orders(
    groups: Sequence[Tuple[List[int], List[int]]],
    physical: List[int],
    before: Sequence[Extent],
    after: Sequence[Extent],
) -> Tuple[Order, Order]:
    """Return channels-last orders for a reshape to an image whose groups are scattered; (None, None) if they do not fit.

    The data has to move in any case: blocks of channels become pixels, or pixels become channels. So it moves to the
    layout of the next convolution, if the stored axes of batch and pixels have that order already.
    """
    last = channels_last_order(4)
    if current_trace().layout != "channels_last" or len(after) != 4 or any(len(group[1]) != 1 for group in groups):
        return None, None
    positions = {outs[0]: [physical.index(axis) for axis in ins] for ins, outs in groups}
    ranked = sorted(groups, key=lambda group: max(positions[1]) if group[1] == [1] else positions[group[1][0]][0])
    if [axis for _, (axis,) in ranked] != [axis for axis in last or () if not _is_unit(after[axis])]:
        return None, None
    return _insert_unit_axes([axis for ins, _ in ranked for axis in ins], len(before)), last


def _insert_unit_axes(order: List[int], rank: int) -> Order:
    """Insert the missing axes, which have length one, each before the next axis."""
    for axis in range(rank):
        if axis not in order:
            following = [k for k, present in enumerate(order) if present > axis]
            order.insert(following[0] if following else len(order), axis)
    return normalize_order(order)


def _is_unit(extent: Extent) -> bool:
    return is_equal(extent, 1)


def _groups(before: Sequence[Extent], after: Sequence[Extent]) -> List[Tuple[List[int], List[int]]]:
    """Divide two shapes into groups of axes that hold the same elements, as finely as their sizes decide."""
    ins = [axis for axis in range(len(before)) if not _is_unit(before[axis])]
    outs = [axis for axis in range(len(after)) if not _is_unit(after[axis])]
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
            else:  # symbolic sizes do not decide it: the rest is one group
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
