"""Fallback: run the parts of a model that a shim cannot run.

A part runs in onnxruntime if onnxruntime is installed and accepts the part; otherwise it runs in the reference.
"""

from typing import Any, FrozenSet, List, Optional

from onnx_compat.errors import UnsupportedError
from onnx_compat.execution.feeds import CheckedValue, Feed, MapItems, to_public_value
from onnx_compat.execution.onnxruntime_child import LoadRefused, run_in_child, session_options
from onnx_compat.execution.soundness import is_sound
from onnx_compat.ir.dtypes import string
from onnx_compat.model import MapType, Model, TensorType
from onnx_compat.model.write import extract

__all__ = ["PartRunner", "fallback_domains", "fallback_runnable"]

#: The optional module `onnxruntime`: it has no types, and need not be installed.
OnnxRuntime = Any
#: An object that runs a part by `run_checked(feed)`, and has `traces`, `fallbacks` and `reasons`: a Runnable or a
#: session.
PartRunner = Any


def fallback_domains() -> FrozenSet[str]:
    """Return the domains with operators that onnxruntime may support and the core does not.

    The set is empty if onnxruntime is not installed.
    """
    return frozenset(["com.microsoft", "com.microsoft.nchwc"] if _import_onnxruntime() is not None else [])


def fallback_runnable(model: Model, trusted: bool = True) -> PartRunner:
    """Return an object that runs a part in the fallback: an onnxruntime session, or else a Runnable on the reference.

    `trusted`: False if a node of the part has failed in a run of the shim, although its trace succeeded. Then
    onnxruntime runs the part in a child process first (see `_Session`).

    Raises the error of the reference, such as UnsupportedError, if neither can run the part.
    """
    return _prepare_session(model, trusted) or _prepare_reference(model)


def _prepare_reference(model: Model) -> PartRunner:
    """Return a Runnable of the model of a part on the reference. Raises the errors of `Runnable`."""
    from onnx_compat.discovery import selection
    from onnx_compat.execution.runnable import Runnable

    return Runnable(model, selection.find("reference"), None, natives=False, fallback=False)


def _prepare_session(model: Model, trusted: bool) -> PartRunner:
    """Return an onnxruntime session for the model of a part. Return None if onnxruntime cannot be used for the part:

    - onnxruntime is not installed, or raises an error for the part.
    - A node may cast numbers to text, or draws random numbers.
    - An input is a map.

    `trusted`: True if the first run of a sound part needs no child process (see `_Session`).
    """
    runtime = _import_onnxruntime()
    if runtime is None or _casts_to_text(model) or _draws_random_numbers(model):
        return None
    if any(isinstance(port.type, MapType) for port in model.graph.inputs):
        return None  # its Python binding accepts no empty map, and no map of strings
    try:
        return _Session(model, runtime, trusted)
    except Exception:  # noqa: BLE001 (its errors have no common base; the reference is tried after any of them)
        return None


def _casts_to_text(model: Model) -> bool:
    """Whether a node of the model or of a subgraph may cast numbers to text: onnxruntime writes at most eight digits.

    These nodes count:

    - A Cast to strings.
    - A CastLike whose target is an input or an initializer of strings in the outermost graph.
    """
    texts = {
        port.name for port in model.graph.inputs if isinstance(port.type, TensorType) and port.type.dtype is string
    }
    texts.update(name for name, initializer in model.graph.initializers.items() if initializer.dtype is string)
    return any(
        (node.operator == "Cast" and node.attributes.get("to") in (string.onnx, "STRING"))
        or (node.operator == "CastLike" and node.inputs[1] in texts)
        for node in model.graph.walk()
    )


def _draws_random_numbers(model: Model) -> bool:
    """Whether a node of the model or of a subgraph draws random numbers, by its operator. Every Dropout counts.

    onnxruntime is not used for such nodes, because it continues a seeded sequence at each run, and its Bernoulli
    inverts the probabilities.
    """
    prefixes = ("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomUniform")
    return any(node.operator.startswith(prefixes) for node in model.graph.walk())


def _import_onnxruntime() -> OnnxRuntime:
    try:
        import onnxruntime
    except ImportError:
        return None
    return onnxruntime


def _has_empty_tensor(feed: Feed) -> bool:
    """Whether a tensor of a feed has no elements. Older releases of onnxruntime cannot reduce an axis of such a tensor.

    Tensors in sequences and maps do not count.
    """
    return any(isinstance(value, tuple) and not value[0].size for value in feed.values())


class _Session:
    """A part in an onnxruntime session. Once the session has refused a feed, the reference runs the part instead.

    A part that is not sound (see `is_sound`), or not `trusted`, runs in a child process first. So does a part whose
    feed has an empty tensor. After a run that succeeded, later runs are in this process.

    `runtime`: the module onnxruntime.
    """

    traces = 0

    def __init__(self, model: Model, runtime: OnnxRuntime, trusted: bool) -> None:
        graph = model.graph
        self._runtime = runtime
        self._session: OnnxRuntime = None
        self._names = [port.name for port in graph.outputs]
        self._model = model
        self._reference: PartRunner = None
        self._refusal: Optional[str] = None  # why the reference runs the part; "": onnxruntime does not load it
        self._has_reduction = any(node.operator.startswith("Reduce") for node in graph.walk())
        self.fallbacks: List[str] = [node.name for node in graph.nodes]
        #: Whether feeds without and with an empty tensor may run in this process.
        self._trusted = {False: trusted and is_sound(model), True: False}
        if self._trusted[False]:
            self._open()

    def _open(self) -> None:
        """Open the session in this process, and store it. Raises any error of onnxruntime."""
        options = session_options(self._runtime)
        self._session = self._runtime.InferenceSession(self._serialise(), options, providers=["CPUExecutionProvider"])

    def _serialise(self) -> bytes:
        graph = self._model.graph
        return bytes(extract(self._model, graph.nodes, list(graph.inputs), list(graph.outputs)).SerializeToString())

    def run_checked(self, feed: Feed) -> List[CheckedValue]:
        """Run the part on checked inputs. Return a list of checked values, in the order of the part's outputs.

        onnxruntime runs the part, except in these cases, where the reference does:

        - onnxruntime has raised an error, or ended a child process, in this run or an earlier run.
        - The part has a reduction, and a tensor of the feed is empty.

        A failure of onnxruntime is stored: the reference runs the part in this and in all later calls. Errors of the
        reference are raised, such as UnsupportedError for a node that it cannot run.
        """
        if self._refusal is None and not (self._has_reduction and _has_empty_tensor(feed)):
            try:
                return [_to_checked(value) for value in self._run(feed)]
            except LoadRefused:
                self._refusal = ""
            except UnsupportedError as error:
                self._refusal = error.reason
            except Exception as error:  # noqa: BLE001 (as in `_prepare_session`; some cases fail only at run time)
                self._refusal = "onnxruntime could not run it: %s" % (str(error).splitlines() or [""])[0]
        if self._reference is None:
            self._reference = self._replace_session()
        results: List[CheckedValue] = self._reference.run_checked(feed)
        return results

    def _replace_session(self) -> PartRunner:
        """Return a Runnable of the part on the reference, which runs the part in place of the session.

        Raises UnsupportedError if the reference cannot run the part. The error has the reason of onnxruntime, if
        onnxruntime has loaded the part and has failed to run it.
        """
        try:
            return _prepare_reference(self._model)
        except UnsupportedError as error:  # an operator that only onnxruntime supports
            if not self._refusal:
                raise
            refusal = UnsupportedError(self._refusal, hint=error.hint)
            raise refusal.at(node=error.node, operator=error.operator, opset=error.opset) from error

    def _run(self, feed: Feed) -> List[Any]:
        """Run the part in onnxruntime. Return the values as onnxruntime does.

        Unless the part is trusted, it runs in a child process until a run has succeeded. Runs with and without an empty
        tensor count separately, and are trusted separately. Raises UnsupportedError if the child process fails, and any
        error of onnxruntime.
        """
        inputs = {name: to_public_value(value) for name, value in feed.items()}
        is_empty = _has_empty_tensor(feed)
        if not self._trusted[is_empty]:
            result = run_in_child(self._serialise(), inputs, self._names)
            self._trusted[is_empty] = True  # a model that ends the child process raises an error, and never runs again
            if result is not None:
                return result.outputs
        if self._session is None:
            self._open()
        values: List[Any] = self._session.run(self._names, inputs)
        return values


def _to_checked(value: Any) -> CheckedValue:
    """Convert a value of onnxruntime to a checked value: an array, None (an empty optional), a list or a dict."""
    from onnx_compat.ir.dtypes import from_public
    from onnx_compat.tracing.values import EMPTY_OPTIONAL

    if value is None:
        return EMPTY_OPTIONAL
    if isinstance(value, dict):
        return MapItems.from_mapping(value, "a map")
    return [_to_checked(item) for item in value] if isinstance(value, list) else from_public(value)
