"""SavedModel folders, written by TensorFlow 2 and read again.

The signature `serving_default` has the model's own output names, and its input names as far as TensorFlow takes them as
arguments of Python; the signature that a server sees has the names of the model exactly. What neither can say stands
in the folder's `assets.extra`, which TensorFlow leaves to others.
"""

import os
from typing import Any, Dict, List, Tuple

import tensorflow as tf
from onnx_compat_tensorflow.features import Features
from onnx_compat_tensorflow.ports import ports_of, text_of
from tensorflow.core.protobuf import saved_model_pb2

from onnx_compat.shim import Compiled, ConversionError, DType, Port, Program
from onnx_compat_tf2.compiled import CompiledSignature
from onnx_compat_tf2.module import OnnxModule

__all__ = ["load", "save"]

_SIGNATURE = "serving_default"
_PORTS = os.path.join("assets.extra", "onnx_compat.json")


def save(program: Program, features: Features, path: str) -> None:
    """Write the program as a SavedModel folder."""
    module = OnnxModule(program, features, None)
    names = [port.name for port in program.outputs]
    arguments = [module.arguments[port.name] for port in program.inputs]

    def serve(**inputs: Any) -> Dict[str, Any]:
        return dict(zip(names, module.function(*[inputs[name] for name in arguments])))

    specs = {spec.name: spec for spec in module.specs}
    signature = tf.function(serve, autograph=False).get_concrete_function(**specs)
    tf.saved_model.save(module, path, signatures={_SIGNATURE: signature})
    _restore_names(path, {module.arguments[port.name]: port.name for port in program.inputs})
    os.makedirs(os.path.join(path, os.path.dirname(_PORTS)), exist_ok=True)
    with open(os.path.join(path, _PORTS), "w", encoding="utf-8") as file:
        file.write(text_of(list(zip(arguments, program.inputs)), list(zip(names, program.outputs))))


def _restore_names(path: str, names: Dict[str, str]) -> None:
    """The model's own input names in the signature that servers read."""
    if all(given == name for given, name in names.items()):
        return
    target = os.path.join(path, "saved_model.pb")
    saved = saved_model_pb2.SavedModel()
    with open(target, "rb") as file:
        saved.ParseFromString(file.read())
    inputs = saved.meta_graphs[0].signature_def[_SIGNATURE].inputs
    infos = {name: inputs[given].SerializeToString() for given, name in names.items()}
    inputs.clear()
    for name, info in infos.items():
        inputs[name].ParseFromString(info)
    with open(target, "wb") as file:
        file.write(saved.SerializeToString(deterministic=True))


def load(path: str) -> Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]:
    """Load a SavedModel folder: one of ours, or any with a default signature."""
    try:
        native = tf.saved_model.load(path)
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise ConversionError("'%s' is no SavedModel that TensorFlow can load: %s" % (path, error)) from error
    if _SIGNATURE not in native.signatures:
        raise ConversionError("the SavedModel '%s' has no signature '%s'" % (path, _SIGNATURE))
    signature = native.signatures[_SIGNATURE]
    inputs, outputs = _ports(path, signature)
    compiled = CompiledSignature(tf, native, signature, [key for key, _ in inputs], [key for key, _ in outputs])
    return compiled, tuple(port for _, port in inputs), tuple(port for _, port in outputs)


def _ports(path: str, signature: Any) -> Tuple[List[Tuple[str, Port]], List[Tuple[str, Port]]]:
    beside = os.path.join(path, _PORTS)
    if os.path.exists(beside):
        with open(beside, encoding="utf-8") as file:
            return ports_of(file.read())
    _, inputs = signature.structured_input_signature
    return _described(inputs), _described(signature.structured_outputs)


def _described(specs: Dict[str, Any]) -> List[Tuple[str, Port]]:
    return [(key, Port(key, DType.of(spec.dtype.name), tuple(spec.shape.as_list()))) for key, spec in specs.items()]
