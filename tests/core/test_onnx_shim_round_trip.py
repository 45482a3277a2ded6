"""A program that is written as ONNX, read, and written again gives the same file: no guard and no cast is added."""

from typing import Any, Callable, Dict, List, Sequence

import numpy as np
import pytest
from building import require_opset

import onnx_compat
from matrix.retarget.round_trip_check import Recorder, trace, write
from onnx_compat import primitives as p
from onnx_compat.ir import dtypes
from onnx_compat.ir.dtypes import DType
from onnx_compat.onnx_shim.emission import write_program
from onnx_compat.onnx_shim.emitter import OnnxEmitter
from onnx_compat.onnx_shim.operator_sets import OperatorOffer
from onnx_compat.onnx_shim.signatures import newest_opset
from onnx_compat.ops import arithmetic, indexing, logic, slicing
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import lift

pytest.importorskip("onnxruntime")

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)
WHOLE = np.asarray([7, -7, 9, -128], np.int8)
DIVISORS = np.asarray([2, 2, 0, -1], np.int8)


def ends(*numbers: Any, dtype: Any = np.int64) -> np.ndarray:
    return np.asarray(numbers, dtype)


#: Name -> (function of Tensors, arrays of its inputs, the operators that are written; None: any).
BODIES: Dict[str, Any] = {
    "Gather": (indexing.gather, [ROWS, ends(-1, 0)], ["Gather"]),
    "Gather of a scalar": (lambda x, i: indexing.gather(x, i, axis=1), [ROWS, ends(-2).reshape(())], ["Gather"]),
    "Gather by int32": (indexing.gather, [ROWS, ends(-1, 0, dtype=np.int32)], ["Gather"]),
    "GatherElements": (indexing.gather_elements, [ROWS, ends([-1, 0, 1, 2])], ["GatherElements"]),
    "GatherND": (indexing.gather_nd, [ROWS, ends([-1, -2], [0, 3])], ["GatherND"]),
    "GatherND of batches": (
        lambda x, i: indexing.gather_nd(x, i, batch_dims=1), [ROWS, ends([-1], [0], [3])], ["GatherND"]
    ),
    "ScatterND": (indexing.scatter_nd, [ROWS, ends([-1]), ROWS[:1]], ["ScatterND"]),
    "ScatterND of bools": (
        lambda x, i, u: indexing.scatter_nd(x, i, u, reduction="add"), [ROWS > 5, ends([-1]), ROWS[:1] > 2], None
    ),
    "ScatterElements": (indexing.scatter_elements, [ROWS, ends([-1, 0, 1, 0]), ROWS[:1]], None),
    "Div": (p.div, [WHOLE[:2], DIVISORS[:2]], None),
    "Div by unsafe numbers": (lambda x, y: p.where(p.equal(y, 0), 0, p.div(x, y)), [WHOLE, DIVISORS], None),
    "Div of a constant": (lambda y: p.div(lift(np.int8(64)), y), [DIVISORS[:2]], None),
    "Div of unsigned numbers": (p.div, [ends(7, 9, dtype=np.uint8), ends(2, 4, dtype=np.uint8)], None),
    "Mod": (arithmetic.mod, [WHOLE[:2], DIVISORS[:2]], None),
    "Mod as in C": (lambda x, y: arithmetic.mod(x, y, fmod=1), [WHOLE[:2], DIVISORS[:2]], None),
    "floor division": (p.floordiv, [WHOLE[:2], DIVISORS[:2]], None),
    "Sign": (p.sign, [ends(-2, 0, np.nan, dtype=np.float32)], ["Sign", "IsNaN", "Where"]),
    "BitShift": (
        lambda x, y: logic.bit_shift(x, y, direction="RIGHT"),
        [ends(7, 9, dtype=np.uint8), ends(1, 9, dtype=np.uint8)], None,
    ),
    "Slice": (slicing.slice, [ROWS, ends(1, 2), ends(3, 3)], ["Slice"]),
    "TopK": (lambda x, k: indexing.top_k(x, k)[0], [ROWS, ends(2)], ["TopK", "GatherElements"]),
    "reshapes": (lambda x: p.reshape(p.reshape(x, (4, 3)), (2, 6)) + 1, [ROWS], ["Reshape", "Add"]),
    "a reshape back": (lambda x: p.reshape(p.reshape(x, (4, 3)), (3, 4)) + 1, [ROWS], ["Add"]),
    "a reversal": (lambda x: p.reverse(x, [0]), [ROWS], ["Slice"]),
}  # fmt: skip
#: Carried dtype -> the first operator set with a Cast to it that rounds as the dtype does.
CARRIED = {
    "bfloat16": 13, "float8e4m3fn": 19, "float8e5m2": 19, "float8e8m0": 24, "float4e2m1": 24, "int4": 21, "uint4": 21,
    "int2": 25, "uint2": 25,
}  # fmt: skip


def writings(body: Callable[..., Any], ports: Sequence[Port]) -> List[Any]:
    """Record a function, write its program, and read and write the file twice. Return the three files."""
    shim = Recorder()
    program = record_program(lambda *xs: [body(*xs)], ports, OnnxEmitter(OperatorOffer(newest_opset())))
    protos = [write(program)]
    for _ in range(2):
        protos.append(write(trace(protos[-1].SerializeToString(), shim)))
    return protos


@pytest.mark.parametrize("name", BODIES)
def test_a_program_is_written_as_it_was_read(name: str) -> None:
    body, arrays, expected = BODIES[name]
    names = ["x%d" % k for k in range(len(arrays))]
    ports = [Port(port, DType.of(array.dtype), array.shape) for port, array in zip(names, arrays)]
    first, second, third = writings(body, ports)
    assert second.SerializeToString() == third.SerializeToString()
    assert expected is None or [entry.op_type for entry in second.graph.node] == expected
    assert len(second.graph.node) <= len(first.graph.node)
    results = [onnx_compat.run(proto, dict(zip(names, arrays)), shim="reference")[0] for proto in (first, second)]
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("name", CARRIED)
def test_a_carried_dtype_is_rounded_once(name: str) -> None:
    dtype = DType.of(name)
    require_opset(CARRIED[name])
    first, second, third = writings(lambda x: p.add(x, x), [Port("x", dtype, (3,))])
    assert second.SerializeToString() == third.SerializeToString()
    assert [entry.op_type for entry in second.graph.node] == ["Cast", "Add", "Cast"]
    assert len(first.graph.node) == len(second.graph.node)


class Lacking(OperatorOffer):
    """A target without some operators."""

    def __init__(self, *operators: str) -> None:
        super().__init__(newest_opset())
        self._operators = operators

    def has(self, operator: str, *args: Any, **kwargs: Any) -> bool:
        return operator not in self._operators and super().has(operator, *args, **kwargs)


@pytest.mark.parametrize("name", ["GatherElements", "GatherND", "GatherND of batches", "ScatterND"])
def test_indices_count_from_the_end_also_without_the_operator(name: str) -> None:
    body, arrays, _ = BODIES[name]
    operator = name.partition(" ")[0]
    offer = Lacking(operator)
    ports = [Port("x%d" % k, DType.of(array.dtype), array.shape) for k, array in enumerate(arrays)]
    program = record_program(lambda *xs: [body(*xs)], ports, OnnxEmitter(offer))
    proto = write_program(program, offer=offer)
    assert operator not in [entry.op_type for entry in proto.graph.node]
    feed = {"x%d" % k: array for k, array in enumerate(arrays)}
    expected = onnx_compat.run(write_program(program, newest_opset()), feed, shim="reference")[0]
    np.testing.assert_array_equal(onnx_compat.run(proto, feed, shim="reference")[0], expected)


@pytest.mark.parametrize(
    "index",
    [
        lambda i: p.where(i < 0, i + 4, i),
        lambda i: p.where(i < 1, i + 3, i),
        lambda i: p.where(i < 0, i + 3, i + 0 * i),
        lambda i: p.where(i < 0, i, i + 3),
    ],
    ids=["another length", "another limit", "another number", "other branch"],
)
def test_indices_keep_what_is_no_guard(index: Callable[[Any], Any]) -> None:
    first, _, _ = writings(lambda x, i: p.take(x, index(i), 0), [Port("x", dtypes.float32, (3, 4)), INDICES])
    assert "Where" in [entry.op_type for entry in first.graph.node]


INDICES = Port("i", dtypes.int64, (2,))


def test_operator_sets_before_11_keep_the_guard_of_indices() -> None:
    ports = [Port("x", dtypes.float32, (3, 4)), INDICES]
    program = record_program(lambda x, i: [indexing.gather(x, i)], ports, OnnxEmitter(OperatorOffer(10)))
    lengths = [len(write_program(program, opset).graph.node) for opset in (10, 11)]
    assert lengths[0] > lengths[1] == 1


def test_indices_of_an_open_axis_lose_their_guard() -> None:
    ports = [Port("x", dtypes.float32, ("n", 4)), INDICES]
    first, second, third = writings(indexing.gather, ports)
    assert [entry.op_type for entry in first.graph.node] == ["Gather"]
    assert second.SerializeToString() == third.SerializeToString()


def test_random_numbers_are_rounded_below_1_once() -> None:
    _, second, third = writings(lambda x: p.random_uniform([4], dtypes.float32) + x, [Port("x", dtypes.float32, (4,))])
    assert [entry.op_type for entry in second.graph.node].count("Floor") == 1
    assert second.SerializeToString() == third.SerializeToString()
