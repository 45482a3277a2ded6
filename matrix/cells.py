"""What a cell installs and what it runs, said once, for the noxfile and for tox.ini.

python -m matrix.cells CELL [pytest's arguments]     in the environment of that cell, on its Python, 3.7 at the oldest
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from packaging.requirements import Requirement

from matrix.data import REFERENCE, ROOT, Cell, Matrix, load
from matrix.devices import BROKEN, NO_GPU, READY, Answer, framework_of, installed, present, unready
from matrix.results import fallen, stored
from matrix.revision import revision

__all__ = ["DIST", "before", "environment", "installs", "pytest_arguments", "run", "title", "wheels"]

DIST = Path("dist")
"""In the repository, where all of this runs."""
PARTS = "parts"
"""Beside the results of whole runs, the folder of those of which the command line says more."""
BESIDE = ("numpy", "onnxruntime", "protobuf")
TEST_SECONDS = 300
# A framework may abort the process, or hang where no signal arrives: in a worker, that is one failed test with a name.
# So many may end like that; what never starts is not tried for ever.
APART = ["--numprocesses=auto", "--max-worker-restart=100", "--timeout-method=thread", "--tb=short"]


def title(cell: Cell) -> str:
    """In the menus of nox and tox, behind its name: what it is about, and not what only makes that import."""
    about = [pin.replace("==", " ") for pin in cell.pins if Requirement(pin).name not in BESIDE]
    return ", ".join([*about, "Python %s" % cell.python])


def wheels(matrix: Matrix, shim: str) -> List[str]:
    """What to install for a shim: the built wheels, also where an older build of the same version is installed."""
    ours = matrix.closure(shim)
    again = ["--reinstall-package=%s" % each.name for each in ours]
    return again + [(DIST / ("%s-%s-py3-none-any.whl" % (each.package, matrix.version))).as_posix() for each in ours]


def installs(matrix: Matrix, cell: Cell) -> List[str]:
    """The arguments of `uv pip install`: the wheels, the pins, and nothing that is left from before."""
    return ["--exact", *wheels(matrix, cell.shim), "--requirement", cell.constraints.relative_to(ROOT).as_posix()]


def environment(matrix: Matrix, cell: Cell) -> Dict[str, str]:
    """The variables that its tests run with."""
    return {
        "ONNX_COMPAT_SHIM": cell.shim,
        "TF_CPP_MIN_LOG_LEVEL": "2",
        **cell.env,
        "ONNX_COMPAT_CELL": cell.id,
        "ONNX_COMPAT_CONSTRAINTS": str(cell.constraints),
        # Named, so that one that is not in the cache is an error.
        "ONNX_COMPAT_SUITES": " ".join([*matrix.suites, *matrix.suites_generated]),
        "ONNX_COMPAT_RELEASES": cell.releases,
        "ONNX_COMPAT_VARIANTS": " ".join(cell.variants),
        "ONNX_COMPAT_RESULTS": str(_results(cell)),
        "ONNX_COMPAT_REVISION": revision(),
        "ONNX_COMPAT_DEVICE": cell.runner,
        **({"CUDA_VISIBLE_DEVICES": "-1"} if cell.runner == "cpu" else {}),
    }


def before(cell: Cell) -> Optional[Answer]:
    """What is in the way of a cell that needs a GPU, before anything is installed for it."""
    if cell.runner != "gpu":
        return None
    here = present()
    if here.state != READY:
        return here
    if cell.index and "%s=" % cell.index not in os.environ.get("UV_INDEX", ""):
        return Answer(BROKEN, "UV_INDEX does not say where the index is: UV_INDEX=%s=<address>" % cell.index)
    if not cell.constraints.exists():
        return Answer(BROKEN, "no pins are stored: python -m matrix lock %s" % cell.id)
    return None


def pytest_arguments(tests: Sequence[str], told: Sequence[str], *options: str) -> List[str]:
    """These tests, or those that the command line names."""
    named = any((ROOT / argument.partition("::")[0]).exists() for argument in told)
    return ["--timeout=%d" % TEST_SECONDS, *options, *([] if named else tests), *told]


def run(matrix: Matrix, cell: Cell, told: Sequence[str]) -> int:
    """The tests of the cell; gives the exit code. A whole run that found less than is stored fails, too."""
    if cell.runner == "gpu":
        here = present()
        found = installed(framework_of(cell), here) if here.state == READY else here
        if found.state != READY:
            print(unready(cell, found), file=sys.stderr)
            return 0 if found.state == NO_GPU else 1
    tests = ["tests/shims", "tests/conformance", *(["tests/core"] if cell.shim == REFERENCE else [])]
    pytest = shutil.which("pytest", path=os.path.dirname(sys.executable))
    assert pytest is not None, "the environment of %s is not installed" % cell.id
    # Never as `python -m pytest`, which imports the source tree instead of the wheels.
    command = [pytest, *pytest_arguments(tests, told, *APART)]
    print(" ".join(command), flush=True)
    env = {**os.environ, **environment(matrix, cell)}
    if told:  # of a part of the tests: nobody may take it for the whole
        env["ONNX_COMPAT_RESULTS"] = str(_results(cell).parent / PARTS / _results(cell).name)
    done = subprocess.run(command, cwd=str(ROOT), env=env, check=False)
    before = stored().get(cell.id)
    if done.returncode or told or not before:
        return done.returncode
    worse = fallen(json.loads(_results(cell).read_text(encoding="utf-8")), before)
    if worse:
        print("\n".join(["worse than matrix/results has it:", *worse]), file=sys.stderr)
    return 1 if worse else 0


def _results(cell: Cell) -> Path:
    return ROOT / "results" / ("%s.json" % cell.id)


if __name__ == "__main__":
    MATRIX = load()
    sys.exit(run(MATRIX, MATRIX.cells[sys.argv[1]], sys.argv[2:]))
