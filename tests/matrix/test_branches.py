"""Branches: they follow from their cells, and a contradictory entry is an error that names it."""

import re

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from matrix import branches
from matrix.data import ROOT, MatrixError, load

MATRIX = load()
TEXT = (ROOT / "matrix" / "matrix.toml").read_text(encoding="utf-8")
EXTRAS = branches.extras(MATRIX, MATRIX.distributions["core"])
OF_TF2 = branches.extras(MATRIX, MATRIX.distributions["tf2"])
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
        ('branch = "tf2-8"', 'branch = "tf2-8"\naliases = ["tf2-7"]', "alias tf2-7: another branch has this name"),
        ('branch = "tf2-8"', 'branch = "tensorflow"', r"onnx-compat-tf2\[tensorflow\] exists with another meaning"),
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
    published = branches.extras(MATRIX, MATRIX.distributions[cell.shim])
    builds = [extra for extra in (branch, branch + branches.CPU) if extra in published]
    brought = [Requirement(requirement) for extra in builds for requirement in published[extra]]
    last = branches.minors(cell.pythons)[-1]
    for cap in map(Requirement, cell.caps):
        (marker,) = {brought_cap.marker for brought_cap in brought if brought_cap.name == cap.name}
        assert marker.evaluate({"python_version": last}), "on each Python of the branch"
    for pin in MATRIX.frameworks(cell):
        match = next(requirement for requirement in brought if requirement.name == pin.name)
        (pinned,) = pin.specifier
        assert match.marker is None, "a marker would install nothing on another Python, without a message"
        assert match.specifier.contains(pinned.version)
        major, second = map(int, pinned.version.split(".")[:2])
        assert not match.specifier.contains(f"{major}.{second + 1}")
        assert not match.specifier.contains(f"{major}.{second - 1}.99" if second else f"{major - 1}.99")


def test_tensorflow_is_brought_in_either_build():
    caps = ('protobuf<3.21; python_version < "3.11"', 'numpy<2; python_version < "3.11"')
    assert OF_TF2["tf2-8"] == ("tensorflow~=2.8.4", *caps)
    assert OF_TF2["tf2-8-cpu"] == ("tensorflow-cpu~=2.8.4", *caps)
    assert EXTRAS["tf2-8"] == (f"onnx-compat-tf2[tf2-8]=={MATRIX.version}",)
    assert EXTRAS["tf2-8-cpu"] == (f"onnx-compat-tf2[tf2-8-cpu]=={MATRIX.version}",)
    assert "tf2-0-cpu" not in EXTRAS, "there was no such build yet"


@pytest.mark.parametrize("branch", branches.branches(MATRIX))
def test_the_name_of_a_branch_says_what_it_pins(branch):
    """`keras3-15-jax`: the name of the framework, its minor version, and the back end of Keras."""
    cell = branches.branches(MATRIX)[branch]
    framework = MATRIX.frameworks(cell)[0]
    assert f"{branches.minor(framework).replace('.', '-')}" in branch
    match = re.fullmatch(r"(tf|tflite|litert)\d+-\d+|keras\d+-\d+-(tensorflow|jax|torch)", branch)
    assert match
    if match[2]:
        assert match[2] in {pin.name.removesuffix(branches.CPU) for pin in MATRIX.frameworks(cell)}


def test_keras_is_pinned_with_its_back_end():
    published = branches.extras(MATRIX, MATRIX.distributions["keras"])
    assert [requirement.partition("~=")[0] for requirement in published["keras3-15-jax"]] == ["keras", "jax"]


def test_every_extra_of_the_core_leads_to_an_extra_of_a_shim():
    for cell in branches.branches(MATRIX).values():
        for name, extra in {
            **{name: name for name in branches.branch_extras(MATRIX, cell)},
            **branches.aliases(MATRIX, cell),
        }.items():
            (requirement,) = map(Requirement, EXTRAS[name])
            shim = MATRIX.own(str(requirement))
            assert (requirement.marker, requirement.extras, str(requirement.specifier)) == (
                None,
                {extra},
                f"=={MATRIX.version}",
            )
            assert extra in branches.extras(MATRIX, shim)
    assert EXTRAS["tf1"] == (f"onnx-compat-tf1[tf1-15]=={MATRIX.version}",)


def test_an_earlier_name_installs_the_same():
    assert EXTRAS["keras3-jax"] == EXTRAS["keras3-15-jax"]
    assert EXTRAS["keras3-tensorflow-cpu"] == EXTRAS["keras3-15-tensorflow-cpu"]


@pytest.mark.parametrize(
    "cell", [cell for cell in branches.branches(MATRIX).values() if cell.probability], ids=lambda cell: cell.id
)
def test_probability_is_the_pair_of_the_branch(cell):
    published = branches.branch_extras(MATRIX, cell)
    pair = f"{cell.branch}{branches.PROBABILITY}"
    assert published[pair] == (*published[cell.branch], *cell.probability)
    names = {Requirement(requirement).name for requirement in cell.probability}
    of_cpu = f"{cell.branch}{branches.CPU}{branches.PROBABILITY}"
    has_cpu = f"{cell.branch}{branches.CPU}" in published
    assert (of_cpu in published) == (has_cpu and "tf-keras" not in names), "tf-keras requires the full build"


@pytest.mark.parametrize(
    ("python", "branch"),
    [
        ("3.7", "tf1-15"),
        ("3.8", "tf2-13"),
        ("3.9", "tf2-20"),
        ("3.10", "tf2-21"),
        ("3.13", "tf2-21"),
        ("3.99", "tf2-21"),
    ],
)
def test_probability_without_a_version_is_the_pair_of_the_newest_branch(python, branch):
    requirements = map(Requirement, EXTRAS["probability"])
    chosen = [requirement for requirement in requirements if requirement.marker.evaluate({"python_version": python})]
    wanted = map(Requirement, branches.branches(MATRIX)[branch].probability)
    assert [(pair.name, pair.specifier) for pair in chosen] == [(pair.name, pair.specifier) for pair in wanted]


def test_a_shim_whose_pythons_end_keeps_them():
    """tf1 holds code, and its Requires-Python names the reason of a refusal."""
    accepted = SpecifierSet(MATRIX.requires_python(MATRIX.distributions["tf1"]))
    assert accepted.contains("3.8.1") and not accepted.contains("3.9.0")


def test_minors():
    assert branches.minors(">=3.8,<3.11") == ["3.8", "3.9", "3.10"]


@pytest.mark.parametrize(
    ("id_", "branch"),
    [("tflite-litert-2.1.6-py313", "litert2-1"), ("tf2-2.21.0-gpu-py313", "tf2-21"), ("tf1-1.15.5-nvidia-py38", None),
     ("reference-onnx1.12.0-py37", None)],
)  # fmt: skip
def test_the_branch_of_a_cell_has_its_frameworks(id_, branch):
    proving = branches.branch_of(MATRIX, MATRIX.cells[id_])
    assert (proving.branch if proving else None) == branch
