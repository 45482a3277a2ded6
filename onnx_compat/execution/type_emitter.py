"""Type emitter: check by dtype alone which primitives an executing emitter supports, without computing values."""

from typing import Any, Mapping, Optional, Sequence

import numpy as np

from onnx_compat.ir import Spec
from onnx_compat.ir.dtypes import DType
from onnx_compat.shim.interface import Emitter

__all__ = ["TypeEmitter"]

#: A value of the emitter. Here a placeholder: no handle is ever read.
Handle = Any


class TypeEmitter(Emitter):
    """A substitute for the emitter of a framework that checks a program by its dtypes, without running it.

    `has` is False for a primitive that the emitter lacks. `apply`, `constant` and `placeholder` raise the emitter's
    error for a dtype that the emitter cannot hold. Shapes are not checked. The handles are objects without a value.
    """

    concrete = False

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self.index_dtype = emitter.index_dtype

    def has(self, primitive: str) -> bool:
        return self._emitter.has(primitive)

    def apply(self, primitive: str, args: Sequence[Any], params: Mapping[str, Any]) -> Any:
        return tuple(self.placeholder(ref.spec) for ref in self.node.outputs)

    def placeholder(self, spec: Spec) -> Handle:
        """Return a handle without a value, whatever the shape.

        Raises the error of the emitter if the emitter cannot hold the dtype.
        """
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
