"""Devices of the back end that Keras runs on, by the names that the core uses; and Keras models that stay on a device."""

from contextlib import nullcontext
from typing import Any, Callable, ContextManager, List, Optional

import keras

from onnx_compat_keras.features import back_end, wide

__all__ = ["build_on", "devices", "jax_device", "scope", "torch_device"]


def devices() -> List[str]:
    """Names like "cpu:0" of the devices of the back end here, logical devices included."""
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

    found: List[str] = []
    for kind in dict.fromkeys(["cpu", "gpu", "tpu", jax.default_backend()]):
        try:
            listed = jax.local_devices(backend=kind)
        except RuntimeError:  # JAX has no such back end here
            continue
        found += ["%s:%d" % (kind, number) for number in range(len(listed))]
    return found


def _torch_devices() -> List[str]:
    """Of torch. The device "meta" is none of them: its tensors have no values, so nothing can run there."""
    import torch

    found = ["cpu:0"] + ["gpu:%d" % number for number in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append("mps:0")
    if hasattr(torch, "xpu") and torch.xpu.is_available():
        found += ["xpu:%d" % number for number in range(torch.xpu.device_count())]
    return found


def jax_device(device: Optional[str]) -> Any:
    """The device of JAX that a name of `devices()` means; None leaves the choice to JAX."""
    if device is None:
        return None
    import jax

    kind, _, number = device.partition(":")
    return jax.local_devices(backend=kind)[int(number)]


def torch_device(device: Optional[str]) -> Any:
    """The device of torch that a name of `devices()` means; by default where Keras puts its variables."""
    import torch

    if device is None:
        return keras.ops.zeros(()).device
    # torch writes the only CPU without a number, and Keras compares devices by their text.
    return torch.device(device.replace("cpu:0", "cpu").replace("gpu", "cuda"))


def scope(device: Optional[str]) -> ContextManager[Any]:
    """Context in which Keras creates variables, and computes, on a device of `devices()`."""
    if device is None:
        return nullcontext()
    name = back_end()
    if name == "jax":
        import jax

        return jax.default_device(jax_device(device))  # type: ignore[no-any-return]
    if name == "torch":
        return keras.device(str(torch_device(device)))  # type: ignore[no-any-return]
    import tensorflow as tf
    from onnx_compat_tensorflow.devices import placement

    return placement(tf, device)


def build_on(device: Optional[str], build: Callable[[], Any]) -> Any:
    """Build a Keras model whose variables are on the device, and whose calls compute there."""
    with scope(device):
        model = build()
    if device is None:
        return model
    if back_end() == "jax":
        _commit(model, jax_device(device))
    call = model.call

    def call_on_device(inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if _infers_shapes(inputs):
            return call(inputs, *args, **kwargs)
        with scope(device):
            if back_end() == "torch":  # Keras has put the inputs on its default device by now
                inputs = keras.tree.map_structure(keras.ops.convert_to_tensor, inputs)
            return call(inputs, *args, **kwargs)

    model.call = call_on_device
    return model


def _commit(model: Any, device: Any) -> None:
    """Commit the variables to a device of JAX: what is compiled with them, as by `fit`, then runs there."""
    import jax

    with wide():
        for variable in model.variables:
            variable.assign(jax.device_put(variable.value, device))


def _infers_shapes(inputs: Any) -> bool:
    """Whether Keras infers shapes: on torch it computes with tensors on the device "meta"."""
    return back_end() == "torch" and any(getattr(tensor, "is_meta", False) for tensor in keras.tree.flatten(inputs))
