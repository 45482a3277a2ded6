"""The base of all emitter classes: operators, constants, run-time sizes, and dtypes that a kernel lacks.

If a kernel lacks a dtype, the operands are cast to the next wider dtype that holds all their values. The result is cast
back. Integers wrap as before, and float16 is rounded once. Without a wider dtype the primitive is unsupported: it is
never computed in a dtype that holds less.
"""

import functools
from contextlib import contextmanager
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
    cast,
)

import numpy as np

from onnx_compat.shim import DType, Emitter, Spec, UnsupportedError, dtypes, is_equal, is_static
from onnx_compat_tflite.emitter import narrowing
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.subgraph_builder import Graph, Handle, Size, storage_type

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

#: Operators whose result can be infinite where an operand is.
_KEEPS_INFINITY = frozenset(
    "SELECT_V2 ADD SUB RESHAPE TRANSPOSE BROADCAST_TO CONCATENATION SLICE STRIDED_SLICE TILE EXPAND_DIMS GATHER"
    " MAXIMUM MINIMUM PADV2 PACK SQUEEZE FILL REDUCE_MAX REDUCE_MIN".split()
)

F = TypeVar("F", bound=Callable[..., Any])
#: The attributes of an ONNX node by name, as a native gets them.
Attributes = Mapping[str, Any]
#: A number that becomes a constant.
Scalar = Union[bool, int, float, np.generic]


def widen_for(*builtins: str) -> Callable[[F], F]:
    """Decorate a method that needs these kernels: it widens the operands where a kernel lacks their dtype.

    A name may have a feature of the kernel behind it: "MIRROR_PAD reflect". See `Base.call_widened`.
    """

    def decorate(method: F) -> F:
        @functools.wraps(method)
        def call(self: "Base", x: Handle, *arguments: Any, **params: Any) -> Any:
            if all(self.accepts(builtin, x.dtype) for builtin in builtins):
                return method(self, x, *arguments, **params)
            return self.call_widened(call, builtins, x, arguments, params)

        return cast(F, call)

    return decorate


class Base(Emitter):
    """Append operators to the innermost open subgraph."""

    layout = "channels_last"
    filter_layout = "OHWI"
    index_dtype = dtypes.int32
    integers = True

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self.graphs: List[Graph] = [Graph("main")]
        self._open_graphs: List[Graph] = [self.graphs[0]]
        #: Without XNNPACK, kernels of arithmetic clamp their results to the finite numbers: see `kernels`.
        self.finite_arithmetic = not kernels.quirks.keeps_infinity

    # -- subgraphs and operators ---------------------------------------------------------------------------------------
    @property
    def graph(self) -> Graph:
        """The innermost open subgraph."""
        return self._open_graphs[-1]

    @contextmanager
    def subgraph(self, name: str) -> Iterator[Tuple[int, Graph]]:
        """Open a new subgraph as a context, and yield its index and its builder. Operators are appended to it
        meanwhile.
        """
        graph = Graph("%s_%d" % (name, len(self.graphs)))
        self.graphs.append(graph)
        self._open_graphs.append(graph)
        try:
            yield len(self.graphs) - 1, graph
        finally:
            self._open_graphs.pop()

    def add_op(
        self, builtin: str, inputs: Sequence[Optional[Handle]], dtype: str, dims: Sequence[Any], **options: Any
    ) -> Handle:
        """Append an operator with one result, and return the result."""
        result = self.graph.add(builtin, inputs, self.require_type(dtype), dims, self._operator_name(), **options)
        if self.finite_arithmetic and dtype == "float32" and builtin in _KEEPS_INFINITY:
            result.has_infinite = any(operand is not None and self.may_be_infinite(operand) for operand in inputs)
        if self.finite_arithmetic and builtin == "LOG":
            result.has_infinite = True
        if dtype == "int64":
            result.fits_int32 = narrowing.keeps_int32(builtin, inputs)
        return result

    def may_be_infinite(self, x: Handle) -> bool:
        """Whether x comes from infinite constants, or from a logarithm."""
        return bool(x.dtype == "float32" and np.isinf(x.array).any()) if x.is_constant else x.has_infinite

    def add_ops(
        self, builtin: str, inputs: Sequence[Optional[Handle]], results: Sequence[Tuple[str, Any]], **options: Any
    ) -> List[Handle]:
        """Append an operator with several results, each of a (dtype, sizes) pair, and return them."""
        return self.graph.add_many(builtin, inputs, results, self._operator_name(), **options)

    def _operator_name(self) -> Optional[str]:
        """Return the name of the ONNX node that is being emitted, None without one."""
        node = getattr(self, "node", None)
        return node.origin.node if node is not None and node.origin is not None else None

    # -- types -----------------------------------------------------------------------------------------------------------
    def accepts(self, builtin: str, dtype: str, feature: str = "plain") -> bool:
        """Whether the kernel takes this dtype. A feature may follow the name of the operator: "MIRROR_PAD reflect"."""
        name, _, named = builtin.partition(" ")
        return self.kernels.accepts(name, dtype, named or feature)

    def require_type(self, dtype: str) -> str:
        """Return the dtype; raise UnsupportedError if the runtime has no tensors of it."""
        if not self.accepts("RESHAPE", dtype):
            raise UnsupportedError("this TFLite runtime has no tensors of %s" % dtype)
        return dtype

    def demand(self, builtin: str, dtype: str, feature: str = "plain") -> None:
        """Raise UnsupportedError if the kernel does not take this dtype."""
        if not self.accepts(builtin, dtype, feature):
            raise self.kernel_error(builtin, dtype, feature)

    def kernel_error(self, builtin: str, dtype: str, feature: str = "plain") -> UnsupportedError:
        """Return the error for a kernel that does not take this dtype, to be raised."""
        suffix = "" if feature == "plain" else " (%s)" % feature
        return UnsupportedError("the %s kernel of TFLite does not take %s%s" % (builtin, dtype, suffix))

    def call_widened(
        self,
        method: Callable[..., Any],
        builtins: Sequence[str],
        x: Handle,
        arguments: Sequence[Any],
        params: Dict[str, Any],
    ) -> Any:
        """Call a method with x, and each operand of its dtype, cast to the next wider dtype; cast the results back.

        `builtins` are the operators that the method needs; the error names the first that lacks x's dtype.
        """
        builtin = next(name for name in builtins if not self.accepts(name, x.dtype))
        wider = self._wider_type(x.dtype, builtin)

        def widen_item(item: Any) -> Any:
            if isinstance(item, (list, tuple)):
                return [widen_item(part) for part in item]
            return self.to(item, wider) if isinstance(item, Handle) and item.dtype == x.dtype else item

        result = method(self, widen_item(x), *widen_item(arguments), **params)
        if isinstance(result, tuple):
            return tuple(self.to(part, x.dtype) if part.dtype == wider else part for part in result)
        return self.to(result, x.dtype) if result.dtype == wider else result

    def _wider_type(self, dtype: str, builtin: str) -> str:
        """Return the next wider dtype; raise UnsupportedError without one."""
        if dtype not in _WIDER:
            raise self.kernel_error(builtin, dtype)
        return _WIDER[dtype]

    def widen(self, x: Handle, builtin: str) -> Handle:
        """Cast x to the next wider dtype, for a kernel that lacks its own."""
        return self.to(x, self._wider_type(x.dtype, builtin))

    def call_in_float32(self, method: Callable[..., Handle], *operands: Optional[Handle], **params: Any) -> Handle:
        """Call a method with the operands in float32, and return its result in float16."""
        single = [None if operand is None else self.to(operand, "float32") for operand in operands]
        return self.to(method(*single, **params), "float16")

    def to(self, x: Handle, dtype: str) -> Handle:
        """Cast x to a dtype, as C does it.

        A kernel that lacks int8 casts it as int32 (pass `int8_casts`).
        """
        if x.dtype == dtype:
            return x
        if x.is_constant and x.array.dtype.kind != "f" and x.dtype != "string":
            return Handle.of(x.array.astype(dtype))
        if x.dtype == "float16" and not self.accepts("CAST", "float16", "to float32"):
            single = self.add_op("DEQUANTIZE", [x], "float32", x.dims)
            return single if dtype == "float32" else self.to(single, dtype)
        before, after = ("int32" if name == "int8" else name for name in (x.dtype, dtype))
        self.demand("CAST", before, "to %s" % after)
        return self.add_op("CAST", [x], dtype, x.dims, in_data_type=x.dtype, out_data_type=dtype)

    # -- constants -------------------------------------------------------------------------------------------------------
    def constant(self, array: np.ndarray, dtype: DType) -> Handle:
        """Return a handle with known elements."""
        return Handle(self.require_type(storage_type(array)), array.shape, array=array)

    def like(self, x: Handle, value: Scalar) -> Handle:
        """Return a constant scalar of x's dtype."""
        return Handle.of(np.asarray(value, x.dtype))

    def ints(self, *values: int) -> Handle:
        """Return a constant int32 vector: the form of shapes, axes and permutations."""
        return Handle.of(narrowing.int32_array(values))

    # -- run-time sizes ------------------------------------------------------------------------------------------------
    def dim(self, handle: Handle, axis: int) -> Any:
        """Return the size of an axis: an int if it is known, else an int32 scalar."""
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
        """Return the shape as an int32 vector."""
        if handle.is_static:
            return self.ints(*handle.dims)
        if handle.index not in self.graph.cache:
            self.graph.cache[handle.index] = self.add_op("SHAPE", [handle], "int32", (handle.rank,), out_type="int32")
        return self.graph.cache[handle.index]

    def element(self, handle: Handle, index: Optional[int]) -> Any:
        """Return an element of an integer vector: an int if it is known, else a scalar.

        The scalar is int64 where the element may exceed int32, else int32. See `promoted` and `stack`.
        """
        if handle.is_constant:
            return int(handle.array.reshape(-1)[index or 0])
        vector = handle if narrowing.may_overflow(handle) else self.to(handle, "int32")
        if index is None:
            return vector
        ends = [self.ints(index), self.ints(index + 1), self.ints(1)]
        return self.add_op("STRIDED_SLICE", [vector, *ends], vector.dtype, (), shrink_axis_mask=1)

    def promote(self, a: Handle, b: Handle) -> Tuple[Handle, Handle]:
        """Return two sizes in one dtype: int64 if either is int64. They are narrowed where a kernel takes them."""
        if a.dtype == b.dtype:
            return a, b
        return self.to(a, "int64"), self.to(b, "int64")

    def stack(self, scalars: Sequence[Any]) -> Handle:
        """Return sizes as an int32 vector. Among int64 elements, bounds of a slice are clamped, and other sizes
        checked.
        """
        if any(isinstance(size, Handle) and size.dtype == "int64" for size in scalars):
            return narrowing.narrow_stack(self, scalars)
        handles = [self.scalar(value) for value in scalars]
        if all(handle.is_constant for handle in handles):
            return self.ints(*[int(handle.array) for handle in handles])
        return self.add_op("PACK", handles, "int32", (len(handles),), values_count=len(handles), axis=0)

    def scalar(self, size: Union[int, Handle]) -> Handle:
        """Return a size as an int32 scalar."""
        if isinstance(size, Handle):
            return narrowing.narrow_checked(self, size) if size.dtype == "int64" else size
        return Handle.of(narrowing.int32_array(size))

    def placeholder(self, spec: Spec) -> Handle:
        """Return an input of the subgraph that stands for an unknown value."""
        dims = tuple(size if is_static(size) else None for size in spec.shape)
        return self.graph.add_input("scratch", self.require_type(storage_type(spec.dtype.numpy)), dims)

    def finish(self, handle: Handle, dtype: DType) -> Handle:
        """Round a result to its dtype, and take over the sizes that the trace knows."""
        dims = handle.dims
        handle = super().finish(handle, dtype)
        handle.dims = dims  # the program that rounds serves all sizes, and knows none of them
        if len(self.node.outputs) == 1 and not handle.is_constant:
            self.refine(handle, self.out.shape)
        return handle

    def name_value(self, handle: Handle, name: str) -> None:
        """Name the tensor of a value of the main subgraph."""
        if not handle.is_constant and self.graph is self.graphs[0]:
            self.graph.name_tensor(handle, name)

    def refine(self, handle: Handle, dims: Sequence[Any]) -> Handle:
        """Replace unknown sizes of a result by those that the caller knows, and return the result."""
        if len(dims) == handle.rank:
            handle.dims = tuple(choose_known_size(a, b) for a, b in zip(handle.dims, dims))
            tensor = self.graph.spec.tensors[handle.index]
            tensor.shape = tuple(max(size, 1) if size < 0 else size for size in handle.signature)
            tensor.shape_signature = None if handle.is_static else handle.signature
        return handle


def choose_known_size(a: Size, b: Size) -> Any:
    """Return the more informative of two descriptions of a size."""
    return a if isinstance(a, int) or b is None else b


def is_same_shape(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two shapes are provably equal."""
    return len(a) == len(b) and all(x is not None and y is not None and is_equal(x, y) for x, y in zip(a, b))
