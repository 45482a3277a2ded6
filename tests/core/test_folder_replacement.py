"""Replacement of folders: which folders may be replaced, and that neither an interrupt nor a kill loses a folder."""

import os
import pwd
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, Callable

import pytest
from registered import register
from written import ALIASES, Writer, check_refused, run_refused, tree, write_model, write_saved_model

import onnx_compat
from onnx_compat.cli.app import run as command_line
from onnx_compat.conversion import folder_replacement
from onnx_compat.conversion.destinations import Destination
from onnx_compat.errors import InputError


@pytest.fixture(name="writer")
def _writer(monkeypatch: pytest.MonkeyPatch) -> Writer:
    shim = Writer()
    register(monkeypatch, shim)
    return shim


@pytest.fixture(name="no_swap")
def _no_swap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a system without renameat2, which cannot exchange two folders in one step."""
    monkeypatch.setattr(folder_replacement, "_renameat2", lambda: None)


# -- folders -----------------------------------------------------------------------------------------------------------
def test_a_saved_model_and_an_empty_folder_are_replaced(writer: Writer, tmp_path: Path) -> None:
    source, target = write_model(tmp_path), tmp_path / "out"
    new = {"saved_model.pb": b"new", "variables": False, "variables/variables.index": b"new"}
    target.mkdir()
    for _ in range(2):
        assert tree(onnx_compat.convert(str(source), target)) == new
    write_saved_model(tmp_path / "other")
    (tmp_path / "link").symlink_to("other")
    assert tree(onnx_compat.convert(str(source), tmp_path / "link")) == new
    assert (tmp_path / "other" / "saved_model.pb").read_text() == "old"  # the link is replaced, and not its target
    assert sorted(os.listdir(str(tmp_path))) == ["link", "m.onnx", "other", "out"]


@pytest.mark.parametrize(
    "name", ["notes.txt", "variables/mine.txt", "debug/mine", "other/a.txt", "assets.txt", ".hidden"]
)
def test_a_folder_with_files_of_the_user_is_replaced_by_force_alone(
    writer: Writer, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = write_model(tmp_path), write_saved_model(tmp_path / "out")
    (target / name).parent.mkdir(exist_ok=True)
    (target / name).write_text("the only copy")
    for act in (partial(onnx_compat.convert, str(source), target), partial(Destination, target, folder=True)):
        check_refused(tmp_path, act, str(target), name.split("/", maxsplit=1)[0] if name.startswith("other") else name)
    assert "--force" in run_refused(capsys, "convert", source, target)
    (target / "saved_model.pb").unlink()  # and a folder that is no SavedModel at all
    check_refused(tmp_path, partial(onnx_compat.convert, str(source), target), str(target))
    assert not writer.exports
    assert command_line(["convert", str(source), str(target), "--force"]) == 0
    assert (target / "saved_model.pb").read_text() == "new" and not (target / name).exists()


@pytest.mark.parametrize("alias", ["itself", "symbolic link", "hard link", "folder"])
@pytest.mark.parametrize("read", ["m.onnx", "weights.bin"])
def test_a_folder_that_holds_a_file_that_is_read_is_never_replaced(
    writer: Writer, tmp_path: Path, read: str, alias: str
) -> None:
    target = write_saved_model(tmp_path / "out")
    deep = target / "assets" / "deep"
    if alias in ("symbolic link", "hard link"):
        source = write_model(tmp_path, "weights.bin")
        deep.mkdir()
        ALIASES[alias](tmp_path / read, deep / "entry")
    else:
        deep.mkdir()
        source = write_model(deep, "weights.bin")
        if alias == "folder":
            (tmp_path / "alias").symlink_to(deep)
            source = tmp_path / "alias" / "m.onnx"
    for force in (False, True):
        check_refused(tmp_path, partial(onnx_compat.convert, str(source), target, force=force), "'%s' holds '" % target)
    assert not writer.exports


def test_a_folder_around_the_current_or_a_home_folder_is_never_replaced(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_model(tmp_path)
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    for target in (".", "..", str(inner), str(inner.parent), str(tmp_path / "outer" / ".." / "outer")):
        check_refused(
            tmp_path, partial(onnx_compat.convert, str(source), target, to="saved_model", force=True),
            "current folder",
        )  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(inner))
    for target in (str(inner), str(inner.parent)):
        check_refused(tmp_path, partial(onnx_compat.convert, str(source), target, force=True), "home folder")
    monkeypatch.setenv("HOME", "/")
    monkeypatch.setattr(pwd, "getpwall", lambda: [pwd.struct_passwd(("a", "x", 1, 1, "", str(inner), "sh"))])
    check_refused(tmp_path, partial(onnx_compat.convert, str(source), str(inner), force=True), "home folder")
    proto = source.read_bytes()
    check_refused(tmp_path, partial(onnx_compat.convert, proto, "/", force=True), "root of a file system")
    assert not writer.exports


# -- an interrupt ------------------------------------------------------------------------------------------------------
def interrupt(monkeypatch: pytest.MonkeyPatch, step: int, after: bool) -> None:
    """Raise KeyboardInterrupt before or after (`after`) the rename with the number `step`."""
    calls = []

    def interrupt_rename(real: Callable[..., Any]) -> Callable[..., Any]:
        def rename(*paths: Any) -> None:
            calls.append(paths)
            if len(calls) == step and not after:
                raise KeyboardInterrupt
            real(*paths)
            if len(calls) == step:
                raise KeyboardInterrupt

        return rename

    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, interrupt_rename(getattr(os, name)))


@pytest.mark.usefixtures("no_swap")
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_an_interrupt_between_the_renames_loses_nothing(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, after: bool
) -> None:
    source, target = write_model(tmp_path), write_saved_model(tmp_path / "out")
    with monkeypatch.context() as patch:
        interrupt(patch, step, after)
        with pytest.raises(KeyboardInterrupt):
            onnx_compat.convert(str(source), target)
    aside = Path(folder_replacement.set_aside_path(str(target)))
    new = step == 3 or (step, after) == (2, True)
    assert (target / "saved_model.pb").read_text() == ("new" if new else "old")
    left = {"out", "m.onnx"} | ({aside.name} if (step, after) == (3, False) else set())
    assert set(os.listdir(str(tmp_path))) == left
    assert not aside.exists() or (aside / "saved_model.pb").read_text() == "old"
    onnx_compat.convert(str(source), target)
    assert sorted(os.listdir(str(tmp_path))) == ["m.onnx", "out"]


@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_around_the_exchange_loses_nothing(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    source, target = write_model(tmp_path), write_saved_model(tmp_path / "out")
    real = folder_replacement._swap

    def swap(*paths: Any) -> bool:
        if after:
            real(*paths) or os.rename(paths[0], paths[1])
        raise KeyboardInterrupt

    monkeypatch.setattr(folder_replacement, "_swap", swap)
    with pytest.raises(KeyboardInterrupt):
        onnx_compat.convert(str(source), target)
    assert (target / "saved_model.pb").read_text() == ("new" if after else "old")
    assert sorted(os.listdir(str(tmp_path))) == ["m.onnx", "out"]


_KILLED = """
import os, signal, sys
from onnx_compat.conversion import folder_replacement as replacing
from onnx_compat.conversion.destinations import Destination
path, swap, step = sys.argv[1], sys.argv[2] == "swap", int(sys.argv[3])
if not swap:
    replacing._renameat2 = lambda: None
calls = []
def killing(real):
    def call(*paths):
        calls.append(paths)
        if len(calls) == step:
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*paths)
        if len(calls) + 1 == step and step == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call
if swap:
    swapping = replacing._swap
    def swapped(*paths):
        if step == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        swapping(*paths)
        os.kill(os.getpid(), signal.SIGKILL)
    replacing._swap = swapped
else:
    os.rename = killing(os.rename)
target = Destination(path, folder=True)
with target.scratch() as scratch:
    result = os.path.join(scratch, "out")
    os.mkdir(result)
    open(os.path.join(result, "saved_model.pb"), "w").write("new")
    target.put(result)
"""


@pytest.mark.parametrize(("how", "steps"), [("swap", 2), ("renames", 4)])
def test_a_kill_between_the_steps_loses_nothing(writer: Writer, tmp_path: Path, how: str, steps: int) -> None:
    source = write_model(tmp_path)
    for step in range(1, steps + 1):
        folder = tmp_path / ("step%d" % step)
        target = write_saved_model(folder / "out")
        command = [sys.executable, "-c", "import sys; sys.path[:] = %r\n%s" % (sys.path, _KILLED)]
        done = subprocess.run([*command, str(target), how, str(step)], check=False)
        assert done.returncode == -signal.SIGKILL
        texts = sorted(path.read_text() for path in folder.rglob("saved_model.pb"))
        assert texts == ["new", "old"], "step %d" % step  # both exist, under names that the documentation explains
        aside = Path(folder_replacement.set_aside_path(str(target)))
        assert target.exists() or (aside / "saved_model.pb").read_text() == "old"
        if not target.exists():
            with pytest.raises(InputError) as caught:
                onnx_compat.load_converted(target)
            assert aside.name in str(caught.value.hint)
            Destination(target, folder=True)  # the next write restores it
            assert (target / "saved_model.pb").read_text() == "old"
        onnx_compat.convert(str(source), target)
        assert (target / "saved_model.pb").read_text() == "new"
        assert not aside.exists()


def test_a_system_without_an_exchange_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    for error in (OSError, TypeError, AttributeError):

        def library(*_: Any, error: Any = error, **__: Any) -> Any:
            raise error

        monkeypatch.setattr(ctypes, "CDLL", library)
        assert folder_replacement._swap("a", "b") is False
    monkeypatch.undo()
    assert folder_replacement._swap("/nonexistent/a", "/nonexistent/b") is False


@pytest.mark.usefixtures("no_swap")
def test_a_folder_that_cannot_be_put_back_is_named(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = write_model(tmp_path), write_saved_model(tmp_path / "out")
    real, calls = os.rename, []

    def rename(*paths: Any) -> None:
        calls.append(paths)
        if len(calls) > 1:
            raise PermissionError(13, "Permission denied")
        real(*paths)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(InputError, match="Permission denied") as caught:
        onnx_compat.convert(str(source), target)
    aside = Path(folder_replacement.set_aside_path(str(target)))
    assert str(aside) in str(caught.value.hint)
    assert (aside / "saved_model.pb").read_text() == "old"
