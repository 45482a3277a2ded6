"""The checks before a release detect the faults that they are for."""

import io
import tarfile
import zipfile

import pytest
from packaging.requirements import Requirement

from matrix.branches import branch_extras
from matrix.data import MatrixError, load
from matrix.release import build, constraints, contents, sbom
from matrix.release.notes import exact_versions, notes, section

MATRIX = load()
PACKAGES = {"a-b": "a_b"}
ABOUT = "a_b-1.0.dist-info"
CHANGELOG = "# Changelog\n\n## Unreleased\n\n- new\n\n## 1.2.1 - 2026-01-01\n\n- a\n\n## 1.2\n\n- b\n"


def wheel(folder, *more):
    names = [f"{ABOUT}/METADATA", f"{ABOUT}/licenses/LICENSE", "a_b/__init__.py", "a_b/py.typed", *more]
    with zipfile.ZipFile(folder / "a_b-1.0-py3-none-any.whl", "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return folder / "a_b-1.0-py3-none-any.whl"


def sdist(folder, *more):
    with tarfile.open(folder / "a_b-1.0.tar.gz", "w:gz") as archive:
        for name in ["LICENSE", "PKG-INFO", "pyproject.toml", "a_b/__init__.py", *more]:
            archive.addfile(tarfile.TarInfo(f"a_b-1.0/{name}"), io.BytesIO())
    return folder / "a_b-1.0.tar.gz"


@pytest.mark.parametrize("make", [wheel, sdist])
@pytest.mark.parametrize(
    ("stray", "message"),
    [
        ("tests/x.py", "tests does not belong at its top"),
        ("docs/page.md", "docs does not belong at its top"),
        ("a_b/tests/x.py", "a_b/tests/x.py is a test"),
        ("a_b/test_x.py", "a_b/test_x.py is a test"),
        ("a_b/conftest.py", "a_b/conftest.py is a test"),
    ],
)
def test_files_that_do_not_belong_into_a_distribution_are_named(make, stray, message, tmp_path):
    assert contents.problems(make(tmp_path), PACKAGES) == []
    assert f"{make(tmp_path, stray).name}: {message}" in contents.problems(make(tmp_path, stray), PACKAGES)


@pytest.mark.parametrize("make", [wheel, sdist])
def test_a_distribution_without_an_entry_is_named(make, tmp_path):
    """Each name on the index is a project with an owner: a release has no project without code."""
    path = make(tmp_path)
    assert contents.problems(path, {}) == [f"{path.name}: a-b is no distribution of matrix.toml"]


def test_a_missing_package_is_reported(tmp_path):
    wrong = contents.problems(wheel(tmp_path), {"a-b": "b"})
    assert "a_b-1.0-py3-none-any.whl: b/__init__.py is missing" in wrong


def test_builds_that_differ_are_named(tmp_path):
    for name, text in {"one/a": "1", "two/a": "1", "one/b": "1", "two/b": "2", "two/c": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    wrong = build.find_differences(tmp_path / "one", tmp_path / "two")
    assert [line.partition(":")[0] for line in wrong] == ["b", "c"]


def test_a_version_has_only_its_section():
    assert section(CHANGELOG, "1.2") == "- b"
    assert section(CHANGELOG, "1.2.1") == "- a"
    assert section(CHANGELOG, "1") is None
    assert notes(CHANGELOG, "1.2", None) == "- b\n"


@pytest.mark.parametrize(
    ("version", "tag", "message"),
    [("1.3", None, "nothing under `## 1.3`"), ("1.2", "v1.3", "the tag is v1.3"), ("1.2", "v1.2", "Unreleased")],
)
def test_a_release_without_a_changelog_section_fails(version, tag, message):
    with pytest.raises(MatrixError, match=message):
        notes(CHANGELOG, version, tag)


def test_the_present_version_has_a_section():
    changelog = (build.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert notes(changelog, MATRIX.version, None)
    assert section(changelog, "Unreleased") is not None, "where the next line goes"


def test_every_distribution_and_every_branch_has_a_bill_of_materials():
    owners = list(sbom.bill_owners(MATRIX))
    named = [owner.title for owner in owners]
    branches = [cell.branch for cell in MATRIX.cells.values() if cell.branch]
    assert named == [
        *(name.name for name in MATRIX.distributions.values()),
        *(f"onnx-compat-{name}" for name in branches),
    ]
    (owner,) = [owner for owner in owners if owner.title == "onnx-compat-tf2-8"]
    assert (owner.name, owner.requirement) == ("onnx-compat-tf2", "onnx-compat-tf2[tf2-8-cpu]")


def test_a_release_has_two_files_for_each_distribution_with_code():
    assert [distribution.name for distribution in MATRIX.distributions.values()] == [
        "onnx-compat",
        "onnx-compat-tensorflow",
        "onnx-compat-tf1",
        "onnx-compat-tf2",
        "onnx-compat-tflite",
        "onnx-compat-keras",
    ]
    for distribution in MATRIX.distributions.values():
        assert any((distribution.root / distribution.package).rglob("*.py")), distribution.name


ADDRESS = f"https://github.com/onnx-compat/onnx-compat/releases/download/v{MATRIX.version}/constraints-"


@pytest.mark.parametrize(
    ("id_", "requirements"),
    [
        ("reference-onnx1.12.0-py37", "'onnx-compat=={version}'"),
        ("tf2-2.8.4-py310", "'onnx-compat[tf2-8-cpu]=={version}'"),
        ("tf1-1.15.5-probability-py37", "'onnx-compat[tf1-15-probability]=={version}'"),
        ("tf2-2.2.3-probability-py38", "'onnx-compat[tf2-2-cpu-probability]=={version}'"),
        ("tf2-2.21.0-tf-keras-py313", "'onnx-compat[tf2-21]=={version}' 'tf-keras'"),
        ("tf2-2.21.0-gpu-py313", "'onnx-compat[tf2-21]=={version}' 'tensorflow[and-cuda]'"),
        ("tf1-1.15.5-nvidia-py38", "'onnx-compat-tf1=={version}' 'nvidia-tensorflow'"),
        ("tflite-litert-2.1.6-py313", "'onnx-compat[litert2-1]=={version}'"),
        ("keras-3.15.1-jax-py311", "'onnx-compat[keras3-15-jax]=={version}'"),
    ],
)
def test_the_constraints_of_a_cell_have_their_command(id_, requirements):
    command = constraints.install_command(MATRIX, MATRIX.cells[id_])
    assert command == f"pip install {requirements.format(version=MATRIX.version)} -c {ADDRESS}{id_}.txt"


@pytest.mark.parametrize("cell", [cell for cell in MATRIX.cells.values() if cell.branch], ids=lambda cell: cell.id)
def test_the_constraints_of_a_branch_pin_the_build_that_the_command_installs(cell):
    pins = dict(line.split("==") for line in cell.constraints.read_text(encoding="utf-8").splitlines())
    for requirement in map(Requirement, branch_extras(MATRIX, cell)[constraints.pinned_build(MATRIX, cell)]):
        assert requirement.specifier.contains(pins[requirement.name]), requirement


def test_every_locked_cell_is_a_file_and_a_command_of_the_release():
    locked = [cell.id for cell in MATRIX.cells.values() if cell.constraints.exists()]
    files = constraints.files(MATRIX)
    assert [f"constraints-{id_}.txt" for id_ in locked] == list(files)
    assert all(path.is_file() for path in files.values())
    text = exact_versions(MATRIX)
    page = (build.ROOT / "docs" / "reference" / "versions.md").read_text(encoding="utf-8")
    for id_ in locked:
        command = constraints.install_command(MATRIX, MATRIX.cells[id_])
        assert command in text.splitlines() and command in page.splitlines()
    publish = (build.ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert "release/constraints/*" in publish


def test_the_output_of_uv_is_parsed():
    assert sbom._parse_line('tomli==2.0 ; python_version < "3.11"  # via a, b[extra], -r -') == (
        "tomli",
        "2.0",
        ("a", "b"),
    )
