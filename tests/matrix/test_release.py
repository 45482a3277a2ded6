"""The checks before a release detect the faults that they are for."""

import io
import tarfile
import zipfile

import pytest

from matrix.data import MatrixError, load
from matrix.release import build, contents, sbom
from matrix.release.notes import notes, section

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


def test_a_package_does_not_belong_into_a_branch(tmp_path):
    assert contents.problems(wheel(tmp_path), {}) == ["a_b-1.0-py3-none-any.whl: a_b does not belong at its top"]


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
    named = [subject.name for subject in sbom.subjects(MATRIX)]
    branches = [cell.branch for cell in MATRIX.cells.values() if cell.branch]
    assert named == [
        *(name.name for name in MATRIX.distributions.values()),
        *(f"onnx-compat-{name}" for name in branches),
    ]


def test_the_output_of_uv_is_parsed():
    assert sbom._parse_line('tomli==2.0 ; python_version < "3.11"  # via a, b[extra], -r -') == (
        "tomli",
        "2.0",
        ("a", "b"),
    )
