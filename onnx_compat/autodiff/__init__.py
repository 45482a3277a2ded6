"""Reverse-mode automatic differentiation of recorded nodes, by primitives of the same trace.

It works on physical values without a pending order, because recorded nodes have physical arguments and parameters. The
rules of the primitives are in `elementwise`, `structure` and `linear`.
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
    """Return x as a run-time value, so that every computation on it is recorded even if x is known."""
    arg = current_trace().argument(x)
    return apply("reshape", [arg, Extents(x.shape)], {}, [x.spec])[0]


def gradients(y: Tensor, xs: Sequence[Tensor]) -> List[Tensor]:
    """Return the derivative of the sum of y's elements with respect to each of the xs, which `variable` returned."""
    wanted = {x.ref for x in xs if x.ref is not None}
    known: Dict[Ref, Tensor] = {}
    if y.ref is not None:
        known[y.ref] = p.full(y.ref.spec.shape, 1, y.dtype)
        for node in reversed(_path_nodes(y.ref, wanted)):
            _backpropagate(node, known)
    return [known[x.ref] if x.ref in known else p.full(x.shape, 0, x.dtype) for x in xs]


def _path_nodes(y: Ref, xs: Iterable[Ref]) -> List[Node]:
    """Return the nodes on the paths from the xs to y, in topological order."""
    ordered: List[Node] = []
    depends: Dict[Ref, bool] = dict.fromkeys(xs, True)
    stack = [(y, False)]
    while stack:
        ref, done = stack.pop()
        if ref in depends or ref.node is None:
            depends.setdefault(ref, False)
            continue
        sources = list(ref.node.uses())
        if not done:
            stack.append((ref, True))
            stack.extend((source, False) for source in sources if source not in depends)
            continue
        leads = any(depends[source] for source in sources)
        depends.update(dict.fromkeys(ref.node.outputs, leads))
        if leads:
            ordered.append(ref.node)
    return ordered


def _backpropagate(node: Node, known: Dict[Ref, Tensor]) -> None:
    """Add the derivatives of a node's arguments to `known`, from those of its outputs."""
    output_derivatives = [known.get(output) for output in node.outputs]
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
            known[arg] = derivative if arg not in known else p.add(known[arg], derivative)


def _leaves(args: Sequence[Any]) -> List[Optional[Any]]:
    """Return the arguments with lists of tensors flattened."""
    flat: List[Any] = []
    for arg in args:
        flat.extend(arg if isinstance(arg, (tuple, list)) else [arg])
    return flat
