"""`python -m matrix add`: the new entry loads and follows the nearest entry. Nothing is written if no versions resolve."""

import subprocess

import pytest
from packaging.requirements import Requirement

from matrix import __main__, add, lock
from matrix.data import ROOT, MatrixError, load

TEXT = (ROOT / "matrix" / "matrix.toml").read_text(encoding="utf-8")
MATRIX = load()
TODAY = "2099-01-01"
VERSIONS = {"onnx": "1.23.2", "onnxruntime": "1.31.1", "numpy": "2.5.4", "protobuf": "7.36.2", "jax": "0.10.2"}


class Index:
    """A fake resolver. It has wheels for some Pythons, and every package except the missing ones."""

    def __init__(self, *pythons, missing=()):
        self.pythons, self.missing, self.requests = pythons, missing, []

    def __call__(self, requirements, python, wheels, until):
        self.requests.append((python, list(requirements)))
        names = [Requirement(requirement).name for requirement in requirements]
        lacking = [name for name in names if name in self.missing]
        if python not in self.pythons or lacking:
            raise add.Unresolvable(f"no version of {lacking or wheels[0]}")
        exact = {
            requirement.name: requirement.specifier
            for requirement in map(Requirement, requirements)
            if "==" in str(requirement.specifier)
        }
        versions = {name: VERSIONS.get(name, "1.0") for name in [*names, *VERSIONS]}
        versions = {name: version for name, version in versions.items() if name not in self.missing}
        return {**versions, **{name: next(iter(specifier)).version for name, specifier in exact.items()}}


@pytest.fixture(autouse=True)
def _pythons_of_this_machine(monkeypatch):
    def find(python):
        if python not in ("3.11", "3.12", "3.13"):
            raise MatrixError(f"no python{python}")
        return "python" + python

    monkeypatch.setattr(add, "find", find)


def plan_addition(folder, name, version, index, backend="tensorflow"):
    """Plan the addition of a cell. Return (the addition, the matrix with it)."""
    addition = add.plan(MATRIX, TEXT, name, version, backend, TODAY, index)
    path = folder / "matrix.toml"
    path.write_text(addition.text, encoding="utf-8")
    return addition, load(path)


def test_a_new_minor_version_is_a_branch(tmp_path):
    addition, matrix = plan_addition(tmp_path, "tf2", "2.99.0", Index("3.11", "3.12", "3.13", "3.14"))
    cell = matrix.cells["tf2-2.99.0-py313"]
    assert cell == addition.cell
    assert cell.pins == ("tensorflow-cpu==2.99.0", "onnx==1.23.2", "onnxruntime==1.31.1")
    assert (cell.branch, cell.pythons, cell.tier) == ("tf2-99", ">=3.11,<3.15", "nightly")
    assert matrix.until == TODAY
    assert any("numpy 2.5.4, protobuf 7.36.2" in line for line in addition.notes)
    assert any("tensorflow-probability" in line for line in addition.notes)


def test_the_rest_of_the_file_does_not_change(tmp_path):
    addition, matrix = plan_addition(tmp_path, "litert", "2.99.0", Index("3.13"))
    assert {key: cell for key, cell in matrix.cells.items() if key != addition.cell.id} == MATRIX.cells
    lines, before = addition.text.splitlines(), TEXT.splitlines()
    for line in before:
        assert line.startswith("until = ") or line in lines
    at = lines.index('[cells."tflite-litert-2.99.0-py313"]')
    above = [line for line in lines[:at] if line.startswith("[cells.")][-1]
    assert above == '[cells."tflite-litert-2.3.0-py313"]'
    assert (lines[at - 1], len(lines) - len(before)) == ("", 7)


@pytest.mark.parametrize("id_", ["tf2-2.8.4-py310", "tflite-runtime-2.13.0-py310", "keras-3.12.4-jax-py311"])
def test_a_version_between_two_others_is_written_between_them(tmp_path, id_):
    name, version, backend = {
        "tf2-2.8.4-py310": ("tf2", "2.8.99", ""),
        "tflite-runtime-2.13.0-py310": ("tflite-runtime", "2.13.99", ""),
        "keras-3.12.4-jax-py311": ("keras", "3.13.0", "jax"),
    }[id_]
    addition, matrix = plan_addition(tmp_path, name, version, Index("3.11"), backend)
    order = list(matrix.cells)
    assert order[order.index(id_) + 1] == addition.cell.id
    assert addition.cell.env == MATRIX.cells[id_].env


def test_a_version_before_the_first(tmp_path):
    addition, matrix = plan_addition(tmp_path, "keras", "3.5.0", Index("3.11"), backend="jax")
    order = list(matrix.cells)
    assert order[order.index(addition.cell.id) + 1] == "keras-3.12.4-jax-py311"


def test_a_version_that_is_not_published_is_refused(tmp_path):
    with pytest.raises(
        MatrixError, match=r"the distributions require ai-edge-litert>=1\.0\.1, the cell pins ai-edge-litert==0\.9\.0"
    ):
        plan_addition(tmp_path, "litert", "0.9.0", Index("3.11"))


def test_a_patch_release_does_not_move_the_branch(tmp_path):
    addition, _ = plan_addition(tmp_path, "tf2", "2.8.99", Index("3.11"))
    assert addition.cell.branch is None and not addition.cell.caps
    assert "branch tf2-8 is proved by tf2-2.8.4-py310: it may move to this cell" in addition.notes


def test_a_back_end_is_resolved_anew_and_pinned(tmp_path):
    addition, matrix = plan_addition(tmp_path, "keras", "3.99.0", Index("3.12"), backend="jax")
    assert addition.cell.pins[:2] == ("keras==3.99.0", "jax==0.10.2")
    assert (addition.cell.id, addition.cell.branch) == ("keras-3.99.0-jax-py312", "keras3-99-jax")
    assert matrix.cells[addition.cell.id].env == {"KERAS_BACKEND": "jax"}


def test_a_version_of_onnx_is_added(tmp_path):
    addition, _ = plan_addition(tmp_path, "onnx", "1.99.0", Index("3.13"))
    assert (addition.cell.id, addition.cell.pins) == (
        "reference-onnx1.99.0-py313",
        ("onnx==1.99.0", "onnxruntime==1.31.1"),
    )


def test_the_newest_python_of_this_machine_is_taken():
    addition = add.plan(MATRIX, TEXT, "litert", "2.99.0", "", TODAY, Index("3.10", "3.11", "3.12"))
    assert (addition.cell.python, addition.cell.pythons) == ("3.12", ">=3.10,<3.13")
    with pytest.raises(MatrixError, match=r"wheels for 3\.14, but this machine has none"):
        add.plan(MATRIX, TEXT, "litert", "2.99.0", "", TODAY, Index("3.14"))


def test_the_wanted_python_is_taken_or_refused():
    def python_of(wanted, *pythons):
        return add.plan(MATRIX, TEXT, "litert", "2.99.0", "", TODAY, Index(*pythons), wanted).cell.python

    assert python_of("3.11", "3.11", "3.12", "3.13") == "3.11"
    with pytest.raises(MatrixError, match=r"no wheels for Python 3\.11, only for 3\.12, 3\.13"):
        python_of("3.11", "3.12", "3.13")
    with pytest.raises(MatrixError, match=r"no python3\.14"):
        python_of("3.14", "3.13", "3.14")


def test_a_tested_version_gets_a_cell_on_another_python():
    index = Index("3.11", "3.12", "3.13")
    addition = add.plan(MATRIX, TEXT, "litert", "2.3.0", "", TODAY, index, "3.12")
    assert (addition.cell.id, addition.cell.branch) == ("tflite-litert-2.3.0-py312", None)
    with pytest.raises(MatrixError, match=r"2\.3\.0 is there: tflite-litert-2\.3\.0-py313"):
        add.plan(MATRIX, TEXT, "litert", "2.3.0", "", TODAY, index, "3.13")


def test_a_machine_without_uv_is_told_before_anything_is_written(monkeypatch, capsys):
    def run(*arguments, **options):
        raise FileNotFoundError("uv")

    monkeypatch.setattr(add.subprocess, "run", run)
    monkeypatch.setattr(add, "set_uv_find_links", lambda: None)
    assert __main__.main(["add", "litert", "2.99.0"]) == 1
    assert "uv is not on PATH" in capsys.readouterr().err
    assert (ROOT / "matrix" / "matrix.toml").read_text(encoding="utf-8") == TEXT


def test_contributing_installs_what_the_renderers_need():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if line.startswith("python -m pip install nox uv")]
    assert {*__main__.NEEDED, "uv"} <= {*line.partition("&&")[0].split()}


def test_pins_that_conflict_are_reported():
    addition = add.plan(MATRIX, TEXT, "litert", "2.99.0", "", TODAY, Index("3.13", missing=["onnxruntime"]))
    assert addition.cell.pins == ("ai-edge-litert==2.99.0", "onnx==1.23.2")
    assert any("without onnxruntime" in line for line in addition.notes)


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [
        ("tf2", "9.9.9", r"tensorflow-cpu==9\.9\.9 resolves for no Python from 3\.7 to"),
        ("tf2", "newest", "'newest' is no version"),
        ("tf2", "2.21.0", r"tensorflow-cpu 2\.21\.0 is there: tf2-2\.21\.0-py313"),
        ("tf2", "2.0.4", "is there: tf2-2.0.4-py37"),
        ("mxnet", "1.0", "no framework 'mxnet'"),
    ],
)
def test_an_invalid_addition_is_refused(name, version, message):
    with pytest.raises(MatrixError, match=message):
        add.plan(MATRIX, TEXT, name, version, "tensorflow", TODAY, Index())


def test_a_failing_resolver_changes_no_file(monkeypatch, capsys):
    monkeypatch.setattr(
        add.subprocess, "run", lambda *a, **k: subprocess.CompletedProcess(a, 1, "", "there is no such version")
    )
    monkeypatch.setattr(add, "set_uv_find_links", lambda: None)
    assert __main__.main(["add", "tf2", "2.99.0"]) == 1
    assert "there is no such version" in capsys.readouterr().err
    assert (ROOT / "matrix" / "matrix.toml").read_text(encoding="utf-8") == TEXT


def test_a_failing_lock_does_not_change_the_matrix(tmp_path, monkeypatch):
    (tmp_path / "matrix").mkdir()
    path = tmp_path / "matrix" / "matrix.toml"
    path.write_text(TEXT, encoding="utf-8")
    monkeypatch.setattr(add, "ROOT", tmp_path)
    monkeypatch.setattr(add, "resolve", Index("3.13"))

    def fail(matrix, environment):
        raise MatrixError("cannot be resolved")

    monkeypatch.setattr(add, "lock", fail)
    with pytest.raises(MatrixError, match="cannot be resolved"):
        add.add("tf2", "2.99.0")
    assert path.read_text(encoding="utf-8") == TEXT


def test_failing_renderers_change_no_file(tmp_path, monkeypatch, capsys):
    (tmp_path / "matrix").mkdir()
    path = tmp_path / "matrix" / "matrix.toml"
    path.write_text(TEXT, encoding="utf-8")
    monkeypatch.setattr(add, "ROOT", tmp_path)
    monkeypatch.setattr(add, "resolve", Index("3.13"))
    locked = []

    def fail(matrix):
        raise ModuleNotFoundError("No module named 'click'", name="click")

    monkeypatch.setattr(add, "render_texts", fail)
    monkeypatch.setattr(add, "lock", lambda *arguments: locked.append(arguments))
    assert __main__.main(["add", "tf2", "2.99.0"]) == 1
    assert "`python -m matrix add` needs: pip install" in capsys.readouterr().err
    assert (path.read_text(encoding="utf-8"), locked) == (TEXT, [])


def test_the_session_for_drift_installs_what_the_renderers_need():
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    assert "session.install(%s)" % ", ".join('"%s"' % name for name in __main__.NEEDED) in noxfile


def test_an_unnamed_index_is_the_default(monkeypatch):
    (cell,) = [cell for cell in MATRIX.cells.values() if cell.index]
    monkeypatch.delenv("UV_INDEX", raising=False)
    assert f"UV_INDEX={cell.index}=" in lock.unknown_index(cell)
    with pytest.raises(MatrixError, match="Set UV_INDEX="):
        lock.lock(MATRIX, cell)
    monkeypatch.setenv("UV_INDEX", f"other=file:///other {cell.index}=file:///there")
    assert lock.unknown_index(cell) == ""
    assert lock.unknown_index(MATRIX.cells["tf1-1.15.5-py37"]) == ""
