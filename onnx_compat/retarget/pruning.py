"""Remove initializers and nodes that nothing reads any more, because a node that read them has another form."""

from collections import Counter
from typing import TYPE_CHECKING, Iterable, List

from onnx_compat.retarget.protos import all_graphs, graphs_of

if TYPE_CHECKING:
    import onnx

__all__ = ["prune"]


def prune(model: "onnx.ModelProto", unread: Iterable[str]) -> List[str]:
    """Remove the producers of values in `unread` that have no reader left, in place. Return the names that are gone.

    A producer of values that only such a producer reads goes too. An input goes only if it has a default. Functions are not
    pruned.
    """
    uses: Counter[str] = Counter()
    graphs = [inner for graph in all_graphs(model) for inner in graphs_of(graph)]
    for graph in graphs:
        uses.update(port.name for port in graph.output)
        for node in graph.node:
            uses.update(name for name in node.input if name)
    candidates = [name for name in unread if name and not uses[name]]
    removed: List[str] = []
    while candidates:
        name = candidates.pop()
        for graph in graphs:
            candidates.extend(_remove_producer(graph, name, uses, removed))
    for graph in graphs:
        _drop_value_info(graph, removed)
    return removed


def _remove_producer(graph: "onnx.GraphProto", name: str, uses: "Counter[str]", removed: List[str]) -> List[str]:
    """Remove the initializer or the node of `graph` that gives `name`, if nothing reads it.

    Add its results to `removed`, and subtract its reads from `uses`. Return the names that lost their last reader.
    """
    ports = [port.name for port in graph.input]
    for position, tensor in enumerate(graph.initializer):
        if tensor.name == name:
            del graph.initializer[position]
            if name in ports:
                del graph.input[ports.index(name)]
            removed.append(name)
            return []
    if name in ports:
        return []
    for position, node in enumerate(graph.node):
        if name in node.output and not any(uses[output] for output in node.output if output):
            read = [value for value in node.input if value]
            removed.extend(output for output in node.output if output)
            has_graphs = any(attribute.HasField("g") for attribute in node.attribute)
            del graph.node[position]
            uses.subtract(read)
            return [] if has_graphs else [value for value in read if not uses[value]]
    return []


def _drop_value_info(graph: "onnx.GraphProto", removed: List[str]) -> None:
    gone = set(removed)
    for field in (graph.value_info, graph.quantization_annotation):
        for position in reversed(range(len(field))):
            entry = field[position]
            if (entry.name if hasattr(entry, "name") else entry.tensor_name) in gone:
                del field[position]
