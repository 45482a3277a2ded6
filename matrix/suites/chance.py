"""Detect cases whose model draws random numbers, so that correct runtimes return different outputs."""

from __future__ import annotations

from typing import Iterable, Sequence

import numpy as np
import onnx

from matrix.suites.values import read_tensor

__all__ = ["is_random"]

_DRAWING = frozenset(
    ["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"]
)


def is_random(model: onnx.ModelProto, inputs: Sequence[bytes]) -> bool:
    """Whether the model draws random numbers. `inputs`: the serialised inputs of the first data set.

    Dropout draws only in training mode with a ratio above 0. The mode and the ratio are inputs of the case,
    initializers, or the defaults of the operator.
    """
    values = {tensor.name: tensor for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in values]
    feeds = dict(zip(names, inputs))

    def read_number(node: onnx.NodeProto, k: int, default: float) -> float:
        name = node.input[k] if k < len(node.input) else ""
        tensor = onnx.TensorProto.FromString(feeds[name]) if name in feeds else values.get(name)
        return default if tensor is None else float(np.asarray(read_tensor(tensor)).reshape(-1)[0])

    return any(
        node.op_type in _DRAWING
        or (node.op_type == "Dropout" and read_number(node, 2, 0) and read_number(node, 1, 0.5))
        for node in _nodes(model)
    )


def _nodes(model: onnx.ModelProto) -> Iterable[onnx.NodeProto]:
    yield from model.graph.node
    for function in model.functions:
        yield from function.node
