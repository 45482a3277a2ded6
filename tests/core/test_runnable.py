"""Runnable: when a model is recorded, on which values it is specialised, and where its nodes run."""

import sys
from typing import Dict

import numpy as np
import pytest
from building import INT64, STRING, model, node, value
from limited import install
from onnx import TensorProto, helper

import onnx_compat
from onnx_compat.errors import InputError, NeedsKnownError, OnnxCompatError, ShimError, UnsupportedError
from onnx_compat.execution import plan_cache
from onnx_compat.execution.feeds import InputStructure
from onnx_compat.execution.plan import CompiledPlan, ImmediatePlan, _graph_input_of
from onnx_compat.ir.dtypes import float32
from onnx_compat.reference.shim import SHIM

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def relu_add() -> object:
    return model([node("Relu", ["x"], ["y"]), node("Add", ["y", "x"], ["z"])], [value("x", ["n", 3])], [value("z")])


def test_runs_any_size_that_the_model_leaves_open_without_recording_again() -> None:
    runnable = onnx_compat.prepare(relu_add(), shim="reference")
    before = runnable.native
    np.testing.assert_array_equal(runnable.run([X])[0], X * 2)
    np.testing.assert_array_equal(runnable.run({"x": X[:1]})["z"], X[:1] * 2)
    assert runnable.native is before


def test_outputs_come_in_order_and_by_name() -> None:
    outputs = onnx_compat.run(relu_add(), [X], shim="reference")
    assert outputs.names == ("z",)
    assert list(outputs.as_dict()) == ["z"]
    with pytest.raises(KeyError, match="the outputs are"):
        outputs["nope"]


def test_a_port_belongs_to_the_input_that_holds_it() -> None:
    structures = {"x": InputStructure("sequence"), "y.1": InputStructure("tensor")}
    assert [_graph_input_of(port, structures) for port in ("x", "x.0", "x.0.keys", "y.1")] == ["x", "x", "x", "y.1"]
    for unknown in ("y", "y.2", ".x.0", ""):
        with pytest.raises(KeyError, match="'%s'" % unknown):
            _graph_input_of(unknown, structures)


def test_an_integer_vector_of_known_length_need_not_be_known() -> None:
    nodes = [node("Slice", ["x", "starts", "ends"], ["y"])]
    proto = model(nodes, [value("x", [2, 3]), value("starts", [2], INT64), value("ends", [2], INT64)], [value("y")])
    runnable = onnx_compat.prepare(proto, shim="reference")
    for starts, ends in (([0, 0], [1, 2]), ([-1, 1], [9, 9]), ([0, -2], [2, -1])):
        expected = X[starts[0] : ends[0], starts[1] : ends[1]]
        np.testing.assert_array_equal(runnable.run([X, np.array(starts), np.array(ends)])[0], expected)
    assert len(runnable._plans) == 1


def test_a_plan_is_specialised_on_a_needed_value_and_cached() -> None:
    nodes = [node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)]
    proto = model(nodes, [value("x", ["n", 3]), value("axes", [1], INT64)], [value("y")])
    runnable = onnx_compat.prepare(proto, shim="reference")
    for _ in range(2):
        np.testing.assert_array_equal(runnable.run([X, np.array([0])])[0], X.sum(0))
        np.testing.assert_array_equal(runnable.run([X, np.array([1])])[0], X.sum(1))
    assert len(runnable._plans) == 2


def test_the_plans_that_were_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "MOST_PLANS", 3)
    nodes = [node("SplitToSequence", ["x"], ["s"]), node("ConcatFromSequence", ["s"], ["y"], axis=0)]
    proto = model(nodes, [value("x", ["n"])], [value("y")])
    runnable = onnx_compat.prepare(proto, shim="reference")
    for size in (1, 2, 3, 1, 4, 5, 1):
        assert runnable.run([np.zeros(size, np.float32)])["y"].shape == (size,)
        assert len(runnable._plans) <= 3
    kept = {shape for *_, ((_, shape),) in runnable._plans}
    assert kept == {(4,), (5,), (1,)}


def test_an_immediate_plan_executes_operators() -> None:
    ((z, dtype),) = ImmediatePlan(onnx_compat.load(relu_add()), SHIM.executor).run({"x": (X, float32)})
    np.testing.assert_array_equal(z, X * 2)
    assert dtype == float32


def test_an_input_of_unknown_rank_is_recorded_for_each_rank() -> None:
    proto = model([node("Neg", ["x"], ["y"])], [value("x", None)], [value("y")])
    runnable = onnx_compat.prepare(proto, shim="reference")
    for array in (np.float32(3), X[0], X):
        np.testing.assert_array_equal(runnable.run([array])[0], -array)
    (node_support,) = onnx_compat.support(proto, shim="reference")
    assert node_support.status == "composed" and "only known when the model runs" in node_support.reason
    (node_support,) = onnx_compat.support(proto, shim="reference", shapes={"x": (2, None)})
    assert node_support.status == "composed" and "only known when the model runs" not in node_support.reason


def test_a_node_that_the_shim_cannot_do_runs_in_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    nodes = [node("Relu", ["x"], ["a"]), node("Exp", ["a"], ["b"], name="the_exp"), node("Neg", ["b"], ["y"])]
    proto = model(nodes, [value("x", ["n", 3])], [value("y")])
    runnable = onnx_compat.prepare(proto, shim="limited")
    np.testing.assert_allclose(runnable.run([X])[0], -np.exp(X), rtol=1e-6)
    assert runnable.fallbacks == ["the_exp"]
    statuses = {node_support.operator: node_support.status for node_support in onnx_compat.support(proto, "limited")}
    assert statuses == {"Relu": "composed", "Exp": "fallback", "Neg": "composed"}


def test_a_fallback_can_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    proto = model([node("Exp", ["x"], ["y"], name="the_exp")], [value("x", ["n", 3])], [value("y")])
    with pytest.raises(UnsupportedError, match="no exponential") as caught:
        onnx_compat.prepare(proto, shim="limited", fallback=False)
    assert (caught.value.node, caught.value.operator, caught.value.shim) == ("the_exp", "Exp", "limited")


def test_a_value_from_the_data_is_known_to_the_next_part(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    nodes = [
        node("ReduceMax", ["x"], ["m"], keepdims=0),
        node("Cast", ["m"], ["k"], to=7),
        node("Unsqueeze", ["k", "zero"], ["axes"]),
        node("ReduceSum", ["x", "axes"], ["y"], keepdims=0),
    ]
    proto = model(nodes, [value("x", [200, 50])], [value("y")], {"zero": np.array([0])})
    for axis in (0, 1):
        x = np.zeros((200, 50), np.float32)
        x[3, 4] = axis
        np.testing.assert_array_equal(onnx_compat.run(proto, [x], shim="limited")[0], x.sum(axis))


@pytest.mark.parametrize("failed", [{}, {"the_cast": UnsupportedError("no casts")}])
def test_a_model_with_a_gradient_is_not_cut(failed: Dict[str, OnnxCompatError]) -> None:
    """The sum needs the value of its axes. The derivative needs all nodes before it in its own part."""
    extra = [helper.make_opsetid("ai.onnx.preview.training", 1)]
    nodes = [
        node("Mul", ["x", "x"], ["h"], name="the_product"),
        node("Cast", ["z"], ["axes"], to=INT64, name="the_cast"),
        node("ReduceSum", ["h", "axes"], ["y"], keepdims=0, name="the_sum"),
        node("Gradient", ["x", "z"], ["dx"], "the_gradient", domain=extra[0].domain, xs=["x"], zs=["z"], y="y"),
    ]
    proto = model(nodes, [value("x", [2, 3]), value("z", [1])], [value("dx")], extra_opsets=extra)
    error = NeedsKnownError("the axes must be known")
    plan = onnx_compat.prepare(proto, shim="reference")._partition(failed, {"the_sum"}, error)
    assert plan.fallbacks == ["the_product", "the_cast", "the_sum", "the_gradient"] and len(plan.parts) == 1
    assert plan.reasons == (failed or {"the_sum": error})
    feed = {"x": (X, float32), "z": (np.zeros(1, np.float32), float32)}
    np.testing.assert_array_equal(plan.run(feed)[0][0], 2 * X)
    with pytest.raises(NeedsKnownError):
        onnx_compat.prepare(proto, shim="reference", fallback=False)._partition(failed, {"the_sum"}, error)


def test_two_models_in_a_process_are_independent() -> None:
    def softmax(opset: int) -> object:
        return model([node("Softmax", ["x"], ["y"])], [value("x", [2, 3, 4])], [value("y")], opset=opset)

    x = np.random.RandomState(0).randn(2, 3, 4).astype(np.float32)
    old, new = onnx_compat.prepare(softmax(11), shim="reference"), onnx_compat.prepare(softmax(13), shim="reference")
    for _ in range(2):
        np.testing.assert_allclose(old.run([x])[0].sum((1, 2)), 1, rtol=1e-5)
        np.testing.assert_allclose(new.run([x])[0].sum(2), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        ({"y": X}, "no input named 'y'"),
        ({}, "'x' is not given"),
        ([X, X], "2 inputs were given"),
        ({"x": X.astype(np.float64)}, "is float64, the model takes float32"),
        ({"x": X[0]}, "rank 1"),
        ({"x": X[:, :2]}, "size 2 on axis 1"),
        ({"x": None}, "is None"),
        ({"x": "text"}, "cannot be read"),
        ("x", "a dict by name or a sequence"),
    ],
)
def test_a_wrong_input_is_named(feed: object, message: str) -> None:
    runnable = onnx_compat.prepare(relu_add(), shim="reference")
    with pytest.raises(InputError, match=message):
        runnable.run(feed)
    np.testing.assert_array_equal(runnable.run([X])[0], X * 2)


def test_a_size_name_that_stands_for_two_sizes_warns() -> None:
    proto = model([node("Add", ["a", "b"], ["c"])], [value("a", ["n", 3]), value("b", ["n", 3])], [value("c")])
    with pytest.warns(RuntimeWarning, match="the size 'n' is 2 in the input 'a' and 1 in 'b'"):
        (result,) = onnx_compat.run(proto, [X, X[:1]], shim="reference")
    np.testing.assert_array_equal(result, X + X[:1])


def test_data_never_becomes_part_of_a_program() -> None:
    """The rank of the result depends on the elements of x. `prepare` finds this out before it knows the size of x."""
    same = helper.make_graph([node("Neg", ["x"], ["same"])], "same", [], [value("same")])
    total = helper.make_graph([node("ReduceSum", ["x"], ["total"], keepdims=0)], "total", [], [value("total")])
    nodes = [
        node("ReduceMax", ["x"], ["m"], keepdims=0),
        node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
        node("If", ["c"], ["y"], then_branch=same, else_branch=total),
    ]
    runnable = onnx_compat.prepare(model(nodes, [value("x", ["n"])], [value("y")]), shim="reference")
    for count, kind in ((4096, CompiledPlan), (4097, ImmediatePlan)):
        assert runnable.run([np.ones(count, np.float32)])[0].shape == (count,)
        assert runnable.run([np.zeros(count, np.float32)])[0].shape == ()
        assert isinstance(runnable._latest, kind)


def test_an_unknown_operator_is_named_with_what_to_do() -> None:
    proto = model(
        [node("Frobnicate", ["x"], ["y"], domain="my.domain", name="here")],
        [value("x", [2, 3])],
        [value("y")],
        extra_opsets=[__import__("onnx").helper.make_opsetid("my.domain", 1)],
    )
    with pytest.raises(UnsupportedError, match=r"my\.domain::Frobnicate") as caught:
        onnx_compat.run(proto, [X], shim="reference")
    assert caught.value.node == "here"
    assert caught.value.hint


def test_an_unknown_shim_is_refused_by_name() -> None:
    with pytest.raises(ShimError, match="there is no shim 'nope'"):
        onnx_compat.prepare(relu_add(), shim="nope")


def test_the_environment_variable_selects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNX_COMPAT_SHIM", "reference")
    assert onnx_compat.prepare(relu_add()).shim == "reference"
    (chosen,) = [info for info in onnx_compat.shims() if info.selected]
    assert chosen.name == "reference"


def test_strings_and_sequences_pass_through() -> None:
    nodes = [node("StringNormalizer", ["x"], ["y"], case_change_action="UPPER")]
    proto = model(nodes, [value("x", [2], STRING)], [value("y", None, STRING)])
    assert onnx_compat.run(proto, [np.array(["a", "b"], object)], shim="reference")[0].tolist() == ["A", "B"]
    proto = model([node("SequenceConstruct", ["x", "x"], ["s"])], [value("x", ["n", 3])], [value("s")])
    (sequence,) = onnx_compat.run(proto, [X], shim="reference")
    assert [item.tolist() for item in sequence] == [X.tolist()] * 2


def test_importing_the_package_imports_no_framework_and_no_numpy() -> None:
    import subprocess

    code = "import sys, onnx_compat; print([m for m in ('numpy', 'onnx', 'tensorflow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert done.stdout.decode().strip() == "[]"
