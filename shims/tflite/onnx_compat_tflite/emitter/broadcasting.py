"""Elementwise operators over operands of different shapes.

Kernels broadcast only four axes; older runtimes end the process beyond that.
"""

from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import is_equal
from onnx_compat_tflite.emitter import casting, reshaping, slicing
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.known_shapes import broadcast_dims, is_same_shape, is_viewable, product
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["add_op", "align_operands", "broadcast"]

_BROADCAST_AXES = 4  # axes that every kernel broadcasts


def add_op(
    builder: Builder, builtin: str, operands: Sequence[Handle], dtype: Optional[str] = None, **options: Any
) -> Handle:
    """Append an operator over operands that broadcast together, and return its result in their common shape.

    `align_operands` first gives the operands shapes that the kernel can broadcast. The result has `dtype`, by default
    the dtype of the last operand. `options` are the options of the op.

    It is not checked whether the kernel accepts the dtypes of the operands. Raises UnsupportedError if the runtime has
    no tensors of the result's dtype.
    """
    aligned, restore = align_operands(builder, operands)
    result = builder.add_op(
        builtin,
        aligned,
        dtype or operands[-1].dtype,
        broadcast_dims([h.dims for h in aligned]),
        **options,
    )
    return restore(result)


def align_operands(builder: Builder, operands: Sequence[Handle]) -> Tuple[List[Handle], Callable[[Handle], Handle]]:
    """Return (operands that every kernel can broadcast, function that restores the shape of the result).

    - If the result has at most four axes, or all shapes are provably equal, the operands are unchanged.
    - Otherwise adjacent axes are merged along which the same operands have size 1. The function splits them again.
    - If more than four axes remain after merging, each operand is broadcast to the shape of the result instead.
    - Each operand is also broadcast if RESHAPE cannot express the shape of an operand or of the result (`is_viewable`),
      or if it is unknown which operands have size 1 along an axis.
    """
    shapes = [handle.dims for handle in operands]
    result_dims = broadcast_dims(shapes)
    if len(result_dims) <= _BROADCAST_AXES or all(is_same_shape(shape, shapes[0]) for shape in shapes[1:]):
        return list(operands), lambda result: result
    if all(map(is_viewable, [*shapes, result_dims])) and _knows_repeated_axes(shapes, len(result_dims)):
        groups = _group_axes(shapes, len(result_dims))
        if len(groups) <= _BROADCAST_AXES:
            merged = [
                reshaping.reshape_to(builder, handle, _merge_dims(handle.dims, groups, len(result_dims)))
                for handle in operands
            ]
            return merged, lambda result: reshaping.reshape_to(builder, result, result_dims)
    if all(handle.is_static for handle in operands):
        target = builder.ints(*result_dims)
    else:
        target = builder.shape_tensor(operands[0])
        for handle in operands[1:]:
            dims = (max(handle.rank, target.dims[0]),)
            target = builder.add_op("BROADCAST_ARGS", [target, builder.shape_tensor(handle)], "int32", dims)
    return [broadcast(builder, handle, target, result_dims) for handle in operands], lambda result: result


def broadcast(builder: Builder, x: Handle, target: Handle, dims: Sequence[Any]) -> Handle:
    """Return x broadcast to the sizes `dims`. `target` is an integer tensor that holds these sizes at run time.

    - If x provably has these sizes, the result is x itself.
    - If x is a constant and the result has at most 64 elements, the result is a constant.
    - If the repetitions are known (see `_tile_repeats`) and TILE accepts x's dtype, TILE computes the result.
    - Otherwise BROADCAST_TO computes it. If BROADCAST_TO does not accept x's dtype, x is first cast to a wider dtype,
      and the result is cast back.

    Raises UnsupportedError if BROADCAST_TO accepts neither x's dtype nor a wider dtype.
    """
    if is_same_shape(x.dims, dims):
        return x
    if x.is_constant and all(isinstance(size, int) for size in dims) and int(np.prod(dims)) <= 64:
        return Handle.of(np.broadcast_to(x.array, dims).copy())
    repeats = _tile_repeats(x.dims, dims)
    if repeats is not None and builder.accepts("TILE", x.dtype):
        return builder.add_op("TILE", [x, builder.ints(*repeats)], x.dtype, dims)
    if not builder.accepts("BROADCAST_TO", x.dtype):
        result: Handle = casting.call_widened(
            builder, lambda _, y: broadcast(builder, y, target, dims), ["BROADCAST_TO"], x, (), {}
        )
        return result
    if builder.accepts("BROADCAST_TO", "float32", "none") or all(isinstance(size, int) and size for size in dims):
        return builder.add_op("BROADCAST_TO", [x, target], x.dtype, dims)
    return _broadcast_beyond_empty(builder, x, target, dims)


def _broadcast_beyond_empty(builder: Builder, x: Handle, target: Handle, dims: Sequence[Any]) -> Handle:
    """Broadcast x to the shape `target` by BROADCAST_TO, where a size of `target` may be 0.

    `dims` are the sizes of the result, as far as they are known.

    The kernels write out of bounds if an axis of length 1 becomes empty. Such an axis therefore keeps length 1 in
    BROADCAST_TO, and the result is sliced to `target`.
    """
    source_shape = builder.shape_tensor(x)
    if x.rank < len(dims):
        leading_ones = Handle.of(np.ones(len(dims) - x.rank, np.int32))
        source_shape = (
            builder.add_op("CONCATENATION", [leading_ones, source_shape], "int32", (len(dims),), axis=0)
            if x.rank
            else leading_ones
        )
    capped_shape = builder.add_op("MINIMUM", [Handle.of(np.ones((), np.int32)), source_shape], "int32", (len(dims),))
    padded_shape = builder.add_op("MAXIMUM", [capped_shape, target], "int32", (len(dims),))
    padded = builder.add_op("BROADCAST_TO", [x, padded_shape], x.dtype, [None] * len(dims))
    result: Handle = slicing.add_slice(builder, padded, Handle.of(np.zeros(len(dims), np.int32)), target, dims)
    return result


def _tile_repeats(narrow: Sequence[Any], wide: Sequence[Any]) -> Optional[List[int]]:
    """Return how often TILE must repeat each axis of the shape `narrow` to give `wide`: (2, 1), (2, 3) -> [1, 3].

    Returns None if the ranks differ, if a number of repetitions is unknown or zero, or if the shapes do not broadcast.

    TILE takes a hundredth of the time of BROADCAST_TO, because it copies whole rows.
    """
    if len(narrow) != len(wide):
        return None
    repeats: List[int] = []
    for source_size, target_size in zip(narrow, wide):
        if is_same_shape([source_size], [target_size]):
            repeats.append(1)
        elif is_equal(source_size, 1) and isinstance(target_size, int) and target_size > 0:
            repeats.append(target_size)
        else:
            return None
    return repeats


def _group_axes(shapes: Sequence[Sequence[int]], rank: int) -> List[List[int]]:
    """Group adjacent axes along which the same shapes have size 1; return the groups of axes 0 to `rank` - 1.

    `rank` is the rank of the result. A shape with fewer axes counts as padded by leading ones. An axis along which all
    shapes have size 1 joins the group before it.

    Example: (2, 3, 1), (1, 1, 4) -> [[0, 1], [2]].
    """
    groups: List[List[int]] = []
    last_pattern: Any = None
    for axis in range(rank):
        sizes = [shape[axis - rank] if len(shape) >= rank - axis else 1 for shape in shapes]
        is_one = [is_equal(size, 1) for size in sizes]
        pattern = None if all(is_one) else is_one
        if groups and (pattern is None or last_pattern is None or pattern == last_pattern):
            groups[-1].append(axis)
        else:
            groups.append([axis])
        last_pattern = pattern or last_pattern
    return groups


def _merge_dims(dims: Sequence[Any], groups: Sequence[Sequence[int]], rank: int) -> Tuple[Any, ...]:
    """Return the sizes `dims` with each group of axes merged to one axis: (2, 3, 5), [[0, 1], [2]] -> (6, 5).

    `dims` is first padded by leading ones to `rank` sizes; `groups` has the axes of the padded shape. The merged size
    of a group is None if a size of the group is None.
    """
    full = (1,) * (rank - len(dims)) + tuple(dims)
    return tuple(product([full[axis] for axis in group]) for group in groups)


def _knows_repeated_axes(shapes: Sequence[Sequence[Any]], rank: int) -> bool:
    """Whether it is known, for each of the `rank` axes of the result, which shapes must be repeated along it.

    False if an axis has an unknown size (None). False also if two sizes of an axis other than 1 are not provably equal:
    one of them may be 1 at run time.
    """
    for axis in range(rank):
        sizes = [shape[axis - rank] for shape in shapes if len(shape) >= rank - axis]
        wide = [size for size in sizes if not is_equal(size, 1)]
        if not is_same_shape(wide, wide[:1] * len(wide)):
            return False
    return True
