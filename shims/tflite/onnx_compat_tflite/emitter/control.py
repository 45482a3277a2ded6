"""Branches, loops and scans as subgraphs.

A value from outside becomes a further input of the subgraph. A constant is copied into each subgraph that reads it.
"""

from typing import Any, Callable, List, Sequence, Tuple, Union

import numpy as np

from onnx_compat.shim import Const, Node, Ref, Sizes, atoms_of
from onnx_compat_tflite.emitter.pools import Pools
from onnx_compat_tflite.subgraph_builder import Graph, Handle

__all__ = ["Control", "is_short_scan"]

Body = Callable[..., Sequence[Handle]]
Bodies = Sequence[Body]

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

#: A state without elements in a loop: the constant that it stays; or the axis along which it grows, and a first row
#: that keeps it from being empty; or None for a state with elements.
EmptyState = Union[Handle, Tuple[int, Handle], None]


class Control(Pools):
    """Emit IF and WHILE."""

    def cond(self, pred: Handle, *, bodies: Bodies, captures: Sequence[Handle]) -> Tuple[Handle, ...]:
        pred = self._to_scalar_bool(pred)
        specs = [(_stored_type(ref), tuple(ref.spec.shape)) for ref in self.node.outputs]
        branches = []
        for name, body in zip(("then", "else"), bodies):
            with self.subgraph(name) as (number, graph):
                branches.append((number, graph, body(*self._inner_handles(graph, captures))))
        constants = [result for _, _, results in branches for result in results if _is_known_result(result)]
        for _, graph, results in branches:
            inputs = {id(constant): self._add_inner_input(graph, constant) for constant in constants}
            graph.finish([inputs.get(id(result), result) for result in results], [None] * len(specs))
        options = {"then_subgraph_index": branches[0][0], "else_subgraph_index": branches[1][0]}
        return tuple(self.add_ops("IF", [pred, *_non_constants(captures), *constants], specs, **options))

    def _to_scalar_bool(self, pred: Handle) -> Handle:
        """Return a condition as a boolean of rank 0."""
        pred = self.to(pred, "bool")
        return pred if pred.rank == 0 else self.add_op("RESHAPE", [pred], "bool", (), new_shape=[])

    def _inner_handles(self, graph: Graph, outer: Sequence[Handle]) -> List[Handle]:
        """Return the handles of a subgraph for handles of the enclosing subgraph."""
        return [handle if handle.is_constant else self._add_inner_input(graph, handle) for handle in outer]

    def _add_inner_input(self, graph: Graph, handle: Handle) -> Handle:
        """Append an input to a subgraph for a handle of the enclosing subgraph."""
        inner = graph.add_input("%s/in_%d" % (graph.spec.name, len(graph.spec.inputs)), handle.dtype, handle.dims)
        inner.is_nonnegative, inner.has_infinite = handle.is_nonnegative, handle.has_infinite
        inner.fits_int32 = handle.fits_int32
        return inner

    def while_loop(self, *state: Handle, bodies: Bodies, captures: Sequence[Handle]) -> Tuple[Handle, ...]:
        shapes = [tuple(ref.spec.shape) for ref in self.node.outputs]

        def test(inner: Sequence[Handle], outside: Sequence[Handle]) -> Handle:
            return self._to_scalar_bool(bodies[0](*inner, *outside)[0])

        def body(inner: Sequence[Handle], outside: Sequence[Handle]) -> Sequence[Handle]:
            return bodies[1](*inner, *outside)

        return tuple(self.loop(test, body, state, captures, shapes))

    def loop(
        self,
        test: Callable[..., Handle],
        body: Callable[..., Sequence[Handle]],
        state: Sequence[Handle],
        captures: Sequence[Handle],
        shapes: Sequence[Sequence[Any]],
    ) -> List[Handle]:
        """Append WHILE over the state, and over the captures, which each iteration returns unchanged.

        No runtime passes a tensor without elements through a loop: see `EmptyState`.
        """
        empty_states = [_empty_state(handle, dims) for handle, dims in zip(state, shapes)]
        if any(empty_state is not None for empty_state in empty_states):
            return self._loop_with_empty_states(empty_states, test, body, state, captures, shapes)
        fixed = _non_constants(captures)
        start = [Handle(handle.dtype, dims) for handle, dims in zip(state, shapes)]
        numbers = []
        for name in ("test", "body"):
            with self.subgraph(name) as (number, graph):
                inner = self._inner_handles(graph, [*start, *captures])
                values, outside = inner[: len(state)], inner[len(state) :]
                if name == "test":
                    graph.finish([test(values, outside)], [None])
                else:
                    graph.finish([*body(values, outside), *_non_constants(outside)], [None] * (len(state) + len(fixed)))
                numbers.append(number)
        results = [(handle.dtype, handle.dims) for handle in [*start, *fixed]]
        options = {"cond_subgraph_index": numbers[0], "body_subgraph_index": numbers[1]}
        return self.add_ops("WHILE", [*state, *fixed], results, **options)[: len(state)]

    def _loop_with_empty_states(
        self,
        empty_states: Sequence[EmptyState],
        test: Callable[..., Handle],
        body: Callable[..., Sequence[Handle]],
        state: Sequence[Handle],
        captures: Sequence[Handle],
        shapes: Sequence[Sequence[Any]],
    ) -> List[Handle]:
        """Append WHILE without the states that stay empty, and with a first row before states that are empty at first."""
        passed_indices = [k for k, empty_state in enumerate(empty_states) if not isinstance(empty_state, Handle)]

        def restore_states(inner: Sequence[Handle]) -> List[Handle]:
            remaining = iter(inner)
            states = [
                empty_state if isinstance(empty_state, Handle) else next(remaining) for empty_state in empty_states
            ]
            return [
                self._drop_first(x, empty_state[0]) if isinstance(empty_state, tuple) else x
                for x, empty_state in zip(states, empty_states)
            ]

        def prepend_first_rows(states: Sequence[Handle]) -> List[Handle]:
            passed = [(states[k], empty_states[k]) for k in passed_indices]
            return [self._prepend(x, *empty) if isinstance(empty, tuple) else x for x, empty in passed]

        def inner_test(inner: Sequence[Handle], outside: Sequence[Handle]) -> Handle:
            return test(restore_states(inner), outside)

        def inner_body(inner: Sequence[Handle], outside: Sequence[Handle]) -> Sequence[Handle]:
            return prepend_first_rows(body(restore_states(inner), outside))

        return restore_states(
            self.loop(inner_test, inner_body, prepend_first_rows(state), captures, [shapes[k] for k in passed_indices])
        )

    def _drop_first(self, x: Handle, axis: int) -> Handle:
        """Return x without its first element along an axis."""
        begin = [1 if k == axis else 0 for k in range(x.rank)]
        return self._add_strided_slice(x, self.ints(*begin), self.ints(*[2**31 - 1] * x.rank), [1] * x.rank, x.dims)

    def _prepend(self, x: Handle, axis: int, first: Handle) -> Handle:
        """Return x with an element before it along an axis."""
        result: Handle = self._concatenate(first, [x], axis)
        return result

    # -- scans -------------------------------------------------------------------------------------------------------------
    def scan(
        self,
        state: Sequence[Handle],
        xs: Sequence[Handle],
        length: Sizes,
        *,
        reverse: bool,
        bodies: Bodies,
        captures: Sequence[Handle],
    ) -> Tuple[Handle, ...]:
        known = length.known
        if known is not None and (0 < known[0] <= _ALWAYS_UNROLLED or self._can_unroll(known[0])):
            return self._unroll(state, xs, known[0], reverse, bodies[0], captures)
        return self._scan_in_loop(state, xs, length, reverse, bodies[0], captures)

    def _can_unroll(self, length: int) -> bool:
        """Whether the body is small enough to be unrolled."""
        nodes = self.node.regions[0].live()
        return is_short_scan(length, len(nodes), _constant_bytes(nodes))

    def _unroll(
        self,
        state: Sequence[Handle],
        xs: Sequence[Handle],
        length: int,
        reverse: bool,
        body: Body,
        captures: Sequence[Handle],
    ) -> Tuple[Handle, ...]:
        """Emit a scan as a copy of the body for each step."""
        final_state, rows = self._run_steps(
            state, [self._split_rows(x, length) for x in xs], length, reverse, body, captures
        )
        return (*final_state, *[self._pack_rows(ys) for ys in rows])

    def _split_rows(self, x: Handle, length: int) -> Sequence[Handle]:
        """Return the rows of x along the first axis."""
        if x.is_constant or not self.accepts("UNPACK", x.dtype):
            return [self._take_row(x, Handle.of(np.asarray(k, np.int32))) for k in range(length)]
        return self.add_ops("UNPACK", [x], [(x.dtype, x.dims[1:])] * length, num=length, axis=0)

    def _take_row(self, x: Handle, index: Handle) -> Handle:
        return self.gather(x, index, 0)

    def _pack_rows(self, rows: Sequence[Handle]) -> Handle:
        """Stack rows of equal shape along a new first axis."""
        return self._pack(rows[0], rows[1:])

    def _pack(self, first: Handle, other_rows: Sequence[Handle]) -> Handle:
        rows = [first, *other_rows]
        if not self.accepts("PACK", first.dtype):
            packed: Handle = self.call_widened(type(self)._pack, ["PACK"], first, (other_rows,), {})
            return packed
        dims = (len(rows), *first.dims)
        return self.add_op("PACK", rows, first.dtype, dims, values_count=len(rows), axis=0)

    def _scan_in_loop(
        self,
        state: Sequence[Handle],
        xs: Sequence[Handle],
        length: Sizes,
        reverse: bool,
        body: Body,
        captures: Sequence[Handle],
    ) -> Tuple[Handle, ...]:
        """Emit a scan as a loop that runs several steps in an iteration, and a loop for the steps that remain.

        The rows of each result are written into a buffer of zeros of the final shape.
        """
        node, count = self.node, self.scalar(length.scalars[0])
        states = len(state)
        collected = node.outputs[states:]
        steps = self._steps_per_iteration(length, collected)
        spares = [steps if length.known is None and self._can_drop_spare_rows(ref) else 0 for ref in collected]
        buffers = self._zero_buffers(collected, length, spares, lambda: self._run_first_step(state, xs, body, captures))
        zero = Handle.of(np.asarray(0, np.int32))
        shapes: List[Sequence[Any]] = [(), *[tuple(ref.spec.shape) for ref in node.outputs]]
        remaining = steps if length.known is None else length.known[0] % steps
        values = [zero, *state, *buffers]
        shapes[1 + states :] = [tuple(buffer.dims) for buffer in values[1 + states :]]
        for step_count in [steps, 1] if steps > 1 and remaining else [steps]:
            values = self._run_iterations(step_count, values, xs, [count, *xs, *captures], shapes, reverse, body)
        results = [self._drop_spare_rows(*result) for result in zip(values[1 + states :], spares, collected)]
        return (*values[1 : 1 + states], *results)

    def _can_drop_spare_rows(self, ref: Ref) -> bool:
        """Whether the kernels can write into spare rows and slice them off."""
        feature = "rank 6" if ref.spec.rank > 5 else "plain"
        return self.accepts("DYNAMIC_UPDATE_SLICE", _stored_type(ref)) and self.accepts(
            "STRIDED_SLICE", _stored_type(ref), feature
        )

    def _drop_spare_rows(self, buffer: Handle, rows: int, ref: Ref) -> Handle:
        """Return a result buffer without its spare rows."""
        if not rows:
            return buffer
        begin, end = [0] * buffer.rank, [-rows, *[2**31 - 1] * (buffer.rank - 1)]
        return self._add_strided_slice(buffer, self.ints(*begin), self.ints(*end), [1] * buffer.rank, ref.spec.shape)

    def _steps_per_iteration(self, length: Sizes, collected: Sequence[Ref]) -> int:
        """Return how many steps an iteration runs. Each iteration passes on every tensor that the loop reads or
        collects.
        """
        nodes = self.node.regions[0].live()
        kernels = ("DYNAMIC_UPDATE_SLICE", "STRIDED_SLICE")
        can_write_rows = all(
            self.accepts(kernel, _stored_type(ref)) and ref.spec.rank <= 4 for ref in collected for kernel in kernels
        )
        if not can_write_rows or any(node.regions for node in nodes):
            return 1
        most = max(1, min(_ITERATION_NODES // max(1, len(nodes)), _ITERATION_BYTES // max(1, _constant_bytes(nodes))))
        known = length.known
        if known is None:
            return most
        count = known[0]
        return max(range(most // 2 + 1, most + 1), key=lambda steps: (-(count % steps), steps))

    def _run_iterations(
        self,
        step_count: int,
        values: Sequence[Handle],
        xs: Sequence[Handle],
        outer: Sequence[Handle],
        shapes: Sequence[Sequence[Any]],
        reverse: bool,
        body: Body,
    ) -> List[Handle]:
        """Append a loop that runs `step_count` steps in an iteration, while that many steps remain.

        `values` are the number of steps that are done, the states, and the result buffers.
        """
        states, scanned = len(self.node.regions[0].inputs) - len(xs), len(xs)
        step_count_tensor = Handle.of(np.asarray(step_count, np.int32))

        def test(inner: Sequence[Handle], outside: Sequence[Handle]) -> Handle:
            return self.elementwise("LESS_EQUAL", [self.add(inner[0], step_count_tensor), outside[0]], "bool")

        def run_iteration(inner: Sequence[Handle], outside: Sequence[Handle]) -> List[Handle]:
            done = self.add(inner[0], step_count_tensor)
            index = self.sub(outside[0], done) if reverse else inner[0]
            blocks = [self._take_block(x, index, step_count) for x in outside[1 : 1 + scanned]]
            next_state, rows = self._run_steps(
                inner[1 : 1 + states], blocks, step_count, reverse, body, outside[1 + scanned :]
            )
            next_buffers = [self._write_rows(buffer, ys, index) for buffer, ys in zip(inner[1 + states :], rows)]
            return [done, *next_state, *next_buffers]

        return self.loop(test, run_iteration, values, outer, shapes)

    def _take_block(self, x: Handle, index: Handle, count: int) -> Sequence[Handle]:
        """Return `count` rows of x from an index on."""
        if count == 1:
            return [self._take_row(x, index)]
        # GATHER, since a SLICE with a variable start has a dynamic shape: runtimes plan its consumers at each iteration.
        indices = self.add(index, Handle.of(np.arange(count, dtype=np.int32)))
        return self._split_rows(self.gather(x, indices, 0), count)

    def _run_steps(
        self,
        state: Sequence[Handle],
        rows: Sequence[Sequence[Handle]],
        step_count: int,
        reverse: bool,
        body: Body,
        captures: Sequence[Handle],
    ) -> Tuple[Sequence[Handle], List[Sequence[Handle]]]:
        """Return the states after some steps, and the rows of each result in the order of the input."""
        steps: List[Sequence[Handle]] = []
        state_count = len(state)
        for k in reversed(range(step_count)) if reverse else range(step_count):
            results = body(*state, *[row[k] for row in rows], *captures)
            state = results[:state_count]
            steps.append(results[state_count:])
        return state, [list(ys) for ys in zip(*(steps[::-1] if reverse else steps))]

    def _zero_buffers(
        self, refs: Sequence[Ref], length: Sizes, spares: Sequence[int], run_first: Callable[[], Sequence[Handle]]
    ) -> List[Handle]:
        """Return zeros into which the rows are written, with spare rows at the end.

        No runtime plans a loop that writes more rows than the buffer has, even a loop without an iteration. If the
        trace does not know the size of a row, a first step computes it.
        """
        inner_refs = set(refs)
        has_known_rows = [
            not any(atom.args[0] in inner_refs for size in ref.spec.shape for atom in atoms_of(size)) for ref in refs
        ]
        rows = [] if all(has_known_rows) else run_first()
        buffers = []
        for k, ref in enumerate(refs):
            sizes = length.also(ref.spec.shape if has_known_rows[k] else length.dims)
            shape = self.ints(*sizes.known) if sizes.known is not None else sizes.tensor
            if not has_known_rows[k]:
                shape = self._concatenate(shape, [self.shape_tensor(rows[k])], 0)
            dims = ref.spec.shape
            if spares[k]:
                shape, dims = self.add(shape, self.ints(spares[k], *[0] * (len(dims) - 1))), (None, *dims[1:])
            dtype = _stored_type(ref)
            value = Handle.of(np.asarray("" if dtype == "string" else 0, object if dtype == "string" else dtype))
            buffers.append(self.broadcast(value, shape, dims))
        return buffers

    def _run_first_step(
        self, state: Sequence[Handle], xs: Sequence[Handle], body: Body, captures: Sequence[Handle]
    ) -> Sequence[Handle]:
        """Run the body on the first rows, and return the rows of its results."""
        start = Handle.of(np.zeros((), np.int32))
        results: Sequence[Handle] = body(*state, *[self._take_row(x, start) for x in xs], *captures)
        return results[len(state) :]

    def _write_rows(self, buffer: Handle, rows: Sequence[Handle], index: Handle) -> Handle:
        """Return the buffer with rows written at an index: by DYNAMIC_UPDATE_SLICE, or by SELECT_V2."""
        block = self._pack_rows(rows) if len(rows) > 1 else self._prepend_row_axis(rows[0])
        if self.accepts("DYNAMIC_UPDATE_SLICE", buffer.dtype):
            start = self.stack([index, *[0] * rows[0].rank])
            return self.add_op("DYNAMIC_UPDATE_SLICE", [buffer, block, start], buffer.dtype, buffer.dims)
        is_row = self.equal(self.grid(buffer, 0), index)
        return self.where(is_row, block, buffer)

    def _prepend_row_axis(self, row: Handle) -> Handle:
        """Return a row with a first axis of length 1."""
        shape = (
            self._concatenate(self.ints(1), [self.shape_tensor(row)], 0)
            if not row.is_static
            else self.ints(1, *row.dims)
        )
        return self.add_op("RESHAPE", [row, shape], row.dtype, (1, *row.dims))


def _constant_bytes(nodes: Sequence[Node]) -> int:
    """Return the size of the constants that nodes read, in bytes."""
    return sum(arg.array.nbytes for node in nodes for arg in node.args if isinstance(arg, Const))


def is_short_scan(length: int, nodes: int, bytes_read: int) -> bool:
    """Whether a scan of known length is unrolled, whose step has this many nodes and reads this many bytes."""
    return 0 < length * nodes <= _UNROLLED_NODES and length * bytes_read <= _UNROLLED_BYTES


def _stored_type(ref: Ref) -> str:
    """Return the TFLite type of a recorded value."""
    name = ref.spec.dtype.numpy.name
    return "string" if name == "object" else str(name)


def _empty_state(handle: Handle, dims: Sequence[Any]) -> EmptyState:
    """Return how a loop passes a state that is empty at first: see `EmptyState`.

    None for a state with elements, or if its size is not known.
    """
    open_axes = [axis for axis, size in enumerate(dims) if not isinstance(size, int)]
    if 0 in [size for size in dims if isinstance(size, int)]:
        return None if open_axes else Handle.of(np.zeros(dims, object if handle.dtype == "string" else handle.dtype))
    if len(open_axes) != 1 or not handle.is_empty or handle.dtype == "string":
        return None
    sizes = [1 if axis == open_axes[0] else size for axis, size in enumerate(dims)]
    return open_axes[0], Handle.of(np.zeros(sizes, handle.dtype))


def _is_known_result(handle: Handle) -> bool:
    """Whether a branch returns this constant as an input of its subgraph.

    A subgraph must not copy a constant to its output. Newer runtimes copy it before the first run, into memory that IF
    reuses. The next resize then returns the values of the other branch, or ends the process. Strings are not copied
    ahead, and an empty constant cannot be an input.
    """
    return handle.is_constant and handle.dtype != "string" and handle.array.size > 0


def _non_constants(handles: Sequence[Handle]) -> List[Handle]:
    """Return the handles that are no constants."""
    return [handle for handle in handles if not handle.is_constant]
