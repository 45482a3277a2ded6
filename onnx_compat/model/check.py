"""Check that every name of a graph is defined exactly once, and sort the nodes topologically."""

import heapq
from typing import AbstractSet, Dict, FrozenSet, List, Sequence, Set, Tuple

from onnx_compat.errors import InvalidModelError
from onnx_compat.model.graph import Graph, GraphNode
from onnx_compat.model.names import Names

__all__ = ["check"]

_AGAIN = "export the model again; onnx.checker.check_model says more about it"


def check(graph: Graph) -> Graph:
    """Return a new graph with the nodes in topological order, also in subgraphs, and with unique node names.

    The given nodes are renamed in place, and their subgraphs are replaced by the sorted ones.

    Raises InvalidModelError in these cases:

    - A value is not defined, or is defined twice in one graph.
    - An input has no name.
    - The nodes form a cycle.
    - The outermost graph has no outputs.
    """
    if not graph.outputs:
        raise InvalidModelError("the model's graph has no outputs, there is nothing to compute", hint=_AGAIN)
    return _check(graph, frozenset(), Names())


def _check(graph: Graph, outer: FrozenSet[str], names: Names) -> Graph:
    """Check a graph and its subgraphs, and sort their nodes. Return the new graph. Raises InvalidModelError as `check`.

    `outer`: the names of the values of the outer graphs. `names`: the node names so far; the nodes get unused names.
    """
    producers = _producers(graph)
    visible = outer | producers.keys()
    for node in graph.nodes:
        node.name = names.fresh(node.name)
        for name, value in node.attributes.items():
            if isinstance(value, Graph):
                node.attributes[name] = _check(value, visible, names)
            elif isinstance(value, tuple) and value and isinstance(value[0], Graph):
                node.attributes[name] = tuple(_check(subgraph, visible, names) for subgraph in value)
    for node in graph.nodes:
        for name in node.inputs:
            if name and name not in visible:
                raise InvalidModelError(
                    "it uses '%s', which is no initializer, no input and no node's output" % name,
                    hint="the initializer or the node that computes this value is missing: " + _AGAIN,
                    **node.where,
                )
    for port in graph.outputs:
        if port.name not in visible:
            raise InvalidModelError(
                "no node computes the output '%s' of graph '%s'" % (port.name, graph.name), hint=_AGAIN
            )
    nodes = _sort_nodes(graph.nodes, producers)
    return Graph(graph.name, graph.inputs, graph.outputs, nodes, graph.initializers, graph.value_info, graph.doc)


def _producers(graph: Graph) -> Dict[str, int]:
    """Return value name -> index of the node that produces the value, or -1 for an input or initializer.

    Raises InvalidModelError if a value is defined twice, or an input has no name. An initializer may have the name of
    an input.
    """
    producers: Dict[str, int] = {}
    for port in graph.inputs:
        if not port.name or port.name in producers:
            problem = "two inputs of graph '%s' are named '%s'" if port.name else "an input of graph '%s' has no name%s"
            raise InvalidModelError(problem % (graph.name, port.name), hint=_AGAIN)
        producers[port.name] = -1
    producers.update(dict.fromkeys(graph.initializers, -1))
    for index, node in enumerate(graph.nodes):
        for name in node.outputs:
            if not name:
                continue
            if name in producers:
                earlier = (
                    "an input or initializer"
                    if producers[name] < 0
                    else "node '%s'" % graph.nodes[producers[name]].name
                )
                raise InvalidModelError(
                    "its output '%s' is already defined by %s" % (name, earlier), hint=_AGAIN, **node.where
                )
            producers[name] = index
    return producers


def _sort_nodes(nodes: Sequence[GraphNode], producers: Dict[str, int]) -> Sequence[GraphNode]:
    """Return the nodes in topological order.

    If the given order is topological, it stays. Otherwise, of all nodes whose inputs are computed, the node with the
    lowest index in `nodes` comes next. `producers`: see `_producers`. Raises InvalidModelError if nodes form a cycle.
    """
    dependencies: List[Set[int]] = []
    for node in nodes:
        used = set(node.inputs).union(node.captures())
        dependencies.append({producers[name] for name in used if producers.get(name, -1) >= 0})
    if all(
        not producers_of_node or max(producers_of_node) < index for index, producers_of_node in enumerate(dependencies)
    ):
        return nodes
    consumers: List[List[int]] = [[] for _ in nodes]
    missing_counts = [len(producers_of_node) for producers_of_node in dependencies]
    for index, producers_of_node in enumerate(dependencies):
        for producer in producers_of_node:
            consumers[producer].append(index)
    ready = [index for index, count in enumerate(missing_counts) if not count]
    order: List[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for consumer in consumers[index]:
            missing_counts[consumer] -= 1
            if not missing_counts[consumer]:
                heapq.heappush(ready, consumer)
    if len(order) < len(nodes):
        raise _cycle_error(nodes, dependencies, set(range(len(nodes))) - set(order))
    return [nodes[index] for index in order]


def _cycle_error(
    nodes: Sequence[GraphNode], dependencies: Sequence[AbstractSet[int]], blocked: AbstractSet[int]
) -> InvalidModelError:
    """Return an error that names the nodes of a cycle among the nodes that cannot be sorted.

    - nodes: the nodes of the graph.
    - dependencies: for each node, the positions in `nodes` of the nodes that compute its inputs.
    - blocked: the positions in `nodes` of the nodes that cannot be sorted.
    """
    positions: Dict[int, int] = {}  # node -> its position on the path, in insertion order
    index = min(blocked)
    while index not in positions:
        positions[index] = len(positions)
        index = min(dependencies[index] & blocked)
    loop = list(positions)[positions[index] :][::-1]
    first = loop.index(min(loop))
    cycle: Tuple[str, ...] = tuple(nodes[member].name for member in loop[first:] + loop[:first])
    shown = cycle if len(cycle) <= 8 else (*cycle[:7], "…")
    return InvalidModelError(
        "the nodes of the graph form a cycle: %s -> %s" % (" -> ".join(shown), cycle[0]),
        hint=_AGAIN,
        node=cycle[0],
    )
