"""Derivative rules of branches, loops and derivatives: a body is recorded again, and differentiated inside of a region.

A loop is differentiated as a scan: forward it keeps the state before each iteration, backward it runs each iteration
again from this state, in the opposite order. A while loop is run once more, to count its iterations.
"""

from typing import Any, Callable, List, Optional, Sequence

from onnx_compat import primitives as p
from onnx_compat.autodiff.backward import pull_back, variable
from onnx_compat.autodiff.choices import choices
from onnx_compat.autodiff.regions import Seeds, in_place, is_float, pull_back_region, replay, with_zeros, zeros
from onnx_compat.autodiff.rules import RecordedNode, rule
from onnx_compat.errors import UnsupportedError
from onnx_compat.ir import Region
from onnx_compat.ir.dims import Extent, is_equal_shape, is_static
from onnx_compat.ir.dtypes import int64
from onnx_compat.tracing.values import Tensor, as_sizes, lift


@rule("cond")
def _cond(at: RecordedNode, *seeds: Optional[Tensor]) -> List[Any]:
    """Return the derivatives of a branch: a branch on the same condition, of the derivatives of its two bodies.

    The list is [None, a derivative for each capture]. It has only None if no capture is a float.
    """
    if not any(map(is_float, at.captures)):
        return [None, *[None] * len(at.captures)]

    def derivative(region: Region) -> Callable[[], List[Tensor]]:
        return lambda: with_zeros(at.captures, pull_back_region(region, [], at.captures, seeds))

    results = p.cond(at.args[0], *map(derivative, at.regions))
    return [None, *in_place(at.captures, results)]


@rule("gradient")
def _gradient(at: RecordedNode, *seeds: Optional[Tensor]) -> List[Any]:
    """Return the derivatives of a derivative, of second order: the derivatives of the region with its rules.

    The list has a derivative for each argument, then for each capture. Raises UnsupportedError if the recorded
    derivative has a refusal.
    """
    if at.params["refusal"]:
        raise UnsupportedError(at.params["refusal"])
    return pull_back_region(at.regions[1], at.args, at.captures, seeds)


@rule("scan")
def _scan(at: RecordedNode, *seeds: Optional[Tensor]) -> List[Any]:
    """Differentiate a scan: a scan in the opposite order, from the state that is kept of each iteration.

    Return [derivatives of the states, derivatives of the xs, None, and a derivative for each capture].
    """
    (states, xs, (length,)), (region,) = at.args, at.regions
    if at.params["reverse"]:
        seeds = (*seeds[: len(states)], *(g if g is None else p.reverse(g, [0]) for g in seeds[len(states) :]))
    loop = _Loop(region, at.captures, states, [p.reverse(x, [0]) if at.params["reverse"] else x for x in xs], length)
    by_state, by_x, by_capture = loop.differentiate(seeds)
    if at.params["reverse"]:
        by_x = [g if g is None else p.reverse(g, [0]) for g in by_x]
    return [by_state, by_x, None, *by_capture]


@rule("while_loop")
def _while_loop(at: RecordedNode, *seeds: Optional[Tensor]) -> List[Any]:
    """Differentiate a while loop: as a scan, after one more run that counts the iterations.

    Return a derivative for each state, then for each capture. Raises UnsupportedError if a state changes its size.
    """
    test, body = at.regions
    for x, ref in zip(at.args, body.inputs):
        if not is_equal_shape(x.shape, ref.spec.shape):
            raise UnsupportedError("a loop changes the size of a state, and has no derivative then")

    def proceeds(_: Tensor, *state: Tensor) -> Tensor:
        return replay(test, state)[0]

    def step(count: Tensor, *state: Tensor) -> List[Tensor]:
        return [p.add(count, 1), *replay(body, state)]

    length = as_sizes(p.while_loop(proceeds, step, [lift(0, int64), *at.args])[0])[0]
    by_state, _, by_capture = _Loop(body, at.captures, at.args, [], length).differentiate(seeds)
    return [*by_state, *by_capture]


class _Loop:
    """A loop that maps (states, slice of each of the xs) to (next states, rows) for `length` slices.

    - region: the body. captures: the outer values that it reads.
    - states: the initial states.
    - xs: tensors that are sliced along their first axis.

    The loops that it records have one more tensor of slices, the numbers of the iterations, since it may have no xs.
    """

    def __init__(
        self,
        region: Region,
        captures: Sequence[Tensor],
        states: Sequence[Tensor],
        xs: Sequence[Tensor],
        length: Extent,
    ) -> None:
        self.region = region
        self.captures = captures
        self.states = states
        self.xs = xs
        self.length = length

    def differentiate(self, seeds: Seeds) -> Sequence[List[Any]]:
        """Return three lists: the derivatives of the initial states, of the xs and of the captures.

        `seeds`: the derivative of each final state, then of the rows of each row output, stacked. A derivative is None
        for a tensor that is no float. With the choice `kept_states`, a longer loop is differentiated as a loop of loops.
        """
        kept = choices().kept_states
        if kept is not None and is_static(self.length) and self.length > kept:
            return self._differentiate_nested(-(-int(self.length) // kept), seeds)
        return self._run_backward(self._run_and_keep(), seeds)

    def _run(self, *values: Tensor) -> List[Tensor]:
        """Record the body for states, slices and the number of the iteration. Return the next states, then the rows."""
        return replay(self.region, values[: len(self.region.inputs)])

    def _run_and_keep(self) -> List[Tensor]:
        """Record the loop again. Return the states before each iteration, each stacked along a new first axis."""
        count = len(self.states)

        def step(*values: Tensor) -> List[Tensor]:
            return [*self._run(*values)[:count], *values[:count]]

        return p.scan(step, list(self.states), [*self.xs, p.iota(self.length)], self.length)[count:] if count else []

    def _run_backward(self, kept_states: Sequence[Tensor], seeds: Seeds) -> Sequence[List[Any]]:
        """Record the backward loop, from `kept_states` of `_run_and_keep`. Return the result of `differentiate`.

        The states of this loop are the derivatives of the states, and the sums of the derivatives of the captures. Its
        slices are the states before an iteration, the slices of the xs, and the derivatives of the rows.
        """
        count = len(self.states)
        first = with_zeros(self.states, seeds)
        totals = with_zeros(self.captures, [None] * len(self.captures))
        rows = [g for g in seeds[count:] if g is not None]

        def step(*values: Tensor) -> List[Tensor]:
            remaining = iter(values)
            by_state = in_place(self.states, [next(remaining) for _ in first])
            sums = [next(remaining) for _ in totals]
            inputs = [next(remaining) for _ in (*kept_states, *self.xs)]
            by_row = [None if g is None else next(remaining) for g in seeds[count:]]
            derivatives = pull_back_region(self.region, inputs, self.captures, [*by_state, *by_row])
            by_input, by_capture = derivatives[: len(inputs)], derivatives[len(inputs) :]
            added = with_zeros(self.captures, by_capture)
            by_slice = with_zeros(inputs[count:], by_input[count:])
            return [*with_zeros(inputs[:count], by_input[:count]), *map(p.add, sums, added), *by_slice]

        slices = [*kept_states, *self.xs, *rows, p.iota(self.length)]
        results = p.scan(step, [*first, *totals], slices, self.length, True)
        ends = len(first), len(first) + len(totals)
        return (
            in_place(self.states, results[: ends[0]]),
            in_place(self.xs, results[ends[1] :]),
            in_place(self.captures, results[ends[0] : ends[1]]),
        )

    def _differentiate_nested(self, size: int, seeds: Seeds) -> Sequence[List[Any]]:
        """Return the result of `differentiate`, for an outer loop over inner loops of `size` iterations.

        Only the states before each inner loop are kept. An inner loop is run again when it is differentiated.
        """
        states, xs = ([variable(x) if is_float(x) else x for x in tensors] for tensors in (self.states, self.xs))
        outputs = _Loop(self.region, self.captures, states, xs, self.length).run_nested(size)
        tensors = [*states, *xs, *self.captures]
        derivatives = pull_back(outputs, seeds, tensors)
        filled = [(zeros(x) if g is None else g) if is_float(x) else None for x, g in zip(tensors, derivatives)]
        ends = len(states), len(states) + len(xs)
        return filled[: ends[0]], filled[ends[0] : ends[1]], filled[ends[1] :]

    def run_nested(self, size: int) -> List[Tensor]:
        """Record the loop as an outer loop over inner loops of `size` iterations, and a loop of the rest.

        Return the final states, then the rows of each row output, stacked along a new first axis. The length is known.
        """
        length: Any = self.length
        count, whole = len(self.states), int(length) // size * size
        xs = [*self.xs, p.iota(self.length)]

        def part(*values: Tensor) -> List[Tensor]:
            return p.scan(self._run, values[:count], values[count:], size)

        parts = [p.reshape(p.slice_axis(x, 0, 0, whole), (whole // size, size, *x.shape[1:])) for x in xs]
        results = p.scan(part, self.states, parts, whole // size)
        rows = [p.reshape(y, (whole, *y.shape[2:])) for y in results[count:]]
        rest = int(length) - whole
        if not rest:
            return [*results[:count], *rows]
        last = p.scan(self._run, results[:count], [p.slice_axis(x, 0, whole, None) for x in xs], rest)
        return [*last[:count], *(p.concat(pair, 0) for pair in zip(rows, last[count:]))]
