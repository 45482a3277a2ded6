"""The pass contract: constraints on the order, selection by name, reports and bisection."""

from typing import Any, Iterable, List, Sequence, Set

import numpy as np
import pytest
from building import model, node, value

import onnx_compat
from onnx_compat import primitives as p
from onnx_compat import verification
from onnx_compat.errors import ConversionError, InputError, VerificationError
from onnx_compat.execution.prepare import prepare
from onnx_compat.ir.dtypes import float32
from onnx_compat.passes import (
    CORE,
    EVERY,
    VARIABLE,
    Pass,
    ProgramPass,
    Schedule,
    check_names,
    leaving_out,
    recording,
    run_program_passes,
)
from onnx_compat.passes.schedule import left_out
from onnx_compat.reference import Reference
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program
from onnx_compat.verification import verify_model
from onnx_compat.verification.bisection import bisect_passes, bisect_verification
from onnx_compat.verification.oracle import Answer


def make_pass(name: str, after: Sequence[str] = (), before: Sequence[str] = (), legalizes: bool = False) -> Pass:
    return Pass(name, "a => b", lambda region, target: (region, 0), lambda: None, after, before, legalizes)


A, B, C = make_pass("a"), make_pass("b", after=["a"]), make_pass("c", before=["b"])
LAST = make_pass("last", after=[EVERY])


def test_an_order_that_keeps_the_constraints_is_taken() -> None:
    assert Schedule([A, C, B, A, LAST]).distinct == [A, C, B, LAST]
    assert Schedule([C, A, B]).passes == (C, A, B)


@pytest.mark.parametrize(
    ("passes", "first", "second"),
    [([B, A], "a", "b"), ([B], "a", "b"), ([A, B, C], "c", "b"), ([C], "c", "b"), ([A, LAST, C, B], "c", "last"),
     ([A, LAST, A], "a", "last")],
)  # fmt: skip
def test_an_order_that_breaks_a_constraint_is_refused(passes: Iterable[Pass], first: str, second: str) -> None:
    with pytest.raises(ConversionError, match="'%s' without '%s' before it" % (second, first)):
        Schedule(list(passes))


def test_every_declared_constraint_of_the_core_is_checked() -> None:
    for pass_ in CORE.distinct:
        assert all(
            name in {core_pass.name for core_pass in CORE.distinct}
            for name in (*pass_.after, *pass_.before)
            if name != EVERY
        )


def test_names_that_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert left_out() == frozenset()
    monkeypatch.setenv(VARIABLE, " -a, -b,")
    assert left_out() == {"a", "b"}
    assert [pass_.name for pass_ in Schedule([A, C, B]).select()] == ["c"]
    check_names([A, B])
    with pytest.raises(InputError, match=r"^ONNX_COMPAT_PASSES leaves out 'b', which .*\n.*the passes are: a$"):
        check_names([A])
    with pytest.raises(InputError, match=r"^ONNX_COMPAT_PASSES leaves out 'a' and 'b', .*\n.*no passes"):
        check_names([])
    with leaving_out(["c"]), pytest.raises(InputError, match=r"^`leaving_out` leaves out 'c'"):
        check_names([A, B])
    with leaving_out(["c"]):
        assert left_out() == {"c"}
    assert left_out() == {"a", "b"}


@pytest.mark.parametrize("text", ["a", "-a,b", "-"])
def test_a_name_without_a_minus_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(InputError, match="leaves no pass out"):
        left_out()


@pytest.mark.parametrize("pass_", CORE.distinct, ids=lambda pass_: pass_.name)
def test_a_pass_acts_on_its_example_alone_and_keeps_the_results(pass_: Pass) -> None:
    feeds = [np.random.RandomState(0).standard_normal((2, 4)).astype(np.float32)]
    wanted = emit(pass_.example(Reference()).region, Reference(), feeds)
    region, count = pass_.apply(pass_.example(Reference()).region, Reference())
    assert count == 1
    np.testing.assert_allclose(emit(region, Reference(), feeds)[0], wanted[0], rtol=1e-6)
    assert pass_.apply(region, Reference())[1] == 0


def scale_product() -> Any:
    weights, scale = np.ones((4, 3), np.float32), np.arange(1, 4, dtype=np.float32)
    inputs = [value("x", [2, 4])]
    return model([node("MatMul", ["x", "w"], ["a"]), node("Mul", ["a", "s"], ["y"])], inputs, [value("y")],
                 {"w": weights, "s": scale})  # fmt: skip


def test_a_pass_is_counted_and_left_out_where_models_are_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = {"x": np.ones((2, 4), np.float32)}
    with recording() as report:
        prepare(scale_product(), "reference").run(feed)
    assert [(entry.name, entry.rewrites, entry.left_out) for entry in report.entries] == [("weight_folding", 1, False)]
    monkeypatch.setenv(VARIABLE, "-weight_folding")
    with recording() as report:
        prepare(scale_product(), "reference").run(feed)
    assert [(entry.rewrites, entry.left_out) for entry in report.entries] == [(0, True)]
    assert report.to_list()[0]["name"] == "weight_folding"


def test_each_pass_of_a_schedule_gets_the_region_of_the_last_pass() -> None:
    program = record_program(lambda x: [p.mul(x, x)], [Port("x", float32, (2,))], Reference(), ["y"])
    seen: List[Any] = []
    counting_pass = Pass("other", "a => b", lambda region, target: (seen.append(region) or region, 2), lambda: None)
    with recording() as report:
        assert (
            run_program_passes(Schedule([counting_pass, counting_pass]), program.region, Reference()) is program.region
        )
    assert seen == [program.region] * 2
    assert report.entries[0].rewrites == 4


# -- bisection -------------------------------------------------------------------------------------------------------------
PASSES = [make_pass("p%d" % k) for k in range(13)] + [make_pass("legal", legalizes=True)]


def verdicts(wrong: Set[str], passes: Sequence[Pass] = PASSES, needed: Iterable[str] = ()) -> Any:
    def agrees() -> bool:
        running = {pass_.name for pass_ in passes} - left_out()
        return not (running & wrong) and running.issuperset(needed)

    return bisect_passes(passes, agrees)


@pytest.mark.parametrize("name", [pass_.name for pass_ in PASSES])
def test_the_wrong_pass_is_named_wherever_it_runs(name: str) -> None:
    bisection = verdicts({name}, needed=() if name == "legal" else ("legal",))
    assert bisection.culprit == name
    assert bisection.verdict == "the pass '%s' makes the result wrong" % name
    assert len(bisection.trials) <= 7


def test_of_two_wrong_passes_the_first_is_named() -> None:
    bisection = verdicts({"p9", "p4"})
    assert bisection.culprit == "p4"
    assert "a later pass is at fault as well" in bisection.verdict


def test_bisection_without_a_wrong_pass() -> None:
    assert verdicts(set()).culprit is None
    bisection = verdicts(set(), needed=["absent"])
    assert bisection.culprit is None
    assert "no pass is at fault" in bisection.verdict
    assert set(bisection.to_dict()) == {"culprit", "verdict", "trials"}


def test_passes_that_the_user_leaves_out_stay_out() -> None:
    with leaving_out(["p4"]):
        bisection = verdicts({"p9", "p4"})
    assert bisection.culprit == "p9"


def test_a_wrong_program_pass_is_found_where_a_model_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(region: Any, target: Any) -> Any:
        for live in region.live():
            live.args = (live.args[0], *[arg if not hasattr(arg, "array") else type(arg)(arg.array + 1, arg.spec.dtype)
                                         for arg in live.args[1:]])  # fmt: skip
        return region, 1

    def ask(model: Any, fed: Any, oracle: Any, **_: Any) -> Answer:
        return Answer("numpy", [fed["x"] @ np.ones((4, 3), np.float32) * np.arange(1, 4, dtype=np.float32)], [])

    monkeypatch.setattr(verify_model, "run_oracle", ask)
    wrong = Pass("wrong", "a => b", spoil, lambda: None)
    monkeypatch.setattr(CORE, "passes", (*CORE.passes, wrong))
    with leaving_out(["wrong"]):
        assert verification.verify(scale_product(), shim="reference").ok
    assert not verification.verify(scale_product(), shim="reference").ok
    assert bisect_verification(scale_product(), shim="reference").culprit == "wrong"


def test_a_bundle_is_not_bisected(tmp_path: Any) -> None:
    with pytest.raises(InputError, match="is a bundle"):
        bisect_verification(scale_product(), tmp_path / "m.tflite.zip")


def test_a_pass_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(region: Any, target: Any) -> Any:
        raise KeyError("x")

    monkeypatch.setattr(CORE, "passes", (ProgramPass("failing", "f(x) => x", fail, None), *CORE.passes))
    proto = model([node("Neg", ["x"], ["y"])], [value("x", [2])], [value("y", [2])])
    with pytest.raises(VerificationError, match="the pass 'failing' failed with KeyError: 'x'") as caught:
        onnx_compat.run(proto, [np.zeros(2, np.float32)], shim="reference")
    assert caught.value.hint == "ONNX_COMPAT_PASSES=-failing leaves the pass out"
    monkeypatch.setenv(VARIABLE, "-failing")
    onnx_compat.run(proto, [np.zeros(2, np.float32)], shim="reference")
