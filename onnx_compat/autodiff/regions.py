"""Record a region again, and differentiate it: the derivatives of branches, loops and derivatives are made of this."""

from typing import Any, List, Optional, Sequence

from onnx_compat import primitives as p
from onnx_compat.autodiff.backward import pull_back, variable
from onnx_compat.autodiff.rules import derivative_dtype
from onnx_compat.ir import Region
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor

__all__ = ["Seeds", "in_place", "is_float", "pull_back_region", "replay", "with_zeros", "zeros"]

#: The derivatives of results; None counts as zero.
Seeds = Sequence[Optional[Tensor]]


def is_float(x: Tensor) -> bool:
    """Return whether x is a tensor of floats: only these have a derivative in a region."""
    return x.dtype.kind == "f"


def zeros(x: Tensor) -> Tensor:
    """Return a derivative of zero for x."""
    return p.full(x.shape, 0, derivative_dtype(x.dtype))


def with_zeros(tensors: Sequence[Tensor], derivatives: Seeds) -> List[Tensor]:
    """Return a derivative for each float in `tensors`, in order: that of `derivatives`, or zeros in place of None."""
    return [zeros(x) if g is None else g for x, g in zip(tensors, derivatives) if is_float(x)]


def in_place(tensors: Sequence[Tensor], derivatives: Sequence[Tensor]) -> List[Any]:
    """Return a list parallel to `tensors`: the next of `derivatives` for each float, None for any other tensor.

    This is the inverse of `with_zeros`.
    """
    remaining = iter(derivatives)
    return [next(remaining) if is_float(x) else None for x in tensors]


def replay(
    region: Region, inputs: Sequence[Tensor], captures: Sequence[Tensor] = (), values: Sequence[Tensor] = ()
) -> List[Tensor]:
    """Record the nodes of a region again in the open region. Return its outputs.

    `inputs` replace the inputs of the region. `values` replace the outer values `captures`. Known tensors are recorded
    as run-time values.
    """
    replaced = [*region.inputs, *(x.ref for x in captures)]
    run_time = [x if x.ref is not None and x.order is None else variable(x) for x in (*inputs, *values)]
    by_ref = {ref: x.ref for ref, x in zip(replaced, run_time) if ref is not None and x.ref is not None}
    return current_trace().replay(region, by_ref)


def pull_back_region(region: Region, inputs: Sequence[Tensor], captures: Sequence[Tensor], seeds: Seeds) -> List[Any]:
    """Record a region again, and differentiate it. Return the derivatives of its inputs, then of the captures.

    - inputs: the tensors that replace the inputs of the region. captures: the outer values that it reads.
    - seeds: the derivative of each output of the region.

    The derivative is None for a tensor that is no float, and for a float without effect.
    """
    variables = [variable(x) if is_float(x) else x for x in (*inputs, *captures)]
    outputs = replay(region, variables[: len(inputs)], captures, variables[len(inputs) :])
    derivatives = pull_back(outputs, seeds, variables)
    return [g if is_float(x) else None for x, g in zip(variables, derivatives)]
