"""The base class of the shims tf1 and tf2: import TensorFlow, probe it, detect its features, create the emitter."""

import abc
from concurrent.futures import ThreadPoolExecutor
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
    """The base class of the shims of TensorFlow. A subclass says which releases it accepts, and compiles programs."""

    modules = ("tensorflow",)
    threads_start = "probe"  # the trials of the probe run operations
    #: How the shim runs programs, as `probe` reports it after the version.
    execution = ""

    def __init__(self) -> None:
        self._features: Optional[Features] = None

    @abc.abstractmethod
    def find_obstacle(self, tf: TensorFlow) -> Optional[str]:
        """Return the reason why the shim cannot use this TensorFlow, as text for the user.

        Returns None if the shim can use it.
        """

    @property
    def features(self) -> Features:
        """The `Features` of TensorFlow, created when first read. Imports TensorFlow; raises any error of the import."""
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
    """Whether TensorFlow executes eagerly by default. A graph or tf.function that the caller builds has no effect.

    True in TensorFlow 2, except after `disable_eager_execution`. A new thread is asked: a graph that the caller has
    entered is the default graph of the caller's thread only.
    """
    with ThreadPoolExecutor(1) as pool:
        return bool(pool.submit(tf.executing_eagerly).result())
