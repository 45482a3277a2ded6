"""Is the graph one that can run: every name defined, once, before its use? Nodes that come too early are moved."""

import heapq
from typing import AbstractSet, Dict, FrozenSet, List, Sequence, Set, Tuple

from onnx_compat.errors import InvalidModelError
from onnx_compat.model.graph import Graph, GraphNode
from onnx_compat.model.names import Names

__all__ = ["check"]

_AGAIN = "export the model again; onnx.checker.check_model says more about it"


def check(graph: Graph) -> Graph:
    """The same graph with its nodes in an order in which they can run, under names that differ."""
    if not graph.outputs:
        raise InvalidModelError("the model's graph has no outputs, there is nothing to compute", hint=_AGAIN)
    return _check(graph, frozenset(), Names())


def _check(graph: Graph, outer: FrozenSet[str], names: Names) -> Graph:
    makers = _makers(graph)
    visible = outer | makers.keys()
    for node in graph.nodes:
        node.name = names.fresh(node.name)
        for name, value in node.attributes.items():
            if isinstance(value, Graph):
                node.attributes[name] = _check(value, visible, names)
            elif isinstance(value, tuple) and value and isinstance(value[0], Graph):
                node.attributes[name] = tuple(_check(one, visible, names) for one in value)
    for node in graph.nodes:
        for name in node.inputs:
            if name and name not in visible:
                raise InvalidModelError(
                    "it uses '%s', which is no initializer, no input and no node's output" % name,
                    hint="the initializer or the node that gave this value is missing: " + _AGAIN,
                    **node.where,
                )
    for one in graph.outputs:
        if one.name not in visible:
            raise InvalidModelError("nothing gives the output '%s' of graph '%s'" % (one.name, graph.name), hint=_AGAIN)
    nodes = _sorted(graph.nodes, makers)
    return Graph(graph.name, graph.inputs, graph.outputs, nodes, graph.initializers, graph.value_info, graph.doc)


def _makers(graph: Graph) -> Dict[str, int]:
    """name -> the index of the node that makes it, -1 for inputs and initializers; each name is made once."""
    makers: Dict[str, int] = {}
    for one in graph.inputs:
        if not one.name or one.name in makers:
            what = "two inputs of graph '%s' are named '%s'" if one.name else "an input of graph '%s' has no name%s"
            raise InvalidModelError(what % (graph.name, one.name), hint=_AGAIN)
        makers[one.name] = -1
    makers.update(dict.fromkeys(graph.initializers, -1))
    for index, node in enumerate(graph.nodes):
        for name in node.outputs:
            if not name:
                continue
            if name in makers:
                other = "an input or initializer" if makers[name] < 0 else "node '%s'" % graph.nodes[makers[name]].name
                raise InvalidModelError("it gives '%s', which %s gives too" % (name, other), hint=_AGAIN, **node.where)
            makers[name] = index
    return makers


def _sorted(nodes: Sequence[GraphNode], makers: Dict[str, int]) -> Sequence[GraphNode]:
    """The given order where it can run, else the nearest one: each node as early as its index and its inputs allow."""
    needs: List[Set[int]] = []
    for node in nodes:
        used = set(node.inputs).union(node.captures())
        needs.append({makers[name] for name in used if makers.get(name, -1) >= 0})
    if all(not need or max(need) < index for index, need in enumerate(needs)):
        return nodes
    users: List[List[int]] = [[] for _ in nodes]
    missing = [len(need) for need in needs]
    for index, need in enumerate(needs):
        for maker in need:
            users[maker].append(index)
    ready = [index for index, count in enumerate(missing) if not count]
    order: List[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for user in users[index]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, user)
    if len(order) < len(nodes):
        raise _cycle(nodes, needs, set(range(len(nodes))) - set(order))
    return [nodes[index] for index in order]


def _cycle(nodes: Sequence[GraphNode], needs: Sequence[AbstractSet[int]], left: AbstractSet[int]) -> InvalidModelError:
    """Walk back through nodes that wait for each other until one comes again: from there on is a cycle."""
    path: List[int] = []
    index = min(left)
    while index not in path:
        path.append(index)
        index = min(needs[index] & left)
    turn = path[path.index(index) :][::-1]
    first = turn.index(min(turn))
    cycle: Tuple[str, ...] = tuple(nodes[one].name for one in turn[first:] + turn[:first])
    shown = cycle if len(cycle) <= 8 else (*cycle[:7], "…")
    return InvalidModelError(
        "the nodes of the graph wait for each other: %s -> %s" % (" -> ".join(shown), cycle[0]),
        hint=_AGAIN,
        node=cycle[0],
    )
