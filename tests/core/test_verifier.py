"""The verifier of programs names every kind of defect. Emission refuses a program that was recorded for another target."""

from typing import Any, Callable, List

import numpy as np
import pytest
from channels_last import ChannelsLast

from onnx_compat import primitives as p
from onnx_compat.errors import TargetError, VerificationError
from onnx_compat.ir import Const, Extents, Node, Ref, Region, Spec, Target, is_verifying
from onnx_compat.ir.dims import Dim
from onnx_compat.ir.dtypes import DType, bool_, float32, int64
from onnx_compat.ir.rewriter import Replacement, rewrite_region
from onnx_compat.ir.verifier import verify_program, verify_region
from onnx_compat.ir.window import Window
from onnx_compat.passes.weight_folding import weight_folding
from onnx_compat.primitives import PRIMITIVES
from onnx_compat.primitives.base import RULES
from onnx_compat.reference import Reference
from onnx_compat.reference.shim import SHIM
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Port, Program
from onnx_compat.tracing.recording import record_program

WEIGHTS = np.ones((5, 3, 2, 2), np.float32)
WINDOW = Window.of((2, 2))


def build_program() -> Program:
    """Return a program with a convolution, a softmax, a branch, a loop with a scanned axis, and a data-dependent size."""

    def function(x: Any, n: Any) -> List[Any]:
        y = p.conv(x, WEIGHTS, window=WINDOW)  # [N, 5, 3, 5]
        z = p.softmax(p.transpose(p.matmul(y, np.ones((5, 4), np.float32)), (0, 1, 3, 2)), 2)
        (branch,) = p.cond(p.less(n, 2), lambda: [p.neg(z)], lambda: [z])
        rows = p.scan(lambda s, row: [p.add(s, row), row], [np.zeros((5, 4, 3), np.float32)], [z], z.shape[0])
        halves = p.concat([p.reduce_sum(branch, [0, 1, 2]), np.ones(3, np.float32)], 0)
        (final,) = p.while_loop(lambda v: p.less(p.reduce_sum(v), 9.0), lambda v: [p.mul(v, 2.0)], [halves])
        return [final, *rows, p.nonzero(x), p.reshape(x, (x.shape[0], -1))]

    return record_program(function, [Port("x", float32, ("N", 3, 4, 6)), Port("n", int64, ())], Reference())


def nodes_of(region: Region) -> List[Node]:
    return [
        node
        for outer_node in region.live()
        for node in [outer_node, *(n for inner in outer_node.regions for n in nodes_of(inner))]
    ]


def first(program: Program, primitive: str) -> Node:
    return next(node for node in nodes_of(program.region) if node.primitive == primitive)


def set_type(node: Node, dtype: DType, *shape: Any) -> None:
    node.outputs[0].spec = Spec(dtype, shape or node.outputs[0].spec.shape)


def use_before_definition(program: Program) -> None:
    program.region.replace(program.region.live()[::-1])


def use_of_a_value_of_nowhere(program: Program) -> None:
    first(program, "matmul").args = (Ref(Spec(float32, (1, 5, 3, 5))), *first(program, "matmul").args[1:])


def a_result_of_another_dtype(program: Program) -> None:
    set_type(first(program, "softmax"), DType.of("float16"))


def a_result_of_another_size(program: Program) -> None:
    set_type(first(program, "softmax"), float32, 1, 5, 4, 3)


def a_result_of_another_rank(program: Program) -> None:
    set_type(first(program, "reduce_sum"), float32, 1, 3)


def a_known_size_that_only_the_run_decides(program: Program) -> None:
    set_type(first(program, "nonzero"), int64, 4, 7)


def an_open_size_of_another_value(program: Program) -> None:
    node = first(program, "nonzero")
    set_type(node, int64, 4, Dim.atom("axis", Ref(Spec(float32, (1,))), 0))


def an_axis_out_of_range(program: Program) -> None:
    first(program, "softmax").params = {"axis": 4}


def a_negative_axis(program: Program) -> None:
    first(program, "softmax").params = {"axis": -1}


def axes_that_repeat(program: Program) -> None:
    first(program, "reduce_sum").params = {"axes": (0, 0, 2), "keepdims": False}


def a_permutation_that_repeats_an_axis(program: Program) -> None:
    first(program, "transpose").params = {"perm": (0, 1, 3, 3)}


def a_capture_that_is_not_in_scope(program: Program) -> None:
    inner = nodes_of(first(program, "scan").regions[0])[0]
    first(program, "neg").args = (inner.outputs[0],)


def a_branch_that_takes_a_value(program: Program) -> None:
    node = first(program, "cond")
    node.regions[0].inputs = (Ref(Spec(float32, ())),)


def branches_of_different_arity(program: Program) -> None:
    region = first(program, "cond").regions[0]
    region.outputs = region.outputs * 2


def a_state_that_changes_its_dtype(program: Program) -> None:
    first(program, "while_loop").regions[1].outputs = (Const(np.zeros((), np.int64), int64),)


def a_condition_that_is_no_truth_value(program: Program) -> None:
    loop = first(program, "while_loop")
    loop.regions[0].outputs = (loop.regions[0].inputs[0],)


def a_scan_that_takes_too_little(program: Program) -> None:
    region = first(program, "scan").regions[0]
    region.inputs = region.inputs + (Ref(Spec(float32, ())),)


def a_value_that_names_another_producer(program: Program) -> None:
    first(program, "softmax").outputs[0].node = first(program, "conv")


def a_value_of_two_producers(program: Program) -> None:
    program.region.replace([*program.region.live(), first(program, "nonzero")])


def an_output_that_nothing_produces(program: Program) -> None:
    program.region.outputs = (Ref(program.region.outputs[0].spec), *program.region.outputs[1:])  # type: ignore[union-attr]


def an_output_that_is_no_value(program: Program) -> None:
    program.region.outputs = (None, *program.region.outputs[1:])


def a_result_too_many(program: Program) -> None:
    node = first(program, "softmax")
    node.outputs = (*node.outputs, Ref(node.outputs[0].spec, node))


def operands_of_two_dtypes(program: Program) -> None:
    node = first(program, "mul")
    node.args = (node.args[0], Const(np.array(2, np.int64), int64))


def an_operand_of_a_kind_that_is_not_defined(program: Program) -> None:
    first(program, "softmax").args = (Const(np.ones((1, 5, 4, 3), bool), bool_),)


def a_constant_whose_array_has_another_type(program: Program) -> None:
    node = first(program, "matmul")
    weights = Const(np.ones((5, 4), np.float64), float32)
    node.args = (node.args[0], weights)


def a_product_of_matrices_that_do_not_fit(program: Program) -> None:
    node = first(program, "matmul")
    node.args = (node.args[0], Const(np.ones((4, 4), np.float32), float32))


def a_filter_of_other_channels(program: Program) -> None:
    node = first(program, "conv")
    node.args = (node.args[0], Const(np.ones((5, 2, 2, 2), np.float32), float32))


def a_kernel_of_another_size_than_the_filter(program: Program) -> None:
    node = first(program, "conv")
    node.params = dict(node.params, window=WINDOW._replace(kernel=(3, 2)))


def a_reshape_to_other_elements(program: Program) -> None:
    node = first(program, "reshape")
    node.args = (Const(np.zeros((2, 3), np.float32), float32), Extents((2, 72)))
    set_type(node, float32, 2, 72)


def a_missing_parameter(program: Program) -> None:
    first(program, "softmax").params = {}


def another_target(program: Program) -> None:
    program.region.target = Target("channels_last", "HWIO")


DEFECTS = [
    (use_before_definition, "not defined before it"),
    (use_of_a_value_of_nowhere, "not defined before it"),
    (a_result_of_another_dtype, "by its rule"),
    (a_result_of_another_size, "by its rule"),
    (a_result_of_another_rank, "by its rule"),
    (a_known_size_that_only_the_run_decides, "by its rule"),
    (an_open_size_of_another_value, "not in scope"),
    (an_axis_out_of_range, "out of range for the rank 4"),
    (a_negative_axis, "out of range for the rank 4"),
    (axes_that_repeat, "repeat"),
    (a_permutation_that_repeats_an_axis, "no permutation of 4 axes"),
    (a_capture_that_is_not_in_scope, "not in scope"),
    (a_branch_that_takes_a_value, "take \\[1, 0\\] values"),
    (branches_of_different_arity, "its branches give 2 and 1 values"),
    (a_state_that_changes_its_dtype, "leave its body"),
    (a_condition_that_is_no_truth_value, "its condition is float32"),
    (a_scan_that_takes_too_little, "take \\[3\\] values, not \\[2\\]"),
    (a_value_that_names_another_producer, "not its producer, but conv"),
    (a_value_of_two_producers, "defined a second time"),
    (an_output_that_nothing_produces, "not defined before it"),
    (an_output_that_is_no_value, "is no value"),
    (a_result_too_many, "2 results; by its rule there are 1"),
    (operands_of_two_dtypes, "operands have the dtypes"),
    (an_operand_of_a_kind_that_is_not_defined, "not defined for bool"),
    (a_constant_whose_array_has_another_type, "holds an array float64"),
    (a_product_of_matrices_that_do_not_fit, "inner sizes are 5 and 4"),
    (a_filter_of_other_channels, "a filter of 2 channels for 3"),
    (a_kernel_of_another_size_than_the_filter, "a filter of the sizes"),
    (a_reshape_to_other_elements, "6 elements are reshaped to 144"),
    (a_missing_parameter, "its rule fails: KeyError"),
    (another_target, "its rule fails|a filter of|by its rule"),
]


def test_a_sound_program_is_accepted() -> None:
    verify_program(build_program())


@pytest.mark.parametrize(("break_program", "defect"), DEFECTS, ids=[value.__name__ for value, _ in DEFECTS])
def test_a_defect_is_refused(break_program: Callable[[Program], None], defect: str) -> None:
    program = build_program()
    break_program(program)
    with pytest.raises(VerificationError, match=defect):
        verify_program(program)


def test_ports_are_those_of_the_region() -> None:
    program = build_program()
    port = program.inputs[0]
    for wrong in (port._replace(dtype=int64), port._replace(shape=("N", 3, 4)), port._replace(shape=("N", 3, 4, 5))):
        with pytest.raises(VerificationError, match="input 'x'"):
            verify_program(program._replace(inputs=(wrong, *program.inputs[1:])))
    with pytest.raises(VerificationError, match="1 input ports for 2 values"):
        verify_program(program._replace(inputs=program.inputs[:1]))


def test_a_defect_names_the_line_and_the_node() -> None:
    program = build_program()
    an_axis_out_of_range(program)
    with pytest.raises(VerificationError, match=r"in: %\d+: .* = softmax\(%\d+\) \{axis=4\}"):
        verify_program(program)


def test_every_primitive_has_a_rule() -> None:
    assert set(PRIMITIVES) <= set(RULES)


# -- where it runs -----------------------------------------------------------------------------------------------------
def test_a_program_is_verified_before_it_is_emitted(monkeypatch: pytest.MonkeyPatch) -> None:
    program = record_program(lambda x: [p.softmax(x, 1)], [Port("x", float32, (2, 3))], Reference())
    set_type(first(program, "softmax"), float32, 3, 2)
    compiled = SHIM.compile(program)
    with pytest.raises(VerificationError):
        compiled.run([np.zeros((2, 3), np.float32)])
    monkeypatch.setenv("ONNX_COMPAT_VERIFY", "0")
    assert not is_verifying()
    assert compiled.run([np.zeros((2, 3), np.float32)])[0].shape == (2, 3)


def test_a_trace_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    types = [Spec(float32, (2,)), Spec(float32, (3,))]
    monkeypatch.setitem(RULES, "softmax", lambda _: [types.pop(0)])
    with pytest.raises(VerificationError, match="by its rule"):
        record_program(lambda x: [p.softmax(x, 0)], [Port("x", float32, (2,))], Reference())


# -- targets -----------------------------------------------------------------------------------------------------------
def convolution(emitter: Any) -> Program:
    return record_program(lambda x: [p.conv(x, WEIGHTS, window=WINDOW)], [Port("x", float32, (1, 3, 4, 6))], emitter)


def test_a_program_of_another_target_is_refused() -> None:
    x = np.ones((1, 3, 4, 6), np.float32)
    program = convolution(ChannelsLast())
    assert program.target == ChannelsLast().target == Target("channels_last", "HWIO")
    with pytest.raises(
        TargetError, match="channels_last, filters HWIO; this emitter needs channels_first, filters OIHW"
    ):
        SHIM.compile(program)
    with pytest.raises(TargetError):
        emit(program.region, Reference(), [x])
    emit(convolution(Reference()).region, Reference(), [x])


def test_integers_are_a_target_of_their_own() -> None:
    class Integers(Reference):
        integers = True

    with pytest.raises(TargetError, match="integers"):
        emit(convolution(Integers()).region, Reference(), [np.ones((1, 3, 4, 6), np.float32)])


# -- rewrites ----------------------------------------------------------------------------------------------------------
def test_a_rewrite_keeps_the_program_and_all_producers() -> None:
    def function(x: Any, q: Any) -> List[Any]:
        message = p.take(x, p.reshape(p.nonzero(p.neg(q)), (-1,)), 0)
        (y,) = p.cond(p.less(message.shape[0], 5), lambda: [p.neg(message)], lambda: [p.add(message, message)])
        return [p.neg(p.neg(y)), p.broadcast_to(np.float32(1), [message.shape[0] + 1])]

    program = record_program(function, [Port("x", float32, ("n", 2)), Port("q", float32, (None,))], Reference())
    before = str(program)

    def double(node: Node) -> Any:
        return (
            Replacement("mul", [node.args[0], Const(np.float32([-1]), float32)], {})
            if node.primitive == "neg"
            else None
        )

    copy, count = rewrite_region(program.region, double)
    assert count == 3
    assert copy is not program.region and copy.target == program.target and str(program) == before
    for region in (program.region, copy):
        verify_region(region)
    feeds = [np.arange(12, dtype=np.float32).reshape(6, 2), np.float32([0, 2, 0, 3])]
    for left, right in zip(emit(program.region, Reference(), feeds), emit(copy, Reference(), feeds)):
        np.testing.assert_array_equal(left, right)
    assert [node.primitive for node in copy.live()].count("mul") == 3
    inner = next(node for node in copy.live() if node.primitive == "cond").regions[0]
    assert [node.primitive for node in inner.live()] == ["neg"]  # a region inside stays
    assert rewrite_region(program.region, lambda _: None) == (program.region, 0)


@pytest.mark.parametrize("primitive", ["avg_pool", "conv_transpose"])
def test_padding_where_the_primitive_has_none_is_refused(primitive: str) -> None:
    def function(x: Any) -> List[Any]:
        return [
            p.avg_pool(x, WINDOW)
            if primitive == "avg_pool"
            else p.conv_transpose(x, np.swapaxes(WEIGHTS, 0, 1), window=WINDOW)
        ]

    program = record_program(function, [Port("x", float32, (1, 3, 4, 6))], Reference())
    first(program, primitive).params["window"] = WINDOW._replace(pads=((1, 0), (0, 0)))
    with pytest.raises(VerificationError, match="its window has the padding"):
        verify_program(program)


def test_no_size_contains_a_dropped_value() -> None:
    """A slice of a convolution with symbolic sizes has a size of its own, which the sum after it also has."""

    def function(x: Any) -> List[Any]:
        y = p.conv(x, WEIGHTS, window=Window.of((2, 2), pads=[(1, 1), (0, 0)]))
        y = p.slice(y, [0, 0, 1, 0], [None, 5, -1, 4], [1, 1, 1, 2])
        return [p.relu(p.add(p.mul(y, 2.0), 1.0))]

    program = record_program(function, [Port("x", float32, (None, 3, None, None))], Reference())
    x = np.random.RandomState(0).standard_normal((2, 3, 5, 7)).astype(np.float32)
    wanted = emit(program.region, Reference(), [x])
    weight_folding.apply(program.region, Reference())
    assert [node.primitive for node in program.region.live()] == ["conv", "slice", "clip"]
    verify_program(program)
    np.testing.assert_allclose(emit(program.region, Reference(), [x])[0], wanted[0], rtol=1e-5)
