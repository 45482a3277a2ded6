"""Inputs and outputs as integers:  QUANTIZE(float32 input x)  =>  input x as int8, and the same for DEQUANTIZE and outputs

A file for a microcontroller or an Edge TPU computes with integers from its inputs to its outputs. The integers have the
calibrated scale and zero point. uint8 has the zero point of int8 plus 128, and a QUANTIZE between uint8 and int8.
"""

from typing import Callable, List, Optional, Tuple

import numpy as np

from onnx_compat.shim import ConversionError
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.rewriter import GraphRewriter

__all__ = ["store_ports"]


def store_ports(model: fb.ModelSpec, input_type: Optional[str], output_type: Optional[str]) -> None:
    """Store the float32 inputs and outputs of a quantised model as integers; modify the model in place.

    `input_type` and `output_type` are integer dtypes, or None: these inputs or outputs then stay float32. Inputs and
    outputs of other dtypes are not changed. If an operator other than QUANTIZE reads a float32 input, it reads a
    DEQUANTIZE of the integers.

    Raises ConversionError in these cases, for inputs only with an `input_type`, for outputs only with an `output_type`:

    - The model has no float32 input, or no float32 output.
    - No QUANTIZE reads a float32 input, or the input is also an output.
    - The producer of a float32 output is not DEQUANTIZE.
    """
    if input_type is None and output_type is None:
        return
    ports = _Ports(model)
    if input_type is not None:
        ports.store_all(model.subgraphs[0].inputs, input_type, ports.store_input, "input")
    if output_type is not None:
        ports.store_all(model.subgraphs[0].outputs, output_type, ports.store_output, "output")
    ports.erase_unused_tensors()


class _Ports:
    """Editor that replaces float32 inputs and outputs of a model's first subgraph by integer tensors."""

    def __init__(self, model: fb.ModelSpec) -> None:
        self._graph = model.subgraphs[0]
        self._signatures = [entry for entry in model.signatures if entry.subgraph == 0]

    def store_all(self, indices: List[int], dtype: str, store: Callable[[int, str], int], kind: str) -> None:
        """Replace the float32 tensors in `indices`, in place and in the signatures, by the results of `store`.

        `indices` are the inputs or outputs of the subgraph; `kind` is "input" or "output". `store` gets a tensor index
        and `dtype`, and returns the index of the new tensor. The new tensor gets the name of the replaced tensor.

        Raises ConversionError if no tensor is float32, or if `store` raises it.
        """
        tensors = self._graph.tensors
        positions = [position for position, index in enumerate(indices) if tensors[index].dtype == "float32"]
        if not positions:
            raise ConversionError(
                "the model has no float32 %s to store as %s" % (kind, dtype), hint="leave %s_type out" % kind
            )
        for position in positions:
            before = indices[position]
            after = store(before, dtype)
            indices[position] = after
            tensors[before].name, tensors[after].name = tensors[after].name, tensors[before].name
            for signature in self._signatures:
                ports = signature.inputs if kind == "input" else signature.outputs
                ports.update({name: after for name, index in ports.items() if index == before})

    def store_input(self, index: int, dtype: str) -> int:
        """Append an integer tensor for a float32 input, and return its index. The list of inputs is not changed.

        Each QUANTIZE of the input reads the new tensor. A QUANTIZE that would change nothing is removed, and its
        readers read the new tensor. For other operators, a DEQUANTIZE of the new tensor writes the float32 tensor.

        Raises ConversionError if no QUANTIZE reads the input, or if the input is also an output.
        """
        readers = [op for op in self._graph.operators if index in op.inputs]
        quantizing = [op for op in readers if op.builtin == "QUANTIZE"]
        if not quantizing or index in self._graph.outputs:
            raise self._float_error(index, "input", readers)
        integers = quantizing[0].outputs[0]
        stored = self._add_integers(integers, dtype)
        for op in quantizing:
            op.inputs = [stored]
        if len(quantizing) < len(readers):
            self._graph.operators.insert(0, fb.OperatorSpec("DEQUANTIZE", [stored], [index]))
        self._drop_copies(stored, quantizing)
        return stored

    def store_output(self, index: int, dtype: str) -> int:
        """Append an integer tensor for a float32 output, and return its index. The list of outputs is not changed.

        A QUANTIZE copies the integers from which DEQUANTIZE computes the output to the new tensor. The DEQUANTIZE stays
        only if an operator reads the output. If the copy would change nothing, the operator that computes the integers
        writes the new tensor itself. The copy stays if the integers are an input, an output or a constant.

        Raises ConversionError if the producer of the output is not DEQUANTIZE.
        """
        producer = next((op for op in self._graph.operators if index in op.outputs), None)
        if producer is None or producer.builtin != "DEQUANTIZE":
            raise self._float_error(index, "output", [] if producer is None else [producer])
        integers = producer.inputs[0] or 0
        stored = self._add_integers(integers, dtype)
        is_read = any(index in op.inputs for op in self._graph.operators)
        position = self._graph.operators.index(producer)
        added = fb.OperatorSpec("QUANTIZE", [integers], [stored])
        self._graph.operators[position : position + (not is_read)] = [added]
        writer = next((op for op in self._graph.operators if integers in op.outputs), None)
        is_port = integers in self._graph.inputs or integers in self._graph.outputs
        if writer is not None and not is_port and self._are_same(integers, stored):
            self._graph.operators.remove(added)  # the kernel itself writes the output
            writer.outputs = [stored if output == integers else output for output in writer.outputs]
            self._replace_reads(integers, stored)
        return stored

    def erase_unused_tensors(self) -> None:
        """Erase dead code and unused tensors, such as the replaced float32 ports, and renumber the signatures."""
        graph = self._graph
        inputs, outputs = list(graph.inputs), list(graph.outputs)
        GraphRewriter(graph).erase_dead_code()
        for entry in self._signatures:
            entry.inputs = {name: graph.inputs[inputs.index(index)] for name, index in entry.inputs.items()}
            entry.outputs = {name: graph.outputs[outputs.index(index)] for name, index in entry.outputs.items()}

    def _add_integers(self, like: int, dtype: str) -> int:
        """Append a tensor that stores the real numbers of the quantised tensor `like` in another dtype.

        Return the index of the new tensor. It has the shape and the scales of `like`. Its zero points are shifted: int8
        to uint8 adds 128.
        """
        tensor = self._graph.tensors[like]
        assert tensor.quantization is not None
        shift = int(np.iinfo(dtype).min) - int(np.iinfo(tensor.dtype).min)
        zeros = [zero + shift for zero in tensor.quantization.zero_point or [0]]
        quantization = fb.Quantization(list(tensor.quantization.scale), zeros)
        name = "%s/%s" % (tensor.name, dtype)
        return self._graph.add(
            fb.TensorSpec(name, dtype, tensor.shape, None, tensor.shape_signature, quantization=quantization)
        )

    def _drop_copies(self, stored: int, quantizing: List[fb.OperatorSpec]) -> None:
        """Remove the operators of `quantizing` that copy the tensor `stored` unchanged: their readers read `stored`.

        `quantizing` are QUANTIZE operators that read `stored`. An operator that writes an output of the subgraph stays.
        """
        for op in quantizing:
            (result,) = op.outputs
            if self._are_same(stored, result) and result not in self._graph.outputs:
                self._graph.operators.remove(op)
                self._replace_reads(result, stored)

    def _replace_reads(self, before: int, after: int) -> None:
        for op in self._graph.operators:
            op.inputs = [after if index == before else index for index in op.inputs]

    def _are_same(self, *indices: int) -> bool:
        """Whether the integers of two quantised tensors, given by their indices, stand for the same real numbers."""
        first, second = (self._graph.tensors[index] for index in indices)
        return first.dtype == second.dtype and _parameters(first) == _parameters(second)

    def _float_error(self, index: int, kind: str, operators: List[fb.OperatorSpec]) -> ConversionError:
        names = ", ".join(dict.fromkeys(op.builtin for op in operators)) or "no operator"
        verb = "reads" if kind == "input" else "computes"
        return ConversionError(
            "the %s '%s' stays float32: %s %s it, and no integer kernel"
            % (kind, self._graph.tensors[index].name, names, verb),
            hint="leave %s_type out" % kind,
        )


def _parameters(tensor: fb.TensorSpec) -> Tuple[List[float], List[int]]:
    assert tensor.quantization is not None
    return list(tensor.quantization.scale), list(tensor.quantization.zero_point or [0])
