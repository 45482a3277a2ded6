"""Operators that change the shape of a tensor, not the values of its elements."""

from typing import List, Optional, Sequence

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, NeedsKnownError
from onnx_compat.ir.dims import (
    Extent,
    atoms_of,
    floordiv,
    is_equal,
    is_equal_shape,
    is_static,
    is_zero_with,
    maximum,
    minimum,
)
from onnx_compat.ops.arguments import known_integers, normalize_axes, product
from onnx_compat.ops.registry import op
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor, as_sizes, known_array


@op("Reshape", since=1)
def reshape_1(data: Tensor, *, shape: Sequence[int] = ()) -> Tensor:
    """Reshape to the attribute `shape`.

    The size 0 keeps the size of the input on the same axis, and -1 is inferred from the other sizes.

    Raises InvalidModelError for several -1, for a 0 beyond the axes of the input, and if the numbers of elements
    differ.
    """
    return _reshape(data, list(shape), allowzero=False)


@op("Reshape", since=(5, 13))
def reshape_5(data: Tensor, shape: Tensor) -> Tensor:
    """Reshape to the input `shape`.

    The size 0 keeps the size of the input on the same axis, and -1 is inferred from the other sizes.

    Raises InvalidModelError for several -1, for a 0 beyond the axes of the input, and if the numbers of elements
    differ. Raises NeedsKnownError if the length of `shape` is not known, or if an entry is not known and may be 0 or
    -1.
    """
    return reshape(data, shape)


@op("Reshape", since=(14, 19, 21, 23, 24, 25))
def reshape(data: Tensor, shape: Tensor, *, allowzero: int = 0) -> Tensor:
    """Return data reshaped to the sizes in `shape`. One size may be -1: it is inferred.

    A size of 0 keeps the size of the input on the same axis. With `allowzero`, it gives an empty axis instead.

    Raises InvalidModelError for several -1, and if the numbers of elements differ. Raises NeedsKnownError if the length
    of `shape` is not known, or if an entry is not known and may be 0 or -1.
    """
    extents = as_sizes(shape)
    if any(not is_static(extent) and _may_be_special(extent) for extent in extents):
        extents = [int(v) for v in known_array(shape, "the shape of a Reshape").reshape(-1)]
    return _reshape(data, extents, bool(allowzero))


def _may_be_special(extent: Extent) -> bool:
    """Return whether a symbolic entry of a target shape could be 0 or -1, which have a special meaning in Reshape.

    True if the entry depends on an element of a run-time tensor. False if it depends on sizes of axes only.
    """
    return any(atom.kind == "element" for atom in atoms_of(extent))


def _reshape(data: Tensor, extents: List[Extent], allowzero: bool) -> Tensor:
    """Reshape to `extents`.

    Unless `allowzero`, 0 keeps the size of the input on the same axis. -1 is inferred from the other sizes.

    Raises InvalidModelError for several -1, and if the numbers of elements differ. Unless `allowzero`, raises it also
    for a 0 beyond the axes of the input.
    """
    if not allowzero and any(is_equal(extent, 0) for extent in extents[data.rank :]):
        raise InvalidModelError(
            "the shape %s keeps the size of an axis that the input of rank %d lacks" % (extents, data.rank),
            hint="in the shape of a Reshape, 0 keeps the size of the same axis; allowzero=1 makes an empty axis of it",
        )
    sizes = extents if allowzero else _replace_zeros(extents, data.shape)
    inferred = [k for k, extent in enumerate(sizes) if is_equal(extent, -1)]
    if len(inferred) > 1:
        raise InvalidModelError("a shape has more than one -1: %s" % extents)
    for k in inferred:
        sizes[k] = _infer_size(data.shape, sizes[:k] + sizes[k + 1 :])
    return p.reshape(data, sizes)


def _replace_zeros(extents: Sequence[Extent], shape: Sequence[Extent]) -> List[Extent]:
    """Return the target shape `extents` with each 0 replaced by the size of the input on the same axis.

    `shape` is the shape of the input. A symbolic size that may be 0 at run time becomes a symbolic size that makes
    this choice at run time.

    Exception: a size of a graph input that is 0 only if the data is empty stays as it is, so that shape arithmetic
    folds. The trace notes this size: a run with an empty input is traced for the shape of this input.
    """
    count, sizes = product(shape), list(extents)
    if not is_equal(count, 0) and is_equal(product(extents), count):
        return sizes
    for k, (extent, kept) in enumerate(zip(extents, shape)):
        if is_equal(extent, 0):
            sizes[k] = kept
        elif is_zero_with(extent, kept):
            continue
        elif is_zero_with(extent, count) and not is_equal(count, 0) and _has_input_sizes_only(extent):
            current_trace().sizes_unlike_0.append(extent)
        else:
            magnitude = maximum(extent, -extent)
            sizes[k] = extent + kept * (1 - minimum(magnitude, 1))
    return sizes


def _has_input_sizes_only(extent: Extent) -> bool:
    """Return whether a size depends on lengths of inputs only: on no length of a computed value, and on no element."""
    return all(atom.kind == "axis" and getattr(atom.args[0], "node", None) is None for atom in atoms_of(extent))


def _infer_size(shape: Sequence[Extent], known_sizes: Sequence[Extent]) -> Extent:
    """Return the size for the entry -1 of a Reshape: the product of `shape` divided by the product of `known_sizes`.

    Symbolic sizes that occur in both lists cancel first, because they may be 0. If the remaining divisor is 0, return
    0. The division rounds down; the caller detects a remainder.
    """
    remaining, divisors = list(shape), []
    for extent in known_sizes:
        equal_index = next(
            (k for k, candidate in enumerate(remaining) if not is_static(candidate) and is_equal(candidate, extent)),
            None,
        )
        if equal_index is None:
            divisors.append(extent)
        else:
            del remaining[equal_index]
    divisor = product(divisors)
    return 0 if is_equal(divisor, 0) else floordiv(product(remaining), divisor)


@op("Flatten", since=(1, 9, 11, 13, 21, 23, 24, 25))
def flatten(input: Tensor, *, axis: int = 1) -> Tensor:
    """Reshape to a matrix [product of the sizes before `axis`, product of the sizes from `axis` on].

    A negative axis counts from the end; axis 0 gives one row. Raises InvalidModelError if the axis is out of range.
    """
    if not -input.rank <= axis <= input.rank:
        raise InvalidModelError("the axis %d is out of range for a Flatten of rank %d" % (axis, input.rank))
    axis = axis + input.rank if axis < 0 else axis
    return p.reshape(input, (product(input.shape[:axis]), product(input.shape[axis:])))


@op("Squeeze", since=(1, 11))
def squeeze_11(data: Tensor, *, axes: Optional[Sequence[int]] = None) -> Tensor:
    """Remove axes of size 1: the axes in the attribute `axes`, by default every axis of size 1.

    Raises InvalidModelError for an axis that is out of range or has another static size. Raises NeedsKnownError if
    `axes` is absent and a size is symbolic.
    """
    return _squeeze(data, axes)


@op("Squeeze", since=(13, 21, 23, 24, 25))
def squeeze(data: Tensor, axes: Optional[Tensor] = None) -> Tensor:
    """Remove axes of size 1: the axes in the input `axes`, by default every axis of size 1.

    Raises InvalidModelError for an axis that is out of range or has another static size. Raises NeedsKnownError if the
    axes are not known, or if `axes` is absent and a size is symbolic.
    """
    return _squeeze(data, None if axes is None else known_integers(axes, "the axes of a Squeeze"))


def _squeeze(x: Tensor, axes: Optional[Sequence[int]]) -> Tensor:
    if axes is None:
        if not all(map(is_static, x.shape)):
            raise NeedsKnownError("a Squeeze without axes has a rank that depends on run-time sizes", p.shape_of(x))
        axes = [axis for axis, extent in enumerate(x.shape) if extent == 1]
    for axis in normalize_axes(axes, x.rank):
        if is_static(x.shape[axis]) and x.shape[axis] != 1:
            raise InvalidModelError("axis %d of %s is not of length one: it cannot be squeezed" % (axis, list(x.shape)))
    return p.squeeze(x, axes) if len(axes) else x


@op("Unsqueeze", since=(1, 11))
def unsqueeze_11(data: Tensor, *, axes: Sequence[int]) -> Tensor:
    """Insert axes of size 1. The attribute `axes` has their positions in the result.

    Raises InvalidModelError if an axis is out of range or occurs twice.
    """
    return p.unsqueeze(data, axes)


@op("Unsqueeze", since=(13, 21, 23, 24, 25))
def unsqueeze(data: Tensor, axes: Tensor) -> Tensor:
    """Insert axes of size 1. `axes` has their positions in the result.

    Raises NeedsKnownError if the axes are not known. Raises InvalidModelError if an axis is out of range or occurs
    twice.
    """
    return p.unsqueeze(data, known_integers(axes, "the axes of an Unsqueeze"))


@op("Transpose", since=(1, 13, 21, 23, 24, 25))
def transpose(data: Tensor, *, perm: Optional[Sequence[int]] = None) -> Tensor:
    """Permute the axes by `perm`; by default, reverse the order of the axes.

    Axis k of the result is axis perm[k] of the data. Raises InvalidModelError if `perm` is no permutation of the axes.
    """
    return p.transpose(data, tuple(range(data.rank))[::-1] if perm is None else perm)


@op("Expand", since=(8, 13))
def expand(input: Tensor, shape: Tensor) -> Tensor:
    """Broadcast the input and `shape` against each other: an entry 1 of `shape` keeps the size of the input.

    `shape` may have fewer or more entries than the input has axes; the last entries align with the last axes. Raises
    InvalidModelError if two static sizes conflict. Raises NeedsKnownError if the length of `shape` is not known.
    """
    target = as_sizes(shape)
    rank = max(input.rank, len(target))
    padded_shape = [1] * (rank - input.rank) + list(input.shape)
    padded_target = [1] * (rank - len(target)) + target
    sizes = [_broadcast_size(*pair) for pair in zip(padded_shape, padded_target)]
    result = p.broadcast_to(input, sizes)
    # A static size of the input, other than 1, is that of the result. The broadcast has refused any other target.
    kept = [size if is_static(size) and size != 1 else wide for size, wide in zip(padded_shape, sizes)]
    return result if is_equal_shape(kept, sizes) else p.reshape(result, kept)


def _broadcast_size(size: Extent, target: Extent) -> Extent:
    """Return the size to which two axes broadcast: `target`, or `size` if the target is 1.

    Two static sizes that differ, neither of them 1, raise InvalidModelError. If symbolic sizes have such values at run
    time, a broadcast of `size` to the result fails.
    """
    if is_equal(size, 1) or is_equal(size, target):
        return target
    if is_equal(target, 1):
        return size
    if is_static(size) and is_static(target):
        raise InvalidModelError("an axis of size %s cannot be expanded to %s" % (size, target))
    if is_static(target):
        return target
    is_one = minimum(target, 1) - minimum(maximum(target - 1, 0), 1)
    return target + (size - target) * is_one


@op("Tile", since=1)
def tile_1(input: Tensor, tiles: Tensor, axis: Tensor) -> Tensor:
    """Repeat the input `tiles` times along the single axis `axis`. Raises NeedsKnownError if the axis is not known."""
    axis_index = p.axis_of(known_integers(axis, "the axis of a Tile")[0], input.rank)
    return p.tile(input, [as_sizes(tiles, 1)[0] if k == axis_index else 1 for k in range(input.rank)])


@op("Tile", since=(6, 13))
def tile(input: Tensor, repeats: Tensor) -> Tensor:
    """Repeat the input along each axis, `repeats[axis]` times; 0 gives an empty axis.

    Raises InvalidModelError if `repeats` does not have an entry for each axis, or an entry is negative. Raises
    NeedsKnownError if the length of `repeats` is not known.
    """
    return p.tile(input, as_sizes(repeats, input.rank))


@op("DepthToSpace", since=1)
def depth_to_space_1(input: Tensor, *, blocksize: int) -> Tensor:
    """Move channels into pixels, with b = blocksize: [N, b * b * C, H, W] -> [N, C, H * b, W * b].

    The channel axis of the input is [b, b, C] (mode DCR). Raises InvalidModelError for another rank, for a blocksize
    below 1, and for static channels that are no multiple of b * b.
    """
    return depth_to_space(input, blocksize=blocksize)


@op("DepthToSpace", since=(11, 13, 28))
def depth_to_space(input: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Move channels into pixels, with b = blocksize: [N, b * b * C, H, W] -> [N, C, H * b, W * b].

    The channel axis of the input is [b, b, C] in mode DCR and [C, b, b] in mode CRD. Raises InvalidModelError for
    another mode or rank, for a blocksize below 1, and for static channels that are no multiple of b * b.
    """
    _check_blocks(input, blocksize, mode)
    n, c, h, w = input.shape
    depth = floordiv(c, blocksize * blocksize)
    if mode == "DCR":
        blocks = p.reshape(input, (n, blocksize, blocksize, depth, h, w))
        blocks = p.transpose(blocks, (0, 3, 4, 1, 5, 2))
    else:
        blocks = p.reshape(input, (n, depth, blocksize, blocksize, h, w))
        blocks = p.transpose(blocks, (0, 1, 4, 2, 5, 3))
    return p.reshape(blocks, (n, depth, h * blocksize, w * blocksize))


def _check_blocks(x: Tensor, blocksize: int, mode: str) -> None:
    """Raise InvalidModelError unless x is an image [N, C, H, W], the block size is positive and the mode is known."""
    if mode not in ("DCR", "CRD"):
        raise InvalidModelError("the mode is DCR or CRD, not %r" % mode)
    if x.rank != 4 or blocksize < 1:
        raise InvalidModelError(
            "an input of rank %d with blocks of %d pixels; the rank must be 4, and blocksize 1 or more"
            % (x.rank, blocksize)
        )


@op("SpaceToDepth", since=(1, 13))
def space_to_depth_13(input: Tensor, *, blocksize: int) -> Tensor:
    """Move pixels into channels, with b = blocksize: [N, C, H * b, W * b] -> [N, b * b * C, H, W].

    The channel axis of the result is [b, b, C] (mode DCR). Raises InvalidModelError for another rank, for a blocksize
    below 1, and for a static height or width that is no multiple of b.
    """
    return space_to_depth(input, blocksize=blocksize)


@op("SpaceToDepth", since=28)
def space_to_depth(input: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Move pixels into channels, with b = blocksize: [N, C, H * b, W * b] -> [N, b * b * C, H, W].

    The channel axis of the result is [b, b, C] in mode DCR and [C, b, b] in mode CRD. Raises InvalidModelError for
    another mode or rank, for a blocksize below 1, and for a static height or width that is no multiple of b.
    """
    _check_blocks(input, blocksize, mode)
    n, c, h, w = input.shape
    rows, columns = floordiv(h, blocksize), floordiv(w, blocksize)
    blocks = p.reshape(input, (n, c, rows, blocksize, columns, blocksize))
    blocks = p.transpose(blocks, (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return p.reshape(blocks, (n, c * (blocksize * blocksize), rows, columns))
