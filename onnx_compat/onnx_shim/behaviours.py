"""Quirks of onnxruntime that differ between its releases: small examples that show whether it computes as specified."""

from typing import Any, Dict, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

__all__ = ["BEHAVIOURS", "Example"]

_NAN, _INF = np.nan, np.inf
#: Examples repeat their numbers as often, so that vector instructions compute a part of them.
_REPEATS = 9


class Example(NamedTuple):
    """A call of one operator on arrays, and its expected first result.

    - results: the number of results.
    - fed: the number of first inputs that are fed in any case. Of the others, integers and arrays without axes become
      constants of the graph.
    - safe_from: the operator set from which on no onnxruntime ends the process. For an older one, the example runs in a
      child process.
    """

    operator: str
    inputs: Sequence[np.ndarray]
    expected: np.ndarray
    attributes: Dict[str, Any]
    results: int = 1
    fed: int = 0
    safe_from: int = 0


def _floats(*values: Any) -> np.ndarray:
    return np.asarray(values, np.float32)


def _repeat(*values: Any) -> np.ndarray:
    return _floats(*list(values) * _REPEATS)


def _texts(*values: Any) -> np.ndarray:
    return np.asarray(values, object)


def _reduction(operator: str, expected: float) -> Example:
    """Return an example that reduces an axis of length 0. Each result is `expected`."""
    return Example(
        operator, [np.zeros((2, 0), np.float32), np.asarray([1])], _floats(expected, expected), {"keepdims": 0}
    )


def _scatter(reduction: str) -> Example:
    """Return an example that combines NaN with a number, in either order."""
    positions, updates = np.asarray([[0], [1]]), _floats(1, _NAN)
    return Example("ScatterND", [_floats(_NAN, 1), positions, updates], _floats(_NAN, _NAN), {"reduction": reduction})


def _position(operator: str) -> Example:
    """Return an example with the positions of the extremes of no rows. `operator`: ArgMax or ArgMin."""
    return Example(operator, [np.zeros((0, 0), np.float32)], np.zeros(0, np.int64), {"axis": 1, "keepdims": 0}, fed=1)


_BOUNDS = [np.asarray(bound, np.float32) for bound in (0, 0.5)]


def _extreme(operator: str) -> Example:
    """Return an example that reduces numbers and NaN along the first axis. `operator`: ReduceMax or ReduceMin."""
    return Example(
        operator,
        [_floats([1, 2], [_NAN, 0], [0, 1]), np.asarray([0])],
        _floats(_NAN, _PICKED[operator]),
        {"keepdims": 0},
    )


def _overflow(operator: str) -> Example:
    """Return an example whose sum or product exceeds int64, so that it wraps. `operator`: ReduceSum or ReduceProd."""
    most = 2**62 + 1
    axes = np.asarray([0])
    total = {"ReduceSum": 2 * most - 2**64, "ReduceProd": (most * most + 2**63) % 2**64 - 2**63}[operator]
    return Example(operator, [np.asarray([most, most]), axes], np.asarray(total), {"keepdims": 0}, fed=1)


def _order(operator: str) -> Example:
    """Return an example that reduces integers beyond int32 to a scalar. `operator`: ReduceMax or ReduceMin."""
    sign = {"ReduceMax": 1, "ReduceMin": -1}[operator]
    numbers = np.asarray([[2**32 - 1, 0], [3, 2**32 - 2]]) * sign
    picked = (2**32 - 1) * sign
    return Example(operator, [numbers, np.asarray([0, 1])], np.asarray(picked), {"keepdims": 0}, fed=1)


_PICKED = {"ReduceMax": 2, "ReduceMin": 0}


def _pointwise(operator: str, results: Mapping[float, float], *rest: np.ndarray, **attributes: Any) -> Example:
    """Return an example of an elementwise operator on repeated numbers.

    - results: number -> expected result.
    - rest: the inputs after the numbers.
    """
    return Example(operator, [_repeat(*results), *rest], _repeat(*results.values()), attributes)


def _extremes(operator: str) -> Tuple[Example, ...]:
    """Return examples of Max or Min that combine NaN with a number: two vectors, and a vector with a scalar."""
    left, right = _repeat(_NAN, 1), _repeat(1, _NAN)
    nothing = np.full_like(left, _NAN)
    return (
        Example(operator, [left, right], nothing, {}),
        Example(operator, [left, np.asarray(1, np.float32)], left, {}),
        Example(operator, [np.asarray(_NAN, np.float32), right], nothing, {}),
    )


def _pools() -> Tuple[Example, ...]:
    """Return examples of MaxPool over -inf and NaN: a row, and an image."""
    row = _floats(-_INF, -_INF, _NAN, 1).reshape(1, 1, 4)
    image = np.arange(72, dtype=np.float32).reshape(1, 1, 4, 18)
    image[..., 1, 5] = _NAN
    image[..., 2:, 10:14] = -_INF
    pooled_row = np.maximum(row[..., :-1], row[..., 1:])
    pooled = np.maximum.reduce([image[..., i : i + 3, j : j + 17] for i in (0, 1) for j in (0, 1)])
    return (
        Example("MaxPool", [row], pooled_row, {"kernel_shape": [2]}),
        Example("MaxPool", [image], pooled, {"kernel_shape": [2, 2]}),
    )


def _ceil_pool(operator: str, sizes: Sequence[int], **attributes: Any) -> Example:
    """Return an example of a pool over ones with ceil_mode, whose result has a single element along each axis."""
    return Example(
        operator,
        [np.ones((1, 1, *sizes), np.float32)],
        np.ones((1,) * (2 + len(sizes)), np.float32),
        {"ceil_mode": 1, **attributes},
    )


def _attention(mask: np.ndarray, expected: float, **attributes: Any) -> Example:
    """Return an example of Attention with equal scores of two values, 1 and 3, before the mask."""
    keys = np.zeros((1, 1, 2, 1), np.float32)
    values = _floats(1, 3).reshape(1, 1, 2, 1)
    return Example(
        "Attention", [keys[:, :, :1], keys, values, mask], np.full((1, 1, 1, 1), expected, np.float32), attributes
    )


#: Behaviour -> examples that show it. A behaviour that has the name of an operator decides whether the operator is
#: emitted as a whole; "MaxPool with ceil_mode" decides it for the calls that have this attribute.
BEHAVIOURS: Dict[str, Tuple[Example, ...]] = {
    "Gather of texts": (
        Example("Gather", [_texts(["a", "b"], ["c", "d"]), np.asarray(1)], _texts("c", "d"), {"axis": 0}),
    ),
    "StringSplit at white space": (Example("StringSplit", [_texts("a\tb")], _texts(["a", "b"]), {}, 2),),
    "StringSplit": (Example("StringSplit", [_texts("")], _texts([""]), {"delimiter": ","}, 2),),
    # onnxruntime 1.10 to 1.31 loses NaN and -inf in a pool. A composed pool takes up to eight times as long, so the
    # operator is emitted as a whole. Only the primitive, whose definition has both, is composed.
    # onnxruntime 1.14 ends the process if it has no kernel for the dtype, and a function instead.
    "functions of float16": (Example("Elu", [np.ones(1, np.float16)], np.ones(1, np.float16), {}, safe_from=19),),
    # onnxruntime 1.10 to 1.23 divides by the number of rows.
    "TopK of no rows": (
        Example(
            "TopK", [_floats().reshape(0, 2), np.asarray([1])], _floats().reshape(0, 1), {"axis": 1}, 2, safe_from=24
        ),
    ),
    "MaxPool of NaN and -inf": _pools(),
    # onnxruntime before 1.20 counts a last window that lies in the padding.
    "MaxPool with ceil_mode": (_ceil_pool("MaxPool", [2, 2], kernel_shape=[1, 1], strides=[2, 2]),),
    "AveragePool with ceil_mode": (
        _ceil_pool("AveragePool", [2, 2], kernel_shape=[2, 2], strides=[3, 3], pads=[0, 0, 1, 1]),
    ),
    # onnxruntime 1.23 gives NaN for a query without keys, and caps scores after the mask.
    "Attention": (_attention(np.asarray([[False, False]]), 0), _attention(np.asarray([[True, False]]), 1)),
    "Attention with softcap": (_attention(_floats([0, -_INF]), 1, softcap=1.0),),
    "Max": _extremes("Max"),
    "Min": _extremes("Min"),
    "Clip": (_pointwise("Clip", {_NAN: _NAN, 1: 0.5, -1: 0}, *_BOUNDS),),
    "Erf": (_pointwise("Erf", {_NAN: _NAN, _INF: 1, 0: 0}),),
    # the Softmax of float16 is a function in onnxruntime 1.19, with a ReduceMax
    "Softmax": (Example("Softmax", [_floats()], _floats(), {"axis": 0}),),
    "LogSoftmax": (Example("LogSoftmax", [_floats()], _floats(), {"axis": 0}),),
    "Sqrt": (_pointwise("Sqrt", {_INF: _INF, 4: 2}),),
    "Floor": (_pointwise("Floor", {_INF: _INF, -_INF: -_INF, 1.5: 1}),),
    "Ceil": (_pointwise("Ceil", {_INF: _INF, -_INF: -_INF, 1.5: 2}),),
    "empty ReduceSum": (_reduction("ReduceSum", 0),),
    "empty ReduceProd": (_reduction("ReduceProd", 1),),
    "empty ReduceMax": (_reduction("ReduceMax", -_INF),),
    "empty ReduceMin": (_reduction("ReduceMin", _INF),),
    "empty ReduceMean": (_reduction("ReduceMean", _NAN),),
    "empty ArgMax": (_position("ArgMax"),),
    "empty ArgMin": (_position("ArgMin"),),
}
_ACTIVATIONS = (
    _pointwise("Celu", {_NAN: _NAN, 2: 2, 0: 0}),
    _pointwise("Elu", {_NAN: _NAN, 2: 2, 0: 0}),
    _pointwise("Gelu", {_NAN: _NAN, 0: 0}),
    _pointwise("HardSigmoid", {_NAN: _NAN, 0: 0.5, _INF: 1, -_INF: 0}),
    _pointwise("HardSwish", {_NAN: _NAN, 0: 0, 3: 3}),
    _pointwise("LeakyRelu", {_NAN: _NAN, 2: 2, -2: -1, -_INF: -_INF}, alpha=0.5),
    _pointwise("Mish", {_NAN: _NAN, 0: 0}),
    _pointwise("PRelu", {_NAN: _NAN, 2: 2, -2: -1, -_INF: -_INF}, _floats(0.5)),
    _pointwise("Relu", {_NAN: _NAN, -1: 0}),
    _pointwise("Selu", {_NAN: _NAN, 2: 2, 0: 0}, alpha=1.0, gamma=1.0),
    _pointwise("Shrink", {_NAN: 0, 2: 2, 0.25: 0}),
    _pointwise("Softplus", {_NAN: _NAN, _INF: _INF, -_INF: 0}),
    _pointwise("Softsign", {_NAN: _NAN, 1: 0.5, -1: -0.5}),
    _pointwise("Swish", {_NAN: _NAN, 0: 0}),
    _pointwise("ThresholdedRelu", {_NAN: 0, 2: 2, 1: 0}),
)
BEHAVIOURS.update((example.operator, (example,)) for example in _ACTIVATIONS)
BEHAVIOURS.update((operator, (_extreme(operator),)) for operator in _PICKED)
BEHAVIOURS.update((operator + " of integers", (_order(operator),)) for operator in _PICKED)
BEHAVIOURS.update((operator + " of integers", (_overflow(operator),)) for operator in ("ReduceSum", "ReduceProd"))
BEHAVIOURS.update(("ScatterND of " + reduction, (_scatter(reduction),)) for reduction in ("add", "mul", "max", "min"))
