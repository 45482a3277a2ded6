"""Loop-invariant states leave the loop, with the results of the reference."""

from typing import Any, List

import numpy as np
from onnx_compat_tflite import features
from onnx_compat_tflite.build import build
from programs import check_program, program

from matrix.harness.generators import per_test
from onnx_compat import primitives as p
from onnx_compat.ops.recurrent import lstm

RANDOM = per_test(np.random.RandomState(0))


def states(function: Any, *shapes: Any, fed: Any) -> List[int]:
    """Return the number of states of each loop of a program. Assert that the results equal the reference."""
    check_program(function, *shapes, fed=fed, atol=1e-4)
    graphs = build(program(function, *shapes), features.kernels()).subgraphs
    return [len(op.inputs) for graph in graphs for op in graph.operators if op.builtin == "WHILE"]


def test_inputs_of_a_loop_are_no_states() -> None:
    """The sizes of the input are known in the loop from an earlier product, so the input itself is no state."""
    w, r, b = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((1, 32, 5), (1, 32, 8), (1, 64)))
    result = states(lambda x: lstm(x, w, r, b)[0], (None, None, 5), fed=[(7, 3, 5)])
    assert set(result) == {6}  # the round, both states, the results, the length, the products


def loop(last: int, *kept: int) -> Any:
    """Return a function with a loop of four states. `kept`: the states whose last values are read after the loop."""

    def function(x: Any) -> Any:
        def body(count: Any, y: Any, z: Any, unread: Any) -> Any:
            return [p.add(count, 1.0), p.add(y, z), z, p.mul(unread, y)]

        start = [p.reduce_sum(p.mul(x, 0.0)), x, p.mul(x, 0.5), x]
        after = p.while_loop(lambda count, *_: p.less(count, float(last)), body, start)
        return p.concat([p.reshape(after[k], (-1,)) for k in kept], 0)

    return function


def test_unused_states_are_removed() -> None:
    assert states(loop(3, 1), (2, 3), fed=[(2, 3)]) == [3]
    assert states(loop(3, 3), (2, 3), fed=[(2, 3)]) == [4]
    assert states(loop(3, 2), (2, 3), fed=[(2, 3)]) == [2]  # the loop returns it, and it is read
    assert states(loop(3, 0), (None, 3), fed=[(2, 3)]) == [1]  # what it counts tells when it ends
    assert states(loop(0, 1, 2, 3), (None, 3), fed=[(2, 3)]) == [4]


def test_a_loop_in_a_loop() -> None:
    def nest(x: Any) -> Any:
        def outer(count: Any, y: Any, z: Any) -> Any:
            inner = p.while_loop(
                lambda k, *_: p.less(k, 2.0),
                lambda k, v, w: [p.add(k, 1.0), p.add(v, 1.0), w],
                [p.mul(count, 0.0), y, z],
            )
            return [p.add(count, 1.0), inner[1], z]

        start = [p.reduce_sum(p.mul(x, 0.0)), x, p.mul(x, 0.5)]
        return p.while_loop(lambda count, *_: p.less(count, 3.0), outer, start)[1]

    assert states(nest, (2, 3), fed=[(2, 3)]) == [2, 2]
