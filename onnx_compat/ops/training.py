"""The operator Gradient of ai.onnx.preview.training."""

from typing import TYPE_CHECKING, List, Sequence

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.model import Graph, ValueInfo
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor

if TYPE_CHECKING:
    from onnx_compat.tracing.interpreter import Context


_DOMAIN = "ai.onnx.preview.training"


@op("Gradient", since=1, domain=_DOMAIN)
def gradient(ctx: "Context", *Inputs: Tensor, xs: Sequence[str], y: str, zs: Sequence[str] = ()) -> List[Tensor]:
    """Return the derivatives of y with respect to each of `xs`. `y`, `xs` and `zs` are names of values of the graph.

    The inputs of the node are the values of `xs`, then the values of `zs`. The values of `zs` count as constants. The
    nodes from these values to y are traced again.

    A derivative is that of the sum of y's elements, and has the shape of its x. It is zero if y does not depend on x.

    Raises InvalidModelError if the number of inputs is not that of the names in `xs` and `zs`. Raises it as well if y
    depends on an input of the model that `xs` and `zs` do not name.
    """
    from onnx_compat.tracing.interpreter import (
        Interpreter,  # without natives: only primitives have derivatives
    )

    names = (*xs, *zs)
    if len(Inputs) != len(names):
        raise InvalidModelError("%d values were given for the %d names in xs and zs" % (len(Inputs), len(names)))
    subgraph = _extract_subgraph(ctx.graph, names, y)

    def value(*variables: Tensor) -> Tensor:
        outputs: Sequence[Tensor] = Interpreter().run(subgraph, [*variables, *Inputs[len(xs) :]], ctx.scope)
        return outputs[0]

    return p.gradient(value, Inputs[: len(xs)])


def _extract_subgraph(graph: Graph, names: Sequence[str], y: str) -> Graph:
    """Return a graph with the inputs `names` and the output y: the nodes that y depends on, in their order.

    Nodes that y depends on only through a value in `names` are left out. The initializers of the graph are kept, except
    those in `names`.

    Raises InvalidModelError if y depends on an input without a default that is not in `names`.
    """
    required = {port.name for port in graph.required}
    producers = {name: node for node in graph.nodes for name in node.outputs if name}
    needed, pending = set(), [y]
    while pending:
        name = pending.pop()
        if name in required and name not in names:
            raise InvalidModelError("'%s' depends on the input '%s', which xs and zs do not name" % (y, name))
        node = producers.get(name)
        if name not in names and node is not None and node not in needed:
            needed.add(node)
            pending.extend((*node.inputs, *node.captures()))
            if (node.domain, node.operator) == (_DOMAIN, "Gradient"):  # a derivative of second order
                pending.append(node.attributes.get("y", ""))
    nodes = [node for node in graph.nodes if node in needed]
    inputs = [ValueInfo(name, None) for name in names]
    initializers = {name: tensor for name, tensor in graph.initializers.items() if name not in names}
    return Graph("%s of %s" % (y, graph.name), inputs, [ValueInfo(y, None)], nodes, initializers)
