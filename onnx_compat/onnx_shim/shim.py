"""The shim of onnxruntime: a program is written as an ONNX model that the installed onnxruntime can run."""

from typing import Any, List, Optional, Sequence

import numpy as np

from onnx_compat.ir.dtypes import text_carrier
from onnx_compat.onnx_shim.emission import write_program
from onnx_compat.onnx_shim.emitter import OnnxEmitter
from onnx_compat.onnx_shim.runtime import open_session, runtime_offer
from onnx_compat.shim.emission import check_target
from onnx_compat.shim.interface import Compiled, Emitter, Probe, Program, Shim

__all__ = ["SHIM", "OnnxShim"]


class SessionProgram(Compiled):
    """A program in a session of onnxruntime. `native` is the session."""

    def __init__(self, content: bytes, dtypes: Sequence[np.dtype], providers: Sequence[Any]) -> None:
        self.native = open_session(content, providers)
        self._names = [port.name for port in self.native.get_inputs()]
        self._dtypes = list(dtypes)

    def run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        """Run the session on the carrier arrays of the inputs. Return the carrier arrays of the outputs, in order."""
        results = self.native.run(None, dict(zip(self._names, arrays)))
        return [_as_carrier(result, dtype) for result, dtype in zip(results, self._dtypes)]


def _as_carrier(result: Any, dtype: np.dtype) -> np.ndarray:
    return text_carrier(np.asarray(result)) if dtype.kind == "O" else np.asarray(result)


class OnnxShim(Shim):
    """The shim of onnxruntime."""

    name = "onnx"
    modules = ("onnxruntime",)

    def probe(self) -> Probe:
        """Import onnxruntime, and return its version and the newest operator set that it can use."""
        try:
            import onnxruntime
        except ImportError as error:
            return Probe(False, str(error), "onnxruntime")
        try:
            offer = runtime_offer()
        except RuntimeError as error:
            return Probe(False, str(error), "onnxruntime", onnxruntime.__version__)
        return Probe(True, "it runs models", "onnxruntime", onnxruntime.__version__, {"opset": offer.opset})

    def emitter(self) -> Emitter:
        """Return an emitter for the operators that the installed onnxruntime has."""
        return OnnxEmitter(runtime_offer())

    def compile(self, program: Program, device: Optional[str] = None) -> Compiled:
        """Write the program as a model, and open a session for it. The ports have the dtypes of carriers.

        Raises UnsupportedError for a node that onnxruntime cannot run, TargetError if the program was recorded for
        another target, and ShimError for an unknown device.
        """
        check_target(program.region, self.emitter())
        proto = write_program(program, offer=runtime_offer(), carriers=True)
        dtypes = [port.dtype.numpy for port in program.outputs]
        return SessionProgram(proto.SerializeToString(), dtypes, ["CPUExecutionProvider"])


SHIM = OnnxShim()
