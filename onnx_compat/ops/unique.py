"""Unique: the distinct elements of a tensor, or its distinct slices along an axis."""

from typing import Any, List, Optional

from onnx_compat import primitives as p
from onnx_compat.errors import UnsupportedError
from onnx_compat.ir.dims import Extent, is_equal
from onnx_compat.ir.dtypes import float32, int32, int64, uint32, uint64
from onnx_compat.ops.arguments import product
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift


@op("Unique", since=(11, 28))
def unique(X: Tensor, *, axis: Optional[int] = None, sorted: int = 1) -> List[Tensor]:
    """Return the distinct elements, or slices along `axis`; their first indices; the inverse indices; and their counts.

    Example: [2, 1, 1] -> [1, 2], [1, 0], [1, 0, 0], [2, 1].

    Without `axis`, X is flattened. The indices and counts are int64 vectors. The inverse index of an element or slice
    of X is its position in the first result. NaN equals NaN.

    - sorted is not 0: elements or slices are in ascending (lexicographic) order, where NaN comes last.
    - sorted is 0: elements or slices are in the order of their first indices.

    Raises UnsupportedError for complex128.
    """
    axis_index = 0 if axis is None else p.axis_of(axis, X.rank)
    lines = p.reshape(X, (product(X.shape),)) if axis is None else X
    count = lines.shape[axis_index]
    keys = _sort_keys(p.transpose(lines, [axis_index, *[k for k in range(lines.rank) if k != axis_index]]))
    order = _sort_lines(keys, count)
    is_first = _begins_group(keys, order, count)
    starts: Any = p.squeeze(p.nonzero(is_first), [0])
    groups = starts.shape[0]
    first = p.take(order, starts, 0)
    number = p.cumsum(p.cast(is_first, int64), 0) - 1
    inverse = p.scatter_nd(_zeros(count), p.unsqueeze(order, [1]), number)
    if not sorted:
        appearance = p.top_k(first, groups, 0, largest=False)[1]
        first = p.take(first, appearance, 0)
        inverse = p.take(p.scatter_nd(_zeros(groups), p.unsqueeze(appearance, [1]), p.iota(groups)), inverse, 0)
    counts = p.scatter_nd(_zeros(groups), p.unsqueeze(inverse, [1]), _zeros(count) + 1, "add")
    return [p.take(lines, first, axis_index), first, inverse, counts]


def _zeros(length: Extent) -> Tensor:
    return p.full((length,), 0, int64)


# -- order -------------------------------------------------------------------------------------------------------------
def _sort_lines(keys: List[Tensor], count: Extent) -> Tensor:
    """Return the indices of the `count` lines in lexicographic order.

    `keys` are tables [columns, lines], as from `_sort_keys`: line k has the keys `table[:, k]` of each table. The order
    is the result of stable sorts by each column, from the last column to the first (radix sort).
    """

    def by_column(order: Tensor, *column: Tensor) -> List[Tensor]:
        for key in reversed(column):
            order = p.take(order, p.top_k(p.take(key, order, 0), count, 0, largest=False)[1], 0)
        return [order]

    columns = keys[0].shape[0]
    if is_equal(columns, 0):
        return p.iota(count)
    if is_equal(columns, 1):
        return by_column(p.iota(count), *[p.squeeze(key, [0]) for key in keys])[0]
    return p.scan(by_column, [p.iota(count)], keys, columns, reverse=True)[0]


def _begins_group(keys: List[Tensor], order: Tensor, count: Extent) -> Tensor:
    """Return a bool for each position of `order`: whether its line differs from the line at the previous position.

    `order` has the indices of the `count` lines in sorted order; `keys` are the tables of `_sort_keys`. The first
    position is True.
    """
    begins = p.equal(p.iota(count), 0)
    previous = p.take(order, p.maximum(p.iota(count) - 1, 0), 0)
    for key in keys:
        differs = p.not_equal(p.take(key, order, 1), p.take(key, previous, 1))
        begins = p.logical_or(begins, p.less(0, p.reduce_sum(p.cast(differs, int32), [0])))
    return begins


# -- keys --------------------------------------------------------------------------------------------------------------
def _sort_keys(lines: Tensor) -> List[Tensor]:
    """Return sort keys of `lines` [lines, ...]: a list of numeric tables [columns, lines].

    `table[c, k]` is a key of element c of line k, which is flattened. Lines are compared by their elements 0, 1, …:
    each pair of elements by the first table, equal keys by the next table.

    Raises UnsupportedError for complex128.
    """
    table: Any = p.transpose(p.reshape(lines, (lines.shape[0], product(lines.shape[1:]))), [1, 0])
    kind = lines.dtype.kind
    if kind == "s":
        return [p.string_rank(table)]
    if kind == "b":
        return [p.cast(table, int32)]
    if kind == "c":
        return [key for shift in (0, 32) for key in _sort_keys_of_floats(_complex_part(table, shift))]
    return _sort_keys_of_floats(table) if kind == "f" else [table]


def _sort_keys_of_floats(table: Tensor) -> List[Tensor]:
    """Return two sort keys: whether each number is NaN, then the numbers with 0 for NaN. NaN thus sorts last."""
    missing: Any = p.is_nan(table)
    return [p.cast(missing, int32), p.where(missing, lift(0, table.dtype), table)]


def _complex_part(x: Tensor, shift: int) -> Tensor:
    """Return a part of a complex64 tensor as float32: the real part for `shift` 0, the imaginary part for `shift` 32.

    Raises UnsupportedError for a complex dtype of another width.
    """
    if x.dtype.bits != 64:
        raise UnsupportedError(
            "Unique of %s is not supported" % x.dtype.name, hint="make it complex64, or split its parts"
        )
    bits: Any = p.shift_right(p.bitcast(x, uint64), lift(shift, uint64))
    return p.bitcast(p.cast(bits, uint32), float32)
