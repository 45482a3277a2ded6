"""Scans: unrolled if they are short, otherwise as a loop that runs several steps in an iteration."""

from typing import Any, Callable, List, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Const, Node, Ref, Sizes, atoms_of
from onnx_compat_tflite.emitter import (
    broadcasting,
    elementwise,
    joining,
    loops,
    runtime_sizes,
    scan_rows,
    subgraph_inputs,
)
from onnx_compat_tflite.emitter.builder import Bodies, Body, Builder
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["is_short_scan", "scan"]

_ALWAYS_UNROLLED = 8  # a scan of so few known steps is always unrolled
#: The limits of a longer unrolled scan: nodes, and bytes of constants that all steps read (64 steps of an LSTM with 128
#: cells). Up to a hundred cells the unrolled scan takes half the time of a loop. But XNNPACK packs the matrix of each
#: operator separately: 64 unrolled steps of 512 cells take twice the time of a loop, and 64 times the memory.
_UNROLLED_NODES = 1024
_UNROLLED_BYTES = 2**24
#: The same limits for the steps of an iteration of a loop. Four steps of 512 cells in a single iteration take longer than
#: four iterations, since the packed matrices of a step stay in the cache.
_ITERATION_NODES = 64
_ITERATION_BYTES = 2**22


@primitive
def scan(
    builder: Builder,
    state: Sequence[Handle],
    xs: Sequence[Handle],
    length: Sizes,
    *,
    reverse: bool,
    bodies: Bodies,
    captures: Sequence[Handle],
) -> Tuple[Handle, ...]:
    """Emit a scan, unrolled or as a loop: return the final states, then the stacked results of all steps.

    `state` has the initial states. The body runs once for each of `length` rows of the tensors `xs`. With `reverse`,
    the body starts at the last row. The stacked results are always in the order of the rows of `xs`.
    """
    known = length.known
    if known is not None and (0 < known[0] <= _ALWAYS_UNROLLED or _can_unroll(builder, known[0])):
        return _unroll(builder, state, xs, known[0], reverse, bodies[0], captures)
    return _scan_in_loop(builder, state, xs, length, reverse, bodies[0], captures)


def _can_unroll(builder: Builder, length: int) -> bool:
    """Whether the body of the builder's node is small enough to unroll a scan of `length` steps (`is_short_scan`)."""
    nodes = builder.node.regions[0].live()
    return is_short_scan(length, len(nodes), _constant_bytes(nodes))


def _unroll(
    builder: Builder,
    state: Sequence[Handle],
    xs: Sequence[Handle],
    length: int,
    reverse: bool,
    body: Body,
    captures: Sequence[Handle],
) -> Tuple[Handle, ...]:
    """Emit a scan as a copy of the body for each step; return the final states, then the stacked results.

    `length`, the number of steps, must be at least 1. `reverse`: begin with the last row of each x; the stacked results
    still have the order of the rows.
    """
    final_state, rows = _run_steps(
        state, [scan_rows.split_rows(builder, x, length) for x in xs], length, reverse, body, captures
    )
    return (*final_state, *[scan_rows.pack_rows(builder, ys) for ys in rows])


def _scan_in_loop(
    builder: Builder,
    state: Sequence[Handle],
    xs: Sequence[Handle],
    length: Sizes,
    reverse: bool,
    body: Body,
    captures: Sequence[Handle],
) -> Tuple[Handle, ...]:
    """Emit a scan as a loop with several steps per iteration, then a loop of single steps for the remaining steps.

    `length` has the number of steps, which may be 0 or known at run time only. `reverse`: begin with the last row of
    each of `xs`; the stacked results still have the order of the rows.

    Returns the final states, then the stacked results. The rows of results are written into buffers. Spare rows of a
    buffer (see `_zero_buffers`) are dropped at the end.

    The second loop is omitted if an iteration of the first loop runs a single step. It is also omitted if the known
    length leaves no remaining steps.
    """
    node, count = builder.node, runtime_sizes.scalar(builder, length.scalars[0])
    states = len(state)
    collected = node.outputs[states:]
    steps = _steps_per_iteration(builder, length, collected)
    spares = [steps if length.known is None and scan_rows.can_drop_spare_rows(builder, ref) else 0 for ref in collected]
    buffers = _zero_buffers(
        builder, collected, length, spares, lambda: _run_first_step(builder, state, xs, body, captures)
    )
    zero = Handle.of(np.asarray(0, np.int32))
    shapes: List[Sequence[Any]] = [(), *[tuple(ref.spec.shape) for ref in node.outputs]]
    remaining = steps if length.known is None else length.known[0] % steps
    values = [zero, *state, *buffers]
    shapes[1 + states :] = [tuple(buffer.dims) for buffer in values[1 + states :]]
    for step_count in [steps, 1] if steps > 1 and remaining else [steps]:
        values = _run_iterations(builder, step_count, values, xs, [count, *xs, *captures], shapes, reverse, body)
    results = [scan_rows.drop_spare_rows(builder, *result) for result in zip(values[1 + states :], spares, collected)]
    return (*values[1 : 1 + states], *results)


def _steps_per_iteration(builder: Builder, length: Sizes, collected: Sequence[Ref]) -> int:
    """Return the number of steps of the scan that an iteration of the first loop runs, at least 1.

    - If the body has subgraphs, returns 1.
    - If one of `collected`, the stacked results, has a rank above 4, returns 1.
    - If DYNAMIC_UPDATE_SLICE or STRIDED_SLICE does not accept the dtype of one of `collected`, returns 1.
    - If the length is unknown, returns the greatest number within `_ITERATION_NODES` and `_ITERATION_BYTES`.
    - If the length is known, returns a number above half of that greatest number, and at most the length. It is chosen
      so that the fewest steps remain for the second loop.
    """
    nodes = builder.node.regions[0].live()
    kernels = ("DYNAMIC_UPDATE_SLICE", "STRIDED_SLICE")
    can_write_rows = all(
        builder.accepts(kernel, subgraph_inputs.stored_type(ref)) and ref.spec.rank <= 4
        for ref in collected
        for kernel in kernels
    )
    if not can_write_rows or any(node.regions for node in nodes):
        return 1
    most = max(1, min(_ITERATION_NODES // max(1, len(nodes)), _ITERATION_BYTES // max(1, _constant_bytes(nodes))))
    known = length.known
    if known is None:
        return most
    count = known[0]
    most = min(most, max(1, count))
    return max(range(most // 2 + 1, most + 1), key=lambda steps: (-(count % steps), steps))


def _run_iterations(
    builder: Builder,
    step_count: int,
    values: Sequence[Handle],
    xs: Sequence[Handle],
    outer: Sequence[Handle],
    shapes: Sequence[Sequence[Any]],
    reverse: bool,
    body: Body,
) -> List[Handle]:
    """Append a loop of `step_count` steps per iteration, while at least so many steps remain. Return the final values.

    - `values`: the number of steps that are done, the states, and the result buffers
    - `outer`: the number of all steps, `xs`, and the captures
    - `shapes`: the sizes of each of `values` in all iterations
    - `reverse`: the first step takes the last row
    """
    states, scanned = len(builder.node.regions[0].inputs) - len(xs), len(xs)
    step_count_tensor = Handle.of(np.asarray(step_count, np.int32))

    def test(inner: Sequence[Handle], outside: Sequence[Handle]) -> Handle:
        return broadcasting.add_op(
            builder, "LESS_EQUAL", [elementwise.add(builder, inner[0], step_count_tensor), outside[0]], "bool"
        )

    def run_iteration(inner: Sequence[Handle], outside: Sequence[Handle]) -> List[Handle]:
        done = elementwise.add(builder, inner[0], step_count_tensor)
        index = elementwise.sub(builder, outside[0], done) if reverse else inner[0]
        blocks = [scan_rows.take_block(builder, x, index, step_count) for x in outside[1 : 1 + scanned]]
        next_state, rows = _run_steps(inner[1 : 1 + states], blocks, step_count, reverse, body, outside[1 + scanned :])
        next_buffers = [
            scan_rows.write_rows(builder, buffer, ys, index) for buffer, ys in zip(inner[1 + states :], rows)
        ]
        return [done, *next_state, *next_buffers]

    return loops.loop(builder, test, run_iteration, values, outer, shapes)


def _run_steps(
    state: Sequence[Handle],
    rows: Sequence[Sequence[Handle]],
    step_count: int,
    reverse: bool,
    body: Body,
    captures: Sequence[Handle],
) -> Tuple[Sequence[Handle], List[Sequence[Handle]]]:
    """Emit the body for `step_count` steps; return (final states, a list of rows for each stacked result).

    `rows` has, for each of `xs`, a row for each step. With `reverse`, the last row is read first. With and without
    `reverse`, the rows of a result are in the order of the rows of `xs`.
    """
    steps: List[Sequence[Handle]] = []
    state_count = len(state)
    for k in reversed(range(step_count)) if reverse else range(step_count):
        results = body(*state, *[row[k] for row in rows], *captures)
        state = results[:state_count]
        steps.append(results[state_count:])
    return state, [list(ys) for ys in zip(*(steps[::-1] if reverse else steps))]


def _run_first_step(
    builder: Builder, state: Sequence[Handle], xs: Sequence[Handle], body: Body, captures: Sequence[Handle]
) -> Sequence[Handle]:
    """Emit the body for the first row of each of `xs`, and return the row of each stacked result."""
    start = Handle.of(np.zeros((), np.int32))
    results: Sequence[Handle] = body(*state, *[scan_rows.take_row(builder, x, start) for x in xs], *captures)
    return results[len(state) :]


def _zero_buffers(
    builder: Builder,
    refs: Sequence[Ref],
    length: Sizes,
    spares: Sequence[int],
    run_first: Callable[[], Sequence[Handle]],
) -> List[Handle]:
    """Return a buffer of zeros (or empty strings) for each of `refs`, the stacked results.

    The scan writes its rows into the buffers. `length` is the number of rows. `spares` has, for each buffer, the number
    of spare rows at its end. Spare rows are necessary because no runtime plans a loop that could write more rows than
    the buffer has.

    `run_first` emits a first step, and returns a row of each stacked result. It is called only if a size of a result
    cannot be computed before the scan.
    """
    inner_refs = set(refs)
    has_known_rows = [
        not any(atom.args[0] in inner_refs for size in ref.spec.shape for atom in atoms_of(size)) for ref in refs
    ]
    rows = [] if all(has_known_rows) else run_first()
    buffers = []
    for k, ref in enumerate(refs):
        sizes = length.also(ref.spec.shape if has_known_rows[k] else length.dims)
        shape = builder.ints(*sizes.known) if sizes.known is not None else sizes.tensor
        if not has_known_rows[k]:
            shape = joining.concatenate(builder, shape, [builder.shape_tensor(rows[k])], 0)
        dims = ref.spec.shape
        if spares[k]:
            shape, dims = (
                elementwise.add(builder, shape, builder.ints(spares[k], *[0] * (len(dims) - 1))),
                (None, *dims[1:]),
            )
        dtype = subgraph_inputs.stored_type(ref)
        value = Handle.of(np.asarray("" if dtype == "string" else 0, object if dtype == "string" else dtype))
        buffers.append(broadcasting.broadcast(builder, value, shape, dims))
    return buffers


def _constant_bytes(nodes: Sequence[Node]) -> int:
    """Return the number of bytes of the constants that nodes read. A constant counts once for each read."""
    return sum(arg.array.nbytes for node in nodes for arg in node.args if isinstance(arg, Const))


def is_short_scan(length: int, nodes: int, bytes_read: int) -> bool:
    """Whether a scan of `length` steps is short enough to be unrolled: within `_UNROLLED_NODES` and `_UNROLLED_BYTES`.

    A step has `nodes` nodes, and reads `bytes_read` bytes of constants. False for no steps, or a step without nodes.
    """
    return 0 < length * nodes <= _UNROLLED_NODES and length * bytes_read <= _UNROLLED_BYTES
