"""Type emitter: checks by dtype alone which primitives an executing emitter supports. It computes nothing."""

from typing import Any, Callable, Optional, Sequence

import numpy as np

from onnx_compat.ir import Node, Spec
from onnx_compat.ir.dtypes import DType
from onnx_compat.primitives import PRIMITIVES
from onnx_compat.shim.interface import Emitter

__all__ = ["TypeEmitter"]

#: A value of the emitter. Here a placeholder: no handle is ever read.
Handle = Any


class TypeEmitter:
    """Replaces an emitter whose handles are values, where a program is checked and not run.

    It refuses a primitive for which the emitter has no method, and a dtype of which the emitter holds no constant. It
    accepts everything else.
    """

    concrete = False
    node: Node

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self.index_dtype = emitter.index_dtype

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in PRIMITIVES and not hasattr(self._emitter, name):
            raise AttributeError(name)
        return lambda *args, **params: tuple(self.placeholder(ref.spec) for ref in self.node.outputs)

    def placeholder(self, spec: Spec) -> Handle:
        """Return a handle for a value of this dtype. The error of the emitter passes where it has no such dtype."""
        self._emitter.constant(np.zeros((), spec.dtype.numpy), spec.dtype)
        return object()

    def constant(self, array: np.ndarray, dtype: DType) -> Handle:
        return self.placeholder(Spec(dtype, ()))

    def finish(self, handle: Handle, dtype: DType) -> Handle:
        return handle

    def dim(self, handle: Handle, axis: int) -> Handle:
        return object()

    def element(self, handle: Handle, index: Optional[int]) -> Handle:
        return object()

    def stack(self, scalars: Sequence[Handle]) -> Handle:
        return object()
