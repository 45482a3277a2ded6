"""nox, tox and the CI service install and run the same cells in the same way."""

import json
import subprocess
import sys
from configparser import ConfigParser

import pytest

from matrix import cells, ci
from matrix.data import ROOT, MatrixError, load

MATRIX = load()
TOX = ConfigParser(interpolation=None)
TOX.read(ROOT / "tox.ini", encoding="utf-8")


@pytest.fixture(scope="module")
def nox_sessions():
    """Return the sessions of the required cells that `nox --json -l` lists."""
    command = [sys.executable, "-m", "nox", "--json", "-l", "-t", "gate", "merge"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("cell", MATRIX.cells.values(), ids=lambda cell: cell.id)
def test_tox_installs_and_runs_what_nox_does(cell):
    section = TOX[f"testenv:{cell.id}"]
    assert section["base_python"] == cell.python
    assert section["commands_pre"].split("\n")[-1].split() == [
        "uv",
        "pip",
        "install",
        *cells.install_arguments(MATRIX, cell),
    ]
    assert section["commands"] == f"python -m matrix.cells {cell.id} {{posargs}}"
    assert cell.id in TOX["tox"]["env_list"].split()


def test_a_path_replaces_the_default_tests_and_an_option_does_not():
    assert cells.pytest_arguments(["tests/shims"], ["-k", "lstm"])[-3:] == ["tests/shims", "-k", "lstm"]
    assert "tests/shims" not in cells.pytest_arguments(["tests/shims"], ["tests/matrix/test_cells.py::test_x"])


def test_the_entries_of_a_cell_reach_its_tests():
    cell = MATRIX.cells["keras-3.15.1-jax-py311"]
    variables = cells.environment(MATRIX, cell)
    assert variables["KERAS_BACKEND"] == "jax"
    assert (variables["ONNX_COMPAT_SHIM"], variables["ONNX_COMPAT_CELL"]) == ("keras", cell.id)
    assert cells.title(cell) == "keras 3.15.1, jax 0.10.2, onnx 1.23.2, Python 3.11"


def test_the_tests_of_a_cell_import_its_wheels(monkeypatch):
    cell = next(cell for cell in MATRIX.cells.values() if cell.runner == "cpu")
    runs = []

    def run(command, **options):
        runs.append(options["env"])
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setenv("PYTHONPATH", "shims/tflite")
    monkeypatch.setattr(cells.subprocess, "run", run)
    monkeypatch.setattr(cells.shutil, "which", lambda *_, **__: "pytest")
    monkeypatch.setattr(cells, "environment", lambda *_: {"ONNX_COMPAT_CELL": cell.id})
    assert cells.run(MATRIX, cell, []) == 3
    assert "PYTHONPATH" not in runs[0]
    assert runs[0]["ONNX_COMPAT_CELL"] == cell.id


def test_the_service_gets_a_job_for_each_cell_that_nox_lists(nox_sessions):
    jobs = {job["cell"]: job for job in ci.jobs(MATRIX, nox_sessions)}
    required = {cell.id: cell for cell in MATRIX.cells.values() if cell.is_required}
    assert list(jobs) == list(required)
    assert {id_: job["python"] for id_, job in jobs.items()} == {id_: cell.python for id_, cell in required.items()}
    lines = {session["name"]: session["description"] for session in nox_sessions}
    assert all(lines[f"cell({id_})"] == cells.title(cell) for id_, cell in required.items()), "a menu says what is what"


def test_a_job_runs_where_its_device_and_its_python_are():
    sessions = [{"session": f"cell({cell.id})", "python": cell.python} for cell in MATRIX.cells.values()]
    for job in ci.jobs(MATRIX, sessions):
        cell = MATRIX.cells[job["cell"]]
        old = cell.python == "3.7"
        assert job["old"] == old
        assert job["labels"] == (MATRIX.ci.images["3.7"] if old else MATRIX.ci.runners[cell.runner])


def test_an_empty_choice_of_cells_is_an_error():
    with pytest.raises(MatrixError, match="no cell"):
        ci.jobs(MATRIX, [{"session": "lint", "python": None}])


def test_the_cache_key_depends_on_its_contents(monkeypatch):
    before = ci.key(MATRIX)
    monkeypatch.setitem(MATRIX.tools, "zoo", ("torch==0",))
    assert ci.key(MATRIX) != before


def test_the_fuzzer_runs_every_shim_and_every_back_end_of_keras():
    everywhere = {(cell.shim, cell.env.get("KERAS_BACKEND")) for cell in MATRIX.cells.values()}
    assert {(cell.shim, cell.env.get("KERAS_BACKEND")) for cell in MATRIX.fuzzed} == everywhere
    assert {cell.id for cell in MATRIX.cells.values() if cell.is_required} <= {cell.id for cell in MATRIX.fuzzed}
