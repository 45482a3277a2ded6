"""ai.onnx.preview.training: derivatives."""

from typing import Any, List, Sequence

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.model import Graph, ValueInfo
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor

_DOMAIN = "ai.onnx.preview.training"


@op("Gradient", since=1, domain=_DOMAIN)
def gradient(ctx: Any, *Inputs: Any, xs: Sequence[str], y: str, zs: Sequence[str] = ()) -> List[Tensor]:
    """The derivatives of y by the xs. What lies between them is traced anew, from the values of this node's inputs."""
    from onnx_compat.tracing.interpreter import (
        Interpreter,  # one without fast paths: it is primitives that have derivatives
    )

    names = (*xs, *zs)
    if len(Inputs) != len(names):
        raise InvalidModelError("%d values were given for the %d names in xs and zs" % (len(Inputs), len(names)))
    between = _extract_subgraph(ctx.graph, names, y)

    def value(*variables: Tensor) -> Tensor:
        (made,) = Interpreter().run(between, [*variables, *Inputs[len(xs) :]], ctx.scope)
        return made  # type: ignore[no-any-return]

    return p.gradient(value, Inputs[: len(xs)])


def _extract_subgraph(graph: Graph, names: Sequence[str], y: str) -> Graph:
    """The part of the graph that computes y from the values of these names (and from constants)."""
    makers = {name: node for node in graph.nodes for name in node.outputs if name}
    needed, waiting = set(), [y]
    while waiting:
        name = waiting.pop()
        node = makers.get(name)
        if name not in names and node is not None and node not in needed:
            needed.add(node)
            waiting.extend((*node.inputs, *node.captures()))
    nodes = [node for node in graph.nodes if node in needed]
    inputs = [ValueInfo(name, None) for name in names]
    initializers = {name: one for name, one in graph.initializers.items() if name not in names}
    return Graph("%s of %s" % (y, graph.name), inputs, [ValueInfo(y, None)], nodes, initializers)
