"""Pending permutations: choose the physical order in which an operation works, and map axes and shapes to it.

An order is a tuple with the logical axis of each physical axis; None is the logical order. An operation takes its
operands in the order in which they are stored, and declares the order of its result. A transpose is recorded only where
two operands are stored in different orders, or where the operation needs a certain order.
"""

from typing import List, Optional, Sequence, Tuple

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
    """Return an order as a tuple, or None if it is the logical order: [0, 2, 1] -> (0, 2, 1), [0, 1, 2] -> None.

    None stays None.
    """
    return None if order is None or list(order) == sorted(order) else tuple(order)


def channels_last_order(rank: int) -> Order:
    """Return the order that stores [N, C, spatial...] as [N, spatial..., C]: rank 4 -> (0, 2, 3, 1).

    None, the logical order, for rank 2 or less.
    """
    return normalize_order((0,) + tuple(range(2, rank)) + (1,))


def physical_axis(axis: int, order: Order) -> int:
    """Return the physical axis at which a logical axis is stored: axis 1 in the order (0, 2, 3, 1) -> 3.

    The axis counts from the front.
    """
    return axis if order is None else order.index(axis)


def permute_shape(values: Sequence[Extent], order: Order) -> Tuple[Extent, ...]:
    """Return a shape in physical order, such as [N, C, H, W] -> (N, H, W, C).

    `values` has an entry for each logical axis. `order` has the logical axis of each stored axis; None: no change.
    """
    return tuple(values) if order is None else tuple(values[axis] for axis in order)


def common_order(tensors: Sequence[Tensor], rank: int) -> Order:
    """Return the order of axes in which an operation works on these operands: a pending order, or None (logical).

    Only run-time operands of rank `rank` count. Return the pending order of the largest operand that has a pending
    order. Return None in these cases:

    - No operand has a pending order.
    - The pending order is not channels last, and an operand in logical order has at least as many elements. Pending
      orders other than channels last come from matrix products, which need the logical order.

    A symbolic size counts as 64 for the number of elements.
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
    """Estimate the number of elements: a symbolic size counts as 64."""
    count = 1
    for extent in tensor.shape:
        count *= int(extent) if is_static(extent) else 64
    return count


def broadcast_operand(tensor: Tensor, order: Order, rank: int) -> Arg:
    """Return `tensor` as an argument, stored in `order`, for an operation that broadcasts to the rank `rank`.

    - A known operand of one element and of a rank below `rank` becomes a scalar.
    - Any other operand of a rank below `rank` gets leading axes of size 1 if `order` is not None. If `order` is None,
      the operand keeps its shape, in logical order.

    A transpose or a reshape of a run-time operand is recorded if it is needed.
    """
    if tensor.known and tensor.value is not None:
        array = tensor.value
        if (
            array.size == 1 and array.ndim < rank
        ):  # an operand of full rank keeps its shape, which may decide the rank of the result
            return current_trace().constant(array.reshape(()), tensor.dtype, weight=tensor.weight)
        if order is not None and array.ndim < rank:
            array = array.reshape((1,) * (rank - array.ndim) + array.shape)
        return current_trace().constant(array, tensor.dtype, order if array.ndim == rank else None, tensor.weight)
    if tensor.rank < rank and order is not None:
        from onnx_compat.primitives.shape import reshape

        tensor = reshape(tensor, (1,) * (rank - tensor.rank) + tensor.shape)
    return current_trace().argument(tensor, order if tensor.rank == rank else None)


def order_without_axes(order: Order, axes: Sequence[int]) -> Order:
    """Return the order after removal of the logical axes `axes`, renumbered: (0, 3, 1, 2) without 1 -> (0, 2, 1).

    The axes count from the front. Return None if `order` is None, or if the logical order is left.
    """
    if order is None:
        return None
    kept = [axis for axis in range(len(order)) if axis not in axes]
    return normalize_order([kept.index(axis) for axis in order if axis not in axes])


def order_with_axes(order: Order, axes: Sequence[int], rank: int) -> Order:
    """Return the order of a tensor that is stored in `order`, after new axes of length one are inserted.

    Example: the order (0, 2, 1) with the new axis 1 and the rank 4 -> (0, 3, 1, 2).

    `axes` are the logical axes of the result that are new, counted from the front; `rank` is the rank of the result. A
    new axis is stored directly before the next logical axis, or last without a next axis. Return None if `order` is
    None, or if the result is in logical order.
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
    """Return (order in which a reshape reads its operand, order in which its result is stored).

    `before` and `after` are the shapes, with equal numbers of elements. `order` is the storage order of the operand. In
    the result, None is the logical order.

    The axes are divided into groups with equal products. [N, C, H, W] -> [N, g, C/g, H*W] has the groups N -> N;
    C -> g, C/g; H, W -> H*W.

    - `order` is None: (None, None).
    - The axes of `before` in each group are contiguous in storage: the groups keep their storage sequence in both
      orders. Inside a group, the axes are in logical order. Example: [2, 4, 5, 6] in (0, 2, 3, 1) -> [2, 2, 2, 30]
      gives (0, 2, 3, 1) and (0, 3, 1, 2).
    - Otherwise: the orders of `_image_orders` if the result can be an image in channels last, else (None, None).

    Axes of size 1 are in no group. In a new order, such an axis is before the first stored axis of a higher number, or
    last.
    """
    if order is None:
        return None, None
    groups = _axis_groups(before, after)
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
    """Return (order in which a reshape reads its operand, order of its result) if axes of a group are not contiguous.

    The reshape moves data in any case: blocks of channels become pixels, or pixels become channels. The second order is
    (0, 2, 3, 1), channels last, for the next convolution. The first order has the groups in the same sequence: the axes
    of `before` for the batch, the height, the width and the channels of the result.

    Return (None, None) unless all of these conditions hold:

    - The target has channels last, and `after` has rank 4.
    - Each group has a single axis of `after`.
    - The operand stores the groups in the same sequence. The first stored axis of a group counts, and for the group of
      the channels the last stored axis.

    `physical` has the axes of `before` in storage order, without axes of length one.
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
    """Insert the axes that `order` lacks, in place, each before the first stored axis of a higher number, or last.

    Return the order as a tuple; None if it is the logical order.
    """
    for axis in range(rank):
        if axis not in order:
            following = [k for k, present in enumerate(order) if present > axis]
            order.insert(following[0] if following else len(order), axis)
    return normalize_order(order)


def _is_unit(extent: Extent) -> bool:
    return is_equal(extent, 1)


def _axis_groups(before: Sequence[Extent], after: Sequence[Extent]) -> List[Tuple[List[int], List[int]]]:
    """Return a list of pairs (axes of `before`, axes of `after`) whose sizes have equal products, in order.

    The groups are as small as possible. If symbolic sizes do not decide where a group ends, it takes all axes that are
    left. Axes that remain in only one shape join the last group. Axes of size 1 are in no group.
    """
    ins = [axis for axis in range(len(before)) if not _is_unit(before[axis])]
    outs = [axis for axis in range(len(after)) if not _is_unit(after[axis])]
    groups = []
    i = j = 0
    while i < len(ins) and j < len(outs):
        group: Tuple[List[int], List[int]] = ([ins[i]], [outs[j]])
        left, right = before[ins[i]], after[outs[j]]
        i, j = i + 1, j + 1
        while not is_equal(left, right):
            if _can_grow_to(left, right) and i < len(ins):
                left = left * before[ins[i]]
                group[0].append(ins[i])
                i += 1
            elif _can_grow_to(right, left) and j < len(outs):
                right = right * after[outs[j]]
                group[1].append(outs[j])
                j += 1
            else:  # symbolic sizes do not decide where the group ends: all other axes join it
                group[0].extend(ins[i:])
                group[1].extend(outs[j:])
                i, j = len(ins), len(outs)
                break
        groups.append(group)
    if groups and (i < len(ins) or j < len(outs)):
        groups[-1][0].extend(ins[i:])
        groups[-1][1].extend(outs[j:])
    return groups


def _can_grow_to(part: Extent, whole: Extent) -> bool:
    """Whether `part` times the sizes of further axes can be `whole`.

    Two static sizes: whether `part` is above 0 and below `whole`. With a symbolic size: whether `part` provably divides
    `whole`.
    """
    if is_static(part) and is_static(whole):
        return 0 < int(part) < int(whole)
    quotient = floordiv(whole, part)
    return is_equal(quotient * part, whole)
