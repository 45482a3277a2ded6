"""Run a file once after it was written, if only a run shows whether the runtime accepts it."""

from typing import Any, Callable, Optional

from onnx_compat.errors import ConversionError, OnnxCompatError
from onnx_compat.model import Model
from onnx_compat.shim.interface import Shim

__all__ = ["try_written_file"]


def try_written_file(writer: Shim, path: str, file_format: str, load_model: Callable[[], Model]) -> None:
    """Run the file at `path` with generated inputs, if the shim asks for a run and every input has known sizes.

    `load_model` is a function that returns the model of the file. It is called only if the run fails.

    Raises ConversionError if the run fails, and the reference can run the model with generated inputs. If the reference
    fails too, nothing is raised: the generated inputs may not fit the model. Raises the errors of loading the file.
    """
    if not writer.needs_run(path, file_format):
        return
    error = _run_file(writer, path, file_format)
    if error is not None and _runs_on_reference(load_model()):
        raise ConversionError(
            "the written file does not run: " + error.reason,
            hint="this is a defect of onnx-compat: please report it with the model. allow_fallback=True"
            " (--allow-fallback) with another format, or fixed sizes (--shape), may avoid it",
            shim=writer.name,
        ) from error


def _run_file(writer: Shim, path: str, file_format: str) -> Optional[OnnxCompatError]:
    """Run a file with generated inputs, if all its inputs have known sizes. Return the OnnxCompatError of the run.

    Return None if the run succeeds, and for a file that is not run.
    """
    from onnx_compat.verification.converted_file import ConvertedFile
    from onnx_compat.verification.generate import generate

    file = ConvertedFile(writer, path, lambda: writer.load_converted(path, file_format))
    if any(not isinstance(size, int) for port in file.input_ports for size in port.shape):
        return None
    try:
        file.run(generate(file.inputs))
    except OnnxCompatError as error:
        return error
    return None


def _runs_on_reference(model: Model) -> bool:
    """Return whether the reference runs the model with generated inputs, without an OnnxCompatError."""
    from onnx_compat.execution.runnable import Runnable
    from onnx_compat.reference.shim import SHIM
    from onnx_compat.verification.generate import generate

    inputs: Any = model.graph.required
    try:
        Runnable(model, SHIM, None, natives=False, fallback=False).run(generate(inputs))
    except OnnxCompatError:
        return False
    return True
