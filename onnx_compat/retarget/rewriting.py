"""Rewrite the nodes of a model for another version of their operators, in place."""

from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from onnx_compat.errors import OnnxCompatError
from onnx_compat.model.names import Names
from onnx_compat.model.versions import normalise
from onnx_compat.retarget.draft import Draft, Inexpressible, NewConstant
from onnx_compat.retarget.knowledge import NodeFacts
from onnx_compat.retarget.outcomes import COMPOSED, KEPT, REFUSED, RESPELLED, NodeOutcome
from onnx_compat.retarget.protos import constant_node, subgraphs_of, tensor_of, walk
from onnx_compat.retarget.spelling import is_untouched, respell

if TYPE_CHECKING:
    import onnx

__all__ = ["Composed", "Composer", "Rewriter"]


class Composed(NamedTuple):
    """The nodes that compute the results of a composed node, in order, and the initializers that they read.

    opsets: domain -> version, of the operators of the nodes.
    """

    nodes: "List[onnx.NodeProto]"
    initializers: "List[onnx.TensorProto]"
    opsets: Mapping[str, int]


#: Composes a node from its facts, with unused names. Raises Inexpressible or an OnnxCompatError if it cannot.
Composer = Callable[["onnx.NodeProto", NodeFacts, Names], Composed]
#: The repeated field `node` of a GraphProto or FunctionProto.
NodeList = Any
#: The key of a function: domain, name, overload.
FunctionKey = Tuple[str, str, str]


class Rewriter:
    """Rewrites the nodes of one model.

    - target: domain -> version that the nodes get.
    - functions: the keys of the model's functions, whose calls stay.
    - facts_of: returns the facts of a node by its key: see `knowledge.nodes_of`.
    - compose: composes a node that no form of its operator expresses; None: such a node is refused.

    The outcomes of the nodes are in `outcomes`, new initializers in `initializers`, and in `unread` the names of values
    that a node no longer reads.
    """

    def __init__(
        self,
        target: Mapping[str, int],
        functions: Iterable[FunctionKey],
        facts_of: Callable[[str], NodeFacts],
        names: Names,
        compose: Optional[Composer],
    ) -> None:
        self.target = dict(target)
        self.functions = frozenset(functions)
        self.facts_of = facts_of
        self.names = names
        self.compose = compose
        self.outcomes: List[NodeOutcome] = []
        self.initializers: List[onnx.TensorProto] = []
        self.unread: Dict[str, None] = {}
        #: Domain -> version, of the operators that composed nodes have.
        self.opsets: Dict[str, int] = {}
        #: Nodes of a graph or function -> the nodes that replace them.
        self._edits: List[Tuple[NodeList, List[onnx.NodeProto]]] = []
        self._shared: Dict[Tuple[object, ...], str] = {}
        self._versions: Mapping[str, int] = {}
        self._function = ""
        self._prefix = ""
        self._position = 0

    def run(self, nodes: NodeList, versions: Mapping[str, int], prefix: str, function: str = "") -> None:
        """Rewrite the nodes of a graph or of a function. `apply` puts the new nodes there.

        - versions: domain -> version that the nodes have.
        - prefix: the prefix of the keys of the nodes.
        - function: the name of the function that has the nodes; its new constants are nodes, not initializers.
        """
        self._versions, self._prefix, self._function, self._position = versions, prefix, function, 0
        self._nodes(nodes)

    def apply(self) -> None:
        """Replace the nodes of every graph and function that changed. Until then, the model is as it was."""
        for nodes, written in self._edits:  # the innermost graphs come first
            copies = [type(node).FromString(node.SerializeToString()) for node in written]
            del nodes[:]
            nodes.extend(copies)
        self._edits = []

    def _nodes(self, nodes: NodeList) -> None:
        written: List[onnx.NodeProto] = []
        is_changed = False
        for node in nodes:
            new = self._node(node)
            is_changed = is_changed or new is not None
            written.extend([node] if new is None else new)
        if is_changed:
            self._edits.append((nodes, written))

    def _node(self, node: "onnx.NodeProto") -> "Optional[List[onnx.NodeProto]]":
        """Return the nodes that replace a node; None if it stays, but for the nodes of its subgraphs."""
        key = "%s%d" % (self._prefix, self._position)
        self._position += 1
        draft: Optional[Draft] = None
        try:
            draft = self._respell(node, key)
        except Inexpressible as why:
            return self._replace(node, key, str(why))
        self._note(node, KEPT if draft is None else RESPELLED, "" if draft is None else "; ".join(draft.caveats))
        new = node if draft is None else draft.node
        for graph in subgraphs_of(new):
            self._nodes(graph.node)
        if draft is None:
            return None
        constants = self._add_constants(draft, node)
        self.unread.update(dict.fromkeys(set(node.input) - set(new.input)))
        return [*constants, new]

    def _respell(self, node: "onnx.NodeProto", key: str) -> Optional[Draft]:
        domain = normalise(node.domain)
        source = self._versions.get(domain)
        is_call = (domain, node.op_type, getattr(node, "overload", "")) in self.functions
        if is_call or source is None or self.target.get(domain, source) == source:
            return None
        target = self.target[domain]
        if is_untouched(domain, node.op_type, source, target):
            return None
        return respell(node, domain, source, target, lambda: self.facts_of(key))

    def _replace(self, node: "onnx.NodeProto", key: str, reason: str) -> "Optional[List[onnx.NodeProto]]":
        """Compose a node. If that fails, note that it is refused, and return None."""
        self._position += sum(1 for graph in subgraphs_of(node) for _ in walk(graph.node))
        facts = self.facts_of(key)
        try:
            if self.compose is None:
                raise Inexpressible("and nothing composes it")
            composed = self.compose(node, facts, self.names)
        except (Inexpressible, OnnxCompatError) as error:
            text = error.reason if isinstance(error, OnnxCompatError) else str(error)
            self._note(node, REFUSED, "%s; %s" % (reason, text))
            return None
        read = {name for new in composed.nodes for name in new.input}
        self.unread.update(dict.fromkeys(set(node.input) - read))
        self._note(node, COMPOSED, reason, len(composed.nodes))
        self.opsets.update(composed.opsets)
        if self._function:
            return [constant_node(tensor) for tensor in composed.initializers] + composed.nodes
        self.initializers.extend(composed.initializers)
        return composed.nodes

    def _note(self, node: "onnx.NodeProto", outcome: str, reason: str = "", count: int = 1) -> None:
        name = node.name or next(filter(None, node.output), node.op_type)
        domain = normalise(node.domain)
        operator = "%s::%s" % (domain, node.op_type) if domain else node.op_type
        self.outcomes.append(NodeOutcome(name, operator, outcome, reason, count, self._function))

    def _add_constants(self, draft: Draft, node: "onnx.NodeProto") -> "List[onnx.NodeProto]":
        """Name the constants of a draft. Return nodes that compute them in a function, else add initializers."""
        nodes: List[onnx.NodeProto] = []
        base = node.name or next(filter(None, node.output), node.op_type)
        for constant in draft.constants:
            if constant.placeholder not in draft.node.input:
                continue
            name = self._name_constant(constant, "%s_%s" % (base, constant.label), nodes)
            draft.node.input[list(draft.node.input).index(constant.placeholder)] = name
        return nodes

    def _name_constant(self, constant: NewConstant, wish: str, nodes: "List[onnx.NodeProto]") -> str:
        """Return the name of a constant. An equal constant of the graph is used again.

        In a function, the constant is a new node, which is added to `nodes`.
        """
        content = constant.dtype.name, constant.array.shape, constant.array.tobytes()
        if not self._function and content in self._shared:
            return self._shared[content]
        name = self.names.fresh(wish)
        tensor = tensor_of(name, constant.array, constant.dtype)
        if self._function:
            nodes.append(constant_node(tensor))
        else:
            self._shared[content] = name
            self.initializers.append(tensor)
        return name
