"""Looking at a subgraph from its tensors: who writes one, who reads it, what is known of it."""

from dataclasses import replace
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from onnx_compat_tflite import flatbuffer as fb

__all__ = ["View"]


class View:
    """Made anew for every pass; `replace` keeps it true."""

    def __init__(self, graph: fb.SubGraph) -> None:
        self.graph = graph
        self._writers: Dict[int, fb.OperatorSpec] = {}
        self._readers: Dict[int, List[fb.OperatorSpec]] = {}
        for operator in graph.operators:
            for index in operator.outputs:
                if not graph.tensors[index].is_variable:  # a variable holds something else later on
                    self._writers[index] = operator
            for source in operator.inputs:
                if source is not None:
                    self._readers.setdefault(source, []).append(operator)

    def writer(self, index: Optional[int], *builtins: str) -> Optional[fb.OperatorSpec]:
        """The operator that writes a tensor, if it is one of these."""
        found = self._writers.get(-1 if index is None else index)
        return found if found is not None and found.builtin in builtins else None

    def written(self, index: int) -> fb.OperatorSpec:
        """The operator that writes a tensor that is no input and no constant."""
        return self._writers[index]

    def readers(self, index: int) -> List[fb.OperatorSpec]:
        """The operators that read a tensor."""
        return list(self._readers.get(index, []))

    def only_read_by(self, index: int, operator: fb.OperatorSpec) -> bool:
        """Whether nobody but this operator needs the tensor."""
        readers = self._readers.get(index, [])
        return all(reader is operator for reader in readers) and index not in self.graph.outputs

    def constant(self, index: Optional[int]) -> Any:
        """The array of a constant tensor, else None."""
        return None if index is None else self.graph.tensors[index].buffer

    def number(self, index: Optional[int]) -> Optional[float]:
        """The value of a constant of one element; integers that stand for other numbers have none here."""
        array = self.constant(index)
        if (
            array is None
            or self.graph.tensors[index or 0].quantization is not None
            or np.size(array) != 1
            or np.asarray(array).dtype.kind not in "fiu"
        ):
            return None
        return float(np.asarray(array).reshape(()))

    def sizes(self, index: int) -> Sequence[int]:
        """The sizes of a tensor, -1 where unknown."""
        tensor = self.graph.tensors[index]
        return tensor.shape if tensor.shape_signature is None else tensor.shape_signature

    def read_instead(self, operator: fb.OperatorSpec, place: int, index: int) -> None:
        """Let an operator read another tensor at a place of its inputs."""
        inputs = list(operator.inputs)
        before = inputs[place]
        inputs[place] = index
        operator.inputs = inputs
        if before is not None and before not in inputs:
            self._readers[before].remove(operator)
        self._readers.setdefault(index, []).append(operator)

    def turn_into(self, operator: fb.OperatorSpec, builtin: str, inputs: Sequence[int], **options: Any) -> None:
        """Make another operator of one, with the same result."""
        for index in set(operator.inputs):
            if index is not None:
                self._readers[index] = [reader for reader in self._readers[index] if reader is not operator]
        operator.builtin, operator.inputs, operator.options = builtin, list(inputs), options
        for index in inputs:
            self._readers.setdefault(index, []).append(operator)

    def remove(self, operator: fb.OperatorSpec) -> None:
        """Do without an operator."""
        for index in set(operator.inputs):
            if index is not None:
                self._readers[index] = [reader for reader in self._readers[index] if reader is not operator]
        self.graph.operators.remove(operator)

    def take_over(self, operator: fb.OperatorSpec, other: fb.OperatorSpec) -> None:
        """Let an operator write what another one did, which is no more."""
        self.remove(other)
        operator.outputs = list(other.outputs)
        for index in operator.outputs:
            self._writers[index] = operator

    def write_anew(self, operator: fb.OperatorSpec, suffix: str) -> None:
        """Let an operator write another tensor, for a value that is another one now: the name is that of the old one in the
        model.
        """
        (old,) = operator.outputs
        tensor = self.graph.tensors[old]
        new = self.graph.add(replace(tensor, name=tensor.name + suffix))
        operator.outputs = [new]
        self._writers[new] = operator
        self.read_all(old, new)

    def skip(self, operator: fb.OperatorSpec, source: int) -> None:
        """Do without an operator whose result is this tensor. An output is then written at once, if the tensor is not
        another one, an input or a constant.
        """
        result = operator.outputs[0]
        if result not in self.graph.outputs:
            self.read_all(result, source)
        elif source in self._writers and source not in self.graph.outputs:
            maker = self._writers[source]
            self.remove(operator)
            self.read_all(source, result)
            maker.outputs = [result if index == source else index for index in maker.outputs]
            self._writers[result] = maker

    def read_all(self, old: int, new: int) -> None:
        """Let everybody who reads a tensor read another one."""
        for reader in self.readers(old):
            for place, index in enumerate(reader.inputs):
                if index == old:
                    self.read_instead(reader, place, new)
