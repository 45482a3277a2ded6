"""Defaults of inputs: from IR version 4 on, a caller may replace them, so a rule may use one only if it is fixed."""

from typing import TYPE_CHECKING, Collection, Dict, Iterable, List, Set, Tuple

from onnx_compat.ir.dtypes import DType
from onnx_compat.retarget.inferred_facts import is_small
from onnx_compat.retarget.protos import subgraphs_of, walk

if TYPE_CHECKING:
    import onnx

__all__ = ["fix_defaults", "needed_defaults", "replaceable_inputs"]

#: The first IR version in which an input with an initializer may be fed. Before, each initializer is an input.
_REPLACEABLE = 4


def replaceable_inputs(model: "onnx.ModelProto") -> List[str]:
    """Return the names of the inputs with a default that a caller may replace."""
    stored = {tensor.name for tensor in model.graph.initializer} if model.ir_version >= _REPLACEABLE else set()
    return [port.name for port in model.graph.input if port.name in stored]


def fix_defaults(model: "onnx.ModelProto", names: Collection[str]) -> None:
    """Remove inputs from the model, so that their defaults are constants."""
    for position in reversed(range(len(model.graph.input))):
        if model.graph.input[position].name in names:
            del model.graph.input[position]


def needed_defaults(model: "onnx.ModelProto", needed: Iterable[str]) -> List[str]:
    """Return the inputs whose defaults decide the values or the shapes in `needed`, in the order of the inputs.

    An integer may decide a shape. A float decides a value that depends on no required input.
    """
    inputs = replaceable_inputs(model)
    small = {tensor.name: tensor for tensor in model.graph.initializer if tensor.name in inputs and is_small(tensor)}
    if not small:
        return []
    required = {port.name for port in model.graph.input} - set(inputs)
    reads = _reads_of_values(model)
    chosen: Set[str] = set()
    for name in needed:
        sources = _sources(name, reads)
        for source in sources & small.keys():
            if source == name or not sources & required or DType.of(small[source].data_type).kind != "f":
                chosen.add(source)
    return [name for name in inputs if name in chosen]


def _reads_of_values(model: "onnx.ModelProto") -> Dict[str, Tuple[str, ...]]:
    """Return for each value all names that its node of the main graph reads, with those of the node's subgraphs."""
    reads: Dict[str, Tuple[str, ...]] = {}
    for node in model.graph.node:
        inner = list(walk([node]))
        names = [name for entry in inner for name in entry.input]
        graphs = [graph for entry in inner for graph in subgraphs_of(entry)]
        names += [port.name for graph in graphs for port in graph.output]
        unique = tuple(dict.fromkeys(names))
        reads.update((name, unique) for entry in inner for name in entry.output)
        reads.update((port.name, unique) for graph in graphs for port in graph.input)
    return reads


def _sources(name: str, reads: Dict[str, Tuple[str, ...]]) -> Set[str]:
    """Return the names of all values that a value depends on, itself included."""
    sources: Set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current not in sources:
            sources.add(current)
            waiting.extend(reads.get(current, ()))
    return sources
