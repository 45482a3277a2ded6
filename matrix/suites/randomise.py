"""The light models with weights under which they compute something, and with what onnxruntime computes.

As recorded, every weight is the same number, and so is every output. Here every weight is random, scaled by what it is
for, and batch normalisation has the statistics of what really reaches it; for that the model is walked node by node.
A large weight is cut from a repeated pool inside the model: some of these networks have half a gigabyte of them.
"""

from __future__ import annotations

import zlib
from typing import Any, Dict, List, Tuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from matrix.suites.recorded import Recorded

__all__ = ["randomised"]

_POOL = 65521
"""A prime: no row of a weight is as long as a divisor of it, so the rows of a weight differ."""
_SMALL = 4096


def randomised(case: Recorded) -> Recorded:
    """The same network, one random input, other weights; an error of 1e-4 of the largest output is allowed."""
    model = onnx.load_from_string(case.model)
    image = next(value for value in model.graph.input if value.name not in _initial(model.graph))
    shape = [dim.dim_value for dim in image.type.tensor_type.shape.dim]
    feed = _random(image.name).standard_normal(shape).astype(np.float32)
    _Weights(model, case.name).settle({image.name: feed})
    content: bytes = model.SerializeToString()
    outputs = _session(content).run(None, {image.name: feed})
    atol = float("%.1g" % (1e-4 * max(np.abs(output).max() for output in outputs)))
    return Recorded(case.name, content, [(_stored([feed]), _stored(outputs))], case.rtol, atol)


class _Weights:
    """New weights for the graph of a model, which this changes."""

    def __init__(self, model: onnx.ModelProto, name: str) -> None:
        self.model, self.graph, self.name = model, model.graph, name
        self.pool = _random(name).standard_normal(_POOL).astype(np.float32)
        given = _initial(self.graph)
        generated = [node for node in self.graph.node if node.op_type == "ConstantOfShape"]
        self.shapes: Dict[str, Tuple[int, ...]] = {
            name: array.shape for name, array in given.items() if array.dtype == np.float32
        }
        self.shapes.update((node.output[0], tuple(given[node.input[0]])) for node in generated)
        self.kept = {
            name: array
            for name, array in given.items()
            if name not in self.shapes and all(name != node.input[0] for node in generated)
        }
        self.nodes = [node for node in self.graph.node if node.op_type != "ConstantOfShape"]
        self.making: List[onnx.NodeProto] = []

    def settle(self, values: Dict[str, np.ndarray]) -> None:
        """Walk the graph from these inputs, give each weight its values where it is first used, and write them."""
        values.update(self.kept)
        for node in self.nodes:
            for position, name in enumerate(node.input):
                if name in self.shapes and name not in values:
                    values[name] = self._weight(node, position, name, values)
            values.update(_run(node, self.model, values))
        del self.graph.node[:]
        self.graph.node.extend([*self.making, *self.nodes])
        self._declare({name: values[name] for name in self.shapes if name in values} | self.kept)

    def _weight(self, node: onnx.NodeProto, position: int, name: str, values: Dict[str, np.ndarray]) -> np.ndarray:
        shape, random = self.shapes[name], _random(self.name + name)
        if node.op_type == "BatchNormalization" and position >= 3:
            seen = values[node.input[0]]
            axes = (0, *range(2, seen.ndim))
            return np.asarray(seen.mean(axes) if position == 3 else seen.var(axes) + 0.01, np.float32)
        if node.op_type in ("Conv", "Gemm") and position == 1:
            seen = values[node.input[0]]
            terms = np.prod(shape[1:]) if node.op_type == "Conv" else seen.shape[1]
            return self._cut(name, float(1 / np.sqrt(terms * np.square(seen).mean())))
        user = next((each for each in self.nodes if node.op_type == "Unsqueeze" and node.output[0] in each.input), node)
        scales = user.op_type == "Mul" or (user.op_type == "BatchNormalization" and position == 1)
        low, high = (0.6, 1.4) if scales else (-0.3, 0.3)
        return random.uniform(low, high, shape).astype(np.float32)

    def _cut(self, name: str, scale: float) -> np.ndarray:
        """Normal numbers of this scale: the pool repeated, from an offset that differs from weight to weight."""
        shape = self.shapes[name]
        size, start = int(np.prod(shape)), zlib.crc32(name.encode()) % _POOL
        times = -(-(start + size) // _POOL)
        factor = np.float32(scale)
        if size > _SMALL:
            self.kept.update(
                {
                    "pool": self.pool,
                    name + "/times": np.array([times], np.int64),
                    name + "/shape": np.array(shape, np.int64),
                    name + "/scale": factor.reshape(1),
                }
            )
            steps: List[Tuple[str, List[str], Dict[str, Any]]] = [
                ("Tile", ["pool", name + "/times"], {}),
                ("Slice", [name + "/Tile"], {"axes": [0], "starts": [start], "ends": [start + size]}),
                ("Mul", [name + "/Slice", name + "/scale"], {}),
                ("Reshape", [name + "/Mul", name + "/shape"], {}),
            ]
            for operator, inputs, attributes in steps:
                output = name if operator == "Reshape" else f"{name}/{operator}"
                self.making.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return np.asarray(np.tile(self.pool, times)[start : start + size] * factor).reshape(shape)

    def _declare(self, arrays: Dict[str, np.ndarray]) -> None:
        """As initializers, which at this IR version are inputs too; what nodes make is left out."""
        made = {name for node in self.making for name in node.output}
        told = [value for value in self.graph.input if value.name not in _initial(self.graph)]
        del self.graph.initializer[:]
        del self.graph.input[:]
        self.graph.input.extend(told)
        for name, array in arrays.items():
            if name not in made:
                tensor = numpy_helper.from_array(array, name)
                self.graph.initializer.append(tensor)
                self.graph.input.append(helper.make_tensor_value_info(name, tensor.data_type, array.shape))


def _run(node: onnx.NodeProto, model: onnx.ModelProto, values: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """One node, by onnxruntime."""
    feeds = {name: values[name] for name in node.input if name}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feeds.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "one", inputs, outputs)
    one = helper.make_model(graph, opset_imports=model.opset_import, ir_version=4)
    return dict(zip([value.name for value in outputs], _session(one.SerializeToString()).run(None, feeds)))


def _session(model: bytes) -> Any:
    import onnxruntime  # needed to make this suite, and by nothing else that fetches

    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def _initial(graph: onnx.GraphProto) -> Dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}


def _random(name: str) -> np.random.RandomState:
    return np.random.RandomState(zlib.crc32(name.encode()))


def _stored(arrays: List[np.ndarray]) -> List[bytes]:
    return [numpy_helper.from_array(array).SerializeToString() for array in arrays]
