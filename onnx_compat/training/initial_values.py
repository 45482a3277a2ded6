"""Write the initialization of a training: random parameters, neutral statistics, the first states of the optimizer."""

import math
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Sequence, Set, Tuple

import numpy as np

from onnx_compat.ir.dtypes import DType, float32, from_public
from onnx_compat.model import Graph
from onnx_compat.model.names import Names
from onnx_compat.model.write import tensor_proto

if TYPE_CHECKING:
    import onnx

__all__ = ["write_initialization"]

#: (domain, operator) -> the input with the factors that it multiplies normalised values by. They begin as ones.
_SCALES = {
    ("", "BatchNormalization"): 1,
    ("", "GroupNormalization"): 1,
    ("", "InstanceNormalization"): 1,
    ("", "LayerNormalization"): 1,
    ("", "RMSNormalization"): 1,
    ("com.microsoft", "SkipLayerNormalization"): 2,
}
#: The uses of values: (value, domain, operator, number of the input).
Uses = Set[Tuple[str, str, str, int]]
_RECURRENT = ("RNN", "GRU", "LSTM")
#: The input of a BatchNormalization with the running variance.
_VARIANCE = 4
#: The first slope of a PRelu.
_SLOPE = 0.25


def write_initialization(
    graph: Graph,
    parameters: Mapping[str, np.ndarray],
    statistics: Mapping[str, np.ndarray],
    states: Mapping[str, np.ndarray],
) -> "Tuple[onnx.GraphProto, Dict[str, str]]":
    """Return (graph of the initialization, its bindings: state -> output).

    - A parameter of two axes or more: uniform in +-sqrt(6 / (fan in + fan out)).
    - Another parameter: 1 for a factor, 0.25 for the slope of a PRelu, else 0.
    - statistics: 1 for a running variance, 0 for a running mean.
    - states: the first values of the optimizer's states, each of them a single number.
    """
    import onnx

    writer = _Writer()
    uses = {(name, node.domain, node.operator, k) for node in graph.walk() for k, name in enumerate(node.inputs)}
    for name, array in parameters.items():
        if array.ndim >= 2 and not _reads(uses, name, ["PRelu"]):
            is_recurrent = _reads(uses, name, _RECURRENT)
            writer.uniform(name, array, math.sqrt(6 / max(_fans(array.shape, is_recurrent), 1)))
        else:
            writer.fill(name, array, _first_number(uses, name))
    for name, array in statistics.items():
        is_variance = any(use[0] == name and use[2:] == ("BatchNormalization", _VARIANCE) for use in uses)
        writer.fill(name, array, 1 if is_variance else 0)
    for name, array in states.items():
        writer.fill(name, array, array.reshape(-1)[0] if array.size else 0)
    outputs = [
        onnx.helper.make_tensor_value_info(output, from_public(array)[1].onnx, array.shape)
        for output, array in zip(
            writer.bindings.values(), [*parameters.values(), *statistics.values(), *states.values()]
        )
    ]
    return onnx.GraphProto(name="initialization", node=writer.nodes, output=outputs), writer.bindings


def _reads(uses: Uses, name: str, operators: Sequence[str]) -> bool:
    return any(use[0] == name and use[2] in operators for use in uses)


def _fans(shape: Tuple[int, ...], is_recurrent: bool) -> int:
    """Return fan in + fan out of a weight: [out, in, kernel...] or [in, out].

    `is_recurrent`: whether the weight is [directions, gates, in], of an RNN, GRU or LSTM.
    """
    if is_recurrent:
        return sum(shape[1:])
    return int(np.prod(shape[2:], dtype=np.int64)) * (shape[0] + shape[1])


def _first_number(uses: Uses, name: str) -> float:
    """Return the first value of the elements of a parameter with less than two axes, or of a slope."""
    if _reads(uses, name, ["PRelu"]):
        return _SLOPE
    is_scale = any(use[0] == name and _SCALES.get(use[1:3]) == use[3] for use in uses)
    return 1 if is_scale or _reads(uses, name, ["Mul", "Div"]) else 0


class _Writer:
    """Collects the nodes of an initialization. `bindings` maps a state to its output."""

    def __init__(self) -> None:
        self.nodes: List[onnx.NodeProto] = []
        self.bindings: Dict[str, str] = {}
        self._names = Names()

    def uniform(self, state: str, array: np.ndarray, limit: float) -> None:
        """Add a RandomUniform from -limit to limit, of the shape and dtype of an array."""
        _, dtype = from_public(array)
        drawn = dtype if dtype.native else float32
        attributes: Dict[str, Any] = {"shape": list(array.shape), "low": -limit, "high": limit, "dtype": drawn.onnx}
        name = self._call("RandomUniform", [], state + "_random", **attributes)
        self.bindings[state] = name if drawn is dtype else self._call("Cast", [name], state + "_initial", to=dtype.onnx)

    def fill(self, state: str, array: np.ndarray, number: float) -> None:
        """Add a ConstantOfShape of the shape and dtype of an array, with one number for all elements."""
        _, dtype = from_public(array)
        shape = tensor_proto(np.asarray(array.shape, np.int64), DType.of("int64"), "")
        name = self._call("Constant", [], state + "_shape", value=shape)
        value = tensor_proto(np.full((1,), number, dtype.numpy), dtype, "")
        self.bindings[state] = self._call("ConstantOfShape", [name], state + "_initial", value=value)

    def _call(self, operator: str, inputs: List[str], output: str, **attributes: Any) -> str:
        import onnx

        name = self._names.fresh(output)
        self.nodes.append(onnx.helper.make_node(operator, inputs, [name], name=name + "_node", **attributes))
        return name
