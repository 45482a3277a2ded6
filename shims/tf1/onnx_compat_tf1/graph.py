"""A recorded program as a graph of its own, and a session of its own that runs it."""

import weakref
from typing import Any, List, Optional, Sequence

import numpy as np
from onnx_compat_tensorflow.devices import device_names, placement
from onnx_compat_tensorflow.emitter import GraphEmitter
from onnx_compat_tensorflow.features import Features
from onnx_compat_tensorflow.names import operation_names
from onnx_compat_tensorflow.running import run_errors
from onnx_compat_tensorflow.tensors import decoded, encoded, tf_dtype
from onnx_compat_tensorflow.weights import GRAPH_LIMIT, size

from onnx_compat.shim import Compiled, Program, UnsupportedError, emit

__all__ = ["BuiltGraph", "SessionModel", "session_devices", "session_for"]


class BuiltGraph:
    """The graph with its placeholders and outputs; both are named as in the model where TensorFlow takes the name."""

    def __init__(self, program: Program, features: Features, device: Optional[str]) -> None:
        weight = size(program)
        if weight > GRAPH_LIMIT:
            raise UnsupportedError(
                "the weights take %d MB, and a graph of TensorFlow 1 holds no more than 2 GB" % (weight // 10**6),
                hint="run it on the shim tf2, which keeps such weights in variables",
            )
        tf = self.tf = features.tf
        self.program = program
        self.graph = tf.Graph()
        names = operation_names([port.name for port in (*program.inputs, *program.outputs)])
        with self.graph.as_default(), placement(tf, device):
            self.inputs = [
                tf.compat.v1.placeholder(tf_dtype(tf, port.dtype), list(port.sizes), names[port.name])
                for port in program.inputs
            ]
            handles = emit(program.region, GraphEmitter(features), self.inputs)  # for inputs of size zero too
            self.outputs = [tf.identity(handle, names[port.name]) for port, handle in zip(program.outputs, handles)]


def session_for(tf: Any, graph: Any) -> Any:
    """A session that takes what memory it needs, and places what a device cannot do elsewhere."""
    config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    config.gpu_options.allow_growth = True
    _split(tf, config)
    return tf.compat.v1.Session(graph=graph, config=config)


def _split(tf: Any, config: Any) -> None:
    """Give a session the logical devices that the user has configured, which it ignores if it gets a configuration."""
    listed, split = (
        tf.config.experimental.list_physical_devices,
        tf.config.experimental.get_virtual_device_configuration,
    )
    processors = [split(device) for device in listed("CPU")]
    if any(processors):
        config.device_count["CPU"] = sum(len(parts or [None]) for parts in processors)
    graphics = [split(device) for device in listed("GPU")]
    if any(graphics):
        for parts in graphics:
            limits = [part.memory_limit for part in parts or ()]
            config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=limits)


def session_devices(tf: Any) -> List[str]:
    """The devices of such a session, logical devices included."""
    with session_for(tf, tf.Graph()) as session:
        return device_names(session.list_devices())


class SessionModel(Compiled):
    """`native` is the tf.Graph. Any number of threads may run it."""

    def __init__(self, tf: Any, graph: Any, inputs: Sequence[Any], outputs: Sequence[Any], session: Any = None) -> None:
        self.native = graph
        self._tf = tf
        session = session or session_for(tf, graph)
        with graph.as_default():
            self._call = session.make_callable(list(outputs), list(inputs))
        weakref.finalize(self, session.close)

    @classmethod
    def of(cls, built: BuiltGraph) -> "SessionModel":
        return cls(built.tf, built.graph, built.inputs, built.outputs)

    def run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        with run_errors(self._tf):
            outputs = self._call(*map(encoded, arrays))
        return [decoded(output) for output in outputs]
