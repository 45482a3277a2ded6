"""Control flow: branches and loops over functions of Tensors.

A known condition is decided while tracing. Otherwise the bodies are recorded as regions. An emitter gets them as
functions (`bodies`) of their inputs and then of the handles of `captures`, the outer values that they read.
"""

from typing import Any, Callable, List, Optional, Sequence, Tuple

from onnx_compat.errors import InvalidModelError, NeedsKnownError
from onnx_compat.ir import Extents, Region, Spec
from onnx_compat.ir.dims import Extent, atoms_of, is_equal, is_static
from onnx_compat.primitives.base import apply_primitive, primitive, spec_of
from onnx_compat.primitives.shape import slice_axis, squeeze, stack
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor, TensorLike, lift

Body = Callable[..., Sequence[Tensor]]


@primitive("b")
def cond(pred: TensorLike, then_body: Body, else_body: Body) -> List[Tensor]:
    """The results of `then_body()` if the scalar `pred` is true, else those of `else_body()`: a list of Tensors.

    Both functions return the same number of tensors, with equal dtypes and ranks pair by pair. Sizes may differ; a
    size that differs is unknown in the result until run time.

    If `pred` is known, or if the trace executes at once, only the chosen function is traced. Otherwise both functions
    are recorded. Then different dtypes raise InvalidModelError, and different ranks raise NeedsKnownError.

    Emitter: cond(pred, bodies=[then, else], captures=[...]).
    """
    pred = lift(pred)
    decided = current_trace().peek(pred)
    if decided is not None:
        return list(then_body() if decided.reshape(()) else else_body())
    regions = [current_trace().region([], body) for body in (then_body, else_body)]
    for then, orelse in zip(*map(result_specs, regions)):
        merge_specs(then, orelse, pred)
    return apply_primitive("cond", [current_trace().argument(pred)], {}, [None] * len(regions[0].outputs), regions)


@primitive("b")
def while_loop(test: Callable[..., Tensor], body: Body, state: Sequence[Any]) -> List[Tensor]:
    """The final state of `state = body(*state)`, repeated while `test(*state)` is true: a list of Tensors.

    If the first test is false, the state stays as it is. Sizes of the state may change between rounds; ranks and dtypes
    may not.

    A trace that executes at once runs the loop. Any other trace records the loop, also if `test` is known. A
    recorded `body` is traced repeatedly, until the types of the state cover every round. Another dtype then raises
    InvalidModelError, and another rank raises NeedsKnownError.

    Emitter: while_loop(*state, bodies=[test, body], captures=[...]).
    """
    state = [lift(value) for value in state]
    if current_trace().immediate is not None:
        while current_trace().demand(test(*state), "a loop condition").reshape(()):
            state = list(body(*state))
        return state
    specs = [tensor.spec for tensor in state]
    while True:
        loop = current_trace().region(specs, body)
        after = result_specs(loop)
        widened = [merge_specs(before, changed, tensor) for before, changed, tensor in zip(specs, after, state)]
        if widened == specs:
            break
        specs = widened
    return record_while_loop(test, loop, specs, state)


def record_while_loop(
    test: Callable[..., Tensor], loop: Region, specs: Sequence[Spec], state: Sequence[Tensor]
) -> List[Tensor]:
    """Record a while loop whose body is the region `loop`. Return the final state.

    - test: a function (*state) -> bool scalar: whether another iteration follows.
    - specs: the types of the state in every iteration; a size that changes is None.
    - state: the initial state.
    """
    condition = current_trace().region(specs, lambda *values: [test(*values)])
    args = [current_trace().argument(tensor) for tensor in state]
    return apply_primitive("while_loop", args, {}, [None] * len(specs), [condition, loop])


@primitive("b")
def scan(body: Body, state: Sequence[Any], xs: Sequence[Any], length: Extent, reverse: bool = False) -> List[Tensor]:
    """Call `*state, *ys = body(*state, *slices)` for each of `length` slices of `xs` along their first axis.

    The result is a list: the final states, then each y, stacked along a new first axis in the order of the slices. If
    `reverse`, the body runs from the last slice to the first. A state keeps its dtype and shape.

    The loop is unrolled if `length` is 1, or if the trace executes at once. A known `length` of 0 raises
    NeedsKnownError. A recorded state that changes its dtype, its rank or a static size raises InvalidModelError.

    Emitter: scan(state, xs, length, reverse=..., bodies=[body], captures=[...]), with lists of handles and a `Sizes`.
    """
    state, xs = [lift(value) for value in state], [lift(x) for x in xs]
    if current_trace().immediate is not None or (isinstance(length, int) and length <= 1):
        return _unroll(body, state, xs, int(length), reverse)  # type: ignore[arg-type]  # an executed size is an int
    specs = [tensor.spec for tensor in state] + [Spec(x.dtype, x.shape[1:]) for x in xs]
    region = current_trace().region(specs, body)
    for before, after in zip(specs[: len(state)], result_specs(region)):
        if before.dtype != after.dtype or before.rank != after.rank or _have_unequal_sizes(before, after):
            raise InvalidModelError("a scanned state changes from %s to %s" % (before, after))
    return record_scan(region, state, xs, length, reverse)


def _have_unequal_sizes(a: Spec, b: Spec) -> bool:
    """Return whether an axis has different static sizes in two types of the same rank."""
    return any(is_static(m) and is_static(n) and m != n for m, n in zip(a.shape, b.shape))


def record_scan(
    region: Region, state: Sequence[Tensor], xs: Sequence[Tensor], length: Extent, reverse: bool = False
) -> List[Tensor]:
    """Record a scan whose body is a region. Return the final states, then the ys, each stacked along a new first axis.

    - state: the initial states.
    - xs: the tensors whose slices along the first axis the body reads.
    - length: the number of slices.
    - reverse: whether the body runs from the last slice to the first.
    """
    args = [
        tuple(current_trace().argument(t) for t in state),
        tuple(current_trace().argument(x) for x in xs),
        Extents([length]),
    ]
    return apply_primitive("scan", args, {"reverse": reverse}, [None] * len(region.outputs), [region])


def _unroll(body: Body, state: List[Tensor], xs: List[Tensor], length: int, reverse: bool) -> List[Tensor]:
    """Apply the body of a scan `length` times in the open trace (loop unrolling). Return the results of the scan.

    `reverse`: begin with the last slice of each x; the stacked ys still have the order of the slices. Raises
    NeedsKnownError if `length` is 0, because the shapes of the ys are then unknown.
    """
    steps: List[Sequence[Tensor]] = []
    for k in reversed(range(length)) if reverse else range(length):
        results = list(body(*state, *[squeeze(slice_axis(x, 0, k, k + 1), [0]) for x in xs]))
        steps.append(results[len(state) :])
        state = results[: len(state)]
    if not steps:
        raise NeedsKnownError("the outputs of a scan of length zero have an unknown shape")
    return state + [stack(list(ys), 0) for ys in zip(*(steps[::-1] if reverse else steps))]


def result_specs(region: Region) -> List[Spec]:
    """Return the types of the outputs of a region, in order. Raises InvalidModelError if an output is not a tensor."""
    return [spec_of(output) for output in region.outputs]


def specs_from_outside(region: Region, specs: Sequence[Spec]) -> List[Spec]:
    """Return `specs` as seen outside of a region: a size that depends on a value of the region becomes None.

    The values of the region are its inputs and the outputs of its nodes.
    """
    own = set(region.inputs).union(*[node.outputs for node in region.nodes])
    return [
        Spec(spec.dtype, tuple(None if any(atom.args[0] in own for atom in atoms_of(d)) else d for d in spec.shape))
        for spec in specs
    ]


def merge_specs(a: Spec, b: Spec, pred: Optional[Tensor] = None) -> Spec:
    """Return the type that covers both types: an axis has the size None if its two sizes are not provably equal.

    Raises InvalidModelError if the dtypes differ. Raises NeedsKnownError if the ranks differ; the error names the
    tensor `pred`.
    """
    if a.dtype != b.dtype:
        raise InvalidModelError("two branches or two rounds of a loop return %s and %s" % (a.dtype.name, b.dtype.name))
    if a.rank != b.rank:
        raise NeedsKnownError("a branch or a loop changes the rank of a value", pred)
    sizes: Tuple[Any, ...] = tuple(x if x is not None and is_equal(x, y) else None for x, y in zip(a.shape, b.shape))
    return Spec(a.dtype, sizes)
