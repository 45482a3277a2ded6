"""The registry of derivative rules.

A rule is called with a `RecordedNode` and a derivative for each result of the node; None if the differentiated tensor
does not depend on the result. It returns a list with the derivative of each argument, then of each capture, or None for
one without a derivative. A list of tensors as an argument has a list of derivatives.
"""

from typing import Any, Callable, Dict, List, Sequence

from onnx_compat import primitives as p
from onnx_compat.ir import Arg, Const, Extents, Node, Ref
from onnx_compat.ir.dims import Extent, is_equal
from onnx_compat.ir.dtypes import DType, float32
from onnx_compat.primitives.base import result
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor

__all__ = ["RULES", "RecordedNode", "apply_pending_order", "captures_of", "derivative_dtype", "rule", "sum_to"]

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


def derivative_dtype(dtype: DType) -> DType:
    """Return the dtype of the derivative by a tensor of a dtype: float32 for integers and floats of up to 8 bits.

    Other floats and complex numbers have derivatives of their own dtype.
    """
    return float32 if dtype.kind not in "fc" or dtype.bits <= 8 else dtype


def captures_of(node: Node) -> List[Ref]:
    """Return the values of enclosing regions that the regions of a node read. Each occurs once."""
    return list(dict.fromkeys(ref for region in node.regions for ref in region.captures()))


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
    - regions: the regions of control flow; `captures`: the outer values that they read, as Tensors.
    """

    def __init__(self, node: Node) -> None:
        self.args: List[Any] = [to_tensors(arg) for arg in node.args]
        self.primitive = node.primitive
        self.params: Any = node.params
        self.regions = node.regions
        self.captures: List[Tensor] = [result(ref) for ref in captures_of(node)]
        self.outputs: List[Any] = [to_tensors(output) for output in node.outputs]

    @property
    def y(self) -> Any:
        """The first result of the node."""
        return self.outputs[0]

    def factors(self, dtype: DType) -> List[Any]:
        """Return the arguments, then the first result, cast to the dtype of the derivative of the result.

        The derivatives of integers (with the choice `straight_through`) and of small floats have another dtype.
        """
        return [x if x.dtype.kind == "b" else p.cast(x, dtype) for x in (*self.args, self.y)]


def sum_to(g: Tensor, shape: Sequence[Extent]) -> Tensor:
    """Sum g over the axes along which a tensor of shape `shape` was broadcast to g. Return a Tensor of shape `shape`.

    The axes are the leading axes that `shape` lacks, and each axis that has size 1 in `shape` and another size in g.
    """
    lead = g.rank - len(shape)
    axes = [axis for axis in range(lead, g.rank) if is_equal(shape[axis - lead], 1) and not is_equal(g.shape[axis], 1)]
    total = p.reduce_sum(g, [*range(lead), *axes], keepdims=True)
    return p.reshape(total, tuple(shape))
