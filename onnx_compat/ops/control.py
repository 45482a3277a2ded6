"""If, Loop and Scan.

What is known is decided now: a branch is chosen, a short loop is unrolled. Otherwise the bodies become parts of the
program. Sequences and optionals pass through branches as long as both agree about what they are.
"""

from typing import Any, Callable, List, Optional, Sequence, Set

from onnx_compat import primitives as p
from onnx_compat.errors import NeedsKnownError
from onnx_compat.ir import Const, Region, Spec
from onnx_compat.ir.dims import Extent, is_equal_shape, is_static
from onnx_compat.ir.dtypes import bool_, int64
from onnx_compat.model import Graph
from onnx_compat.ops.arguments import normalize_axes, take_slice
from onnx_compat.ops.flatten_values import Form, flatten_values, rebuild_values
from onnx_compat.ops.registry import op
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor, as_sizes, lift

#: A loop of at most so many rounds is written out.
SHORT = 8


@op("If", since=(1, 11, 13, 16, 19, 21, 23, 24, 25))
def if_(ctx: Any, cond: Any, *, then_branch: Graph, else_branch: Graph) -> List[Any]:
    decided = current_trace().peek(cond)
    if decided is not None:
        return list(ctx.body(then_branch if decided.reshape(()) else else_branch)())
    forms: List[Form] = []

    def branch(graph: Any) -> Callable[[], List[Tensor]]:
        def run() -> List[Tensor]:
            tensors, form = flatten_values(ctx.body(graph)())
            forms.append(form)
            return tensors

        return run

    results = p.cond(p.reshape(cond, ()), branch(then_branch), branch(else_branch))
    if forms[0] != forms[1]:
        raise NeedsKnownError("the branches of an If give sequences or optionals of different make", cond)
    return rebuild_values(results, forms[0])


# -- Loop --------------------------------------------------------------------------------------------------------------
@op("Loop", since=(1, 11, 13, 16, 19, 21, 23, 24, 25))
def loop(ctx: Any, M: Any = None, cond: Any = None, *v_initial: Any, body: Graph) -> List[Any]:
    count, whole = len(v_initial), ctx.body(body)
    same = _loop_invariants(body, count)
    if not same:
        return _run_loop(whole, M, cond, v_initial)
    kept = [k for k in range(count) if k not in same]

    def run(k: Any, proceeds: Any, *state: Any) -> List[Any]:
        given = dict(zip(kept, state))
        again, *results = whole(k, proceeds, *(given.get(place, value) for place, value in enumerate(v_initial)))
        return [again, *(results[place] for place in kept), *results[count:]]

    results = _run_loop(run, M, cond, [v_initial[place] for place in kept])
    found = dict(zip(kept, results))
    return [*(found.get(place, value) for place, value in enumerate(v_initial)), *results[len(kept) :]]


def _loop_invariants(body: Graph, count: int) -> Set[int]:
    """The states that every round gives on as it got them: weights, as some exporters write them. They are read from outside."""
    before = {node.outputs[0]: node.inputs[0] for node in body.nodes if node.operator == "Identity" and not node.domain}
    found = set()
    for place, (given, result) in enumerate(zip(body.inputs[2 : 2 + count], body.outputs[1 : 1 + count])):
        name = result.name
        while name in before:
            name = before[name]
        if name == given.name:
            found.add(place)
    return found


def _run_loop(run: Any, M: Any, cond: Any, v_initial: Sequence[Any]) -> List[Any]:
    rounds = None if M is None else current_trace().peek(M)
    limit = None if rounds is None else int(rounds.reshape(()))
    begins = True if cond is None else current_trace().peek(cond)
    tensors = all(isinstance(value, Tensor) for value in v_initial)
    short = limit is not None and limit <= SHORT
    if begins is not None and not bool(begins):
        limit = 0
    if begins is not None and (short or not tensors or limit == 0 or current_trace().immediate is not None):
        unrolled = _unroll(run, limit, list(v_initial))
        if unrolled is not None:
            return _finish_unrolled(run, unrolled, v_initial)
    if not tensors:
        raise NeedsKnownError("a Loop over sequences needs a known number of rounds", M if M is not None else cond)
    start = lift(True, bool_) if cond is None else p.reshape(cond, ())
    return _record_loop(run, None if M is None else p.reshape(M, ()), start, list(v_initial))


def _unroll(run: Any, limit: Optional[int], state: List[Any]) -> Optional[List[List[Any]]]:
    """The states after the loop and, as the last entry, the rows of what each round adds; None if no end is in sight."""
    rows: List[List[Any]] = []
    while limit is None or len(rows) < limit:
        proceeds, *results = run(lift(len(rows), int64), lift(True, bool_), *state)
        state, row = results[: len(state)], results[len(state) :]
        rows.append(row)
        decided = current_trace().peek(proceeds)
        if decided is None or (limit is None and len(rows) > _MOST_ROUNDS):
            return None
        if not decided.reshape(()):
            break
    return [state, rows]


_MOST_ROUNDS = 10000


def _finish_unrolled(run: Any, unrolled: List[List[Any]], v_initial: Sequence[Any]) -> List[Any]:
    state, rows = unrolled
    if rows:
        return [*state, *(p.stack(list(column), 0) for column in zip(*rows))]
    trial = _trace_trial_round(run, v_initial)
    outputs = trial.outputs[1 + len(v_initial) :]
    return [*state, *(p.full((0, *_empty_sizes(one.spec)), _blank_value(one.spec), one.spec.dtype) for one in outputs)]  # type: ignore[union-attr]


def _blank_value(spec: Spec) -> Any:
    return "" if spec.dtype.kind == "s" else 0


def _empty_sizes(spec: Spec) -> List[Extent]:
    """The sizes of an empty result; one that only a round would tell is zero too."""
    return [extent if is_static(extent) else 0 for extent in spec.shape]


def _trace_trial_round(run: Any, state: Sequence[Tensor]) -> Region:
    """One round, recorded only to see what it is like. It begins, so its condition holds."""
    specs = [Spec(int64, ()), *(value.spec for value in state)]
    return current_trace().region(specs, lambda k, *values: run(k, lift(True, bool_), *values))


def _record_loop(run: Any, M: Optional[Tensor], start: Tensor, state: List[Tensor]) -> List[Any]:
    """As a scan where each round is like the other and none ends the loop; else round by round, results joined on."""
    trial = _trace_trial_round(run, state)
    proceeds, *results = trial.outputs
    endless = isinstance(proceeds, Const) and bool(proceeds.array.reshape(())) and start.known
    specs = [one.spec for one in results]  # type: ignore[union-attr]
    steady = all(is_equal_shape(one.shape, spec.shape) for one, spec in zip(state, specs))
    if endless and steady and M is not None:
        count = as_sizes(M)[0]

        def step(*values: Any) -> List[Tensor]:
            return list(run(values[-1], lift(True, bool_), *values[:-1]))[1:]

        return p.scan(step, state, [p.iota(count)], count)
    return _record_while_loop(run, M, start, state, specs[len(state) :])


def _record_while_loop(
    run: Any, M: Optional[Tensor], start: Tensor, state: List[Tensor], added: Sequence[Spec]
) -> List[Any]:
    """Rows of a known shape are joined; others are strung out, and their shape is remembered."""
    count = len(state)
    joined = [_RowBuffer(spec) for spec in added]

    def test(k: Any, proceeds: Any, *_: Any) -> Tensor:
        return proceeds if M is None else p.logical_and(p.less(k, M), proceeds)

    def body(k: Any, _: Any, *values: Any) -> List[Tensor]:
        again, *results = run(k, lift(True, bool_), *values[:count])
        rows = zip(joined, values[count::2], results[count:])
        grown = [value for rows_of, old, row in rows for value in rows_of.with_row(old, row)]
        return [p.add(k, 1), p.reshape(again, ()), *results[:count], *grown]

    empty = [value for rows in joined for value in rows.empty()]
    k, _, *values = p.while_loop(test, body, [lift(0, int64), start, *state, *empty])
    tails = zip(joined, values[count::2], values[count + 1 :: 2])
    return [*values[:count], *(rows.done(k, found, shape) for rows, found, shape in tails)]


class _RowBuffer:
    """What the rounds of a loop add to one output: all of it so far, and the shape of the last row."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.steady = spec.static

    def empty(self) -> List[Tensor]:
        shape = (0, *self.spec.shape) if self.steady else (0,)
        return [p.full(shape, _blank_value(self.spec), self.spec.dtype), p.full((self.spec.rank,), 0, int64)]

    def with_row(self, old: Tensor, row: Tensor) -> List[Tensor]:
        new = p.unsqueeze(row, [0]) if self.steady else p.reshape(row, (row.size,))
        return [p.concat([old, new], 0), p.shape_of(row)]

    def done(self, k: Tensor, found: Tensor, shape: Tensor) -> Tensor:
        return found if self.steady else p.reshape(found, (as_sizes(k)[0], *as_sizes(shape)))


# -- Scan --------------------------------------------------------------------------------------------------------------
@op("Scan", since=(9, 11, 16, 19, 21, 23, 24, 25))
def scan(
    ctx: Any,
    *initial_state_and_scan_inputs: Any,
    body: Graph,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] = (),
    scan_input_directions: Sequence[int] = (),
    scan_output_axes: Sequence[int] = (),
    scan_output_directions: Sequence[int] = (),
) -> List[Tensor]:
    count = len(initial_state_and_scan_inputs) - num_scan_inputs
    state, xs = initial_state_and_scan_inputs[:count], list(initial_state_and_scan_inputs[count:])
    for k, x in enumerate(xs):
        axis = normalize_axes(scan_input_axes[k : k + 1] or [0], x.rank)[0]
        x = p.transpose(x, [axis, *[other for other in range(x.rank) if other != axis]])
        xs[k] = p.reverse(x, [0]) if any(scan_input_directions[k : k + 1]) else x
    results = p.scan(ctx.body(body), list(state), xs, xs[0].shape[0])
    finals, ys = results[:count], results[count:]
    for k, y in enumerate(ys):
        y = p.reverse(y, [0]) if any(scan_output_directions[k : k + 1]) else y
        axis = normalize_axes(scan_output_axes[k : k + 1] or [0], y.rank)[0]
        perm = list(range(1, y.rank))
        perm.insert(axis, 0)
        ys[k] = p.transpose(y, perm)
    return [*finals, *ys]


@op("Scan", since=8)
def scan_8(
    ctx: Any,
    sequence_lens: Any = None,
    *initial_state_and_scan_inputs: Any,
    body: Graph,
    num_scan_inputs: int,
    directions: Sequence[int] = (),
) -> List[Tensor]:
    """Each entry of a batch on its own, as far as its sequence goes; what lies beyond are zeros."""
    values = initial_state_and_scan_inputs
    batch, steps = values[-1].shape[:2]
    if not is_static(batch):
        raise NeedsKnownError("a Scan of opset 8 needs a batch size that is known", lift([batch]))
    lengths = [steps] * int(batch) if sequence_lens is None else as_sizes(sequence_lens)
    count = len(values) - num_scan_inputs
    rows = []
    for entry, length in enumerate(lengths):
        own = [take_slice(value, entry) for value in values]
        own[count:] = [p.slice_axis(x, 0, 0, length) for x in own[count:]]
        results = scan(ctx, *own, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=directions)
        ys = [p.pad(y, [0] * y.rank, [steps - length] + [0] * (y.rank - 1)) for y in results[count:]]
        rows.append([*results[:count], *ys])
    return [p.stack(list(column), 0) for column in zip(*rows)]
