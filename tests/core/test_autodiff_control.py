"""Derivatives of branches, loops and derivatives, compared with finite differences."""

import numpy as np
import pytest
from finite_differences import check, check_second_order, derivatives, evaluate

from onnx_compat import autodiff
from onnx_compat import primitives as p
from onnx_compat.errors import UnsupportedError
from onnx_compat.ir import dtypes
from onnx_compat.reference import Reference
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import lift


def branch(x, y):
    """Choose by a run-time condition: only one branch reads y."""
    return p.cond(p.less(p.reduce_sum(x), 100), lambda: [p.mul(x, p.sin(y))], lambda: [x])[0]


def other_branch(x, y):
    return p.cond(p.less(p.reduce_sum(x), 0), lambda: [p.mul(x, p.sin(y))], lambda: [p.mul(x, x)])[0]


def recurrence(reverse):
    """A recurrence with rows: h = tanh(h * w + x), which also yields h * h, and counts in an integer."""

    def function(h, x, w):
        def body(state, count, row):
            state = p.tanh(p.add(p.mul(state, w), row))
            return [state, p.add(count, 1), p.mul(state, p.cast(count, dtypes.float64))]

        final, _, rows = p.scan(body, [h, lift(2)], [x], x.shape[0], reverse)
        return p.concat([rows, p.unsqueeze(final, [0])], 0)

    return function


def repeat_sine(x, w):
    """A loop whose number of iterations depends on values: x = sin(x * w) until the sum is small."""

    def proceeds(k, state):
        return p.logical_and(p.less(k, 9), p.less(0.5, p.reduce_sum(state)))

    return p.while_loop(proceeds, lambda k, state: [p.add(k, 1), p.sin(p.mul(state, w))], [lift(0), x])[1]


def of_no_iteration(x, w):
    return p.while_loop(lambda s: p.less(p.reduce_sum(s), -1), lambda s: [p.mul(s, w)], [x])[0]


def of_nested_loops(x, w):
    """A loop in a branch in a loop."""

    def body(state, row):
        inner = p.cond(
            p.less(p.reduce_sum(state), 100),
            lambda: [p.scan(lambda s, r: [p.mul(s, p.cos(r))], [state], [x], x.shape[0])[0]],
            lambda: [state],
        )[0]
        return [p.add(p.mul(inner, w), row), inner]

    return p.scan(body, [w], [x], x.shape[0])[1]


def of_a_derivative(x, w):
    """The derivative of a function that captures w, as the primitive `gradient`."""
    return p.gradient(lambda x: p.mul(p.sin(x), p.mul(w, x)), [x])[0]


CONTROL = {
    "branch": (branch, [(3,), (3,)]),
    "other branch": (other_branch, [(3,), (3,)]),
    "scan": (recurrence(False), [(2,), (5, 2), (2,)]),
    "scan in reverse": (recurrence(True), [(2,), (5, 2), (2,)]),
    "while loop": (repeat_sine, [(2,), (2,)]),
    "while loop of no iteration": (of_no_iteration, [(2,), (2,)]),
    "nested loops": (of_nested_loops, [(3, 2), (2,)]),
    "derivative": (of_a_derivative, [(3,), (3,)]),
}


@pytest.mark.parametrize("name", sorted(CONTROL))
def test_control_flow(name):
    function, shapes = CONTROL[name]
    check(function, *shapes)


@pytest.mark.parametrize("name", sorted(CONTROL))
def test_second_order_of_control_flow(name):
    function, shapes = CONTROL[name]
    check_second_order(function, *shapes)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [3, 4, 7, 9])
def test_a_loop_keeps_as_many_states_as_chosen(length, reverse):
    """The derivative stays; the loops that keep states have no more iterations than the choice allows."""
    with autodiff.choose(kept_states=2):
        check(recurrence(reverse), (2,), (length, 2), (2,))

        def derive(h, x, w):
            variables = [autodiff.variable(v) for v in (h, x, w)]
            return autodiff.gradients(recurrence(reverse)(*variables), variables)

        ports = [Port(name, dtypes.float64, shape) for name, shape in (("h", (2,)), ("x", (length, 2)), ("w", (2,)))]
        region = record_program(derive, ports, Reference()).region
    backward = [node.args[2].dims[0] for node in region.live() if node.primitive == "scan" and node.params["reverse"]]
    assert max(backward, default=1) <= max(2, length * reverse)


def test_a_loop_that_changes_a_size_has_no_derivative():
    def function(x):
        return p.while_loop(lambda k, y: p.less(k, 3), lambda k, y: [p.add(k, 1), p.concat([y, x], 0)], [lift(0), x])[1]

    with pytest.raises(UnsupportedError, match="changes the size of a state"):
        derivatives(function, [1.0, 2.0])


def test_a_derivative_of_a_derivative_by_the_operator():
    arrays = [np.array([0.5, 2.0])]

    def cube(x):
        return p.mul(x, p.mul(x, x))

    def second(x):
        return p.gradient(lambda x: p.gradient(cube, [x])[0], [x])

    (result,) = evaluate(second, arrays)
    np.testing.assert_allclose(result, 6 * arrays[0])
