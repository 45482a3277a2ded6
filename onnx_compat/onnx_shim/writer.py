"""Write traced programs at an opset that the caller chooses, whatever the installed onnxruntime can run."""

from typing import Any, Dict, Optional

from onnx_compat.onnx_shim.emission import write_program
from onnx_compat.onnx_shim.emitter import OnnxEmitter
from onnx_compat.onnx_shim.operator_sets import OperatorOffer
from onnx_compat.onnx_shim.shim import OnnxShim
from onnx_compat.onnx_shim.signatures import newest_opset
from onnx_compat.retarget.targets import check_ir_version, target_opsets
from onnx_compat.shim.interface import Emitter, Probe, Program

__all__ = ["OpsetWriter"]


class OpsetWriter(OnnxShim):
    """Writes programs as .onnx files of an opset and an IR version. It needs no onnxruntime.

    - opset: the version of ai.onnx; None: the newest that the installed onnx knows.
    - ir_version: the version of the file format; None: it follows from the opset.

    Raises ConversionError for an opset or IR version that does not exist, is too new, or is an IR version too old to
    write. Raises UnsupportedError for an opset below `OLDEST`.
    """

    def __init__(self, opset: Optional[int], ir_version: Optional[int]) -> None:
        super().__init__(opset)
        if opset is not None:
            target_opsets({"": opset}, opset)
        self._ir_version = None if ir_version is None else check_ir_version(ir_version)
        self._offer = OperatorOffer(newest_opset() if opset is None else opset)

    def probe(self) -> Probe:
        return Probe(True, "it writes models", "onnx")

    def emitter(self) -> Emitter:
        """Return an emitter for the operators of the opset."""
        return OnnxEmitter(self._offer)

    def _write(self, program: Program, origins: Optional[Dict[str, str]] = None) -> Any:
        return write_program(program, ir_version=self._ir_version, offer=self._offer, origins=origins)
