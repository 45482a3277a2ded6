"""TensorFlow 1 as the core sees it."""

from contextlib import contextmanager
from typing import Iterator, Optional, Sequence, Tuple

from onnx_compat_tensorflow.emitter import GraphEmitter
from onnx_compat_tensorflow.features import Features, shown
from onnx_compat_tensorflow.importing import found, quiet, tensorflow
from onnx_compat_tensorflow.probability import WithProbability

from onnx_compat.shim import Compiled, ConversionError, Emitter, Port, Probe, Program, Shim

__all__ = ["SHIM", "TensorFlow1"]


class TensorFlow1(Shim):
    """Graph and Session, frozen GraphDef, SavedModel."""

    name = "tf1"
    modules = ("tensorflow",)
    formats = {"graphdef": (".pb", "frozen GraphDef"), "saved_model": ("", "SavedModel folder")}

    def __init__(self) -> None:
        self._features: Optional[Features] = None

    @property
    def features(self) -> Features:
        if self._features is None:
            self._features = Features(tensorflow())
        return self._features

    def probe(self) -> Probe:
        tf, reason = found("tf1")
        if tf is None:
            return Probe(False, reason)
        version = str(tf.__version__)
        if not hasattr(tf, "raw_ops") or not hasattr(tf, "compat"):
            return Probe(
                False, "this TensorFlow (%s) is too old: it has no tf.raw_ops" % version, "tensorflow", version
            )
        with tf.init_scope():
            eager = tf.executing_eagerly()
        if eager:
            reason = "this TensorFlow (%s) executes eagerly: use the shim tf2" % version
            return Probe(False, reason, "tensorflow", version)
        with quiet():
            features = WithProbability(self.features.report(shown()))
        return Probe(True, "TensorFlow %s with graphs and sessions" % version, "tensorflow", version, features)

    def emitter(self) -> Emitter:
        return GraphEmitter(self.features)

    @contextmanager
    def scratch(self) -> Iterator[Emitter]:
        with self.features.tf.Graph().as_default():
            yield self.emitter()

    def compile(self, program: Program, device: Optional[str] = None) -> Compiled:
        from onnx_compat_tf1.graph import BuiltGraph, SessionModel

        return SessionModel.of(BuiltGraph(program, self.features, self.resolve_device(device)))

    def devices(self) -> Sequence[str]:
        from onnx_compat_tf1.graph import session_devices

        return session_devices(self.features.tf)

    def export(self, program: Program, path: str, form: str) -> None:
        from onnx_compat_tf1 import files
        from onnx_compat_tf1.graph import BuiltGraph

        built = BuiltGraph(program, self.features, None)
        {"graphdef": files.save_graphdef, "saved_model": files.save_saved_model}[form](built, path)

    def load_converted(self, path: str, form: str) -> Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]:
        from onnx_compat_tf1 import files

        readers = {"graphdef": files.load_graphdef, "saved_model": files.load_saved_model}
        if form not in readers:
            raise ConversionError("the shim tf1 reads %s, not '%s'" % (" and ".join(readers), form))
        return readers[form](self.features.tf, path)


SHIM = TensorFlow1()
