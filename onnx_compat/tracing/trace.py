"""Recording what a function over Tensors does: as nodes to be emitted later, or executed as it goes.

A trace belongs to one thread and one conversion; nothing is shared between two of them. `current()` is how a primitive
finds it.
"""

import threading
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.errors import NeedsKnownError
from onnx_compat.ir import Arg, Const, Extents, Node, Origin, Ref, Region, Spec, Target
from onnx_compat.ir.dims import Dim, is_static
from onnx_compat.ir.dtypes import DType
from onnx_compat.tracing.values import Order, Tensor

__all__ = ["Trace", "current_trace"]

_STATE = threading.local()


def current_trace() -> "Trace":
    """The trace under way in this thread."""
    stack = getattr(_STATE, "stack", None)
    return stack[-1] if stack else _KNOWN_ONLY


class Trace:
    """Records nodes into the innermost open region. With `immediate` set, also executes each one at once: then every
    size is a number and every value can be looked at, which is how a model runs that no compiled form can express.
    """

    def __init__(self, target: Optional[Target] = None, immediate: Any = None) -> None:
        """`target`: what the recording is for; None: nothing in it depends on a target."""
        self.target = target
        self.layout, self.filter_layout, self.integers = target or Target()
        self.immediate = immediate
        self.origin: Optional[Origin] = None
        self.regions: List[Region] = []
        self._constants: Dict[Tuple[int, Order], Tuple[np.ndarray, Const]] = {}
        self._arranged: Dict[Tuple[Ref, Tuple[int, ...]], Ref] = {}
        self._sources: Dict[Ref, Tensor] = {}

    @contextmanager
    def active(self) -> Iterator["Trace"]:
        stack = _STATE.__dict__.setdefault("stack", [])
        stack.append(self)
        try:
            yield self
        finally:
            stack.pop()

    # -- regions -------------------------------------------------------------------------------------------------------
    def region(self, specs: Sequence[Spec], body: Callable[..., Sequence[Tensor]]) -> Region:
        """Record `body`, called with one Tensor per spec, as a region of its own. Its outputs have no pending order.

        A size may be a name: the same name is the same unknown size.
        """
        names: Dict[str, Dim] = {}
        region = Region([_settled(Ref(spec), names) for spec in specs], self.target)
        arranged, self._arranged = self._arranged, dict(self._arranged)  # made inside, it does not exist outside
        self.regions.append(region)
        try:
            outputs = body(*[Tensor(ref.spec.dtype, ref.spec.shape, ref=ref) for ref in region.inputs])
            region.outputs = tuple(self.argument(output) for output in outputs)
        finally:
            self.regions.pop()
            self._arranged = arranged
        return region

    # -- recording -----------------------------------------------------------------------------------------------------
    def record(
        self,
        primitive: str,
        args: Sequence[Arg],
        params: Dict[str, Any],
        specs: Sequence[Spec],
        regions: Sequence[Region] = (),
    ) -> List[Ref]:
        """One application of a primitive to physical arguments. Sizes that are unknown are the result's own."""
        node = Node(primitive, args, params, specs, self.origin or _made_for(args), regions)
        if self.immediate is not None:
            from onnx_compat.shim.emission import execute

            execute(node, self.immediate)
        else:
            self.regions[-1].nodes.append(node)
        return [_settled(ref) for ref in node.outputs]

    def constant(self, array: np.ndarray, dtype: DType, order: Order = None) -> Const:
        """The array as an argument, in a physical order. A view of it: nothing is copied until it is written."""
        key = (id(array), order)
        if key not in self._constants:
            self._constants[key] = (array, Const(array if order is None else array.transpose(order), dtype))
        return self._constants[key][1]

    def argument(self, tensor: Tensor, order: Order = None) -> Arg:
        """The tensor as an argument laid out in `order`. Only here is a pending permutation ever carried out."""
        if tensor.value is not None:
            if tensor.known:
                return self.constant(tensor.value, tensor.dtype, order)
            return self._extents(tensor, order)
        assert tensor.ref is not None
        here = tensor.order or tuple(range(tensor.rank))
        there = order or tuple(range(tensor.rank))
        if here == there:
            return tensor.ref
        perm = tuple(here.index(axis) for axis in there)
        if (tensor.ref, perm) not in self._arranged:
            self._arranged[tensor.ref, perm] = self._transposed(tensor.ref, perm)
        return self._arranged[tensor.ref, perm]

    def _transposed(self, ref: Ref, perm: Tuple[int, ...]) -> Ref:
        shape = tuple(ref.spec.shape[axis] for axis in perm)
        spec = Spec(ref.spec.dtype, shape)
        moved = [axis for axis in perm if not (is_static(ref.spec.shape[axis]) and ref.spec.shape[axis] == 1)]
        if moved == sorted(moved):  # only axes of length one change place: the data stays where it is
            return self.record("reshape", (ref, Extents(shape)), {}, [spec])[0]
        return self.record("transpose", (ref,), {"perm": perm}, [spec])[0]

    def _extents(self, tensor: Tensor, order: Order) -> Ref:
        """Record a tensor of symbolic sizes, with its elements and its shape in the physical order."""
        assert tensor.value is not None
        values = tensor.value if order is None else tensor.value.transpose(order)
        spec = Spec(tensor.dtype, values.shape)
        sizes = Extents(tuple(values.reshape(-1)))
        return self.record("extents", (sizes,), {"shape": spec.shape, "dtype": spec.dtype}, [spec])[0]

    def remember(self, made: Tensor, source: Tensor) -> None:
        """That a value is another one under another shape, for which it had to be put in order. (An execution has done it.)"""
        if self.immediate is None and made.ref is not None and source.order is not None and made.order is None:
            self._sources[made.ref] = source

    def source(self, tensor: Tensor) -> Optional[Tensor]:
        """What a value is another shape of, as it was before it was put in order; None where there is no such value."""
        return None if tensor.ref is None or tensor.order is not None else self._sources.get(tensor.ref)

    # -- values --------------------------------------------------------------------------------------------------------
    def peek(self, tensor: Tensor) -> Optional[np.ndarray]:
        """Its numbers if they can be had now, else None."""
        if tensor.known:
            return tensor.value
        if self.immediate is None:
            return None
        array: np.ndarray = self.immediate.fetch(self._handle(tensor))
        return array.astype(tensor.dtype.numpy, copy=False)

    def demand(self, tensor: Tensor, what: str) -> np.ndarray:
        """Its numbers, now; or the error that makes the caller specialise on them."""
        array = self.peek(tensor)
        if array is None:
            raise NeedsKnownError(
                "%s must be known when the model is prepared, and depends on run-time values" % what,
                tensor,
                hint="give the graph input that it comes from a fixed value (an initializer)",
            )
        return array

    def _handle(self, tensor: Tensor) -> Any:
        arg = self.argument(tensor)
        assert isinstance(arg, Ref)
        return arg.handle


def _made_for(args: Sequence[Arg]) -> Optional[Origin]:
    """What is recorded after the last node (an output that is put in order) belongs to the node that made the value."""
    return next((arg.node.origin for arg in args if isinstance(arg, Ref) and arg.node is not None), None)


def _settled(ref: Ref, names: Optional[Dict[str, Dim]] = None) -> Ref:
    """A size that no rule could tell (None) is a symbol of its own: the length of this very axis."""
    if any(extent is None or isinstance(extent, str) for extent in ref.spec.shape):
        shape: List[Any] = list(ref.spec.shape)
        for axis, extent in enumerate(shape):
            if extent is None:
                shape[axis] = Dim.atom("axis", ref, axis)
            elif isinstance(extent, str) and names is not None:
                shape[axis] = names.setdefault(extent, Dim.atom("axis", ref, axis))
        ref.spec = Spec(ref.spec.dtype, tuple(shape))
    return ref


class _KnownOnly(Trace):
    """Outside of any trace only known values can be computed with."""

    def record(self, primitive: str, *args: Any, **kwargs: Any) -> List[Ref]:
        raise NeedsKnownError("primitive '%s' was applied to an unknown value outside of a trace" % primitive)


_KNOWN_ONLY = _KnownOnly()
