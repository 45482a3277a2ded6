"""Inline a model's own functions into the graphs that call them.

The body is copied for each call. Its inputs and outputs take the names at the call, and its inner values get new names.
References to attributes get the values at the call, or the defaults of the function. Nodes keep the opsets that the
function imports. A file of a few bytes can describe nested calls with more nodes than memory holds: the limit `inlined`
(see `onnx_compat.limits`) stops them.
"""

from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

from onnx_compat import limits
from onnx_compat.errors import InvalidModelError, UnsupportedError
from onnx_compat.model.attributes import AttributeReference
from onnx_compat.model.graph import Graph, GraphNode, ValueInfo
from onnx_compat.model.initializer import Constant
from onnx_compat.model.names import Names, names_in
from onnx_compat.model.read import Function, Key
from onnx_compat.model.versions import IMPLIED, check_versions

__all__ = ["inline"]

#: The largest depth of nested calls.
DEPTH = 64

#: The value of an attribute: see `onnx_compat.model.attributes`. Its type depends on the attribute.
AttributeValue = Any


def inline(graph: Graph, functions: Sequence[Function], versions: Mapping[str, int]) -> Graph:
    """Return a new graph with every call of a function replaced by a copy of the function's body.

    `versions`: domain -> opset that the model imports. The given nodes that are no calls are changed in place: they get
    their opsets and their new subgraphs.

    Raises LimitError above the limit `inlined`. Raises UnsupportedError above `DEPTH`, or if a function imports an
    opset that is too new. Raises InvalidModelError in these cases:

    - Two functions have the same domain, name and overload, or a function calls itself (recursion).
    - A call has too many inputs or outputs.
    - A node outside of a function refers to an attribute of a function.
    - The domain of a node is imported by neither its function nor the model, and is not in `IMPLIED`.
    - A function imports two versions of a domain, or a standard domain with a version below 1.
    """
    table: Dict[Key, Function] = {}
    for function in functions:
        if table.setdefault(function.key, function) is not function:
            raise InvalidModelError("the model has two functions %s" % _spell(function.key), hint="export it again")
        check_versions(function.opsets)
    return _Inliner(table, Names(names_in(graph)), versions).graph(graph, versions, ())


def _spell(key: Key) -> str:
    domain, name, overload = key
    return "%s::%s%s" % (domain or "ai.onnx", name, ":" + overload if overload else "")


class _Inliner:
    """Replace the calls of functions in one model by bodies. `copied` counts the copied nodes, names and attributes.

    - functions: the functions of the model by key.
    - names: the names that the model uses.
    - versions: domain -> opset that the model imports.
    """

    def __init__(self, functions: Dict[Key, Function], names: Names, versions: Mapping[str, int]) -> None:
        self.functions = functions
        self.names = names
        self.versions = versions
        self.copied = 0

    def graph(self, graph: Graph, opsets: Mapping[str, int], calls: Tuple[Key, ...]) -> Graph:
        """Return a new graph with the nodes of `_Inliner.nodes`, which has the same arguments and errors."""
        nodes = self.nodes(graph.nodes, opsets, calls)
        return Graph(graph.name, graph.inputs, graph.outputs, nodes, graph.initializers, graph.value_info, graph.doc)

    def nodes(self, nodes: Iterable[GraphNode], opsets: Mapping[str, int], calls: Tuple[Key, ...]) -> List[GraphNode]:
        """Return the nodes with each call of a function replaced by a copy of the function's body, also in subgraphs.

        The given nodes get their opsets and their new subgraphs, in place. A node that has an opset already stays
        unchanged. Raises as `inline` does.

        - opsets: domain -> version for these nodes.
        - calls: the keys of the functions whose bodies hold these nodes, the outermost first.
        """
        done: List[GraphNode] = []
        for node in nodes:
            if node.opset >= 0:  # a node of a graph attribute of the call, which is inlined already
                done.append(node)
                continue
            for name, value in node.attributes.items():
                node.attributes[name] = self._value(value, opsets, calls, node)
            function = self.functions.get((node.domain, node.operator, node.overload))
            if function is not None:
                done += self.call(node, function, calls)
                continue
            node.opset = self._opset(node, opsets)
            done.append(node)
        return done

    def _value(
        self, value: AttributeValue, opsets: Mapping[str, int], calls: Tuple[Key, ...], node: GraphNode
    ) -> AttributeValue:
        """Return an attribute value of `node`, with calls replaced in each graph. The arguments are those of `nodes`.

        Raises InvalidModelError for a reference to an attribute of a function.
        """
        if isinstance(value, AttributeReference):
            raise InvalidModelError(
                "it refers to the attribute '%s' of a function, but is in none" % value.name, **node.where
            )
        if isinstance(value, Graph):
            return self.graph(value, opsets, calls)
        if isinstance(value, tuple) and value and isinstance(value[0], Graph):
            return tuple(self.graph(subgraph, opsets, calls) for subgraph in value)
        return value

    def _opset(self, node: GraphNode, opsets: Mapping[str, int]) -> int:
        """Return the opset of a node: from `opsets`, else from the imports of the model, else from `IMPLIED`.

        Raises InvalidModelError if none of these has the domain.
        """
        version = opsets.get(node.domain, self.versions.get(node.domain, IMPLIED.get(node.domain)))
        if version is None:
            raise InvalidModelError(
                "the model uses the domain '%s' without importing a version of it" % (node.domain or "ai.onnx"),
                hint="add the domain to the model's opset_import",
                **node.where,
            )
        return version

    def call(self, node: GraphNode, function: Function, calls: Tuple[Key, ...]) -> List[GraphNode]:
        """Return the nodes that replace the call `node`: a copy of the function's body, with inner calls replaced too.

        An Identity node is appended for each output of the function that is also one of its inputs, or is listed twice.
        Raises InvalidModelError for recursion, or for more inputs or outputs than the function has. Raises
        UnsupportedError above `DEPTH`, and LimitError above the limit `inlined`.
        """
        path = (*calls, function.key)
        if function.key in calls:
            raise InvalidModelError("a function calls itself: %s" % " -> ".join(map(_spell, path)), **node.where)
        if len(path) > DEPTH:
            raise UnsupportedError("functions call functions more than %d deep" % DEPTH, **node.where)
        signature = function.graph
        if len(node.inputs) > len(signature.inputs) or len(node.outputs) > len(signature.outputs):
            raise InvalidModelError(
                "function %s takes %d inputs and gives %d outputs, the call has %d and %d"
                % (
                    _spell(function.key),
                    len(signature.inputs),
                    len(signature.outputs),
                    len(node.inputs),
                    len(node.outputs),
                ),
                **node.where,
            )
        scope = {port.name: "" for port in signature.inputs}
        scope.update(zip((port.name for port in signature.inputs), node.inputs))
        aliases: List[
            Tuple[str, str]
        ] = []  # (value, output) for each output that is also an input, or another output too
        for port, name in zip(signature.outputs, node.outputs):
            if name and port.name in scope:
                aliases.append((scope[port.name], name))
            elif name:
                scope[port.name] = name
        values = dict(function.defaults)
        values.update(node.attributes)
        body = self.nodes(_Copy(self, node.name, values).nodes(signature.nodes, scope), function.opsets, path)
        version = function.opsets.get("", self.versions.get("", 1))
        return body + [
            GraphNode("Identity", [old], [new], opset=version, name=self.names.fresh(node.name + "/Identity"))
            for old, new in aliases
        ]

    def count_copied(self, node: GraphNode) -> None:
        """Add 1 and the counts of the node's inputs, outputs and attributes to `copied`.

        Raises LimitError above the limit `inlined`.
        """
        self.copied += 1 + len(node.inputs) + len(node.outputs) + len(node.attributes)
        if self.copied > limits.limit("inlined"):
            raise limits.limit_error("inlined", "the model").at(**node.where)


class _Copy:
    """Copy the body of a function for one call.

    `call` is the name of the call's node; the new names begin with it. `values` maps the name of an attribute to its
    value: at the call, else the function's default. A `scope` maps names in the body to names in the copy.
    """

    def __init__(self, inliner: _Inliner, call: str, values: Mapping[str, Any]) -> None:
        self.inliner = inliner
        self.call = call
        self.values = values

    def nodes(self, nodes: Sequence[GraphNode], scope: Dict[str, str]) -> List[GraphNode]:
        """Return copies of the nodes, which may be in any order. Add the new names of their outputs to `scope`."""
        for node in nodes:  # first: a subgraph may read the output of a later node
            for name in node.outputs:
                self.name(name, scope)
        return [self.node(node, scope) for node in nodes]

    def node(self, node: GraphNode, scope: Dict[str, str]) -> GraphNode:
        self.inliner.count_copied(node)
        attributes: Dict[str, Any] = {}
        for name, value in node.attributes.items():
            attributes[name] = self.value(value, scope)
            if attributes[name] is None:  # neither the call nor the function has a value
                del attributes[name]
        inputs = [self.name(name, scope) for name in node.inputs]
        outputs = [self.name(name, scope) for name in node.outputs]
        name = self.inliner.names.fresh("%s/%s" % (self.call, node.name))
        return GraphNode(node.operator, inputs, outputs, attributes, node.domain, node.opset, name, node.overload)

    def value(self, value: AttributeValue, scope: Dict[str, str]) -> AttributeValue:
        """Return an attribute value of the body for the copy: references get their values, graphs their new names.

        None: neither the call nor the function has a value for the reference.
        """
        if isinstance(value, AttributeReference):
            return self.duplicate(self.values.get(value.name))
        if isinstance(value, Graph):
            return self.graph(value, scope)
        if isinstance(value, tuple) and value and isinstance(value[0], Graph):
            return tuple(self.graph(subgraph, scope) for subgraph in value)
        return self.duplicate(value)

    def duplicate(self, value: AttributeValue) -> AttributeValue:
        """Return a copy of an attribute value, with the same names in graphs.

        A release of the copy's tensors, or a change of its nodes, leaves `value` intact. A value without tensors or
        graphs, such as None, is returned itself. Raises LimitError above the limit `inlined`.
        """
        if isinstance(value, Constant):
            return value.copy()
        if isinstance(value, Graph):
            stored = {name: initializer.copy() for name, initializer in value.initializers.items()}
            nodes = [self.duplicate_node(node) for node in value.nodes]
            return Graph(value.name, value.inputs, value.outputs, nodes, stored, value.value_info, value.doc)
        if isinstance(value, tuple) and value and isinstance(value[0], (Constant, Graph)):
            return tuple(map(self.duplicate, value))
        return value

    def duplicate_node(self, node: GraphNode) -> GraphNode:
        self.inliner.count_copied(node)
        attributes = {name: self.duplicate(value) for name, value in node.attributes.items()}
        names = node.domain, node.opset, node.name, node.overload
        return GraphNode(node.operator, node.inputs, node.outputs, attributes, *names)

    def name(self, name: str, scope: Dict[str, str]) -> str:
        """Return the name in the copy of a name in the body. A new name is added to `scope`. "" stays ""."""
        if name and name not in scope:
            scope[name] = self.inliner.names.fresh("%s/%s" % (self.call, name))
        return scope.get(name, "")

    def graph(self, graph: Graph, outer: Dict[str, str]) -> Graph:
        """Return a copy of a subgraph of the body. `outer` maps names outside of the subgraph to names in the copy.

        Values that the subgraph defines get new names, even if `outer` has the same name. Names that are neither
        defined by the subgraph nor in `outer` get new names too.
        """
        scope = {name: new for name, new in outer.items() if name not in graph.names}
        inputs = [ValueInfo(self.name(port.name, scope), port.type) for port in graph.inputs]
        initializers = {self.name(name, scope): initializer.copy() for name, initializer in graph.initializers.items()}
        nodes = self.nodes(graph.nodes, scope)
        outputs = [ValueInfo(self.name(port.name, scope), port.type) for port in graph.outputs]
        info = {self.name(name, scope): kind for name, kind in graph.value_info.items() if name in scope}
        return Graph(graph.name, inputs, outputs, nodes, initializers, info, graph.doc)
