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
    """Register a function as the derivative rule of the primitives with these names.

    The last registration of a name holds.
    """

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def to_tensors(arg: Arg) -> Any:
    """Convert an argument of a recorded node for a rule.

    A value or a constant becomes a Tensor in its stored order, sizes become a list, a tuple becomes a list of converted
    items. Return any other argument unchanged.
    """
    if isinstance(arg, Ref):
        return Tensor(arg.spec.dtype, arg.spec.shape, ref=arg)
    if isinstance(arg, Const):
        return Tensor(arg.spec.dtype, arg.spec.shape, arg.array)
    if isinstance(arg, Extents):
        return list(arg.dims)
    if isinstance(arg, tuple):
        return [to_tensors(item) for item in arg]
    return arg


def apply_pending_order(x: Tensor) -> Tensor:
    """Return x with its pending order recorded as a transpose; return x itself without a pending order."""
    if x.order is None:
        return x
    stored = current_trace().argument(x)
    assert isinstance(stored, Ref)  # only a computed tensor has a pending order
    return result(stored)


class RecordedNode:
    """A recorded node for a rule: arguments and results as Tensors in stored order, parameters with physical axes."""

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
    """Sum g over the axes along which a tensor of this shape was broadcast. The result has this shape.

    They are the leading axes that the shape lacks, and the axes where the shape has size 1 and g has another size.
    """
    lead = g.rank - len(shape)
    axes = [axis for axis in range(lead, g.rank) if is_equal(shape[axis - lead], 1) and not is_equal(g.shape[axis], 1)]
    total = p.reduce_sum(g, [*range(lead), *axes], keepdims=True)
    return p.reshape(total, tuple(shape))
