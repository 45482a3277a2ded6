"""The builder of a subgraph: it appends operators and returns their results as `Handle`s.

A constant belongs to no subgraph: it is a handle with an array. It becomes a tensor of a subgraph when an operator of
that subgraph first reads it. So a constant that is only folded costs nothing, and the branches of control flow can
share it.
"""

from typing import Any, Dict, List, Optional, Sequence, Set, Tuple, Union

import numpy as np

from onnx_compat.shim import Extent
from onnx_compat_tflite import flatbuffer as fb

__all__ = ["Graph", "Handle", "storage_type"]

#: A size: an int, a symbolic size, or None for a size about which nothing is known.
Size = Union[Extent, None]
Sizes = Tuple[Any, ...]
#: The elements of a constant (`numpy.typing.ArrayLike` needs a newer numpy than the floor of the package).
ArrayLike = Union[np.ndarray, np.generic, bool, int, float, str]
#: The index of a tensor (its shape), or the index and an axis (a size).
CacheKey = Union[int, Tuple[int, int]]

#: A type -> a type of the same width whose SLICE every runtime has.
_SLICED_AS = {
    "float16": "int16",
    "uint16": "int16",
    "uint32": "int32",
    "uint64": "int64",
    "float64": "int64",
    "complex64": "int64",
}

_COMPARED_BYTES = 1024  # up to this size, constants of equal elements share a tensor


def storage_type(array: Union[np.ndarray, "np.dtype[Any]"]) -> str:
    """Return the TFLite type that stores a carrier array, or a numpy dtype."""
    dtype: Any = getattr(array, "dtype", array)
    name = np.dtype(dtype).name
    return "string" if name == "object" else name


class Handle:
    """A value of the emitter: a tensor of a subgraph, or a constant. It has a dtype, and sizes as far as known."""

    __slots__ = ("array", "dims", "dtype", "fits_int32", "has_infinite", "index", "is_nonnegative")

    def __init__(self, dtype: str, dims: Sequence[Any], index: int = -1, array: Optional[np.ndarray] = None) -> None:
        self.dtype = dtype
        self.dims: Sizes = tuple(dims)
        self.index = index
        self.array: Any = array  # of a constant: where `is_constant` holds, it is never None
        self.is_nonnegative = False
        self.fits_int32 = False  # whether every element of an int64 tensor is provably within int32
        self.has_infinite = False  # whether it may hold infinity: see `Builder.may_be_infinite`

    @staticmethod
    def of(array: ArrayLike) -> "Handle":
        """Return a constant."""
        array = np.asarray(array)
        return Handle(storage_type(array), array.shape, array=array)

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def is_constant(self) -> bool:
        """Whether the elements are known."""
        return self.array is not None

    @property
    def is_static(self) -> bool:
        """Whether all sizes are integers."""
        return all(isinstance(size, int) for size in self.dims)

    @property
    def is_empty(self) -> bool:
        """Whether the tensor is known to have no elements."""
        return any(isinstance(size, int) and size == 0 for size in self.dims)

    @property
    def signature(self) -> Tuple[int, ...]:
        """The sizes in the form of a file: -1 for an unknown size."""
        return tuple(size if isinstance(size, int) else -1 for size in self.dims)

    def __repr__(self) -> str:
        return "%s%s" % (self.dtype, list(self.signature))


class Graph:
    """A subgraph under construction."""

    def __init__(self, name: str) -> None:
        self.spec = fb.SubGraph(name=name)
        self.cache: Dict[CacheKey, Handle] = {}  # shapes and sizes of tensors that were emitted before
        self._constants: Dict[Tuple[object, ...], Tuple[np.ndarray, int]] = {}
        self._named_tensors: Set[int] = set()  # tensors that have the name of a value of the model

    def add_input(self, name: str, dtype: str, dims: Sequence[Any]) -> Handle:
        """Append an input and return its handle."""
        handle = self._add_tensor(name, dtype, dims)
        self.spec.inputs.append(handle.index)
        self._named_tensors.add(handle.index)
        return handle

    def mark_variable(self, handle: Handle) -> None:
        """Make the tensor a variable: the kernel that reads it updates it."""
        self.spec.tensors[handle.index].is_variable = True

    def name_tensor(self, handle: Handle, name: str) -> None:
        """Give a tensor the name of the model's value that it holds. The first of several names stays.

        Names that are not printable are left out: readers decode names as UTF-8.
        """
        if handle.index not in self._named_tensors and name.isprintable():
            self._named_tensors.add(handle.index)
            self.spec.tensors[handle.index].name = name

    def finish(self, outputs: Sequence[Handle], names: Sequence[Optional[str]]) -> None:
        """Set the outputs of the subgraph.

        Each output gets its own tensor that an operator writes. For a constant, an input, or a tensor with two names,
        an interpreter may return no data.
        """
        written = {index for operator in self.spec.operators for index in operator.outputs}
        for handle, name in zip(outputs, names):
            if handle.is_constant or handle.index not in written or handle.index in self.spec.outputs:
                handle = self.copy(handle)
            if name is not None:
                self.spec.tensors[handle.index].name = name
            self.spec.outputs.append(handle.index)

    def copy(self, handle: Handle) -> Handle:
        """Append a RESHAPE to the same shape, and return its result."""
        sizes = handle.signature
        if not sizes:
            return self.add("RESHAPE", [handle], handle.dtype, (), new_shape=[])
        if sum(size < 0 for size in sizes) <= 1 and (handle.is_static or 0 not in sizes):
            target = Handle.of(np.asarray(sizes, np.int32))
        else:
            target = self.add("SHAPE", [handle], "int32", (len(sizes),), out_type="int32")
        return self.add("RESHAPE", [handle, target], handle.dtype, handle.dims)

    def add(
        self,
        builtin: str,
        inputs: Sequence[Optional[Handle]],
        dtype: str,
        dims: Sequence[Any],
        name: Optional[str] = None,
        **options: Any,
    ) -> Handle:
        """Append an operator with one result, and return the result."""
        return self.add_many(builtin, inputs, [(dtype, dims)], name, **options)[0]

    def add_many(
        self,
        builtin: str,
        inputs: Sequence[Optional[Handle]],
        results: Sequence[Tuple[str, Sequence[Any]]],
        name: Optional[str] = None,
        **options: Any,
    ) -> List[Handle]:
        """Append an operator with several results, each of a (dtype, sizes) pair, and return them."""
        tensor_indices = [None if handle is None else self.tensor_index(handle) for handle in inputs]
        stem = "%s/%s" % (name or self.spec.name, builtin.lower())
        outputs = [self._add_tensor("%s_%d" % (stem, len(self.spec.tensors)), *result) for result in results]
        self.spec.operators.append(fb.OperatorSpec(builtin, tensor_indices, [out.index for out in outputs], options))
        return outputs

    def tensor_index(self, handle: Handle) -> int:
        """Return the index of a handle's tensor in this subgraph; add a constant's tensor at its first use."""
        if handle.array is None:
            return handle.index
        array = handle.array
        key: Tuple[object, ...] = (id(array), array.shape)
        if array.dtype != object and array.nbytes <= _COMPARED_BYTES:
            key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            index = self._add_constant(array) if array.size else self._add_empty_constant(array)
            self._constants[key] = (array, index)  # keeps the array alive: an id is unique only among live objects
        return self._constants[key][1]

    def _add_constant(self, array: np.ndarray) -> int:
        name = "%s/constant_%d" % (self.spec.name, len(self.spec.tensors))
        return self.spec.add(fb.TensorSpec(name, storage_type(array), array.shape, array))

    def _add_empty_constant(self, array: np.ndarray) -> int:
        """Append operators that compute a constant without elements, and return the tensor index of the result.

        No runtime treats a buffer without bytes as a constant, so a SLICE of size zero computes it. A type that some
        runtimes do not slice is sliced as another type of its width.
        """
        dtype = storage_type(array)
        element = np.full(1, "" if dtype == "string" else 0, _SLICED_AS.get(dtype, array.dtype))
        zero = Handle.of(np.zeros(1, np.int32))
        empty = self.add("SLICE", [Handle.of(element), zero, zero], storage_type(element), (0,))
        if dtype in _SLICED_AS:
            # Without elements CAST and BITCAST agree. Old runtimes lack BITCAST, and CAST lacks some types.
            kernel = "CAST" if dtype in ("uint32", "complex64") else "BITCAST"
            empty = self.add(kernel, [empty], dtype, (0,))
        return self.add("RESHAPE", [empty, Handle.of(np.asarray(array.shape, np.int32))], dtype, array.shape).index

    def _add_tensor(self, name: str, dtype: str, dims: Sequence[Any]) -> Handle:
        handle = Handle(dtype, dims)
        handle.index = self.spec.add(fb.TensorSpec(name, dtype, handle.signature))
        return handle
