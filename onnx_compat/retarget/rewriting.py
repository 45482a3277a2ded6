"""Rewrite the nodes of a model for another version of their operators, in place."""

from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Collection,
    Dict,
    FrozenSet,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from onnx_compat.errors import OnnxCompatError
from onnx_compat.model.names import Names
from onnx_compat.model.protos import operator_name, subgraphs_of, walk
from onnx_compat.model.versions import normalise
from onnx_compat.model.write import tensor_proto
from onnx_compat.retarget.edited_node import EditedNode, Inexpressible, NewConstant, UnknownValue
from onnx_compat.retarget.inferred_facts import NodeFacts
from onnx_compat.retarget.node_forms import is_untouched, rewrite_node
from onnx_compat.retarget.outcomes import COMPOSED, KEPT, REFUSED, RESPELLED, NodeOutcome
from onnx_compat.retarget.protos import constant_node, name_of

if TYPE_CHECKING:
    import onnx

__all__ = ["Composed", "Composer", "NodeGroup", "Rewriter"]


class Composed(NamedTuple):
    """The nodes that compute the results of a composed node, in order, and the initializers that they read.

    opsets: domain -> version, of the operators of the nodes.
    """

    nodes: "List[onnx.NodeProto]"
    initializers: "List[onnx.TensorProto]"
    opsets: Mapping[str, int]


#: Composes a node from its facts for an opset, with unused names. Raises Inexpressible or an OnnxCompatError.
Composer = Callable[["onnx.NodeProto", NodeFacts, Names, int], Composed]
#: The repeated field `node` of a GraphProto or FunctionProto.
NodeList = Any
#: The reason of a node that is pruned.
_LEFT_OUT = "it is left out, because no node reads its results any more"
#: The key of a function: domain, name, overload.
FunctionKey = Tuple[str, str, str]


class NodeGroup(NamedTuple):
    """The nodes of a graph or of a function, with those of their subgraphs.

    - versions, target: domain -> version that the nodes have, and that they get.
    - prefix: the prefix of the keys of the nodes.
    - function: the name of the function that has the nodes; "" for a graph.
    - is_main: whether the nodes are in the main graph. New constants are initializers there, and else nodes.
    - omitted: the inputs of the function that some call omits.
    """

    nodes: NodeList
    versions: Mapping[str, int]
    target: Mapping[str, int]
    prefix: str
    function: str = ""
    is_main: bool = False
    omitted: FrozenSet[str] = frozenset()


class Rewriter:
    """Rewrite the nodes of one model for other versions of their operators.

    - functions: the keys of the model's functions, whose calls stay.
    - facts_of: returns the facts of a node by its key: see `inferred_facts.nodes_of`.
    - names: the names in use, which gives the names of new values and nodes.
    - compose: composes a node that no form of its operator expresses; None: such a node is refused.

    Attributes:
        outcomes: The outcomes of the nodes, in the order of the runs.
        initializers: The new initializers of the main graph.
        notes: The parts of composed nodes that are lost, as texts.
        unread: The names of values that lost a reader.
        needed: The names of values of the main graph that, as constants, may help to write a node.
    """

    def __init__(
        self,
        functions: Iterable[FunctionKey],
        facts_of: Callable[[str], NodeFacts],
        names: Names,
        compose: Optional[Composer],
    ) -> None:
        self.functions = frozenset(functions)
        self.facts_of = facts_of
        self.names = names
        self.compose = compose
        self.outcomes: List[NodeOutcome] = []
        self.initializers: List[onnx.TensorProto] = []
        self.notes: List[str] = []
        self.unread: Dict[str, None] = {}
        self.needed: Dict[str, None] = {}
        #: A repeated field -> the messages that replace its own: nodes, or the parts of a graph that becomes a copy.
        self._edits: List[Tuple[Any, Sequence[Any]]] = []
        #: The names of the results of each node in `outcomes`.
        self._results: List[Tuple[str, ...]] = []
        self._shared: Dict[Tuple[object, ...], str] = {}
        self._opsets: Dict[str, int] = {}
        self._group = NodeGroup([], {}, {}, "")
        self._position = 0

    def run(self, group: NodeGroup) -> Dict[str, int]:
        """Compute the new nodes of a group. The model changes only when `apply` is called.

        Return domain -> version, of the operators that the nodes of composed nodes have.
        """
        self._group, self._position, self._opsets = group, 0, {}
        self._nodes(group.nodes)
        return self._opsets

    def apply(self) -> None:
        """Write the new nodes of all runs into the graphs and functions of the model."""
        for nodes, written in self._edits:  # the innermost graphs come first
            copies = [type(node).FromString(node.SerializeToString()) for node in written]
            del nodes[:]
            nodes.extend(copies)
        self._edits = []

    def _nodes(self, nodes: NodeList) -> None:
        """Compute the new nodes of a list, and store them for `apply` if any node is replaced."""
        written: List[onnx.NodeProto] = []
        is_changed = False
        for node in nodes:
            new = self._node(node)
            is_changed = is_changed or new is not None
            written.extend([node] if new is None else new)
        if is_changed:
            self._edits.append((nodes, written))

    def _node(self, node: "onnx.NodeProto") -> "Optional[List[onnx.NodeProto]]":
        """Return the nodes that replace a node, and add its outcome.

        None if the node itself stays. The nodes of its subgraphs may be rewritten nevertheless.
        """
        key = "%s%d" % (self._group.prefix, self._position)
        self._position += 1
        edited_node: Optional[EditedNode] = None
        try:
            edited_node = self._rewrite_form(node, key)
        except Inexpressible as error:
            if self._group.is_main and isinstance(error, UnknownValue):
                self.needed[error.name] = None
            return self._replace(node, key, str(error))
        is_kept = edited_node is None or edited_node.proto == node
        new = node if edited_node is None or is_kept else edited_node.proto
        caveats = "" if edited_node is None else "; ".join(edited_node.caveats)
        position = self._add_outcome(node, KEPT if is_kept else RESPELLED, caveats, [operator_name(new)])
        self._rewrite_subgraphs(new, key)
        if edited_node is None or is_kept:
            return None
        constants = self._add_constants(edited_node, node)
        operators = tuple(operator_name(entry) for entry in [*constants, new])
        self.outcomes[position] = self.outcomes[position]._replace(operators=operators)
        self.unread.update(dict.fromkeys(set(node.input) - set(new.input)))
        return [*constants, new]

    def _rewrite_subgraphs(self, node: "onnx.NodeProto", key: str) -> None:
        """Compute the new nodes of the subgraphs of a node.

        If the condition of an If is known, the branch that never runs becomes a copy of the other in two cases: a node
        of it is refused, or the target is an opset below 11, in which both branches have the same shapes.
        """
        spans: Dict[str, Tuple[int, int, int, int]] = {}
        graphs = {attribute.name: attribute.g for attribute in node.attribute if attribute.HasField("g")}
        for name, graph in graphs.items():
            begin = len(self.outcomes), len(self._edits)
            self._nodes(graph.node)
            spans[name] = (*begin, len(self.outcomes), len(self._edits))
        if node.op_type != "If" or node.domain or set(graphs) != {"then_branch", "else_branch"}:
            return
        is_needed = self._group.target.get("", 0) < 11 <= self._group.versions.get("", 0) or any(
            outcome.outcome == REFUSED for span in spans.values() for outcome in self.outcomes[span[0] : span[2]]
        )
        condition = self.facts_of(key).input(0).value if is_needed else None
        if condition is None or condition.size != 1:
            return
        names = ("then_branch", "else_branch") if bool(condition.reshape(-1)[0]) else ("else_branch", "then_branch")
        runs, rest = (graphs[name] for name in names)
        first, first_edit, end, end_edit = spans[names[1]]
        reason = "its branch never runs, and becomes a copy of the other"
        for position in range(first, end):
            self.outcomes[position] = self.outcomes[position]._replace(outcome=COMPOSED, reason=reason, operators=())
        self._edits[first_edit:end_edit] = []
        for field in ("node", "initializer", "sparse_initializer", "value_info", "output"):
            self._edits.append((getattr(rest, field), getattr(runs, field)))

    def _rewrite_form(self, node: "onnx.NodeProto", key: str) -> Optional[EditedNode]:
        """Return the node in its form for the target version. None: the node stays as it is.

        A call of a function stays, and so does a node of a domain without another target version. Raises Inexpressible
        if no form expresses the node, or if the node must be rewritten and reads an input that some call omits.
        """
        domain = normalise(node.domain)
        source = self._group.versions.get(domain)
        is_call = (domain, node.op_type, getattr(node, "overload", "")) in self.functions
        if is_call or source is None or self._group.target.get(domain, source) == source:
            return None
        target = self._group.target[domain]
        if is_untouched(domain, node.op_type, source, target):
            return None
        omitted = self._omitted_input(node)
        if omitted is not None:
            raise Inexpressible("calls of its function omit the input '%s'" % omitted)
        return rewrite_node(node, domain, source, target, lambda: self.facts_of(key))

    def _replace(self, node: "onnx.NodeProto", key: str, reason: str) -> "Optional[List[onnx.NodeProto]]":
        """Compose a node, and return the nodes that replace it. If that fails, refuse the node and return None.

        The outcomes of the node and of the nodes in its subgraphs are added. `reason`: why no form of the operator
        expresses the node.
        """
        inner = [entry for graph in subgraphs_of(node) for entry in walk(graph.node)]
        facts = self.facts_of(key)
        try:
            opset = self._group.target.get("")
            if self.compose is None or opset is None:
                raise Inexpressible("and nothing composes it")
            if self._omitted_input(node) is not None or (self._group.function and facts.captured):
                raise Inexpressible("its function must be inlined first (--inline-functions)")
            composed = self.compose(node, facts, self.names, opset)
        except (Inexpressible, OnnxCompatError) as error:
            text = error.reason if isinstance(error, OnnxCompatError) else str(error)
            self._add_outcome(node, REFUSED, "%s; %s" % (reason, text))
            if self._group.is_main:
                self.needed.update(dict.fromkeys(node.input))
            self._list_subgraphs(node)
            return None
        self._position += len(inner)
        read = {name for new in composed.nodes for name in new.input}
        self.unread.update(dict.fromkeys(set(node.input) - read))
        self._opsets.update(composed.opsets)
        self._keep_descriptions(node, composed.nodes)
        constants: List[onnx.NodeProto] = []
        if self._group.is_main:
            self.initializers.extend(composed.initializers)
        else:
            constants = [constant_node(tensor) for tensor in composed.initializers]
        written = constants + composed.nodes
        self._add_outcome(node, COMPOSED, reason, [operator_name(entry) for entry in walk(written)])
        for entry in inner:
            self._add_outcome(entry, COMPOSED, "it is in a subgraph of '%s'" % name_of(node))
        return written

    def _list_subgraphs(self, node: "onnx.NodeProto") -> None:
        """Add the outcomes of the nodes in the subgraphs of a refused node. The nodes of the subgraphs stay."""
        count = len(self._edits)
        for graph in subgraphs_of(node):
            self._nodes(graph.node)
        del self._edits[count:]

    def _omitted_input(self, node: "onnx.NodeProto") -> Optional[str]:
        """Return the first input of the function that the node or its subgraphs read, and that some call omits.

        None: there is no such input.
        """
        if not self._group.omitted:
            return None
        read = [name for inner in walk([node]) for name in inner.input]
        read += [port.name for inner in walk([node]) for graph in subgraphs_of(inner) for port in graph.output]
        return next((name for name in read if name in self._group.omitted), None)

    def _keep_descriptions(self, node: "onnx.NodeProto", nodes: "List[onnx.NodeProto]") -> None:
        """Copy the doc string and the metadata of a composed `node` to the last of the `nodes` that replace it."""
        nodes[-1].doc_string = node.doc_string
        if hasattr(node, "metadata_props"):
            nodes[-1].metadata_props.extend(node.metadata_props)
        if len(getattr(node, "device_configurations", ())):
            self.notes.append("the device configurations of '%s' are left out: it is composed" % name_of(node))

    def _add_outcome(
        self, node: "onnx.NodeProto", outcome: str, reason: str = "", operators: Sequence[str] = ()
    ) -> int:
        """Add the outcome of a node, and return its position in `outcomes`."""
        opset = self._group.versions.get(normalise(node.domain), 0)
        self.outcomes.append(
            NodeOutcome(
                name_of(node), operator_name(node), outcome, reason, tuple(operators), self._group.function, opset
            )
        )
        self._results.append(tuple(filter(None, node.output)))
        return len(self.outcomes) - 1

    def mark_left_out(self, values: Collection[str]) -> None:
        """Change the outcomes of the nodes of graphs that are pruned.

        `values`: the names of all values that nodes of the graphs compute after the pruning.
        """
        for position, (outcome, results) in enumerate(zip(self.outcomes, self._results)):
            is_removed = results and not outcome.function and not any(name in values for name in results)
            if is_removed and outcome.operators:
                kind = RESPELLED if outcome.outcome == KEPT else outcome.outcome
                self.outcomes[position] = outcome._replace(outcome=kind, reason=_LEFT_OUT, operators=())

    def _add_constants(self, edited_node: EditedNode, node: "onnx.NodeProto") -> "List[onnx.NodeProto]":
        """Give names to the new constants of `edited_node`, and make its inputs read them.

        In the main graph, the constants become initializers, and the result is empty. Elsewhere, return the Constant
        nodes. `node`: the original node, whose name begins the names of the constants.
        """
        nodes: List[onnx.NodeProto] = []
        for constant in edited_node.constants:
            if constant.placeholder not in edited_node.proto.input:
                continue
            name = self._name_constant(constant, "%s_%s" % (name_of(node), constant.label), nodes)
            edited_node.proto.input[list(edited_node.proto.input).index(constant.placeholder)] = name
        return nodes

    def _name_constant(self, constant: NewConstant, wish: str, nodes: "List[onnx.NodeProto]") -> str:
        """Return the name of a constant: `wish`, with a suffix if that is in use.

        In the main graph, the constant becomes an initializer; an equal new initializer is used again. Elsewhere, the
        constant becomes a Constant node, which is added to `nodes`.
        """
        content = constant.dtype.name, constant.array.shape, constant.array.tobytes()
        if self._group.is_main and content in self._shared:
            return self._shared[content]
        name = self.names.fresh(wish)
        tensor = tensor_proto(constant.array, constant.dtype, name)
        if not self._group.is_main:
            nodes.append(constant_node(tensor))
        else:
            self._shared[content] = name
            self.initializers.append(tensor)
        return name
