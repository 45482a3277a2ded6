"""The base class of the emitters for JAX and torch: constants, sizes, and conversion of values."""

from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Arg, Const, DType, Emitter, Node, Ref, Region, Spec, UnsupportedError, dtypes, is_static
from onnx_compat_keras.arrays.elementwise import Elementwise
from onnx_compat_keras.arrays.indexing import Indexing
from onnx_compat_keras.arrays.normalization import Normalization
from onnx_compat_keras.arrays.recurrent import Recurrent
from onnx_compat_keras.arrays.reduction import Reduction
from onnx_compat_keras.arrays.resampling import Resampling
from onnx_compat_keras.arrays.shape import Shape
from onnx_compat_keras.arrays.sizes import numbers
from onnx_compat_keras.framework_types import Array, Number

__all__ = ["Arrays", "constants", "numbers"]


class Arrays(Elementwise, Shape, Indexing, Reduction, Normalization, Resampling, Recurrent, Emitter):
    """The base class of emitters whose handles are arrays of JAX or torch. Shapes are always static."""

    layout = "channels_last"
    filter_layout = "HWIO"
    index_dtype = dtypes.int64

    #: The namespace of functions, with numpy's names and arguments.
    xp: Any
    #: The name of the back end in messages.
    back_end = ""

    def __init__(self) -> None:
        self.held: Dict[int, Array] = {}
        self.entropy: Array = None  # the seed for random primitives without a seed; None: draw one at each use

    # -- for each back end -----------------------------------------------------------------------------------------
    def array(self, values: np.ndarray, dtype: DType) -> Array:
        """Return a handle with the values of a carrier array, the numpy array in which the core stores `dtype`.

        Raises UnsupportedError for strings.
        """
        raise NotImplementedError

    def values(self, handle: Array, dtype: DType) -> np.ndarray:
        """Return the values of a handle as a carrier array: the numpy array in which the core stores `dtype`."""
        raise NotImplementedError

    def cast(self, x: Array, dtype: DType) -> Array:
        """Return x cast to a dtype. A primitive; each back end implements it."""
        raise NotImplementedError

    def refusal(self, node: Node) -> Optional[UnsupportedError]:
        """Return the error to raise for a node that is unsupported whatever the values of its arguments are, else None.

        A node with a string argument or result is unsupported; tensors in a list argument are not checked. A back end
        overrides this method to refuse more nodes.
        """
        specs = [arg.spec for arg in node.args if isinstance(arg, (Ref, Const))] + [ref.spec for ref in node.outputs]
        return self.unsupported_error("strings") if any(spec.dtype.kind == "s" for spec in specs) else None

    # -- the same for all -----------------------------------------------------------------------------------------
    def constant(self, array: np.ndarray, dtype: DType) -> Array:
        held = self.held.get(id(array))
        return self.array(array, dtype) if held is None else held

    def hold(self, held: Dict[int, Array]) -> None:
        """Set the handles that `constant` returns for some constants. Any other constant gets a new handle at each use.

        `held`: {id of a constant's array: handle}. It replaces the dict of an earlier call. On torch, it is ignored if
        an earlier dict had an entry.
        """
        self.held = held

    def dim(self, handle: Array, axis: int) -> int:
        return int(handle.shape[axis])

    def stack(self, scalars: Sequence[Array]) -> Array:
        return self.xp.stack([self.xp.asarray(scalar) for scalar in scalars])

    def shape(self, handle: Array) -> Tuple[int, ...]:
        return tuple(int(size) for size in handle.shape)

    def fetch(self, handle: Array) -> np.ndarray:
        return self.values(handle, self.dtype_of(handle))

    def dtype_of(self, handle: Array) -> DType:
        """Return the dtype in which the array `handle` is stored, which may be wider than the dtype of its values.

        Example: int32 for an array that stores uint16.
        """
        raise NotImplementedError

    def finish(self, handle: Array, dtype: DType) -> Array:
        return handle if dtype.name == "bfloat16" else super().finish(handle, dtype)

    def like(self, number: Number, handle: Array) -> Array:
        """Return a Python or numpy number as an array of rank 0 with the dtype of `handle`."""
        return self.xp.asarray(number, dtype=handle.dtype)

    def zeros(self, spec: Spec) -> Array:
        """Return an array of zeros with the dtype and shape of a spec; a symbolic or unknown size becomes 1.

        Raises UnsupportedError for strings.
        """
        shape = [int(size) if is_static(size) and size is not None else 1 for size in spec.shape]
        if spec.dtype.kind == "s":
            raise self.unsupported_error("strings")
        return self.array(np.zeros(shape, spec.dtype.numpy), spec.dtype)

    def placeholder(self, spec: Spec) -> Array:
        return self.zeros(spec)

    def unsupported_error(self, kind: str, hint: Optional[str] = None) -> UnsupportedError:
        """Return the UnsupportedError "Keras on <back end> has no <kind>", with an optional hint. It is not raised."""
        return UnsupportedError("Keras on %s has no %s" % (self.back_end, kind), hint=hint)


def constants(region: Region) -> Dict[int, Const]:
    """Return a dict id(array) -> `Const`: the constants that live nodes and outputs of a region read.

    Constants that its branches and loop bodies read are included.
    """
    by_identity: Dict[int, Const] = {}
    for node in region.live():
        _collect(node.args, by_identity)
        for inner in node.regions:
            by_identity.update(constants(inner))
    _collect(region.outputs, by_identity)
    return by_identity


def _collect(args: Sequence[Arg], by_identity: Dict[int, Const]) -> None:
    """Add the constants among `args`, also those in list arguments, to the dict `by_identity`, in place."""
    for arg in args:
        if isinstance(arg, Const):
            by_identity[id(arg.array)] = arg
        elif isinstance(arg, tuple):
            _collect(arg, by_identity)
