"""Branches and loops, as subgraphs. What a body reads from outside comes in as further inputs; constants are its own."""

from typing import Any, Callable, List, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Const, atoms_of
from onnx_compat_tflite.emitter.pools import Pools
from onnx_compat_tflite.subgraph_builder import Graph, Handle

__all__ = ["Control", "is_short_scan"]

Bodies = Sequence[Callable[..., Sequence[Handle]]]

_SHORT = 8  # rounds of a known scan that are written out, whatever they are
#: The nodes up to which more rounds are, and the bytes of constants that they read in all: 64 steps of an LSTM of 128
#: cells. Written out it takes half the time of a loop up to a hundred cells; but XNNPACK packs a matrix for each operator
#: anew, so that 64 steps of 512 cells take twice the time of a loop, and 64 times the memory.
_WRITTEN_OUT = 1024
_READ = 2**24
#: The same of a round of a loop that is not written out: four steps of 512 cells in one take longer than four rounds, since
#: the packed matrices of one stay in the cache.
_ROUND = 64
_READ_A_ROUND = 2**22


class Control(Pools):
    """IF and WHILE."""

    def cond(self, pred: Handle, *, bodies: Bodies, captures: Sequence[Handle]) -> Tuple[Handle, ...]:
        node = self.node
        pred = self._to_scalar_bool(pred)
        specs = [(_held(ref), tuple(ref.spec.shape)) for ref in node.outputs]
        branches = []
        for name, body in zip(("then", "else"), bodies):
            with self.subgraph(name) as (number, graph):
                branches.append((number, graph, body(*self._inner_handles(graph, captures))))
        given = [one for _, _, results in branches for one in results if _told_ahead(one)]
        for _, graph, results in branches:
            own = {id(one): self._add_inner_input(graph, one) for one in given}
            graph.finish([own.get(id(one), one) for one in results], [None] * len(specs))
        options = {"then_subgraph_index": branches[0][0], "else_subgraph_index": branches[1][0]}
        return tuple(self.add_ops("IF", [pred, *_variable(captures), *given], specs, **options))

    def _to_scalar_bool(self, pred: Handle) -> Handle:
        pred = self.to(pred, "bool")
        return pred if pred.rank == 0 else self.add_op("RESHAPE", [pred], "bool", (), new_shape=[])

    def _inner_handles(self, graph: Graph, outer: Sequence[Handle]) -> List[Handle]:
        """Inputs of a subgraph for handles of the one around it."""
        return [handle if handle.is_constant else self._add_inner_input(graph, handle) for handle in outer]

    def _add_inner_input(self, graph: Graph, handle: Handle) -> Handle:
        """A further input of a subgraph, for this."""
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
        """WHILE over the state, and over the captures, which every round hands on. No runtime hands on a tensor without
        data: what stays empty is no state, and what is empty at first has a row before it.
        """
        ways = [_way(handle, dims) for handle, dims in zip(state, shapes)]
        if any(way is not None for way in ways):
            return self._loop_with_empty_states(ways, test, body, state, captures, shapes)
        fixed = _variable(captures)
        start = [Handle(handle.dtype, dims) for handle, dims in zip(state, shapes)]
        numbers = []
        for name in ("test", "body"):
            with self.subgraph(name) as (number, graph):
                inner = self._inner_handles(graph, [*start, *captures])
                values, outside = inner[: len(state)], inner[len(state) :]
                if name == "test":
                    graph.finish([test(values, outside)], [None])
                else:
                    graph.finish([*body(values, outside), *_variable(outside)], [None] * (len(state) + len(fixed)))
                numbers.append(number)
        results = [(handle.dtype, handle.dims) for handle in [*start, *fixed]]
        options = {"cond_subgraph_index": numbers[0], "body_subgraph_index": numbers[1]}
        return self.add_ops("WHILE", [*state, *fixed], results, **options)[: len(state)]

    def _loop_with_empty_states(
        self,
        ways: Sequence[Any],
        test: Callable[..., Handle],
        body: Callable[..., Sequence[Handle]],
        state: Sequence[Handle],
        captures: Sequence[Handle],
        shapes: Sequence[Sequence[Any]],
    ) -> List[Handle]:
        """The loop with its states as `_way` says."""
        kept = [k for k, way in enumerate(ways) if not isinstance(way, Handle)]

        def inside(inner: Sequence[Handle]) -> List[Handle]:
            left = iter(inner)
            whole = [way if isinstance(way, Handle) else next(left) for way in ways]
            return [self._drop_first(x, way[0]) if isinstance(way, tuple) else x for x, way in zip(whole, ways)]

        def carried(whole: Sequence[Handle]) -> List[Handle]:
            return [whole[k] if ways[k] is None else self._prepend(whole[k], *ways[k]) for k in kept]

        def inner_test(inner: Sequence[Handle], outside: Sequence[Handle]) -> Handle:
            return test(inside(inner), outside)

        def inner_body(inner: Sequence[Handle], outside: Sequence[Handle]) -> Sequence[Handle]:
            return carried(body(inside(inner), outside))

        return inside(self.loop(inner_test, inner_body, carried(state), captures, [shapes[k] for k in kept]))

    def _drop_first(self, x: Handle, axis: int) -> Handle:
        begin = [1 if k == axis else 0 for k in range(x.rank)]
        return self._add_strided_slice(x, self.ints(*begin), self.ints(*[2**31 - 1] * x.rank), [1] * x.rank, x.dims)

    def _prepend(self, x: Handle, axis: int, first: Handle) -> Handle:
        result: Handle = self._concatenate(first, [x], axis)
        return result

    # -- scans -------------------------------------------------------------------------------------------------------------
    def scan(
        self,
        state: Sequence[Handle],
        xs: Sequence[Handle],
        length: Any,
        *,
        reverse: bool,
        bodies: Bodies,
        captures: Sequence[Handle],
    ) -> Tuple[Handle, ...]:
        known = length.known
        if known is not None and (0 < known[0] <= _SHORT or self._can_unroll(known[0])):
            return self._unroll(state, xs, known[0], reverse, bodies[0], captures)
        return self._scan_in_loop(state, xs, length, reverse, bodies[0], captures)

    def _can_unroll(self, length: int) -> bool:
        nodes = self.node.regions[0].live()
        return is_short_scan(length, len(nodes), _read(nodes))

    def _unroll(
        self, state: Sequence[Handle], xs: Sequence[Handle], length: int, reverse: bool, body: Any, captures: Any
    ) -> Tuple[Handle, ...]:
        after, rows = self._run_steps(state, [self._split_rows(x, length) for x in xs], length, reverse, body, captures)
        return (*after, *[self._pack_rows(ys) for ys in rows])

    def _split_rows(self, x: Handle, length: int) -> Sequence[Handle]:
        """Each along the first axis."""
        if x.is_constant or not self.accepts("UNPACK", x.dtype):
            return [self._take_row(x, Handle.of(np.asarray(k, np.int32))) for k in range(length)]
        return self.add_ops("UNPACK", [x], [(x.dtype, x.dims[1:])] * length, num=length, axis=0)

    def _take_row(self, x: Handle, place: Handle) -> Handle:
        return self.gather(x, place, 0)

    def _pack_rows(self, rows: Sequence[Handle]) -> Handle:
        """Rows of one shape along a new first axis."""
        return self._pack(rows[0], rows[1:])

    def _pack(self, first: Handle, others: Sequence[Handle]) -> Handle:
        rows = [first, *others]
        if not self.accepts("PACK", first.dtype):
            packed: Handle = self.call_widened(type(self)._pack, ["PACK"], first, (others,), {})
            return packed
        dims = (len(rows), *first.dims)
        return self.add_op("PACK", rows, first.dtype, dims, values_count=len(rows), axis=0)

    def _scan_in_loop(
        self, state: Sequence[Handle], xs: Sequence[Handle], length: Any, reverse: bool, body: Any, captures: Any
    ) -> Tuple[Handle, ...]:
        """A loop with a counter, many steps a round, and one for the steps that are left over. The collected rows are
        written into zeros of the final shape.
        """
        node, count = self.node, self.scalar(length.scalars[0])
        states = len(state)
        collected = node.outputs[states:]
        steps = self._steps_per_iteration(length, collected)
        spares = [steps if length.known is None and self._can_drop_spare_rows(ref) else 0 for ref in collected]
        piles = self._zero_buffers(collected, length, spares, lambda: self._run_first_step(state, xs, body, captures))
        zero = Handle.of(np.asarray(0, np.int32))
        shapes: List[Sequence[Any]] = [(), *[tuple(ref.spec.shape) for ref in node.outputs]]
        left_over = steps if length.known is None else length.known[0] % steps
        values = [zero, *state, *piles]
        shapes[1 + states :] = [tuple(pile.dims) for pile in values[1 + states :]]
        for many in [steps, 1] if steps > 1 and left_over else [steps]:
            values = self._run_iterations(many, values, xs, [count, *xs, *captures], shapes, reverse, body)
        cut = [self._drop_spare_rows(*each) for each in zip(values[1 + states :], spares, collected)]
        return (*values[1 : 1 + states], *cut)

    def _can_drop_spare_rows(self, ref: Any) -> bool:
        """Whether spare rows are needed, and can be cut off again."""
        feature = "rank 6" if ref.spec.rank > 5 else "plain"
        return self.accepts("DYNAMIC_UPDATE_SLICE", _held(ref)) and self.accepts("STRIDED_SLICE", _held(ref), feature)

    def _drop_spare_rows(self, pile: Handle, rows: int, ref: Any) -> Handle:
        if not rows:
            return pile
        begin, end = [0] * pile.rank, [-rows, *[2**31 - 1] * (pile.rank - 1)]
        return self._add_strided_slice(pile, self.ints(*begin), self.ints(*end), [1] * pile.rank, ref.spec.shape)

    def _steps_per_iteration(self, length: Any, collected: Sequence[Any]) -> int:
        """Each round hands on all that the loop reads and collects, so that few rounds of many steps cost less."""
        nodes = self.node.regions[0].live()
        kernels = ("DYNAMIC_UPDATE_SLICE", "STRIDED_SLICE")
        taken = all(self.accepts(kernel, _held(ref)) and ref.spec.rank <= 4 for ref in collected for kernel in kernels)
        if not taken or any(node.regions for node in nodes):
            return 1
        most = max(1, min(_ROUND // max(1, len(nodes)), _READ_A_ROUND // max(1, _read(nodes))))
        if length.known is None:
            return most
        return max(range(most // 2 + 1, most + 1), key=lambda steps: (-(length.known[0] % steps), steps))

    def _run_iterations(
        self,
        many: int,
        values: Sequence[Handle],
        xs: Sequence[Handle],
        outer: Sequence[Handle],
        shapes: Sequence[Sequence[Any]],
        reverse: bool,
        body: Any,
    ) -> List[Handle]:
        """So many steps a round, as long as there are so many. `values`: the steps done, the states, the piles."""
        states, scanned = len(self.node.regions[0].inputs) - len(xs), len(xs)
        number = Handle.of(np.asarray(many, np.int32))

        def test(inner: Sequence[Handle], outside: Sequence[Handle]) -> Handle:
            return self.elementwise("LESS_EQUAL", [self.add(inner[0], number), outside[0]], "bool")

        def round_(inner: Sequence[Handle], outside: Sequence[Handle]) -> List[Handle]:
            done = self.add(inner[0], number)
            place = self.sub(outside[0], done) if reverse else inner[0]
            blocks = [self._take_block(x, place, many) for x in outside[1 : 1 + scanned]]
            after, rows = self._run_steps(inner[1 : 1 + states], blocks, many, reverse, body, outside[1 + scanned :])
            grown = [self._write_rows(pile, ys, place) for pile, ys in zip(inner[1 + states :], rows)]
            return [done, *after, *grown]

        return self.loop(test, round_, values, outer, shapes)

    def _take_block(self, x: Handle, place: Handle, many: int) -> Sequence[Handle]:
        """So many rows from here on."""
        if many == 1:
            return [self._take_row(x, place)]
        # Not by SLICE: what begins anywhere has no fixed size to a runtime, and all behind it is planned in each round.
        places = self.add(place, Handle.of(np.arange(many, dtype=np.int32)))
        return self._split_rows(self.gather(x, places, 0), many)

    def _run_steps(
        self,
        state: Sequence[Handle],
        rows: Sequence[Sequence[Handle]],
        many: int,
        reverse: bool,
        body: Any,
        captures: Any,
    ) -> Tuple[Sequence[Handle], List[Sequence[Handle]]]:
        """The states after these steps, and the rows that each result has collected, in their order."""
        steps: List[Sequence[Handle]] = []
        count, node = len(state), self.node
        for k in reversed(range(many)) if reverse else range(many):
            results = body(*state, *[row[k] for row in rows], *captures)
            state = results[:count]
            steps.append(results[count:])
        self.node = node
        return state, [list(ys) for ys in zip(*(steps[::-1] if reverse else steps))]

    def _zero_buffers(
        self, refs: Sequence[Any], length: Any, spares: Sequence[int], first: Callable[[], Sequence[Handle]]
    ) -> List[Handle]:
        """Zeros for the rows to be written into, and some spare ones: no runtime plans a loop that writes more rows than a
        pile has, even if the loop has no round. Where the trace cannot tell how long a row is, a first round does.
        """
        own = set(refs)
        told = [not any(atom.args[0] in own for size in ref.spec.shape for atom in atoms_of(size)) for ref in refs]
        rows = [] if all(told) else first()
        piles = []
        for k, ref in enumerate(refs):
            sizes = length.also(ref.spec.shape if told[k] else length.dims)
            shape = self.ints(*sizes.known) if sizes.known is not None else sizes.tensor
            if not told[k]:
                shape = self._concatenate(shape, [self.shape_tensor(rows[k])], 0)
            dims = ref.spec.shape
            if spares[k]:
                shape, dims = self.add(shape, self.ints(spares[k], *[0] * (len(dims) - 1))), (None, *dims[1:])
            dtype = _held(ref)
            value = Handle.of(np.asarray("" if dtype == "string" else 0, object if dtype == "string" else dtype))
            piles.append(self.broadcast(value, shape, dims))
        return piles

    def _run_first_step(
        self, state: Sequence[Handle], xs: Sequence[Handle], body: Any, captures: Any
    ) -> Sequence[Handle]:
        node, start = self.node, Handle.of(np.zeros((), np.int32))
        results: Sequence[Handle] = body(*state, *[self._take_row(x, start) for x in xs], *captures)
        self.node = node
        return results[len(state) :]

    def _write_rows(self, pile: Handle, rows: Sequence[Handle], place: Handle) -> Handle:
        """The pile with rows put in: by the kernel for it, or by choosing between the two."""
        high = self._pack_rows(rows) if len(rows) > 1 else self._prepend_row_axis(rows[0])
        if self.accepts("DYNAMIC_UPDATE_SLICE", pile.dtype):
            start = self.stack([place, *[0] * rows[0].rank])
            return self.add_op("DYNAMIC_UPDATE_SLICE", [pile, high, start], pile.dtype, pile.dims)
        here = self.equal(self.grid(pile, 0), place)
        return self.where(here, high, pile)

    def _prepend_row_axis(self, row: Handle) -> Handle:
        shape = (
            self._concatenate(self.ints(1), [self.shape_tensor(row)], 0)
            if not row.is_static
            else self.ints(1, *row.dims)
        )
        return self.add_op("RESHAPE", [row, shape], row.dtype, (1, *row.dims))


def _read(nodes: Sequence[Any]) -> int:
    """Bytes of constants."""
    return sum(arg.array.nbytes for node in nodes for arg in node.args if isinstance(arg, Const))


def is_short_scan(length: int, nodes: int, read: int) -> bool:
    """Whether a scan of so many rounds is written out, of which each has so many nodes, and reads so many bytes."""
    return 0 < length * nodes <= _WRITTEN_OUT and length * read <= _READ


def _held(ref: Any) -> str:
    name = ref.spec.dtype.numpy.name
    return "string" if name == "object" else str(name)


def _way(handle: Handle, dims: Sequence[Any]) -> Any:
    """What a loop does about a state that is empty: the constant that it is, if it stays so; the axis along which it
    grows, and what stands before it; None if it is not empty, or one cannot tell.
    """
    open_axes = [axis for axis, size in enumerate(dims) if not isinstance(size, int)]
    if 0 in [size for size in dims if isinstance(size, int)]:
        return None if open_axes else Handle.of(np.zeros(dims, object if handle.dtype == "string" else handle.dtype))
    if len(open_axes) != 1 or not handle.is_empty or handle.dtype == "string":
        return None
    sizes = [1 if axis == open_axes[0] else size for axis, size in enumerate(dims)]
    return open_axes[0], Handle.of(np.zeros(sizes, handle.dtype))


def _told_ahead(handle: Handle) -> bool:
    """Whether a branch gives a constant. It must not copy one of its own: new runtimes do that before the first run, into
    memory that IF then takes for its own, so that the next resize gives the values of the other branch, or ends the
    process. (They copy no text ahead, and nothing has no data to be handed in.)
    """
    return handle.is_constant and handle.dtype != "string" and handle.array.size > 0


def _variable(handles: Sequence[Handle]) -> List[Handle]:
    return [handle for handle in handles if not handle.is_constant]
