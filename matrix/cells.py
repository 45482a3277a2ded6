"""Installation and tests of a cell, shared by noxfile.py and tox.ini.

    python -m matrix.cells CELL [pytest's arguments]     run the tests of CELL, in the environment of that cell

The module runs on the Python of the cell, so it supports Python 3.7.
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

from matrix.cell_lock import CellBusy, CellLock, end_with_parent
from matrix.data import REFERENCE, ROOT, Cell, Matrix, load
from matrix.devices import (
    BROKEN,
    GPU_VARIABLES,
    NO_GPU,
    READY,
    Answer,
    assign_workers,
    framework_of,
    query_driver,
    query_framework,
    write_unready,
)
from matrix.results import find_regressions, find_worse_cases, load_results
from matrix.revision import revision

__all__ = ["DIST", "environment", "gpu_problem", "install_arguments", "pytest_arguments", "run", "title", "wheels"]

DIST = Path("dist")
"""Folder of the built wheels, relative to the root of the repository."""
PARTS = "parts"
"""Subfolder of results/ for the results of partial runs: those with arguments for pytest."""
COMPANIONS = ("numpy", "onnxruntime", "protobuf")
"""Packages that are left out of the description of a cell."""
TEST_SECONDS = 300
# A framework may abort the process, or hang in native code that handles no signal. In a worker of pytest-xdist, either is
# one failed test with a name, and xdist starts a new worker. The restarts are bounded for a framework that never starts.
XDIST_OPTIONS = ["--numprocesses=auto", "--max-worker-restart=100", "--timeout-method=thread", "--tb=short"]


def title(cell: Cell) -> str:
    """Return the description of a cell in the menus of nox and tox: `tensorflow-cpu 2.21.0, onnx 1.21.0, Python 3.13`.

    The packages in `COMPANIONS` are left out.
    """
    pins = [pin.replace("==", " ") for pin in cell.pins if Requirement(pin).name not in COMPANIONS]
    return ", ".join([*pins, "Python %s" % cell.python])


def wheels(matrix: Matrix, shim: str) -> List[str]:
    """Return the arguments of `uv pip install` for the built wheels of a shim and its dependencies in this repository.

    They replace an installed older build that has the same version.
    """
    ours = matrix.closure(shim)
    options = ["--reinstall-package=%s" % distribution.name for distribution in ours]
    return options + [
        (DIST / ("%s-%s-py3-none-any.whl" % (distribution.package, matrix.version))).as_posix() for distribution in ours
    ]


def install_arguments(matrix: Matrix, cell: Cell) -> List[str]:
    """Return the arguments of `uv pip install` for a cell: its wheels and its lock file.

    `--exact` removes all other packages.
    """
    return ["--exact", *wheels(matrix, cell.shim), "--requirement", cell.constraints.relative_to(ROOT).as_posix()]


def environment(matrix: Matrix, cell: Cell) -> Dict[str, str]:
    """Return the environment variables to set for the tests of the cell."""
    return {
        "ONNX_COMPAT_SHIM": cell.shim,
        "TF_CPP_MIN_LOG_LEVEL": "2",
        **cell.env,
        "ONNX_COMPAT_CELL": cell.id,
        "ONNX_COMPAT_CONSTRAINTS": str(cell.constraints),
        # A suite that is named but not in the cache is an error.
        "ONNX_COMPAT_SUITES": " ".join([*matrix.suites, *matrix.suites_generated]),
        "ONNX_COMPAT_RELEASES": cell.releases,
        "ONNX_COMPAT_VARIANTS": " ".join(cell.variants),
        "ONNX_COMPAT_RESULTS": str(_results(cell)),
        "ONNX_COMPAT_REVISION": revision(),
        "ONNX_COMPAT_DEVICE": cell.runner,
        **({"CUDA_VISIBLE_DEVICES": "-1"} if cell.runner == "cpu" else GPU_VARIABLES),
    }


def gpu_problem(cell: Cell) -> Optional[Answer]:
    """Return an answer in the state NO_GPU or BROKEN if a cell that needs a GPU cannot run on this machine.

    None: it can run, or it needs no GPU. The function is called before anything is installed, so it queries the driver
    only.
    """
    if cell.runner != "gpu":
        return None
    gpu = query_driver()
    if gpu.state != READY:
        return gpu
    if cell.index and "%s=" % cell.index not in os.environ.get("UV_INDEX", ""):
        return Answer(BROKEN, "UV_INDEX does not hold the address of the index: set UV_INDEX=%s=<address>" % cell.index)
    if not cell.constraints.exists():
        return Answer(BROKEN, "no pins are stored: run `python -m matrix lock %s`" % cell.id)
    return None


def pytest_arguments(tests: Sequence[str], arguments: Sequence[str], *options: str) -> List[str]:
    """Return the arguments of pytest: the time limit, `options`, paths, and `arguments`.

    `tests` are the default paths. If `arguments` name a path that exists, the default paths are left out.
    """
    named = any((ROOT / argument.partition("::")[0]).exists() for argument in arguments)
    return ["--timeout=%d" % TEST_SECONDS, *options, *([] if named else tests), *arguments]


def run(matrix: Matrix, cell: Cell, arguments: Sequence[str]) -> int:
    """Run the tests of a cell in its environment, and return the exit code.

    `arguments`: more arguments of pytest, for a part of the tests. The variable PYTHONPATH is removed, because it could
    replace the wheels by a source tree.

    A run also fails if its results are worse than those in matrix/results: without `arguments` by the counts, with them
    by single cases. A cell that needs a GPU does not run without one. Its state is then written as its results, and the
    exit code is 0 if there is no GPU, 1 if it is broken.
    """
    workers: Dict[str, str] = {}
    if cell.runner == "gpu":
        gpu = query_driver()
        workers = assign_workers(gpu)
        gpu = query_framework(framework_of(cell), gpu) if gpu.state == READY else gpu
        if gpu.state != READY:
            print(write_unready(cell, gpu), file=sys.stderr)
            return 0 if gpu.state == NO_GPU else 1
    tests = ["tests/shims", "tests/conformance", "tests/fuzz", *(["tests/core"] if cell.shim == REFERENCE else [])]
    pytest = shutil.which("pytest", path=os.path.dirname(sys.executable))
    assert pytest is not None, "the environment of %s is not installed" % cell.id
    # Never as `python -m pytest`, which imports the source tree instead of the wheels.
    command = [pytest, *pytest_arguments(tests, arguments, *XDIST_OPTIONS)]
    print(" ".join(command), flush=True)
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env = {**inherited, **environment(matrix, cell), **workers}
    path = _results(cell)
    if arguments:  # results of a part of the tests must not pass for those of a whole run
        path = path.parent / PARTS / path.name
        env["ONNX_COMPAT_RESULTS"] = str(path)
        if path.exists():  # of another part
            path.unlink()
    process = subprocess.run(command, cwd=str(ROOT), env=env, check=False)
    stored_results = load_results().get(cell.id)
    if process.returncode or not stored_results or not path.exists():
        return process.returncode
    results = json.loads(path.read_text(encoding="utf-8"))
    regressions = (find_worse_cases if arguments else find_regressions)(results, stored_results)
    if regressions:
        print("\n".join(["worse than matrix/results has it:", *regressions]), file=sys.stderr)
    return 1 if regressions else 0


def _results(cell: Cell) -> Path:
    """Return the path of the results file of a whole run of a cell."""
    return ROOT / "results" / ("%s.json" % cell.id)


if __name__ == "__main__":
    end_with_parent()
    MATRIX = load()
    LOCK = CellLock(sys.argv[1])
    try:
        LOCK.share()
    except CellBusy as busy:
        sys.exit(str(busy))
    sys.exit(run(MATRIX, MATRIX.cells[sys.argv[1]], sys.argv[2:]))
