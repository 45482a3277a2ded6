"""The intermediate representation in SSA form: nodes that apply primitives to values, in recording order.

It depends neither on ONNX nor on a framework. Shapes are physical (in the layout of the target); sizes may be symbolic.
A `Region` is a straight-line sequence of nodes with inputs and outputs: the body of the model, a branch, a loop body.
"""

import itertools
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

import numpy as np

from onnx_compat.ir.dims import Extent, atoms_of, is_static
from onnx_compat.ir.dtypes import DType

__all__ = ["Arg", "Const", "Extents", "Node", "Origin", "Ref", "Region", "Spec", "Target", "input_dependencies", "refs"]


#: Serial numbers of values, in the order of their creation. An iterator of itertools is safe among threads.
_SERIALS = itertools.count()


class Target(NamedTuple):
    """The properties of an emitter that a recording depends on.

    A program that is recorded for a target gives wrong results on an emitter with another target.
    """

    #: 'channels_last' or 'channels_first': the layout of the images of convolutions and pools.
    layout: str = "channels_first"
    #: The layout of a filter: O output channels, I input channels, HW all spatial axes.
    filter_layout: str = "OIHW"
    #: Whether operators on quantized numbers are recorded as DequantizeLinear, operator, QuantizeLinear.
    integers: bool = False

    def __str__(self) -> str:
        return "%s, filters %s%s" % (self.layout, self.filter_layout, ", integers" if self.integers else "")


class Spec(NamedTuple):
    """The type of a tensor: its dtype and its shape.

    A size in the shape is an int or a symbolic `Dim`. Before recording, a size may also be a name, or None if it is
    unknown. Sizes with the same name are equal.
    """

    dtype: DType
    shape: Tuple[Any, ...]

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def static(self) -> bool:
        """Whether no size is a symbolic `Dim`. In a recorded node every size is then an int."""
        return all(map(is_static, self.shape))


class Origin(NamedTuple):
    """The ONNX node that a primitive was recorded for: its name, operator and opset, for error messages."""

    node: str
    operator: str
    opset: int


class Ref:
    """A tensor that is computed at run time (an SSA value): an output of a node, or an input of a region.

    - spec: its dtype and shape.
    - node: the node that computes it; None for an input of a region.
    - name: its name in the model, or None.
    - handle: the framework's tensor, if the trace executes each node at once; else None.
    - serial: a number that rises with each new value. It gives symbolic sizes the same order in every process.
    """

    __slots__ = ("handle", "name", "node", "serial", "spec")

    def __init__(self, spec: Spec, node: "Optional[Node]" = None) -> None:
        self.spec = spec
        self.node = node
        self.name: Optional[str] = None
        self.handle: Any = None
        self.serial = next(_SERIALS)

    def __repr__(self) -> str:
        return "%s%s" % (self.spec.dtype.name, list(self.spec.shape))


class Const:
    """A tensor that is known while tracing: an array with the carrier dtype of `dtype`.

    `weight` is the name of the float weight of the model that the array was computed from. It is None for any other
    constant. Compared by identity: an array that is wrapped twice is stored twice.
    """

    __slots__ = ("array", "spec", "weight")

    def __init__(self, array: np.ndarray, dtype: DType, weight: Optional[str] = None) -> None:
        self.array = array
        self.spec = Spec(dtype, tuple(array.shape))
        self.weight = weight


class Extents:
    """A list of sizes as an argument of a node: ints, and symbolic `Dim`s, whose values are computed at run time."""

    __slots__ = ("dims",)

    def __init__(self, dims: Sequence[Extent]) -> None:
        self.dims = tuple(dims)


#: A tensor argument of a node.
TensorArg = Union[Ref, Const]
#: An argument of a node; a tuple is a list of tensors.
Arg = Union[Ref, Const, Extents, None, Tuple[Any, ...]]


class Node:
    """An application of a primitive: `outputs = primitive(*args, **params)`.

    `regions` has a region for each branch of a condition, and for the condition and the body of a loop. The constructor
    makes the outputs: a new `Ref` for each type in `specs`.
    """

    __slots__ = ("args", "origin", "outputs", "params", "primitive", "regions")

    def __init__(
        self,
        primitive: str,
        args: Sequence[Arg],
        params: Dict[str, Any],
        specs: Sequence[Spec],
        origin: Optional[Origin] = None,
        regions: "Sequence[Region]" = (),
    ) -> None:
        self.primitive = primitive
        self.args = tuple(args)
        self.params = params
        self.outputs = tuple(Ref(spec, self) for spec in specs)
        self.origin = origin
        self.regions = tuple(regions)

    def __repr__(self) -> str:
        return "%s(%s) -> %s" % (self.primitive, ", ".join(map(repr, self.args)), list(self.outputs))

    def uses(self) -> Iterator[Ref]:
        """Yield the run-time values that a node reads: tensors, values in size arguments, and captures of its regions.

        A value that is read several times is yielded several times. Sizes in the result types are not reads.
        """
        yield from _refs(self.args)
        for region in self.regions:
            yield from region.captures()


class Region:
    """A straight-line sequence of nodes with inputs and outputs.

    target: the target that the nodes were recorded for; None if they fit every target.
    """

    def __init__(self, inputs: Sequence[Ref], target: Optional[Target] = None) -> None:
        self.inputs = tuple(inputs)
        self.target = target
        self.outputs: Tuple[Arg, ...] = ()
        self.nodes: List[Node] = []
        self._live: Optional[List[Node]] = None
        self._spent: Optional[List[Tuple[Ref, ...]]] = None

    def replace(self, nodes: Sequence[Node]) -> None:
        """Replace the list of nodes, and drop the cached results of `live` and `spent`. The inputs and outputs stay."""
        self.nodes = list(nodes)
        self._live = self._spent = None

    def release(self) -> None:
        """Drop the arguments of all nodes, also in inner regions, to free the weights after compilation or export.

        The region can be neither executed nor emitted afterwards.
        """
        for node in self.nodes:
            node.args = ()
            for inner in node.regions:
                inner.release()

    def live(self) -> List[Node]:
        """Return a list of the nodes that the outputs of this region depend on, in recording order.

        Nodes of inner regions are not included. Call `live` after the region is complete, because the list is cached
        until `replace`.
        """
        if self._live is None:
            self._live = self._live_nodes()
        return self._live

    def remove_dead(self) -> List[Node]:
        """Remove the nodes that no output depends on, which frees their weights. Return the live nodes."""
        self.nodes = list(self.live())
        return self.live()

    def spent(self) -> List[Tuple[Ref, ...]]:
        """Return a list parallel to `live()`: for each node, a tuple of the values that are not needed after this node.

        The tuple has the values that the node reads and that no later live node reads. Inputs of the region and
        captured values are included. Outputs of the region, and results that no node reads, are never included. Later
        calls return the same list.
        """
        if self._spent is None:
            kept = set(_refs(self.outputs))
            last = {ref: k for k, node in enumerate(self.live()) for ref in node.uses()}
            ends: List[List[Ref]] = [[] for _ in self.live()]
            for ref, k in last.items():
                if ref not in kept:
                    ends[k].append(ref)
            self._spent = [tuple(last_read) for last_read in ends]
        return self._spent

    def _live_nodes(self) -> List[Node]:
        needed: Set[Ref] = set(_refs(self.outputs))
        kept = []
        for node in reversed(self.nodes):
            if any(output in needed for output in node.outputs):
                needed.update(node.uses())
                kept.append(node)
        return kept[::-1]

    def captures(self) -> List[Ref]:
        """Return the values of enclosing regions that live nodes, inner regions and outputs of this region read.

        Each value occurs once, in order of first use.
        """
        own: Set[Ref] = set(self.inputs)
        captured: Dict[Ref, None] = {}
        for node in self.live():
            for ref in node.uses():
                if ref not in own:
                    captured[ref] = None
            own.update(node.outputs)
        for ref in _refs(self.outputs):
            if ref not in own:
                captured[ref] = None
        return list(captured)


def input_dependencies(arg: Arg) -> Tuple[Set[Ref], Set[Ref]]:
    """Return two sets of region inputs that an argument depends on, directly or through nodes.

    - The first set: the inputs that are read for their elements.
    - The second set: the inputs that are read for a size: a size of the input, or of a value computed from the input.

    An input that is read in both ways is in both sets. None and a constant give two empty sets.
    """
    visited: Dict[Tuple[Ref, bool], None] = {}
    pending = [(ref, by_size) for ref, by_size in _reads((arg,))]
    while pending:
        ref, sized = pending.pop()
        if (ref, sized) not in visited:
            visited[ref, sized] = None
            if ref.node is not None:
                pending.extend((inner, sized or by_size) for inner, by_size in _reads(ref.node.args))
                pending.extend((inner, sized) for region in ref.node.regions for inner in region.captures())
    inputs = [(ref, sized) for ref, sized in visited if ref.node is None]
    return {ref for ref, sized in inputs if not sized}, {ref for ref, sized in inputs if sized}


def _reads(args: Iterable[Any]) -> Iterator[Tuple[Ref, bool]]:
    """Yield (value, by_size) for each value that the arguments read. `by_size`: only the length of an axis is read."""
    for arg in args:
        if isinstance(arg, Ref):
            yield arg, False
        elif isinstance(arg, Extents):
            for dim in arg.dims:
                for atom in atoms_of(dim):
                    yield atom.args[0], atom.kind == "axis"
        elif isinstance(arg, (tuple, list)):
            yield from _reads(arg)


def refs(arg: Arg) -> Iterable[Ref]:
    """Return an iterator over the values that an argument reads: tensors, and values in sizes. They can repeat."""
    return _refs((arg,))


def _refs(args: Iterable[Any]) -> Iterator[Ref]:
    return (ref for ref, _ in _reads(args))
