"""Where the parts of a model go that a shim cannot do: onnxruntime if it is installed and takes the part, else the
reference.
"""

from typing import Any, FrozenSet, List

from onnx_compat.errors import UnsupportedError
from onnx_compat.execution.feeds import Feed, MapItems, to_public_value
from onnx_compat.ir.dtypes import string
from onnx_compat.model import MapType, Model, TensorType
from onnx_compat.model.write import extract

__all__ = ["fallback_domains", "fallback_runnable"]


def fallback_domains() -> FrozenSet[str]:
    """The domains whose operators the fallback may know although the core does not."""
    return frozenset(["com.microsoft", "com.microsoft.nchwc"] if _onnxruntime() is not None else [])


def fallback_runnable(model: Model) -> Any:
    """Something that runs a part, by `run_checked`."""
    return _session(model) or _reference(model)


def _reference(model: Model) -> Any:
    from onnx_compat.discovery import selection
    from onnx_compat.execution.runnable import Runnable

    return Runnable(model, selection.find("reference"), None, natives=False, fallback=False)


def _session(model: Model) -> Any:
    """The part in onnxruntime; None if that is not installed or does not take it."""
    runtime = _onnxruntime()
    if runtime is None or _prints(model) or _draws(model):
        return None
    if any(isinstance(one.type, MapType) for one in model.graph.inputs):
        return None  # its Python side takes no empty map, and no text in one
    try:
        return _OnnxRuntime(model, runtime)
    except Exception:  # noqa: BLE001 (its errors have no common base; whatever it refuses, the reference is asked next)
        return None


def _prints(model: Model) -> bool:
    """Whether numbers become text: onnxruntime writes eight digits of them, however many there are."""
    texts = {one.name for one in model.graph.inputs if isinstance(one.type, TensorType) and one.type.dtype is string}
    texts.update(name for name, one in model.graph.initializers.items() if one.dtype is string)
    return any(
        (node.operator == "Cast" and node.attributes.get("to") in (string.onnx, "STRING"))
        or (node.operator == "CastLike" and node.inputs[1] in texts)
        for node in model.graph.walk()
    )


def _draws(model: Model) -> bool:
    """Whether numbers are drawn: onnxruntime draws on from a seed at each run, and its Bernoulli turns the chances round."""
    drawing = ("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomUniform")
    return any(node.operator.startswith(drawing) for node in model.graph.walk())


def _onnxruntime() -> Any:
    try:
        import onnxruntime
    except ImportError:
        return None
    return onnxruntime


def _empty(feed: Feed) -> bool:
    """Whether there is a tensor without elements: older releases of onnxruntime leave an axis as it is that they reduce."""
    return any(isinstance(value, tuple) and not value[0].size for value in feed.values())


class _OnnxRuntime:
    """A part as an onnxruntime session; from the first feed that it refuses on, the reference."""

    traces = 0

    def __init__(self, model: Model, runtime: Any) -> None:
        graph = model.graph
        proto = extract(model, graph.nodes, list(graph.inputs), list(graph.outputs))
        options = runtime.SessionOptions()
        options.log_severity_level = 4
        self._session = runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self._names = [one.name for one in graph.outputs]
        self._model = model
        self._instead: Any = None
        self._refused = ""
        self._reduces = any(node.operator.startswith("Reduce") for node in graph.walk())
        self.fallbacks: List[str] = [node.name for node in graph.nodes]

    def run_checked(self, feed: Feed) -> List[Any]:
        if not self._refused and not (self._reduces and _empty(feed)):
            try:
                return self._run(feed)
            except Exception as error:  # noqa: BLE001 (as in `_session`: some cases are only refused when they run)
                self._refused = "onnxruntime could not run it: %s" % (str(error).splitlines() or [""])[0]
        if self._instead is None:
            self._instead = self._otherwise()
        results: List[Any] = self._instead.run_checked(feed)
        return results

    def _otherwise(self) -> Any:
        try:
            return _reference(self._model)
        except UnsupportedError as error:  # an operator that only onnxruntime knows
            raise UnsupportedError(self._refused or error.reason, hint=error.hint) from error

    def _run(self, feed: Feed) -> List[Any]:
        from onnx_compat.ir.dtypes import from_public
        from onnx_compat.tracing.values import EMPTY_OPTIONAL

        def checked(value: Any) -> Any:
            if value is None:
                return EMPTY_OPTIONAL
            if isinstance(value, dict):
                return MapItems.of(value, "a map")
            return [checked(item) for item in value] if isinstance(value, list) else from_public(value)

        results = self._session.run(self._names, {name: to_public_value(value) for name, value in feed.items()})
        return [checked(value) for value in results]
