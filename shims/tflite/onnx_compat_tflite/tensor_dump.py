"""Read the intermediate tensors of a .tflite file: all tensors of a run, or a tensor computed from given tensors.

Interpreters run without the default delegate, which keeps no intermediate tensors. Only the first subgraph is read: tensors
inside a branch or a loop are not listed.
"""

from dataclasses import replace
from typing import Dict, List, Mapping, Optional, Sequence, Set, Tuple

import numpy as np

from onnx_compat.shim import OpenedFile, UnsupportedError
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.allocation import Interpreter, TensorDetail
from onnx_compat_tflite.features import Runtime
from onnx_compat_tflite.file_validation import validate_file
from onnx_compat_tflite.node_ops import steps_of, tensor_names
from onnx_compat_tflite.runtime import decode_strings, encode_input

__all__ = ["TensorDump"]

#: Types whose tensors hold handles, not numbers.
_OPAQUE = ("resource", "variant")


class TensorDump(OpenedFile):
    """A .tflite file whose tensors can be read by name.

    If the first subgraph has a signature, its inputs and outputs have the names of the signature. Any other tensor has
    its name in the file. If several tensors have the same name, only the first is read: the inputs come first, then the
    results of the operators in their order. Raises InvalidModelError if the file is not a valid model.
    """

    notes = ("the values in between are those without the default delegate (XNNPACK)",)

    def __init__(self, runtime: Runtime, path: str) -> None:
        self._runtime = runtime
        self._path = path
        self._model = validate_file(fb.read(path))
        self._main = self._model.subgraphs[0]
        self._names = tensor_names(self._model)
        self._indices: Dict[str, int] = {}
        for index in [*self._main.inputs, *(index for op in self._main.operators for index in op.outputs)]:
            self._indices.setdefault(self._names[index], index)
        self.steps = steps_of(self._model, self._names)

    def values(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        """Run the file; return a dict {name: array} of its inputs and of all computed tensors of the first subgraph.

        Quantised tensors are dequantised. A float array for a quantised input is rounded to the scale of the input.
        Resources, variants and tensors without data are left out. Of several tensors of a name, the first is returned.

        Raises UnsupportedError if `inputs` lacks an input of the file, or if the run fails.
        """
        missing = [self._names[index] for index in self._main.inputs if self._names[index] not in inputs]
        if missing:
            raise UnsupportedError(
                "the model has no input '%s', which the file has" % missing[0], hint="was it made from this model?"
            )
        feed = [(index, inputs[self._names[index]]) for index in self._main.inputs]
        values = {
            self._names[index]: _dequantize(_quantize(array, self._tensor(index)), self._tensor(index))
            for index, array in feed
        }
        computed = [index for index in self._indices.values() if index not in self._main.inputs]
        computed = [index for index in computed if self._tensor(index).dtype not in _OPAQUE]
        results = self._run_graph(replace(self._main, outputs=computed), feed)
        values.update((self._names[index], value) for index, value in zip(computed, results) if value is not None)
        return values

    def alone(self, name: str, given: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the dequantised value of the tensor `name`, computed from `given`, a dict {name: array}.

        Only the operators between `given` and `name` run. Raises UnsupportedError if

        - the tensor depends on an input or a variable, and no given tensor lies between them,
        - the tensor has no data, or the run fails.

        Raises KeyError if `name`, or a name in `given`, is neither an input nor a computed tensor of the first
        subgraph.
        """
        target = self._indices[name]
        known = {self._indices[given_name] for given_name in given}
        operators, sources = self._backward_slice(target, known)
        missing = [index for index in sources if index not in known]
        if missing:
            raise UnsupportedError("'%s' cannot be computed without '%s'" % (name, self._names[missing[0]]))
        graph = fb.SubGraph(self._used_tensors(operators, given), operators, sorted(sources), [target], "alone")
        arrays = {self._indices[given_name]: array for given_name, array in given.items()}
        (value,) = self._run_graph(graph, [(index, arrays[index]) for index in graph.inputs])
        if value is None:
            raise UnsupportedError("'%s' has no data to compare" % name)
        return value

    def _tensor(self, index: int) -> fb.TensorSpec:
        return self._main.tensors[index]

    def _backward_slice(self, target: int, known: Set[int]) -> Tuple[List[fb.OperatorSpec], Set[int]]:
        """Return (operators, sources): the operators that compute the tensor `target` from the `known` tensors.

        The operators are in the order of the subgraph. The search goes backwards from `target` and ends at tensors in
        `known`, a set of tensor indices. It goes past `target` itself, even if `target` is known. `sources` are the
        tensors at which the search ends: known tensors and tensors that no operator writes. Constants are left out.
        """
        producers = {index: position for position, op in enumerate(self._main.operators) for index in op.outputs}
        positions: Set[int] = set()
        sources: Set[int] = set()
        pending = [target]
        while pending:
            index = pending.pop()
            if index in producers and (index not in known or index == target):
                if producers[index] not in positions:
                    positions.add(producers[index])
                    pending += [i for i in self._main.operators[producers[index]].inputs if i is not None]
            elif self._main.tensors[index].buffer is None:
                sources.add(index)
        return [self._main.operators[position] for position in sorted(positions)], sources

    def _used_tensors(
        self, operators: Sequence[fb.OperatorSpec], given: Mapping[str, np.ndarray]
    ) -> List[fb.TensorSpec]:
        """Return the tensors of the first subgraph with unchanged indices, for a new subgraph of `operators`.

        A constant that these operators do not read is replaced by a tensor without a buffer. A `given` tensor is
        replaced by a tensor with the shape of its array.
        """
        used = {index for op in operators for index in op.inputs}
        tensors = [
            tensor if index in used else replace(tensor, buffer=None) for index, tensor in enumerate(self._main.tensors)
        ]
        for name, array in given.items():
            index = self._indices[name]
            tensors[index] = replace(tensors[index], shape=array.shape, shape_signature=None)
        return tensors

    def _run_graph(self, graph: fb.SubGraph, feed: Sequence[Tuple[int, np.ndarray]]) -> List[Optional[np.ndarray]]:
        """Run `graph` in place of the first subgraph; return its dequantised outputs, None for an output without data.

        `feed` has a (tensor index, array) pair for each input, in order. A float array is quantised if its tensor is
        quantised. An array of integers is fed as it is. Raises UnsupportedError if the run fails.

        Values are read as outputs because `experimental_preserve_all_tensors` does not preserve all: some runtimes
        overwrite inputs of kernels.
        """
        content = fb.to_bytes(fb.ModelSpec([graph, *self._model.subgraphs[1:]]))
        try:
            interpreter = self._runtime.interpreter(True, model_content=content)
            details = interpreter.get_input_details()
            for detail, (_, array) in zip(details, feed):
                if tuple(detail["shape"]) != array.shape:
                    interpreter.resize_tensor_input(detail["index"], array.shape)
            interpreter.allocate_tensors()
            for detail, (index, array) in zip(details, feed):
                if array.size:
                    interpreter.set_tensor(detail["index"], encode_input(_quantize(array, self._tensor(index))))
            interpreter.invoke()
        except (RuntimeError, ValueError) as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise UnsupportedError("the TFLite runtime could not run it: %s" % lines[-1], shim="tflite") from error
        pairs = zip(graph.outputs, interpreter.get_output_details())
        return [_read_tensor(interpreter, detail, self._tensor(index)) for index, detail in pairs]


def _read_tensor(interpreter: Interpreter, detail: TensorDetail, tensor: fb.TensorSpec) -> Optional[np.ndarray]:
    """Return the value of an output, dequantised. Returns None if the runtime has no data for the output.

    `detail` is the description of the output by the runtime, `tensor` the tensor in the file. An output without
    elements is an empty array of its stored dtype. Strings are an object array of `str`.
    """
    shape = tuple(detail["shape"])
    if 0 in shape:
        return np.zeros(shape, fb.storage(tensor.dtype, ())[0] or object)
    try:
        array = interpreter.get_tensor(detail["index"])
    except (RuntimeError, ValueError):  # no data: an output of a branch that was not run
        return None
    return (
        decode_strings(array, np.shape(array)) if tensor.dtype == "string" else _dequantize(np.asarray(array), tensor)
    )


def _along_axis(values: Sequence[float], tensor: fb.TensorSpec, rank: int) -> np.ndarray:
    """Return per-channel scales or zero points as a float64 array that broadcasts along the quantised axis of `tensor`.

    Three scales for axis 1 and a `rank` of 4 have the shape [1, 3, 1, 1]. A single number becomes a scalar. `rank` is
    the rank of the array that the result is combined with.
    """
    array = np.asarray(values, np.float64)
    axis = tensor.quantization.axis if tensor.quantization is not None else 0
    return array.reshape([-1 if k == axis else 1 for k in range(rank)]) if array.size > 1 else array.reshape(())


def _dequantize(array: np.ndarray, tensor: fb.TensorSpec) -> np.ndarray:
    """Return (array - zero_point) * scale as float32.

    Returns the array itself if it has floats, or if the tensor is not quantised.
    """
    quantization = tensor.quantization
    if quantization is None or not quantization.scale or array.dtype.kind == "f":
        return array
    zero = _along_axis(quantization.zero_point or [0], tensor, array.ndim)
    real: np.ndarray = (array - zero) * _along_axis(quantization.scale, tensor, array.ndim)
    return real.astype(np.float32)


def _quantize(array: np.ndarray, tensor: fb.TensorSpec) -> np.ndarray:
    """Return round(array / scale) + zero_point, clipped to the tensor's dtype, if the tensor is quantised.

    A float64 array for a float32 tensor becomes float32. Returns `array` unchanged if the tensor is not quantised or
    stores other floats, or if the array is not of floats.
    """
    if array.dtype == np.float64 and tensor.dtype == "float32":
        return array.astype(np.float32)
    quantization = tensor.quantization
    if quantization is None or not quantization.scale or array.dtype.kind != "f" or tensor.dtype.startswith("float"):
        return array
    limits = np.iinfo(tensor.dtype)
    zero = _along_axis(quantization.zero_point or [0], tensor, array.ndim)
    numbers = np.round(array / _along_axis(quantization.scale, tensor, array.ndim)) + zero
    integers: np.ndarray = np.clip(numbers, limits.min, limits.max).astype(tensor.dtype)
    return integers
