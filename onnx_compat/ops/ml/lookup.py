"""Finding values in a list of known ones."""

from typing import Any

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import int64
from onnx_compat.tracing.values import Tensor, lift

__all__ = ["equals", "first_indices"]

#: Up to so many keys are compared with each value; among more of them one searches.
_FEW = 32


def equals(x: Tensor, keys: Tensor) -> Tensor:
    """Whether x is each of the keys; the two broadcast."""
    return p.equal(x, keys)


def first_indices(x: Tensor, keys: np.ndarray, nan: bool = False) -> Tensor:
    """Where each element of x is first found among the keys, as an int64 of x's shape; their number where it is not.
    With `nan`, NaN is found where a key is NaN.
    """
    count = len(keys)
    found = _find_by_comparison(x, keys) if x.dtype.kind == "s" or count <= _FEW else _find_by_bisection(x, keys)
    missing = np.flatnonzero(np.isnan(keys)).tolist() if keys.dtype.kind == "f" else []
    if nan and missing:
        found = p.where(p.is_nan(x), missing[0], found)
    return found


def _find_by_comparison(x: Tensor, keys: np.ndarray) -> Tensor:
    """The first of all keys that are equal, and of one behind them that always is."""
    hit: Any = p.equal(p.unsqueeze(x, [x.rank]), lift(keys, x.dtype))
    hit = p.pad(p.cast(hit, int64), [0] * (x.rank + 1), [0] * x.rank + [1], value=1)
    return p.argmax(hit, x.rank)


def _find_by_bisection(x: Tensor, keys: np.ndarray) -> Tensor:
    """By halves of the sorted keys: the last one that is not above x."""
    order = np.argsort(keys, kind="stable")
    order = order[keys[order] == keys[order]]  # NaN is not
    ascending, first = np.unique(keys[order], return_index=True)
    here = order[first]
    if not len(here):
        return p.full(x.shape, len(keys), int64)
    step = 1 << (len(ascending) - 1).bit_length()
    # Behind the sorted keys, the largest again: what is found there is compared with x like all else.
    table = np.concatenate([ascending, np.full(step - len(ascending), ascending[-1], ascending.dtype)])
    sorted_keys, at = lift(table, x.dtype), p.full(x.shape, 0, int64)
    while step > 1:
        step //= 2
        further = p.add(at, step)
        at = p.where(p.less_equal(p.take(sorted_keys, further, 0), x), further, at)
    places = np.concatenate([here, np.full(len(table) - len(here), here[-1], here.dtype)]).astype(np.int64)
    return p.where(p.equal(p.take(sorted_keys, at, 0), x), p.take(lift(places), at, 0), len(keys))
