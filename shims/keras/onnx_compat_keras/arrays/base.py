"""What every emitter over arrays knows: constants that are kept, sizes that are numbers, values on their way out."""

from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Const, DType, Emitter, Node, Ref, Region, Spec, UnsupportedError, dtypes, is_static
from onnx_compat_keras.arrays.elementwise import Elementwise
from onnx_compat_keras.arrays.indexing import Indexing
from onnx_compat_keras.arrays.normalization import Normalization
from onnx_compat_keras.arrays.recurrent import Recurrent
from onnx_compat_keras.arrays.reduction import Reduction
from onnx_compat_keras.arrays.resampling import Resampling
from onnx_compat_keras.arrays.shape import Shape
from onnx_compat_keras.arrays.sizes import numbers

__all__ = ["Arrays", "constants", "numbers"]


class Arrays(Elementwise, Shape, Indexing, Reduction, Normalization, Resampling, Recurrent, Emitter):
    """An emitter whose handles are arrays of a namespace like numpy. Their shapes are always numbers."""

    layout = "channels_last"
    filter_layout = "HWIO"
    index_dtype = dtypes.int64

    #: The namespace: numpy's names and arguments.
    xp: Any
    #: Which back end this is, for messages.
    back_end = ""

    def __init__(self) -> None:
        self.held: Dict[int, Any] = {}
        self.entropy: Any = None  # what random numbers without a seed come from, if each run brings it along

    # -- for each back end -----------------------------------------------------------------------------------------
    def array(self, values: np.ndarray, dtype: DType) -> Any:
        """A handle of these carried values."""
        raise NotImplementedError

    def values(self, handle: Any, dtype: DType) -> np.ndarray:
        """The carried values of a handle."""
        raise NotImplementedError

    def refusal(self, node: Node) -> Optional[UnsupportedError]:
        """Why a node cannot be done here, whatever the values; None if nothing speaks against it."""
        specs = [arg.spec for arg in node.args if isinstance(arg, (Ref, Const))] + [ref.spec for ref in node.outputs]
        return self.refused("text") if any(spec.dtype.kind == "s" for spec in specs) else None

    # -- the same for all -----------------------------------------------------------------------------------------
    def constant(self, array: np.ndarray, dtype: DType) -> Any:
        held = self.held.get(id(array))
        return self.array(array, dtype) if held is None else held

    def hold(self, held: Dict[int, Any]) -> None:
        """Take these handles for the arrays of these identities."""
        self.held = held

    def dim(self, handle: Any, axis: int) -> int:
        return int(handle.shape[axis])

    def stack(self, scalars: Sequence[Any]) -> Any:
        return self.xp.stack([self.xp.asarray(scalar) for scalar in scalars])

    def shape(self, handle: Any) -> Tuple[int, ...]:
        return tuple(int(size) for size in handle.shape)

    def fetch(self, handle: Any) -> np.ndarray:
        return self.values(handle, self.dtype_of(handle))

    def dtype_of(self, handle: Any) -> DType:
        """The type that a handle shows by itself."""
        raise NotImplementedError

    def finish(self, handle: Any, dtype: DType) -> Any:
        return handle if dtype.name == "bfloat16" else super().finish(handle, dtype)

    def like(self, number: Any, handle: Any) -> Any:
        """A number as a scalar of the handle's own dtype."""
        return self.xp.asarray(number, dtype=handle.dtype)

    def zeros(self, spec: Spec) -> Any:
        """Zeros of this type; sizes that are not known are one."""
        shape = [int(size) if is_static(size) and size is not None else 1 for size in spec.shape]
        if spec.dtype.kind == "s":
            raise self.refused("text")
        return self.array(np.zeros(shape, spec.dtype.numpy), spec.dtype)

    def placeholder(self, spec: Spec) -> Any:
        return self.zeros(spec)

    def refused(self, what: str, hint: Optional[str] = None) -> UnsupportedError:
        return UnsupportedError("Keras on %s has no %s" % (self.back_end, what), hint=hint)


def constants(region: Region) -> Dict[int, Const]:
    """The known values that a program reads, also inside its branches and loops, by the identity of their arrays."""
    found: Dict[int, Const] = {}
    for node in region.live():
        _collect(node.args, found)
        for inner in node.regions:
            found.update(constants(inner))
    _collect(region.outputs, found)
    return found


def _collect(args: Any, found: Dict[int, Const]) -> None:
    for arg in args:
        if isinstance(arg, Const):
            found[id(arg.array)] = arg
        elif isinstance(arg, (tuple, list)):
            _collect(arg, found)
