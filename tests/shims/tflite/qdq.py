"""Small float models, and the QDQ models that a quantiser makes of them. The scales come from results of onnxruntime."""

from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx_compat_tflite import SHIM
from onnx_compat_tflite import flatbuffer as fb

import onnx_compat

__all__ = ["Case", "Layers", "Scheme", "quantize_model"]

#: What keeps the scale of its input.
_MOVES = frozenset(
    "MaxPool Reshape Transpose Flatten Slice Squeeze Unsqueeze DepthToSpace SpaceToDepth Pad Resize Identity".split()
)
#: What an activation is not parted from by a quantization.
_PRODUCERS = frozenset("Conv Gemm MatMul Add Sub Mul ConvTranspose".split())


class Scheme(NamedTuple):
    """The dtypes of the quantised activations and of the weights."""

    activations: str = "int8"
    weights: str = "int8"
    per_channel: bool = False
    symmetric: bool = False

    def parameters(self, values: Any) -> Tuple[float, int]:
        """Return a scale and a zero point whose integers cover these numbers and zero."""
        return chosen(values, self.activations, self.symmetric or self.activations == "int16")


def chosen(values: Any, dtype: str, symmetric: bool) -> Tuple[float, int]:
    low, high = min(float(np.min(values)), 0.0), max(float(np.max(values)), 0.0)
    ends = np.iinfo(dtype)
    if symmetric and ends.min:
        return float(np.float32(max(-low, high) / ends.max or 1)), 0
    if symmetric:
        return float(np.float32(max(-low, high) / 127 or 1)), 128
    scale = float(np.float32((high - low) / (int(ends.max) - int(ends.min)) or 1))
    return scale, int(np.clip(np.round(ends.min - low / scale), ends.min, ends.max))


class Layers:
    """Builder of a float model: each method appends a node and returns the name of its result."""

    def __init__(self, shape: Sequence[int], seed: int = 0) -> None:
        self.random = np.random.RandomState(seed)
        self.shape = list(shape)
        self.nodes: List[Any] = []
        self.weights: Dict[str, Any] = {}

    def weight(self, *shape: int, scale: float = 0.5) -> str:
        return self.constant((self.random.randn(*shape) * scale).astype(np.float32))

    def constant(self, array: Any) -> str:
        name = "w%d" % len(self.weights)
        self.weights[name] = np.asarray(array)
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = "t%d" % len(self.nodes)
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=operator + name, **attributes))
        return name

    def conv(self, x: str, fan_in: int, filters: int, taps: int = 3, bias: bool = True, **attributes: Any) -> str:
        weights = self.weight(filters, fan_in // attributes.get("group", 1), taps, taps)
        attributes.setdefault("pads", [taps // 2] * 4)
        extra = [self.weight(filters)] if bias else []
        return self.node("Conv", x, weights, *extra, kernel_shape=[taps, taps], **attributes)

    def gemm(self, x: str, fan_in: int, filters: int) -> str:
        return self.node("Gemm", x, self.weight(filters, fan_in), self.weight(filters), transB=1)

    def model(self, *outputs: str, opset: int = 13) -> Any:
        graph = helper.make_graph(
            self.nodes,
            "layers",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )
        model_spec = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model_spec.ir_version = 7
        return model_spec

    def input(self, seed: int = 1) -> Any:
        return np.random.RandomState(seed).uniform(-1, 1, self.shape).astype(np.float32)


def quantize_model(model: Any, x: Any, scheme: Scheme) -> Any:
    """Return the QDQ model: a QuantizeLinear and a DequantizeLinear after each float tensor, a DequantizeLinear after
    each weight.
    """
    return _Quantizer(model, x, scheme).model()


class _Quantizer:
    def __init__(self, model: Any, x: Any, scheme: Scheme) -> None:
        self.source, self.scheme = model, scheme
        self.domain = "com.microsoft" if scheme.activations == "int16" else ""  # ONNX has it from opset 21 on
        self.weights = {initializer.name: numpy_helper.to_array(initializer) for initializer in model.graph.initializer}
        self.nodes: List[Any] = []
        self.initializers: Dict[str, Any] = {}
        self.values = _values(model, x)
        self.parameters: Dict[str, Tuple[float, int]] = {}
        self.renamed: Dict[str, str] = {}

    def model(self) -> Any:
        outputs = [output.name for output in self.source.graph.output]
        self._activation("x", "x")
        for node in self.source.graph.node:
            self._node(node, outputs)
        graph = helper.make_graph(
            self.nodes,
            "quantized",
            list(self.source.graph.input),
            [helper.make_tensor_value_info(self.renamed[name], TensorProto.FLOAT, None) for name in outputs],
            [numpy_helper.from_array(array, name) for name, array in self.initializers.items()],
        )
        opsets = [*self.source.opset_import, helper.make_opsetid("com.microsoft", 1)]
        model_spec = helper.make_model(graph, opset_imports=opsets)
        model_spec.ir_version = self.source.ir_version
        return model_spec

    def _node(self, node: Any, outputs: Sequence[str]) -> None:
        copied = onnx.NodeProto()
        copied.CopyFrom(node)
        weighs = node.op_type in ("Conv", "Gemm", "MatMul", "ConvTranspose")
        for position, name in enumerate(node.input):
            array = self.weights.get(name)
            if not name:
                continue
            if array is None:
                copied.input[position] = self.renamed[name]
            elif array.dtype.kind != "f" or node.op_type == "Resize":
                self.initializers[name] = array
            elif weighs and position == 2:
                copied.input[position] = self._bias(name, array, node)
            elif weighs:
                copied.input[position] = self._weights(name, array, node)
            else:
                copied.input[position] = self._constant(name, array)
        self.nodes.append(copied)
        result = node.output[0]
        readers = [node for node in self.source.graph.node if result in node.input]
        fused = node.op_type in _PRODUCERS and len(readers) == 1 and readers[0].op_type in ("Relu", "Clip")
        if fused and result not in outputs:
            self.renamed[result] = result
            return
        if node.op_type in _MOVES and node.input[0] in self.parameters:
            self.parameters[result] = self.parameters[node.input[0]]
        self._activation(result, result)

    def _activation(self, name: str, source: str) -> None:
        scale, zero = self.parameters.setdefault(name, self.scheme.parameters(self.values[name]))
        dtype = self.scheme.activations
        parameters = [
            self._add_initializer(name + "_scale", np.float32(scale)),
            self._add_initializer(name + "_zero", np.dtype(dtype).type(zero)),
        ]
        self.nodes.append(helper.make_node("QuantizeLinear", [source, *parameters], [name + "_q"], domain=self.domain))
        dequantize = helper.make_node(
            "DequantizeLinear", [name + "_q", *parameters], [name + "_dq"], domain=self.domain
        )
        self.nodes.append(dequantize)
        self.renamed[name] = name + "_dq"

    def _constant(self, name: str, array: Any) -> str:
        scale, zero = self.scheme.parameters(array)
        ends = np.iinfo(self.scheme.activations)
        stored = np.clip(np.round(array / np.float32(scale)) + zero, ends.min, ends.max).astype(ends.dtype)
        return self._dequantize(name, stored, np.float32(scale), ends.dtype.type(zero), None)

    def _weights(self, name: str, array: Any, node: Any) -> str:
        axis = _channels(node, array)
        ends = np.iinfo(self.scheme.weights)
        parts = np.moveaxis(array, axis, 0) if self.scheme.per_channel else array[None]
        result = [chosen(part, self.scheme.weights, bool(ends.min)) for part in parts]
        scales = np.asarray([scale for scale, _ in result], np.float32)
        zeros = np.asarray([zero for _, zero in result], ends.dtype)
        shape = [-1] + [1] * (parts.ndim - 1)
        stored = np.round(parts / scales.reshape(shape)) + zeros.reshape(shape).astype(np.int32)
        stored = np.clip(stored, ends.min, ends.max).astype(ends.dtype)
        if self.scheme.per_channel:
            self.parameters[name] = (scales, 0)  # type: ignore[assignment]
            return self._dequantize(name, np.moveaxis(stored, 0, axis), scales, zeros, axis)
        self.parameters[name] = (scales[0], 0)
        return self._dequantize(name, stored[0], scales[0], zeros[0], None)

    def _bias(self, name: str, array: Any, node: Any) -> str:
        scale = np.float32(self.parameters[node.input[0]][0]) * np.asarray(
            self.parameters[node.input[1]][0], np.float32
        )
        stored = np.round(array / scale).astype(np.int32)
        return self._dequantize(name, stored, scale, np.zeros(np.shape(scale), np.int32), 0 if np.ndim(scale) else None)

    def _dequantize(self, name: str, stored: Any, scale: Any, zero: Any, axis: Optional[int]) -> str:
        inputs = [
            self._add_initializer(name + "_q", stored),
            self._add_initializer(name + "_scale", scale),
            self._add_initializer(name + "_zero", zero),
        ]
        where = {} if axis is None else {"axis": axis}
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [name + "_dq"], domain=self.domain, **where))
        return name + "_dq"

    def _add_initializer(self, name: str, array: Any) -> str:
        self.initializers[name] = np.asarray(array)
        return name


def _channels(node: Any, array: Any) -> int:
    """Return the axis of a weight that holds the channels of the result."""
    if node.op_type == "Conv":
        return 0
    if node.op_type == "ConvTranspose":
        return 1
    transposed = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
    return 0 if transposed else int(array.ndim) - 1


def _values(model: Any, x: Any) -> Dict[str, Any]:
    """Return name -> value of every tensor of the model, as onnxruntime computes it."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    named = {output.name for output in whole.graph.output}
    for node in whole.graph.node:
        for name in node.output:
            if name not in named:
                whole.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(whole.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [array.name for array in session.get_outputs()]
    return dict(zip(names, session.run(None, {"x": x})), x=x)


class Case:
    """A QDQ model and its .tflite file. `ours` and `theirs` return the outputs of the file and of onnxruntime."""

    def __init__(self, model: Any, x: Any, folder: Path) -> None:
        self.model, self.x = model, x
        onnx.save(model, str(folder / "model.onnx"))
        onnx_compat.convert(str(folder / "model.onnx"), str(folder / "model.tflite"), shim="tflite")
        self.graph = fb.read(str(folder / "model.tflite")).subgraphs[0]
        self.compiled = SHIM.load_converted(str(folder / "model.tflite"), "tflite")[0]

    def ours(self) -> List[Any]:
        return self.compiled.run([self.x])

    def theirs(self, optimized: bool) -> List[Any]:
        options = onnxruntime.SessionOptions()
        level = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            self.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        actual: List[Any] = session.run(None, {session.get_inputs()[0].name: self.x})
        return actual

    @property
    def names(self) -> List[str]:
        return [operator.builtin for operator in self.graph.operators]

    def floats(self) -> List[str]:
        """Return the operators of the file that compute with floats."""
        return [
            operator.builtin
            for operator in self.graph.operators
            if operator.builtin not in ("QUANTIZE", "DEQUANTIZE")
            and "float32" in [self.graph.tensors[index].dtype for index in operator.outputs]
        ]

    def steps(self, optimized: bool = False) -> float:
        """Return the largest difference of the outputs from onnxruntime, in steps of the output scale."""
        return self.apart(self.ours(), self.theirs(optimized))

    def theirs_apart(self) -> float:
        return self.apart(self.theirs(False), self.theirs(True))

    def apart(self, some: Sequence[Any], other_results: Sequence[Any]) -> float:
        scales = {node.output[0]: node.input[1] for node in self.model.graph.node if "Linear" in node.op_type}
        held = {initializer.name: numpy_helper.to_array(initializer) for initializer in self.model.graph.initializer}
        result = []
        for output, first, second in zip(self.model.graph.output, some, other_results):
            assert first.shape == second.shape and first.dtype == second.dtype
            scale = 1.0 if first.dtype.kind != "f" else float(held[scales[output.name]])
            result.append(np.abs(first.astype(np.float64) - second).max() / scale)
        return float(max(result))
