"""A program as a functional Keras model."""

import warnings
from typing import Any, List, NamedTuple, Sequence, Tuple

import keras

from onnx_compat.emission import emit
from onnx_compat.errors import UnsupportedError
from onnx_compat.shim import Port, Program
from onnx_compat_keras.features import has_type, wide
from onnx_compat_keras.functional.base import policy
from onnx_compat_keras.functional.emitter import Symbolic
from onnx_compat_keras.functional.names import Names

__all__ = ["functional"]


def functional(program: Program) -> Any:
    """The model; `UnsupportedError` names the node that stock Keras cannot express."""
    if not program.inputs:
        raise UnsupportedError("a functional Keras model needs an input")
    for port in (*program.inputs, *program.outputs):
        if not port.dtype.native or port.dtype.kind == "s" or not has_type(port.dtype.name):
            raise UnsupportedError("'%s' is of type %s, which a Keras model does not have" % (port.name, port.dtype.name))
    names = Names()
    called = _reserved(names, program)
    with wide():
        emitter = Symbolic(names)
        inputs = [
            keras.Input(batch_shape=port.sizes, dtype=port.dtype.name, name=called[0][k])
            for k, port in enumerate(program.inputs)
        ]
        for tensor in inputs:
            names.given[id(tensor._keras_history.operation)] = tensor
        emitter.source = min(inputs, key=lambda tensor: len(tensor.shape))
        results = emit(program.region, emitter, inputs)
        outputs = [
            keras.layers.Identity(name=called[1][k], dtype=policy(port.dtype))(emitter.tensor(result))
            for k, (port, result) in enumerate(zip(program.outputs, results))
        ]
        return keras.Model(inputs, outputs if len(outputs) != 1 else outputs[0], name=names.fresh(program.name))


def _reserved(names: Names, program: Program) -> Tuple[List[str], List[str]]:
    """The names of inputs and outputs, kept wherever Keras takes them."""
    called: Tuple[List[str], List[str]] = ([], [])
    for k, port in enumerate((*program.inputs, *program.outputs)):
        name = names.fresh(port.name)
        called[k >= len(program.inputs)].append(name)
        if name != port.name:
            warnings.warn("Keras calls '%s' '%s'" % (port.name, name), stacklevel=2)
    return called
