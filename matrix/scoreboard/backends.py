"""Results in the format of onnx/backend-scoreboard: a folder for each backend, and the entries of its configuration.

    setup/config.json                            name, results_dir and core_packages of each backend
    results/<backend>/stable/report.json         the names of onnx's own tests, by status
    results/<backend>/stable/trend.json          the sums of the runs
    results/<backend>/stable/ops.json            the tests of each operator, counted by status
    results/<backend>/stable/nodes.csv           whether a test passes, for each operator of the default domain
    results/<backend>/stable/metadata.csv, pip-list.json

Each cell is a backend. Only tests from the newest release of onnx are exported. A fallback counts as passed, because its
result is right. A gap, a failure, and a case whose recorded result is wrong count as failed.
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

#: Suite -> the name of the test class in onnx.
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
    """A test of onnx's own suite. `of_a_node`: whether it is one of the node tests."""

    name: str
    status: str
    operators: tuple[str, ...]
    of_a_node: bool


def export(matrix: Matrix, board: Board, folder: Path) -> list[str]:
    """Write the results of each cell and peer, as a backend of onnx/backend-scoreboard, into `folder`.

    The folder may be a checkout of that project. Return the names of the backends: the cells and peers whose run has
    tests of the newest release of onnx. The others are not written.
    """
    release = list(matrix.releases)[-1]
    path = folder / "setup" / "config.json"
    config = {"stable": {}, "development": {}, **_read(path, {})}
    config.setdefault("deploy_paths", {"index": "./docs", "subpages": "./docs", "resources": "./docs/resources"})
    written = []
    for run in board.runs.values():
        tests = _list_tests(run, release)
        if not tests:
            continue
        subfolder = Path("results") / run.cell / "stable"
        packages, core = _packages(matrix, run.cell)
        _write_backend(folder / subfolder, run, tests, packages, core)
        names = [name for name in core if name != "onnx"]
        config["stable"][run.cell] = {
            "name": run.cell,
            "results_dir": f"./{subfolder.as_posix()}",
            "core_packages": names,
        }
        written.append(run.cell)
    _write(path, config)
    return written


def _list_tests(run: Run, release: str) -> list[Test]:
    """Return the tests of a release of onnx that a run has, sorted by name."""
    tests = []
    for id, outcome in run.outcomes().items():
        suite, of, name = id.split("/", 2)
        if suite in CLASSES and of == release:
            status = "passed" if outcome in RIGHT else "failed"
            operators = tuple(operator_name(operator) for operator in run.cases[id].operators)
            tests.append(Test(f"{CLASSES[suite]}::{name}_cpu", status, operators, suite == "node"))
    return sorted(tests)


def _packages(matrix: Matrix, cell: str) -> tuple[list[dict[str, str]], list[str]]:
    """Return ({name, version} of each package in the lock file, names of the packages that the cell itself pins).

    `cell`: the id of a cell, or `peer-<id>`. Both lists are empty if matrix.toml has no entry for it. Without a lock
    file, the first list is empty.
    """
    environment = matrix.environments.get(cell.removeprefix(PEER))
    if environment is None:
        return [], []
    lines = environment.constraints.read_text(encoding="utf-8").splitlines() if environment.constraints.exists() else []
    pins = [Requirement(line) for line in lines if line and line[0].isalnum()]
    packages = [{"name": pin.name, "version": next(iter(pin.specifier)).version} for pin in pins]
    return packages, [Requirement(pin).name for pin in environment.pins]


def _write_backend(folder: Path, run: Run, tests: list[Test], packages: list[dict[str, str]], core: list[str]) -> None:
    """Write the files of a backend into `folder`, and add its sums to those of earlier runs in trend.json.

    `packages`: name and version of each package. `core`: the names of those whose versions trend.json has.
    """
    ran_at = datetime.strptime(run.date, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    date = ran_at.strftime("%m/%d/%Y %H:%M:%S")
    report = {status: [test.name for test in tests if test.status == status] for status in STATUSES}
    operators = _count_by_operator(tests)
    sums = {"date": date, **{status: len(report[status]) for status in STATUSES}, "total_ops": len(operators)}
    earlier = [entry for entry in _read(folder / "trend.json", []) if entry["date"] != date]
    versions = [package for package in packages if package["name"] in core]
    _write(folder / "report.json", {"date": date, **report})
    _write(folder / "trend.json", [*earlier, {**sums, "versions": versions}])
    _write(folder / "ops.json", operators)
    _write(folder / "pip-list.json", packages)
    rows = [row for row in _count_by_operator(test for test in tests if test.of_a_node) if not row["domain"]]
    passed = sum(row["passed_tests"] > 0 for row in rows)
    lines = ["Op,None", *(f"{row['op_type']},{'Passed' if row['passed_tests'] else 'Failed'}!" for row in rows)]
    lines.append(f"Summary,{passed}/{len(rows)} node tests passed")
    (folder / "nodes.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "metadata.csv").write_text(f"Latest Update,{ran_at:%Y-%m-%d %H:%M:%S}\n", encoding="utf-8")


def _count_by_operator(tests: Iterable[Test]) -> list[dict[str, Any]]:
    """Return a row, a dict, for each operator, sorted: its domain and name, and the number of its tests in total and by
    status.
    """
    by_operator: dict[str, Counter[str]] = {}
    for test in tests:
        for operator in set(test.operators):
            by_operator.setdefault(operator, Counter())[test.status] += 1
    rows = []
    for operator, counts in sorted(by_operator.items()):
        domain, _, name = operator.rpartition("::")
        counts_by_status = {f"{status}_tests": counts[status] for status in STATUSES}
        rows.append({"domain": domain, "op_type": name, "total_tests": counts.total(), **counts_by_status})
    return rows


def _read(path: Path, otherwise: Any) -> Any:
    """Return the content of a JSON file; `otherwise` if the file is missing."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else otherwise


def _write(path: Path, content: Any) -> None:
    """Write a JSON file, and create its folder if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=4, sort_keys=True) + "\n", encoding="utf-8")
