"""Search for values in a known list of keys."""

from typing import Any

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import int64
from onnx_compat.tracing.values import Tensor, lift

__all__ = ["first_indices"]

#: The largest number of keys that are compared with each value; more keys are bisected.
_FEW = 32


def first_indices(x: Tensor, keys: np.ndarray, nan: bool = False) -> Tensor:
    """Return, for each element of x, the index of the first key that equals it; len(keys) if no key does.

    The result is int64 of the shape of x. With `nan`, NaN equals NaN.
    """
    count = len(keys)
    indices = _find_by_comparison(x, keys) if x.dtype.kind == "s" or count <= _FEW else _find_by_bisection(x, keys)
    nan_keys = np.flatnonzero(np.isnan(keys)).tolist() if keys.dtype.kind == "f" else []
    if nan and nan_keys:
        indices = p.where(p.is_nan(x), nan_keys[0], indices)
    return indices


def _find_by_comparison(x: Tensor, keys: np.ndarray) -> Tensor:
    """Return, for each element of x, the index of the first key that equals it; len(keys) if no key does.

    x is compared with every key.
    """
    matches: Any = p.equal(p.unsqueeze(x, [x.rank]), lift(keys, x.dtype))
    matches = p.pad(p.cast(matches, int64), [0] * (x.rank + 1), [0] * x.rank + [1], value=1)
    return p.argmax(matches, x.rank)


def _find_by_bisection(x: Tensor, keys: np.ndarray) -> Tensor:
    """Return, for each element of x, the index of the first key that equals it; len(keys) if no key does.

    `keys` are numbers in any order: a sorted copy is searched by bisection. NaN equals nothing.
    """
    order = np.argsort(keys, kind="stable")
    order = order[keys[order] == keys[order]]  # without NaN
    ascending, first = np.unique(keys[order], return_index=True)
    first_positions = order[first]
    if not len(first_positions):
        return p.full(x.shape, len(keys), int64)
    step = 1 << (len(ascending) - 1).bit_length()
    # The largest key pads the table to a power of two; the final comparison covers it too.
    table = np.concatenate([ascending, np.full(step - len(ascending), ascending[-1], ascending.dtype)])
    sorted_keys, positions = lift(table, x.dtype), p.full(x.shape, 0, int64)
    while step > 1:
        step //= 2
        candidates = p.add(positions, step)
        positions = p.where(p.less_equal(p.take(sorted_keys, candidates, 0), x), candidates, positions)
    key_indices = np.concatenate(
        [first_positions, np.full(len(table) - len(first_positions), first_positions[-1], first_positions.dtype)]
    ).astype(np.int64)
    return p.where(p.equal(p.take(sorted_keys, positions, 0), x), p.take(lift(key_indices), positions, 0), len(keys))
