"""Dependencies of cells: the files and the entries of matrix.toml that can change the outcome of a cell."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from matrix.data import ROOT, load
from matrix.run import done, inputs, since
from matrix.run.choose import choose

MATRIX = load()
ALL = set(MATRIX.cells)
TEXT = (ROOT / inputs.ENTRIES).read_text(encoding="utf-8")


def of(*shims: str) -> set[str]:
    return {cell.id for cell in MATRIX.cells.values() if cell.shim in shims}


def gate(*shims: str) -> set[str]:
    return {id for id in of(*shims) if MATRIX.cells[id].tier == "gate"}


def list_required(*shims: str) -> set[str]:
    return {id for id in of(*shims) if MATRIX.cells[id].is_required}


@pytest.mark.parametrize(
    ("path", "cells"),
    [
        ("onnx_compat/ops/math.py", ALL),
        ("pyproject.toml", ALL),
        ("tests/conformance/conftest.py", ALL),
        ("tests/conftest.py", ALL),
        ("matrix/harness/run.py", ALL),
        ("matrix/fuzz/execution.py", ALL),
        ("matrix/fuzz/templates/linear.py", set()),
        ("tests/fuzz/cases/tflite-error-537a0ec7.json", ALL),
        ("matrix/suites/fetch.py", ALL),
        ("matrix/zoo/vision.py", ALL),
        ("matrix/cells.py", ALL),
        ("noxfile.py", ALL),
        ("something/that/nobody/knows.py", ALL),
        ("shims/tf2/onnx_compat_tf2/shim.py", of("tf2")),
        ("shims/tf2/pyproject.toml", of("tf2")),
        ("shims/tensorflow/onnx_compat_tensorflow/emitter.py", of("tf1", "tf2", "keras")),
        ("tests/shims/primitives/cases/random.py", ALL),
        ("tests/shims/test_gradient.py", ALL),
        ("tests/shims/keras/test_keras_models.py", of("keras")),
        ("tests/shims/tflite/test_emitted.py", of("tflite")),
        ("tests/shims/test_tensorflow_fast.py", of("tf1", "tf2")),
        ("tests/shims/test_tf1_session.py", of("tf1")),
        ("tests/core/test_layout.py", of("reference")),
        ("examples/toy_shim/toy.py", of("reference")),
        ("docs/usage.md", of("reference") | gate("tflite")),
        ("docs/howto/finetune-keras.md", gate("keras")),
        ("docs/howto/tensorflow-serving.md", gate("tf1", "tf2")),
        ("docs/how/sizes.md", of("reference")),
        ("docs/cli.md", of("reference") | gate("tf2") | list_required("tflite")),
        ("docs/howto/pytorch-to-phone.md", gate("tflite") | {"keras-3.15.1-torch-py311"}),
        ("docs/reference/formats.md", list_required("tf1", "tf2", "tflite", "keras")),
        ("tests/gaps/recorded.toml", ALL),
        ("tests/gaps/tf2.toml", of("tf2")),
        ("tests/gaps/primitives-tflite.toml", of("tflite")),
        ("matrix/constraints/tf2-2.4.4-py38.txt", {"tf2-2.4.4-py38"}),
        ("matrix/constraints/onnx2tf-2.6.9-py312.txt", set()),
        ("matrix/results/tf2-2.4.4-py38.json", set()),
        ("matrix/run/since.py", set()),
        ("matrix/scoreboard/page.py", set()),
        ("matrix/peers/run.py", set()),
        ("docs/matrix.md", set()),
        ("README.md", gate("tflite")),
        ("CONTRIBUTING.md", set()),
        ("mkdocs.yml", set()),
        ("shims/tf2/LICENSE", set()),
        ("tests/matrix/test_run_since.py", set()),
        ("benchmarks/__main__.py", set()),
        ("tox.ini", set()),
    ],
)
def test_a_file_affects_the_cells_that_read_it(path: str, cells: set[str]) -> None:
    assert {cell.id for cell in MATRIX.cells.values() if inputs.depends_on(MATRIX, cell, path)} == cells


def test_the_paths_of_the_table_exist() -> None:
    """Each pattern matches a file. After a rename, a pattern would match nothing without notice."""
    for pattern in (*inputs.UNREAD, *inputs.CORE_ONLY):
        known = [path for path in inputs._contents() if inputs._matches_any(path, [pattern])]
        assert known, pattern


@pytest.mark.parametrize(
    ("old", "new", "cells"),
    [
        ('version = "0.1.0"', 'version = "0.2.0"', ALL),
        ('"1.23.2" = 28', '"1.24.0" = 29', ALL),
        ("\n[tools]\n", "\n[tools]\nmore = []\n", set()),
        ("# ---", "# more ---", set()),
        ('"onnx==1.13.1"', '"onnx==1.13.0"', {"reference-onnx1.13.1-py37"}),
        ('name = "onnx-compat-tensorflow"', 'name = "onnx-compat-tf"', of("tf1", "tf2", "keras")),
        ('name = "onnx-compat-tflite"', 'name = "onnx-compat-lite"', of("tflite")),
    ],
)
def test_an_entry_affects_the_cells_that_depend_on_it(old: str, new: str, cells: set[str]) -> None:
    assert old in TEXT
    changed = TEXT.replace(old, new, 1)
    every = MATRIX.cells.values()
    differing = (
        c.id for c in every if inputs.relevant_entries(MATRIX, c, TEXT) != inputs.relevant_entries(MATRIX, c, changed)
    )
    assert set(differing) == cells


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a small git repository with one commit and with the cells of this repository."""
    files = {"matrix/matrix.toml": TEXT, "docs/matrix.md": "a\n", "shims/tf2/onnx_compat_tf2/shim.py": "a\n"}
    files |= {"tests/gaps/keras.toml": "", ".gitignore": "results/\n", "tests/core/test_a.py": "a\n"}
    for path, text in files.items():
        write(tmp_path, path, text)
    monkeypatch.setattr(inputs, "ROOT", tmp_path)
    monkeypatch.setattr(since, "ROOT", tmp_path)
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    return tmp_path


def write(root: Path, path: str, text: str) -> None:
    inputs._contents.cache_clear()
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")


def test_the_affected_cells_are_listed_with_reasons(repository: Path) -> None:
    cells = list(MATRIX.cells.values())
    assert since.find_affected(MATRIX, cells, "HEAD") == {}
    write(repository, "docs/matrix.md", "b\n")
    write(repository, "results/x.json", "{}")
    assert since.find_affected(MATRIX, cells, "HEAD") == {}
    write(repository, "shims/tf2/onnx_compat_tf2/shim.py", "b\n")
    (repository / "tests/core/test_a.py").unlink()
    reasons = since.find_affected(MATRIX, cells, "HEAD")
    assert set(reasons) == of("tf2", "reference")
    assert reasons["tf2-2.4.4-py38"] == ["shims/tf2/onnx_compat_tf2/shim.py"]
    write(repository, inputs.ENTRIES, TEXT.replace('"keras==3.0.5"', '"keras==3.0.4"'))
    write(repository, "shims/keras/new.py", "")
    reasons = since.find_affected(MATRIX, [cell for cell in cells if cell.shim == "keras"], "HEAD")
    assert set(reasons) == of("keras")
    old = next(cell.id for cell in cells if "keras==3.0.5" in cell.pins)
    assert reasons[old] == ["shims/keras/new.py", f"{inputs.ENTRIES}: cells.{old}"]
    assert [id for id, why in reasons.items() if len(why) > 1] == [old]


def test_an_unknown_revision_is_an_error(repository: Path) -> None:
    with pytest.raises(Exception, match=r"git diff .* nowhere"):
        since.changed_files("nowhere")


def test_a_cell_is_done_until_something_that_it_reads_changes(repository: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    keras, tf2 = MATRIX.cells["keras-3.15.1-jax-py311"], MATRIX.cells["tf2-2.4.4-py38"]
    for cell in (keras, tf2):
        write(repository, f"results/{cell.id}.json", "{}")
        assert not done.is_current(cell.id, inputs.digest(MATRIX, cell), "passed", results)
        done.write(cell.id, inputs.digest(MATRIX, cell), "passed", 5.0, results)

    def stand() -> list[bool]:
        return [done.is_current(cell.id, inputs.digest(MATRIX, cell), "passed", results) for cell in (keras, tf2)]

    assert stand() == [True, True]
    write(repository, "docs/matrix.md", "c\n")
    assert stand() == [True, True]
    write(repository, "tests/gaps/keras.toml", "# another\n")
    assert stand() == [False, True]
    write(repository, "tests/conformance/test_new.py", "")
    assert stand() == [False, False]
    (repository / "tests/conformance/test_new.py").unlink()
    inputs._contents.cache_clear()
    assert stand() == [False, True]
    write(repository, f"results/{tf2.id}.json", '{"other": 1}')
    assert stand() == [False, False], "others were written since"


def test_only_a_cell_that_passed_is_done(tmp_path: Path) -> None:
    for status, good in (("failed", False), ("broken", False), ("passed", True)):
        done.write("x", "inputs", status, 5.0, tmp_path)
        assert done.is_current("x", "inputs", "passed", tmp_path) == good
    done.forget("x", tmp_path)
    assert done.read("x", tmp_path) is None
    (tmp_path / "done" / "x.json").write_text("half of it", encoding="utf-8")
    assert done.read("x", tmp_path) is None


def test_the_choice_of_cells() -> None:
    every = choose(MATRIX, [], [], [], "cpu")
    assert every == [cell for cell in MATRIX.cells.values() if cell.runner == "cpu"]
    gate = choose(MATRIX, [], ["gate"], ["tf2", "keras"], "cpu")
    assert {(cell.tier, cell.shim) for cell in gate} == {("gate", "tf2"), ("gate", "keras")}
    gpu = next(cell for cell in MATRIX.cells.values() if cell.runner == "gpu")
    assert choose(MATRIX, [gpu.id, gpu.id], [], [], "cpu") == [gpu], "who names it means it"
    assert choose(MATRIX, [gpu.id], ["gate"], ["tf1"], "cpu")[-1] == gpu
    assert choose(MATRIX, [], [], [], "gpu") == [cell for cell in MATRIX.cells.values() if "gpu" in cell.tags]
    for arguments in ((["no-such"], []), ([], ["tf3"])):
        with pytest.raises(Exception, match=r"no cell no-such|no shim tf3"):
            choose(MATRIX, arguments[0], [], arguments[1], "cpu")
