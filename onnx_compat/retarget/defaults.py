"""Defaults of inputs: from IR version 4 on, a caller may replace them, so a rule may use one only if it is fixed."""

from typing import TYPE_CHECKING, Collection, Dict, Iterable, List, Set, Tuple

from onnx_compat.ir.dtypes import DType
from onnx_compat.model.protos import subgraphs_of, walk
from onnx_compat.retarget.inferred_facts import is_small

if TYPE_CHECKING:
    import onnx

__all__ = ["fix_defaults", "needed_defaults", "replaceable_inputs"]

#: The first IR version in which an input with an initializer may be fed. Before, each initializer is an input.
_REPLACEABLE = 4


def replaceable_inputs(model: "onnx.ModelProto") -> List[str]:
    """Return the names of the inputs with a default that a caller may replace, in the order of the inputs.

    The list is empty before IR version 4.
    """
    stored = {tensor.name for tensor in model.graph.initializer} if model.ir_version >= _REPLACEABLE else set()
    return [port.name for port in model.graph.input if port.name in stored]


def fix_defaults(model: "onnx.ModelProto", names: Collection[str]) -> None:
    """Remove the inputs `names` from the model, in place. Their initializers stay, so the defaults become constants."""
    for position in reversed(range(len(model.graph.input))):
        if model.graph.input[position].name in names:
            del model.graph.input[position]


def needed_defaults(model: "onnx.ModelProto", needed: Iterable[str]) -> List[str]:
    """Return the names of the inputs that must be fixed to their defaults, so that the values `needed` are known.

    An input counts if its default is replaceable and small, and if a needed value is or depends on the input. A float
    input that is not itself needed counts only if the needed value depends on no required input. Any other dtype counts
    always, because it may decide a shape.

    The result has the order of the inputs.
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
    """Return value name -> the names that the value may depend on.

    These are all names that its node reads. For a value in a subgraph, the node of the main graph around it counts. The
    names that nodes of its subgraphs read, and the outputs of the subgraphs, are included.
    """
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
    """Return the names of all values that a value depends on, itself included. `reads`: see `_reads_of_values`."""
    sources: Set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current not in sources:
            sources.add(current)
            waiting.extend(reads.get(current, ()))
    return sources
