"""A subgraph under construction: operators are appended to it, and their results are `Handle`s.

A constant belongs to no subgraph: it is a handle with an array, and becomes a tensor of a subgraph where an operator of
that subgraph first reads it. So a constant that is only folded away costs nothing, and one may be read from the
branches of control flow as if they were one graph.
"""

from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb

__all__ = ["Graph", "Handle", "storage_type"]

#: A size: an int, a symbolic size (`onnx_compat.ir.dims.Dim`), or None where nothing is known.
Sizes = Tuple[Any, ...]

#: What has as many bits, and is cut by every runtime.
_CUT = {
    "float16": "int16",
    "uint16": "int16",
    "uint32": "int32",
    "uint64": "int64",
    "float64": "int64",
    "complex64": "int64",
}

_SMALL = 1024  # bytes up to which constants are compared by what they hold


def storage_type(array: Any) -> str:
    """The TFLite type that holds a carrier array (or what is of a numpy dtype)."""
    name = np.dtype(getattr(array, "dtype", array)).name
    return "string" if name == "object" else name


class Handle:
    """A value: of a tensor of a subgraph, or a constant. Its type, and its sizes as far as they are known."""

    __slots__ = ("array", "dims", "dtype", "fits_int32", "has_infinite", "index", "is_nonnegative")

    def __init__(self, dtype: str, dims: Sequence[Any], index: int = -1, array: Any = None) -> None:
        self.dtype = dtype
        self.dims: Sizes = tuple(dims)
        self.index = index
        self.array = array
        self.is_nonnegative = False
        self.fits_int32 = False  # whether every element of an int64 tensor is provably within int32
        self.has_infinite = False  # whether a constant that it was made of has infinite elements, where that matters

    @staticmethod
    def of(array: Any) -> "Handle":
        """A constant."""
        array = np.asarray(array)
        return Handle(storage_type(array), array.shape, array=array)

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def is_constant(self) -> bool:
        return self.array is not None

    @property
    def is_static(self) -> bool:
        return all(isinstance(size, int) for size in self.dims)

    @property
    def is_empty(self) -> bool:
        """Whether it is known to have no elements."""
        return any(isinstance(size, int) and size == 0 for size in self.dims)

    @property
    def signature(self) -> Tuple[int, ...]:
        """The sizes as a tensor has them: -1 where unknown."""
        return tuple(size if isinstance(size, int) else -1 for size in self.dims)

    def __repr__(self) -> str:
        return "%s%s" % (self.dtype, list(self.signature))


class Graph:
    """One subgraph."""

    def __init__(self, name: str) -> None:
        self.spec = fb.SubGraph(name=name)
        self.cache: Dict[Any, Any] = {}  # what an emitter has made of a handle already: its shape, say
        self._constants: Dict[Any, Tuple[Any, int]] = {}
        self._named_tensors: Set[int] = set()  # tensors that bear the name of a value of the model

    def add_input(self, name: str, dtype: str, dims: Sequence[Any]) -> Handle:
        handle = self._add_tensor(name, dtype, dims)
        self.spec.inputs.append(handle.index)
        self._named_tensors.add(handle.index)
        return handle

    def mark_variable(self, handle: Handle) -> None:
        """Let it be a variable, which the kernel that it is given to changes."""
        self.spec.tensors[handle.index].is_variable = True

    def name_tensor(self, handle: Handle, name: str) -> None:
        """Give a tensor the name of the value that it holds, the first one if of several. Readers take names for UTF-8."""
        if handle.index not in self._named_tensors and name.isprintable():
            self._named_tensors.add(handle.index)
            self.spec.tensors[handle.index].name = name

    def finish(self, outputs: Sequence[Handle], names: Sequence[Optional[str]]) -> None:
        """Make these the outputs. Each is a tensor of its own that an operator writes: an interpreter that is asked for
        a constant, an input, or one tensor under two names may find no data there.
        """
        written = {index for operator in self.spec.operators for index in operator.outputs}
        for handle, name in zip(outputs, names):
            if handle.is_constant or handle.index not in written or handle.index in self.spec.outputs:
                handle = self.copy(handle)
            if name is not None:
                self.spec.tensors[handle.index].name = name
            self.spec.outputs.append(handle.index)

    def copy(self, handle: Handle) -> Handle:
        sizes = handle.signature
        if not sizes:
            return self.add("RESHAPE", [handle], handle.dtype, (), new_shape=[])
        if sum(size < 0 for size in sizes) <= 1 and (handle.is_static or 0 not in sizes):
            shape = Handle.of(np.asarray(sizes, np.int32))
        else:
            shape = self.add("SHAPE", [handle], "int32", (len(sizes),), out_type="int32")
        return self.add("RESHAPE", [handle, shape], handle.dtype, handle.dims)

    def add(
        self,
        builtin: str,
        inputs: Sequence[Optional[Handle]],
        dtype: str,
        dims: Sequence[Any],
        name: Optional[str] = None,
        **options: Any,
    ) -> Handle:
        """Append an operator of one result."""
        return self.add_many(builtin, inputs, [(dtype, dims)], name, **options)[0]

    def add_many(
        self,
        builtin: str,
        inputs: Sequence[Optional[Handle]],
        results: Sequence[Tuple[str, Sequence[Any]]],
        name: Optional[str] = None,
        **options: Any,
    ) -> List[Handle]:
        places = [None if handle is None else self.tensor_index(handle) for handle in inputs]
        stem = "%s/%s" % (name or self.spec.name, builtin.lower())
        outputs = [self._add_tensor("%s_%d" % (stem, len(self.spec.tensors)), *result) for result in results]
        self.spec.operators.append(fb.OperatorSpec(builtin, places, [out.index for out in outputs], options))
        return outputs

    def tensor_index(self, handle: Handle) -> int:
        """The tensor of a handle in this subgraph."""
        if handle.array is None:
            return handle.index
        array = handle.array
        key: Any = (id(array), array.shape)
        if array.dtype != object and array.nbytes <= _SMALL:
            key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            index = self._add_constant(array) if array.size else self._add_empty_constant(array)
            self._constants[key] = (array, index)  # with the array: an id is only its own while it lives
        return self._constants[key][1]

    def _add_constant(self, array: Any) -> int:
        name = "%s/constant_%d" % (self.spec.name, len(self.spec.tensors))
        return self.spec.add(fb.TensorSpec(name, storage_type(array), array.shape, array))

    def _add_empty_constant(self, array: Any) -> int:
        """No runtime takes a buffer without bytes for a constant: nothing is cut out of something, which for types that
        not every runtime cuts is of another type.
        """
        dtype = storage_type(array)
        one = np.full(1, "" if dtype == "string" else 0, _CUT.get(dtype, array.dtype))
        begin = Handle.of(np.zeros(1, np.int32))
        none = self.add("SLICE", [Handle.of(one), begin, begin], storage_type(one), (0,))
        if dtype in _CUT:
            # Of no elements both make the same, but BITCAST is not everywhere and CAST not of every type.
            kernel = "CAST" if dtype in ("uint32", "complex64") else "BITCAST"
            none = self.add(kernel, [none], dtype, (0,))
        return self.add("RESHAPE", [none, Handle.of(np.asarray(array.shape, np.int32))], dtype, array.shape).index

    def _add_tensor(self, name: str, dtype: str, dims: Sequence[Any]) -> Handle:
        handle = Handle(dtype, dims)
        handle.index = self.spec.add(fb.TensorSpec(name, dtype, handle.signature))
        return handle
