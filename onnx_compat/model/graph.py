"""What the library sees of a model: plain objects that say what the file says, after functions were inlined and
nodes were sorted. Nothing here changes once built, except that an initializer's bytes may be let go of.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from onnx_compat.model.types import Type

if TYPE_CHECKING:
    from onnx_compat.model.initializer import Initializer

__all__ = ["Graph", "GraphNode", "Model", "ValueInfo"]


class ValueInfo(NamedTuple):
    """A named value. The type is None where the model does not say."""

    name: str
    type: Optional[Type]


class GraphNode:
    """One operator call.

    operator, domain, overload   what is called; "" is the domain of ai.onnx
    opset                        the version of that domain in force here: an inlined function keeps its own
    name                         unique and readable: the model's, or one made like "Conv_12"
    inputs, outputs              value names; "" is an optional one that is left out
    attributes                   see `onnx_compat.model.attributes`
    """

    __slots__ = ("attributes", "domain", "inputs", "name", "operator", "opset", "outputs", "overload")

    def __init__(
        self,
        operator: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Optional[Mapping[str, Any]] = None,
        domain: str = "",
        opset: int = 0,
        name: str = "",
        overload: str = "",
    ) -> None:
        self.operator = operator
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.attributes: Dict[str, Any] = dict(attributes or {})
        self.domain = domain
        self.opset = opset
        self.name = name
        self.overload = overload

    @property
    def where(self) -> Dict[str, Any]:
        """The keywords that place an error: `raise UnsupportedError(reason, **node.where)`."""
        operator = self.operator if not self.domain else "%s::%s" % (self.domain, self.operator)
        return {"node": self.name, "operator": operator, "opset": self.opset if self.opset > 0 else None}

    def subgraphs(self) -> "Iterator[Graph]":
        for value in self.attributes.values():
            if isinstance(value, Graph):
                yield value
            elif isinstance(value, tuple):
                for item in value:
                    if isinstance(item, Graph):
                        yield item

    def captures(self) -> List[str]:
        """The outer values that its subgraphs use, each once, in order of first use."""
        found: Dict[str, None] = {}
        for graph in self.subgraphs():
            found.update(dict.fromkeys(graph.free_names()))
        return list(found)

    def __repr__(self) -> str:
        return "<%s %s(%s) -> %s>" % (self.name, self.operator, ", ".join(self.inputs), ", ".join(self.outputs))


class Graph:
    """A graph, or the subgraph of an If, Loop, Scan … (which may use the names of the graphs around it).

    inputs         every declared input. In a model before IR 4 an input may also be an initializer: a default value
    initializers   name -> Initializer, decoded on demand
    nodes          in an order in which they can run
    value_info     name -> type, of the values in between that the model gives types for
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[ValueInfo],
        outputs: Sequence[ValueInfo],
        nodes: Sequence[GraphNode],
        initializers: "Optional[Mapping[str, Initializer]]" = None,
        value_info: Optional[Mapping[str, Optional[Type]]] = None,
        doc: str = "",
    ) -> None:
        self.name = name
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.nodes = tuple(nodes)
        self.initializers: Dict[str, Initializer] = dict(initializers or {})
        self.value_info: Dict[str, Optional[Type]] = dict(value_info or {})
        self.doc = doc
        self._free: Optional[Tuple[str, ...]] = None

    @property
    def required(self) -> Tuple[ValueInfo, ...]:
        """The inputs without a default value: what a caller must give."""
        return tuple(one for one in self.inputs if one.name not in self.initializers)

    @property
    def names(self) -> Set[str]:
        """Every name that is defined here."""
        found = {one.name for one in self.inputs} | set(self.initializers)
        for node in self.nodes:
            found.update(node.outputs)
        found.discard("")
        return found

    def free_names(self) -> Tuple[str, ...]:
        """The names that are used here or deeper but come from an outer graph, each once, in order of first use."""
        if self._free is None:
            own = self.names
            found: Dict[str, None] = {}
            for node in self.nodes:
                for name in node.inputs + tuple(node.captures()):
                    if name and name not in own:
                        found[name] = None
            for one in self.outputs:
                if one.name and one.name not in own:
                    found[one.name] = None
            self._free = tuple(found)
        return self._free

    def consumers(self) -> Mapping[str, int]:
        """How often each value is used: by nodes, by the subgraphs of nodes (one each), and as an output."""
        count = Counter(one.name for one in self.outputs)
        for node in self.nodes:
            count.update(name for name in node.inputs if name)
            for graph in node.subgraphs():
                count.update(graph.free_names())
        return count

    def types(self) -> Dict[str, Optional[Type]]:
        """The declared types: inputs, outputs, values in between and initializers."""
        found = dict(self.value_info)
        found.update((one.name, one.type) for one in self.outputs + self.inputs)
        for name, initializer in self.initializers.items():
            found[name] = initializer.type
        return found

    def walk(self) -> Iterator[GraphNode]:
        """Every node, those of subgraphs right after the node that holds them."""
        for node in self.nodes:
            yield node
            for graph in node.subgraphs():
                yield from graph.walk()

    def __repr__(self) -> str:
        return "<Graph %s: %d nodes, %d initializers>" % (self.name, len(self.nodes), len(self.initializers))


class Model:
    """A model that is ready to be traced. `load` returns it.

    Attributes:
        graph: The inputs, outputs, initializers and nodes.
        opsets: The operator sets: domain -> version; the domain of ai.onnx is "".
        ir_version: The version of the file format.
        path: The path that it was read from, or None.
        functions: The (domain, name, overload) of the model's own functions; their calls are inlined already.
        metadata: The key-value pairs of the file.
        producer: The name of the exporter.
        source: The argument of `load`: a path, bytes or a ModelProto.
        data_files: The paths of the external data.

    Examples:
        >>> model = onnx_compat.load("digits.onnx")
        >>> model.graph.nodes[0].operator, model.opsets
        ('Conv', {'': 17})
    """

    def __init__(
        self,
        graph: Graph,
        opsets: Mapping[str, int],
        ir_version: int,
        path: Optional[str] = None,
        functions: Sequence[Tuple[str, str, str]] = (),
        metadata: Optional[Mapping[str, str]] = None,
        producer: str = "",
        source: Any = None,
        data_files: Sequence[str] = (),
    ) -> None:
        self.graph = graph
        self.opsets: Dict[str, int] = dict(opsets)
        self.ir_version = ir_version
        self.path = path
        self.functions = tuple(functions)
        self.metadata: Dict[str, str] = dict(metadata or {})
        self.producer = producer
        self.source = source
        self.data_files = tuple(data_files)

    @property
    def inputs(self) -> Tuple[ValueInfo, ...]:
        """What a caller must give."""
        return self.graph.required

    @property
    def outputs(self) -> Tuple[ValueInfo, ...]:
        return self.graph.outputs

    @property
    def opset(self) -> int:
        """The version of ai.onnx (0 if the model imports none)."""
        return self.opsets.get("", 0)

    @property
    def proto(self) -> Any:
        """The onnx.ModelProto as it was given, functions and all; read again each time, so that no second copy is kept."""
        import onnx

        if isinstance(self.source, str):
            return onnx.load(self.source)
        if isinstance(self.source, (bytes, bytearray, memoryview)):
            return onnx.load_from_string(bytes(self.source))
        return self.source

    def operators(self) -> "Counter[Tuple[str, str, int]]":
        """How often each (domain, operator, opset) is called, subgraphs included."""
        return Counter((node.domain, node.operator, node.opset) for node in self.graph.walk())

    def __repr__(self) -> str:
        return "<Model %s: opset %d, %r>" % (self.path or self.graph.name, self.opset, self.graph)
