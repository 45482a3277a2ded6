"""Derivatives of what a trace has recorded, by reverse accumulation, as primitives of the same trace.

Works on values as they are stored (no pending order): every recorded node is known by its own arguments and
parameters. The rules are in `elementwise`, `structure` and `linear`: one for each primitive.
"""

from typing import Any, Dict, List, Optional, Sequence, Set

import onnx_compat.autodiff.elementwise
import onnx_compat.autodiff.linear
import onnx_compat.autodiff.structure
from onnx_compat import primitives as p
from onnx_compat.autodiff.rules import RULES, Application
from onnx_compat.errors import UnsupportedError
from onnx_compat.ir import Extents, Node, Ref
from onnx_compat.primitives.base import apply
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor

__all__ = ["gradients", "variable"]


def variable(x: Tensor) -> Tensor:
    """The same value as one that is computed at run time: what is made of it is recorded, even if x is known."""
    arg = current_trace().argument(x)
    return apply("reshape", [arg, Extents(x.shape)], {}, [x.spec])[0]


def gradients(y: Tensor, xs: Sequence[Tensor]) -> List[Tensor]:
    """The derivative of the sum of y's elements with respect to each of the xs (`variable`s that y was made of)."""
    wanted = {x.ref for x in xs if x.ref is not None}
    known: Dict[Ref, Tensor] = {}
    if y.ref is not None:
        known[y.ref] = p.full(y.ref.spec.shape, 1, y.dtype)
        for node in reversed(_between(y.ref, wanted)):
            _through(node, known)
    return [known[x.ref] if x.ref in known else p.full(x.shape, 0, x.dtype) for x in xs]


def _between(y: Ref, xs: Set[Any]) -> List[Node]:
    """The nodes that lead from the xs to y, each after those that it reads."""
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


def _through(node: Node, known: Dict[Ref, Tensor]) -> None:
    """Pass the derivatives of a node's outputs on to its arguments."""
    coming = [known.get(output) for output in node.outputs]
    if all(one is None for one in coming):
        return
    rule = RULES.get(node.primitive)
    if rule is None:
        raise UnsupportedError(
            "the derivative of the primitive '%s' is not known" % node.primitive,
            hint="compute this gradient outside of the model",
        )
    for arg, derivative in zip(_leaves(node.args), _leaves(rule(Application(node), *coming))):
        if isinstance(arg, Ref) and derivative is not None:
            known[arg] = derivative if arg not in known else p.add(known[arg], derivative)


def _leaves(args: Sequence[Any]) -> List[Optional[Any]]:
    flat: List[Any] = []
    for arg in args:
        flat.extend(arg if isinstance(arg, (tuple, list)) else [arg])
    return flat
