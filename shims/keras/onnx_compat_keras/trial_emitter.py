"""An emitter for JAX and torch that computes nothing: it raises UnsupportedError for unsupported nodes.

On JAX and torch, support for a node depends on its dtypes and ranks only. So the handles of this emitter are specs (dtype and
shape), without values.
"""

from typing import Any, Callable, List, Optional, Type

import numpy as np

from onnx_compat.primitives import PRIMITIVES
from onnx_compat.shim import DType, Emitter, Spec, declared_natives
from onnx_compat_keras.arrays import Arrays
from onnx_compat_keras.framework_types import Scalar

__all__ = ["trial_emitter"]


def trial_emitter(arrays: Arrays) -> Emitter:
    """Return an emitter whose methods only check that their node is supported. It computes no values.

    Its class is a subclass of `type(arrays)`, and its handles are specs. The method of the current node's primitive
    returns a tuple of the specs of the node's results. It raises UnsupportedError if the node is not supported.

    A call of another primitive's method, as for a size, is not checked. It returns its first argument, or None without
    arguments.
    """
    kind: Type[Any] = type(arrays)
    names = [*PRIMITIVES, *(native.method for native in declared_natives(arrays).values())]
    trial_class: Type[Any] = type(
        "Scratch",
        (_TrialMethods, kind),
        {name: _check_only(name, getattr(kind, name)) for name in names if hasattr(kind, name)},
    )
    # Without __init__, which would allocate on a device.
    emitter: Emitter = object.__new__(trial_class)
    return emitter


class _TrialMethods:
    """Emitter methods for handles that are specs: they replace the methods of `Arrays` that read arrays."""

    concrete = False

    def constant(self, array: np.ndarray, dtype: DType) -> Spec:
        return Spec(dtype, tuple(array.shape))

    def placeholder(self, spec: Spec) -> Spec:
        return spec

    def dim(self, handle: Spec, axis: int) -> Scalar:
        return handle.shape[axis] if isinstance(handle.shape[axis], int) else handle

    def element(self, handle: Spec, index: Optional[int]) -> Spec:
        return handle

    def stack(self, scalars: List[Any]) -> Spec:
        return Spec(Emitter.index_dtype, (len(scalars),))

    def finish(self, handle: Spec, dtype: DType) -> Spec:
        return handle


def _check_only(name: str, method: Callable[..., Any]) -> Any:
    """Return an emitter method that replaces `method`, the method `name`: it only checks that its node is supported.

    `trial_emitter` describes what it returns and raises. A mark of @native on `method` is kept.
    """

    def check_refusal(self: Any, *args: Any, **_: object) -> Any:
        if self.node.primitive != name:  # a call that computes a size
            return args[0] if args else None
        refusal = self.refusal(self.node)
        if refusal is not None:
            raise refusal
        return tuple(output.spec for output in self.node.outputs)

    wrapper: Any = check_refusal
    wrapper.native = getattr(method, "native", None)
    return wrapper
