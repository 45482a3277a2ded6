"""Loop: unroll a short loop with a known count while tracing. Record the body of any other loop as a region."""

from typing import TYPE_CHECKING, Any, Callable, List, Optional, Sequence, Set, Tuple

from onnx_compat import limits
from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, NeedsKnownError
from onnx_compat.ir import Arg, Const, Ref, Region, Spec
from onnx_compat.ir.dims import Extent, is_equal_shape, is_static
from onnx_compat.ir.dtypes import bool_, int64
from onnx_compat.model import Graph, TensorType
from onnx_compat.ops.flatten_values import flatten_values, rebuild_values
from onnx_compat.ops.registry import op
from onnx_compat.primitives.control import merge_specs, record_scan, record_while_loop
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor, as_sizes, lift

if TYPE_CHECKING:
    from onnx_compat.tracing.interpreter import Context

Value = Any  # a Tensor, a SequenceValue, a MapValue or an empty optional
#: Traces the body of a loop: (iteration, condition, *states) -> [condition, *states, *rows].
TraceBody = Callable[..., List[Any]]
#: The largest known number of iterations of a loop that is unrolled while tracing.
SHORT = 8


@op("Loop", since=(1, 11, 13, 16, 19, 21, 23, 24, 25))
def loop(
    ctx: "Context", M: Optional[Tensor] = None, cond: Optional[Tensor] = None, *v_initial: Value, body: Graph
) -> List[Any]:
    """Run a body repeatedly, at most M times, while its condition holds. Return [*final states, *stacked row outputs].

    The body maps (iteration, condition, *states) to [condition, *states, *row outputs]. The rows of all iterations are
    stacked along a new first axis. Without M, the number of iterations is not limited. Without `cond`, the first
    condition is True. A state that the body returns unchanged is returned as it was given.

    A loop is unrolled or recorded (see `_run_loop`). Errors of a loop that is recorded:

    - NeedsKnownError: a state that changes is no tensor, or changes its rank.
    - InvalidModelError: a state changes its dtype, or the body has too few outputs.

    A loop with a known M over sequences is unrolled. While a program is recorded, such a loop raises LimitError above
    the limit `unrolled_rounds`.
    """
    count, trace_body = len(v_initial), _shape_counters(ctx.body(body), body)
    if len(body.outputs) < 1 + count:
        counts = len(body.outputs), count
        raise InvalidModelError("the body of a Loop has %d outputs: a condition and %d states are needed" % counts)
    has_rows = len(body.outputs) > 1 + count
    invariant = _loop_invariants(body, count)
    if not invariant:
        return _run_loop(trace_body, M, cond, v_initial, has_rows, body)
    carried = [k for k in range(count) if k not in invariant]

    def run(k: Tensor, proceeds: Tensor, *state: Tensor) -> List[Any]:
        state_by_index = dict(zip(carried, state))
        proceeds_next, *results = trace_body(
            k, proceeds, *(state_by_index.get(index, value) for index, value in enumerate(v_initial))
        )
        return [proceeds_next, *(results[index] for index in carried), *results[count:]]

    results = _run_loop(run, M, cond, [v_initial[index] for index in carried], has_rows, body)
    finals = dict(zip(carried, results))
    return [*(finals.get(index, value) for index, value in enumerate(v_initial)), *results[len(carried) :]]


def _shape_counters(trace_body: TraceBody, body: Graph) -> TraceBody:
    """Return a function like `trace_body` that takes the iteration number and the condition as scalars.

    A scalar that `body` declares with rank 1 is reshaped to a vector of one element, as onnxruntime does. The states
    are passed unchanged.
    """
    is_vector = [isinstance(port.type, TensorType) and port.type.rank == 1 for port in body.inputs[:2]]
    if not any(is_vector):
        return trace_body

    def run(k: Tensor, proceeds: Tensor, *state: Any) -> List[Any]:
        counters = [p.reshape(x, (1,)) if vector else x for x, vector in zip((k, proceeds), is_vector)]
        return trace_body(*counters, *state)

    return run


def _loop_invariants(body: Graph, count: int) -> Set[int]:
    """Return the indices of the loop-invariant states: states that the body returns unchanged, also through Identity.

    `count` is the number of states. Index 0 is the first state. Exporters pass weights as states that do not change.
    """
    identity_inputs = {
        node.outputs[0]: node.inputs[0]
        for node in body.nodes
        if node.operator == "Identity" and not node.domain and node.inputs
    }
    invariants = set()
    for index, (state_input, state_output) in enumerate(zip(body.inputs[2 : 2 + count], body.outputs[1 : 1 + count])):
        name = state_output.name
        while name in identity_inputs:
            name = identity_inputs[name]
        if name == state_input.name:
            invariants.add(index)
    return invariants


def _run_loop(
    run: TraceBody, M: Optional[Tensor], cond: Optional[Tensor], v_initial: Sequence[Any], has_rows: bool, body: Graph
) -> List[Any]:
    """Unroll a loop, or record it. Return the final states, then the stacked row outputs.

    - run: `run(iteration, condition, *states)` traces the body. It returns [condition, *states, *row outputs].
    - M, cond: the limit of iterations and the first condition. None: there is no limit; the condition is True.
    - has_rows: whether there are row outputs.
    - body: the graph that `run` traces.

    A loop whose first condition is known to be False is unrolled: it has no iterations. Any other loop is unrolled if
    all of this holds:

    - M is absent or known.
    - The condition is known at the start, and after each iteration but the last that M allows.
    - At least one of the reasons below applies.
    - M is given, or the loop ends within about `unrolled_rounds` iterations. A trace that executes each node at once
      has no such limit.

    The reasons to unroll a loop:

    - M is small (see `_is_short`).
    - A state is no tensor, so the loop cannot be recorded.
    - The trace executes each node at once.

    Raises NeedsKnownError if a state is no tensor, and the loop cannot be unrolled. Raises LimitError if a loop with a
    known M, over a state that is no tensor, exceeds the limit `unrolled_rounds`.
    """
    rounds = None if M is None else current_trace().peek(M)
    limit = None if rounds is None else int(rounds.reshape(()))
    first_condition = True if cond is None else current_trace().peek(cond)
    all_tensors = all(isinstance(value, Tensor) for value in v_initial)
    is_short = limit is not None and _is_short(limit, body)
    if first_condition is not None and not bool(first_condition):
        limit = 0
    is_limit_known = M is None or limit is not None
    if (first_condition is not None and is_limit_known) and (
        is_short or not all_tensors or limit == 0 or current_trace().immediate is not None
    ):
        unrolled = _unroll(run, limit, list(v_initial))
        if unrolled is not None:
            return _finish_unrolled(run, unrolled, v_initial) if has_rows else unrolled[0]
    if not all_tensors:
        raise NeedsKnownError("a Loop over sequences needs a known number of iterations", M if M is not None else cond)
    start = lift(True, bool_) if cond is None else p.reshape(cond, ())
    return _record_loop(run, None if M is None else p.reshape(M, ()), start, list(v_initial), body)


def _is_short(rounds: int, body: Graph) -> bool:
    """Return whether a loop of `rounds` iterations is unrolled although it could be recorded.

    It has at most `SHORT` iterations, and no more than the limit `unrolled_rounds`. The limit `unrolled_nodes` allows
    to unroll it in the open loops: those that are being unrolled. That limit does not count for at most one iteration,
    and for a loop outside of all open loops. Without it, eight rounds in each of ten nested loops become a thousand
    million.
    """
    if rounds > min(SHORT, limits.limit("unrolled_rounds")):
        return False
    outer = current_trace().unrolled_rounds
    return rounds <= 1 or outer == 1 or outer * rounds * body.node_count <= limits.limit("unrolled_nodes")


def _unroll(run: TraceBody, limit: Optional[int], state: List[Any]) -> Optional[List[List[Any]]]:
    """Unroll a loop: trace each iteration while the condition is known to hold. Return [final states, rows].

    - run: `run(iteration, condition, *states)` traces the body. It returns [condition, *states, *row outputs].
    - limit: the largest number of iterations; None: no limit.
    - state: the initial states.

    `rows` is a list with the list of row outputs of each iteration. The condition before the first iteration counts as
    True. The condition after the last iteration that `limit` allows is not read, and need not be known.

    Return None in these cases:

    - Any other condition is not known.
    - `limit` is None, and a recorded loop does not end within about `unrolled_rounds` iterations.

    Raise LimitError if `limit` is given, and a recorded loop does not end within about `unrolled_rounds` iterations.
    """
    rows: List[List[Any]] = []
    trace = current_trace()
    outer_rounds, trace.unrolled_rounds = trace.unrolled_rounds, trace.unrolled_rounds * max(limit or 1, 1)
    try:
        while limit is None or len(rows) < limit:
            proceeds, *results = run(lift(len(rows), int64), lift(True, bool_), *state)
            state, row = results[: len(state)], results[len(state) :]
            rows.append(row)
            if len(rows) == limit:
                break
            decided = trace.peek(proceeds)
            if decided is None:
                return None
            if trace.immediate is None and len(rows) > limits.limit("unrolled_rounds"):
                if limit is None:
                    return None
                raise limits.limit_error("unrolled_rounds", "a Loop over sequences", limit)
            if not decided.reshape(()):
                break
    finally:
        trace.unrolled_rounds = outer_rounds
    return [state, rows]


def _finish_unrolled(run: TraceBody, unrolled: List[List[Any]], v_initial: Sequence[Any]) -> List[Any]:
    """Return the final states, then the stacked row outputs, of an unrolled loop. `unrolled`: the result of `_unroll`.

    Without any iteration, the row outputs are empty: [0, ...]. Their dtypes and shapes come from a trial iteration; a
    symbolic size becomes 0. States may be sequences, maps or optionals.
    """
    state, rows = unrolled
    if rows:
        return [*state, *(p.stack(list(column), 0) for column in zip(*rows))]
    tensors, form = flatten_values(v_initial)

    def trace_rows(k: Tensor, proceeds: Tensor, *flat_state: Tensor) -> List[Any]:
        proceeds_next, *results = run(k, proceeds, *rebuild_values(flat_state, form))
        return [proceeds_next, *results[len(v_initial) :]]

    specs = [
        _output_spec(output)
        for output in _trace_trial_round(trace_rows, [tensor.spec for tensor in tensors]).outputs[1:]
    ]
    return [*state, *(p.full((0, *_empty_sizes(spec)), _blank_value(spec), spec.dtype) for spec in specs)]


def _output_spec(output: Arg) -> Spec:
    """Return the spec (dtype and shape) of an output of a loop body. The output is a tensor."""
    assert isinstance(output, (Ref, Const))
    return output.spec


def _blank_value(spec: Spec) -> Any:
    return "" if spec.dtype.kind == "s" else 0


def _empty_sizes(spec: Spec) -> List[Extent]:
    """Return the shape of a row with symbolic sizes as 0, for a loop without iterations."""
    return [extent if is_static(extent) else 0 for extent in spec.shape]


def _trace_trial_round(run: TraceBody, state: Sequence[Spec]) -> Region:
    """Trace one iteration of a loop with states of these types, and a condition that holds. Return the region.

    `run(iteration, condition, *states)` traces the body. The inputs of the region are the iteration number and the
    states. Its outputs are those of `run`: the condition, the states and the row outputs, with the dtypes and shapes
    that the body gives them. All of them are tensors.
    """
    specs = [Spec(int64, ()), *state]
    return current_trace().region(specs, lambda k, *values: run(k, lift(True, bool_), *values))


def _record_loop(run: TraceBody, M: Optional[Tensor], start: Tensor, state: List[Tensor], body: Graph) -> List[Any]:
    """Record a loop as a scan or as a while loop. Return the final states, then the stacked row outputs.

    - run: `run(iteration, condition, *states)` traces the graph `body`. It returns [condition, *states, *row
      outputs].
    - M: the number of iterations, a scalar; None: only the condition ends the loop.
    - start: the first condition, a scalar. If it is known, it is True.
    - state: the initial states.

    The loop is recorded as a scan if all of this holds, else as a while loop:

    - M is given.
    - The condition is known to be True at the start, and after a trial iteration.
    - No state changes its shape in the trial iteration.

    Raises InvalidModelError if a state changes its dtype, and NeedsKnownError if it changes its rank.
    """
    region, specs = _record_body(run, state, body)
    proceeds, *results = region.outputs
    always_proceeds = isinstance(proceeds, Const) and bool(proceeds.array.reshape(())) and start.known
    shapes_are_fixed = all(is_equal_shape(value.shape, spec.shape) for value, spec in zip(state, specs))
    if always_proceeds and shapes_are_fixed and M is not None:
        count = as_sizes(M)[0]
        region.inputs, region.outputs = (*region.inputs[1:], region.inputs[0]), tuple(results)
        return record_scan(region, state, [p.iota(count)], count)
    return _record_while_loop(region, M, start, state, specs)


def _record_body(run: TraceBody, state: Sequence[Tensor], body: Graph) -> Tuple[Region, List[Spec]]:
    """Record the body of a loop as a region. Return the region, and the types of the states in every iteration.

    `run(iteration, condition, *states)` traces the graph `body`. `state` has the initial states. The inputs of the
    region are the iteration and the states. In the types, a size that changes is None.

    The body is traced once, and again while a size changes that was not None before. A further trace of an outer loop
    also traces its inner loops again. An inner loop then begins with None for the sizes that changed in its earlier
    trace. Without this, each nested loop would double the time.

    Raises InvalidModelError if a state changes its dtype, and NeedsKnownError if it changes its rank.
    """
    trace = current_trace()
    specs = [value.spec for value in state]
    known = trace.loop_states.get(body, ()) if trace.is_retracing else ()
    if [(spec.dtype, spec.rank) for spec in specs] == [(spec.dtype, spec.rank) for spec in known]:
        specs = [merge_specs(spec, earlier) for spec, earlier in zip(specs, known)]
    outer = trace.is_retracing
    try:
        while True:
            region = _trace_trial_round(run, specs)
            after = [_output_spec(output) for output in region.outputs[1 : 1 + len(state)]]
            widened = [merge_specs(before, changed, value) for before, changed, value in zip(specs, after, state)]
            trace.loop_states[body] = widened
            if widened == specs:
                return region, specs
            specs, trace.is_retracing = widened, True
    finally:
        trace.is_retracing = outer


def _record_while_loop(
    region: Region, M: Optional[Tensor], start: Tensor, state: List[Tensor], specs: Sequence[Spec]
) -> List[Any]:
    """Record a while loop that appends the rows of each iteration to buffers.

    Return the final states, then the stacked rows of each row output.

    `M`: the number of iterations; None: only the condition ends the loop. `start`: the first condition. `region` and
    `specs`: the body and the types of the states, from `_record_body`. The region becomes the body of the while loop.
    """
    count = len(state)
    buffers = [_RowBuffer(_output_spec(output)) for output in region.outputs[1 + count :]]

    def test(k: Tensor, proceeds: Tensor, *_: Tensor) -> Tensor:
        return proceeds if M is None else p.logical_and(p.less(k, M), proceeds)

    def append(outputs: List[Tensor], added: List[Tensor]) -> List[Tensor]:
        proceeds_next, *results = outputs
        rows = zip(buffers, added[1::2], results[count:])
        grown_buffers = [
            value for row_buffer, rows_so_far, row in rows for value in row_buffer.append(rows_so_far, row)
        ]
        iteration = Tensor(int64, (), ref=region.inputs[0])
        return [p.add(iteration, 1), p.reshape(proceeds_next, ()), *results[:count], *grown_buffers]

    empty = [value for rows in buffers for value in rows.empty()]
    added_specs = [Spec(bool_, ()), *(spec for rows in buffers for spec in rows.specs())]
    current_trace().extend(region, added_specs, append)
    k_ref, *state_refs = region.inputs[: 1 + count]
    region.inputs = (k_ref, region.inputs[1 + count], *state_refs, *region.inputs[2 + count :])
    all_specs = [Spec(int64, ()), added_specs[0], *specs, *added_specs[1:]]
    k, _, *values = record_while_loop(test, region, all_specs, [lift(0, int64), start, *state, *empty])
    tails = zip(buffers, values[count::2], values[count + 1 :: 2])
    return [
        *values[:count],
        *(row_buffer.finish(k, values_so_far, shape) for row_buffer, values_so_far, shape in tails),
    ]


class _RowBuffer:
    """Stack the rows of one row output of a while loop. `spec` is the type of a row.

    The buffer is two loop variables: the rows so far, and the shape of the last row.

    - Rows of a static shape are stacked along a new first axis.
    - Other rows are flattened and joined to a vector. After the loop, the vector is reshaped to [number of rows, *shape
      of the last row].
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.steady = spec.static

    def empty(self) -> List[Tensor]:
        """Return the initial loop variables: a buffer without rows, and a shape of zeros."""
        shape = (0, *self.spec.shape) if self.steady else (0,)
        return [p.full(shape, _blank_value(self.spec), self.spec.dtype), p.full((self.spec.rank,), 0, int64)]

    def specs(self) -> List[Spec]:
        """Return the types of the loop variables in every iteration: the number of rows is open."""
        sizes = self.spec.shape if self.steady else ()
        return [Spec(self.spec.dtype, (None, *sizes)), Spec(int64, (self.spec.rank,))]

    def append(self, old: Tensor, row: Tensor) -> List[Tensor]:
        """Return the loop variables after an iteration: the buffer with the row appended, and the shape of the row."""
        new = p.unsqueeze(row, [0]) if self.steady else p.reshape(row, (row.size,))
        return [p.concat([old, new], 0), p.shape_of(row)]

    def finish(self, k: Tensor, buffer: Tensor, shape: Tensor) -> Tensor:
        """Return the stacked rows after k iterations, from the final buffer and the shape of the last row."""
        return buffer if self.steady else p.reshape(buffer, (as_sizes(k)[0], *as_sizes(shape)))
