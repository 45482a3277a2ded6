"""The registry of derivative rules.

A rule is called with a `RecordedNode` and a derivative for each result of the node; None if the differentiated tensor
does not depend on the result. It returns a list with the derivative of each argument, or None for an argument without a
derivative. A list of tensors as an argument has a list of derivatives.
"""

from typing import Any, Callable, Dict, List, Sequence

from onnx_compat import primitives as p
from onnx_compat.ir import Arg, Const, Extents, Node, Ref
from onnx_compat.ir.dims import Extent, is_equal
from onnx_compat.primitives.base import result
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor

__all__ = ["RULES", "RecordedNode", "apply_pending_order", "rule", "sum_to"]

Rule = Callable[..., Sequence[Any]]
RULES: Dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a function as the derivative rule of the primitives with these names.

    The decorator returns the function unchanged. A later registration of a name replaces an earlier one.
    """

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def to_tensors(arg: Arg) -> Any:
    """Convert an argument of a recorded node to the form that a derivative rule reads.

    - A `Ref` or a `Const` becomes a Tensor, in its stored order.
    - `Extents` become a list of sizes.
    - A tuple becomes a list of converted items.
    - None stays None.
    """
    if isinstance(arg, Ref):
        return Tensor(arg.spec.dtype, arg.spec.shape, ref=arg)
    if isinstance(arg, Const):
        return Tensor(arg.spec.dtype, arg.spec.shape, arg.array, weight=arg.weight)
    if isinstance(arg, Extents):
        return list(arg.dims)
    if isinstance(arg, tuple):
        return [to_tensors(item) for item in arg]
    return arg


def apply_pending_order(x: Tensor) -> Tensor:
    """Record the pending order of x as a transpose; return the result. Return x itself if it has no pending order."""
    if x.order is None:
        return x
    stored = current_trace().argument(x)
    assert isinstance(stored, Ref)  # only a computed tensor has a pending order
    return result(stored)


class RecordedNode:
    """A recorded node in the form that a derivative rule reads.

    - args, outputs: lists of the node's arguments and results, each converted by `to_tensors`.
    - primitive: the name of the primitive.
    - params: parameter name -> value. Axes are physical.
    """

    def __init__(self, node: Node) -> None:
        self.args: List[Any] = [to_tensors(arg) for arg in node.args]
        self.primitive = node.primitive
        self.params: Any = node.params
        self.outputs: List[Any] = [to_tensors(output) for output in node.outputs]

    @property
    def y(self) -> Any:
        """The first result of the node."""
        return self.outputs[0]


def sum_to(g: Tensor, shape: Sequence[Extent]) -> Tensor:
    """Sum g over the axes along which a tensor of shape `shape` was broadcast to g. Return a Tensor of shape `shape`.

    The axes are the leading axes that `shape` lacks, and each axis that has size 1 in `shape` and another size in g.
    """
    lead = g.rank - len(shape)
    axes = [axis for axis in range(lead, g.rank) if is_equal(shape[axis - lead], 1) and not is_equal(g.shape[axis], 1)]
    total = p.reduce_sum(g, [*range(lead), *axes], keepdims=True)
    return p.reshape(total, tuple(shape))
