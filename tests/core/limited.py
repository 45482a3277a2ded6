"""A shim that lacks a primitive of the reference, to test fallbacks and errors; and a model that needs the primitive."""

from typing import Any, Optional, Sequence

import numpy as np
from building import FLOAT, model, node, value

from onnx_compat.discovery import selection
from onnx_compat.errors import UnsupportedError
from onnx_compat.reference import Reference
from onnx_compat.reference.shim import ReferenceShim, Replayed

X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)


def mish(dtype: int = FLOAT, opset: int = 18) -> Any:
    """Return a model with an operator of opset 18 that needs `exp`, which the shim `limited` lacks."""
    nodes = [node("Neg", ["x"], ["n"], name="neg"), node("Mish", ["n"], ["y"], name="mish")]
    return model(nodes, [value("x", ["n", 3], dtype)], [value("y", None, dtype)], opset=opset)


class LimitedEmitter(Reference):
    """The reference without the primitive `exp`."""

    def exp(self, x: Any) -> Any:
        raise UnsupportedError("this framework has no exponential")


class _Compiled(Replayed):
    def run(self, arrays: Sequence[np.ndarray]) -> Any:
        from onnx_compat.shim.emission import emit

        return [np.array(output) for output in emit(self.program.region, LimitedEmitter(), arrays)]


class LimitedShim(ReferenceShim):
    name = "limited"

    def emitter(self) -> Any:
        return LimitedEmitter()

    def executor(self, device: Optional[str] = None) -> Optional[Any]:
        return None

    def scratch(self) -> Any:
        from contextlib import contextmanager

        class Symbolic(LimitedEmitter):
            """A symbolic emitter for trials: its values have shapes and no numbers."""

            concrete = False

            def __getattribute__(self, name: str) -> Any:
                from onnx_compat.primitives import PRIMITIVES

                if name in PRIMITIVES and name != "exp":
                    return lambda *args, **params: tuple(None for _ in self.node.outputs)
                return super().__getattribute__(name)

            def finish(self, handle: Any, dtype: Any) -> Any:
                return handle

        @contextmanager
        def scratch() -> Any:
            yield Symbolic()

        return scratch()

    def compile(self, program: Any, device: Optional[str] = None) -> Any:
        with self.scratch() as emitter:
            from onnx_compat.shim.emission import emit

            emit(program.region, emitter, [None] * len(program.inputs))
        return _Compiled(program)


def install(monkeypatch: Any) -> None:
    """Install the shim "limited" for one test."""
    monkeypatch.setitem(selection._LOADED, "limited", LimitedShim())
