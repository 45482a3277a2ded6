"""Branches and loops as If, Loop and Scan."""

import functools
from typing import Any, Callable, Dict, List, Sequence, Tuple

from onnx_compat.ir import dtypes
from onnx_compat.ir.dims import is_equal
from onnx_compat.onnx_shim.graph_builder import Scope, Value
from onnx_compat.onnx_shim.lowering.base import WRAPPING
from onnx_compat.onnx_shim.lowering.linear import LinearLowering
from onnx_compat.shim.emission import Sizes

__all__ = ["ControlLowering"]

Bodies = Sequence[Callable[..., Sequence[Value]]]


class ControlLowering(LinearLowering):
    """The primitives of `onnx_compat.primitives.control`. Outer values are read by their names."""

    def cond(self, pred: Value, *, bodies: Bodies, captures: Sequence[Value]) -> Tuple[Value, ...]:
        branches = [self._graph([], functools.partial(self._branch, pred, body, captures)) for body in bodies]
        results = [Value(value.dtype, self._shape(k)) for k, value in enumerate(branches[0].outputs)]
        attributes = {"then_branch": branches[0], "else_branch": branches[1]}
        return self.builder.call("If", [self._scalar_of(pred)], results, attributes)

    def _branch(self, pred: Value, body: Callable[..., Sequence[Value]], captures: Sequence[Value]) -> List[Value]:
        """Return the results of a branch. Before opset 11, shape inference requires that both branches have one shape.

        So there, a Reshape hides the shape of a result whose shape is not that of the node. Its shape depends on
        `pred`, which only a run knows.
        """
        results = list(body(*captures))
        for index, value in enumerate(results if self.offer.opset < 11 else []):
            if not all(map(is_equal, value.shape, self._shape(index))):
                number = self.convert(self._scalar_of(pred), dtypes.int64)
                shape = self.result("Shape", [value], dtypes.int64, (value.rank,))
                shape = self.add(shape, self.sub(number, number))
                results[index] = self.call("Reshape", [value], [shape], WRAPPING, shape=[None] * value.rank)
        return results

    def _shape(self, index: int) -> Tuple[Any, ...]:
        """Return the shape of a result of the node that is being emitted."""
        return tuple(self.node.outputs[index].spec.shape)

    def _scalar_of(self, pred: Value) -> Value:
        return pred if not pred.rank else self.flat_result(pred)

    def _graph(self, inputs: Sequence[Value], body: Callable[[], Sequence[Value]]) -> Scope:
        """Return the graph of a body with these inputs. `body()` adds calls to the graph, and returns the outputs.

        An output that no call of the graph computes, or that occurs twice, becomes a copy by Identity.
        """
        with self.builder.open_graph(inputs) as scope:
            for value in body():
                scope.outputs += (self.graph_output(value),)
        return scope

    def while_loop(self, *state: Value, bodies: Bodies, captures: Sequence[Value]) -> Tuple[Value, ...]:
        test, body = bodies
        shapes = [self._shape(k) for k in range(len(state))]
        (first,) = test(*state, *captures)
        inputs = [Value(dtypes.int64, ()), Value(dtypes.bool_, ())]
        inner = [Value(value.dtype, shape) for value, shape in zip(state, shapes)]

        def step() -> List[Value]:
            following = list(body(*inner, *captures))
            return [self._scalar_of(test(*following, *captures)[0]), *following]

        graph = self._graph([*inputs, *inner], step)
        results = [Value(value.dtype, shape) for value, shape in zip(state, shapes)]
        return self.builder.call("Loop", [None, self._scalar_of(first), *state], results, {"body": graph})

    def scan(
        self,
        state: Sequence[Value],
        xs: Sequence[Value],
        length: Sizes,
        *,
        reverse: bool,
        bodies: Bodies,
        captures: Sequence[Value],
    ) -> Tuple[Value, ...]:
        entries = list(xs) or [self.iota(self.scalar(length.scalars[0], dtypes.int64))]
        shapes = [self._shape(k) for k in range(len(self.node.outputs))]

        def body(values: Sequence[Value], slices: Sequence[Value]) -> Tuple[List[Value], List[Value]]:
            results = list(bodies[0](*values, *(slices if xs else ()), *captures))
            return results[: len(state)], results[len(state) :]

        states, stacked = self.loop_over(body, state, entries, reverse)
        for value, shape in zip([*states, *stacked], shapes):
            value.shape = tuple(size if isinstance(size, int) else None for size in shape)
        return (*states, *stacked)

    def loop_over(
        self, body: Any, state: Sequence[Value], entries: Sequence[Value], reverse: bool = False
    ) -> Tuple[List[Value], List[Value]]:
        """Apply a body to each slice of `entries` along their first axis. Return the final states and stacked results.

        This is a Scan, or a Loop if the axis may be empty: onnxruntime scans no empty axis.

        `body(states, slices)` returns the next states and a list of results, which are stacked in the order of slices.
        With `reverse`, the body gets the last slice first.
        """
        if not entries[0].shape[0]:
            return self._loop_over_slices(body, state, entries, reverse)
        states = [Value(value.dtype, value.shape) for value in state]
        slices = [Value(value.dtype, value.shape[1:]) for value in entries]
        counts: List[int] = []

        def step() -> List[Value]:
            following, results = body(states, slices)
            counts.append(len(results))
            return [*following, *results]

        graph = self._graph([*states, *slices], step)
        stacked = graph.outputs[len(state) :]
        attributes: Dict[str, Any] = {"body": graph, "num_scan_inputs": len(entries)}
        if reverse:
            attributes["scan_input_directions"] = [1] * len(entries)
            if stacked:  # a list without entries has no type
                attributes["scan_output_directions"] = [1] * len(stacked)
        results = [Value(value.dtype, value.shape) for value in state]
        results += [Value(value.dtype, (entries[0].shape[0], *value.shape)) for value in stacked]
        values = self.builder.call("Scan", [*state, *entries], results, attributes)
        return list(values[: len(state)]), list(values[len(state) :])

    def _loop_over_slices(
        self, body: Any, state: Sequence[Value], entries: Sequence[Value], reverse: bool
    ) -> Tuple[List[Value], List[Value]]:
        """Return the results of `loop_over`, by a Loop that takes each slice by Gather.

        With `reverse`, the loop takes the last slice first.
        """
        if not state and self.offer.opset < 11:  # there, a Loop has a state
            flag = self.scalar(True, dtypes.bool_)
            _, results = self._loop_over_slices(lambda flags, ys: (flags, body([], ys)[1]), [flag], entries, reverse)
            return [], results
        length = self.scalar(self.dim(entries[0], 0), dtypes.int64)
        count, test = Value(dtypes.int64, ()), Value(dtypes.bool_, ())
        states = [Value(value.dtype, value.shape) for value in state]

        def step() -> List[Value]:
            index = self.sub(self.sub(length, self.scalar(1, dtypes.int64)), count) if reverse else count
            following, results = body(states, [self.gather(entry, index, 0) for entry in entries])
            return [test, *following, *results]

        graph = self._graph([count, test, *states], step)
        stacked = graph.outputs[1 + len(state) :]
        results = [Value(value.dtype, value.shape) for value in state]
        results += [Value(value.dtype, (None, *value.shape)) for value in stacked]
        values = self.builder.call("Loop", [length, self.scalar(True, dtypes.bool_), *state], results, {"body": graph})
        ys = [self.reverse(y, [0]) if reverse else y for y in values[len(state) :]]
        return list(values[: len(state)]), ys
