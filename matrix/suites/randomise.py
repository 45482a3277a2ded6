"""The suite `light-random`: onnx's light models with random weights, and with the outputs of onnxruntime.

In the recorded light models all weights have one value, and so have all outputs. Here weights are random, scaled by
their use. A batch normalisation gets the statistics of its real input, so the model is run node by node.

Some of these networks have half a gigabyte of weights. To keep the files small, a large weight is computed in the
model: a slice of one repeated array of random numbers.
"""

from __future__ import annotations

import zlib
from typing import Any, Dict, List, Tuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from matrix.suites.recorded import Recorded

__all__ = ["randomise"]

_POOL = 65521
"""The length of the repeated array. It is a prime, which no length of a row divides, so that rows of a weight differ."""
_SMALL = 4096


def randomise(case: Recorded) -> Recorded:
    """Return a case of the suite `light` with random weights and a random input, and with the outputs of onnxruntime.

    The `atol` of the new case is 1e-4 of the largest magnitude of an output.
    """
    model = onnx.load_from_string(case.model)
    image = next(value for value in model.graph.input if value.name not in _initializers(model.graph))
    shape = [dim.dim_value for dim in image.type.tensor_type.shape.dim]
    feed = _random(image.name).standard_normal(shape).astype(np.float32)
    _Weights(model, case.name).settle({image.name: feed})
    content: bytes = model.SerializeToString()
    outputs = _session(content).run(None, {image.name: feed})
    atol = float("%.1g" % (1e-4 * max(np.abs(output).max() for output in outputs)))
    return Recorded(case.name, content, [(_serialize([feed]), _serialize(outputs))], case.rtol, atol)


class _Weights:
    """Chooses new weights for one model, and changes its graph in place. `name`: the case; it seeds the weights.

    `kept`: name -> initializer that is not a weight. `making`: the nodes that compute large weights.
    """

    def __init__(self, model: onnx.ModelProto, name: str) -> None:
        self.model, self.graph, self.name = model, model.graph, name
        self.pool = _random(name).standard_normal(_POOL).astype(np.float32)
        initializers = _initializers(self.graph)
        generated = [node for node in self.graph.node if node.op_type == "ConstantOfShape"]
        self.shapes: Dict[str, Tuple[int, ...]] = {
            name: array.shape for name, array in initializers.items() if array.dtype == np.float32
        }
        self.shapes.update((node.output[0], tuple(initializers[node.input[0]])) for node in generated)
        self.kept = {
            name: array
            for name, array in initializers.items()
            if name not in self.shapes and all(name != node.input[0] for node in generated)
        }
        self.nodes = [node for node in self.graph.node if node.op_type != "ConstantOfShape"]
        self.making: List[onnx.NodeProto] = []

    def settle(self, values: Dict[str, np.ndarray]) -> None:
        """Run the graph node by node, choose each weight where it is first used, and write the weights to the graph.

        `values`: name -> value of the inputs of the graph. The values of all tensors are added to it.
        """
        values.update(self.kept)
        for node in self.nodes:
            for position, name in enumerate(node.input):
                if name in self.shapes and name not in values:
                    values[name] = self._weight(node, position, name, values)
            values.update(_run_node(node, self.model, values))
        del self.graph.node[:]
        self.graph.node.extend([*self.making, *self.nodes])
        self._declare({name: values[name] for name in self.shapes if name in values} | self.kept)

    def _weight(self, node: onnx.NodeProto, position: int, name: str, values: Dict[str, np.ndarray]) -> np.ndarray:
        """Return the new weight `name`, which the input `position` of a node uses. `values`: name -> value so far.

        The mean and variance of a batch normalisation are those of its input. Other weights are random.
        """
        shape, random = self.shapes[name], _random(self.name + name)
        if node.op_type == "BatchNormalization" and position >= 3:
            activations = values[node.input[0]]
            axes = (0, *range(2, activations.ndim))
            return np.asarray(activations.mean(axes) if position == 3 else activations.var(axes) + 0.01, np.float32)
        if node.op_type in ("Conv", "Gemm") and position == 1:
            activations = values[node.input[0]]
            terms = np.prod(shape[1:]) if node.op_type == "Conv" else activations.shape[1]
            return self._cut(name, float(1 / np.sqrt(terms * np.square(activations).mean())))
        user = next(
            (consumer for consumer in self.nodes if node.op_type == "Unsqueeze" and node.output[0] in consumer.input),
            node,
        )
        scales = user.op_type == "Mul" or (user.op_type == "BatchNormalization" and position == 1)
        low, high = (0.6, 1.4) if scales else (-0.3, 0.3)
        return random.uniform(low, high, shape).astype(np.float32)

    def _cut(self, name: str, scale: float) -> np.ndarray:
        """Return the weight `name`: normal random numbers with the standard deviation `scale`.

        They are a slice of the repeated array; its offset depends on the name. For a large weight, the nodes that
        compute it are added to `making`.
        """
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
        """Replace the initializers of the graph by `arrays`, name -> array. An array that a node computes is left out.

        The initializers are also declared as inputs, because the IR version of the models requires it.
        """
        generated = {name for node in self.making for name in node.output}
        model_inputs = [value for value in self.graph.input if value.name not in _initializers(self.graph)]
        del self.graph.initializer[:]
        del self.graph.input[:]
        self.graph.input.extend(model_inputs)
        for name, array in arrays.items():
            if name not in generated:
                tensor = numpy_helper.from_array(array, name)
                self.graph.initializer.append(tensor)
                self.graph.input.append(helper.make_tensor_value_info(name, tensor.data_type, array.shape))


def _run_node(node: onnx.NodeProto, model: onnx.ModelProto, values: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """Run one node with onnxruntime. Return its outputs by name."""
    feeds = {name: values[name] for name in node.input if name}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feeds.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "one", inputs, outputs)
    node_model = helper.make_model(graph, opset_imports=model.opset_import, ir_version=4)
    return dict(zip([value.name for value in outputs], _session(node_model.SerializeToString()).run(None, feeds)))


def _session(model: bytes) -> Any:
    import onnxruntime  # only this suite needs it

    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def _initializers(graph: onnx.GraphProto) -> Dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}


def _random(name: str) -> np.random.RandomState:
    """Return a random generator whose seed is the CRC of a name."""
    return np.random.RandomState(zlib.crc32(name.encode()))


def _serialize(arrays: List[np.ndarray]) -> List[bytes]:
    return [numpy_helper.from_array(array).SerializeToString() for array in arrays]
