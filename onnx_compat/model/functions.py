"""A model's own functions, put in place of their calls.

The body is copied for each call: its inputs and outputs take the names of the call, what is inside gets new names, and
references to attributes get the call's values or the function's defaults. Nodes keep the opsets that the function imports.
A file of a few bytes can describe calls within calls that come to more nodes than fit in any memory: `LIMIT` ends that.
"""

from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

from onnx_compat.errors import InvalidModelError, UnsupportedError
from onnx_compat.model.attributes import AttributeReference
from onnx_compat.model.graph import Graph, GraphNode, ValueInfo
from onnx_compat.model.initializer import Constant
from onnx_compat.model.names import Names, defined
from onnx_compat.model.read import Function, Key
from onnx_compat.model.versions import IMPLIED, check_versions

__all__ = ["inline"]

#: Nodes, names and attributes that inlining may make, and calls within calls.
LIMIT = 10000000
DEPTH = 64


def inline(graph: Graph, functions: Sequence[Function], versions: Mapping[str, int]) -> Graph:
    """The graph without a call of any of the functions; every node is given the opset of its domain."""
    table: Dict[Key, Function] = {}
    for function in functions:
        if table.setdefault(function.key, function) is not function:
            raise InvalidModelError("the model has two functions %s" % _spell(function.key), hint="export it again")
        check_versions(function.opsets)
    return _Inliner(table, Names(defined(graph)), versions).graph(graph, versions, ())


def _spell(key: Key) -> str:
    domain, name, overload = key
    return "%s::%s%s" % (domain or "ai.onnx", name, ":" + overload if overload else "")


class _Inliner:
    def __init__(self, functions: Dict[Key, Function], names: Names, versions: Mapping[str, int]) -> None:
        self.functions = functions
        self.names = names
        self.versions = versions
        self.made = 0

    def graph(self, graph: Graph, opsets: Mapping[str, int], calls: Tuple[Key, ...]) -> Graph:
        nodes = self.nodes(graph.nodes, opsets, calls)
        return Graph(graph.name, graph.inputs, graph.outputs, nodes, graph.initializers, graph.value_info, graph.doc)

    def nodes(self, nodes: Iterable[GraphNode], opsets: Mapping[str, int], calls: Tuple[Key, ...]) -> List[GraphNode]:
        """These nodes with their opset, calls of functions replaced, in subgraphs too."""
        done: List[GraphNode] = []
        for node in nodes:
            if node.opset >= 0:  # it came from the caller of a function, in whose scope it was done
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

    def _value(self, value: Any, opsets: Mapping[str, int], calls: Tuple[Key, ...], node: GraphNode) -> Any:
        if isinstance(value, AttributeReference):
            raise InvalidModelError(
                "it refers to the attribute '%s' of a function, but is in none" % value.name, **node.where
            )
        if isinstance(value, Graph):
            return self.graph(value, opsets, calls)
        if isinstance(value, tuple) and value and isinstance(value[0], Graph):
            return tuple(self.graph(one, opsets, calls) for one in value)
        return value

    def _opset(self, node: GraphNode, opsets: Mapping[str, int]) -> int:
        version = opsets.get(node.domain, self.versions.get(node.domain, IMPLIED.get(node.domain)))
        if version is None:
            raise InvalidModelError(
                "the model uses the domain '%s' without importing a version of it" % (node.domain or "ai.onnx"),
                hint="add the domain to the model's opset_import",
                **node.where,
            )
        return version

    def call(self, node: GraphNode, function: Function, calls: Tuple[Key, ...]) -> List[GraphNode]:
        """The nodes of a body in place of the call."""
        path = (*calls, function.key)
        if function.key in calls:
            raise InvalidModelError("a function calls itself: %s" % " -> ".join(map(_spell, path)), **node.where)
        if len(path) > DEPTH:
            raise UnsupportedError("functions call functions more than %d deep" % DEPTH, **node.where)
        formal = function.graph
        if len(node.inputs) > len(formal.inputs) or len(node.outputs) > len(formal.outputs):
            raise InvalidModelError(
                "function %s takes %d inputs and gives %d outputs, the call has %d and %d"
                % (_spell(function.key), len(formal.inputs), len(formal.outputs), len(node.inputs), len(node.outputs)),
                **node.where,
            )
        scope = {one.name: "" for one in formal.inputs}
        scope.update(zip((one.name for one in formal.inputs), node.inputs))
        passed: List[Tuple[str, str]] = []  # outputs that are an input or another output under a second name
        for one, name in zip(formal.outputs, node.outputs):
            if name and one.name in scope:
                passed.append((scope[one.name], name))
            elif name:
                scope[one.name] = name
        given = dict(function.defaults)
        given.update(node.attributes)
        body = self.nodes(_Copy(self, node.name, given).nodes(formal.nodes, scope), function.opsets, path)
        version = function.opsets.get("", self.versions.get("", 1))
        return body + [
            GraphNode("Identity", [old], [new], opset=version, name=self.names.fresh(node.name + "/Identity"))
            for old, new in passed
        ]

    def count(self, node: GraphNode) -> None:
        self.made += 1 + len(node.inputs) + len(node.outputs) + len(node.attributes)
        if self.made > LIMIT:
            raise UnsupportedError("the functions of the model come to more than %d nodes and names" % LIMIT)


class _Copy:
    """One copy of a body: `given` are the values of attributes, a scope maps the body's names to those of the copy."""

    def __init__(self, inliner: _Inliner, call: str, given: Mapping[str, Any]) -> None:
        self.inliner = inliner
        self.call = call
        self.given = given

    def nodes(self, nodes: Sequence[GraphNode], scope: Dict[str, str]) -> List[GraphNode]:
        return [self.node(one, scope) for one in nodes]

    def node(self, node: GraphNode, scope: Dict[str, str]) -> GraphNode:
        self.inliner.count(node)
        attributes: Dict[str, Any] = {}
        for name, value in node.attributes.items():
            attributes[name] = self.value(value, scope)
            if attributes[name] is None:  # neither the call nor a default gives it
                del attributes[name]
        inputs = [self.name(name, scope) for name in node.inputs]
        outputs = [self.name(name, scope) for name in node.outputs]
        name = self.inliner.names.fresh("%s/%s" % (self.call, node.name))
        return GraphNode(node.operator, inputs, outputs, attributes, node.domain, node.opset, name, node.overload)

    def value(self, value: Any, scope: Dict[str, str]) -> Any:
        if isinstance(value, AttributeReference):
            return self.again(self.given.get(value.name))
        if isinstance(value, Graph):
            return self.graph(value, scope)
        if isinstance(value, tuple) and value and isinstance(value[0], Graph):
            return tuple(self.graph(one, scope) for one in value)
        return self.again(value)

    def again(self, value: Any) -> Any:
        """The same value, sharing nothing that can be let go of or renamed: a copy may be used in many places."""
        if isinstance(value, Constant):
            return value.copy()
        if isinstance(value, Graph):
            stored = {name: one.copy() for name, one in value.initializers.items()}
            nodes = [self.node_again(one) for one in value.nodes]
            return Graph(value.name, value.inputs, value.outputs, nodes, stored, value.value_info, value.doc)
        if isinstance(value, tuple) and value and isinstance(value[0], (Constant, Graph)):
            return tuple(map(self.again, value))
        return value

    def node_again(self, node: GraphNode) -> GraphNode:
        self.inliner.count(node)
        attributes = {name: self.again(value) for name, value in node.attributes.items()}
        names = node.domain, node.opset, node.name, node.overload
        return GraphNode(node.operator, node.inputs, node.outputs, attributes, *names)

    def name(self, name: str, scope: Dict[str, str]) -> str:
        if name and name not in scope:
            scope[name] = self.inliner.names.fresh("%s/%s" % (self.call, name))
        return scope.get(name, "")

    def graph(self, graph: Graph, outer: Dict[str, str]) -> Graph:
        """A subgraph of the body; the names that it defines are its own, whatever they are called outside."""
        scope = {name: new for name, new in outer.items() if name not in graph.names}
        inputs = [ValueInfo(self.name(one.name, scope), one.type) for one in graph.inputs]
        initializers = {self.name(name, scope): one.copy() for name, one in graph.initializers.items()}
        nodes = self.nodes(graph.nodes, scope)
        outputs = [ValueInfo(self.name(one.name, scope), one.type) for one in graph.outputs]
        info = {self.name(name, scope): kind for name, kind in graph.value_info.items() if name in scope}
        return Graph(graph.name, inputs, outputs, nodes, initializers, info, graph.doc)
