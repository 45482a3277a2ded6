"""The intermediate representation in SSA form: applications of primitives, in the order in which a trace recorded them.

Nothing here knows ONNX, and nothing knows a framework. Shapes are physical (as laid out for the target); sizes may be
symbolic. A `Region` is a straight line of nodes with inputs and outputs: the body of the model, a branch, a loop body.
"""

from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

import numpy as np

from onnx_compat.ir.dims import Extent, atoms_of, is_static
from onnx_compat.ir.dtypes import DType

__all__ = ["Arg", "Const", "Extents", "Node", "Origin", "Ref", "Region", "Spec", "Target", "input_dependencies", "refs"]


class Target(NamedTuple):
    """The properties of an emitter that a recording depends on. A program for one target gives wrong results on another."""

    #: 'channels_last' or 'channels_first': the layout of the images of convolutions and pools.
    layout: str = "channels_first"
    #: The layout of a filter: O output channels, I input channels, HW all spatial axes.
    filter_layout: str = "OIHW"
    #: Whether operators on quantized numbers are recorded as DequantizeLinear, operator, QuantizeLinear.
    integers: bool = False

    def __str__(self) -> str:
        return "%s, filters %s%s" % (self.layout, self.filter_layout, ", integers" if self.integers else "")


class Spec(NamedTuple):
    """The type of a tensor: its dtype, and its shape with `Dim`s where a size is unknown. (Before it is recorded a
    size may also be None, 'not told by any rule', or the name of an unknown one: see `Trace`.)
    """

    dtype: DType
    shape: Tuple[Any, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def static(self) -> bool:
        return all(map(is_static, self.shape))


class Origin(NamedTuple):
    """The ONNX node that a primitive was recorded for; where an error is reported."""

    node: str
    operator: str
    opset: int


class Ref:
    """One value that is computed at run time: an output of a node, or an input of a region."""

    __slots__ = ("handle", "name", "node", "spec")

    def __init__(self, spec: Spec, node: "Optional[Node]" = None) -> None:
        self.spec = spec
        self.node = node
        self.name: Optional[str] = None  # of the value of the model that this is, if of any
        self.handle: Any = None  # the framework's tensor, when the trace executes as it goes

    def __repr__(self) -> str:
        return "%s%s" % (self.spec.dtype.name, list(self.spec.shape))


class Const:
    """A value that is known now. Compared by identity: one array is one constant of the result."""

    __slots__ = ("array", "spec")

    def __init__(self, array: np.ndarray, dtype: DType) -> None:
        self.array = array
        self.spec = Spec(dtype, tuple(array.shape))


class Extents:
    """A list of sizes as an argument: ints, and Dims that are computed from run-time shapes when the node is emitted."""

    __slots__ = ("dims",)

    def __init__(self, dims: Sequence[Extent]) -> None:
        self.dims = tuple(dims)


Arg = Union[Ref, Const, Extents, None, Tuple[Any, ...]]


class Node:
    """One application of a primitive."""

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
        """Every run-time value that this node reads, also for a symbolic size and inside its regions."""
        yield from _refs(self.args)
        for region in self.regions:
            yield from region.captures()


class Region:
    """A straight line of nodes from inputs to outputs. `target`: the target of the recording; None: every target."""

    def __init__(self, inputs: Sequence[Ref], target: Optional[Target] = None) -> None:
        self.inputs = tuple(inputs)
        self.target = target
        self.outputs: Tuple[Arg, ...] = ()
        self.nodes: List[Node] = []
        self._live: Optional[List[Node]] = None
        self._spent: Optional[List[Tuple[Ref, ...]]] = None

    def replace(self, nodes: Sequence[Node]) -> None:
        """Other nodes for the same inputs and outputs."""
        self.nodes = list(nodes)
        self._live = self._spent = None

    def release(self) -> None:
        """Let go of all that the nodes read: what was made of the region has its weights now."""
        for node in self.nodes:
            node.args = ()
            for inner in node.regions:
                inner.release()

    def live(self) -> List[Node]:
        """The nodes that the outputs need, in order. Whatever only served a folded value is gone. (Asked for only when
        the region is complete, and kept: an execution asks every time.)
        """
        if self._live is None:
            self._live = self._needed()
        return self._live

    def spent(self) -> List[Tuple[Ref, ...]]:
        """For each live node, the values that nobody reads after it."""
        if self._spent is None:
            kept = set(_refs(self.outputs))
            last = {ref: k for k, node in enumerate(self.live()) for ref in node.uses()}
            ends: List[List[Ref]] = [[] for _ in self.live()]
            for ref, k in last.items():
                if ref not in kept:
                    ends[k].append(ref)
            self._spent = [tuple(refs) for refs in ends]
        return self._spent

    def _needed(self) -> List[Node]:
        needed: Set[Ref] = set(_refs(self.outputs))
        kept = []
        for node in reversed(self.nodes):
            if any(output in needed for output in node.outputs):
                needed.update(node.uses())
                kept.append(node)
        return kept[::-1]

    def captures(self) -> List[Ref]:
        """The values of an enclosing region that this one reads, each once."""
        own: Set[Ref] = set(self.inputs)
        found: Dict[Ref, None] = {}
        for node in self.live():
            for ref in node.uses():
                if ref not in own:
                    found[ref] = None
            own.update(node.outputs)
        for ref in _refs(self.outputs):
            if ref not in own:
                found[ref] = None
        return list(found)


def input_dependencies(arg: Any) -> Tuple[Set[Ref], Set[Ref]]:
    """The inputs of the outermost region that something depends on: through their values, and through their sizes."""
    found: Dict[Tuple[Ref, bool], None] = {}
    waiting = [(ref, kind) for ref, kind in _reads((arg,))]
    while waiting:
        ref, sized = waiting.pop()
        if (ref, sized) not in found:
            found[ref, sized] = None
            if ref.node is not None:
                waiting.extend((inner, sized or kind) for inner, kind in _reads(ref.node.args))
                waiting.extend((inner, sized) for region in ref.node.regions for inner in region.captures())
    ends = [(ref, sized) for ref, sized in found if ref.node is None]
    return {ref for ref, sized in ends if not sized}, {ref for ref, sized in ends if sized}


def _reads(args: Iterable[Any]) -> Iterator[Tuple[Ref, bool]]:
    """The values that are read, and whether only a size of each is."""
    for arg in args:
        if isinstance(arg, Ref):
            yield arg, False
        elif isinstance(arg, Extents):
            for dim in arg.dims:
                for atom in atoms_of(dim):
                    yield atom.args[0], atom.kind == "axis"
        elif isinstance(arg, (tuple, list)):
            yield from _reads(arg)


def refs(arg: Any) -> Iterable[Ref]:
    return _refs((arg,))


def _refs(args: Iterable[Any]) -> Iterator[Ref]:
    return (ref for ref, _ in _reads(args))
