"""`python -m matrix outdated`: which versions of frameworks it proposes, from an index that the tests make up."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from matrix import __main__, outdated
from matrix.data import MatrixError, load

MATRIX = load()
DAY = "2099-01-01"


def index(**newer: list[str]) -> Any:
    """Return an index that has the pinned versions of all cells, and these newer ones."""
    versions: dict[str, set[str]] = {}
    for cell in MATRIX.cells.values():
        for pin in map(Requirement, cell.pins):
            versions.setdefault(canonicalize_name(pin.name), set()).add(next(iter(pin.specifier)).version)
    versions["tensorflow-cpu"] |= versions["tensorflow"]
    for name, added in newer.items():
        versions[name.replace("_", "-")] |= set(added)
    return lambda package: dict.fromkeys(versions[package], DAY)


def find_proposals(**newer: list[str]) -> dict[str, str]:
    return {
        f"{entry.package} {entry.version}": entry.action for entry in outdated.find_outdated(MATRIX, index(**newer))
    }


def test_pinned_versions_are_not_proposed() -> None:
    assert find_proposals() == {}


def test_the_newest_version_is_proposed_with_its_command() -> None:
    proposals_by_version = find_proposals(tensorflow_cpu=["2.98.0", "2.99.1"], ai_edge_litert=["9.0.0"])
    assert proposals_by_version == {
        "tensorflow-cpu 2.99.1": "`python -m matrix add tf2 2.99.1`",
        "ai-edge-litert 9.0.0": "`python -m matrix add litert 9.0.0`",
    }
    for command in proposals_by_version.values():
        __main__.make_parser().parse_args(command.strip("`").split()[3:])


def test_the_newest_patch_of_a_tested_minor_version_is_proposed() -> None:
    proposals_by_version = find_proposals(tensorflow_cpu=["2.8.98", "2.8.99"], tflite_runtime=["2.9.1", "2.10.0"])
    assert list(proposals_by_version) == ["tensorflow-cpu 2.8.99"], "no cell has a patch of 2.9 and 2.10"


def test_versions_that_a_shim_refuses_and_previews_are_not_proposed() -> None:
    assert (
        find_proposals(tensorflow=["1.99.0rc1", "2.99.0"], keras=["4.0.0"], ai_edge_litert=["9.0.0rc1", "no version"])
        == {}
    )


def test_each_back_end_of_keras_gets_its_cell() -> None:
    proposals_by_version = find_proposals(keras=["3.99.0"])
    assert proposals_by_version == {"keras 3.99.0": "`python -m matrix add keras 3.99.0 --backend torch`"}
    entries = outdated.find_outdated(MATRIX, index(keras=["3.99.0"]))
    assert [entry.action.split()[-1] for entry in entries] == ["tensorflow`", "jax`", "torch`"]


def test_a_back_end_is_pinned_in_the_newest_cell() -> None:
    (action,) = find_proposals(torch=["99.0"]).values()
    assert action == "pin it in keras-3.15.1-torch-py311, or in a copy of that cell"


@pytest.mark.parametrize("proposals", [[], [outdated.Proposal("keras", "3.99.0", DAY, "3.15.1", "`do it`")]])
def test_the_list_of_an_issue_is_empty_without_proposals(proposals: list[outdated.Proposal]) -> None:
    text = outdated.format_proposals(proposals, markdown=True)
    assert text == "".join(f"- [ ] keras 3.99.0 ({DAY}; tested: 3.15.1): `do it`\n" for _ in proposals)
    assert outdated.format_proposals(proposals, markdown=False).strip()


def test_releases_without_a_wheel_and_withdrawn_ones_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def file(kind: str, yanked: bool = False) -> dict[str, object]:
        return {"packagetype": kind, "yanked": yanked, "upload_time": "2026-10-06T01:02:03"}

    releases = {"1.0": [file("bdist_wheel")], "1.1": [file("sdist")], "1.2": [file("bdist_wheel", True)], "1.3": []}
    answer = io.BytesIO(json.dumps({"releases": releases}).encode())
    monkeypatch.setattr(outdated.urllib.request, "urlopen", lambda address, timeout: answer)
    assert outdated.read_releases("keras") == {"1.0": "2026-10-06"}


def test_an_index_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("ONNX_COMPAT_INDEX", "http://127.0.0.1:9")
    with pytest.raises(MatrixError, match=r"http://127\.0\.0\.1:9/pypi/keras/json does not answer"):
        outdated.read_releases("keras")
    assert __main__.main(["outdated"]) == 1
    assert "does not answer" in capsys.readouterr().err
