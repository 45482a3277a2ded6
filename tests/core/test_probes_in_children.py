"""Probes in child processes, and marks of probes that killed their process."""

import faulthandler
import os
import signal
from pathlib import Path
from typing import Any, List, Optional

import pytest

from onnx_compat.discovery import child_probe, selection
from onnx_compat.discovery.child_probe import Outcome, answer_probe, has_died, mark_probe, probe_in_child
from onnx_compat.discovery.child_process import ChildResult
from onnx_compat.discovery.selection import Probe
from onnx_compat.errors import ShimError

CRASH = (
    'Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n  File "/x/framework.py", line 1\n'
)


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ONNX_COMPAT_CACHE", str(tmp_path))


def answer_with(monkeypatch: pytest.MonkeyPatch, *results: ChildResult) -> List[Any]:
    """Replace child processes by these results, in order. Return the list of the calls."""
    calls: List[Any] = []
    remaining = list(results)

    def call(module: str, function: str, *arguments: Any, seconds: float) -> ChildResult:
        calls.append((module, function, *arguments))
        return remaining.pop(0)

    monkeypatch.setattr(child_probe, "call_in_child", call)
    return calls


def reason_of(outcome: Optional[Outcome]) -> str:
    assert outcome is not None and not outcome.ended and not outcome.probe.available
    return outcome.probe.reason


# -- outcomes ----------------------------------------------------------------------------------------------------------
def test_a_probe_in_a_child_process_is_the_probe_of_that_process() -> None:
    outcome = probe_in_child("reference", seconds=120)
    assert outcome is not None and outcome.ended and outcome.hint is None
    assert outcome.probe == selection.probe("reference")


def test_the_answer_of_a_probe_is_json_with_the_hint_of_a_failure() -> None:
    answer = answer_probe("nosuch")
    assert answer["probe"][0] is False and "there is no shim 'nosuch'" in answer["probe"][1]
    assert answer["hint"] is None


def test_without_a_child_process_there_is_no_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, ChildResult("not started"))
    assert probe_in_child("tf2") is None


def test_a_probe_that_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, ChildResult("timeout"))
    outcome = probe_in_child("tf2", seconds=7)
    assert reason_of(outcome) == "its probe has not come back for 7 seconds"
    assert outcome is not None and "install a build of" in str(outcome.hint)


@pytest.mark.parametrize(
    ("exit_code", "stderr", "ending"),
    [
        (-signal.SIGABRT, "", "SIGABRT"),
        (-signal.SIGABRT, CRASH, "SIGABRT in /x/framework.py"),
        (-200, "", "signal 200"),
        (3, "", "exit code 3"),
        (0xC000001D, "", "exit code 0xc000001d"),
    ],
)
def test_a_probe_that_kills_its_process(
    monkeypatch: pytest.MonkeyPatch, exit_code: int, stderr: str, ending: str
) -> None:
    answer_with(monkeypatch, ChildResult("failed", None, exit_code, stderr))
    assert reason_of(probe_in_child("tf2")) == "its probe kills the process: %s" % ending


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (ChildResult("failed", None, -6, "loading\nillegal instruction\n"), "; it says: illegal instruction"),
        (ChildResult("failed", None, 1, "ImportError: no\n"), ""),
        (ChildResult("returned", "<module>", 0, "a warning\n"), ""),
    ],
)
def test_the_last_words_are_those_of_an_import_that_kills_its_process(
    monkeypatch: pytest.MonkeyPatch, result: ChildResult, words: str
) -> None:
    calls = answer_with(monkeypatch, ChildResult("failed", None, -6, ""), result)
    reason = reason_of(probe_in_child("tf2", ["no_such_framework", "json"]))
    assert reason == "its probe kills the process: SIGABRT" + words
    assert calls[1:] == [("importlib", "import_module", "json")]


# -- marks -------------------------------------------------------------------------------------------------------------
def test_a_mark_is_kept_while_a_probe_runs() -> None:
    assert not has_died("tf2")
    with mark_probe("tf2"):
        assert os.path.exists(child_probe._mark_path("tf2"))
        assert not has_died("tf2")
        assert not has_died("keras")
    assert not os.path.exists(child_probe._mark_path("tf2"))


def write_mark(text: str) -> None:
    path = Path(child_probe._mark_path("tf2"))
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("text", ["", "no number"])
def test_a_damaged_mark_is_ignored(text: str) -> None:
    write_mark(text)
    assert not has_died("tf2")


def test_a_mark_of_this_process_id_without_a_probe_is_of_an_earlier_process() -> None:
    write_mark(str(os.getpid()))
    assert has_died("tf2")


@pytest.mark.parametrize(("error", "died"), [(ProcessLookupError(), True), (PermissionError(), False), (None, False)])
def test_a_mark_of_another_process(monkeypatch: pytest.MonkeyPatch, error: Optional[OSError], died: bool) -> None:
    write_mark("4194303")

    def kill(pid: int, number: int) -> None:
        assert (pid, number) == (4194303, 0)
        if error is not None:
            raise error

    monkeypatch.setattr(os, "kill", kill)
    assert has_died("tf2") is died


def test_on_windows_no_process_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    write_mark("4194303")
    monkeypatch.setattr(os, "kill", None)
    with monkeypatch.context() as patch:
        patch.setattr(child_probe.os, "name", "nt")
        died = has_died("tf2")
    assert died


@pytest.mark.parametrize(
    ("platform", "variable", "folder"),
    [
        ("linux", "XDG_CACHE_HOME", "/base/onnx-compat"),
        ("linux", "", "/home/user/.cache/onnx-compat"),
        ("darwin", "", "/home/user/Library/Caches/onnx-compat"),
        ("win32", "LOCALAPPDATA", "/base/onnx-compat"),
    ],
)
def test_marks_lie_in_the_cache_of_the_user(
    monkeypatch: pytest.MonkeyPatch, platform: str, variable: str, folder: str
) -> None:
    for name in ("ONNX_COMPAT_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "/base")
    monkeypatch.setenv("HOME", "/home/user")
    with monkeypatch.context() as patch:
        patch.setattr(child_probe.sys, "platform", platform)
        path = child_probe._mark_path("tf2")
    assert Path(path).parent == Path(folder, "probing")


@pytest.mark.parametrize("was_enabled", [True, False])
def test_a_mark_leaves_the_fault_handler_as_it_was(monkeypatch: pytest.MonkeyPatch, was_enabled: bool) -> None:
    changes: List[str] = []
    monkeypatch.setattr(faulthandler, "is_enabled", lambda: was_enabled)
    monkeypatch.setattr(faulthandler, "enable", lambda *args, **options: changes.append("enable"))
    monkeypatch.setattr(faulthandler, "disable", lambda: changes.append("disable"))
    with mark_probe("tf2"):
        assert changes == ([] if was_enabled else ["enable"])
    assert changes == ([] if was_enabled else ["enable", "disable"])


def test_a_process_without_standard_error_is_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    def dup(descriptor: int) -> int:
        raise OSError("bad file descriptor %d" % descriptor)

    monkeypatch.setattr(faulthandler, "is_enabled", lambda: False)
    monkeypatch.setattr(os, "dup", dup)
    with mark_probe("tf2"):
        assert os.path.exists(child_probe._mark_path("tf2"))


# -- selection ---------------------------------------------------------------------------------------------------------
DEADLY = Outcome(Probe(False, "its probe kills the process: SIGILL"), "install another build", False)


@pytest.mark.parametrize("outcome", [DEADLY, Outcome(Probe(True, "it works")), None])
def test_a_shim_that_killed_an_earlier_process_is_probed_in_a_child_first(
    monkeypatch: pytest.MonkeyPatch, outcome: Optional[Outcome]
) -> None:
    """The shim is refused, without another child process, only if the child process dies too."""
    probed: List[str] = []
    monkeypatch.setattr(selection, "_DEADLY", {})
    monkeypatch.setattr(selection, "has_died", lambda name: True)
    monkeypatch.setattr(selection, "probe_in_child", lambda name, modules: probed.append(name) or outcome)
    for _ in range(2):
        if outcome is DEADLY:
            with pytest.raises(ShimError, match="SIGILL") as error:
                selection._refuse_deadly("tf2")
            assert error.value.hint == "install another build"
        else:
            selection._refuse_deadly("tf2")
    assert probed == (["tf2"] if outcome is DEADLY else ["tf2", "tf2"])
