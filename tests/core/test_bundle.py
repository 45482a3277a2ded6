"""Bundles: division of the model, writing and running, and the checks of an untrusted file."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any, Callable, Dict

import numpy as np
import pytest
from building import FLOAT, INT64, model, node, value
from limited import LimitedShim
from onnx import helper
from registered import register

import onnx_compat
from onnx_compat.conversion import bundle
from onnx_compat.errors import ConversionError, InputError, InvalidModelError, OnnxCompatError, UnsupportedError


class Keeper(LimitedShim):
    """A fake framework without the primitive `exp`. Its files hold the number of a program that is kept in memory."""

    name = "keeper"
    formats = {"tflite": (".tflite", "kept program"), "saved_model": ("", "kept folder")}
    programs: Dict[bytes, Any] = {}
    refuses = ""

    def export(self, program: Any, path: str, file_format: str) -> None:
        for recorded_node in program.region.live():
            if recorded_node.origin is not None and recorded_node.origin.node == self.refuses:
                raise UnsupportedError("its kernel has had enough", node=self.refuses)
        self.compile(program)
        key = b"%d" % len(self.programs)
        self.programs[key] = program
        if file_format == "saved_model":
            os.makedirs(os.path.join(path, "inner"))
            path = os.path.join(path, "inner", "kept")
        Path(path).write_bytes(key)

    def load_converted(self, path: str, file_format: str) -> Any:
        program = self.programs[
            Path(path if file_format == "tflite" else os.path.join(path, "inner", "kept")).read_bytes()
        ]
        return self.compile(program), program.inputs, program.outputs


@pytest.fixture(name="keeper", autouse=True)
def _keeper(monkeypatch: pytest.MonkeyPatch) -> Keeper:
    shim = Keeper()
    register(monkeypatch, shim)
    return shim


X = np.random.RandomState(0).rand(4, 3).astype(np.float32)


def exp_model() -> Any:
    """Return a model with an Exp in the middle. Nodes after it read a constant and a size that are computed before it."""
    nodes = [
        node("Neg", ["x"], ["a"], name="neg"),
        node("Constant", [], ["axes"], name="axes", value_ints=[1]),
        node("Shape", ["x"], ["size"], name="size"),
        node("Exp", ["a"], ["b"], name="exp"),
        node("Mul", ["b", "a"], ["c"], name="mul"),
        node("Reshape", ["c", "size"], ["d"], name="reshape"),
        node("ReduceSum", ["d", "axes"], ["y"], name="sum", keepdims=0),
    ]
    return model(nodes, [value("x", ["n", 3])], [value("y"), value("c")])


def part_kinds(path: Any) -> str:
    return " ".join("%s:%d" % (part.kind, part.nodes) for part in bundle.read_manifest(path).parts)


def check_agreement(proto: Any, path: Any, feed: Dict[str, Any]) -> Any:
    loaded = onnx_compat.load_converted(path)
    for actual, expected in zip(loaded.run(feed), onnx_compat.run(proto, feed, shim="reference")):
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
        assert actual.dtype == expected.dtype
    return loaded


def test_without_allow_fallback_the_node_is_named(tmp_path: Path) -> None:
    proto = exp_model()
    proto.graph.node.append(node("Exp", ["d"], ["z"], name="another"))
    proto.graph.output.append(value("z"))
    with pytest.raises(UnsupportedError) as caught:
        onnx_compat.convert(proto, tmp_path / "m.tflite")
    assert (caught.value.node, caught.value.operator) == ("exp", "Exp")
    assert "1 other node:\n  'another' (Exp): this framework has no exponential" in caught.value.reason
    assert "--allow-fallback" in str(caught.value.hint)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("file_format", ["tflite", "saved_model"])
def test_a_written_bundle_runs(tmp_path: Path, file_format: str) -> None:
    path = onnx_compat.convert(exp_model(), tmp_path / "m.tflite", to=file_format, allow_fallback=True)
    assert os.listdir(tmp_path) == ["m.tflite.zip"] == [path.name]
    assert onnx_compat.load_converted(path).run({"x": X[:1]})["y"].shape == (1,)
    assert part_kinds(path) == f"{file_format}:2 onnx:1 {file_format}:4"
    loaded = check_agreement(exp_model(), path, {"x": X})
    assert loaded.shim == "keeper" and loaded.fallbacks == ["exp"]
    assert "no exponential" in loaded.fallback_reasons["exp"]
    assert onnx_compat.verify(exp_model(), {"x": X}, converted=path).ok


def test_a_bundle_is_written_only_where_it_is_needed(tmp_path: Path) -> None:
    proto = model([node("Relu", ["x"], ["y"])], [value("x", ["n", 3])], [value("y")])
    assert onnx_compat.convert(proto, tmp_path / "m.tflite", allow_fallback=True).name == "m.tflite"
    path = onnx_compat.convert(proto, tmp_path / "m.tflite.zip", allow_fallback=True)
    assert part_kinds(path) == "tflite:1"
    check_agreement(proto, path, {"x": X})
    with pytest.raises(ConversionError, match="is a bundle") as caught:
        onnx_compat.convert(proto, tmp_path / "other.tflite.zip")
    assert "--allow-fallback" in str(caught.value.hint)
    assert sorted(os.listdir(tmp_path)) == ["m.tflite", "m.tflite.zip"]


def test_the_same_model_gives_the_same_bytes(keeper: Keeper, tmp_path: Path) -> None:
    written = []
    for name in ("a", "b"):
        keeper.programs.clear()
        written.append(onnx_compat.convert(exp_model(), tmp_path / (name + ".tflite.zip"), allow_fallback=True))
    assert written[0].read_bytes() == written[1].read_bytes()


def test_a_node_that_fails_while_its_part_is_written_falls_back_too(keeper: Keeper, tmp_path: Path) -> None:
    keeper.refuses = "mul"
    path = onnx_compat.convert(exp_model(), tmp_path / "m.tflite", allow_fallback=True)
    assert part_kinds(path) == "tflite:2 onnx:2 tflite:3"
    assert check_agreement(exp_model(), path, {"x": X}).fallback_reasons["mul"] == "its kernel has had enough"


def test_a_value_of_unknown_rank_stays_in_the_fallback(tmp_path: Path) -> None:
    nodes = [node("Exp", ["x"], ["e"], name="exp"), node("Neg", ["e"], ["y"], name="neg")]
    proto = model(nodes, [value("x")], [value("y")])
    path = onnx_compat.convert(proto, tmp_path / "m.tflite", allow_fallback=True)
    assert part_kinds(path) == "onnx:2"
    check_agreement(proto, path, {"x": X})
    proto.graph.value_info.append(value("e", ["n", 3]))  # a declared type is used
    path = onnx_compat.convert(proto, tmp_path / "m.tflite", allow_fallback=True)
    assert part_kinds(path) == "onnx:1 tflite:1"
    check_agreement(proto, path, {"x": X})


def test_a_value_that_must_be_known_stays_in_the_fallback(tmp_path: Path) -> None:
    nodes = [node("ReduceSum", ["x", "axes"], ["r"], name="sum"), node("Neg", ["x"], ["n"], name="neg")]
    proto = model(nodes, [value("x", ["n", 3]), value("axes", [1], INT64)], [value("r"), value("n")])
    path = onnx_compat.convert(proto, tmp_path / "m.tflite", allow_fallback=True)
    assert part_kinds(path) == "tflite:1 onnx:1"
    for axis in (0, 1):
        check_agreement(proto, path, {"x": X, "axes": np.array([axis])})


def test_sequences_stay_in_the_fallback(tmp_path: Path) -> None:
    nodes = [
        node("Neg", ["x"], ["a"], name="neg"),
        node("SplitToSequence", ["a"], ["s"], name="split", axis=0),
        node("ConcatFromSequence", ["s"], ["c"], name="concat", axis=0),
        node("Exp", ["c"], ["y"], name="exp"),
    ]
    items = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    proto = model(nodes, [value("x", [4, 3])], [value("y"), items])
    path = onnx_compat.convert(proto, tmp_path / "m.tflite", allow_fallback=True)
    outputs = onnx_compat.load_converted(path).run({"x": X})
    np.testing.assert_allclose(outputs["y"], np.exp(-X), rtol=1e-6)
    assert len(outputs["s"]) == 4


def test_outputs_may_be_inputs_constants_and_weights(tmp_path: Path) -> None:
    nodes = [node("Exp", ["x"], ["e"]), node("Constant", [], ["c"], value_floats=[1.0]), node("Add", ["e", "c"], ["y"])]
    proto = model(nodes, [value("x", [4, 3])], [value(name) for name in "yxcw"], {"w": X})
    path = onnx_compat.convert(proto, tmp_path / "m.tflite", allow_fallback=True)
    check_agreement(proto, path, {"x": X})


def test_the_length_of_a_sequence_is_not_assumed(tmp_path: Path) -> None:
    nodes = [
        node("SequenceLength", ["s"], ["n"], name="length"),
        node("Cast", ["n"], ["f"], name="cast", to=FLOAT),
        node("Neg", ["f"], ["y"], name="neg"),
    ]
    proto = model(nodes, [helper.make_tensor_sequence_value_info("s", FLOAT, None)], [value("y")])
    path = onnx_compat.convert(proto, tmp_path / "m.tflite", allow_fallback=True)
    check_agreement(proto, path, {"s": [X, X]})


def test_an_unknown_operator_is_refused(tmp_path: Path) -> None:
    nodes = [node("Neg", ["x"], ["a"], name="neg"), node("Nonsense", ["a"], ["y"], name="odd", domain="nowhere")]
    proto = model(nodes, [value("x", [4, 3])], [value("y")], extra_opsets=[helper.make_opsetid("nowhere", 1)])
    for allow_fallback in (False, True):
        with pytest.raises(OnnxCompatError) as caught:
            onnx_compat.convert(proto, tmp_path / "m.tflite", allow_fallback=allow_fallback)
        assert caught.value.node == "odd" and "allow-fallback" not in str(caught.value)
    assert not os.listdir(tmp_path)


def test_another_failure_is_no_reason_for_a_bundle(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: Any) -> None:
        raise ConversionError("the disk is full")

    monkeypatch.setattr(keeper, "export", full)
    with pytest.raises(ConversionError, match="the disk is full"):
        onnx_compat.convert(exp_model(), tmp_path / "m.tflite", allow_fallback=True)
    assert not os.listdir(tmp_path)


def test_a_folder_at_the_path_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.tflite.zip").mkdir()
    with pytest.raises(InputError, match=r"m\.tflite\.zip' is a folder, and a file is to be written"):
        onnx_compat.convert(exp_model(), tmp_path / "m.tflite", allow_fallback=True)


def test_values_between_parts_are_compared(tmp_path: Path) -> None:
    path = onnx_compat.convert(exp_model(), tmp_path / "m.tflite", allow_fallback=True)
    layers = onnx_compat.verify(exp_model(), {"x": X}, converted=path, layers=True).layers
    assert layers is not None and layers.ok
    assert {layer.node: layer.emitted for layer in layers.layers if layer.node in ("neg", "exp", "sum")} == {
        "neg": ("000.tflite (tflite)",),
        "exp": ("001.onnx (the fallback)",),
        "sum": ("002.tflite (tflite)",),
    }
    changed_model = exp_model()
    changed_model.graph.node[4].op_type = "Add"
    layers = onnx_compat.verify(changed_model, {"x": X}, converted=path, layers=True).layers
    assert layers is not None and layers.culprit == "mul"
    assert "by itself, from exact inputs" in layers.verdict


def test_the_command_line_names_the_nodes_and_the_reasons(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    from onnx_compat.cli import main

    model_, converted = str(tmp_path / "m.onnx"), str(tmp_path / "m.tflite")
    Path(model_).write_bytes(exp_model().SerializeToString())
    assert main(["support", model_, "--shim", "keeper"]) == 0
    output = capfd.readouterr().out
    assert "no exponential" in output and "a bundle of 3 parts, 1 of them for the fallback" in output
    assert main(["convert", model_, converted]) == 4
    output = capfd.readouterr().err
    assert "'exp'" in output and "no exponential" in output and "--allow-fallback" in output
    assert main(["convert", model_, converted, "--allow-fallback", "--verify"]) == 0
    assert "2 tflite and 1 onnx" in capfd.readouterr().out
    assert main(["convert", model_, converted, "--allow-fallback", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert [node_entry["node"] for node_entry in document["bundle"]["fallback"]] == ["exp"]
    assert main(["run", document["path"]]) == 0
    page = tmp_path / "r.html"
    assert main(["convert", model_, converted, "--allow-fallback", "--report", str(page)]) == 0
    assert "no exponential" in page.read_text()
    capfd.readouterr()
    assert main(["inspect", document["path"], "--json"]) == 0
    description = json.loads(capfd.readouterr().out)
    assert [(part["kind"], part["nodes"]) for part in description["parts"]] == [
        ("tflite", 2),
        ("onnx", 1),
        ("tflite", 4),
    ]
    assert "no exponential" in description["in the fallback"][0]["reason"]
    assert main(["inspect", document["path"]]) == 0
    assert "x     float32[n, 3]" in capfd.readouterr().out
    assert main(["verify", model_, "--converted", document["path"]]) == 0
    assert "in the fallback, ran 'exp'" in capfd.readouterr().out
    Path(document["path"]).write_bytes(b"nothing")
    assert main(["run", document["path"]]) == 3


# -- untrusted files ----------------------------------------------------------------------------------------------------
Members = Dict[str, bytes]


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
        (_set_entry("parts", 2, "outputs", 0, "name", "other"), "no part computes the output|differ from those"),
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
