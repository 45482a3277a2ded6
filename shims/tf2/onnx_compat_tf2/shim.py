"""The tf2 shim: programs become tf.Modules with a tf.function; models can also be executed eagerly."""

from typing import Optional, Sequence, Tuple

from onnx_compat_tensorflow.devices import logical_devices
from onnx_compat_tensorflow.emitter import EagerEmitter
from onnx_compat_tensorflow.framework_types import TensorFlow
from onnx_compat_tensorflow.shim import TensorFlowShim, executes_eagerly

from onnx_compat.shim import Compiled, Emitter, Port, Preview, Program

__all__ = ["SHIM", "TensorFlow2"]


class TensorFlow2(TensorFlowShim):
    """The shim of TensorFlow 2: compiles to a tf.Module, executes eagerly, exports SavedModels."""

    name = "tf2"
    formats = {"saved_model": ("", "SavedModel folder")}
    execution = "tf.function"

    def find_obstacle(self, tf: TensorFlow) -> Optional[str]:
        if hasattr(tf, "function") and executes_eagerly(tf):
            return None
        reason = (
            "this TensorFlow (%s) builds graphs for sessions: use the shim tf1, or let TensorFlow 2 execute eagerly"
        )
        return str(reason % tf.__version__)

    def executor(self, device: Optional[str] = None) -> Emitter:
        return EagerEmitter(self.features, device)

    def devices(self) -> Sequence[str]:
        return logical_devices(self.features.tf)

    def compile(self, program: Program, device: Optional[str] = None) -> Compiled:
        from onnx_compat_tf2.compiled import CompiledModule

        return CompiledModule(program, self.features, self.resolve_device(device))

    def export(self, program: Program, path: str, form: str) -> None:
        from onnx_compat_tf2.saved_model import save

        save(program, self.features, path)

    def preview(self, program: Program, form: str) -> Preview:
        from onnx_compat_tf2.saved_model import preview

        return preview(program, self.features)

    def load_converted(self, path: str, form: str) -> Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]:
        from onnx_compat_tf2.saved_model import load

        return load(path)


SHIM = TensorFlow2()
