"""Trying out what can be emitted, where there is no graph to build in: nothing is computed, only refusals are asked for.

On JAX and torch every primitive is there, for every type that the back end has. What it refuses, it refuses for the
types and ranks that the node says; so a node and its specs are all that is looked at.
"""

from typing import Any, List, Type

from onnx_compat.primitives import PRIMITIVES
from onnx_compat.shim import Emitter, Spec, declared_natives
from onnx_compat_keras.arrays import Arrays

__all__ = ["scratch"]


def scratch(arrays: Arrays) -> Emitter:
    """An emitter like this one, whose handles are types, and which computes nothing."""
    kind: Type[Any] = type(arrays)
    names = [*PRIMITIVES, *(native.method for native in declared_natives(arrays).values())]
    made: Any = type(
        "Scratch", (_Dry, kind), {name: _dry(name, getattr(kind, name)) for name in names if hasattr(kind, name)}
    )
    return made.__new__(made)  # type: ignore[no-any-return]


class _Dry:
    concrete = False

    def constant(self, array: Any, dtype: Any) -> Spec:
        return Spec(dtype, tuple(array.shape))

    def placeholder(self, spec: Spec) -> Spec:
        return spec

    def dim(self, handle: Spec, axis: int) -> Any:
        return handle.shape[axis] if isinstance(handle.shape[axis], int) else handle

    def element(self, handle: Spec, index: Any) -> Spec:
        return handle

    def stack(self, scalars: List[Any]) -> Spec:
        return Spec(Emitter.index_dtype, (len(scalars),))

    def finish(self, handle: Any, dtype: Any) -> Any:
        return handle


def _dry(name: str, method: Any) -> Any:
    def tried(self: Any, *args: Any, **_: Any) -> Any:
        if self.node.primitive != name:  # sizes are computed with it
            return args[0] if args else None
        refusal = self.refusal(self.node)
        if refusal is not None:
            raise refusal
        return tuple(output.spec for output in self.node.outputs)

    tried.native = getattr(method, "native", None)  # type: ignore[attr-defined]
    return tried
