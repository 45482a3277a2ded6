"""What a rule is: a function from a recorded application of a primitive and the derivative of its result (of each
result) to a list with the derivative of each argument, None where there is none.
"""

from typing import Any, Callable, Dict, List, Sequence

from onnx_compat import primitives as p
from onnx_compat.ir import Const, Extents, Node, Ref
from onnx_compat.ir.dims import Extent, is_equal
from onnx_compat.primitives.base import result
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor

__all__ = ["RULES", "Application", "rule", "stored_as_is", "summed_to"]

Rule = Callable[..., Sequence[Any]]
RULES: Dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def stored(arg: Any) -> Any:
    """A recorded argument as a Tensor in the order in which it is stored, or as a list of sizes."""
    if isinstance(arg, Ref):
        return Tensor(arg.spec.dtype, arg.spec.shape, ref=arg)
    if isinstance(arg, Const):
        return Tensor(arg.spec.dtype, arg.spec.shape, arg.array)
    if isinstance(arg, Extents):
        return list(arg.dims)
    if isinstance(arg, tuple):
        return [stored(item) for item in arg]
    return arg


def stored_as_is(x: Tensor) -> Tensor:
    """Without a pending order: a derivative is added to others as it lies."""
    return x if x.order is None else result(current_trace().argument(x))  # type: ignore[arg-type]


class Application:
    """A recorded node, with everything as it is stored: its arguments, parameters and results."""

    def __init__(self, node: Node) -> None:
        self.args: List[Any] = [stored(arg) for arg in node.args]
        self.primitive = node.primitive
        self.params: Any = node.params
        self.outputs: List[Any] = [stored(output) for output in node.outputs]

    @property
    def y(self) -> Any:
        return self.outputs[0]


def summed_to(g: Tensor, shape: Sequence[Extent]) -> Tensor:
    """What was broadcast from a shape, added up to it again."""
    lead = g.rank - len(shape)
    axes = [axis for axis in range(lead, g.rank) if is_equal(shape[axis - lead], 1) and not is_equal(g.shape[axis], 1)]
    total = p.reduce_sum(g, [*range(lead), *axes], keepdims=True)
    return p.reshape(total, tuple(shape))
