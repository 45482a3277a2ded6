"""Branches: they follow from their cells, refuse a wrong Python, and a contradictory entry is an error that names it."""

import subprocess
import sys
import zipfile
from email.parser import Parser

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from matrix import branches, packages
from matrix.data import ROOT, MatrixError, load

MATRIX = load()
TEXT = (ROOT / "matrix" / "matrix.toml").read_text(encoding="utf-8")
PROJECTS = branches.projects(MATRIX)
NAMED = {project.name: project for project in PROJECTS}
EXTRAS = branches.extras(MATRIX, MATRIX.distributions["core"])
TF2_8 = '[cells."tf2-2.8.4-py310"]'


def load_changed(folder, old, new, behind=TF2_8):
    """Load matrix.toml with `old` replaced by `new`, at its first occurrence after the text `behind`."""
    start = TEXT.index(behind)
    assert old in TEXT[start:]
    path = folder / "matrix.toml"
    path.write_text(TEXT[:start] + TEXT[start:].replace(old, new, 1), encoding="utf-8")
    return load(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('pythons = ">=3.7,<3.11"\n', "", "branch tf2-8: pythons are missing"),
        ('pythons = ">=3.7,<3.11"', 'pythons = "3.7 to 3.10"', "pythons: Invalid specifier"),
        ('pythons = ">=3.7,<3.11"', 'pythons = ">=3.7,<3.10"', "without the cell's own 3.10"),
        ('pythons = ">=3.7,<3.11"', 'pythons = ">=3.7"', "has no upper bound"),
        ('pythons = ">=3.7,<3.11"', 'pythons = ">=3.6,<3.11"', "onnx-compat refuses 3.6"),
        ('branch = "tf2-8"', 'branch = "tf2-7"', "branch tf2-7 is proved by tf2-2.7.4-py39"),
        ('branch = "tf2-8"', 'branch = "TF2_8"', "small letters, digits and single hyphens"),
        ('branch = "tf2-8"', 'branch = "keras-jax"', r"onnx-compat\[keras-jax\] exists with another meaning"),
        ('branch = "tf2-8"', 'branch = "tflite"', r"onnx-compat\[tflite\] exists with another meaning"),
        ('branch = "tf2-8"\n', "", "pythons, caps, probability: fields of a branch, but the cell names none"),
        ('"numpy<2"', '"numpy<1.26"', "cap numpy<1.26: the cell pins numpy==1.26.4"),
        ('"tensorflow-cpu==2.8.4", ', "", "no framework of tf2 is pinned"),
    ],
)
def test_a_wrong_branch_is_refused(tmp_path, old, new, message):
    with pytest.raises(MatrixError, match=message):
        load_changed(tmp_path, old, new)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "tensorflow-probability~=0.24.0",
            "tensorflow-probability~=0.23.0",
            "tf2-17 brings tensorflow-probability~=0.23",
        ),
        (', "tf-keras~=2.17.0"', ', "tf-keras~=2.18.0"', "the cell pins tf-keras==2.17.0"),
        (
            'probability = ["tensorflow-probability~=0.24.0", "tf-keras~=2.17.0"]\n',
            "",
            "tf2-17 brings no tensorflow-prob",
        ),
    ],
)
def test_a_branch_brings_the_tested_probability(tmp_path, old, new, message):
    with pytest.raises(MatrixError, match=message):
        load_changed(tmp_path, old, new, behind='[cells."tf2-2.17.1-py312"]')


@pytest.mark.parametrize(("branch", "cell"), branches.branches(MATRIX).items())
def test_a_branch_brings_the_pins_of_its_cell_and_the_needs_of_its_import(branch, cell):
    project = NAMED["onnx-compat-" + branch]
    shim = MATRIX.distributions[cell.shim].name
    assert project.version == MATRIX.version and f"{shim}=={MATRIX.version}" in project.requires
    assert set(cell.caps) <= set(project.requires)
    assert SpecifierSet(project.pythons).contains(cell.python)
    brought = {requirement for extra in project.extras.values() for requirement in extra}
    requirements = [Requirement(requirement) for requirement in (*project.requires, *brought)]
    for pin in MATRIX.frameworks(cell):
        (match,) = [requirement for requirement in requirements if requirement.name == pin.name]
        (pinned,) = pin.specifier
        assert match.specifier.contains(pinned.version)
        major, second = map(int, pinned.version.split(".")[:2])
        assert not match.specifier.contains(f"{major}.{second + 1}")
        assert not match.specifier.contains(f"{major}.{second - 1}.99" if second else f"{major - 1}.99")


def test_tensorflow_is_brought_in_either_build():
    assert NAMED["onnx-compat-tf2-8"].extras == {
        "tensorflow": ("tensorflow~=2.8.4",),
        "tensorflow-cpu": ("tensorflow-cpu~=2.8.4",),
    }
    assert EXTRAS["tf2-8"] == (f"onnx-compat-tf2-8[tensorflow]=={MATRIX.version}",)
    assert EXTRAS["tf2-8-cpu"] == (f"onnx-compat-tf2-8[tensorflow-cpu]=={MATRIX.version}",)
    assert "tf2-0-cpu" not in EXTRAS, "there was no such build yet"


def test_keras_is_pinned_with_its_back_end():
    project = NAMED["onnx-compat-keras3-jax"]
    assert list(project.extras) == ["jax"]
    assert [requirement.partition("~=")[0] for requirement in project.extras["jax"]] == ["keras", "jax"]
    assert not any(requirement.startswith("keras~=") for requirement in project.requires), (
        "pip would miss that before it sees the Python"
    )


def test_every_branch_has_an_extra_that_installs_it():
    for branch in branches.branches(MATRIX):
        (extra,) = EXTRAS[branch]
        requirement = Requirement(extra)
        assert requirement.marker is None
        assert requirement.extras <= set(NAMED[requirement.name].extras)
    assert EXTRAS["tf1"] == (f"onnx-compat[tf1-15]=={MATRIX.version}",)


def test_only_the_pair_of_its_tensorflow_fits_a_branch():
    pairs = {project.version: project for project in PROJECTS if project.name == branches.PROBABILITY}
    (probability,) = map(Requirement, EXTRAS["probability"])
    for branch, cell in branches.branches(MATRIX).items():
        markers = [
            Requirement(requirement)
            for requirement in NAMED["onnx-compat-" + branch].requires
            if branches.PROBABILITY in requirement
        ]
        assert len(markers) == bool(cell.probability)
        for marker in markers:
            (version,) = [requirement for requirement in pairs if marker.specifier.contains(requirement)]
            assert pairs[version].extras == {next(iter(probability.extras)): cell.probability}
            assert pairs[version].pythons == cell.pythons


def test_minors():
    assert branches.minors(">=3.8,<3.11") == ["3.8", "3.9", "3.10"]


def test_a_wheel_has_all_metadata(tmp_path):
    roots = packages.write(MATRIX, tmp_path / "projects")
    (root,) = [root for root in roots if root.name.startswith("onnx-compat-tf2-8-")]
    (wheel,) = packages.build([root], tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (name,) = [name for name in names if name.endswith("/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    assert all(name.partition("/")[0].endswith(".dist-info") for name in names), "metadata and nothing else"
    assert any(name.endswith("LICENSE") for name in names)
    assert SpecifierSet(metadata["Requires-Python"]) == SpecifierSet(">=3.7,<3.11")
    assert "protobuf<3.21" in metadata.get_all("Requires-Dist")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--no-index", "--python-version=3.12",
         "--only-binary=:all:", "--target", str(tmp_path / "there"), str(wheel)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0 and "requires a different Python: 3.12" in done.stderr
