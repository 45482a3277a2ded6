"""The environments of `nox -s selection`, and copies of them that a test may break."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import pytest

SECONDS = 1100
HERE = Path(__file__).parent


class Environment:
    """A Python environment in which a test runs commands."""

    def __init__(self, python: Path, scratch: Path) -> None:
        self.python = python
        self.scratch = scratch

    @property
    def packages(self) -> Path:
        """Return the folder of the installed packages (site-packages)."""
        (packages,) = (self.python.parent.parent / "lib").glob("python3.*/site-packages")
        return packages

    def drop(self, pattern: str) -> None:
        """Remove an entry from the packages of a copy."""
        (entry,) = self.packages.glob(pattern)
        entry.unlink()

    def own(self, package: str) -> Path:
        """Return the folder of a package of a copy, with links to the original files.

        The links may be deleted. A file must not be changed through them.
        """
        folder = self.packages / package
        original = folder.resolve()
        self.drop(package)
        shutil.copytree(str(original), str(folder), symlinks=True, copy_function=_link)
        return folder

    def put(self, package: str, start: str) -> None:
        """Replace a package of a copy by the code `start` in its `__init__.py`. Its metadata stays."""
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
        """Run steps.py with these steps, in one process, and return the answer of each step."""
        done = self.run("-W", "ignore", str(HERE / "steps.py"), *steps, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line[2:]) for line in done.stdout.splitlines() if line.startswith("> ")]

    def doctor(self, **variables: str) -> Dict[str, Any]:
        """Run `onnx-compat doctor --json`. Return its JSON with the exit code. Assert that it printed no traceback."""
        done = self.run("-m", "onnx_compat", "doctor", "--json", **variables)
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        document: Dict[str, Any] = json.loads(done.stdout)
        document["code"] = done.returncode
        for shim in document["shims"]:
            assert "\n" not in shim["reason"], shim
        document["shim"] = {shim["name"]: shim for shim in document["shims"]}
        return document


@pytest.fixture(name="environment")
def _environment(tmp_path: Path) -> Callable[[str], Environment]:
    """Return a function from the name of an environment to the environment."""
    configured: Optional[str] = os.environ.get("ONNX_COMPAT_SELECTION")
    assert configured, "run this by `nox -s selection`"
    pythons = json.loads(configured)

    def environment(name: str) -> Environment:
        return Environment(Path(pythons[name]), tmp_path)

    return environment


@pytest.fixture(name="copy")
def _copy(environment: Callable[[str], Environment], tmp_path: Path) -> Callable[[str], Environment]:
    """Return a function that copies an environment. The packages of the copy are links to those of the original."""

    def copy(name: str) -> Environment:
        original = environment(name)
        home, copied = original.python.parent.parent, tmp_path / "copy"
        packages = copied / original.packages.relative_to(home)
        packages.mkdir(parents=True)
        for entry in original.packages.iterdir():
            (packages / entry.name).symlink_to(entry)
        shutil.copytree(str(home / "bin"), str(copied / "bin"), symlinks=True)
        shutil.copy2(str(home / "pyvenv.cfg"), str(copied))
        return Environment(copied / original.python.relative_to(home), tmp_path)

    return copy


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another disk
        shutil.copy2(source, target)
