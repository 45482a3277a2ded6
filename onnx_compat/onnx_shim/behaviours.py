"""Quirks of onnxruntime that differ between its releases: small examples that show whether it computes as specified."""

from typing import Any, Dict, NamedTuple, Sequence

import numpy as np

__all__ = ["BEHAVIOURS", "Example"]

_NAN, _INF = np.nan, np.inf


class Example(NamedTuple):
    """A call of one operator on arrays, and its expected first result. Integers become constants of the graph.

    - results: the number of results.
    - fed: the number of inputs that are fed also if they are integers.
    """

    operator: str
    inputs: Sequence[np.ndarray]
    expected: np.ndarray
    attributes: Dict[str, Any]
    results: int = 1
    fed: int = 0


def _floats(*values: Any) -> np.ndarray:
    return np.asarray(values, np.float32)


def _texts(*values: Any) -> np.ndarray:
    return np.asarray(values, object)


def _reduction(operator: str, expected: float) -> Example:
    """Return an example that reduces an axis of length 0."""
    return Example(
        operator, [np.zeros((2, 0), np.float32), np.asarray([1])], _floats(expected, expected), {"keepdims": 0}
    )


def _scatter(reduction: str) -> Example:
    """Return an example that combines NaN with a number, in either order."""
    positions, updates = np.asarray([[0], [1]]), _floats(1, _NAN)
    return Example("ScatterND", [_floats(_NAN, 1), positions, updates], _floats(_NAN, _NAN), {"reduction": reduction})


_BOUNDS = [np.asarray(bound, np.float32) for bound in (0, 0.5)]


def _extreme(operator: str) -> Example:
    """Return an example that reduces numbers and NaN along the first axis."""
    return Example(
        operator,
        [_floats([1, 2], [_NAN, 0], [0, 1]), np.asarray([0])],
        _floats(_NAN, _PICKED[operator]),
        {"keepdims": 0},
    )


def _overflow(operator: str) -> Example:
    """Return an example whose integers exceed int64 together, so that the result wraps."""
    most = 2**62 + 1
    axes = np.asarray([0])
    total = {"ReduceSum": 2 * most - 2**64, "ReduceProd": most * most % 2**64}[operator]
    return Example(operator, [np.asarray([most, most]), axes], np.asarray(total), {"keepdims": 0}, fed=1)


def _order(operator: str) -> Example:
    """Return an example that compares integers beyond int32."""
    sign = {"ReduceMax": 1, "ReduceMin": -1}[operator]
    numbers = np.asarray([[2**32 - 1, 0], [3, 2**32 - 2]]) * sign
    picked = (2**32 - 1) * sign
    return Example(operator, [numbers, np.asarray([0, 1])], np.asarray(picked), {"keepdims": 0}, fed=1)


_PICKED = {"ReduceMax": 2, "ReduceMin": 0}
_POOLED = _floats(-_INF, -_INF, _NAN, 1).reshape(1, 1, 4)

#: Behaviour -> an example that shows it.
BEHAVIOURS: Dict[str, Example] = {
    "Gather of texts": Example(
        "Gather", [_texts(["a", "b"], ["c", "d"]), np.asarray(1)], _texts("c", "d"), {"axis": 0}
    ),
    "StringSplit at white space": Example("StringSplit", [_texts("a\tb")], _texts(["a", "b"]), {}, 2),
    "StringSplit": Example("StringSplit", [_texts("")], _texts([""]), {"delimiter": ","}, 2),
    "MaxPool": Example("MaxPool", [_POOLED], _floats(-_INF, _NAN, _NAN).reshape(1, 1, 3), {"kernel_shape": [2]}),
    "Max": Example("Max", [_floats(_NAN, 1), _floats(1, _NAN)], _floats(_NAN, _NAN), {}),
    "Min": Example("Min", [_floats(_NAN, 1), _floats(1, _NAN)], _floats(_NAN, _NAN), {}),
    "Clip": Example("Clip", [_floats(_NAN, 1), *_BOUNDS], _floats(_NAN, 0.5), {}),
    "Relu": Example("Relu", [_floats(_NAN, -1)], _floats(_NAN, 0), {}),
    "Sqrt": Example("Sqrt", [_floats(*[_INF, 4] * 8)], _floats(*[_INF, 2] * 8), {}),
    "Floor": Example("Floor", [_floats(*[_INF, -_INF, 1.5] * 8)], _floats(*[_INF, -_INF, 1] * 8), {}),
    "Ceil": Example("Ceil", [_floats(*[_INF, -_INF, 1.5] * 8)], _floats(*[_INF, -_INF, 2] * 8), {}),
    "empty ReduceSum": _reduction("ReduceSum", 0),
    "empty ReduceProd": _reduction("ReduceProd", 1),
    "empty ReduceMax": _reduction("ReduceMax", -_INF),
    "empty ReduceMin": _reduction("ReduceMin", _INF),
    "empty ReduceMean": _reduction("ReduceMean", _NAN),
}
BEHAVIOURS.update((operator, _extreme(operator)) for operator in _PICKED)
BEHAVIOURS.update((operator + " of integers", _order(operator)) for operator in _PICKED)
BEHAVIOURS.update((operator + " of integers", _overflow(operator)) for operator in ("ReduceSum", "ReduceProd"))
BEHAVIOURS.update(("ScatterND of " + reduction, _scatter(reduction)) for reduction in ("add", "mul", "max", "min"))
