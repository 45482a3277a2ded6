"""Type emitter: checks by dtype alone which primitives an executing emitter supports. It computes nothing."""

from typing import Any, Mapping, Optional, Sequence

import numpy as np

from onnx_compat.ir import Spec
from onnx_compat.ir.dtypes import DType
from onnx_compat.shim.interface import Emitter

__all__ = ["TypeEmitter"]

#: A value of the emitter. Here a placeholder: no handle is ever read.
Handle = Any


class TypeEmitter(Emitter):
    """Replaces an emitter whose handles are values, where a program is checked and not run.

    It refuses a primitive that the emitter lacks, and a dtype of which the emitter holds no constant. It accepts
    everything else.
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
