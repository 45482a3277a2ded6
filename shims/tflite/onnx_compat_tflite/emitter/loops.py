"""Loops as WHILE over two subgraphs, a test and a body."""

from typing import Any, Callable, List, Sequence, Tuple, Union

import numpy as np

from onnx_compat_tflite.emitter import joining, slicing, subgraph_inputs
from onnx_compat_tflite.emitter.builder import Bodies, Builder
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["loop", "while_loop"]

#: A state without elements in a loop: the constant that it stays; or the axis along which it grows, and a first row
#: that keeps it from being empty; or None for a state with elements.
EmptyState = Union[Handle, Tuple[int, Handle], None]


@primitive
def while_loop(builder: Builder, *state: Handle, bodies: Bodies, captures: Sequence[Handle]) -> Tuple[Handle, ...]:
    """Emit WHILE: run `bodies[1]` on the states while `bodies[0]` returns true; return the final states.

    Both bodies take the states and then the captures, each as a separate argument. `bodies[0]` returns a sequence with
    the condition, a tensor of one element. The condition is tested before the first iteration.
    """
    shapes = [tuple(ref.spec.shape) for ref in builder.node.outputs]

    def test(inner: Sequence[Handle], outside: Sequence[Handle]) -> Handle:
        return subgraph_inputs.to_scalar_bool(builder, bodies[0](*inner, *outside)[0])

    def body(inner: Sequence[Handle], outside: Sequence[Handle]) -> Sequence[Handle]:
        return bodies[1](*inner, *outside)

    return tuple(loop(builder, test, body, state, captures, shapes))


def loop(
    builder: Builder,
    test: Callable[..., Handle],
    body: Callable[..., Sequence[Handle]],
    state: Sequence[Handle],
    captures: Sequence[Handle],
    shapes: Sequence[Sequence[Any]],
) -> List[Handle]:
    """Append WHILE over the states and the captures; return the list of final states. The captures do not change.

    - `test(states, captures)` takes two lists and returns a boolean scalar: whether to run another iteration.
    - `body(states, captures)` takes two lists and returns the next states.
    - `shapes` has the sizes of each state in all iterations. A size that changes is None or symbolic.

    No runtime passes a tensor without elements through a loop. So a state that stays empty is not passed, and a state
    that is empty at first is passed with an additional first row.
    """
    empty_states = [_empty_state(handle, dims) for handle, dims in zip(state, shapes)]
    if any(empty_state is not None for empty_state in empty_states):
        return _loop_with_empty_states(builder, empty_states, test, body, state, captures, shapes)
    fixed = subgraph_inputs.non_constants(captures)
    start = [Handle(handle.dtype, dims) for handle, dims in zip(state, shapes)]
    numbers = []
    for name in ("test", "body"):
        with builder.subgraph(name) as (number, graph):
            inner = subgraph_inputs.inner_handles(graph, [*start, *captures])
            values, outside = inner[: len(state)], inner[len(state) :]
            if name == "test":
                graph.finish([test(values, outside)], [None])
            else:
                graph.finish(
                    [*body(values, outside), *subgraph_inputs.non_constants(outside)],
                    [None] * (len(state) + len(fixed)),
                )
            numbers.append(number)
    results = [(handle.dtype, handle.dims) for handle in [*start, *fixed]]
    options = {"cond_subgraph_index": numbers[0], "body_subgraph_index": numbers[1]}
    return builder.add_ops("WHILE", [*state, *fixed], results, **options)[: len(state)]


def _loop_with_empty_states(
    builder: Builder,
    empty_states: Sequence[EmptyState],
    test: Callable[..., Handle],
    body: Callable[..., Sequence[Handle]],
    state: Sequence[Handle],
    captures: Sequence[Handle],
    shapes: Sequence[Sequence[Any]],
) -> List[Handle]:
    """Append WHILE over states of which some are empty at first; return the list of all final states.

    `empty_states` has the result of `_empty_state` for each state. All other arguments are those of `loop`, and `loop`
    appends the WHILE.

    - A state that stays empty (a handle) is not passed through the loop.
    - An empty state that grows (a tuple) is passed with an additional first row. `test`, `body` and the caller do not
      see this row.
    - Any other state (None) is passed unchanged.
    """
    passed_indices = [k for k, empty_state in enumerate(empty_states) if not isinstance(empty_state, Handle)]

    def restore_states(inner: Sequence[Handle]) -> List[Handle]:
        remaining = iter(inner)
        states = [empty_state if isinstance(empty_state, Handle) else next(remaining) for empty_state in empty_states]
        return [
            _drop_first(builder, x, empty_state[0]) if isinstance(empty_state, tuple) else x
            for x, empty_state in zip(states, empty_states)
        ]

    def prepend_first_rows(states: Sequence[Handle]) -> List[Handle]:
        passed = [(states[k], empty_states[k]) for k in passed_indices]
        return [_prepend(builder, x, *empty) if isinstance(empty, tuple) else x for x, empty in passed]

    def inner_test(inner: Sequence[Handle], outside: Sequence[Handle]) -> Handle:
        return test(restore_states(inner), outside)

    def inner_body(inner: Sequence[Handle], outside: Sequence[Handle]) -> Sequence[Handle]:
        return prepend_first_rows(body(restore_states(inner), outside))

    return restore_states(
        loop(builder, inner_test, inner_body, prepend_first_rows(state), captures, [shapes[k] for k in passed_indices])
    )


def _drop_first(builder: Builder, x: Handle, axis: int) -> Handle:
    """Return x without its first slice along `axis`. The length of x along this axis is unknown."""
    begin = [1 if k == axis else 0 for k in range(x.rank)]
    return slicing.add_strided_slice(
        builder, x, builder.ints(*begin), builder.ints(*[2**31 - 1] * x.rank), [1] * x.rank, x.dims
    )


def _prepend(builder: Builder, x: Handle, axis: int, first: Handle) -> Handle:
    """Return the concatenation of `first`, of length 1 along `axis`, and x along this axis."""
    result: Handle = joining.concatenate(builder, first, [x], axis)
    return result


def _empty_state(handle: Handle, dims: Sequence[Any]) -> EmptyState:
    """Return how a loop must pass a state without elements, or None to pass the state unchanged.

    `handle` is the initial value of the state; `dims` are the sizes of the state in all iterations.

    - If all sizes are ints and a size is 0, returns a constant without elements.
    - If exactly one size is no int, no size is 0, and `handle` is empty and not of strings, returns a tuple: the axis
      of the unknown size, and a constant of zeros with the length 1 along this axis.
    - Otherwise returns None.
    """
    open_axes = [axis for axis, size in enumerate(dims) if not isinstance(size, int)]
    if 0 in [size for size in dims if isinstance(size, int)]:
        return None if open_axes else Handle.of(np.zeros(dims, object if handle.dtype == "string" else handle.dtype))
    if len(open_axes) != 1 or not handle.is_empty or handle.dtype == "string":
        return None
    sizes = [1 if axis == open_axes[0] else size for axis, size in enumerate(dims)]
    return open_axes[0], Handle.of(np.zeros(sizes, handle.dtype))
