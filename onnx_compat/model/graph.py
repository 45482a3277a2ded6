"""Graphs and models as plain objects, after functions are inlined and nodes are sorted.

These objects do not change after `load`, except that the data of an initializer may be released.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from onnx_compat.model.types import Type

if TYPE_CHECKING:
    from onnx_compat.model.initializer import Initializer

__all__ = ["Graph", "GraphNode", "Model", "ValueInfo"]

#: The argument of `load`: a path, bytes or an onnx.ModelProto. `onnx` is not imported here.
ModelSource = Any


class ValueInfo(NamedTuple):
    """A named value and its type: None if the model does not declare a type."""

    name: str
    type: Optional[Type]


class GraphNode:
    """A call of an operator.

    operator, domain, overload: the operator that is called; "" is the domain of ai.onnx.
    opset: the version of that domain; nodes of an inlined function keep the function's version. -1 before inlining.
    name: the name in the model, or a generated name like "Conv_12"; `load` makes it unique in the model.
    inputs, outputs: names of values; "" is an omitted optional value.
    attributes: name -> Python value, see `onnx_compat.model.attributes`.
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
        """The keyword arguments that locate an error: `raise UnsupportedError(reason, **node.where)`."""
        operator = self.operator if not self.domain else "%s::%s" % (self.domain, self.operator)
        return {"node": self.name, "operator": operator, "opset": self.opset if self.opset > 0 else None}

    def subgraphs(self) -> "Iterator[Graph]":
        """Yield the graphs in the attributes: branches and loop bodies. Graphs inside of these graphs are left out."""
        for value in self.attributes.values():
            if isinstance(value, Graph):
                yield value
            elif isinstance(value, tuple):
                for item in value:
                    if isinstance(item, Graph):
                        yield item

    def captures(self) -> List[str]:
        """Return the names of outer values that the subgraphs read, without repetition, in order of first use."""
        names: Dict[str, None] = {}
        for graph in self.subgraphs():
            names.update(dict.fromkeys(graph.free_names()))
        return list(names)

    def __repr__(self) -> str:
        return "<%s %s(%s) -> %s>" % (self.name, self.operator, ", ".join(self.inputs), ", ".join(self.outputs))


class Graph:
    """A graph, or a subgraph of a node such as If, Loop or Scan. A subgraph may read values of the outer graphs.

    - inputs: every declared input. An initializer with the name of an input is the default value of this input.
    - initializers: name -> Initializer, decoded on demand.
    - nodes: in topological order.
    - value_info: name -> type, of the intermediate values that the model declares; None for an undeclared type.
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
        self._uses: Optional[Mapping[str, int]] = None
        self._node_count: Optional[int] = None

    @property
    def required(self) -> Tuple[ValueInfo, ...]:
        """The inputs without a default value, which a caller must feed."""
        return tuple(port for port in self.inputs if port.name not in self.initializers)

    @property
    def names(self) -> Set[str]:
        """The names of all values that this graph defines: inputs, initializers, node outputs.

        Values that subgraphs define are not included.
        """
        defined = {port.name for port in self.inputs} | set(self.initializers)
        for node in self.nodes:
            defined.update(node.outputs)
        defined.discard("")
        return defined

    def free_names(self) -> Tuple[str, ...]:
        """Return the names of outer values that this graph or a subgraph of its nodes reads, in order of first use.

        Each name occurs once. The name of an output that the graph does not define is included too.
        """
        if self._free is None:
            defined = self.names
            free: Dict[str, None] = {}
            for node in self.nodes:
                for name in node.inputs + tuple(node.captures()):
                    if name and name not in defined:
                        free[name] = None
            for port in self.outputs:
                if port.name and port.name not in defined:
                    free[port.name] = None
            self._free = tuple(free)
        return self._free

    def consumers(self) -> Mapping[str, int]:
        """Return value name -> number of uses: by nodes, by subgraphs (one use per subgraph), and as an output.

        A node that reads a value twice uses it twice. A value without uses has no entry. The result is computed once.
        """
        if self._uses is None:
            self._uses = self._count_uses()
        return self._uses

    def _count_uses(self) -> "Counter[str]":
        counts = Counter(port.name for port in self.outputs)
        for node in self.nodes:
            counts.update(name for name in node.inputs if name)
            for graph in node.subgraphs():
                counts.update(graph.free_names())
        return counts

    def types(self) -> Dict[str, Optional[Type]]:
        """Return value name -> declared type, for inputs, outputs, initializers and declared intermediate values.

        A port without a declared type maps to None. An intermediate value that the model does not declare has no entry.
        An initializer has its own type, also if an input has its name. Values of subgraphs are not included.
        """
        declared = dict(self.value_info)
        declared.update((port.name, port.type) for port in self.outputs + self.inputs)
        for name, initializer in self.initializers.items():
            declared[name] = initializer.type
        return declared

    @property
    def node_count(self) -> int:
        """The number of nodes, with those of subgraphs."""
        if self._node_count is None:
            inner = sum(graph.node_count for node in self.nodes for graph in node.subgraphs())
            self._node_count = len(self.nodes) + inner
        return self._node_count

    def walk(self) -> Iterator[GraphNode]:
        """Yield every node in order. The nodes of subgraphs directly follow the node that holds them."""
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
        path: The path that it was read from; None for bytes or a ModelProto.
        functions: The (domain, name, overload) of the model's own functions; their calls are inlined already.
        metadata: The key-value pairs of the file.
        producer: The name and the version of the exporter: "pytorch 2.1.0".
        source: The argument of `load`: a path as str, bytes or a ModelProto.
        data_files: The real paths of the files with external data.
        data_folder: The folder of the external data; None if the model was loaded without a folder.

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
        source: "ModelSource" = None,
        data_files: Sequence[str] = (),
        data_folder: Optional[str] = None,
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
        self.data_folder = data_folder

    def with_graph(self, graph: Graph) -> "Model":
        """Return a copy of the model with another graph. All other attributes stay."""
        return Model(
            graph,
            self.opsets,
            self.ir_version,
            self.path,
            self.functions,
            self.metadata,
            self.producer,
            self.source,
            self.data_files,
            self.data_folder,
        )

    @property
    def inputs(self) -> Tuple[ValueInfo, ...]:
        """The inputs that a caller must feed. Inputs with a default value are not included."""
        return self.graph.required

    @property
    def outputs(self) -> Tuple[ValueInfo, ...]:
        return self.graph.outputs

    @property
    def opset(self) -> int:
        """The version of the domain ai.onnx, or 0 if the model does not import it."""
        return self.opsets.get("", 0)

    @property
    def proto(self) -> Any:
        """The original onnx.ModelProto, with its functions. None for a Model without a `source`.

        A model that was loaded from a path or from bytes is read again at each access. Otherwise it is the object that
        was given to `load`.
        """
        import onnx

        if isinstance(self.source, str):
            return onnx.load(self.source)
        if isinstance(self.source, (bytes, bytearray, memoryview)):
            return onnx.load_from_string(bytes(self.source))
        return self.source

    def operators(self) -> "Counter[Tuple[str, str, int]]":
        """Return (domain, operator, opset) -> number of nodes, as a Counter. Nodes in subgraphs are included."""
        return Counter((node.domain, node.operator, node.opset) for node in self.graph.walk())

    def __reduce__(self) -> Any:
        """Pickle the model as the bytes of an ONNX file: see `onnx_compat.model.pickling`."""
        from onnx_compat.model.pickling import reduce_model

        return reduce_model(self)

    def __repr__(self) -> str:
        return "<Model %s: opset %d, %r>" % (self.path or self.graph.name, self.opset, self.graph)
