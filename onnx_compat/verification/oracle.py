"""Who is asked for the right answer: onnxruntime where it is installed and can run the model, else the reference."""

from typing import Any, Dict, List, NamedTuple, Optional

from onnx_compat.errors import MissingDependencyError, UnsupportedError

__all__ = ["Answer", "ask"]

ONNXRUNTIME = "onnxruntime"
REFERENCE = "reference"


class Answer(NamedTuple):
    oracle: str
    outputs: List[Any]  # in graph order
    notes: List[str]


def ask(model: Any, inputs: Dict[str, Any], oracle: Optional[str]) -> Answer:
    """What `oracle` (onnxruntime or the name of a shim) says; None takes onnxruntime, or the reference in its stead."""
    if oracle is not None and oracle != ONNXRUNTIME:
        return Answer("shim " + oracle, _by_shim(model, inputs, oracle), [])
    try:
        return _by_onnxruntime(model, inputs)
    except (MissingDependencyError, UnsupportedError) as error:
        if oracle is not None:
            raise
        note = "the oracle is the reference, because %s" % error.reason
        return Answer("shim " + REFERENCE, _by_shim(model, inputs, REFERENCE), [note])


def _by_shim(model: Any, inputs: Dict[str, Any], shim: str) -> List[Any]:
    from onnx_compat import prepare

    return list(prepare(model, shim=shim).run(inputs))


def _by_onnxruntime(model: Any, inputs: Dict[str, Any]) -> Answer:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingDependencyError(
            "onnxruntime is not installed here" if isinstance(error, ModuleNotFoundError) else str(error),
            hint="pip install onnxruntime, or verify against the reference",
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # a failure reaches the caller as an exception; standard error stays clean
    try:
        session = onnxruntime.InferenceSession(_readable(model.source), options, providers=["CPUExecutionProvider"])
        names = [spec.name for spec in session.get_inputs()]
        outputs = session.run(None, {name: inputs[name] for name in names if name in inputs})
    except Exception as error:  # each of its errors is a direct child of Exception
        raise UnsupportedError(
            "onnxruntime %s cannot run this model (%s)" % (onnxruntime.__version__, _first_line(error)),
            hint="verify against the reference",
        ) from error
    return Answer("%s %s" % (ONNXRUNTIME, onnxruntime.__version__), list(outputs), [])


def _readable(source: Any) -> Any:
    """A path stays a path, so that external data is found beside it; a proto is passed as bytes."""
    if hasattr(source, "SerializeToString"):
        return source.SerializeToString()
    return source if isinstance(source, bytes) else str(source)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
