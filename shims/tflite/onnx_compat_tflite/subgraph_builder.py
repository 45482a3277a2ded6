"""Build a TFLite subgraph: `Graph` appends operators and returns their results as `Handle`s.

A constant is a handle with an array, and belongs to no subgraph. When an operator first reads the constant, the
operator's subgraph gets a tensor for it. So a constant that no operator reads is not stored, and subgraphs can share it.
"""

from typing import Any, Dict, List, Optional, Sequence, Set, Tuple, Union

import numpy as np

from onnx_compat.shim import Extent
from onnx_compat_tflite import flatbuffer as fb

__all__ = ["Graph", "Handle", "storage_type"]

#: A size of a handle: an int, a symbolic size, or None if the size is unknown.
Size = Union[Extent, None]
Sizes = Tuple[Any, ...]
#: The elements of a constant (`numpy.typing.ArrayLike` needs a newer numpy than the floor of the package).
ArrayLike = Union[np.ndarray, np.generic, bool, int, float, str]
#: A tensor index, for the cached shape of the tensor; or (tensor index, axis), for the cached size of an axis.
CacheKey = Union[int, Tuple[int, int]]

#: Dtype that SLICE lacks on some runtimes -> a dtype of the same width that SLICE accepts on every runtime.
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
    """Return the name of the TFLite type for an array or a numpy dtype: "float32", ...; "string" for objects."""
    dtype: Any = getattr(array, "dtype", array)
    name = np.dtype(dtype).name
    return "string" if name == "object" else name


class Handle:
    """A value of the emitter: a constant with an `array`, or the tensor `index` of a subgraph.

    `dims` has its sizes: each is an int, a symbolic size, or None if unknown.
    """

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
        """Return the handle of a constant with these elements."""
        array = np.asarray(array)
        return Handle(storage_type(array), array.shape, array=array)

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def is_constant(self) -> bool:
        """Whether the handle is a constant: its elements are known, as `array`."""
        return self.array is not None

    @property
    def is_static(self) -> bool:
        """Whether all sizes are ints: no size is symbolic or unknown."""
        return all(isinstance(size, int) for size in self.dims)

    @property
    def is_empty(self) -> bool:
        """Whether a size is known to be 0, so that the tensor has no elements."""
        return any(isinstance(size, int) and size == 0 for size in self.dims)

    @property
    def signature(self) -> Tuple[int, ...]:
        """The sizes as a .tflite file stores them: -1 for a symbolic or unknown size."""
        return tuple(size if isinstance(size, int) else -1 for size in self.dims)

    def __repr__(self) -> str:
        return "%s%s" % (self.dtype, list(self.signature))


class Graph:
    """Build a subgraph: `spec` is the subgraph, `add` appends an operator to it."""

    def __init__(self, name: str) -> None:
        self.spec = fb.SubGraph(name=name)
        self.cache: Dict[CacheKey, Handle] = {}  # handles of the shapes and sizes that the emitter has already computed
        self._constants: Dict[Tuple[object, ...], Tuple[np.ndarray, int]] = {}
        self._named_tensors: Set[int] = set()  # tensors that have the name of a value of the model

    def add_input(self, name: str, dtype: str, dims: Sequence[Any]) -> Handle:
        """Append an input tensor to the subgraph and return its handle.

        The name is final: `name_tensor` does not rename an input.
        """
        handle = self._add_tensor(name, dtype, dims)
        self.spec.inputs.append(handle.index)
        self._named_tensors.add(handle.index)
        return handle

    def mark_variable(self, handle: Handle) -> None:
        """Make a tensor a variable: the kernel of a recurrent operator reads and updates it in place."""
        self.spec.tensors[handle.index].is_variable = True

    def name_tensor(self, handle: Handle, name: str) -> None:
        """Rename a tensor to `name`, the name of its value in the model.

        Does nothing if the tensor is an input or was renamed before. Does nothing if `name` is not printable, because
        readers of files decode names as UTF-8. The handle must not be a constant.
        """
        if handle.index not in self._named_tensors and name.isprintable():
            self._named_tensors.add(handle.index)
            self.spec.tensors[handle.index].name = name

    def finish(self, outputs: Sequence[Handle], names: Sequence[Optional[str]]) -> None:
        """Append `outputs` to the outputs of the subgraph. Rename an output if its entry in `names` is a string.

        A constant, an input, and a tensor that is already an output are copied by a RESHAPE; the copy is the output.
        The copy is needed because an interpreter may return no data for an output that no operator writes, or that has
        two names.
        """
        written = {index for operator in self.spec.operators for index in operator.outputs}
        for handle, name in zip(outputs, names):
            if handle.is_constant or handle.index not in written or handle.index in self.spec.outputs:
                handle = self.copy(handle)
            if name is not None:
                self.spec.tensors[handle.index].name = name
            self.spec.outputs.append(handle.index)

    def copy(self, handle: Handle) -> Handle:
        """Copy a tensor or a constant: append a RESHAPE to the same shape, and return the handle of the copy.

        If several sizes are open, or one is open and another is 0, a SHAPE computes the shape.
        """
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
        """Append an operator with a single result of dtype `dtype` and sizes `dims`; return the handle of the result.

        builtin: the op, such as "ADD".
        inputs: a handle for each input, or None for an omitted input. A constant gets a tensor at its first use.
        name: the beginning of the result tensor's name; without it, the name of the subgraph.
        options: the options of the op, such as `axis=1`.
        """
        return self.add_many(builtin, inputs, [(dtype, dims)], name, **options)[0]

    def add_many(
        self,
        builtin: str,
        inputs: Sequence[Optional[Handle]],
        results: Sequence[Tuple[str, Sequence[Any]]],
        name: Optional[str] = None,
        **options: Any,
    ) -> List[Handle]:
        """Append an operator, and return the handles of its results.

        builtin: the op, such as "SPLIT".
        inputs: a handle for each input, or None for an omitted input. A constant gets a tensor at its first use (see
        `tensor_index`).
        results: the (dtype, sizes) of each result.
        name: the beginning of the result tensors' names; without it, the name of the subgraph.
        options: the options of the op, such as `axis=1`.
        """
        tensor_indices = [None if handle is None else self.tensor_index(handle) for handle in inputs]
        stem = "%s/%s" % (name or self.spec.name, builtin.lower())
        outputs = [self._add_tensor("%s_%d" % (stem, len(self.spec.tensors)), *result) for result in results]
        self.spec.operators.append(fb.OperatorSpec(builtin, tensor_indices, [out.index for out in outputs], options))
        return outputs

    def tensor_index(self, handle: Handle) -> int:
        """Return the index of a handle's tensor in this subgraph. The first use of a constant appends its tensor.

        Constants share a tensor if they have the same array object. Constants of up to 1024 bytes, other than strings,
        also share a tensor if their dtype, shape and elements are equal. For a constant without elements, operators
        that compute it are appended.
        """
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
        """Append the operators RESHAPE(SLICE([0], size 0)), which compute a tensor without elements; return its index.

        The operators are needed because no runtime treats a buffer without bytes as a constant. If SLICE lacks the
        dtype on some runtimes, another dtype is sliced, and converted by CAST or BITCAST.
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
