"""Cases of the primitives that select, scatter and order elements."""

from typing import Any

import numpy as np

from cases.making import Making, case
from onnx_compat import primitives
from onnx_compat.ir.dtypes import DType


def _index_dtype(make: Making) -> DType:
    return DType.of(make.choose(["int64", "int32"]))


def _indices(make: Making, shape: Any, size: int, dtype: DType) -> Any:
    return make.within(tuple(shape), 0, size - 1, dtype) if size else np.zeros((*shape[:-1], 0), dtype.numpy)


@case("take")
def take(make: Making) -> Any:
    shape = make.shape(low=1)
    axis = make.number(0, len(shape) - 1)
    inner = [0] if shape[axis] == 0 else make.choose([[], [3], [2, 2], [0]])
    dtype = _index_dtype(make)
    position = make.feed(make.values(shape))
    indices = make.feed_or_fix(_indices(make, inner, shape[axis], dtype), dtype)
    make.note(axis=axis)
    return lambda *tensors: primitives.take(tensors[position], indices(tensors), axis)


@case("take_along")
def take_along(make: Making) -> Any:
    shape = make.shape(low=1)
    axis = make.number(0, len(shape) - 1)
    inner = [max(size - make.number(0, 1), 0) for size in shape]
    inner[axis] = make.number(0, 4) if shape[axis] else 0
    dtype = _index_dtype(make)
    position = make.feed(make.values(shape))
    array = make.within(tuple(inner), 0, max(shape[axis] - 1, 0), dtype)
    indices = make.feed_or_fix(array, dtype)
    make.note(axis=axis)
    return lambda *tensors: primitives.take_along(tensors[position], indices(tensors), axis)


def _rows(make: Making, shape: Any, lead: Any, first: int, depth: int, dtype: DType) -> Any:
    """Return coordinates into `depth` axes of a shape, from axis `first` on."""
    columns = [make.within(tuple(lead), 0, max(shape[first + k] - 1, 0), dtype) for k in range(depth)]
    return np.stack(columns, -1) if columns else np.zeros((*lead, 0), dtype.numpy)


@case("gather_nd")
def gather_nd(make: Making) -> Any:
    shape = make.shape(low=2, least=1)
    batch_dims = make.number(0, 1)
    depth = make.number(1, len(shape) - batch_dims)
    lead = (*shape[:batch_dims], *([0] if make.flavour.shape == "empty" else [make.number(1, 3)]))
    dtype = _index_dtype(make)
    position = make.feed(make.values(shape))
    indices = make.feed_or_fix(_rows(make, shape, lead, batch_dims, depth, dtype), dtype, known=[-1])
    make.note(batch_dims=batch_dims)
    return lambda *tensors: primitives.gather_nd(tensors[position], indices(tensors), batch_dims)


@case("scatter_nd")
def scatter_nd(make: Making) -> Any:
    make.exact = False
    shape = make.shape(low=1, least=1)
    depth = make.number(1, len(shape))
    numeric = make.dtype.kind in "fiu"
    reduction = make.choose(["none", "add", "mul", "max", "min"] if numeric else ["none"])
    dtype = _index_dtype(make)
    rows = np.stack(np.meshgrid(*map(np.arange, shape[:depth]), indexing="ij"), -1).reshape(-1, depth)
    rows = rows[make.order(len(rows))][: 0 if make.flavour.shape == "empty" else make.number(1, 4)].astype(dtype.numpy)
    if reduction != "none" and make.yes():  # the same place twice
        rows = np.concatenate([rows, rows])
    values = "plain" if reduction in ("add", "mul") else None
    position = make.feed(make.values(shape, values=values))
    indices = make.feed_or_fix(rows, dtype, known=[-1])
    updates = make.feed_or_fix(make.values((len(rows), *shape[depth:]), values=values))
    make.note(reduction=reduction)
    return lambda *tensors: primitives.scatter_nd(tensors[position], indices(tensors), updates(tensors), reduction)


@case("nonzero")
def nonzero(make: Making) -> Any:
    make.feed(make.values(make.shape(low=1)))
    return primitives.nonzero


@case("top_k")
def top_k(make: Making) -> Any:
    shape = make.shape(low=1)
    axis = make.number(0, len(shape) - 1)
    params = make.note(k=make.number(0, min(shape[axis], 3)), axis=axis, largest=make.yes())
    make.feed(make.within(shape, 0, 3) if make.yes() else make.values(shape, values=_sortable_values(make)))
    return lambda x: primitives.top_k(x, **params)


@case("argmax argmin")
def argmax(make: Making) -> Any:
    shape = make.shape(low=1)
    axis = make.number(0, len(shape) - 1)
    if shape[axis] == 0:
        shape = tuple(3 if k == axis else size for k, size in enumerate(shape))
    make.note(axis=axis)
    make.feed(make.within(shape, 0, 3) if make.yes() else make.values(shape, values=_sortable_values(make)))
    return lambda x: getattr(primitives, make.name)(x, axis)


def _sortable_values(make: Making) -> str:
    """Return a flavour of values without NaN, because the order of NaN is unspecified."""
    return "extreme" if make.flavour.values == "special" else make.flavour.values


@case("cumsum")
def cumsum(make: Making) -> Any:
    shape = make.shape(low=1)
    params = make.note(axis=make.number(0, len(shape) - 1), exclusive=make.yes(), reverse=make.yes())
    make.feed(make.values(shape, values="plain" if make.dtype.kind == "f" else None))
    return lambda x: primitives.cumsum(x, **params)
