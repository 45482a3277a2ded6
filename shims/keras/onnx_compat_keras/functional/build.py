"""A program as a functional Keras model."""

import warnings
from typing import Any, List, Sequence, Tuple

import keras

from onnx_compat.shim import OnnxCompatError, Program, UnsupportedError, emit
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
            raise UnsupportedError(
                "'%s' is of type %s, which a Keras model does not have" % (port.name, port.dtype.name)
            )
    names = Names()
    called = _reserved(names, program)
    with wide():
        emitter = Symbolic(names)
        try:
            return _model(program, emitter, *called)
        except OnnxCompatError:
            raise
        except Exception as error:  # whatever Keras has against it
            first = (str(error).strip().splitlines() or [""])[0]
            raise UnsupportedError("Keras does not build the model: %s: %s" % (type(error).__name__, first)) from error


def _model(program: Program, emitter: Symbolic, into: Sequence[str], out: Sequence[str]) -> Any:
    inputs = [
        keras.Input(batch_shape=port.sizes, dtype=port.dtype.name, name=name)
        for port, name in zip(program.inputs, into)
    ]
    for tensor in inputs:
        emitter.names.given[id(tensor._keras_history.operation)] = tensor
    emitter.source = min(inputs, key=lambda tensor: len(tensor.shape))
    results = emit(program.region, emitter, inputs)
    outputs = [
        keras.layers.Identity(name=name, dtype=policy(port.dtype))(emitter.tensor(result))
        for port, name, result in zip(program.outputs, out, results)
    ]
    return keras.Model(inputs, outputs if len(outputs) != 1 else outputs[0], name=emitter.names.fresh(program.name))


def _reserved(names: Names, program: Program) -> Tuple[List[str], List[str]]:
    """The names of inputs and outputs, kept wherever Keras takes them."""
    called: Tuple[List[str], List[str]] = ([], [])
    for k, port in enumerate((*program.inputs, *program.outputs)):
        name = names.fresh(port.name, weighty=False)
        called[k >= len(program.inputs)].append(name)
        if name != port.name:
            warnings.warn("Keras calls '%s' '%s'" % (port.name, name), stacklevel=2)
    return called
