"""Find the nodes that quantise values while the model runs, such as DynamicQuantizeLinear.

A quantiser rounds: a difference in the last digit of its input may become a whole step of its result. The optimisations
of onnxruntime change the last digits, so that its results with and without them differ by far more than a tolerance.
"""

from typing import Iterator, List, Set

from onnx_compat.model import Graph, GraphNode, Model

__all__ = ["quantizing_nodes"]

#: The first letters of the operators that round to integers, in every domain.
_QUANTISERS = ("DynamicQuantize", "Quantize", "QLinear", "QGemm")
#: The least `accuracy_level` at which the kernel of MatMulNBits quantises its first input.
_LEVEL_OF_INTEGERS = 4


def quantizing_nodes(model: Model) -> List[GraphNode]:
    """Return the nodes of a model, and of its subgraphs, that quantise a value which is unknown before the model runs.

    A quantiser of constants is left out. So are operators that only compute with integers, such as MatMulInteger, and
    DequantizeLinear: they are exact, and what they read is the result of a quantiser or an integer input.
    """
    return list(_search(model.graph, set()))


def _search(graph: Graph, outer_constants: Set[str]) -> Iterator[GraphNode]:
    """Yield the quantising nodes of a graph and of its subgraphs. `outer_constants`: constants of enclosing graphs."""
    constants = outer_constants | set(graph.initializers)
    for node in graph.nodes:
        subgraphs = list(node.subgraphs())
        for subgraph in subgraphs:
            yield from _search(subgraph, constants)
        if not subgraphs and constants.issuperset(filter(None, node.inputs)):
            constants.update(node.outputs)
        elif _rounds(node):
            yield node


def _rounds(node: GraphNode) -> bool:
    """Return whether the operator of a node rounds values to integers."""
    if node.operator == "MatMulNBits":
        level = node.attributes.get("accuracy_level", 0)
        return isinstance(level, int) and level >= _LEVEL_OF_INTEGERS
    return node.operator.startswith(_QUANTISERS)
