"""Calls in a child process: results, exceptions, signals and timeouts."""

import signal
import sys

import pytest

from onnx_compat.discovery.child_process import call_in_child


def test_a_result_comes_back_as_json() -> None:
    result = call_in_child("math", "gcd", 12, 18, seconds=60)
    assert (result.status, result.value, result.exit_code) == ("returned", 6, 0)


def test_a_value_that_json_cannot_hold_becomes_text() -> None:
    assert call_in_child("importlib", "import_module", "json", seconds=60).value.startswith("<module 'json'")


def test_an_exception_is_a_failure_with_its_last_line() -> None:
    result = call_in_child("math", "sqrt", -1, seconds=60)
    assert (result.status, result.exit_code) == ("failed", 1)
    assert result.last_line.startswith("ValueError")


def test_a_signal_is_a_failure_with_its_number() -> None:
    result = call_in_child("os", "abort", seconds=60)
    assert (result.status, result.exit_code) == ("failed", 3 if sys.platform == "win32" else -signal.SIGABRT)


def test_a_process_that_takes_too_long_is_ended() -> None:
    assert call_in_child("time", "sleep", 60, seconds=0.5).status == "timeout"


def test_a_python_that_cannot_be_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    assert call_in_child("math", "gcd", 12, 18, seconds=60).status == "not started"


def test_prints_of_the_function_are_no_result() -> None:
    assert call_in_child("builtins", "print", "onnx-compat answers", seconds=60).value is None
