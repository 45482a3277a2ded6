"""The shim of onnxruntime: a program is written as an ONNX model that the installed onnxruntime can run."""

import os
from collections import Counter
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.discovery.diagnosis import error_line
from onnx_compat.errors import OnnxCompatError, UnsupportedError
from onnx_compat.ir.dtypes import text_carrier
from onnx_compat.model.graph import ValueInfo
from onnx_compat.model.protos import operator_name, walk
from onnx_compat.model.types import TensorType
from onnx_compat.onnx_shim.emission import write_program
from onnx_compat.onnx_shim.emitter import OnnxEmitter
from onnx_compat.onnx_shim.providers import CPU, device_providers, provider_sequence
from onnx_compat.onnx_shim.runtime import can_share, open_session, runtime_offer
from onnx_compat.shim.description import Preview
from onnx_compat.shim.emission import check_target
from onnx_compat.shim.interface import Compiled, Emitter, Port, Probe, Program, Shim

__all__ = ["SHIM", "OnnxShim", "as_carriers", "carrier_dtypes", "is_optimisable", "name_inputs"]


#: The input for a random number, if the program draws random numbers.
_ENTROPY = "onnx_compat_entropy"
#: The most characters of a cause: messages of onnxruntime have the signatures of functions in them.
_LONGEST_CAUSE = 200
#: onnxruntime 1.31 ends the process for a GRU without time steps, and leaves the states of the others unwritten.
_RECURRENT = ("GRU", "LSTM", "RNN")
#: The operators that onnxruntime removes if a constant is neutral.
_ARITHMETIC = frozenset(["Add", "Sub", "Mul", "Div"])


class SessionProgram(Compiled):
    """A program in a session of onnxruntime. `native` is the session.

    - content: a serialised ModelProto, whose ports have the dtypes of carriers.
    - dtypes: the dtypes of the carriers of the outputs.
    - providers: the names of execution providers, in order.
    - optimised: whether onnxruntime optimises the model. If it fails to, a session without optimisations is opened.
    - shared: name -> array of the initializers that the model refers to. None: the model holds every initializer.
    - rejects_empty: whether an input without elements is refused: the model has one of the operators `_RECURRENT`.
    """

    def __init__(
        self,
        content: bytes,
        dtypes: Sequence[np.dtype],
        providers: Sequence[str],
        optimised: bool = True,
        shared: Optional[Mapping[str, np.ndarray]] = None,
        rejects_empty: bool = False,
    ) -> None:
        self._shared = shared  # the session reads them
        self._rejects_empty = rejects_empty
        try:
            self.native = open_session(content, providers, optimised=optimised, shared=shared)
        except Exception:  # noqa: BLE001 (the optimiser of onnxruntime 1.10 fails for some loops)
            self.native = open_session(content, providers, optimised=False, shared=shared)
        self._names = [port.name for port in self.native.get_inputs()]
        self._dtypes = list(dtypes)

    def run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        """Run the session on the carrier arrays of the inputs. Return the carrier arrays of the outputs, in order.

        Raises UnsupportedError, with the cause, for an error of onnxruntime. Raises it also for an input without
        elements that onnxruntime must not get.
        """
        if self._rejects_empty and any(array.size == 0 for array in arrays):
            raise UnsupportedError("onnxruntime computes no recurrent layer of an empty input", hint="use another shim")
        try:
            results = self.native.run(None, name_inputs(self._names, arrays))
        except Exception as error:
            raise UnsupportedError("onnxruntime could not run it: %s" % _cause(error)) from error
        return as_carriers(results, self._dtypes)


def name_inputs(names: Sequence[str], arrays: Sequence[np.ndarray]) -> Dict[str, np.ndarray]:
    """Return input name -> array for a session. The input after `arrays`, if there is one, gets a random number."""
    return dict(zip(names, [*arrays, np.asarray(int.from_bytes(os.urandom(7), "little"), np.int64)]))


def as_carriers(results: Sequence[Any], dtypes: Sequence[np.dtype]) -> List[np.ndarray]:
    """Return the results of a session as carrier arrays. `dtypes`: the dtypes of the carriers."""
    return [_as_carrier(result, dtype) for result, dtype in zip(results, dtypes)]


def _cause(error: Exception) -> str:
    """Return the message of an error of onnxruntime on one line, without the headings before the name of the node."""
    text = " ".join(str(error).split())
    return text.rpartition("Status Message: ")[2][-_LONGEST_CAUSE:] if "Status Message: " in text else error_line(text)


def _as_carrier(result: Any, dtype: np.dtype) -> np.ndarray:
    return text_carrier(np.asarray(result)) if dtype.kind == "O" else np.asarray(result)


def carrier_dtypes(program: Program) -> List[np.dtype]:
    """Return the dtypes of the carriers of a program's outputs."""
    return [port.dtype.numpy for port in program.outputs]


def is_optimisable(proto: Any) -> bool:
    """Whether no arithmetic operator of a ModelProto reads an initializer without elements.

    The optimiser of onnxruntime 1.10 fails for such an operator. Nodes of subgraphs are not checked.
    """
    empty = {tensor.name for tensor in proto.graph.initializer if 0 in tensor.dims}
    return not any(not empty.isdisjoint(node.input) for node in proto.graph.node if node.op_type in _ARITHMETIC)


def _port(info: ValueInfo) -> Port:
    """Return a port of a file as a `Port`.

    Raises UnsupportedError for a value that is no tensor, or whose dtype or rank is not declared.
    """
    if not isinstance(info.type, TensorType) or info.type.dtype is None or info.type.shape is None:
        raise UnsupportedError("the value '%s' is no tensor of a declared type" % info.name)
    return Port(info.name, info.type.dtype, info.type.shape)


class OnnxShim(Shim):
    """The shim of onnxruntime. `opset`: the operator set to write; None: the newest that onnxruntime can use."""

    name = "onnx"
    modules = ("onnxruntime",)
    formats: Mapping[str, Tuple[str, str]] = {"onnx": (".onnx", "ONNX model")}

    def __init__(self, opset: Optional[int] = None) -> None:
        self._opset = opset

    def probe(self) -> Probe:
        """Import onnxruntime. Return its version and the operator set that the shim writes.

        Returns a failed Probe with the reason if onnxruntime cannot be imported, or runs no known operator set.
        """
        try:
            import onnxruntime
        except ImportError as error:
            return Probe(False, str(error), "onnxruntime")
        try:
            offer = runtime_offer(self._opset)
        except (RuntimeError, OnnxCompatError) as error:
            return Probe(False, str(error), "onnxruntime", onnxruntime.__version__)
        return Probe(True, "it runs models", "onnxruntime", onnxruntime.__version__, {"opset": offer.opset})

    def emitter(self) -> Emitter:
        """Return an emitter for the operators that the installed onnxruntime has."""
        return OnnxEmitter(runtime_offer(self._opset))

    def compile(self, program: Program, device: Optional[str] = None) -> Compiled:
        """Write the program as a model. Return it with a session of onnxruntime. The ports have the dtypes of carriers.

        `device`: a name such as "cpu" or "gpu"; None: the CPU.

        Raises UnsupportedError for a program that onnxruntime cannot run or load. Raises TargetError if the program was
        recorded for another target, and ShimError for an unknown device.
        """
        providers = provider_sequence(self.resolve_device(device) or "cpu")
        check_target(program.region, self.emitter())
        shared: Optional[Dict[str, np.ndarray]] = {} if can_share() else None
        proto = self.write_carriers(program, shared)
        content, dtypes, optimised = proto.SerializeToString(), carrier_dtypes(program), is_optimisable(proto)
        is_recurrent = any(node.op_type in _RECURRENT for node in walk(proto.graph.node))
        del proto
        try:
            return SessionProgram(content, dtypes, providers, optimised, shared, is_recurrent)
        except Exception as error:
            reason = "onnxruntime does not load the model: %s" % error_line(str(error))
            raise UnsupportedError(reason, hint="run the model on another shim") from error

    def write_carriers(self, program: Program, shared: Optional[Dict[str, np.ndarray]] = None) -> Any:
        """Return a program as the onnx.ModelProto that a session loads. Its ports have the dtypes of carriers.

        If the program draws random numbers without a seed, the model has one more input: see `name_inputs`.

        `shared` is filled with the large initializers, by name. None: the proto holds every initializer.
        """
        return write_program(program, None, None, runtime_offer(self._opset), True, _ENTROPY, shared)

    def export(self, program: Program, path: str, form: str) -> None:
        """Write the program to a file, as a model that the installed onnxruntime can run.

        Raises UnsupportedError for a node that onnxruntime cannot run, and for weights that one file cannot hold.
        """
        content = self._write(program).SerializeToString()
        with open(path, "wb") as file:
            file.write(content)

    def preview(self, program: Program, form: str) -> Preview:
        """Return the number of nodes of each operator that `export` would write, and the operators of each ONNX node.

        Nodes of subgraphs are counted. Raises UnsupportedError for a node that onnxruntime cannot run, and for weights
        that one file cannot hold.
        """
        origins: Dict[str, str] = {}
        operators: Dict[str, List[str]] = {}
        written = list(walk(self._write(program, origins).graph.node))
        for node in written:
            if node.name in origins:
                operators.setdefault(origins[node.name], []).append(operator_name(node))
        nodes = {name: tuple(listed) for name, listed in operators.items()}
        return Preview(Counter(map(operator_name, written)), nodes, fuses=True)

    def _write(self, program: Program, origins: Optional[Dict[str, str]] = None) -> Any:
        """Return the program as an onnx.ModelProto for the installed onnxruntime. `origins`: see `write_program`."""
        return write_program(program, offer=runtime_offer(self._opset), origins=origins)

    def load_converted(self, path: str, form: str) -> Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]:
        """Load a file that `export` wrote. Return (program in a session on the CPU, inputs, outputs).

        Raises UnsupportedError for an input or output that is no tensor of a declared dtype and rank.
        """
        from onnx_compat.model import load

        graph = load(path).graph
        inputs, outputs = (tuple(map(_port, ports)) for ports in (graph.required, graph.outputs))
        with open(path, "rb") as file:
            dtypes = [port.dtype.numpy for port in outputs]
            is_recurrent = any(node.operator in _RECURRENT for node in graph.walk())
            compiled = SessionProgram(file.read(), dtypes, [CPU], rejects_empty=is_recurrent)
        return compiled, inputs, outputs

    def devices(self) -> Sequence[str]:
        """Return "cpu", and a device for each execution provider that a session can use: see `device_providers`."""
        return list(device_providers())


SHIM = OnnxShim()
