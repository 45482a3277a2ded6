"""Reverse-mode automatic differentiation of recorded nodes. Derivatives are recorded in the same trace, as primitives.

Values are in storage order (physical), without a pending order, like the arguments and parameters of recorded nodes.
The rules of the primitives are in `elementwise`, `structure` and `linear`.
"""

from typing import Any, Dict, Iterable, List, Optional, Sequence

import onnx_compat.autodiff.elementwise
import onnx_compat.autodiff.linear
import onnx_compat.autodiff.structure
from onnx_compat import primitives as p
from onnx_compat.autodiff.rules import RULES, RecordedNode
from onnx_compat.errors import UnsupportedError
from onnx_compat.ir import Extents, Node, Ref
from onnx_compat.primitives.base import apply
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor

__all__ = ["gradients", "variable"]


def variable(x: Tensor) -> Tensor:
    """Return a run-time copy of x, so that computations on the result are recorded and never folded.

    The copy is recorded as a reshape to the same shape. A pending order of x is recorded as a transpose.
    """
    arg = current_trace().argument(x)
    return apply("reshape", [arg, Extents(x.shape)], {}, [x.spec])[0]


def gradients(y: Tensor, xs: Sequence[Tensor]) -> List[Tensor]:
    """Return a list of the derivatives of the sum of y's elements with respect to each tensor in `xs`, in this order.

    Each tensor in `xs` is a run-time value, such as a result of `variable`. The tensors in `xs` count as independent of
    each other. A derivative has the shape of its tensor. The derivative is zero if y does not depend on the tensor, or
    only through piecewise constant primitives.

    Raises UnsupportedError if a primitive between `xs` and y has no derivative rule, or none for its parameters.
    """
    variables = {x.ref for x in xs if x.ref is not None}
    derivatives: Dict[Ref, Tensor] = {}
    if y.ref is not None:
        derivatives[y.ref] = p.full(y.ref.spec.shape, 1, y.dtype)
        for node in reversed(_path_nodes(y.ref, variables)):
            _backpropagate(node, derivatives)
    return [derivatives[x.ref] if x.ref in derivatives else p.full(x.shape, 0, x.dtype) for x in xs]


def _path_nodes(y: Ref, xs: Iterable[Ref]) -> List[Node]:
    """Return the nodes on the paths from the `xs` to y, in topological order: each node after the nodes that it uses.

    The list is empty if y does not depend on any of `xs`, or is one of them.
    """
    ordered: List[Node] = []
    depends: Dict[Ref, bool] = dict.fromkeys(xs, True)
    stack = [(y, False)]
    while stack:
        ref, are_sources_ordered = stack.pop()
        if ref in depends or ref.node is None:
            depends.setdefault(ref, False)
            continue
        sources = list(ref.node.uses())
        if not are_sources_ordered:
            stack.append((ref, True))
            stack.extend((source, False) for source in sources if source not in depends)
            continue
        depends_on_xs = any(depends[source] for source in sources)
        depends.update(dict.fromkeys(ref.node.outputs, depends_on_xs))
        if depends_on_xs:
            ordered.append(ref.node)
    return ordered


def _backpropagate(node: Node, derivatives: Dict[Ref, Tensor]) -> None:
    """Add the derivatives of a node's arguments to `derivatives`, by the derivative rule of the node's primitive.

    `derivatives` maps a tensor to its derivative and is changed in place. A derivative is added to the entry that the
    argument already has. Constants, and arguments for which the rule returns None, get no entry.

    If `derivatives` has an entry for none of the node's outputs, do nothing. Otherwise, raises UnsupportedError if the
    primitive has no rule. Errors of the rule propagate.
    """
    output_derivatives = [derivatives.get(output) for output in node.outputs]
    if all(g is None for g in output_derivatives):
        return
    rule = RULES.get(node.primitive)
    if rule is None:
        raise UnsupportedError(
            "the derivative of the primitive '%s' is not known" % node.primitive,
            hint="compute this gradient outside of the model",
        )
    for arg, derivative in zip(_leaves(node.args), _leaves(rule(RecordedNode(node), *output_derivatives))):
        if isinstance(arg, Ref) and derivative is not None:
            derivatives[arg] = derivative if arg not in derivatives else p.add(derivatives[arg], derivative)


def _leaves(args: Sequence[Any]) -> List[Optional[Any]]:
    """Return the arguments as a new list. A list or tuple of arguments is replaced by its items, one level deep."""
    flat: List[Any] = []
    for arg in args:
        flat.extend(arg if isinstance(arg, (tuple, list)) else [arg])
    return flat
