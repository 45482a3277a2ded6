"""The interface through which passes read and edit a TFLite subgraph: `GraphRewriter`.

A rewriter keeps the producer (the operator that writes) and the readers of each tensor up to date through every edit.
"""

from dataclasses import replace
from typing import Any, Dict, List, Optional, Sequence, Set

import numpy as np

from onnx_compat_tflite import flatbuffer as fb

__all__ = ["ArrayLike", "GraphRewriter", "Option", "is_unfused"]

ArrayLike = Any  # An array, a scalar of numpy, or nested sequences of numbers.
Option = Any  # An option of a TFLite operator: a number, a boolean, a name of an enumeration, or a list of numbers.


def is_unfused(op: fb.OperatorSpec) -> bool:
    """Whether an operator has no fused activation."""
    return bool(op.options.get("fused_activation_function", "NONE") == "NONE")


class GraphRewriter:
    """A TFLite subgraph that passes read and edit.

    Tensors are identified by their index, operators by their `OperatorSpec`. Callers edit through the methods only, and
    never assign to an `OperatorSpec` or `TensorSpec`.
    """

    def __init__(self, graph: fb.SubGraph) -> None:
        self._graph = graph
        self._index_operators()

    def start_pass(self) -> None:
        """Compute the producers and readers of all tensors anew, if an operator was edited since the last computation.

        The readers of each tensor are then in the order of execution, which edits of earlier passes may have changed.
        """
        if self._is_edited:
            self._index_operators()

    def _index_operators(self) -> None:
        self._is_edited = False
        self._producers: Dict[int, fb.OperatorSpec] = {}
        self._readers: Dict[int, List[fb.OperatorSpec]] = {}  # an operator occurs once for each input that it reads
        for op in self._graph.operators:
            for index in op.outputs:
                if not self._graph.tensors[index].is_variable:  # a kernel changes a variable later
                    self._producers[index] = op
            for source in op.inputs:
                if source is not None:
                    self._readers.setdefault(source, []).append(op)

    # -- reading -----------------------------------------------------------------------------------------------------------
    @property
    def name(self) -> str:
        return self._graph.name

    @property
    def operators(self) -> List[fb.OperatorSpec]:
        """The operators in the order of execution, as a new list: a pass may edit the subgraph while it iterates."""
        return list(self._graph.operators)

    @property
    def inputs(self) -> Sequence[int]:
        return tuple(self._graph.inputs)

    @property
    def outputs(self) -> Sequence[int]:
        return tuple(self._graph.outputs)

    @property
    def tensor_count(self) -> int:
        return len(self._graph.tensors)

    def tensor(self, index: int) -> fb.TensorSpec:
        """Return the tensor with this index. Callers must not change it."""
        return self._graph.tensors[index]

    def is_output(self, index: int) -> bool:
        return index in self._graph.outputs

    def producer(self, index: Optional[int], *builtins: str) -> Optional[fb.OperatorSpec]:
        """Return the operator that writes the tensor `index`, if its op is one of `builtins`.

        Returns None for any other op. Returns None also for an input, a constant or a variable, and for an omitted
        input (None).
        """
        producer = self._producers.get(-1 if index is None else index)
        return producer if producer is not None and producer.builtin in builtins else None

    def any_producer(self, index: int) -> fb.OperatorSpec:
        """Return the operator that writes a tensor. Raises KeyError for an input, a constant or a variable."""
        return self._producers[index]

    def readers(self, index: int) -> List[fb.OperatorSpec]:
        """Return a new list of the operators that read the tensor `index`.

        The operators are in the order of execution at the start of a pass. Edits of the pass may change the order. An
        operator that reads the tensor twice is listed twice.
        """
        return list(self._readers.get(index, []))

    def only_reader(self, index: int) -> Optional[fb.OperatorSpec]:
        """Return the only operator that reads a tensor.

        Returns None if the tensor has no reader or several, or is an output. An operator that reads the tensor twice
        counts as two readers.
        """
        readers = self._readers.get(index, [])
        return readers[0] if len(readers) == 1 and index not in self._graph.outputs else None

    def is_only_read_by(self, index: int, op: fb.OperatorSpec) -> bool:
        """Whether no operator other than `op` reads the tensor, and the tensor is no output.

        Returns True also for a tensor without readers, and for a tensor that `op` reads twice.
        """
        return all(reader is op for reader in self._readers.get(index, [])) and index not in self._graph.outputs

    def constant(self, index: Optional[int]) -> Any:
        """Return the array of a constant tensor. For a quantized constant, the array has its integers.

        Returns None for any other tensor, and for an omitted input (None).
        """
        return None if index is None else self._graph.tensors[index].buffer

    def number(self, index: Optional[int]) -> Optional[float]:
        """Return the value of a floating-point or integer constant with a single element, as a float.

        Returns None for any other tensor, for a quantized constant, and for an omitted input (None).
        """
        array = self.constant(index)
        if (
            array is None
            or self._graph.tensors[index or 0].quantization is not None
            or np.size(array) != 1
            or np.asarray(array).dtype.kind not in "fiu"
        ):
            return None
        return float(np.asarray(array).reshape(()))

    def sizes(self, index: int) -> Sequence[int]:
        """Return the shape of a tensor, with -1 for an open size."""
        tensor = self._graph.tensors[index]
        return tensor.shape if tensor.shape_signature is None else tensor.shape_signature

    # -- adding and changing tensors ---------------------------------------------------------------------------------------
    def add_tensor(
        self,
        name: str,
        dtype: str,
        shape: Sequence[int],
        signature: Optional[Sequence[int]] = None,
        quantization: Optional[fb.Quantization] = None,
    ) -> int:
        """Append a tensor without data, for the result of an operator, and return its index.

        `signature`: the shape with -1 for open sizes. It may be None if no size is open, or if `shape` has the -1
        itself.
        """
        return self._graph.add(fb.TensorSpec(name, dtype, shape, shape_signature=signature, quantization=quantization))

    def add_constant(self, name: str, array: ArrayLike, quantization: Optional[fb.Quantization] = None) -> int:
        """Append a constant tensor with the dtype and shape of `array`, and return its index.

        `quantization` None: the tensor is not quantised.
        """
        array = np.asarray(array)
        return self._graph.add(fb.TensorSpec(name, array.dtype.name, array.shape, array, quantization=quantization))

    def add_like(self, index: int, name: str, dtype: str) -> int:
        """Append a tensor without data, with the shape of the tensor `index` and this dtype; return its index.

        The new tensor has no quantization parameters.
        """
        shaped = self._graph.tensors[index]
        return self.add_tensor(name, dtype, shaped.shape, shaped.shape_signature)

    def rename(self, index: int, suffix: str) -> None:
        """Append `suffix` to the name of a tensor that no longer has the value of this name in the model."""
        self._graph.tensors[index].name += suffix

    def set_quantization(self, index: int, quantization: fb.Quantization) -> None:
        """Set the scale and zero point of an integer tensor."""
        self._graph.tensors[index].quantization = quantization

    # -- changing operators ------------------------------------------------------------------------------------------------
    def set_input(self, op: fb.OperatorSpec, position: int, index: int) -> None:
        """Replace the input of the operator `op` at `position` by the tensor `index`."""
        self._is_edited = True
        inputs = list(op.inputs)
        before = inputs[position]
        inputs[position] = index
        op.inputs = inputs
        if before is not None:
            readers = self._readers[before]
            del readers[next(k for k, reader in enumerate(readers) if reader is op)]  # `remove` compares by value
        self._readers.setdefault(index, []).append(op)

    def set_inputs(self, op: fb.OperatorSpec, inputs: Sequence[Optional[int]]) -> None:
        """Replace all inputs of the operator `op`. None stands for an omitted input."""
        self._forget_reader(op)
        op.inputs = list(inputs)
        for index in op.inputs:
            if index is not None:
                self._readers.setdefault(index, []).append(op)

    def set_options(self, op: fb.OperatorSpec, **options: Option) -> None:
        """Set the given options of the operator `op`; its other options stay."""
        op.options = dict(op.options, **options)

    def set_outputs(self, op: fb.OperatorSpec, outputs: Sequence[int]) -> None:
        """Let the operator `op` write the tensors `outputs` in place of its present outputs.

        The readers of the old and of the new outputs are not changed.
        """
        self._forget_producer(op)
        op.outputs = list(outputs)
        for index in op.outputs:
            self._producers[index] = op

    def replace_op(self, op: fb.OperatorSpec, builtin: str, inputs: Sequence[Optional[int]], **options: Option) -> None:
        """Replace the op, the inputs and all options of an operator; its outputs and its position stay."""
        op.builtin, op.options = builtin, options
        self.set_inputs(op, inputs)

    def insert_before(self, op: fb.OperatorSpec, added: fb.OperatorSpec) -> None:
        """Insert the operator `added` directly before `op` in the order of execution. `op` must be in the subgraph."""
        position = next(k for k, existing in enumerate(self._graph.operators) if existing is op)
        self._graph.operators.insert(position, added)
        self.set_inputs(added, added.inputs)
        self.set_outputs(added, added.outputs)

    def erase(self, op: fb.OperatorSpec) -> None:
        """Remove an operator from the subgraph.

        No operator may read the outputs of the removed operator, unless another operator writes them too.
        """
        self._forget_reader(op)
        self._forget_producer(op)
        self._graph.operators = [kept for kept in self._graph.operators if kept is not op]

    def reorder(self, operators: Sequence[fb.OperatorSpec]) -> None:
        """Replace the operators of the subgraph by `operators`, in this order. The list may have new operators."""
        self._graph.operators = list(operators)
        self._index_operators()

    def _forget_producer(self, op: fb.OperatorSpec) -> None:
        self._is_edited = True
        for index in op.outputs:
            if self._producers.get(index) is op:
                del self._producers[index]

    def _forget_reader(self, op: fb.OperatorSpec) -> None:
        self._is_edited = True
        for index in set(op.inputs):
            if index is not None and index in self._readers:
                self._readers[index] = [reader for reader in self._readers[index] if reader is not op]

    # -- rerouting values --------------------------------------------------------------------------------------------------
    def replace_reads(self, old: int, new: int) -> None:
        """Let every operator that reads the tensor `old` read the tensor `new`. The outputs of the subgraph stay."""
        for reader in self.readers(old):
            for position, index in enumerate(reader.inputs):
                if index == old:
                    self.set_input(reader, position, new)

    def take_outputs(self, op: fb.OperatorSpec, erased: fb.OperatorSpec) -> None:
        """Erase the operator `erased`, and let `op` write the outputs of `erased`. `op` keeps its position."""
        self.erase(erased)
        self.set_outputs(op, erased.outputs)

    def write_new_tensor(self, op: fb.OperatorSpec, suffix: str) -> None:
        """Let an operator write a new tensor, named `old name + suffix`; readers of the old tensor read the new tensor.

        The new tensor has the dtype, the shape and the quantization of the old tensor. Use it if the result of the
        operator is no longer the value that the old name has in the model. The operator must have a single result,
        which must not be an output of the subgraph.
        """
        (old,) = op.outputs
        tensor = self._graph.tensors[old]
        new = self._graph.add(replace(tensor, name=tensor.name + suffix))
        self.set_outputs(op, [new])
        self.replace_reads(old, new)

    def bypass(self, op: fb.OperatorSpec, source: int) -> bool:
        """Let readers of the result of `op` read the equal tensor `source`; return whether a reader changed.

        - If the result is no output: `op` is not erased, but has no readers. Returns False if there was no reader
          before.
        - If the result is an output: the operator that writes `source` writes the output in place of `source`. Readers
          of `source` read the output, and `op` is erased. Returns True.
        - If the result is an output, and `source` is an input, a constant, a variable or an output: nothing is changed.
          Returns False.
        """
        result = op.outputs[0]
        if result not in self._graph.outputs:
            has_readers = bool(self._readers.get(result))
            self.replace_reads(result, source)
            return has_readers
        if source not in self._producers or source in self._graph.outputs:
            return False
        producer = self._producers.pop(source)
        self.erase(op)
        self.replace_reads(source, result)
        producer.outputs = [result if index == source else index for index in producer.outputs]
        self._producers[result] = producer
        return True

    # -- inputs, outputs and dead code -------------------------------------------------------------------------------------
    def select_ports(self, inputs: Optional[Sequence[int]] = None, outputs: Optional[Sequence[int]] = None) -> None:
        """Keep only the inputs and the outputs of the subgraph at these positions, in this order.

        If `inputs` is None, all inputs are kept. If `outputs` is None, all outputs are kept. Operators, tensors and
        callers of the subgraph are not changed.
        """
        if inputs is not None:
            self._graph.inputs = [self._graph.inputs[position] for position in inputs]
        if outputs is not None:
            self._graph.outputs = [self._graph.outputs[position] for position in outputs]

    def erase_dead_code(self) -> int:
        """Erase operators on which no output depends, then unused tensors; return the number of erased operators.

        The order of the other operators, and all inputs of the subgraph, are kept. Tensors may get new indices, so
        indices that a caller has stored become invalid.
        """
        graph = self._graph
        before, needed = len(graph.operators), set(graph.outputs)
        kept: List[fb.OperatorSpec] = []
        for op in reversed(graph.operators):
            if any(index in needed for index in op.outputs):
                needed.update(index for index in op.inputs if index is not None)
                needed.update(op.outputs)
                kept.append(op)
        needed.update(graph.inputs)
        if len(kept) < before or len(needed) < len(graph.tensors):
            graph.operators = kept[::-1]
            self._renumber(needed)
        return before - len(kept)

    def _renumber(self, needed: Set[int]) -> None:
        graph = self._graph
        indices: Dict[int, int] = {}
        for index in range(len(graph.tensors)):
            if index in needed:
                indices[index] = len(indices)
        graph.tensors = [graph.tensors[index] for index in indices]
        graph.inputs = [indices[index] for index in graph.inputs]
        graph.outputs = [indices[index] for index in graph.outputs]
        for op in graph.operators:
            op.inputs = [None if index is None else indices[index] for index in op.inputs]
            op.outputs = [indices[index] for index in op.outputs]
        self._index_operators()
