"""The lock of a cell, between real processes: a run that is killed leaves no process that shares its environment."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from matrix.cell_lock import CellBusy, CellLock
from matrix.data import ROOT

pytest.importorskip("fcntl", reason="Windows has no lock that several processes share")

LOADED = f"""
import importlib.util, subprocess, sys, time
from pathlib import Path
spec = importlib.util.spec_from_file_location("cell_lock", {str(ROOT / "matrix" / "cell_lock.py")!r})
cell_lock = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cell_lock)
lock = cell_lock.CellLock("some-cell", Path(sys.argv[1]), patience=0)
"""
HOLDS = LOADED + "lock.share()\nprint('ready', flush=True)\ntime.sleep(600)\n"
# It starts a process that shares the lock, as pytest starts a worker.
STARTS = LOADED + "lock.share()\nsubprocess.run([sys.executable, '-c', sys.argv[2], sys.argv[1]])\n"
DIES_TOO = HOLDS.replace("lock.share()", "cell_lock.end_with_parent()\nlock.share()")


def start(folder: Path, code: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, str(folder), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def reserve(cell: str, folder: Path, patience: float = 0) -> None:
    """Take the exclusive lock of a cell, and release it."""
    lock = CellLock(cell, folder, patience)
    try:
        lock.reserve()
    finally:
        lock.release()


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def pids_in(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "some-cell.lock").read_text(encoding="ascii").split()]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def wait_until_ended(pids: list[int]) -> None:
    for _ in range(100):
        if not any(map(is_alive, pids)):
            return
        time.sleep(0.1)
    raise AssertionError(f"still running: {[pid for pid in pids if is_alive(pid)]}")


def test_an_environment_that_is_in_use_is_not_installed_into(tmp_path: Path) -> None:
    process = start(tmp_path, HOLDS)
    lock = CellLock("some-cell", tmp_path, patience=0)
    with pytest.raises(CellBusy, match=rf"some-cell is used by another run, in the processes {process.pid}\. End them"):
        lock.reserve()
    lock.share()  # another process of the run
    kill(process)
    lock.reserve()
    assert pids_in(tmp_path) == [os.getpid()]
    lock.release()


def test_no_tests_start_during_an_installation(tmp_path: Path) -> None:
    lock = CellLock("some-cell", tmp_path)
    lock.reserve()
    command = [sys.executable, "-c", HOLDS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1 and f"in the processes {os.getpid()}. End them: kill {os.getpid()}" in done.stderr
    lock.share()
    kill(start(tmp_path, HOLDS))
    reserve("other-cell", tmp_path)
    lock.release()


def test_a_survivor_of_a_killed_run_is_named(tmp_path: Path) -> None:
    parent = start(tmp_path, STARTS, HOLDS)
    (survivor,) = [pid for pid in pids_in(tmp_path) if pid != parent.pid]
    kill(parent)
    try:
        with pytest.raises(CellBusy, match=rf"in the processes {survivor}\."):
            reserve("some-cell", tmp_path)
    finally:
        os.kill(survivor, signal.SIGKILL)
    reserve("some-cell", tmp_path, patience=10)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_process_of_a_run_ends_with_its_parent(tmp_path: Path) -> None:
    parent = start(tmp_path, STARTS, DIES_TOO)
    (child,) = [pid for pid in pids_in(tmp_path) if pid != parent.pid]
    kill(parent)
    wait_until_ended([child])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
@pytest.mark.timeout(300)
def test_a_killed_run_of_pytest_leaves_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = f"test-{os.getpid()}"
    (tmp_path / "test_hangs.py").write_text(
        "import ctypes\n\ndef test_holds_the_interpreter():\n    ctypes.PyDLL(None).sleep(600)\n", encoding="utf-8"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ONNX_COMPAT", "PYTEST"))}
    env = {**clean, "ONNX_COMPAT_CELL": cell, "PYTHONPATH": str(ROOT / "tests")}
    executable = shutil.which("pytest", path=os.path.dirname(sys.executable)) or "pytest"
    command = [executable, "-p", "conftest", "-p", "no:cacheprovider", "-n2", "--rootdir", str(tmp_path), str(tmp_path)]
    process: subprocess.Popen[Any] = subprocess.Popen(command, env=env, cwd=tmp_path, stdout=subprocess.DEVNULL)
    path = ROOT / "results" / "locks" / f"{cell}.lock"
    try:
        for _ in range(600):
            if path.exists() and len(set(path.read_text(encoding="ascii").split())) == 3:  # pytest and two workers
                break
            time.sleep(0.1)
        time.sleep(1)  # the test has started
        pids = sorted({int(line) for line in path.read_text(encoding="ascii").split()})
        assert len(pids) == 3
        with pytest.raises(CellBusy):
            reserve(cell, path.parent)
    finally:
        process.kill()
        process.wait()
    wait_until_ended(pids)
    reserve(cell, path.parent, patience=60)  # Linux reports a process as ended before its last thread releases the lock
    path.unlink()
