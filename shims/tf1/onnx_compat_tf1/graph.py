"""Build the TensorFlow graph of a recorded program, and run it in a session. Each program has its own graph and session."""

import weakref
from typing import Any, List, Optional, Sequence

import numpy as np
from onnx_compat_tensorflow.devices import device_names, placement
from onnx_compat_tensorflow.emitter import GraphEmitter
from onnx_compat_tensorflow.features import Features
from onnx_compat_tensorflow.framework_types import TensorFlow, TfGraph, TfSession, TfSessionConfig
from onnx_compat_tensorflow.names import operation_names
from onnx_compat_tensorflow.run_errors import run_errors
from onnx_compat_tensorflow.tensors import decode, encode, tf_dtype
from onnx_compat_tensorflow.weights import GRAPH_LIMIT, constant_bytes

from onnx_compat.shim import Compiled, Program, UnsupportedError, emit

__all__ = ["BuiltGraph", "SessionModel", "session_devices", "session_for"]


class BuiltGraph:
    """The TensorFlow graph of a program, with its placeholders (`inputs`) and its result tensors (`outputs`).

    The placeholders and results have the names of the ONNX model, or similar names that TensorFlow accepts. For a
    `device` of None, TensorFlow chooses the device.

    Raises UnsupportedError if the constants exceed `GRAPH_LIMIT` (1.9 GB), or if TensorFlow cannot compute a node.
    """

    def __init__(self, program: Program, features: Features, device: Optional[str]) -> None:
        size = constant_bytes(program)
        if size > GRAPH_LIMIT:
            raise UnsupportedError(
                "the weights take %d MB; a graph of TensorFlow 1 holds at most 2 GB" % (size // 10**6),
                hint="run the model on the shim tf2, which keeps large weights in variables",
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
            handles = emit(program.region, GraphEmitter(features), self.inputs)  # the graph accepts empty inputs too
            self.outputs = [tf.identity(handle, names[port.name]) for port, handle in zip(program.outputs, handles)]


def session_for(tf: TensorFlow, graph: TfGraph) -> TfSession:
    """Return a new session of a graph. It allocates GPU memory on demand.

    An operation without a kernel on its device runs on another device (soft placement). The session has the logical
    devices that the user configured.
    """
    config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    config.gpu_options.allow_growth = True
    _configure_logical_devices(tf, config)
    return tf.compat.v1.Session(graph=graph, config=config)


def _configure_logical_devices(tf: TensorFlow, config: TfSessionConfig) -> None:
    """Copy the user's configuration of logical CPUs and GPUs into `config`, in place.

    The copy is needed because a session with its own configuration ignores the user's. Without logical devices,
    `config` is not changed.
    """
    list_devices = tf.config.experimental.list_physical_devices
    logical_configuration = tf.config.experimental.get_virtual_device_configuration
    processors = [logical_configuration(device) for device in list_devices("CPU")]
    if any(processors):
        config.device_count["CPU"] = sum(len(parts or [None]) for parts in processors)
    graphics = [logical_configuration(device) for device in list_devices("GPU")]
    if any(graphics):
        for parts in graphics:
            limits = [part.memory_limit for part in parts or ()]
            config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=limits)


def session_devices(tf: TensorFlow) -> List[str]:
    """Return the names of the devices that a session uses, such as "cpu:0"; logical devices count separately."""
    with session_for(tf, tf.Graph()) as session:
        return device_names(session.list_devices())


class SessionModel(Compiled):
    """A compiled model: a graph and its session. `native` is the tf.Graph. Several threads may call `run` at once.

    `inputs` and `outputs`: tensors of the graph. `session`: None creates a session. The session is closed when this
    object is deleted.
    """

    def __init__(
        self,
        tf: TensorFlow,
        graph: TfGraph,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        session: Optional[TfSession] = None,
    ) -> None:
        self.native = graph
        self._tf = tf
        session = session or session_for(tf, graph)
        with graph.as_default():
            self._call = session.make_callable(list(outputs), list(inputs))
        weakref.finalize(self, session.close)

    @classmethod
    def of(cls, built: BuiltGraph) -> "SessionModel":
        """Return the compiled model of a BuiltGraph, in a new session."""
        return cls(built.tf, built.graph, built.inputs, built.outputs)

    def run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        with run_errors(self._tf):
            outputs = self._call(*map(encode, arrays))
        return [decode(output) for output in outputs]
