"""Damaged archives and manifests: bundles and .keras files with members that do not fit, and empty SavedModels."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any, Dict, List

import pytest

from onnx_compat.conversion.bundle import manifest
from onnx_compat.conversion.bundle.manifest import Manifest, Member, PartEntry, locate_members, parse_manifest
from onnx_compat.errors import InvalidModelError, UnsupportedError
from onnx_compat.inspection import foreign
from onnx_compat.inspection.foreign import keras_file, saved_model
from onnx_compat.ir.dtypes import float32, int64, string
from onnx_compat.model import MapType, OptionalType, SequenceType, TensorType, ValueInfo

FLOATS = TensorType(float32, ("n", 3))
DIGEST = "0" * 64


def part(path: str, *files: str) -> PartEntry:
    members = [Member(name, 4, DIGEST) for name in files or (path,)]
    return PartEntry("tflite", path, 1, [ValueInfo("x", FLOATS)], [ValueInfo("y", FLOATS)], members)


def describe_bundle(*parts: PartEntry, kind: Any = FLOATS) -> Manifest:
    return Manifest("m", "tflite", [ValueInfo("x", kind)], [ValueInfo("y", kind)], list(parts), [])


def archive(content: List[Any]) -> zipfile.ZipFile:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as written:
        for name, text in content:
            written.writestr(name, text)
    return zipfile.ZipFile(data)


def check_refused(content: List[Any], words: str, size: int = 10**6) -> None:
    with archive(content) as opened, pytest.raises(InvalidModelError, match=words) as error:
        locate_members(opened, size)
    assert error.value.hint


# -- bundles -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "kind",
    [FLOATS, TensorType(None, None), SequenceType(FLOATS), OptionalType(FLOATS), MapType(string, FLOATS), None],
    ids=str,
)
def test_a_manifest_is_read_back(kind: Any) -> None:
    written = describe_bundle(part("000.tflite"), kind=kind)
    assert parse_manifest(manifest.dump_manifest(written)) == written


def test_a_map_of_maps_is_read_back() -> None:
    written = describe_bundle(part("000.tflite"), kind=SequenceType(MapType(int64, OptionalType(None))))
    assert parse_manifest(manifest.dump_manifest(written)) == written


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused() -> None:
    text = manifest.dump_manifest(describe_bundle(part("000.tflite")))
    check_refused(
        [(manifest.NAME, text), ("000.tflite", "four"), ("000.tflite", "four")], "two members have the same name"
    )


def test_a_manifest_is_needed() -> None:
    check_refused([("000.tflite", "four")], "it has no %s" % manifest.NAME)


def test_a_manifest_may_not_be_large(monkeypatch: pytest.MonkeyPatch) -> None:
    text = manifest.dump_manifest(describe_bundle(part("000.tflite")))
    monkeypatch.setattr(manifest, "LARGEST", len(text) - 1)
    check_refused([(manifest.NAME, text), ("000.tflite", "four")], "its manifest has %d bytes" % len(text))


def test_two_parts_may_not_share_a_file() -> None:
    text = manifest.dump_manifest(describe_bundle(part("000.tflite"), part("000.tflite")))
    check_refused([(manifest.NAME, text), ("000.tflite", "four")], "two parts share a file")


def test_the_sizes_of_a_stored_member_are_equal() -> None:
    text = manifest.dump_manifest(describe_bundle(part("000.tflite")))
    with archive([(manifest.NAME, text), ("000.tflite", "four")]) as opened:
        opened.infolist()[1].compress_size -= 1
        with pytest.raises(InvalidModelError, match="the two sizes of a member differ"):
            locate_members(opened, 10**6)


def test_members_may_not_be_larger_than_the_archive() -> None:
    text = manifest.dump_manifest(describe_bundle(part("000.tflite")))
    check_refused([(manifest.NAME, text), ("000.tflite", "four")], "its members are larger than the archive", len(text))


@pytest.mark.parametrize(
    ("member", "content"), [("000.tflite", "fives"), ("001.tflite", "four")], ids=["another size", "another name"]
)
def test_each_file_of_a_part_is_a_member(member: str, content: str) -> None:
    text = manifest.dump_manifest(describe_bundle(part("000.tflite")))
    check_refused([(manifest.NAME, text), (member, content)], "the member '000.tflite' is missing, or not of 4 bytes")


def test_an_unknown_dtype_in_a_manifest_is_refused() -> None:
    document = json.loads(manifest.dump_manifest(describe_bundle(part("000.tflite"), kind=MapType(string, FLOATS))))
    document["inputs"][0]["type"]["map"] = "text"
    with pytest.raises(UnsupportedError, match="no tensor element type 'text'"):
        parse_manifest(json.dumps(document).encode("ascii"))


# -- .keras files ------------------------------------------------------------------------------------------------------
def write_keras(path: Path, config: Dict[str, Any]) -> str:
    with zipfile.ZipFile(str(path), "w") as written:
        written.writestr("config.json", json.dumps(config))
        written.writestr("metadata.json", json.dumps({"keras_version": "3.9.0", "date_saved": "now"}))
        written.writestr("model.weights.h5", b"x" * 100)
    return str(path)


def layer(kind: str, name: str, **config: Any) -> Dict[str, Any]:
    return {"module": "keras.layers", "class_name": kind, "name": name, "config": dict(config, name=name)}


def functional(output: Dict[str, Any], output_layers: Any) -> Dict[str, Any]:
    layers = [layer("InputLayer", "x", batch_shape=[None, 4], dtype="int32"), output]
    return layer("Functional", "net", layers=layers, input_layers={"a": ["x", 0, 0]}, output_layers=output_layers)


def port_rows(path: Path, config: Dict[str, Any]) -> List[Any]:
    description = foreign.describe_foreign_file(write_keras(path, config))
    assert description is not None
    return [(row["name"], row["type"], row["shape"]) for row in description.tables["inputs_and_outputs"]]


@pytest.mark.parametrize("output_layers", [["y", 0, 0], [["y", 0, 0]], {"b": ["y", 0, 0]}, {"b": [["y", 0, 0]]}])
def test_ports_are_named_by_a_list_or_a_dict(tmp_path: Path, output_layers: Any) -> None:
    policy = {"class_name": "DTypePolicy", "config": {"name": "mixed_float16"}}
    rows = port_rows(tmp_path / "m.keras", functional(layer("Dense", "y", dtype=policy), output_layers))
    assert rows == [("x", "int32", [None, 4]), ("y", "mixed_float16", None)]


@pytest.mark.parametrize("nodes", [None, [], [{"args": ["text", 3], "kwargs": {}}]])
def test_a_layer_without_input_tensors_has_its_own_type(tmp_path: Path, nodes: Any) -> None:
    output = dict(layer("Identity", "y", dtype="float16"), inbound_nodes=nodes)
    assert port_rows(tmp_path / "m.keras", functional(output, [["y", 0, 0]]))[1] == ("y", "float16", None)


def test_a_large_configuration_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_keras(tmp_path / "m.keras", functional(layer("Dense", "y"), [["y", 0, 0]]))
    monkeypatch.setattr(keras_file, "_LARGEST", 10)
    with pytest.raises(InvalidModelError, match=r"no \.keras file, or it is damaged: ValueError: \S+ has \d+ bytes"):
        foreign.describe_foreign_file(path)


# -- SavedModels -------------------------------------------------------------------------------------------------------
def message(*fields: Any) -> bytes:
    """Return a protobuf message of length-delimited fields: (number, content), with content below 128 bytes."""
    return b"".join(bytes([number << 3 | 2, len(content)]) + content for number, content in fields)


def describe_saved_model(folder: Path, data: bytes) -> Any:
    (folder / saved_model.FILE).write_bytes(data)
    return saved_model.describe_saved_model(str(folder))


def test_a_saved_model_without_a_graph_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidModelError, match="holds no graph"):
        describe_saved_model(tmp_path, b"\x08\x01")


def test_a_meta_graph_without_a_graph_has_no_nodes(tmp_path: Path) -> None:
    facts, tables = describe_saved_model(tmp_path, message((2, b"")))
    assert (facts["graphs"], facts["nodes"], facts["functions"]) == (1, 0, 0)
    assert tables["operator_counts"] == []


def test_a_port_of_a_signature_without_a_type(tmp_path: Path) -> None:
    """MetaGraph.signature_def is field 5, a map: a name and a signature, whose field 1 is a map of inputs."""
    signature = message((1, message((1, b"x"))))
    _, tables = describe_saved_model(tmp_path, message((2, message((5, message((1, b"run"), (2, signature)))))))
    assert tables["signatures"] == [{"signature": "run", "": "input", "name": "x", "type": "?", "shape": None}]
