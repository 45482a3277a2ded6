"""Paths that are no files, and damaged archives: every function that reads a file raises a typed error, and returns."""

import io
import os
import pickle
import signal
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
import pytest
from onnx import TensorProto, helper

import onnx_compat
from onnx_compat.calibration.samples import samples
from onnx_compat.inspection.describe import describe
from onnx_compat.verification import npz

if os.name == "nt":
    pytest.skip("Windows has neither named pipes in folders nor SIGALRM", allow_module_level=True)

SECONDS = 20


@pytest.fixture(autouse=True)
def end_a_block() -> Iterator[None]:
    """Interrupt a test that waits for a pipe."""

    def interrupt(*_: Any) -> None:
        raise AssertionError("it still waits after %d seconds" % SECONDS)

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def relu() -> bytes:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ports[:1], ports[1:])
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8).SerializeToString()
    )


READERS: Dict[str, Callable[[Path], Any]] = {
    "load": onnx_compat.load,
    "prepare": lambda path: onnx_compat.prepare(path, shim="reference"),
    "support": lambda path: onnx_compat.support(path, shim="reference"),
    "convert": lambda path: onnx_compat.convert(path, str(path) + ".tflite"),
    "verify": lambda path: onnx_compat.verify(relu(), path, shim="reference"),
    "verify converted": lambda path: onnx_compat.verify(relu(), converted=path),
    "load_converted": lambda path: onnx_compat.load_converted(path).run([np.zeros(2, np.float32)]),
    "describe": describe,
    "calibrate": lambda path: list(samples(onnx_compat.load(relu()), path)),
    "join": lambda path: onnx_compat.join({"a": path}, path.parent / ("joined" + path.suffix)),
}
SUFFIXES = (".onnx", ".npz", ".npy", ".tflite", ".keras", ".tflite.zip", ".pb", "")


def check_typed(reader: str, path: Path) -> None:
    with pytest.raises(onnx_compat.OnnxCompatError) as raised:
        READERS[reader](path)
    assert not isinstance(raised.value, onnx_compat.UnexpectedError), raised.value.__cause__


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("reader", READERS)
def test_pipes_devices_and_links_to_nothing(reader: str, suffix: str, tmp_path: Path) -> None:
    os.mkfifo(str(tmp_path / ("pipe" + suffix)))
    os.symlink("/dev/zero", str(tmp_path / ("device" + suffix)))
    os.symlink(str(tmp_path / "missing"), str(tmp_path / ("link" + suffix)))
    for name in ("pipe", "device", "link"):
        check_typed(reader, tmp_path / (name + suffix))


@pytest.mark.parametrize("name", ["saved_model.pb", "a.npz", "a.npy", "a.png"])
@pytest.mark.parametrize("reader", READERS)
def test_a_folder_that_holds_a_pipe(reader: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(str(tmp_path / "folder" / name))
    check_typed(reader, tmp_path / "folder")


# -- archives and arrays -----------------------------------------------------------------------------------------------
HEADER = "{'descr': '%s', 'fortran_order': False, 'shape': %s}\n"


def npy(header: str, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def archive(content: bytes, method: int = zipfile.ZIP_STORED, member: str = "x.npy") -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as target:
        target.writestr(member, content)
    return written.getvalue()


def patch(data: bytes, offsets: Tuple[int, int], value: int) -> bytes:
    """Set a 16-bit field of the only member, in the local header and in the directory at these offsets."""
    changed = bytearray(data)
    struct.pack_into("<H", changed, offsets[0], value)
    struct.pack_into("<H", changed, data.index(b"PK\1\2") + offsets[1], value)
    return bytes(changed)


class Payload:
    def __reduce__(self) -> Any:
        return exec, ("raise SystemExit",)


def damaged_members(member: str, content: bytes) -> List[bytes]:
    plain = archive(content, member=member)
    results = [plain[:-30], plain[: len(plain) // 2], patch(plain, (6, 8), 1), patch(plain, (8, 10), 99)]
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        packed = bytearray(archive(content + b" " * 3000, method, member))
        start = packed.index(member.encode()) + len(member)
        results.append(bytes(packed[:start] + b"\xff" * 12 + packed[start + 12 :]))
    return results


ARRAYS = [
    npy(HEADER % ("<f4", "(%d,)" % 2**60)),
    npy(HEADER % ("<f4", "(%d, %d)" % (2**40, 2**40))),
    npy(HEADER % ("<f4", "(-5,)")),
    npy(HEADER % ("<f4", "'a'")),
    npy(HEADER % ("<f99", "(2,)")),
    npy(HEADER % ("|O", "(1,)"), pickle.dumps([Payload()])),
    npy("{'descr': (((((((("),
    npy("(" * 9000),
    npy("-" * 9000 + "1"),
    npy("{'a\0': 1}"),
    pickle.dumps(Payload()),
    b"",
    b"PK\x03\x04",
]


@pytest.mark.parametrize("reader", ["verify", "calibrate", "load", "describe", "load_converted"])
def test_damaged_archives_of_arrays(reader: str, tmp_path: Path) -> None:
    good = npy(HEADER % ("<f4", "(2,)"), b"\0" * 8)
    contents = [*damaged_members("x.npy", good), *(archive(data) for data in ARRAYS), *ARRAYS]
    contents.append(archive(good, member="s[%s].npy" % ("9" * 5000)))
    for number, content in enumerate(contents):
        for suffix in (".npz", ".npy"):
            path = tmp_path / ("%d%s" % (number, suffix))
            path.write_bytes(content)
            check_typed(reader, path)


@pytest.mark.parametrize("reader", ["describe", "load_converted", "verify converted"])
def test_damaged_archives_of_json(reader: str, tmp_path: Path) -> None:
    documents = [b"[" * 100000, b"\xff\xfe", b"{}", b"[]", b"null", b'{"config": {"layers": [1]}, "class_name": 3}']
    for suffix, member in ((".keras", "config.json"), (".tflite.zip", "manifest.json")):
        contents = [archive(document, zipfile.ZIP_DEFLATED, member) for document in documents]
        contents += [archive(document, member=member) for document in documents]
        for number, content in enumerate([*contents, *damaged_members(member, b"{}")]):
            path = tmp_path / ("%d%s" % (number, suffix))
            path.write_bytes(content)
            check_typed(reader, path)


def test_an_archive_that_unpacks_to_far_more_than_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npz, "_UNPACKED_BYTES", 1 << 16)
    bomb = archive(npy(HEADER % ("<f4", "(%d,)" % 2**18), b"\0" * 2**20), zipfile.ZIP_DEFLATED)
    (tmp_path / "a.npz").write_bytes(bomb)
    with pytest.raises(onnx_compat.InputError, match="unpacks to"):
        npz.load_npz(tmp_path / "a.npz")
    np.savez_compressed(str(tmp_path / "b.npz"), x=np.arange(2**18))  # large, and no bomb
    assert npz.load_npz(tmp_path / "b.npz")["x"].size == 2**18


@pytest.mark.parametrize(
    "error",
    [MemoryError("4 TB"), zlib.error("-3"), RuntimeError("x"), KeyError("x"), ZeroDivisionError(), OSError(28, "x")],
)
def test_what_a_custom_operator_raises_is_typed_and_keeps_its_traceback(error: Exception) -> None:
    name = "Raise%s" % type(error).__name__

    @onnx_compat.op(name, since=1, domain="test.hostile")
    def meaning(x: Any) -> Any:
        raise error

    ports = [helper.make_tensor_value_info(port, TensorProto.FLOAT, [2]) for port in "xy"]
    graph = helper.make_graph([helper.make_node(name, ["x"], ["y"], "n", domain="test.hostile")], "g", *zip(ports))
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("test.hostile", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    with pytest.raises(onnx_compat.OnnxCompatError) as raised:
        onnx_compat.run(model, [np.zeros(2, np.float32)], shim="reference")
    assert raised.value.node == "n"
    causes = [raised.value.__cause__]
    while causes[-1] is not None:
        causes.append(causes[-1].__cause__)
    assert error in causes


def test_a_wrong_call_stays_a_type_error() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        onnx_compat.load(relu(), nonsense=1)  # type: ignore[call-arg]  # the wrong call is the test


class Broken:
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array")


@pytest.mark.parametrize("value", [Broken(), {1}, object(), "text", [[1], [2, 3]], {1: 2, "a": 3}, 10**400, lambda: 0])
def test_values_that_are_no_tensors(value: Any) -> None:
    with pytest.raises(onnx_compat.OnnxCompatError):
        onnx_compat.run(relu(), [value], shim="reference")
