"""The class of the keras shim. Its methods import Keras and the rest of the package when they are called."""

import importlib
import os
from contextlib import contextmanager
from typing import Iterator, Optional, Sequence, Tuple

from onnx_compat.shim import Compiled, Emitter, Port, Preview, Probe, Program, Shim
from onnx_compat_keras.back_end_choice import choose_back_end

__all__ = ["SHIM", "KerasShim"]


class KerasShim(Shim):
    """The shim of Keras 3: compiles for Keras' back end, which the user chooses, and exports `.keras` files."""

    name = "keras"
    modules = ("keras",)
    formats = {"keras": (".keras", "Keras model of stock layers")}

    @property
    def threads_start(self) -> str:  # type: ignore[override]  # the back end decides, a class attribute cannot
        """The step that starts threads of the back end: "compile" on TensorFlow, else "run".

        TensorFlow starts threads when it traces a function, JAX and torch when they first compute.
        """
        from onnx_compat_keras.features import back_end

        return "compile" if back_end() == "tensorflow" else "run"

    def probe(self) -> Probe:
        choose_back_end()
        try:
            keras = importlib.import_module("keras")
        except Exception as error:  # noqa: BLE001 (a broken installation or back end raises any error)
            chosen = os.environ.get("KERAS_BACKEND")
            reason = "Keras cannot be imported%s: %s: %s" % (
                " on the back end '%s'" % chosen if chosen else "",
                type(error).__name__,
                error,
            )
            return Probe(False, reason, "keras")
        version = str(getattr(keras, "__version__", "?"))
        if not hasattr(keras, "ops"):
            return Probe(False, "this is Keras %s, without keras.ops: Keras 3 is needed" % version, "keras", version)
        from onnx_compat_keras.features import features, find_obstacle

        obstacle = find_obstacle()
        if obstacle:
            return Probe(False, obstacle, "keras", version)
        report = features()
        reason = "Keras on %s %s" % (report["back_end"], report["back_end_version"])
        return Probe(True, reason, "keras", version, report)

    def emitter(self) -> Emitter:
        from onnx_compat_keras.emitted_program import emitter

        return emitter()

    @contextmanager
    def scratch(self) -> Iterator[Emitter]:
        from onnx_compat_keras.emitted_program import open_scratch

        with open_scratch() as emitter:
            yield emitter

    def executor(self, device: Optional[str] = None) -> Optional[Emitter]:
        from onnx_compat_keras.emitted_program import executor

        return executor(device)

    def devices(self) -> Sequence[str]:
        from onnx_compat_keras.devices import devices

        return devices()

    def compile(self, program: Program, device: Optional[str] = None) -> Compiled:
        from onnx_compat_keras.compiling import compile_program

        return compile_program(program, self.resolve_device(device))

    def export(self, program: Program, path: str, form: str) -> None:
        from onnx_compat_keras.saving import save

        save(program, path)

    def preview(self, program: Program, form: str) -> Preview:
        from onnx_compat_keras.saving import preview

        return preview(program)

    def load_converted(self, path: str, form: str) -> Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]:
        from onnx_compat_keras.saving import load

        return load(path)


SHIM = KerasShim()
