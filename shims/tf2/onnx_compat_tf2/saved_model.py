"""Write and read SavedModel folders of TensorFlow 2.

The function of the signature `serving_default` has Python argument names for its inputs, and the model's output names. In the
file, the signature has the model's input names too: servers read it. `port_files` stores dtypes and order.
"""

import os
from typing import Dict, Tuple

import tensorflow as tf
from onnx_compat_tensorflow.features import Features
from onnx_compat_tensorflow.framework_types import TfFunction
from onnx_compat_tensorflow.graph_ops import preview_operations
from onnx_compat_tensorflow.port_files import (
    KeyedPorts,
    damaged_ports_error,
    port_from_tensor,
    read_ports,
    write_ports,
)
from tensorflow.core.protobuf import saved_model_pb2

from onnx_compat.shim import Compiled, ConversionError, Port, Preview, Program
from onnx_compat_tf2.compiled import CompiledSignature
from onnx_compat_tf2.module import SIGNATURE, OnnxModule

__all__ = ["load", "preview", "save"]


def save(program: Program, features: Features, path: str) -> None:
    """Write a program as a SavedModel folder with the signature `serving_default`, and with the ports in a JSON file.

    The inputs of the signature have the names of the model. The float weights are variables. The object that
    tf.saved_model.load returns has `variables` and `trainable_variables`, and can be called with the inputs in order.
    """
    module = OnnxModule(program, features, None)
    arguments = [module.arguments[port.name] for port in program.inputs]
    tf.saved_model.save(module, path, signatures=module.signatures)
    _restore_names(path, {module.arguments[port.name]: port.name for port in program.inputs})
    write_ports(path, list(zip(arguments, program.inputs)), list(zip(module.results, program.outputs)))


def preview(program: Program, features: Features) -> Preview:
    """Return a `Preview` of the SavedModel folder of a program: its operations, in total and for each ONNX node.

    The graph is built as for a file, but nothing is written.
    """
    graph = OnnxModule(program, features, None).function.graph
    return preview_operations(((op.name, op.type) for op in graph.get_operations()), program)


def _restore_names(path: str, names: Dict[str, str]) -> None:
    """Rename the inputs in the signature `serving_default` of the SavedModel folder `path`: rewrite its saved_model.pb.

    `names`: {argument name: input name of the model} for all inputs. If no name differs, nothing is written.
    """
    if all(argument == name for argument, name in names.items()):
        return
    target = os.path.join(path, "saved_model.pb")
    saved = saved_model_pb2.SavedModel()
    with open(target, "rb") as file:
        saved.ParseFromString(file.read())
    inputs = saved.meta_graphs[0].signature_def[SIGNATURE].inputs
    infos = {name: inputs[argument].SerializeToString() for argument, name in names.items()}
    inputs.clear()
    for name, info in infos.items():
        inputs[name].ParseFromString(info)
    with open(target, "wb") as file:
        file.write(saved.SerializeToString(deterministic=True))


def load(path: str) -> Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]:
    """Load the signature `serving_default` of a SavedModel folder. Return (compiled model, input ports, output ports).

    If the folder has no port file, the ports have the keys of the signature, and the dtypes and shapes of its tensors.

    Raises ConversionError if TensorFlow cannot load the folder, or if the folder has no such signature. Raises
    InvalidModelError for damaged ports, and for a tensor of unknown rank. Raises UnsupportedError for a port whose
    dtype ONNX lacks.
    """
    try:
        native = tf.saved_model.load(path)
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise ConversionError("'%s' is no SavedModel that TensorFlow can load: %s" % (path, error)) from error
    if SIGNATURE not in native.signatures:
        raise ConversionError("the SavedModel '%s' has no signature '%s'" % (path, SIGNATURE))
    signature = native.signatures[SIGNATURE]
    try:
        ports = read_ports(path, signature.structured_input_signature[1], signature.structured_outputs)
        inputs, outputs = ports or _ports_of_signature(signature)
    except ValueError as error:  # a tensor of unknown rank
        raise damaged_ports_error(path, error) from error
    compiled = CompiledSignature(tf, native, signature, [key for key, _ in inputs], [key for key, _ in outputs])
    return compiled, tuple(port for _, port in inputs), tuple(port for _, port in outputs)


def _ports_of_signature(signature: TfFunction) -> Tuple[KeyedPorts, KeyedPorts]:
    _, specs = signature.structured_input_signature
    inputs, outputs = (
        [(key, port_from_tensor(key, spec)) for key, spec in side.items()]
        for side in (specs, signature.structured_outputs)
    )
    return inputs, outputs
