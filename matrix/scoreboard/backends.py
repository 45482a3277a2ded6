"""The results as onnx/backend-scoreboard reads them: a folder for each backend, and the entries of its configuration.

    setup/config.json                            name, results_dir and core_packages of each backend
    results/<backend>/stable/report.json         the names of onnx's own tests, by what became of them
    results/<backend>/stable/trend.json          the sums of the runs
    results/<backend>/stable/ops.json            of each operator the tests that it is in
    results/<backend>/stable/nodes.csv           of each operator of the default domain whether a test of it passes
    results/<backend>/stable/metadata.csv, pip-list.json

A backend is a cell. What our suites have beside the tests of onnx has no place there; of several releases of onnx, the
newest counts. A fallback is the right answer, so it is passed; a gap and a fail are failed, and what was recorded wrong too.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Iterable, NamedTuple

from packaging.requirements import Requirement

from matrix.data import Matrix
from matrix.results import PEER
from matrix.scoreboard.cases import operator_name
from matrix.scoreboard.gather import Board, Run

__all__ = ["export"]

#: The classes of onnx's tests, by our suites.
CLASSES = {
    "node": "OnnxBackendNodeModelTest",
    "simple": "OnnxBackendSimpleModelTest",
    "pytorch-converted": "OnnxBackendPyTorchConvertedModelTest",
    "pytorch-operator": "OnnxBackendPyTorchOperatorModelTest",
    "light": "OnnxBackendRealModelTest",
}
RIGHT = ("pass", "fallback")
STATUSES = ("failed", "passed", "skipped")


class Test(NamedTuple):
    name: str
    status: str
    operators: tuple[str, ...]
    of_a_node: bool


def export(matrix: Matrix, board: Board, folder: Path) -> list[str]:
    """Write into the folder, which may be a checkout of theirs, and give the names of the backends written."""
    release = list(matrix.releases)[-1]
    path = folder / "setup" / "config.json"
    config = {"stable": {}, "development": {}, **_read(path, {})}
    config.setdefault("deploy_paths", {"index": "./docs", "subpages": "./docs", "resources": "./docs/resources"})
    written = []
    for run in board.runs.values():
        tests = _tests(run, release)
        if not tests:
            continue
        place = Path("results") / run.cell / "stable"
        packages, core = _packages(matrix, run.cell)
        _write_backend(folder / place, run, tests, packages, core)
        names = [name for name in core if name != "onnx"]
        config["stable"][run.cell] = {"name": run.cell, "results_dir": f"./{place.as_posix()}", "core_packages": names}
        written.append(run.cell)
    _write(path, config)
    return written


def _tests(run: Run, release: str) -> list[Test]:
    tests = []
    for id, outcome in run.found().items():
        suite, of, name = id.split("/", 2)
        if suite in CLASSES and of == release:
            status = "passed" if outcome in RIGHT else "failed"
            operators = tuple(operator_name(operator) for operator in run.cases[id].operators)
            tests.append(Test(f"{CLASSES[suite]}::{name}_cpu", status, operators, suite == "node"))
    return sorted(tests)


def _packages(matrix: Matrix, cell: str) -> tuple[list[dict[str, str]], list[str]]:
    """All that is installed, and the names of what the cell is about."""
    environment = matrix.environments.get(cell.removeprefix(PEER))
    if environment is None:
        return [], []
    lines = environment.constraints.read_text(encoding="utf-8").splitlines() if environment.constraints.exists() else []
    pins = [Requirement(line) for line in lines if line and line[0].isalnum()]
    packages = [{"name": pin.name, "version": next(iter(pin.specifier)).version} for pin in pins]
    return packages, [Requirement(pin).name for pin in environment.pins]


def _write_backend(folder: Path, run: Run, tests: list[Test], packages: list[dict[str, str]], core: list[str]) -> None:
    when = datetime.strptime(run.date, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    date = when.strftime("%m/%d/%Y %H:%M:%S")
    report = {status: [test.name for test in tests if test.status == status] for status in STATUSES}
    operators = _operators(tests)
    sums = {"date": date, **{status: len(report[status]) for status in STATUSES}, "total_ops": len(operators)}
    before = [each for each in _read(folder / "trend.json", []) if each["date"] != date]
    versions = [package for package in packages if package["name"] in core]
    _write(folder / "report.json", {"date": date, **report})
    _write(folder / "trend.json", [*before, {**sums, "versions": versions}])
    _write(folder / "ops.json", operators)
    _write(folder / "pip-list.json", packages)
    rows = [row for row in _operators(test for test in tests if test.of_a_node) if not row["domain"]]
    passed = sum(row["passed_tests"] > 0 for row in rows)
    lines = ["Op,None", *(f"{row['op_type']},{'Passed' if row['passed_tests'] else 'Failed'}!" for row in rows)]
    lines.append(f"Summary,{passed}/{len(rows)} node tests passed")
    (folder / "nodes.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "metadata.csv").write_text(f"Latest Update,{when:%Y-%m-%d %H:%M:%S}\n", encoding="utf-8")


def _operators(tests: Iterable[Test]) -> list[dict[str, Any]]:
    """Of each operator how many tests it is in, and what became of them."""
    found: dict[str, Counter[str]] = {}
    for test in tests:
        for operator in set(test.operators):
            found.setdefault(operator, Counter())[test.status] += 1
    rows = []
    for operator, counts in sorted(found.items()):
        domain, _, name = operator.rpartition("::")
        told = {f"{status}_tests": counts[status] for status in STATUSES}
        rows.append({"domain": domain, "op_type": name, "total_tests": counts.total(), **told})
    return rows


def _read(path: Path, otherwise: Any) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else otherwise


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=4, sort_keys=True) + "\n", encoding="utf-8")
