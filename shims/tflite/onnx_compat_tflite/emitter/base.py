"""What every family of primitives builds on: operators, constants, run-time sizes, and types that a kernel lacks.

A kernel that does not take a type is served with the next wider type that holds every value of it, and the result is
brought back: integers wrap as they would have, and float16 is rounded once. Where there is no such type the primitive
is unsupported; it is never computed in a type that holds less.
"""

import functools
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, TypeVar

import numpy as np

from onnx_compat.shim import DType, Emitter, Spec, UnsupportedError, dtypes, is_equal, is_static
from onnx_compat_tflite.emitter import narrowing
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.subgraph_builder import Graph, Handle, storage_type

__all__ = ["Base", "widen_for"]

_WIDER = {
    "bool": "uint8",
    "int8": "int32",
    "uint8": "int32",
    "int16": "int32",
    "uint16": "int32",
    "int32": "int64",
    "uint32": "int64",
    "float16": "float32",
}

#: Of infinite elements these kernels make such.
_HANDS_ON = frozenset(
    "SELECT_V2 ADD SUB RESHAPE TRANSPOSE BROADCAST_TO CONCATENATION SLICE STRIDED_SLICE TILE EXPAND_DIMS GATHER"
    " MAXIMUM MINIMUM PADV2 PACK SQUEEZE FILL REDUCE_MAX REDUCE_MIN".split()
)

F = TypeVar("F", bound=Callable[..., Any])


def widen_for(*builtins: str) -> Callable[[F], F]:
    """A method for types that these kernels all take (or a feature of theirs: "MIRROR_PAD reflect"); it serves other
    types through a wider one.
    """

    def declare(method: F) -> F:
        @functools.wraps(method)
        def applied(self: "Base", x: Handle, *rest: Any, **params: Any) -> Any:
            if all(self.accepts(builtin, x.dtype) for builtin in builtins):
                return method(self, x, *rest, **params)
            return self.call_widened(applied, builtins, x, rest, params)

        return applied  # type: ignore[return-value]

    return declare


class Base(Emitter):
    """Operators are appended to the innermost open subgraph."""

    layout = "channels_last"
    filter_layout = "OHWI"
    index_dtype = dtypes.int32
    integers = True

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self.graphs: List[Graph] = [Graph("main")]
        self._open_graphs: List[Graph] = [self.graphs[0]]
        #: Older kernels of arithmetic hold their results between the least and the greatest of the finite numbers.
        self.finite_arithmetic = not kernels.manners.infinite

    # -- subgraphs and operators ---------------------------------------------------------------------------------------
    @property
    def graph(self) -> Graph:
        return self._open_graphs[-1]

    @contextmanager
    def subgraph(self, name: str) -> Iterator[Tuple[int, Graph]]:
        """A new subgraph, with its number, into which operators go meanwhile."""
        graph = Graph("%s_%d" % (name, len(self.graphs)))
        self.graphs.append(graph)
        self._open_graphs.append(graph)
        node = getattr(self, "node", None)
        try:
            yield len(self.graphs) - 1, graph
        finally:
            self._open_graphs.pop()
            if node is not None:
                self.node = node

    def add_op(
        self, builtin: str, inputs: Sequence[Optional[Handle]], dtype: str, dims: Sequence[Any], **options: Any
    ) -> Handle:
        """Append an operator of one result."""
        result = self.graph.add(builtin, inputs, self.require_type(dtype), dims, self._operator_name(), **options)
        if self.finite_arithmetic and dtype == "float32" and builtin in _HANDS_ON:
            result.has_infinite = any(one is not None and self.may_be_infinite(one) for one in inputs)
        if self.finite_arithmetic and builtin == "LOG":
            result.has_infinite = True
        if dtype == "int64":
            result.fits_int32 = narrowing.keeps_int32(builtin, inputs)
        return result

    def may_be_infinite(self, x: Handle) -> bool:
        """Whether infinite constants are known to have gone into it, or a logarithm."""
        return bool(x.dtype == "float32" and np.isinf(x.array).any()) if x.is_constant else x.has_infinite

    def add_ops(
        self, builtin: str, inputs: Sequence[Optional[Handle]], results: Sequence[Tuple[str, Any]], **options: Any
    ) -> List[Handle]:
        """Append an operator of several results."""
        return self.graph.add_many(builtin, inputs, results, self._operator_name(), **options)

    def _operator_name(self) -> Optional[str]:
        node = getattr(self, "node", None)
        return node.origin.node if node is not None and node.origin is not None else None

    # -- types -----------------------------------------------------------------------------------------------------------
    def accepts(self, builtin: str, dtype: str, feature: str = "plain") -> bool:
        name, _, named = builtin.partition(" ")
        return self.kernels.accepts(name, dtype, named or feature)

    def require_type(self, dtype: str) -> str:
        """The type, if the runtime has it at all."""
        if not self.accepts("RESHAPE", dtype):
            raise UnsupportedError("this TFLite runtime has no tensors of %s" % dtype)
        return dtype

    def demand(self, builtin: str, dtype: str, feature: str = "plain") -> None:
        if not self.accepts(builtin, dtype, feature):
            raise self.kernel_error(builtin, dtype, feature)

    def kernel_error(self, builtin: str, dtype: str, feature: str = "plain") -> UnsupportedError:
        what = "" if feature == "plain" else " (%s)" % feature
        return UnsupportedError("the %s kernel of TFLite does not take %s%s" % (builtin, dtype, what))

    def call_widened(
        self,
        method: Callable[..., Any],
        builtins: Sequence[str],
        x: Handle,
        rest: Sequence[Any],
        params: Dict[str, Any],
    ) -> Any:
        """What `method` gives in the next wider type, in x's own."""
        builtin = next(name for name in builtins if not self.accepts(name, x.dtype))
        wider = self._wider_type(x.dtype, builtin)

        def up(item: Any) -> Any:
            if isinstance(item, (list, tuple)):
                return [up(part) for part in item]
            return self.to(item, wider) if isinstance(item, Handle) and item.dtype == x.dtype else item

        result = method(self, up(x), *up(rest), **params)
        if isinstance(result, tuple):
            return tuple(self.to(part, x.dtype) if part.dtype == wider else part for part in result)
        return self.to(result, x.dtype) if result.dtype == wider else result

    def _wider_type(self, dtype: str, builtin: str) -> str:
        if dtype not in _WIDER:
            raise self.kernel_error(builtin, dtype)
        return _WIDER[dtype]

    def widen(self, x: Handle, builtin: str) -> Handle:
        """x in the next wider type, for a kernel that does not take its own."""
        return self.to(x, self._wider_type(x.dtype, builtin))

    def call_in_float32(self, method: Callable[..., Handle], *operands: Optional[Handle], **params: Any) -> Handle:
        """What a method gives in float32, as float16."""
        single = [None if operand is None else self.to(operand, "float32") for operand in operands]
        return self.to(method(*single, **params), "float16")

    def to(self, x: Handle, dtype: str) -> Handle:
        """A CAST, as C does it. One of int8 that the kernel does not know is spelt in int32 (`passes.int8_casts`)."""
        if x.dtype == dtype:
            return x
        if x.is_constant and x.array.dtype.kind != "f" and x.dtype != "string":
            return Handle.of(x.array.astype(dtype))
        if x.dtype == "float16" and not self.accepts("CAST", "float16", "to float32"):
            single = self.add_op("DEQUANTIZE", [x], "float32", x.dims)
            return single if dtype == "float32" else self.to(single, dtype)
        before, after = ("int32" if one == "int8" else one for one in (x.dtype, dtype))
        self.demand("CAST", before, "to %s" % after)
        return self.add_op("CAST", [x], dtype, x.dims, in_data_type=x.dtype, out_data_type=dtype)

    # -- constants -------------------------------------------------------------------------------------------------------
    def constant(self, array: np.ndarray, dtype: DType) -> Handle:
        return Handle(self.require_type(storage_type(array)), array.shape, array=array)

    def like(self, x: Handle, value: Any) -> Handle:
        """A scalar of x's type."""
        return Handle.of(np.asarray(value, x.dtype))

    def ints(self, *values: int) -> Handle:
        """A vector of int32: what shapes, axes and permutations are given as."""
        return Handle.of(narrowing.int32_array(values))

    # -- sizes at run time -------------------------------------------------------------------------------------------------
    def dim(self, handle: Handle, axis: int) -> Any:
        size = handle.dims[axis]
        if isinstance(size, int):
            return size
        key = (handle.index, axis)
        if key not in self.graph.cache:
            begin, end, step = self.ints(axis), self.ints(axis + 1), self.ints(1)
            self.graph.cache[key] = self.add_op(
                "STRIDED_SLICE", [self.shape_tensor(handle), begin, end, step], "int32", (), shrink_axis_mask=1
            )
        return self.graph.cache[key]

    def shape_tensor(self, handle: Handle) -> Handle:
        """The shape as an int32 vector."""
        if handle.is_static:
            return self.ints(*handle.dims)
        if handle.index not in self.graph.cache:
            self.graph.cache[handle.index] = self.add_op("SHAPE", [handle], "int32", (handle.rank,), out_type="int32")
        found: Handle = self.graph.cache[handle.index]
        return found

    def element(self, handle: Handle, index: Optional[int]) -> Any:
        """One element as a scalar: int64 where it may be beyond int32, else int32. See `promoted` and `stack`."""
        if handle.is_constant:
            return int(handle.array.reshape(-1)[index or 0])
        vector = handle if narrowing.may_overflow(handle) else self.to(handle, "int32")
        if index is None:
            return vector
        ends = [self.ints(index), self.ints(index + 1), self.ints(1)]
        return self.add_op("STRIDED_SLICE", [vector, *ends], vector.dtype, (), shrink_axis_mask=1)

    def promoted(self, a: Handle, b: Handle) -> Tuple[Handle, Handle]:
        """Sizes beside an int64 element are computed in int64, and narrowed where a kernel takes them."""
        if a.dtype == b.dtype:
            return a, b
        return self.to(a, "int64"), self.to(b, "int64")

    def stack(self, scalars: Sequence[Any]) -> Handle:
        """Sizes as one int32 vector. Of int64 elements, the bounds of a slice are clamped, and other sizes checked."""
        if any(isinstance(size, Handle) and size.dtype == "int64" for size in scalars):
            return narrowing.narrow_stack(self, scalars)
        handles = [self.scalar(value) for value in scalars]
        if all(handle.is_constant for handle in handles):
            return self.ints(*[int(handle.array) for handle in handles])
        return self.add_op("PACK", handles, "int32", (len(handles),), values_count=len(handles), axis=0)

    def scalar(self, size: Any) -> Handle:
        """A size as an int32 scalar."""
        if isinstance(size, Handle):
            return narrowing.narrow_checked(self, size) if size.dtype == "int64" else size
        return Handle.of(narrowing.int32_array(size))

    def placeholder(self, spec: Spec) -> Handle:
        dims = tuple(size if is_static(size) else None for size in spec.shape)
        return self.graph.add_input("scratch", self.require_type(storage_type(spec.dtype.numpy)), dims)

    def finish(self, handle: Handle, dtype: DType) -> Handle:
        """Take over what the trace knows of the sizes."""
        dims = handle.dims
        handle = super().finish(handle, dtype)
        handle.dims = dims  # the program that rounds is one for all sizes, and its own are not told apart
        if len(self.node.outputs) == 1 and not handle.is_constant:
            self.refine(handle, self.out.shape)
        return handle

    def called(self, handle: Handle, name: str) -> None:
        if not handle.is_constant and self.graph is self.graphs[0]:
            self.graph.name_tensor(handle, name)

    def refine(self, handle: Handle, dims: Sequence[Any]) -> Handle:
        """Sizes that are known better than the operator could tell."""
        if len(dims) == handle.rank:
            handle.dims = tuple(choose_known_size(a, b) for a, b in zip(handle.dims, dims))
            tensor = self.graph.spec.tensors[handle.index]
            tensor.shape = tuple(max(size, 1) if size < 0 else size for size in handle.signature)
            tensor.shape_signature = None if handle.is_static else handle.signature
        return handle


def choose_known_size(a: Any, b: Any) -> Any:
    """Of two descriptions of one size, the one that says more."""
    return a if isinstance(a, int) or b is None else b


def is_same_shape(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two shapes are provably the same."""
    return len(a) == len(b) and all(x is not None and y is not None and is_equal(x, y) for x, y in zip(a, b))
