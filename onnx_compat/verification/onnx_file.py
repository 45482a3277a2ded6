"""Open an .onnx file that `convert` wrote, and run it: on onnxruntime if it is installed, else on the reference."""

import os
from typing import Any, List, Mapping, Optional, Sequence, Union

from onnx_compat.discovery.environment import find_module
from onnx_compat.errors import InputError, UnsupportedError
from onnx_compat.execution.feeds import check_feed, to_public_value
from onnx_compat.execution.outputs import Outputs
from onnx_compat.model import load
from onnx_compat.verification.oracle import ONNXRUNTIME, REFERENCE, run_oracle

__all__ = ["OnnxFile", "open_onnx"]


class OnnxFile:
    """An .onnx file that runs on an oracle: on onnxruntime, or on a shim.

    The constructor takes the path and the name of a shim. None instead of a shim: onnxruntime, or the reference if
    onnxruntime is not installed or cannot run the file. The constructor raises the errors of `load`.

    Attributes:
        path: The path of the file.
        inputs: The inputs of the file: name and type.
        outputs: The outputs of the file: name and type.
        shim: The name of the given shim. Without a shim, "onnxruntime" or "reference": what ran the file last. Before
            the first run, "onnxruntime" if it is installed.
        notes: Why the reference ran the file last, as a list with a text. An empty list otherwise.
        scheme: None, as for every file that is not quantised.
    """

    #: An .onnx file is not quantised by `convert`.
    scheme = None

    def __init__(self, path: str, shim: Optional[str]) -> None:
        self.path = path
        self.shim = shim or (ONNXRUNTIME if find_module(ONNXRUNTIME) is not None else REFERENCE)
        self.notes: List[str] = []
        self._oracle = shim
        self._model = load(path)
        self.inputs = list(self._model.inputs)
        self.outputs = list(self._model.outputs)

    def run(self, inputs: Union[Mapping[str, Any], Sequence[Any]]) -> Outputs:
        """Run the file, and return its outputs. `inputs`: a dict by name, or a list in the order of the file.

        A dict may have names that the file lacks, which are ignored. Raises InputError if an input is missing or does
        not fit. Raises UnsupportedError if the oracle cannot run the file.
        """
        names = [port.name for port in self._model.inputs]
        if isinstance(inputs, Mapping):
            inputs = {name: value for name, value in inputs.items() if name in names}
        checked = check_feed(inputs, self._model.graph.inputs, names)
        feed = {name: to_public_value(value) for name, value in checked.items()}
        answer = run_oracle(self._model, feed, self._oracle)
        if self._oracle is None:
            self.shim = REFERENCE if answer.fallback_reason else ONNXRUNTIME
            name = os.path.basename(self.path)
            reason = answer.fallback_reason
            self.notes = ["'%s' ran on the reference, because %s" % (name, reason)] if reason else []
        return Outputs(answer.outputs, [port.name for port in self.outputs])


def open_onnx(path: Union[str, "os.PathLike[str]"], shim: Optional[str], signature: Optional[str]) -> OnnxFile:
    """Open an .onnx file. `shim`: the shim that runs it; None: onnxruntime, or the reference.

    Raises InputError for a damaged file, UnsupportedError for a signature, which .onnx files do not have.
    """
    if signature is not None:
        raise UnsupportedError("the file '%s' has no signatures" % os.fspath(path), hint="leave the signature out")
    if not os.path.isfile(path):
        raise InputError("'%s' is not a file" % os.fspath(path), hint="give the path of an .onnx file")
    return OnnxFile(os.fspath(path), shim)
