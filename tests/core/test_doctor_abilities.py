"""The table of `doctor`: each task is possible with what is installed, or says what makes it possible."""

from types import SimpleNamespace
from typing import Any, Dict, List, Optional, Sequence

import pytest
from bundles import Keeper
from registered import register

from onnx_compat.cli import doctor_abilities, main
from onnx_compat.cli.doctor_abilities import Ability, list_abilities
from onnx_compat.discovery import environment

PACKAGES = {
    "quantise to dynamic, int8 and int16x8": ("ai_edge_quantizer", "pip install 'onnx-compat[quantize]'"),
    "calibrate with images": ("PIL", "pip install 'onnx-compat[images]'"),
    "compare with onnxruntime": ("onnxruntime", "pip install 'onnx-compat[onnxruntime]'"),
}
#: The tasks of formats, with the format and the shim of the library that writes it.
FORMATS = {
    "write and run .tflite files": ("tflite", "tflite"),
    "write and run .keras files": ("keras", "keras"),
    "write and run SavedModels": ("saved_model", "tf2"),
    "write and run frozen graphs (.pb)": ("graphdef", "tf1"),
}
REFERENCE: Any = SimpleNamespace(name="reference", available=True)


def rows(monkeypatch: pytest.MonkeyPatch, shims: Sequence[Any], installed: Sequence[str] = ()) -> Dict[str, Ability]:
    """Return task -> row for these shims, besides the reference, and these installed packages."""
    monkeypatch.setattr(environment, "find_module", lambda name: object() if name in installed else None)
    monkeypatch.setattr(environment, "distribution_of", lambda name: None if name == "PIL" else name + " 1")
    monkeypatch.setattr(doctor_abilities, "how_to_get", lambda name: "get " + name)
    monkeypatch.setattr(doctor_abilities, "sys", SimpleNamespace(version_info=(3, 12, 0)))
    table = list_abilities([*shims, REFERENCE])
    assert [row.task for row in table] == ["run ONNX models", *FORMATS, *PACKAGES]
    return {row.task: row for row in table}


def keeper(available: bool = True) -> Any:
    return SimpleNamespace(name="keeper", available=available)


def test_without_anything_only_the_reference_runs_models(monkeypatch: pytest.MonkeyPatch) -> None:
    table = rows(monkeypatch, [])
    assert table["run ONNX models"] == ("run ONNX models", True, "reference", None)
    assert all(table[task] == (task, False, "", "get " + shim) for task, (_, shim) in FORMATS.items())
    assert all(table[task] == (task, False, "", hint) for task, (_, hint) in PACKAGES.items())


@pytest.mark.parametrize("formats", [["tflite"], ["tflite", "saved_model"], ["keras", "graphdef"]])
def test_a_format_is_possible_with_each_working_shim_that_writes_it(
    formats: List[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = Keeper()
    shim.formats = {name: ("." + name, "a file") for name in formats}
    register(monkeypatch, shim)
    table = rows(monkeypatch, [keeper()])
    assert table["run ONNX models"].by == "keeper, reference"
    for task, (name, writer) in FORMATS.items():
        possible = name in formats
        assert table[task] == (task, possible, "keeper" if possible else "", None if possible else "get " + writer)


def test_a_shim_that_does_not_work_gives_no_format(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, Keeper())
    table = rows(monkeypatch, [keeper(available=False)])
    assert table["run ONNX models"].by == "reference"
    assert not any(table[task].possible for task in FORMATS)


@pytest.mark.parametrize("task", PACKAGES)
def test_a_package_that_is_installed_is_named(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, Keeper())
    module, _ = PACKAGES[task]
    table = rows(monkeypatch, [keeper()], [module])
    assert table[task] == (task, True, "PIL" if module == "PIL" else module + " 1", None)
    for other_task, (_, hint) in PACKAGES.items():
        assert other_task == task or table[other_task] == (other_task, False, "", hint)


def test_the_quantiser_needs_a_writer_of_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    quantizer = rows(monkeypatch, [], ["ai_edge_quantizer"])["quantise to dynamic, int8 and int16x8"]
    assert quantizer[1:] == (False, "", "get tflite")


@pytest.mark.parametrize(("installed", "verdict"), [("onnxruntime", "yes"), (None, "no")])
def test_doctor_prints_the_table(
    installed: Optional[str], verdict: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    rows(monkeypatch, [], [installed] if installed else [])
    package = SimpleNamespace(origin=None, submodule_search_locations=None)
    monkeypatch.setattr(environment, "find_module", lambda name: package if name == installed else None)
    main(["doctor"])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("compare with onnxruntime")]
    assert line.split()[3] == verdict and ("pip install" in line) == (verdict == "no")
