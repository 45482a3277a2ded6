"""Running a .tflite file to look at what comes about inside, and parts of it alone.

Without the default delegate: what runs in a delegate is not kept. The operators of the first subgraph are looked at; the
bodies of control flow are inside of an operator.
"""

from dataclasses import replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import numpy as np

from onnx_compat.shim import OpenedFile, Step, UnsupportedError
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.features import Runtime
from onnx_compat_tflite.runtime import as_given, as_text

__all__ = ["Insight"]

#: What has no numbers in it.
_OPAQUE = ("resource", "variant")


class Insight(OpenedFile):
    notes = ("the values in between are those without the default delegate (XNNPACK)",)

    def __init__(self, runtime: Runtime, path: str) -> None:
        self._runtime = runtime
        self._path = path
        self._model = fb.read(path)
        self._main = self._model.subgraphs[0]
        signature = next((one for one in self._model.signatures if one.subgraph == 0), None)
        self._named = self._names(signature)
        self._places: Dict[str, int] = {}
        for index in [*self._main.inputs, *(index for one in self._main.operators for index in one.outputs)]:
            self._places.setdefault(self._named[index], index)
        self.steps = [self._step(one) for one in self._main.operators]

    def _names(self, signature: Optional[fb.Signature]) -> List[str]:
        """A signature's name for what it names, for the rest the tensor's own."""
        names = [tensor.name for tensor in self._main.tensors]
        for ports in (signature.inputs, signature.outputs) if signature is not None else ():
            for name, index in ports.items():
                names[index] = name
        return names

    def _step(self, operator: fb.OperatorSpec) -> Step:
        read = [index for index in operator.inputs if index is not None and self._main.tensors[index].buffer is None]
        bound = str(operator.options.get("fused_activation_function", "NONE"))
        kind = operator.builtin if bound == "NONE" else "%s + %s" % (operator.builtin, bound)
        names = self._named
        return Step(kind, tuple(names[index] for index in read), tuple(names[index] for index in operator.outputs))

    def values(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        missing = [self._named[index] for index in self._main.inputs if self._named[index] not in inputs]
        if missing:
            raise UnsupportedError(
                "the file's input '%s' is none of the model's" % missing[0], hint="was it made from this model?"
            )
        given = [(index, inputs[self._named[index]]) for index in self._main.inputs]
        found = {
            self._named[index]: _real(_stored(array, self._tensor(index)), self._tensor(index))
            for index, array in given
        }
        made = [index for index in self._places.values() if index not in self._main.inputs]
        made = [index for index in made if self._tensor(index).dtype not in _OPAQUE]
        results = self._results(replace(self._main, outputs=made), given)
        found.update((self._named[index], value) for index, value in zip(made, results) if value is not None)
        return found

    def alone(self, name: str, given: Mapping[str, np.ndarray]) -> np.ndarray:
        target = self._places[name]
        stops = {self._places[one] for one in given}
        operators, read = self._needed(target, stops)
        lacking = [index for index in read if index not in stops]
        if lacking:
            raise UnsupportedError("'%s' cannot be computed without '%s'" % (name, self._named[lacking[0]]))
        graph = fb.SubGraph(self._tensors(operators, given), operators, sorted(read), [target], "alone")
        arrays = {self._places[one]: array for one, array in given.items()}
        (value,) = self._results(graph, [(index, arrays[index]) for index in graph.inputs])
        if value is None:
            raise UnsupportedError("'%s' holds nothing that can be compared" % name)
        return value

    def _tensor(self, index: int) -> fb.TensorSpec:
        return self._main.tensors[index]

    def _needed(self, target: int, stops: Set[int]) -> Tuple[List[fb.OperatorSpec], Set[int]]:
        """The operators that a tensor takes, back to `stops`; and what they read that none of them writes."""
        writer = {index: place for place, one in enumerate(self._main.operators) for index in one.outputs}
        kept: Set[int] = set()
        read: Set[int] = set()
        waiting = [target]
        while waiting:
            index = waiting.pop()
            if index in writer and (index not in stops or index == target):
                if writer[index] not in kept:
                    kept.add(writer[index])
                    waiting += [i for i in self._main.operators[writer[index]].inputs if i is not None]
            elif self._main.tensors[index].buffer is None:
                read.add(index)
        return [self._main.operators[place] for place in sorted(kept)], read

    def _tensors(self, operators: Sequence[fb.OperatorSpec], given: Mapping[str, np.ndarray]) -> List[fb.TensorSpec]:
        """All of them, so that their places stay: without the constants that nobody reads, and in the shapes of now."""
        read = {index for one in operators for index in one.inputs}
        tensors = [one if index in read else replace(one, buffer=None) for index, one in enumerate(self._main.tensors)]
        for name, array in given.items():
            place = self._places[name]
            tensors[place] = replace(tensors[place], shape=array.shape, shape_signature=None)
        return tensors

    def _results(self, graph: fb.SubGraph, given: Sequence[Tuple[int, np.ndarray]]) -> List[Optional[np.ndarray]]:
        """The outputs of a graph in the place of the first. Not `experimental_preserve_all_tensors`, under which kernels of
        some runtimes still write a result over what they read.
        """
        content = fb.to_bytes(fb.ModelSpec([graph, *self._model.subgraphs[1:]]))
        try:
            interpreter = self._runtime.interpreter(True, model_content=content)
            details = interpreter.get_input_details()
            for detail, (_, array) in zip(details, given):
                if tuple(detail["shape"]) != array.shape:
                    interpreter.resize_tensor_input(detail["index"], array.shape)
            interpreter.allocate_tensors()
            for detail, (index, array) in zip(details, given):
                if array.size:
                    interpreter.set_tensor(detail["index"], as_given(_stored(array, self._tensor(index))))
            interpreter.invoke()
        except (RuntimeError, ValueError) as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise UnsupportedError("the TFLite runtime could not run it: %s" % lines[-1], shim="tflite") from error
        pairs = zip(graph.outputs, interpreter.get_output_details())
        return [self._taken(interpreter, detail, self._tensor(index)) for index, detail in pairs]

    def _taken(self, interpreter: Any, detail: Any, tensor: fb.TensorSpec) -> Optional[np.ndarray]:
        shape = tuple(detail["shape"])
        if 0 in shape:
            return np.zeros(shape, fb.storage(tensor.dtype, ())[0] or object)
        try:
            array = interpreter.get_tensor(detail["index"])
        except (RuntimeError, ValueError):  # it has no data, as a branch that was not taken
            return None
        return as_text(array, np.shape(array)) if tensor.dtype == "string" else _real(np.asarray(array), tensor)


def _along(values: Sequence[Any], tensor: fb.TensorSpec, rank: int) -> np.ndarray:
    """One number a channel, or one for all, in a shape that broadcasts."""
    array = np.asarray(values, np.float64)
    axis = tensor.quantization.axis if tensor.quantization is not None else 0
    return array.reshape([-1 if k == axis else 1 for k in range(rank)]) if array.size > 1 else array.reshape(())


def _real(array: np.ndarray, tensor: fb.TensorSpec) -> np.ndarray:
    """What quantised numbers stand for."""
    held = tensor.quantization
    if held is None or not held.scale or array.dtype.kind == "f":
        return array
    zero = _along(held.zero_point or [0], tensor, array.ndim)
    real: np.ndarray = (array - zero) * _along(held.scale, tensor, array.ndim)
    return real.astype(np.float32)


def _stored(array: np.ndarray, tensor: fb.TensorSpec) -> np.ndarray:
    """The other way round."""
    held = tensor.quantization
    if held is None or not held.scale or array.dtype.kind != "f" or tensor.dtype.startswith("float"):
        return array
    kind = np.iinfo(tensor.dtype)
    zero = _along(held.zero_point or [0], tensor, array.ndim)
    numbers = np.round(array / _along(held.scale, tensor, array.ndim)) + zero
    held_as: np.ndarray = np.clip(numbers, kind.min, kind.max).astype(tensor.dtype)
    return held_as
