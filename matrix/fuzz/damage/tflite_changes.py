"""Changes of a .tflite file that keep the flatbuffer readable: operands, options, shapes, dtypes, constants, scales."""

from __future__ import annotations

import random
from typing import Any, Callable, Sequence, Tuple

import numpy as np

from matrix.fuzz.damage.corruption import corrupt

__all__ = ["change_file"]

_INTEGERS = (-1, 0, 1, 2, -2, 3, 4, 100, 127, -128, 2**31 - 1, -(2**31), 65536)
_FLOATS = (0.0, -1.0, 1e-30, 1e30, float("inf"), float("nan"))
_DTYPES = ("float32", "int32", "int64", "uint8", "int8", "bool", "string", "float16", "int16", "int4", "float64")


def change_file(chance: random.Random, data: bytes, other_files: Sequence[bytes]) -> bytes:
    """Return a .tflite file with one to three changes of its content; sometimes the result of `corrupt` instead.

    A file that cannot be read, or whose change cannot be written, also gives the result of `corrupt`.
    """
    from onnx_compat_tflite import flatbuffer as fb

    if chance.random() < 0.4:
        return corrupt(chance, data, other_files)
    try:
        model = fb.read(data)
        for _ in range(chance.choice((1, 1, 2, 3))):
            graph = chance.choice(model.subgraphs)
            if graph.operators and graph.tensors:
                chance.choice(_CHANGES)(chance, model, graph)
        return bytes(fb.to_bytes(model))
    except Exception:  # noqa: BLE001 - a file that cannot be read, or a change that cannot be written
        return corrupt(chance, data, other_files)


def _change_operands(chance: random.Random, _: Any, graph: Any) -> None:
    operator = chance.choice(graph.operators)
    inputs = list(operator.inputs)
    choice = chance.randrange(3)
    if choice == 0 and inputs:
        inputs[chance.randrange(len(inputs))] = chance.choice((None, *range(len(graph.tensors))))
    elif choice == 1 and inputs:
        inputs.pop()
    else:
        inputs.append(chance.randrange(len(graph.tensors)))
    operator.inputs = inputs


def _change_results(chance: random.Random, _: Any, graph: Any) -> None:
    operator = chance.choice(graph.operators)
    operator.outputs = chance.choice(([chance.randrange(len(graph.tensors))], list(operator.outputs)[:-1]))


def _change_option(chance: random.Random, _: Any, graph: Any) -> None:
    operator = chance.choice(graph.operators)
    if operator.options:
        name = chance.choice(list(operator.options))
        value = operator.options[name]
        if isinstance(value, bool):
            operator.options[name] = not value
        elif isinstance(value, int):
            operator.options[name] = chance.choice(_INTEGERS)
        elif isinstance(value, float):
            operator.options[name] = chance.choice(_FLOATS)
        elif name == "padding":
            operator.options[name] = chance.choice(("SAME", "VALID"))


def _change_operator(chance: random.Random, model: Any, graph: Any) -> None:
    operators = [operator for entry in model.subgraphs for operator in entry.operators]
    names = [*(operator.builtin for operator in operators), "ADD", "SUB", "MUL", "SOFTMAX", "QUANTIZE", "DEQUANTIZE"]
    chance.choice(graph.operators).builtin = chance.choice(names)


def _change_shape(chance: random.Random, _: Any, graph: Any) -> None:
    tensor = chance.choice(graph.tensors)
    sizes = list(tensor.shape) or [2]
    sizes[chance.randrange(len(sizes))] = chance.choice((0, 1, 2, 3, 7, 100, 70000))
    tensor.shape = tuple(sizes[: chance.choice((8, 8, 8, 1))])


def _change_dtype(chance: random.Random, _: Any, graph: Any) -> None:
    chance.choice(graph.tensors).dtype = chance.choice(_DTYPES)


def _change_constant(chance: random.Random, _: Any, graph: Any) -> None:
    """Change one element of a constant of integers, such as axes or weights, if the graph has such a constant."""
    constants = [
        tensor
        for tensor in graph.tensors
        if tensor.buffer is not None and tensor.buffer.dtype.kind in "iu" and tensor.buffer.size
    ]
    if constants:
        tensor = chance.choice(constants)
        tensor.buffer = np.array(tensor.buffer)
        element = np.array(chance.choice(_INTEGERS)).astype(tensor.buffer.dtype)
        tensor.buffer.reshape(-1)[chance.randrange(tensor.buffer.size)] = element


def _change_scales(chance: random.Random, _: Any, graph: Any) -> None:
    """Change the quantization of one tensor: a scale, a zero point, the number of either, or the axis; or drop it.

    Does nothing if no tensor is quantized.
    """
    quantized = [tensor for tensor in graph.tensors if tensor.quantization is not None]
    if not quantized:
        return
    tensor = chance.choice(quantized)
    quantization = tensor.quantization
    choice = chance.randrange(6)
    scales, zeros = list(quantization.scale), list(quantization.zero_point)
    if choice == 0:
        tensor.quantization = None
    elif choice == 1 and scales:
        scales[chance.randrange(len(scales))] = chance.choice(_FLOATS)
    elif choice == 2 and zeros:
        zeros[chance.randrange(len(zeros))] = chance.choice(_INTEGERS)
    elif choice == 3:
        scales = scales[:-1] if chance.random() < 0.5 else [*scales, 0.5]
    elif choice == 4:
        zeros = zeros[:-1] if chance.random() < 0.5 else [*zeros, 1]
    else:
        quantization.axis = chance.choice(_INTEGERS)
    quantization.scale, quantization.zero_point = scales, zeros


_CHANGES: Tuple[Callable[[random.Random, Any, Any], None], ...] = (
    _change_operands, _change_results, _change_option, _change_option, _change_operator, _change_shape, _change_dtype,
    _change_constant, _change_scales, _change_scales,
)  # fmt: skip
