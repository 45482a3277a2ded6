"""The common base of the shims tf1 and tf2: import of TensorFlow, probe, feature detection and emitter."""

import abc
from contextlib import contextmanager
from typing import Iterator, Optional

from onnx_compat.shim import Emitter, Probe, Shim
from onnx_compat_tensorflow.emitter import GraphEmitter
from onnx_compat_tensorflow.features import Features, reported_behaviours
from onnx_compat_tensorflow.framework_types import TensorFlow
from onnx_compat_tensorflow.importing import import_or_reason, import_tensorflow, silence_stderr
from onnx_compat_tensorflow.probability import WithProbability

__all__ = ["TensorFlowShim", "executes_eagerly"]


class TensorFlowShim(Shim):
    """A shim over the module `tensorflow`; a subclass says which releases it takes, and how they run a program."""

    modules = ("tensorflow",)
    #: How the shim runs programs, as `probe` reports it after the version.
    execution = ""

    def __init__(self) -> None:
        self._features: Optional[Features] = None

    @abc.abstractmethod
    def find_obstacle(self, tf: TensorFlow) -> Optional[str]:
        """Return why the shim cannot use this TensorFlow, in words; None if it can."""

    @property
    def features(self) -> Features:
        """The features of the imported TensorFlow."""
        if self._features is None:
            self._features = Features(import_tensorflow())
        return self._features

    def probe(self) -> Probe:
        tf, reason = import_or_reason(self.name)
        if tf is None:
            return Probe(False, reason)
        version = str(tf.__version__)
        obstacle = self.find_obstacle(tf)
        if obstacle is not None:
            return Probe(False, obstacle, "tensorflow", version)
        with silence_stderr():
            features = WithProbability(self.features.report(reported_behaviours()))
        return Probe(True, "TensorFlow %s with %s" % (version, self.execution), "tensorflow", version, features)

    def emitter(self) -> Emitter:
        return GraphEmitter(self.features)

    @contextmanager
    def scratch(self) -> Iterator[Emitter]:
        with self.features.tf.Graph().as_default():
            yield self.emitter()


def executes_eagerly(tf: TensorFlow) -> bool:
    """Return whether this TensorFlow executes eagerly outside of graphs; the caller may be inside of one."""
    with tf.init_scope():
        return bool(tf.executing_eagerly())
