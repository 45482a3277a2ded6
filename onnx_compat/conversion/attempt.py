"""Attempt to put a whole model in a format. `convert` and `support` share this code, so that they never disagree."""

from typing import Any, Callable, Dict, Optional, Sequence

from onnx_compat.conversion.open_inputs import OpenInputError, check_inputs_definite
from onnx_compat.errors import ConversionError, NeedsKnownError, OnnxCompatError, UnsupportedError
from onnx_compat.execution.plan import Specialisation, TracedModel, trace_model
from onnx_compat.execution.support import declared_structures
from onnx_compat.model import Model
from onnx_compat.shim.interface import Shim
from onnx_compat.tracing.interpreter import Interpreter

__all__ = ["Emit", "attempt_whole", "emit_model", "error_location"]

#: Function (traced model): writes its program to a file, or only builds the file.
Emit = Callable[[TracedModel], None]


def attempt_whole(
    model: Model, writer: Shim, emit: Emit, owns_model: bool = False, channels_last: Sequence[str] = ()
) -> Optional[OnnxCompatError]:
    """Put the model in a single file or folder by `emit`. Return None if the format holds the model.

    If the format cannot hold the model, return the UnsupportedError or ConversionError. Any other error is raised. The
    other arguments are those of `emit_model`.
    """
    try:
        check_inputs_definite(model.graph, writer)
        emit_model(model, writer, emit, owns_model, channels_last)
    except NeedsKnownError as error:
        names = sorted(error.values | error.sizes)
        hint = "fix %s with `shapes` or `values` (--shape, --value)" % ", ".join(names) if names else error.hint
        refusal = ConversionError(
            "a file needs a value that is known before it runs: " + error.reason,
            hint=hint,
            **error_location(error, writer),
        )
        refusal.__cause__ = error
        return refusal
    except (UnsupportedError, OpenInputError) as error:
        return error.at(shim=writer.name)
    except OnnxCompatError as error:
        raise error.at(shim=writer.name) from error.__cause__
    return None


def emit_model(
    model: Model, writer: Shim, emit: Emit, owns_model: bool = False, channels_last: Sequence[str] = ()
) -> None:
    """Trace a model for a file, and call `emit` with the traced model. Raises the errors of the trace and of `emit`.

    - owns_model: whether the trace may release the weights of the model.
    - channels_last: the names of the inputs and outputs with their channels last.
    """
    emitter = writer.emitter()
    interpreter = Interpreter(emitter.natives())
    structures = declared_structures(model.graph)
    fixed = Specialisation(channels_last=channels_last)
    emit(trace_model(model, emitter, structures, fixed, interpreter, whole=True, own=owns_model))


def error_location(error: OnnxCompatError, writer: Shim) -> Dict[str, Any]:
    """Return keyword arguments for a new error: node, operator and opset of `error`, and `writer` as its shim."""
    return {"node": error.node, "operator": error.operator, "opset": error.opset, "shim": writer.name}
