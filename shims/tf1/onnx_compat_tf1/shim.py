"""The tf1 shim: programs become TensorFlow 1 graphs, which run in sessions."""

from typing import Optional, Sequence, Tuple

from onnx_compat_tensorflow.framework_types import TensorFlow
from onnx_compat_tensorflow.shim import TensorFlowShim, executes_eagerly

from onnx_compat.shim import Compiled, ConversionError, Port, Preview, Program

__all__ = ["SHIM", "TensorFlow1"]


class TensorFlow1(TensorFlowShim):
    """The shim of TensorFlow 1: compiles to a graph with a session, exports frozen GraphDefs and SavedModels."""

    name = "tf1"
    formats = {"graphdef": (".pb", "frozen GraphDef"), "saved_model": ("", "SavedModel folder")}
    execution = "graphs and sessions"

    def find_obstacle(self, tf: TensorFlow) -> Optional[str]:
        if not hasattr(tf, "raw_ops") or not hasattr(tf, "compat"):
            return "this TensorFlow (%s) is too old: it has no tf.raw_ops" % tf.__version__
        if executes_eagerly(tf):
            return "this TensorFlow (%s) executes eagerly: use the shim tf2" % tf.__version__
        return None

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

    def preview(self, program: Program, form: str) -> Preview:
        from onnx_compat_tf1 import files
        from onnx_compat_tf1.graph import BuiltGraph

        return files.preview_graph(BuiltGraph(program, self.features, None), form)

    def load_converted(self, path: str, form: str) -> Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]:
        from onnx_compat_tf1 import files

        readers = {"graphdef": files.load_graphdef, "saved_model": files.load_saved_model}
        if form not in readers:
            raise ConversionError("the shim tf1 reads %s, not '%s'" % (" and ".join(readers), form))
        return readers[form](self.features.tf, path)


SHIM = TensorFlow1()
