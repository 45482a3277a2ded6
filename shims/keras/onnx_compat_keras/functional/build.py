"""Build a functional Keras model from a recorded program."""

from typing import Any, Dict, List, Sequence, Tuple

import keras

from onnx_compat.primitives import to_values
from onnx_compat.shim import OnnxCompatError, Port, Program, Ref, UnsupportedError, emit
from onnx_compat.shim.emission import emission_errors
from onnx_compat_keras.causes import cause_of
from onnx_compat_keras.features import has_type, wide
from onnx_compat_keras.framework_types import Handle, KerasModel, SymbolicTensor
from onnx_compat_keras.functional.activations import with_activations
from onnx_compat_keras.functional.base import carrier, policy, storage
from onnx_compat_keras.functional.emitter import Symbolic
from onnx_compat_keras.functional.names import Names

__all__ = ["build_functional", "functional", "other_errors"]


def functional(program: Program) -> KerasModel:
    """Return a functional Keras model that computes a program. Raises UnsupportedError (see `build_functional`)."""
    return build_functional(program)[0]


def build_functional(program: Program) -> Tuple[KerasModel, Names]:
    """Return (functional Keras model that computes a program, `Names` of its layers and operations).

    The model has layers and operations of Keras only. The `Names` have the ONNX node of each operation. The names of
    inputs and outputs that Keras accepts are kept; others are replaced by similar names.

    Raises UnsupportedError if

    - the program has no input,
    - Keras lacks the dtype of an input or output; the error names a node that reads or computes it,
    - Keras cannot express a node exactly; the error names the node,
    - Keras raises any other error.
    """
    if not program.inputs:
        raise UnsupportedError("a functional Keras model needs an input")
    _check_ports(program)
    names = Names()
    port_names = _reserve_port_names(names, program)
    with wide():
        emitter = Symbolic(names)
        try:
            return _model(program, emitter, *port_names), names
        except OnnxCompatError:
            raise
        except Exception as error:  # Keras raises any error for a layer that it cannot build
            raise UnsupportedError("Keras does not build the model: %s" % cause_of(error)) from error


def other_errors(program: Program) -> Dict[str, OnnxCompatError]:
    """Return {name of the ONNX node: error} for the nodes of a program that a functional Keras model cannot express.

    Each name has its first error. Errors of recorded nodes that stem from no ONNX node are left out.
    """
    with wide():
        emitter = Symbolic(Names())
        emitter.scope.source = keras.Input(batch_shape=(), dtype="float32")
        errors = emission_errors(with_activations(program.region), emitter)
    errors.pop("", None)
    return errors


def _check_ports(program: Program) -> None:
    """Raise UnsupportedError if Keras lacks the dtype of an input or output of the program.

    The error names a node that reads the input or computes the output; `other_errors` has the errors of other nodes.
    """
    reasons: Dict[str, UnsupportedError] = {}
    region = program.region
    for k, port in enumerate((*program.inputs, *program.outputs)):
        if port.dtype.kind != "s" and has_type(carrier(port.dtype).name):
            continue
        reason = "'%s' has the type %s, which a Keras model does not have" % (port.name, port.dtype.name)
        value: Any = (*region.inputs, *region.outputs)[k]
        if k < len(program.inputs):
            nodes = [node for node in region.live() if value in set(node.uses())]
        else:
            nodes = [value.node] if isinstance(value, Ref) and value.node is not None else []
        origins = [node.origin for node in nodes if node.origin is not None]
        errors = [UnsupportedError(reason, **origin._asdict()) for origin in origins]
        reasons.update({str(error.node): error for error in errors or [UnsupportedError(reason)]})
    if reasons:
        first = next(iter(reasons.values()))
        first.other_errors = {name: error for name, error in reasons.items() if error is not first and error.node}
        raise first


def _model(program: Program, emitter: Symbolic, input_names: Sequence[str], output_names: Sequence[str]) -> KerasModel:
    inputs = [
        keras.Input(batch_shape=port.sizes, dtype=carrier(port.dtype).name, name=name)
        for port, name in zip(program.inputs, input_names)
    ]
    for tensor in inputs:
        emitter.names.operations[id(tensor._keras_history.operation)] = tensor
    region = with_activations(program.region)
    emitter.names.reserve(region)
    emitter.scope.source = min(inputs, key=lambda tensor: len(tensor.shape))
    results = emit(region, emitter, [_store(emitter, tensor, port) for tensor, port in zip(inputs, program.inputs)])
    outputs = [
        keras.layers.Identity(name=name, dtype=policy(port.dtype))(_declare_dtype(emitter, result, port))
        for port, name, result in zip(program.outputs, output_names, results)
    ]
    # A list of a single tensor is another structure than a tensor: Keras warns of a model that is called with the other.
    return keras.Model(_unpack(inputs), _unpack(outputs), name=emitter.names.fresh(program.name))


def _store(emitter: Symbolic, tensor: SymbolicTensor, port: Port) -> SymbolicTensor:
    """Return an input as the emitter stores its dtype (see `storage`).

    A uint64 input is cast to int64. An input of a carried dtype is rounded to the values of this dtype. Any other input
    is returned unchanged.
    """
    if not port.dtype.native:
        (rounded,) = emit(to_values(port.dtype, len(tensor.shape)), emitter, [tensor])
        return rounded
    name = storage(port.dtype)
    return tensor if tensor.dtype == name else emitter.unchecked_ops.cast(tensor, name)


def _unpack(tensors: Sequence[SymbolicTensor]) -> Any:
    """Return the tensor of a list with a single tensor; another list is returned unchanged."""
    return tensors[0] if len(tensors) == 1 else tensors


def _declare_dtype(emitter: Symbolic, result: Handle, port: Port) -> SymbolicTensor:
    """Return `result` as a tensor that declares the dtype of its output `port`, or the carrier of this dtype.

    It is cast if it declares another dtype.

    `load` reads the declared dtype from the file. On JAX and torch, Keras declares int32 for arithmetic on int64,
    although it computes in int64.
    """
    tensor = emitter.tensor(result)
    name = carrier(port.dtype).name
    return tensor if tensor.dtype == name else emitter.unchecked_ops.cast(tensor, name)


def _reserve_port_names(names: Names, program: Program) -> Tuple[List[str], List[str]]:
    """Reserve names for the inputs and outputs, and return (input names, output names).

    A name that Keras accepts and that is unique is kept. Another name is replaced by a similar one.
    """
    port_names: Tuple[List[str], List[str]] = ([], [])
    for k, port in enumerate((*program.inputs, *program.outputs)):
        port_names[k >= len(program.inputs)].append(names.fresh(port.name, weighty=False))
    return port_names
