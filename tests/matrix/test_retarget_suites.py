"""Test suites of other converters with ours in place: the plugin, the report, and the declared exceptions."""

from __future__ import annotations

import argparse
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any, List

import pytest

from matrix.retarget import suites
from matrix.retarget.exceptions import FORM, MORE, Reason, load_exceptions
from matrix.retarget.suites import SUITES, Outcome, SourceError, judge, read_report, run_suite

TESTS = """
import onnx
import pytest
from onnx import TensorProto, helper, version_converter


class TestConverter:
    def model(self, operator, opset):
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
        graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "g", ports[:1], ports[1:])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)

    def test_mish_is_composed(self):
        # The converter of onnx refuses it.
        converted = version_converter.convert_version(self.model("Mish", 18), 11)
        onnx.checker.check_model(converted)
        assert "Mish" not in [node.op_type for node in converted.graph.node]

    def test_errors_are_those_of_onnx(self):
        with pytest.raises(RuntimeError):
            version_converter.convert_version(self.model("Relu", 14), 99)
        with pytest.raises(TypeError):
            version_converter.convert_version(b"", 14)

    @pytest.mark.xfail(strict=True, reason="not by theirs")
    def test_theirs_fails(self):
        self.test_mish_is_composed()

    @pytest.mark.xfail(reason="to be done")
    def test_theirs_is_to_be_done(self):
        raise AssertionError

    def test_that_fails(self):
        assert version_converter.convert_version(self.model("Relu", 14), 11) is None
"""


def test_a_suite_runs_with_ours_in_place(tmp_path: Path) -> None:
    (tmp_path / "some_test.py").write_text(TESTS, encoding="utf-8")
    outcomes = run_suite(tmp_path, "some_test.py")
    assert {name: outcome.passed for name, outcome in outcomes.items()} == {
        "TestConverter::test_mish_is_composed": True,
        "TestConverter::test_errors_are_those_of_onnx": True,
        "TestConverter::test_theirs_fails": True,
        "TestConverter::test_theirs_is_to_be_done": True,
        "TestConverter::test_that_fails": False,
    }
    with pytest.raises(SourceError, match=r"there is no other_test\.py"):
        run_suite(tmp_path, "other_test.py")


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        ("not installed", "onnx is not installed here; --onnx names a source tree"),
        ("no archive", "onnx 1.2.3 could not be downloaded: no sdist came"),
        ("damaged archive", "onnx-1.2.3.tar.gz cannot be unpacked"),
        ("too slow", "pytest did not end in 900 seconds"),
        ("killed", "the report of pytest is damaged"),
    ],
)
def test_a_suite_that_cannot_be_run_is_a_miss(
    cause: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some_test.py").write_text(TESTS, encoding="utf-8")

    def version(project: str) -> str:
        if cause == "not installed":
            raise metadata.PackageNotFoundError(project)
        return "1.2.3"

    def run(command: List[str], **options: Any) -> Any:
        if cause == "too slow":
            raise subprocess.TimeoutExpired(command, options["timeout"])
        for argument in command:
            name, _, value = argument.partition("=")
            if name == "--junitxml":
                Path(value).write_text("<testsuite>", encoding="utf-8")
            if name == "--dest" and cause == "damaged archive":
                (Path(value) / "onnx-1.2.3.tar.gz").write_bytes(b"nothing")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(suites.metadata, "version", version)
    monkeypatch.setattr(suites.subprocess, "run", run)
    monkeypatch.setattr(suites, "SUITES", (suites.Suite("onnx", "some_test.py"),))
    tree = tmp_path if cause in ("too slow", "killed") else None
    result = suites.measure(argparse.Namespace(onnx=tree, onnxscript=None))
    assert result.entries == {}
    (miss,) = result.misses
    assert miss.startswith("some_test.py: not measured: " + text)


def test_tests_that_are_skipped_do_not_pass() -> None:
    report = '<testsuite><testcase classname="a.B" name="c"><skipped message="no"/></testcase></testsuite>'
    assert read_report(report) == {"B::c": Outcome(False, "skipped: no")}


def test_failures_need_an_exception_and_exceptions_a_failure() -> None:
    outcomes = {**{"T::%d" % k: Outcome(True) for k in range(100)}, "T::a": Outcome(False, "because")}
    reason = Reason(FORM, "it counts nodes")
    entry, misses = judge("s", outcomes, {"s": {"T::a": reason}, "other": {"T::0": reason}})
    assert (entry, misses) == ({"tests": 101, "passed": 100, "more": 0}, [])
    assert judge("s", outcomes, {})[1] == ["s: T::a fails: because"]
    declared = {"s": {"T::a": reason, "T::1": reason}}
    assert judge("s", outcomes, declared)[1] == ["s: T::1 is declared as an exception, and does not fail"]
    failed = {"T::a": outcomes["T::a"]}
    assert judge("s", failed, {"s": {"T::a": reason}})[1] == ["s: 0 of 1 tests pass, 0 convert more"]
    assert judge("s", failed, {"s": {"T::a": Reason(MORE, "an error is expected")}})[1] == []


def test_an_exception_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "exceptions.toml"
    path.write_text('[[exception]]\nsuite = "s"\nkind = "other"\nreason = "r"\ntests = ["t"]\n', encoding="utf-8")
    with pytest.raises(ValueError, match="the kind 'other', not one of more, form, refused"):
        load_exceptions(path)


def test_each_declared_exception_is_of_a_suite_and_has_a_reason() -> None:
    exceptions = load_exceptions()
    assert exceptions.keys() <= {Path(suite.path).name for suite in SUITES}
    assert all(reason.text for tests in exceptions.values() for reason in tests.values())
