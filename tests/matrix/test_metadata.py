"""The metadata of the built wheels, as the package index shows it: authors, addresses, classifiers, extras, links."""

import json
import re
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from matrix.branches import extras
from matrix.data import ROOT, MatrixError, load
from matrix.render import projects, readme

MATRIX = load()
ABOUT = MATRIX.metadata
INLINE = re.compile(r"!?\[[^\[\]]*\]\(([^)\s]+)\)")
LABEL = re.compile(r"!?\[[^\[\]]*\]\[([^\[\]]+)\]")
DEFINITION = re.compile(r"^\[([^\[\]]+)\]: (\S+)$", re.MULTILINE)


@pytest.fixture(name="built", scope="module", params=MATRIX.distributions.values(), ids=MATRIX.distributions)
def build(request, tmp_path_factory) -> "tuple[object, Message]":
    """Return a distribution and the METADATA of its wheel."""
    from hatchling.builders.wheel import WheelBuilder

    folder = tmp_path_factory.mktemp("wheel")
    (wheel,) = WheelBuilder(str(request.param.root)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return request.param, Parser().parsestr(archive.read(name).decode())


def test_a_wheel_names_its_authors_and_addresses(built):
    _, metadata = built
    assert metadata["Author"] == "The onnx-compat contributors"
    addresses = dict(value.split(", ") for value in metadata.get_all("Project-URL"))
    assert addresses == projects.urls(MATRIX)
    assert {"Documentation", "Source", "Issues", "Changelog"} == set(addresses)
    assert all(address.startswith("https://") for address in addresses.values())
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().strip()


def test_the_classifiers_are_the_pythons_of_the_cells(built):
    distribution, metadata = built
    named = [value for value in metadata.get_all("Classifier") if re.search(r":: 3\.\d+$", value)]
    cells = [cell for cell in MATRIX.cells.values() if distribution in MATRIX.closure(cell.shim)]
    assert {value.rpartition(" ")[2] for value in named} == {cell.python for cell in cells}
    accepted = SpecifierSet(metadata["Requires-Python"])
    assert accepted == SpecifierSet(MATRIX.requires_python(distribution))
    assert all(accepted.contains(f"{value.rpartition(' ')[2]}.99") for value in named)


def test_a_wheel_has_the_extras_of_its_branches(built):
    distribution, metadata = built
    assert set(metadata.get_all("Provides-Extra") or []) == set(extras(MATRIX, distribution))
    ours = {canonicalize_name(ours.name) for ours in MATRIX.distributions.values()}
    required = {re.split(r"[\[=<>~!; ]", value)[0] for value in metadata.get_all("Requires-Dist")}
    assert {name for name in required if name.startswith("onnx-compat")} <= ours, "no distribution without code"


def test_every_link_of_a_description_is_absolute_and_leads_to_a_file(built):
    _, metadata = built
    text = metadata.get_payload()
    defined = dict(DEFINITION.findall(text))
    links = [*INLINE.findall(text), *(defined[label] for label in LABEL.findall(text))]
    assert list(map(problem, links)) == [None] * len(links)


def problem(link):
    """Return what is wrong with a link on the page of the index, or None."""
    if not link.startswith("https://"):
        return f"{link} is relative: the index has no file beside its page"
    base = next((base for base in (ABOUT.blob, ABOUT.raw) if link.startswith(base)), None)
    if base is None:
        return None
    path, _, anchor = link.removeprefix(base).partition("#")
    if not (ROOT / path).is_file():
        return f"{path} does not exist"
    headings = re.findall(r"^#+ (.*)$", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    anchors = {"", *(re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings)}
    return None if anchor in anchors else f"{path} has no heading {anchor}"


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("docs/cli.md", "relative"),
        ("#use", "relative"),
        (f"{ABOUT.blob}docs/gone.md", "does not exist"),
        (f"{ABOUT.blob}README.md#gone", "no heading gone"),
    ],
)
def test_a_dead_link_is_found(link, message):
    assert message in problem(link)


def test_the_readme_has_an_address_for_each_label():
    text = "See [the\nmatrix][docs/matrix.md], ![a chart][docs/real.svg] and [the matrix][docs/matrix.md]."
    assert readme.addresses(MATRIX, text) == [
        f"[docs/matrix.md]: {ABOUT.blob}docs/matrix.md",
        f"[docs/real.svg]: {ABOUT.raw}docs/real.svg",
    ]


def test_metadata_that_is_missing_is_an_error(tmp_path):
    text = (ROOT / "matrix" / "matrix.toml").read_text(encoding="utf-8")
    path = Path(tmp_path, "matrix.toml")
    path.write_text(text.replace(f"repository = {json.dumps(ABOUT.repository)}\n", ""), encoding="utf-8")
    with pytest.raises(MatrixError, match="repository"):
        load(path)
