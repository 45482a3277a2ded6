"""Remove initializers and nodes that nothing reads any more, because a node that read them has another form."""

from collections import Counter
from typing import TYPE_CHECKING, Collection, Dict, Iterable, List, NamedTuple, Sequence, Set

from onnx_compat.retarget.protos import all_graphs, graphs_of

if TYPE_CHECKING:
    import onnx

__all__ = ["prune"]


class _Producer(NamedTuple):
    """An initializer or a node: the number of its graph, "initializer" or "node", and its position there."""

    graph: int
    field: str
    position: int


def prune(model: "onnx.ModelProto", unread: Iterable[str], kept: Collection[str] = ()) -> List[str]:
    """Remove the producers of values in `unread` that have no reader left, in place. Return the names that are gone.

    A producer of values that only such a producer reads goes too. An input goes only if it has a default. The values in
    `kept` stay. Functions are not pruned.
    """
    graphs = [inner for graph in all_graphs(model) for inner in graphs_of(graph)]
    uses = _count_uses(graphs)
    producers = _producers_in(graphs)
    gone: Set[_Producer] = set()
    removed: List[str] = []
    candidates = [name for name in unread if name]
    while candidates:
        name = candidates.pop()
        if uses[name] > 0 or name in kept:
            continue
        for producer in producers.get(name, ()):
            if producer.field == "initializer":
                gone.add(producer)
                removed.append(name)
            elif producer not in gone:
                node = graphs[producer.graph].node[producer.position]
                if not any(uses[output] > 0 for output in node.output if output):
                    gone.add(producer)
                    removed.extend(output for output in node.output if output)
                    uses.subtract(node.input)
                    has_graphs = any(attribute.HasField("g") for attribute in node.attribute)
                    candidates.extend(() if has_graphs else node.input)
    _delete(graphs, gone, set(removed))
    return removed


def _count_uses(graphs: "Sequence[onnx.GraphProto]") -> "Counter[str]":
    uses: Counter[str] = Counter()
    for graph in graphs:
        uses.update(port.name for port in graph.output)
        for node in graph.node:
            uses.update(node.input)
    return uses


def _producers_in(graphs: "Sequence[onnx.GraphProto]") -> Dict[str, List[_Producer]]:
    """Return name -> its initializers and nodes. Graphs beside each other may have values of one name."""
    producers: Dict[str, List[_Producer]] = {}
    for number, graph in enumerate(graphs):
        for position, tensor in enumerate(graph.initializer):
            producers.setdefault(tensor.name, []).append(_Producer(number, "initializer", position))
        for position, node in enumerate(graph.node):
            for name in filter(None, node.output):
                producers.setdefault(name, []).append(_Producer(number, "node", position))
    return producers


def _delete(graphs: "Sequence[onnx.GraphProto]", gone: Set[_Producer], names: Set[str]) -> None:
    """Delete the producers, and the declarations of the values in `names`. Ports are declarations of initializers."""
    stored: Dict[int, Set[str]] = {}
    for producer in sorted(gone, reverse=True):
        field = getattr(graphs[producer.graph], producer.field)
        if producer.field == "initializer":
            stored.setdefault(producer.graph, set()).add(field[producer.position].name)
        del field[producer.position]
    for number, graph in enumerate(graphs):
        _delete_named(graph.input, stored.get(number, set()))
        _delete_named(graph.value_info, names)
        _delete_named(graph.quantization_annotation, names)


def _delete_named(field: "Sequence[onnx.ValueInfoProto]", names: Set[str]) -> None:
    for position in reversed(range(len(field))):
        entry = field[position]
        if (entry.name if hasattr(entry, "name") else entry.tensor_name) in names:
            del field[position]  # type: ignore[attr-defined]  # a repeated field
