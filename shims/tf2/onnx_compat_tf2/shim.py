"""TensorFlow 2 as the core sees it."""

from contextlib import contextmanager
from typing import Any, Iterator, Optional, Sequence, Tuple

from onnx_compat_tensorflow.devices import logical_devices
from onnx_compat_tensorflow.emitter import EagerEmitter, GraphEmitter
from onnx_compat_tensorflow.features import Features, shown
from onnx_compat_tensorflow.importing import found, quiet, tensorflow
from onnx_compat_tensorflow.probability import WithProbability

from onnx_compat.shim import Compiled, Emitter, Port, Probe, Program, Shim

__all__ = ["SHIM", "TensorFlow2"]


class TensorFlow2(Shim):
    """tf.function, eager execution, SavedModel."""

    name = "tf2"
    modules = ("tensorflow",)
    formats = {"saved_model": ("", "SavedModel folder")}

    def __init__(self) -> None:
        self._features: Optional[Features] = None

    @property
    def features(self) -> Features:
        if self._features is None:
            self._features = Features(tensorflow())
        return self._features

    def probe(self) -> Probe:
        tf, reason = found("tf2")
        if tf is None:
            return Probe(False, reason)
        version = str(tf.__version__)
        if not hasattr(tf, "function") or not _eager(tf):
            reason = (
                "this TensorFlow (%s) builds graphs for sessions: use the shim tf1, or let TensorFlow 2 execute eagerly"
            )
            return Probe(False, reason % version, "tensorflow", version)
        with quiet():
            features = WithProbability(self.features.report(shown()))
        return Probe(True, "TensorFlow %s with tf.function" % version, "tensorflow", version, features)

    def emitter(self) -> Emitter:
        return GraphEmitter(self.features)

    def executor(self, device: Optional[str] = None) -> Emitter:
        return EagerEmitter(self.features, device)

    def devices(self) -> Sequence[str]:
        return logical_devices(self.features.tf)

    @contextmanager
    def scratch(self) -> Iterator[Emitter]:
        with self.features.tf.Graph().as_default():
            yield self.emitter()

    def compile(self, program: Program, device: Optional[str] = None) -> Compiled:
        from onnx_compat_tf2.compiled import CompiledModule

        return CompiledModule(program, self.features, self.resolve_device(device))

    def export(self, program: Program, path: str, form: str) -> None:
        from onnx_compat_tf2.saved_model import save

        save(program, self.features, path)

    def load_converted(self, path: str, form: str) -> Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]:
        from onnx_compat_tf2.saved_model import load

        return load(path)


def _eager(tf: Any) -> bool:
    """Whether eager execution is the rule here, also when asked from inside of a graph."""
    with tf.init_scope():
        return bool(tf.executing_eagerly())


SHIM = TensorFlow2()
