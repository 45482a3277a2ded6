"""What an emitter over values could do, judged by the types alone: nothing is executed."""

from typing import Any, Callable, Optional

import numpy as np

from onnx_compat.ir import Node, Spec
from onnx_compat.ir.dtypes import DType
from onnx_compat.primitives import PRIMITIVES

__all__ = ["TypeEmitter"]


class TypeEmitter:
    """Stands in for an emitter whose handles are values: it refuses a primitive that the emitter has no method for, and
    a dtype of which the emitter cannot hold a constant; everything else is taken to work.
    """

    concrete = False
    node: Node

    def __init__(self, emitter: Any) -> None:
        self._emitter = emitter
        self.index_dtype = emitter.index_dtype

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in PRIMITIVES and not hasattr(self._emitter, name):
            raise AttributeError(name)
        return lambda *args, **params: tuple(self.placeholder(ref.spec) for ref in self.node.outputs)

    def placeholder(self, spec: Spec) -> Any:
        self._emitter.constant(np.zeros((), spec.dtype.numpy), spec.dtype)
        return object()

    def constant(self, array: np.ndarray, dtype: DType) -> Any:
        return self.placeholder(Spec(dtype, ()))

    def finish(self, handle: Any, dtype: DType) -> Any:
        return handle

    def dim(self, handle: Any, axis: int) -> Any:
        return object()

    def element(self, handle: Any, index: Optional[int]) -> Any:
        return object()

    def stack(self, scalars: Any) -> Any:
        return object()
