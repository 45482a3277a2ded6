"""List the devices of Keras' back end by the names that the core uses ("cpu:0"), and build Keras models on a device."""

from contextlib import nullcontext
from typing import Any, Callable, ContextManager, List, Optional, Sequence

import keras

from onnx_compat_keras.features import back_end, wide
from onnx_compat_keras.framework_types import Array, BackEndDevice, KerasModel

__all__ = ["build_on", "devices", "jax_device", "scope", "torch_device"]


def devices() -> List[str]:
    """Return the names of the back end's devices, such as "cpu:0" and "gpu:1".

    On TensorFlow these are the logical devices. On JAX they are the devices of this process.
    """
    name = back_end()
    if name == "jax":
        return _jax_devices()
    if name == "torch":
        return _torch_devices()
    import tensorflow as tf
    from onnx_compat_tensorflow.devices import logical_devices

    return logical_devices(tf)


def _jax_devices() -> List[str]:
    import jax

    names: List[str] = []
    for kind in dict.fromkeys(["cpu", "gpu", "tpu", jax.default_backend()]):
        try:
            listed = jax.local_devices(backend=kind)
        except RuntimeError:  # JAX raises it for a kind that this machine lacks
            continue
        names += ["%s:%d" % (kind, number) for number in range(len(listed))]
    return names


def _torch_devices() -> List[str]:
    """Return the core's names of the devices that torch can use: "cpu:0", then "gpu:N" (CUDA), "mps:0", "xpu:N"."""
    import torch

    names = ["cpu:0"] + ["gpu:%d" % number for number in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        names.append("mps:0")
    if hasattr(torch, "xpu") and torch.xpu.is_available():
        names += ["xpu:%d" % number for number in range(torch.xpu.device_count())]
    return names


def jax_device(device: Optional[str]) -> BackEndDevice:
    """Return the jax.Device with a name of `devices()`. Returns None for None: JAX then chooses the device."""
    if device is None:
        return None
    import jax

    kind, _, number = device.partition(":")
    return jax.local_devices(backend=kind)[int(number)]


def torch_device(device: Optional[str]) -> BackEndDevice:
    """Return the torch.device with a name of `devices()`.

    For None, return the device on which Keras creates its variables.
    """
    import torch

    if device is None:
        return keras.ops.zeros(()).device
    # torch writes the only CPU without a number, and Keras compares devices by their text.
    return torch.device(device.replace("cpu:0", "cpu").replace("gpu", "cuda"))


def scope(device: Optional[str]) -> ContextManager[Any]:
    """Return a context manager in which Keras creates its variables and computes on a device.

    For None, the context manager does nothing.
    """
    if device is None:
        return nullcontext()
    name = back_end()
    if name == "jax":
        import jax

        context: ContextManager[Any] = jax.default_device(jax_device(device))
        return context
    if name == "torch":
        keras_context: ContextManager[Any] = keras.device(str(torch_device(device)))
        return keras_context
    import tensorflow as tf
    from onnx_compat_tensorflow.devices import placement

    return placement(tf, device)


def build_on(device: Optional[str], build: Callable[[], Any]) -> KerasModel:
    """Return the Keras model that `build()` creates, with its variables on `device`.

    `call` of the model is replaced, so that it computes on this device. On torch, `call` also moves the inputs to the
    device. If `device` has the value None, the model is returned unchanged.
    """
    with scope(device):
        model = build()
    if device is None:
        return model
    if back_end() == "jax":
        _commit(model, jax_device(device))
    call = model.call

    def call_on_device(inputs: Sequence[Array], *args: Any, **kwargs: Any) -> Any:
        if _infers_shapes(inputs):
            return call(inputs, *args, **kwargs)
        with scope(device):
            if back_end() == "torch":  # Keras has moved the inputs to its default device
                inputs = keras.tree.map_structure(keras.ops.convert_to_tensor, inputs)
            return call(inputs, *args, **kwargs)

    model.call = call_on_device
    return model


def _commit(model: KerasModel, device: BackEndDevice) -> None:
    """Copy the variables of a model to a JAX device, in place.

    JAX then runs functions of the variables, such as those of `model.fit`, on this device.
    """
    import jax

    with wide():
        for variable in model.variables:
            variable.assign(jax.device_put(variable.value, device))


def _infers_shapes(inputs: Sequence[Array]) -> bool:
    """Whether Keras on torch calls a model only to infer shapes: a tensor of `inputs` is then on the device "meta".

    Returns False on other back ends.
    """
    return back_end() == "torch" and any(getattr(tensor, "is_meta", False) for tensor in keras.tree.flatten(inputs))
