"""Bundles as untrusted files: damaged, changed and malicious archives are refused."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any, Callable, Dict

import numpy as np
import pytest
from building import model, node, value
from bundles import Keeper, X, check_agreement, exp_model
from registered import register

import onnx_compat
from onnx_compat.errors import InvalidModelError, OnnxCompatError

Members = Dict[str, bytes]


@pytest.fixture(autouse=True)
def _keeper(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, Keeper())


def members(tmp_path: Path) -> Members:
    with zipfile.ZipFile(str(onnx_compat.convert(exp_model(), tmp_path / "m.tflite", allow_fallback=True))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(tmp_path: Path, content: Members, compression: int = zipfile.ZIP_STORED) -> Path:
    path = tmp_path / "bad.tflite.zip"
    with zipfile.ZipFile(str(path), "w", compression) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return path


def test_a_repacked_bundle_is_valid(tmp_path: Path) -> None:
    check_agreement(exp_model(), pack(tmp_path, members(tmp_path)), {"x": X})


def test_a_compressed_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidModelError, match="compressed"):
        onnx_compat.load_converted(pack(tmp_path, members(tmp_path), zipfile.ZIP_DEFLATED))


def change_manifest(tmp_path: Path, change: Callable[[Any], None]) -> Path:
    content = members(tmp_path)
    manifest = json.loads(content["manifest.json"].decode("ascii"))
    change(manifest)
    return pack(tmp_path, dict(content, **{"manifest.json": json.dumps(manifest).encode("ascii")}))


def _set_entry(*path: Any) -> Callable[[Any], None]:
    """Return a function that sets an entry of a manifest.

    Arguments: the keys and indices of the entry, then its new value.
    """

    def change(manifest: Any) -> None:
        for step in path[:-2]:
            manifest = manifest[step]
        manifest[path[-2]] = path[-1]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set_entry("version", 2), "has version 2"),
        (_set_entry("format", "a recipe"), "not that of a bundle"),
        (_set_entry("parts", 0, "path", "../up.tflite"), "no name of a member"),
        (_set_entry("parts", 0, "files", 0, "name", "/etc/passwd"), "no name of a member"),
        (_set_entry("parts", 0, "files", 0, "name", "000.tflite/../../up"), "no name of a member"),
        (_set_entry("parts", 0, "files", 0, "name", "C:\\up"), "no name of a member"),
        (_set_entry("parts", 0, "files", 0, "name", "001.onnx"), "lie elsewhere"),
        (_set_entry("parts", 0, "files", []), "lie elsewhere"),
        (_set_entry("parts", 0, "files", 0, "sha256", "0" * 64), "SHA-256 of the member"),
        (_set_entry("parts", 0, "files", 0, "sha256", "short"), "no SHA-256"),
        (_set_entry("parts", 0, "files", 0, "bytes", 10**12), "missing, or not of"),
        (_set_entry("parts", 0, "files", 0, "bytes", -1), "no count"),
        (_set_entry("parts", 0, "kind", "pickle"), "has the format 'pickle'"),
        (_set_entry("parts_format", "exe"), "has the format 'tflite'"),
        (_set_entry("parts", 1, "inputs", 0, "name", "nowhere"), "which no earlier part computes"),
        (_set_entry("parts", 1, "outputs", []), "which no earlier part computes"),
        (_set_entry("parts", 2, "outputs", []), "no part computes the output"),
        (_set_entry("parts", 2, "outputs", 0, "name", "other"), "no part computes the output|lacks the output 'other'"),
        (_set_entry("parts", {}), "cannot be read"),
        (_set_entry("inputs", 0, "type", "tensor", "float33"), "cannot be read|float33"),
        (_set_entry("inputs", 0, "type", [1]), "cannot be read"),
        (_set_entry("inputs", 0, "name", 3), "cannot be read"),
    ],
)
def test_a_wrong_manifest_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    path = change_manifest(tmp_path, change)
    before = set(os.listdir(tmp_path.parent))
    with pytest.raises(OnnxCompatError, match=message):
        onnx_compat.load_converted(path)
    assert set(os.listdir(tmp_path.parent)) == before


def test_the_outputs_of_a_part_are_found_by_name(tmp_path: Path) -> None:
    nodes = [
        node("Exp", ["x"], ["e"], name="e"),
        node("Exp", ["e"], ["ee"], name="ee"),
        node("Sub", ["ee", "e"], ["y"], name="y"),
    ]
    proto = model(nodes, [value("x", ["n", 3])], [value("y")])
    path = onnx_compat.convert(proto, tmp_path / "m.tflite", allow_fallback=True)
    with zipfile.ZipFile(str(path)) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(content["manifest.json"].decode("ascii"))
    (part,) = [part for part in manifest["parts"] if part["kind"] == "onnx"]
    assert len(part["outputs"]) == 2
    part["outputs"].reverse()
    content["manifest.json"] = json.dumps(manifest).encode("ascii")
    check_agreement(proto, pack(tmp_path, content), {"x": X})


@pytest.mark.parametrize("ports", ["inputs", "outputs"])
def test_a_part_whose_file_has_other_names_is_refused(tmp_path: Path, ports: str) -> None:
    manifest = json.loads(members(tmp_path)["manifest.json"].decode("ascii"))
    (number,) = [k for k, part in enumerate(manifest["parts"]) if part["kind"] == "onnx"]
    wrong = "reads 'a', which its entry in the manifest lacks" if ports == "inputs" else "lacks the output 'bb' of the"

    def change(manifest: Any) -> None:
        part = manifest["parts"][number]
        if ports == "inputs":
            part["inputs"] = [dict(part["inputs"][0], name="x")]
        else:
            part["outputs"].append(dict(part["outputs"][0], name="bb"))

    with pytest.raises(InvalidModelError, match=wrong):
        onnx_compat.load_converted(change_manifest(tmp_path, change))


def test_malformed_json_is_refused(tmp_path: Path) -> None:
    content = members(tmp_path)
    for text in (b"[" * 100000, b"\xff\xfe", b"", b"{}", b"null"):
        with pytest.raises(InvalidModelError):
            onnx_compat.load_converted(pack(tmp_path, dict(content, **{"manifest.json": text})))


def test_a_part_that_was_changed_is_refused(tmp_path: Path) -> None:
    content = members(tmp_path)
    part = content["001.onnx"]
    for data in (part[:-1] + b"?", b"", part * 3):
        with pytest.raises(InvalidModelError, match=r"SHA-256|missing, or not of"):
            onnx_compat.load_converted(pack(tmp_path, dict(content, **{"001.onnx": data})))
    del content["001.onnx"]
    with pytest.raises(InvalidModelError, match="missing"):
        onnx_compat.load_converted(pack(tmp_path, content))


def test_members_that_share_bytes_are_refused(tmp_path: Path) -> None:
    """A zip bomb: many members refer to the same bytes, so that the archive would expand when it is unpacked."""
    content = members(tmp_path)
    path = pack(tmp_path, dict(content, big=b"x" * 100000))
    with zipfile.ZipFile(str(path), "a") as archive:
        for number in range(10):
            info = zipfile.ZipInfo("again%d" % number)
            shared = archive.getinfo("big")
            info.header_offset, info.CRC = shared.header_offset, shared.CRC
            info.file_size = info.compress_size = shared.file_size
            archive.filelist.append(info)
            archive.NameToInfo[info.filename] = info
        archive._didModify = True  # type: ignore[attr-defined]  # private: makes close() write the members
    with pytest.raises(InvalidModelError, match="larger than the archive"):
        onnx_compat.load_converted(path)


def test_a_truncated_bundle_is_refused(tmp_path: Path) -> None:
    data = pack(tmp_path, members(tmp_path)).read_bytes()
    path = tmp_path / "short.tflite.zip"
    for size in range(0, len(data), 37):
        path.write_bytes(data[:size])
        with pytest.raises(InvalidModelError):
            onnx_compat.load_converted(path)


def test_a_flipped_bit_is_refused_or_harmless(tmp_path: Path) -> None:
    data = pack(tmp_path, members(tmp_path)).read_bytes()
    path = tmp_path / "odd.tflite.zip"
    random = np.random.RandomState(5)
    refusals = 0
    for _ in range(150):
        changed_bytes = bytearray(data)
        changed_bytes[random.randint(len(data))] ^= 1 << random.randint(8)
        path.write_bytes(bytes(changed_bytes))
        try:
            check_agreement(exp_model(), path, {"x": X})
        except OnnxCompatError:
            refusals += 1
    assert refusals > 50
