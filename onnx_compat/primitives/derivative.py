"""Differentiate a function of Tensors: by the framework, or by the derivative rules of `onnx_compat.autodiff`."""

from typing import Any, Callable, Dict, List, Sequence

from onnx_compat.errors import UnsupportedError
from onnx_compat.ir import Region
from onnx_compat.primitives.base import apply_primitive, primitive
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor, lift

__all__ = ["HINT", "gradient"]

#: What a user can do about a derivative that does not exist.
HINT = "freeze the tensor: name it in zs, not in xs; or replace the operator by operators that have a derivative"


@primitive("f")
def gradient(body: Callable[..., Tensor], xs: Sequence[Any]) -> List[Tensor]:
    """The derivative of the sum of all elements of `body(*xs)` with respect to each x of `xs`: a list of Tensors.

    A derivative has the shape of its x. It is zero if the sum does not depend on x, or depends on x only through
    piecewise constant primitives. It is zero also if x is no float.

    Emitter: gradient(*xs, bodies=[body, its derivative by the core's rules], captures=[...], refusal=""). If the core
    lacks a derivative rule, the second body is missing, and `refusal` says which rule. A trace that executes at once
    raises UnsupportedError instead.

    With a choice of `onnx_compat.autodiff.choose`, the derivative by the core's rules is recorded in place of this
    primitive. A missing rule then raises UnsupportedError.
    """
    from onnx_compat import autodiff

    xs = [lift(x) for x in xs]
    if current_trace().immediate is not None or autodiff.choices() != autodiff.Choices():
        variables = [autodiff.variable(x) for x in xs]
        return autodiff.gradients(body(*variables), variables)
    specs = [x.spec for x in xs]
    regions: List[Region] = [current_trace().region(specs, lambda *values: [body(*values)])]
    params: Dict[str, Any] = {"refusal": ""}
    try:
        regions.append(current_trace().region(specs, lambda *values: autodiff.gradients(body(*values), values)))
    except UnsupportedError as error:
        params["refusal"] = error.reason if error.node is None else "node '%s': %s" % (error.node, error.reason)
    args = [current_trace().argument(x) for x in xs]
    return apply_primitive("gradient", args, params, [None] * len(specs), regions)
