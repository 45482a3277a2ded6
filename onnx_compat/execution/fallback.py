"""Fallback: run the parts of a model that a shim cannot run.

The first of these runtimes that can run a part does:

1. onnxruntime, with the part as it is
2. onnxruntime, with the part written for it by the shim `onnx`, if it lacks an operator, a type, an opset or the IR
   version of the part
3. the reference
"""

from typing import Any, Dict, FrozenSet, List

from onnx_compat.discovery.selection import ONNX, REFERENCE
from onnx_compat.errors import UnsupportedError
from onnx_compat.execution.feeds import CheckedValue, Feed, MapItems, to_public_value
from onnx_compat.execution.onnxruntime_child import LoadRefused, run_in_child, session_options
from onnx_compat.execution.soundness import is_sound
from onnx_compat.ir.dtypes import string
from onnx_compat.model import MapType, Model, TensorType
from onnx_compat.model.write import extract
from onnx_compat.shim.forks import keep_after_fork

__all__ = ["ONNXRUNTIME", "PartRunner", "fallback_domains", "fallback_runnable"]

#: The optional module `onnxruntime`: it has no types, and need not be installed.
OnnxRuntime = Any
#: An object that runs a part by `run_checked(feed)`, and has `traces`, `fallbacks`, `reasons` and `fallback_runtimes`: a
#: Runnable or a `_FallbackPart`.
PartRunner = Any

#: The name of the first runtime of the fallback. The others are named after their shims.
ONNXRUNTIME = "onnxruntime"


def fallback_domains() -> FrozenSet[str]:
    """Return the domains with operators that onnxruntime may support and the core does not.

    The set is empty if onnxruntime is not installed.
    """
    return frozenset(["com.microsoft", "com.microsoft.nchwc"] if _import_onnxruntime() is not None else [])


def fallback_runnable(model: Model, trusted: bool = True, respells: bool = True) -> PartRunner:
    """Return an object that runs a part in the fallback, on the first runtime that can run it.

    - trusted: False if a node of the part has failed in a run of the shim, although its trace succeeded. Then
      onnxruntime runs the part in a child process first (see `_Session`, `GuardedShim`).
    - respells: whether the shim `onnx` may run the part. False for parts of the shims `onnx` and `reference`.

    onnxruntime does not run a part in these cases; the reference does:

    - onnxruntime is not installed.
    - A node may cast numbers to text, or draws random numbers.
    - An input is a map.

    Raises the error of the reference, such as UnsupportedError, if no runtime can be prepared for the part.
    """
    if (
        _import_onnxruntime() is None
        or _casts_to_text(model)
        or _draws_random_numbers(model)
        or any(isinstance(port.type, MapType) for port in model.graph.inputs)  # its binding takes no empty map
    ):
        return _FallbackPart(model, trusted, [REFERENCE])
    return _FallbackPart(model, trusted, [ONNXRUNTIME, ONNX, REFERENCE] if respells else [ONNXRUNTIME, REFERENCE])


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


class _FallbackPart:
    """A part on the first of several runtimes that has not refused it. The reference is the last, and refuses nothing.

    A failure of onnxruntime is stored: another runtime runs the part in this and in all later calls.

    - fallbacks: the names of the nodes.
    """

    traces = 0

    def __init__(self, model: Model, trusted: bool, runtimes: List[str]) -> None:
        self._model = model
        self._is_trusted = trusted and runtimes[0] == ONNXRUNTIME and is_sound(model)
        self._runtimes = runtimes  # those that have not refused the part
        self._refusal = ""  # why onnxruntime cannot run the part, although it loads the part
        self._has_reduction = any(node.operator.startswith("Reduce") for node in model.graph.walk())
        self._runners: Dict[str, PartRunner] = {}
        self.fallbacks: List[str] = [node.name for node in model.graph.nodes]
        self._latest = self._prepare()

    @property
    def fallback_runtimes(self) -> Dict[str, str]:
        """Node name -> the runtime of the latest run: see `Runnable.fallback_runtimes`."""
        runtimes = dict.fromkeys(self.fallbacks, self._latest)
        if self._latest == ONNX:
            runtimes.update(self._runners[ONNX].fallback_runtimes)
        return runtimes

    def run_checked(self, feed: Feed) -> List[CheckedValue]:
        """Run the part on checked inputs. Return a list of checked values, in the order of the part's outputs.

        The reference runs the part if it has a reduction, onnxruntime would run it as it is, and a tensor of the feed is
        empty. Errors of the reference are raised, such as UnsupportedError for a node that it cannot run.
        """
        while True:
            runtime = self._prepare()
            if runtime == ONNXRUNTIME and self._has_reduction and _has_empty_tensor(feed):
                runtime = REFERENCE
            self._latest = runtime
            runner = self._runner(runtime)
            if runtime == REFERENCE:
                return list(runner.run_checked(feed))
            try:
                return list(runner.run_checked(feed))
            except LoadRefused:
                self._refuse(runtime)
            except Exception as error:  # noqa: BLE001 (errors of onnxruntime have no common base; some come at run time)
                if runtime == ONNXRUNTIME:
                    self._refusal = _reason(error)
                self._refuse(ONNXRUNTIME, ONNX)

    def _refuse(self, *runtimes: str) -> None:
        """Remove runtimes from those that may run the part, in this and in all later calls."""
        self._runtimes = [runtime for runtime in self._runtimes if runtime not in runtimes]

    def _prepare(self) -> str:
        """Return the first runtime that can be prepared for the part. Raises the error of the reference if none can."""
        while True:
            runtime = self._runtimes[0]
            if runtime == REFERENCE:
                self._runner(runtime)
                return runtime
            try:
                self._runner(runtime)
            except Exception:  # noqa: BLE001 (as in `run_checked`; the next runtime is tried after any error)
                self._refuse(runtime)
            else:
                return runtime

    def _runner(self, runtime: str) -> PartRunner:
        """Return the object that runs the part on a runtime. It is made once; errors of its preparation pass."""
        if runtime not in self._runners:
            make = {ONNXRUNTIME: self._open_session, ONNX: self._respell, REFERENCE: self._refer}[runtime]
            self._runners[runtime] = make()
        return self._runners[runtime]

    def _open_session(self) -> PartRunner:
        return _Session(self._model, _import_onnxruntime(), self._is_trusted)

    def _respell(self) -> PartRunner:
        """Return a Runnable on the shim `onnx`. Nodes without any form in onnxruntime run in its own fallback."""
        from onnx_compat.execution.runnable import Runnable
        from onnx_compat.onnx_shim.guarded import GuardedShim

        shim = GuardedShim(self._is_trusted)
        return Runnable(self._model, shim, None, natives=True, fallback=True, trusted=self._is_trusted)

    def _refer(self) -> PartRunner:
        """Return a Runnable on the reference.

        Raises UnsupportedError if the reference cannot run the part. The error has the reason of onnxruntime, if
        onnxruntime has loaded the part and has failed to run it.
        """
        from onnx_compat.discovery import selection
        from onnx_compat.execution.runnable import Runnable

        try:
            return Runnable(self._model, selection.find(REFERENCE), None, natives=False, fallback=False)
        except UnsupportedError as error:  # an operator that only onnxruntime supports
            if not self._refusal:
                raise
            refusal = UnsupportedError(self._refusal, hint=error.hint)
            raise refusal.at(node=error.node, operator=error.operator, opset=error.opset) from error


def _reason(error: Exception) -> str:
    """Return the reason of an error of onnxruntime or of its child process, as one line."""
    if isinstance(error, UnsupportedError):
        return error.reason
    return "onnxruntime could not run it: %s" % (str(error).splitlines() or [""])[0]


class _Session:
    """A part in an onnxruntime session, as it is.

    A part that is not trusted runs in a child process first. So does a part whose feed has an empty tensor. Later runs
    are in this process. Raises LoadRefused if onnxruntime does not load a part that is trusted.
    """

    def __init__(self, model: Model, runtime: OnnxRuntime, trusted: bool) -> None:
        self._runtime = runtime
        self._session: OnnxRuntime = None
        self._names = [port.name for port in model.graph.outputs]
        self._model = model
        #: Whether feeds without and with an empty tensor may run in this process.
        self._trusted = {False: trusted, True: False}
        if trusted:
            self._open()

    def _open(self) -> None:
        """Open the session in this process, and store it. Raises LoadRefused if onnxruntime does not load the part."""
        options = session_options(self._runtime)
        try:
            content = self._serialise()
            self._session = self._runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
            keep_after_fork(self._session)
        except Exception as error:
            raise LoadRefused("onnxruntime could not run it: %s" % error) from error

    def _serialise(self) -> bytes:
        graph = self._model.graph
        return bytes(extract(self._model, graph.nodes, list(graph.inputs), list(graph.outputs)).SerializeToString())

    def run_checked(self, feed: Feed) -> List[CheckedValue]:
        """Run the part on checked inputs. Return a list of checked values, in the order of the part's outputs.

        Unless the part is trusted, it runs in a child process until a run has succeeded. Runs with and without an empty
        tensor count separately, and are trusted separately.

        Raises LoadRefused if onnxruntime does not load the part, UnsupportedError if the child process fails otherwise,
        and any error of onnxruntime.
        """
        inputs = {name: to_public_value(value) for name, value in feed.items()}
        is_empty = _has_empty_tensor(feed)
        if not self._trusted[is_empty]:
            result = run_in_child(self._serialise(), inputs, self._names)
            self._trusted[is_empty] = True  # a model that ends the child process raises an error, and never runs again
            if result is not None:
                return [_to_checked(value) for value in result.outputs]
        if self._session is None:
            self._open()
        return [_to_checked(value) for value in self._session.run(self._names, inputs)]


def _to_checked(value: Any) -> CheckedValue:
    """Convert a value of onnxruntime to a checked value: an array, None (an empty optional), a list or a dict."""
    from onnx_compat.ir.dtypes import from_public
    from onnx_compat.tracing.values import EMPTY_OPTIONAL

    if value is None:
        return EMPTY_OPTIONAL
    if isinstance(value, dict):
        return MapItems.from_mapping(value, "a map")
    return [_to_checked(item) for item in value] if isinstance(value, list) else from_public(value)
