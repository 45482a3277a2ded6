"""The environments of `nox -s selection`, and copies of them to break."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import pytest

SECONDS = 1100
HERE = Path(__file__).parent


class Place:
    """A real environment, asked from outside."""

    def __init__(self, python: Path, scratch: Path) -> None:
        self.python = python
        self.scratch = scratch

    @property
    def packages(self) -> Path:
        """Where its packages are."""
        (found,) = (self.python.parent.parent / "lib").glob("python3.*/site-packages")
        return found

    def drop(self, pattern: str) -> None:
        """Take one entry out of the packages of a copy."""
        (entry,) = self.packages.glob(pattern)
        entry.unlink()

    def own(self, package: str) -> Path:
        """A package of a copy whose files may be deleted; none may be changed, they are links."""
        folder = self.packages / package
        original = folder.resolve()
        self.drop(package)
        shutil.copytree(str(original), str(folder), symlinks=True, copy_function=_link)
        return folder

    def put(self, package: str, start: str) -> None:
        """Another package in its place, for a copy; the list of what is installed does not learn of it."""
        folder = self.packages / package
        if folder.is_symlink():
            folder.unlink()
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text(start, encoding="ascii")

    def run(self, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "KERAS_BACKEND")}
        kept = {name: value for name, value in kept.items() if not name.startswith("ONNX_COMPAT_")}
        env = {**kept, "ONNX_COMPAT_CACHE": str(self.scratch), "TF_CPP_MIN_LOG_LEVEL": "2", **variables}
        return subprocess.run(
            [str(self.python), *arguments],
            cwd=str(self.scratch),
            env=env,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def ask(self, *steps: str, **variables: str) -> List[Any]:
        """What each step answers, one after the other in one process (see asked.py)."""
        done = self.run("-W", "ignore", str(HERE / "asked.py"), *steps, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line[2:]) for line in done.stdout.splitlines() if line.startswith("> ")]

    def doctor(self, **variables: str) -> Dict[str, Any]:
        """What it says to a program, and its exit code; that it ends well is checked."""
        done = self.run("-m", "onnx_compat.cli", "doctor", "--json", **variables)
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        document: Dict[str, Any] = json.loads(done.stdout)
        document["code"] = done.returncode
        for each in document["shims"]:
            assert "\n" not in each["reason"], each
        document["shim"] = {each["name"]: each for each in document["shims"]}
        return document


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Callable[[str], Place]:
    """The environment of this name."""
    told: Optional[str] = os.environ.get("ONNX_COMPAT_SELECTION")
    assert told, "run this by `nox -s selection`"
    pythons = json.loads(told)

    def place(name: str) -> Place:
        return Place(Path(pythons[name]), tmp_path)

    return place


@pytest.fixture(name="copy")
def _copy(place: Callable[[str], Place], tmp_path: Path) -> Callable[[str], Place]:
    """A copy of an environment, to break: its packages are links to those of the original."""

    def copy(name: str) -> Place:
        original = place(name)
        home, made = original.python.parent.parent, tmp_path / "copy"
        packages = made / original.packages.relative_to(home)
        packages.mkdir(parents=True)
        for entry in original.packages.iterdir():
            (packages / entry.name).symlink_to(entry)
        shutil.copytree(str(home / "bin"), str(made / "bin"), symlinks=True)
        shutil.copy2(str(home / "pyvenv.cfg"), str(made))
        return Place(made / original.python.relative_to(home), tmp_path)

    return copy


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another disk
        shutil.copy2(source, target)
