"""`prepare` and `run`: the functions of the library that run a model on a shim."""

from typing import Optional

from onnx_compat.boundary import typed_errors
from onnx_compat.discovery import selection
from onnx_compat.errors import OnnxCompatError
from onnx_compat.execution.outputs import Outputs
from onnx_compat.execution.runnable import Inputs, Runnable
from onnx_compat.model import Model, load
from onnx_compat.model.loading import ModelSource

__all__ = ["prepare", "run"]


@typed_errors
def prepare(
    model: ModelSource,
    shim: Optional[str] = None,
    device: Optional[str] = None,
    natives: bool = True,
    fallback: bool = True,
) -> Runnable:
    """Prepare a model to run on a shim.

    Args:
        model: A path, bytes, a ModelProto or a Model.
        shim: The name of the shim: "tf2", "tf1", "keras", "tflite", "onnx" or "reference". None: the shim that the
            variable ONNX_COMPAT_SHIM names, else that of an imported framework, else the first that works.
        device: The device of the framework: "cpu", "gpu", "cuda:1". None lets the framework choose.
        natives: Whether methods of the shim for whole operators are used; False uses composed meanings only.
        fallback: Whether nodes that the shim cannot do may run outside the framework: in onnxruntime or the reference.

    Returns:
        The prepared model.

    Raises:
        ShimError: The shim is not installed or does not work, or the device is absent; the error lists the devices.
        InvalidModelError: The model is not valid.
        UnsupportedError: A node needs a fallback and `fallback` is False, or the model can be neither compiled nor cut.

    Examples:
        >>> runnable = onnx_compat.prepare("digits.onnx", shim="reference")
        >>> runnable.run({"image": np.zeros((2, 1, 28, 28), np.float32)})["scores"].shape
        (2, 10)
    """
    if not isinstance(model, Model):
        model = load(model)
    decision = selection.decide(shim)
    try:
        return Runnable(model, selection.find(decision.name), device, natives, fallback)
    except OnnxCompatError as error:
        raise error.at(shim=decision.name) from error.__cause__


@typed_errors
def run(model: ModelSource, inputs: Inputs, shim: Optional[str] = None, device: Optional[str] = None) -> Outputs:
    """Prepare a model and run it once.

    Args:
        model: A path, bytes, a ModelProto or a Model.
        inputs: A dict by name, a sequence in the order of the model, or the array of the only input.
        shim: The name of the shim; see `prepare`.
        device: The device of the framework; see `prepare`.

    Returns:
        The outputs, by index and by name.

    Raises:
        OnnxCompatError: As `prepare` and `Runnable.run`.

    Examples:
        >>> onnx_compat.run("digits.onnx", [np.zeros((1, 1, 28, 28), np.float32)], shim="reference")["scores"].shape
        (1, 10)
    """
    return prepare(model, shim, device).run(inputs)
