"""Quirks of onnxruntime that differ between its releases: small examples that show whether it computes as specified."""

from typing import Any, Dict, NamedTuple, Sequence

import numpy as np

__all__ = ["BEHAVIOURS", "Example"]

_NAN, _INF = np.nan, np.inf


class Example(NamedTuple):
    """A call of one operator on arrays, and its expected first result. Integers become constants of the graph.

    results: the number of results.
    """

    operator: str
    inputs: Sequence[np.ndarray]
    expected: np.ndarray
    attributes: Dict[str, Any]
    results: int = 1


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
_POOLED = _floats(-_INF, -_INF, _NAN, 1).reshape(1, 1, 4)

#: Behaviour -> an example that shows it.
BEHAVIOURS: Dict[str, Example] = {
    "Gather of texts": Example(
        "Gather", [_texts(["a", "b"], ["c", "d"]), np.asarray(1)], _texts("c", "d"), {"axis": 0}
    ),
    "StringSplit at white space": Example("StringSplit", [_texts("a\tb")], _texts(["a", "b"]), {}, 2),
    "MaxPool": Example("MaxPool", [_POOLED], _floats(-_INF, _NAN, _NAN).reshape(1, 1, 3), {"kernel_shape": [2]}),
    "Max": Example("Max", [_floats(_NAN, 1), _floats(1, _NAN)], _floats(_NAN, _NAN), {}),
    "Min": Example("Min", [_floats(_NAN, 1), _floats(1, _NAN)], _floats(_NAN, _NAN), {}),
    "Clip": Example("Clip", [_floats(_NAN, 1), *_BOUNDS], _floats(_NAN, 0.5), {}),
    "Relu": Example("Relu", [_floats(_NAN, -1)], _floats(_NAN, 0), {}),
    "empty ReduceSum": _reduction("ReduceSum", 0),
    "empty ReduceProd": _reduction("ReduceProd", 1),
    "empty ReduceMax": _reduction("ReduceMax", -_INF),
    "empty ReduceMin": _reduction("ReduceMin", _INF),
    "empty ReduceMean": _reduction("ReduceMean", _NAN),
}
BEHAVIOURS.update(("ScatterND of " + reduction, _scatter(reduction)) for reduction in ("add", "mul", "max", "min"))
