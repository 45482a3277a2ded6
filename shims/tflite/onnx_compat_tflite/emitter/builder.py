"""The builder: the interface over which all parts of the emitter append operators.

It has operators, constants, dtypes of kernels, and sizes. A part is a module of functions that take the builder first.
"""

from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from onnx_compat.shim import DType, Node, Spec, UnsupportedError, is_static
from onnx_compat_tflite.emitter.int32_range import int32_array, keeps_int32
from onnx_compat_tflite.emitter.known_shapes import choose_known_size
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.subgraph_builder import Graph, Handle, storage_type

__all__ = ["Attributes", "Bodies", "Body", "Builder", "Scalar"]

#: Operators whose result can be infinite where an operand is.
_KEEPS_INFINITY = frozenset(
    "SELECT_V2 ADD SUB RESHAPE TRANSPOSE BROADCAST_TO CONCATENATION SLICE STRIDED_SLICE TILE EXPAND_DIMS GATHER"
    " MAXIMUM MINIMUM PADV2 PACK SQUEEZE FILL REDUCE_MAX REDUCE_MIN".split()
)
#: The attributes of an ONNX node by name, as a native gets them.
Attributes = Mapping[str, Any]
#: A region of a loop or branch, as a function of its inputs and captures.
Body = Callable[..., Sequence[Handle]]
Bodies = Sequence[Body]
#: A number that becomes a constant.
Scalar = Union[bool, int, float, np.generic]


class _Subgraphs:
    """The subgraphs of a model. `open_graphs` is a stack: operators are appended to the last, the innermost."""

    def __init__(self) -> None:
        self.graphs = [Graph("main")]
        self.open_graphs = [self.graphs[0]]


class Builder:
    """Append operators to the innermost open subgraph, for one node or for none.

    The builders of all nodes of a model share its subgraphs. The node of a builder never changes: `at` returns a
    builder for another node.
    """

    def __init__(self, kernels: Kernels, subgraphs: Optional[_Subgraphs] = None, node: Optional[Node] = None) -> None:
        self.kernels = kernels
        self._subgraphs = _Subgraphs() if subgraphs is None else subgraphs
        self._node = node
        #: Without XNNPACK, kernels of arithmetic clamp their results to the finite numbers: see `kernels`.
        self.finite_arithmetic = not kernels.quirks.keeps_infinity

    # -- the node ------------------------------------------------------------------------------------------------------
    def at(self, node: Node) -> "Builder":
        """Return a builder for a node of the same model. Its operators are named after the node."""
        return Builder(self.kernels, self._subgraphs, node)

    @property
    def node(self) -> Node:
        """The node of this builder. Raises AttributeError without a node."""
        if self._node is None:
            raise AttributeError("this builder has no node")
        return self._node

    @property
    def out(self) -> Spec:
        """The physical type of the first result of the node. Raises AttributeError without a node."""
        return self.node.outputs[0].spec

    # -- subgraphs and operators ---------------------------------------------------------------------------------------
    @property
    def graphs(self) -> List[Graph]:
        """All subgraphs. The first is the main subgraph."""
        return self._subgraphs.graphs

    @property
    def graph(self) -> Graph:
        """The innermost open subgraph."""
        return self._subgraphs.open_graphs[-1]

    @contextmanager
    def subgraph(self, name: str) -> Iterator[Tuple[int, Graph]]:
        """Open a new subgraph for a `with` block. The value of the `with` statement is (index, graph).

        Inside the block, operators are appended to the new subgraph.

        The name of the subgraph is `name`, an underscore and the index: "then_1".
        """
        graph = Graph("%s_%d" % (name, len(self.graphs)))
        self.graphs.append(graph)
        self._subgraphs.open_graphs.append(graph)
        try:
            yield len(self.graphs) - 1, graph
        finally:
            self._subgraphs.open_graphs.pop()

    def add_op(
        self, builtin: str, inputs: Sequence[Optional[Handle]], dtype: str, dims: Sequence[Any], **options: Any
    ) -> Handle:
        """Append an operator with one result of this dtype and these sizes, and return the result.

        An input of None is an omitted input. The flags `has_infinite` and `fits_int32` of the result are set.

        Raises UnsupportedError if the runtime has no tensors of the dtype. It is not checked whether the kernel accepts
        the inputs.
        """
        result = self.graph.add(builtin, inputs, self.require_type(dtype), dims, self._operator_name(), **options)
        if self.finite_arithmetic and dtype == "float32" and builtin in _KEEPS_INFINITY:
            result.has_infinite = any(operand is not None and self.may_be_infinite(operand) for operand in inputs)
        if self.finite_arithmetic and builtin == "LOG":
            result.has_infinite = True
        if dtype == "int64":
            result.fits_int32 = keeps_int32(builtin, inputs)
        return result

    def add_ops(
        self, builtin: str, inputs: Sequence[Optional[Handle]], results: Sequence[Tuple[str, Any]], **options: Any
    ) -> List[Handle]:
        """Append one operator with several results, each given as (dtype, sizes), and return the results in order.

        An input of None is an omitted input. The dtypes are not checked against the runtime.
        """
        return self.graph.add_many(builtin, inputs, results, self._operator_name(), **options)

    def _operator_name(self) -> Optional[str]:
        """Return the name of the ONNX node. Returns None if the builder has no node, or if the node has no origin."""
        return self._node.origin.node if self._node is not None and self._node.origin is not None else None

    def may_be_infinite(self, x: Handle) -> bool:
        """Whether x may be infinite, as far as the emitter tracks infinity. True in these cases:

        - x is a float32 constant with an infinity.
        - x is a result of LOG.
        - x is computed from such a constant or result by operators of `_KEEPS_INFINITY`, in float32.

        False for any other computed tensor. If the runtime does not clamp infinity (`finite_arithmetic` is False), the
        result is False for every computed tensor.
        """
        return bool(x.dtype == "float32" and np.isinf(x.array).any()) if x.is_constant else x.has_infinite

    # -- types -----------------------------------------------------------------------------------------------------------
    def accepts(self, builtin: str, dtype: str, feature: str = "plain") -> bool:
        """Whether the kernel of the op `builtin` computes correct numbers for this dtype with this feature.

        `feature` is a use that `kernel_facts` lists, such as "broadcast rank 5". False if the use was not measured. A
        feature at the end of `builtin` replaces `feature`: "MIRROR_PAD reflect" is MIRROR_PAD with "reflect".
        """
        name, _, named = builtin.partition(" ")
        return self.kernels.accepts(name, dtype, named or feature)

    def require_type(self, dtype: str) -> str:
        """Return the dtype; raise UnsupportedError if the runtime has no tensors of this dtype."""
        if not self.accepts("RESHAPE", dtype):
            raise UnsupportedError("this TFLite runtime has no tensors of %s" % dtype)
        return dtype

    def demand(self, builtin: str, dtype: str, feature: str = "plain") -> None:
        """Raise UnsupportedError unless `accepts` holds: the kernel of `builtin` takes this dtype with this feature."""
        if not self.accepts(builtin, dtype, feature):
            raise self.kernel_error(builtin, dtype, feature)

    def kernel_error(self, builtin: str, dtype: str, feature: str = "plain") -> UnsupportedError:
        """Return, without raising it, the error for a kernel that does not take this dtype with this feature."""
        suffix = "" if feature == "plain" else " (%s)" % feature
        return UnsupportedError("the %s kernel of TFLite does not take %s%s" % (builtin, dtype, suffix))

    # -- constants and inputs --------------------------------------------------------------------------------------------
    def constant(self, array: np.ndarray, dtype: DType) -> Handle:
        """Return the handle of a constant with the elements and dtype of `array`. `dtype` is not read.

        Raises UnsupportedError if the runtime has no tensors of the array's dtype.
        """
        return Handle(self.require_type(storage_type(array)), array.shape, array=array)

    def like(self, x: Handle, value: Scalar) -> Handle:
        """Return the number `value` as a constant scalar of x's dtype."""
        return Handle.of(np.asarray(value, x.dtype))

    def ints(self, *values: int) -> Handle:
        """Return a constant int32 vector: the form of shapes, axes and permutations.

        Raises UnsupportedError for a number that does not fit int32.
        """
        return Handle.of(int32_array(values))

    def placeholder(self, spec: Spec) -> Handle:
        """Append an input to the innermost open subgraph, and return its handle.

        The input has the dtype and shape of `spec`; symbolic sizes become unknown. Raises UnsupportedError if the
        runtime has no tensors of the dtype.
        """
        dims = tuple(size if is_static(size) else None for size in spec.shape)
        return self.graph.add_input("scratch", self.require_type(storage_type(spec.dtype.numpy)), dims)

    # -- shapes --------------------------------------------------------------------------------------------------------
    def dim(self, handle: Handle, axis: int) -> Any:
        """Return the size of an axis: an int if it is known, else an int32 scalar tensor.

        `axis` is not negative. A scalar is computed once per subgraph.
        """
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
        """Return the shape of a tensor as an int32 vector: a constant if static, else computed once per subgraph."""
        if handle.is_static:
            return self.ints(*handle.dims)
        if handle.index not in self.graph.cache:
            self.graph.cache[handle.index] = self.add_op("SHAPE", [handle], "int32", (handle.rank,), out_type="int32")
        return self.graph.cache[handle.index]

    def refine(self, handle: Handle, dims: Sequence[Any]) -> Handle:
        """Replace unknown and symbolic sizes of a computed tensor by `dims`, in place, and return the handle.

        - A size of the handle that is an int is not changed.
        - None in `dims` changes nothing.
        - If `dims` has another rank than the handle, nothing is changed.

        The handle must be a tensor of the innermost open subgraph, not a constant.
        """
        if len(dims) == handle.rank:
            handle.dims = tuple(choose_known_size(a, b) for a, b in zip(handle.dims, dims))
            tensor = self.graph.spec.tensors[handle.index]
            tensor.shape = tuple(max(size, 1) if size < 0 else size for size in handle.signature)
            tensor.shape_signature = None if handle.is_static else handle.signature
        return handle

    def name_value(self, handle: Handle, name: str) -> None:
        """Rename the tensor of a computed value to `name`, if the innermost open subgraph is the main subgraph.

        Does nothing for a constant, for an input, for a tensor that was renamed before, and for a name that is not
        printable.
        """
        if not handle.is_constant and self.graph is self.graphs[0]:
            self.graph.name_tensor(handle, name)
