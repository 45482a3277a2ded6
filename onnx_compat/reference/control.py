"""Execute branches and loops in Python."""

from typing import Any, Callable, Sequence, Tuple

import numpy as np

from onnx_compat.ir import Spec
from onnx_compat.ir.dims import is_static
from onnx_compat.reference.arrays import Array, SizesArg
from onnx_compat.shim.interface import Emitter

__all__ = ["Control"]

Bodies = Sequence[Callable[..., Sequence[Any]]]
Handles = Sequence[Any]


class Control(Emitter):
    """The primitives of `onnx_compat.primitives.control`: cond, while_loop and scan, as Python loops over arrays."""

    def cond(self, pred: Array, *, bodies: Bodies, captures: Handles) -> Tuple[Any, ...]:
        return tuple(bodies[0 if pred else 1](*captures))

    def while_loop(self, *state: Array, bodies: Bodies, captures: Handles) -> Tuple[Any, ...]:
        test, body = bodies
        while test(*state, *captures)[0]:
            state = tuple(body(*state, *captures))
        return state

    def scan(
        self, state: Handles, xs: Handles, length: SizesArg, *, reverse: bool, bodies: Bodies, captures: Handles
    ) -> Tuple[Any, ...]:
        specs = [output.spec for output in self.node.outputs[len(state) :]]
        (count,) = length.known
        steps = []
        for k in reversed(range(count)) if reverse else range(count):
            results = bodies[0](*state, *[x[k] for x in xs], *captures)
            steps.append(results[len(state) :])
            state = results[: len(state)]
        if not steps:  # without a round, sizes that the body decides are zero
            return (*state, *map(_empty_result, specs))
        return (*state, *map(np.stack, zip(*(steps[::-1] if reverse else steps))))


def _empty_result(spec: Spec) -> Any:
    """Return a stacked output of a scan that has no steps: an array [0, ...], with 0 for each symbolic size.

    `spec` has the dtype and shape of the stacked output.
    """
    shape: Any = [0, *(size if is_static(size) else 0 for size in spec.shape[1:])]
    return np.zeros(shape, spec.dtype.numpy)
