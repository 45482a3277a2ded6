"""Run the oracle of a verification: onnxruntime if it is installed and can run the model, else the reference."""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Union

import numpy as np

from onnx_compat.errors import MissingDependencyError, UnsupportedError
from onnx_compat.execution.onnxruntime_child import run_in_child, session_options
from onnx_compat.execution.soundness import is_sound
from onnx_compat.model import Model

__all__ = ["ONNXRUNTIME", "REFERENCE", "Answer", "optimised_outputs", "run_oracle"]

ONNXRUNTIME = "onnxruntime"
REFERENCE = "reference"


class Answer(NamedTuple):
    """The answer of the oracle: its name, the expected outputs, and notes on the choice of the oracle.

    - oracle: "onnxruntime 1.31.1", "shim reference".
    - outputs: in graph order.
    - optimised: whether onnxruntime ran with its optimisations. None for a shim.
    - fallback_reason: why onnxruntime could not run the model, which ran on the reference instead; else "".
    """

    oracle: str
    outputs: List[Any]
    notes: List[str]
    optimised: Optional[bool] = None
    fallback_reason: str = ""


def run_oracle(
    model: Model, inputs: Dict[str, Any], oracle: Optional[str], optimised: bool = True, in_child: bool = False
) -> Answer:
    """Run the model on an oracle, and return the oracle's answer. `oracle`: "onnxruntime", the name of a shim, or None.

    - None: onnxruntime, or the reference if onnxruntime cannot be imported or cannot run the model. A note of the
      answer then says why. Raises the errors of the reference.
    - "onnxruntime": raises MissingDependencyError if it cannot be imported, UnsupportedError if it cannot run the
      model.
    - The name of a shim: raises the errors of `prepare` and of `Runnable.run`.

    `optimised`: False lets onnxruntime run without its optimisations. If it cannot run the model without them, it runs
    with them, and a note of the answer says why. A shim ignores `optimised`.

    `in_child`: whether onnxruntime runs in a child process, which frees all memory when it ends.
    """
    if oracle is not None and oracle != ONNXRUNTIME:
        return Answer("shim " + oracle, _run_on_shim(model, inputs, oracle), [])
    notes: List[str] = []
    try:
        if not optimised:
            try:
                return _run_on_onnxruntime(model, inputs, False, in_child)
            except UnsupportedError as error:
                notes.append("onnxruntime ran with its optimisations, because without them %s" % error.reason)
        answer = _run_on_onnxruntime(model, inputs, True, in_child)
        return answer._replace(notes=notes)
    except (MissingDependencyError, UnsupportedError) as error:
        if oracle is not None:
            raise
        note = "the oracle is the reference, because %s" % error.reason
        return Answer("shim " + REFERENCE, _run_on_shim(model, inputs, REFERENCE), [note], None, error.reason)


def optimised_outputs(model: Model, inputs: Dict[str, Any], answer: Answer) -> Optional[List[Any]]:
    """Return the outputs of onnxruntime with its optimisations, if `answer` is that of a run without them; else None.

    Return None too if onnxruntime cannot run the model with its optimisations.
    """
    if answer.optimised is not False:
        return None
    try:
        return _run_on_onnxruntime(model, inputs).outputs
    except UnsupportedError:
        return None


def _run_on_shim(model: Model, inputs: Dict[str, Any], shim: str) -> List[Any]:
    """Run the model on a shim, and return the outputs in graph order."""
    from onnx_compat import prepare

    return list(prepare(model, shim=shim).run(inputs))


def _run_on_onnxruntime(model: Model, inputs: Dict[str, Any], optimised: bool = True, in_child: bool = False) -> Answer:
    """Return the answer of onnxruntime on the CPU. Inputs that the session does not have are ignored.

    The model runs in a child process with `in_child`, if it is not sound (see `is_sound`), or if an input has no
    elements. If no child process can be started, it runs in this process. `optimised`: with the graph optimisations of
    onnxruntime.

    Raise MissingDependencyError if onnxruntime cannot be imported, UnsupportedError for any failure of onnxruntime.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingDependencyError(
            "onnxruntime is not installed" if isinstance(error, ModuleNotFoundError) else str(error),
            hint="%s, or verify against the reference"
            % (
                "pip install onnxruntime"
                if isinstance(error, ModuleNotFoundError)
                else "pip install --force-reinstall onnxruntime"
            ),
        ) from error
    has_empty_input = any(isinstance(value, np.ndarray) and not value.size for value in inputs.values())
    if in_child or has_empty_input or not is_sound(model):
        try:
            result = run_in_child(_session_source(model.source), inputs, optimised=optimised)
        except UnsupportedError as error:
            reason = "onnxruntime %s cannot run this model (%s)" % (onnxruntime.__version__, error.reason)
            raise UnsupportedError(reason, hint="verify against the reference") from error
        if result is not None:
            return Answer("%s %s" % (ONNXRUNTIME, onnxruntime.__version__), result.outputs, [], optimised)
    options = session_options(onnxruntime, optimised)
    try:
        session = onnxruntime.InferenceSession(
            _session_source(model.source), options, providers=["CPUExecutionProvider"]
        )
        names = [spec.name for spec in session.get_inputs()]
        outputs = session.run(None, {name: inputs[name] for name in names if name in inputs})
    except Exception as error:  # the errors of onnxruntime have no base class but Exception
        raise UnsupportedError(
            "onnxruntime %s cannot run this model (%s)" % (onnxruntime.__version__, _first_line(error)),
            hint="verify against the reference",
        ) from error
    return Answer("%s %s" % (ONNXRUNTIME, onnxruntime.__version__), list(outputs), [], optimised)


def _session_source(source: object) -> Union[str, bytes]:
    """Return the source of a model in a form that onnxruntime accepts.

    - A ModelProto: its serialised bytes.
    - Bytes: the same bytes.
    - A path: the path as text. onnxruntime finds external data relative to this path.
    """
    serialize: Optional[Callable[[], bytes]] = getattr(source, "SerializeToString", None)
    if serialize is not None:
        return serialize()
    return source if isinstance(source, bytes) else str(source)


def _first_line(error: Exception) -> str:
    """Return the first line of an error's message; the name of the error's class if the message is empty."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
