"""Derivative rules of the primitives that select, scatter and sort elements."""

import functools
import operator
from typing import Any, List, Optional, Sequence

from onnx_compat import primitives as p
from onnx_compat.autodiff.rules import RecordedNode, apply_pending_order, rule
from onnx_compat.ir.dims import Extent, is_static
from onnx_compat.ir.dtypes import DType, int64
from onnx_compat.tracing.values import Tensor, known_array

__all__ = ["add_at"]


def add_at(g: Tensor, indices: Tensor, axis: int, extent: Extent) -> Any:
    """Return zeros of size `extent` along `axis`, with slice i of g added at position `indices[i]` of that axis.

    This is the derivative of `take`. `indices` is a vector. Slices of g with equal indices are summed. The other axes
    have the sizes of g. If `indices` is known to be 0, 1, … extent - 1, the result is g itself.
    """
    if indices.known and is_static(extent) and known_array(indices, "an index").tolist() == list(range(extent)):
        return g
    axis_first = [axis, *[k for k in range(g.rank) if k != axis]]
    updates = p.transpose(g, axis_first)
    zeros = p.full((extent, *updates.shape[1:]), 0, g.dtype)
    total = p.scatter_nd(zeros, p.unsqueeze(p.cast(indices, int64), [1]), updates, "add")
    return apply_pending_order(p.transpose(total, [axis_first.index(k) for k in range(g.rank)]))


def _add_along(g: Tensor, indices: Tensor, axis: int, shape: Sequence[Extent]) -> Any:
    """Return zeros of the shape `shape`, with the elements of g added at the places that `take_along` reads.

    `g` and `indices` have one shape: g[i, j] is added at [indices[i, j], j] for axis 0 of a matrix.
    """
    coordinates = [indices if k == axis else _axis_coordinates(g.shape, k, indices.dtype) for k in range(g.rank)]
    return p.scatter_nd(p.full(shape, 0, g.dtype), p.stack(coordinates, g.rank), g, "add")


def _axis_coordinates(shape: Sequence[Extent], axis: int, dtype: DType) -> Any:
    """Return a tensor of the shape `shape`: each element is its own coordinate along `axis`."""
    line = p.reshape(p.iota(shape[axis], dtype), [size if k == axis else 1 for k, size in enumerate(shape)])
    return p.broadcast_to(line, shape)


@rule("take")
def _take(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivatives of a selection, [by x, None]: zeros, with each slice of g added at its index."""
    x, indices = at.args
    axis = at.params["axis"]
    count = indices.size
    flat = p.reshape(g, (*x.shape[:axis], count, *x.shape[axis + 1 :]))
    return [add_at(flat, p.reshape(indices, (count,)), axis, x.shape[axis]), None]


@rule("take_along")
def _take_along(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivatives of a selection, [by x, None]: zeros, with each element of g added at its index."""
    x, indices = at.args
    return [_add_along(g, indices, at.params["axis"], x.shape), None]


@rule("top_k")
def _top_k(at: RecordedNode, g: Optional[Tensor], _: Optional[Tensor]) -> List[Any]:
    """Return the derivatives of a selection of the largest elements: zeros, with each element of g added at its index.

    The list is [derivative of x, None]. It is [None, None] if g is None: the model reads only the indices.
    """
    if g is None:
        return [None, None]
    return [_add_along(g, at.outputs[1], at.params["axis"], at.args[0].shape), None]


@rule("gather_nd")
def _gather_nd(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivatives of a selection, [by x, None]: zeros, with each slice of g added at its coordinate."""
    x, indices = at.args
    rows = indices.shape[:-1]
    batch = [_axis_coordinates((*rows, 1), k, indices.dtype) for k in range(at.params["batch_dims"])]
    coordinates = p.concat([*batch, indices], len(rows))
    return [p.scatter_nd(p.full(x.shape, 0, g.dtype), coordinates, g, "add"), None]


# -- scatters ----------------------------------------------------------------------------------------------------------
@rule("scatter_nd")
def _scatter_nd(at: RecordedNode, g: Tensor) -> List[Any]:
    """Differentiate a scatter: g where an element is kept or counts, shared equally by equal extremes.

    Return the list [derivative of the operand, None, derivative of the updates], by reduction:

    - none: g, but 0 where an update replaces the element, or a later update replaces the update.
    - add: g. mul: g times the product of the other factors.
    - max, min: g, divided equally among the elements that equal the result; 0 for others.
    """
    x, indices, updates = at.args
    reduction = at.params["reduction"]
    if reduction == "add":
        return [g, None, p.gather_nd(g, indices)]
    if reduction == "none":
        replaced = p.scatter_nd(g, indices, p.full(updates.shape, 0, g.dtype))
        return [replaced, None, _keep_last(p.gather_nd(g, indices), indices, x.shape)]
    if reduction == "mul":
        return _scatter_products(x, indices, updates, g)
    is_x = p.cast(p.equal(x, at.y), g.dtype)
    is_update = p.cast(p.equal(updates, p.gather_nd(at.y, indices)), g.dtype)
    share = p.div(g, p.scatter_nd(is_x, indices, is_update, "add"))
    return [p.mul(is_x, share), None, p.mul(is_update, p.gather_nd(share, indices))]


def _keep_last(g: Tensor, indices: Tensor, shape: Sequence[Extent]) -> Any:
    """Return g, the derivative of updates, with 0 for an update that a later one for the same position replaces.

    `shape`: the shape of the tensor that `indices` scatters into. If the indices are known and distinct, the result is
    g itself.
    """
    rows = indices.shape[:-1]
    count: Extent = functools.reduce(operator.mul, rows, 1)
    numbers = p.reshape(p.iota(count), rows)
    depth: Any = indices.shape[-1]  # an int: the gather_nd of g refuses a symbolic depth
    last = p.scatter_nd(p.full(shape[: int(depth)], -1, int64), indices, numbers)
    is_last = p.equal(p.gather_nd(last, indices), numbers)
    if is_last.known and known_array(is_last, "an update").all():
        return g
    return p.where(p.unsqueeze(is_last, range(len(rows), g.rank)), g, 0)


def _scatter_products(x: Tensor, indices: Tensor, updates: Tensor, g: Tensor) -> List[Any]:
    """Differentiate a scatter that multiplies: each factor gets g times the product of the other factors.

    Return the list [derivative of x, None, derivative of the updates]. The product of the others is that of all factors
    that are not 0, divided by the factor itself; but 0 where another factor is 0.
    """
    x_zero, update_zero = p.equal(x, 0), p.equal(updates, 0)
    x_factor, update_factor = p.where(x_zero, 1, x), p.where(update_zero, 1, updates)
    products = p.mul(g, p.scatter_nd(x_factor, indices, update_factor, "mul"))
    zeros = p.scatter_nd(p.cast(x_zero, g.dtype), indices, p.cast(update_zero, g.dtype), "add")

    def other_product(product: Any, zero_count: Any, factor: Any, is_zero: Any) -> Any:
        return p.where(p.equal(zero_count, p.cast(is_zero, g.dtype)), p.div(product, factor), 0)

    read = p.gather_nd(products, indices), p.gather_nd(zeros, indices)
    return [other_product(products, zeros, x_factor, x_zero), None, other_product(*read, update_factor, update_zero)]
