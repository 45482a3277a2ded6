"""Remove initializers and nodes that nothing reads any more, because a node that read them has another form."""

from collections import Counter
from typing import TYPE_CHECKING, Collection, Dict, Iterable, List, NamedTuple, Sequence, Set

from onnx_compat.model.protos import graphs_of, subgraphs_of
from onnx_compat.retarget.protos import all_graphs

if TYPE_CHECKING:
    import onnx

__all__ = ["prune"]


class _Producer(NamedTuple):
    """An initializer or a node: the number of its graph, the field "initializer" or "node", and its position there."""

    graph: int
    field: str
    position: int


def prune(model: "onnx.ModelProto", unread: Iterable[str], kept: Collection[str] = ()) -> List[str]:
    """Remove initializers and nodes whose results nothing reads any more, in place (dead code elimination).

    Return the names of the removed values.

    - unread: the names of values that lost a reader. Only their producers are examined, and the producers of values
      that a removed node read. The inputs of a removed node with a subgraph are not examined.
    - kept: the names of values that stay.

    An input is removed only with its initializer. The declared types of removed values are removed too. Functions are
    not pruned.
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
                    candidates.extend(() if subgraphs_of(node) else node.input)
    _delete(graphs, gone, set(removed))
    return removed


def _count_uses(graphs: "Sequence[onnx.GraphProto]") -> "Counter[str]":
    """Return value name -> number of its reads: by nodes of the graphs, and as an output of a graph."""
    uses: Counter[str] = Counter()
    for graph in graphs:
        uses.update(port.name for port in graph.output)
        for node in graph.node:
            uses.update(node.input)
    return uses


def _producers_in(graphs: "Sequence[onnx.GraphProto]") -> Dict[str, List[_Producer]]:
    """Return value name -> the initializers and nodes that give it. Two graphs may have values of the same name."""
    producers: Dict[str, List[_Producer]] = {}
    for number, graph in enumerate(graphs):
        for position, tensor in enumerate(graph.initializer):
            producers.setdefault(tensor.name, []).append(_Producer(number, "initializer", position))
        for position, node in enumerate(graph.node):
            for name in filter(None, node.output):
                producers.setdefault(name, []).append(_Producer(number, "node", position))
    return producers


def _delete(graphs: "Sequence[onnx.GraphProto]", gone: Set[_Producer], names: Set[str]) -> None:
    """Delete the producers in `gone` from the graphs, and the declarations of the values in `names`.

    An input of a graph is deleted if it declares a deleted initializer of this graph.
    """
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
    """Delete the entries of a repeated field whose name, or tensor name, is in `names`."""
    for position in reversed(range(len(field))):
        entry = field[position]
        if (entry.name if hasattr(entry, "name") else entry.tensor_name) in names:
            del field[position]  # type: ignore[attr-defined]  # a repeated field
