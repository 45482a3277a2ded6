"""Record the primitives that a function over Tensors applies: as nodes to emit later, or to execute at once.

A trace belongs to one thread and one conversion, and shares no state with another trace. A primitive gets its trace
from `current_trace()`.
"""

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from onnx_compat import limits
from onnx_compat.errors import NeedsKnownError
from onnx_compat.ir import Arg, Const, Extents, Node, Origin, Ref, Region, Spec, Target, TensorArg
from onnx_compat.ir.dims import Dim, Extent, is_static, is_within_limits
from onnx_compat.ir.dtypes import DType
from onnx_compat.ir.rewriter import copy_nodes
from onnx_compat.tracing.addressable import check_addressable
from onnx_compat.tracing.values import Order, Tensor

if TYPE_CHECKING:
    from onnx_compat.shim.interface import Emitter

__all__ = ["Trace", "current_trace"]

_STATE = threading.local()


def current_trace() -> "Trace":
    """Return the innermost active trace of this thread.

    If no trace is active, return a trace that computes with known values and raises NeedsKnownError for other values.
    """
    stack = getattr(_STATE, "stack", None)
    return stack[-1] if stack else _KNOWN_ONLY


class Trace:
    """Records nodes into the innermost open region, or executes them at once.

    - target: the target of the recording; None if no node depends on a target.
    - immediate: an emitter that executes each node when it is applied, or None. With it, every size is an int, and
      every value can be read.
    """

    def __init__(self, target: Optional[Target] = None, immediate: "Optional[Emitter]" = None) -> None:
        self.target = target
        self.layout, self.filter_layout, self.integers = target or Target()
        self.immediate = immediate
        self.origin: Optional[Origin] = None
        self.regions: List[Region] = []
        #: The number of elements that the model stores as initializers, and that large folded values have in total.
        self.stored_elements = self.folded_elements = 0
        #: The number of nodes that are recorded, and how often the loops that are being unrolled repeat the open body.
        self.recorded_nodes, self.unrolled_rounds = 0, 1
        #: For each loop body that is recorded, the types of its states. They are used while an outer body is traced again.
        self.loop_states: Dict[object, Sequence[Spec]] = {}
        self.is_retracing = False
        #: Sizes that the nodes take for positive, and that have another meaning if they are 0 at run time.
        self.sizes_unlike_0: List[Extent] = []
        self._constants: Dict[Tuple[int, DType, Order], Tuple[np.ndarray, Const]] = {}
        self._permuted: Dict[Tuple[Ref, Tuple[int, ...]], Ref] = {}
        self._reshape_sources: Dict[Ref, Tensor] = {}

    @contextmanager
    def active(self) -> Iterator["Trace"]:
        """Make this trace the current trace of the thread inside the block. Yield the trace. Blocks can be nested."""
        stack = _STATE.__dict__.setdefault("stack", [])
        stack.append(self)
        try:
            yield self
        finally:
            stack.pop()

    # -- regions -------------------------------------------------------------------------------------------------------
    def region(self, specs: Sequence[Spec], body: Callable[..., Sequence[Tensor]]) -> Region:
        """Call `body` with a Tensor for each type in `specs`. Return a region of the recorded nodes and results.

        The results of `body` are the outputs of the region, stored in logical order. A size in `specs` may be None
        (unknown) or a name: equal names become equal symbolic sizes. Errors of `body` propagate.
        """
        names: Dict[str, Dim] = {}
        region = Region([_name_open_sizes(Ref(spec), names) for spec in specs], self.target)
        self._fill(region, lambda: body(*map(_tensor_of, region.inputs)))
        return region

    def extend(self, region: Region, specs: Sequence[Spec], body: Callable[..., Sequence[Tensor]]) -> None:
        """Append inputs and nodes to a recorded region that is not used yet. The results of `body` are its outputs.

        `specs` are the types of the new inputs. `body` gets the list of the outputs so far, and the list of the new
        inputs, both as Tensors. Errors of `body` propagate. Raises LimitError if a new input exceeds `tensor_elements`.
        """
        added = tuple(_name_open_sizes(Ref(spec), {}) for spec in specs)
        outputs = [_tensor_of(output) for output in region.outputs]
        region.inputs += added
        self._fill(region, lambda: body(outputs, [_tensor_of(ref) for ref in added]))

    def _fill(self, region: Region, body: Callable[[], Sequence[Tensor]]) -> None:
        """Call `body` while `region` is the innermost open region. Its results become the outputs of the region."""
        outer_permuted, self._permuted = (
            self._permuted,
            dict(self._permuted),
        )  # a value of the region is not in scope outside
        self.regions.append(region)
        try:
            outputs = body()
            region.outputs = tuple(self.argument(output) for output in outputs)
        finally:
            self.regions.pop()
            self._permuted = outer_permuted

    # -- recording -----------------------------------------------------------------------------------------------------
    def record(
        self,
        primitive: str,
        args: Sequence[Arg],
        params: Dict[str, Any],
        specs: Sequence[Spec],
        regions: Sequence[Region] = (),
    ) -> List[Ref]:
        """Record a node that applies a primitive to physical arguments. Return its results, in order.

        `specs` are the physical types of the results. A size of None becomes symbolic: the length of the result's own
        axis. An immediate trace executes the node instead, and the results have their actual sizes.

        - Raises UnsupportedError for a result or a padded image that no process can address, and if an immediate
          trace cannot execute the node.
        - Raises LimitError if the program has too many nodes, or a result exceeds the limit `tensor_elements`.
        """
        check_addressable(specs, args, params, self.layout)
        node = Node(primitive, args, params, specs, self.origin or _producer_origin(args), regions)
        if self.immediate is not None:
            from onnx_compat.shim.emission import execute

            execute(node, self.immediate)
        else:
            self.recorded_nodes += 1
            limits.check("nodes", self.recorded_nodes, "the program of the model")
            self.regions[-1].nodes.append(node)
        return [_name_open_sizes(ref) for ref in node.outputs]

    def replay(self, region: Region, values: Mapping[Ref, Ref]) -> List[Tensor]:
        """Record copies of the live nodes of a recorded region. Return its outputs as Tensors.

        `values` maps the inputs of the region to the values that replace them, and may replace values of enclosing
        regions. Raises LimitError if the program has too many nodes.
        """
        nodes, outputs = copy_nodes(region, values)
        self.recorded_nodes += len(nodes)
        limits.check("nodes", self.recorded_nodes, "the program of the model")
        self.regions[-1].nodes.extend(nodes)
        return [_tensor_of(output) for output in outputs]

    def constant(self, array: np.ndarray, dtype: DType, order: Order = None, weight: Optional[str] = None) -> Const:
        """Return an array in logical order as a `Const` in the physical order `order`: a transposed view, no copy.

        `weight`: the name of the weight that the array was computed from, if there is one. Calls with the same array
        object, dtype and order return the first call's `Const`. Two dtypes may have the same carrier.
        """
        key = (id(array), dtype, order)
        if key not in self._constants:
            stored = array if order is None else array.transpose(order)
            self._constants[key] = (array, Const(stored, dtype, weight))
        return self._constants[key][1]

    def argument(self, tensor: Tensor, order: Order = None) -> TensorArg:
        """Return a tensor as an argument, a `Const` or a `Ref`, that is stored in `order`; None is the logical order.

        A known tensor gives a `Const`. For symbolic sizes, an `extents` node is recorded. A run-time value that is
        stored in another order is transposed once: a `transpose` node is recorded, or a `reshape` if only axes of
        length one move. Pending permutations are recorded here and nowhere else.
        """
        if tensor.value is not None:
            if tensor.known:
                return self.constant(tensor.value, tensor.dtype, order, tensor.weight)
            return self._extents(tensor, order)
        assert tensor.ref is not None
        here = tensor.order or tuple(range(tensor.rank))
        there = order or tuple(range(tensor.rank))
        if here == there:
            return tensor.ref
        perm = tuple(here.index(axis) for axis in there)
        if (tensor.ref, perm) not in self._permuted:
            self._permuted[tensor.ref, perm] = self._transpose(tensor.ref, perm)
        return self._permuted[tensor.ref, perm]

    def _transpose(self, ref: Ref, perm: Tuple[int, ...]) -> Ref:
        """Record a transpose of a value, or a reshape if only axes of length one move. Return the result."""
        shape = tuple(ref.spec.shape[axis] for axis in perm)
        spec = Spec(ref.spec.dtype, shape)
        long_axes = [axis for axis in perm if not (is_static(ref.spec.shape[axis]) and ref.spec.shape[axis] == 1)]
        if long_axes == sorted(long_axes):  # only axes of length one move, so the data does not
            return self.record("reshape", (ref, Extents(shape)), {}, [spec])[0]
        return self.record("transpose", (ref,), {"perm": perm}, [spec])[0]

    def _extents(self, tensor: Tensor, order: Order) -> Ref:
        """Record a node for an integer tensor with symbolic elements, and return its reference.

        The elements of the node and its shape are in the physical order `order`.
        """
        assert tensor.value is not None
        values = tensor.value if order is None else tensor.value.transpose(order)
        spec = Spec(tensor.dtype, values.shape)
        sizes = Extents(tuple(values.reshape(-1)))
        return self.record("extents", (sizes,), {"shape": spec.shape, "dtype": spec.dtype}, [spec])[0]

    def remember(self, result: Tensor, source: Tensor) -> None:
        """Remember `source` as the operand of the reshape that gave `result`, for the method `source`.

        A later reshape of `result` to the shape of `source` can then return `source`. Nothing is remembered in these
        cases:

        - `source` has no pending order, or `result` has a pending order: the reshape recorded no transpose.
        - `result` is not a run-time value.
        - The trace executes at once: the transpose is executed already.
        """
        if self.immediate is None and result.ref is not None and source.order is not None and result.order is None:
            self._reshape_sources[result.ref] = source

    def source(self, tensor: Tensor) -> Optional[Tensor]:
        """Return the tensor that `remember` noted as the operand of the reshape to `tensor`; None if it noted none."""
        return None if tensor.ref is None or tensor.order is not None else self._reshape_sources.get(tensor.ref)

    # -- values --------------------------------------------------------------------------------------------------------
    def peek(self, tensor: Tensor) -> Optional[np.ndarray]:
        """Return the elements of a tensor as a carrier array in logical order, or None if they are not available.

        They are available if the tensor is known, or if the trace executes at once. Symbolic sizes are not available.
        """
        if tensor.known:
            return tensor.value
        if self.immediate is None:
            return None
        array: np.ndarray = self.immediate.fetch(self._handle(tensor))
        return array.astype(tensor.dtype.numpy, copy=False)

    def demand(self, tensor: Tensor, subject: str) -> np.ndarray:
        """Return the elements of a tensor, as `peek` does. Raises NeedsKnownError where `peek` returns None.

        `subject` describes the tensor in the error.
        """
        array = self.peek(tensor)
        if array is None:
            raise NeedsKnownError(
                "%s must be known when the model is prepared, and depends on run-time values" % subject,
                tensor,
                hint="give the graph input that it comes from a fixed value (an initializer)",
            )
        return array

    def _handle(self, tensor: Tensor) -> Any:
        arg = self.argument(tensor)
        assert isinstance(arg, Ref)
        return arg.handle


def _tensor_of(arg: Arg) -> Tensor:
    """Return a run-time value or a constant, stored in logical order, as a Tensor."""
    assert isinstance(arg, (Ref, Const))
    if isinstance(arg, Const):
        return Tensor(arg.spec.dtype, arg.spec.shape, arg.array)
    return Tensor(arg.spec.dtype, arg.spec.shape, ref=arg)


def _producer_origin(args: Sequence[Arg]) -> Optional[Origin]:
    """Return the origin of the producer of the first argument that a node computes; None if no node computes one.

    Nodes that are recorded outside of any ONNX node take this origin, such as the transpose of a graph output.
    """
    return next((arg.node.origin for arg in args if isinstance(arg, Ref) and arg.node is not None), None)


def _name_open_sizes(ref: Ref, names: Optional[Dict[str, Dim]] = None) -> Ref:
    """Replace None and names in the shape of `ref` by symbolic sizes, in place. Return `ref`.

    - None, or a symbolic size above the limits: replaced by a new symbol, which stands for the size of this axis.
    - A name: replaced by the symbol that `names` has for it. For a new name, a new symbol is added to `names`.
    - A name, if `names` is None: unchanged.

    Raises LimitError if the static sizes of the shape have a product above the limit `tensor_elements`.
    """
    if not all(isinstance(extent, int) for extent in ref.spec.shape):
        shape: List[Any] = list(ref.spec.shape)
        for axis, extent in enumerate(shape):
            if extent is None or (isinstance(extent, Dim) and not is_within_limits(extent)):
                shape[axis] = Dim.atom("axis", ref, axis)
            elif isinstance(extent, str) and names is not None:
                shape[axis] = names.setdefault(extent, Dim.atom("axis", ref, axis))
        ref.spec = Spec(ref.spec.dtype, tuple(shape))
    check_tensor_size(ref.spec.shape)
    return ref


def check_tensor_size(shape: Sequence[Any], subject: Optional[str] = None) -> None:
    """Raise LimitError if the product of the static sizes exceeds the limit `tensor_elements`.

    A size of None, a name or a symbolic size counts as 1. `subject` names the tensor in the error.
    """
    count = 1
    for extent in shape:
        if isinstance(extent, (int, np.integer)):
            count *= int(extent)
    if count > limits.limit("tensor_elements"):
        raise limits.limit_error("tensor_elements", subject or "a tensor of shape %s" % list(shape), count)


class _KnownOnly(Trace):
    """The trace that is current while no trace is active. It folds known values and cannot record."""

    def record(self, primitive: str, *args: Any, **kwargs: Any) -> List[Ref]:
        """Raise NeedsKnownError: a node cannot be recorded outside of a trace."""
        raise NeedsKnownError("primitive '%s' was applied to an unknown value outside of a trace" % primitive)


_KNOWN_ONLY = _KnownOnly()
