"""Recognise the format of a file by its first bytes: for files that were given by mistake, or have a wrong suffix.

The error then says what the file is, and what to do with it.
"""

import os
import re
import zipfile
from typing import Callable, NamedTuple, Optional, Tuple, Union

from onnx_compat.errors import InputError, InvalidModelError

__all__ = ["ONNX", "FileKind", "check_suffix", "kind_of_bytes", "kind_of_file", "not_a_model"]

StrPath = Union[str, "os.PathLike[str]"]


class FileKind(NamedTuple):
    """A format of files.

    - name: the format as a text for messages, such as "a .tflite file".
    - advice: what to do with such a file where an ONNX model is expected; {path} stands for its path.
    - suffix: the suffix of a format that `load_converted` reads, else "".
    """

    name: str
    advice: str
    suffix: str = ""


_CONVERTED = "give the .onnx file; `onnx-compat verify MODEL --converted {path}` compares this file with it"
_UNPACK = "unpack it, and give the .onnx file in it"
_PYTORCH = "export the module in Python: torch.onnx.export(module, inputs, 'model.onnx')"
_ARRAYS = "give the model; arrays are its inputs: --inputs {path}"

ONNX = FileKind("an ONNX model", "give the converted file; a model needs no --converted")
_TENSOR = FileKind("a tensor of ONNX, such as the test data of a model", "give the model")
_TFLITE = FileKind("a .tflite file", _CONVERTED, ".tflite")
_KERAS = FileKind("a .keras file", _CONVERTED, ".keras")
_BUNDLE = FileKind("a bundle that onnx-compat has written", _CONVERTED, ".zip")
_GRAPH = FileKind("a graph of TensorFlow (GraphDef)", _CONVERTED, ".pb")
_SAVED_MODEL = FileKind(
    "the saved_model.pb of a SavedModel",
    "give its folder, or convert it: python -m tf2onnx.convert --saved-model FOLDER",
)
_HDF5 = FileKind(
    "an HDF5 file, as Keras 2 writes (.h5)",
    "convert it: python -m tf2onnx.convert --keras {path} --output model.onnx",
)
_TORCH = FileKind("a PyTorch file (.pt, .pth)", _PYTORCH)
_PICKLE = FileKind("a Python pickle, as PyTorch and scikit-learn write", _PYTORCH + ", or by skl2onnx")
_NPZ = FileKind("a .npz file of arrays", _ARRAYS)
_NPY = FileKind(
    "a .npy file of an array", "give the model; for --inputs, write a .npz file: numpy.savez(path, name=array)"
)
_ZIP = FileKind("a zip archive", _UNPACK)
_DAMAGED_ZIP = FileKind("a damaged zip archive", "it is cut off or changed: copy or download it again")
_SAFETENSORS = FileKind(
    "a safetensors file: weights without a graph",
    "export the model of these weights: optimum-cli export onnx --model FOLDER OUTPUT",
)
_GGUF = FileKind("a GGUF file of llama.cpp", "give the .onnx file of the model")
_ORT = FileKind("a model in onnxruntime's own format (.ort)", "give the .onnx file that it was made of")
_LFS = FileKind("a Git LFS pointer (run `git lfs pull`)", "run `git lfs pull` in its repository")
_HTML = FileKind("a web page", "download the file itself: the address gave a page, perhaps one that asks for a login")
_IMAGE = FileKind("an image", "give the model; --calibrate reads images, and --inputs a .npz file of arrays")
_TEXT = FileKind("a text file", "give the .onnx file")

#: The first bytes of a file -> its kind.
_SIGNATURES: Tuple[Tuple[bytes, FileKind], ...] = (
    (b"\x1f\x8b", FileKind("a gzip archive (.gz)", "unpack it: gunzip {path}")),
    (b"BZh", FileKind("a bzip2 archive (.bz2)", "unpack it: bunzip2 {path}")),
    (b"\xfd7zXZ\0", FileKind("an xz archive (.xz)", "unpack it: unxz {path}")),
    (b"\x28\xb5\x2f\xfd", FileKind("a Zstandard archive (.zst)", "unpack it: unzstd {path}")),
    (b"7z\xbc\xaf\x27\x1c", FileKind("a 7-Zip archive", _UNPACK)),
    (b"\x93NUMPY", _NPY),
    (b"\x89HDF\r\n\x1a\n", _HDF5),
    (b"GGUF", _GGUF),
    (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", _TORCH),  # torch.save before version 1.6
    (b"\x80\x02", _PICKLE),
    (b"\x80\x03", _PICKLE),
    (b"\x80\x04", _PICKLE),
    (b"\x80\x05", _PICKLE),
    (b"\x89PNG\r\n", _IMAGE),
    (b"\xff\xd8\xff", _IMAGE),
    (b"version https://git-lfs", _LFS),
)


def kind_of_bytes(start: bytes) -> Optional[FileKind]:
    """Return the format that the first 512 bytes of a file show, or None for an unknown format or a short text.

    A zip archive is not opened: `kind_of_file` tells the formats in archives apart.
    """
    for signature, kind in _SIGNATURES:
        if start.startswith(signature):
            return kind
    for kind, matches in _RULES:
        if matches(start):
            return kind
    return None


def kind_of_file(path: StrPath) -> Optional[FileKind]:
    """Return the format that the content of a file shows. None for an unknown format, and if it cannot be read.

    A folder, a device and a pipe are not read.
    """
    try:
        if not os.path.isfile(path):
            return None
        with open(os.fspath(path), "rb") as file:
            kind = kind_of_bytes(file.read(512))
        return _kind_of_archive(path) if kind is _ZIP else kind
    except (OSError, ValueError):
        return None


def _kind_of_archive(path: StrPath) -> FileKind:
    """Return the format of a zip archive, by the names of its members.

    Return `_DAMAGED_ZIP` for an archive that cannot be read.
    """
    try:
        with zipfile.ZipFile(os.fspath(path)) as archive:
            names = archive.namelist()[:10000]
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError):
        return _DAMAGED_ZIP
    if {"config.json", "metadata.json"} <= set(names):
        return _KERAS
    if "manifest.json" in names:
        return _BUNDLE
    if any(name.endswith(("/data.pkl", "/constants.pkl")) or name.startswith("archive/") for name in names):
        return _TORCH
    if names and all(name.endswith(".npy") for name in names):
        return _NPZ
    models = [name for name in names if name.lower().endswith(".onnx")]
    return FileKind("a zip archive with '%s'" % models[0], _UNPACK) if models else _ZIP


def _is_onnx(start: bytes) -> bool:
    return len(start) > 2 and start[0] == 8 and 0 < start[1] < 128  # field 1 of ModelProto, ir_version, as a varint


def _is_tensor(start: bytes) -> bool:
    """Whether the bytes begin as a TensorProto: dims (field 1, each a varint), then data_type (field 2)."""
    return re.match(rb"(?:\x08[\x80-\xff]*[\x00-\x7f])+\x10[\x01-\x1f]", start) is not None


def _is_saved_model(start: bytes) -> bool:
    """Whether the bytes begin as a SavedModel: schema version 1, then a MetaGraphDef.

    A MetaGraphDef begins with a message of its own, a MetaInfoDef.
    """
    return re.match(rb"\x08\x01\x12[\x80-\xff]*[\x00-\x7f]\x0a", start) is not None


def _is_graph(start: bytes) -> bool:
    """Whether the bytes begin as a GraphDef: a node (field 1) that begins with its name, and then has its operation."""
    match = re.match(rb"\x0a[\x80-\xff]*[\x00-\x7f]\x0a([\x01-\x7f])", start, re.DOTALL)
    if match is None:
        return False
    end = match.end() + match.group(1)[0]
    return start[end : end + 1] == b"\x12" and all(32 < byte < 127 for byte in start[match.end() : end])


def _is_safetensors(start: bytes) -> bool:
    """Whether the bytes begin with the size of a JSON header, and the header."""
    return (
        start[8:9] == b"{" and start[9:10] in (b'"', b" ", b"\n") and 0 < int.from_bytes(start[:8], "little") < 1 << 40
    )


def _is_html(start: bytes) -> bool:
    return re.match(rb"\s*(?:<!doctype html|<html)", start, re.IGNORECASE) is not None


def _is_text(start: bytes) -> bool:
    """Whether 16 bytes or more are all printable ASCII or white space."""
    return len(start) >= 16 and not any(byte < 9 or 13 < byte < 32 or byte > 126 for byte in start)


#: A kind, and the function that recognises it. The first that matches decides.
_RULES: Tuple[Tuple[FileKind, Callable[[bytes], bool]], ...] = (
    (_TFLITE, lambda start: start[4:8] == b"TFL3"),
    (_ORT, lambda start: start[4:8] == b"ORTM"),
    (_ZIP, lambda start: start.startswith((b"PK\x03\x04", b"PK\x05\x06"))),
    (FileKind("a tar archive", "unpack it: tar -xf {path}"), lambda start: start[257:262] == b"ustar"),
    (_SAVED_MODEL, _is_saved_model),
    (_TENSOR, _is_tensor),
    (ONNX, _is_onnx),
    (_GRAPH, _is_graph),
    (_SAFETENSORS, _is_safetensors),
    (_HTML, _is_html),
    (_TEXT, _is_text),
)


def not_a_model(name: str, kind: Optional[FileKind]) -> Optional[InvalidModelError]:
    """Return the error for a file of another format that was given as a model; None for ONNX and an unknown format.

    `name`: the path of the file, or "the bytes".
    """
    if kind is None or kind is ONNX:
        return None
    is_file = os.path.exists(name)
    reason = "%s no ONNX model: it is %s" % ("'%s' is" % name if is_file else "%s are" % name, kind.name)
    return InvalidModelError(reason, hint=kind.advice.format(path=name if is_file else "FILE"))


#: Suffix of a converted file -> the kinds that such a file may have. Readers name the damage themselves.
_KINDS = {".tflite": (_TFLITE,), ".keras": (_KERAS, _DAMAGED_ZIP), ".zip": (_BUNDLE, _DAMAGED_ZIP), ".pb": (_GRAPH,)}


def check_suffix(path: StrPath) -> None:
    """Raise InputError if a file has a suffix in `_KINDS`, and its content shows another format. Otherwise do nothing.

    Nothing is raised if the content shows no known format.
    """
    suffix = os.path.splitext(os.fspath(path))[1].lower()
    kind = kind_of_file(path) if suffix in _KINDS else None
    if kind is None or kind in _KINDS[suffix]:
        return
    hint = "give the file that `onnx-compat convert` wrote, or rename this file"
    if kind is not ONNX and not kind.suffix:
        hint = kind.advice.format(path=os.fspath(path))
    raise InputError("'%s' is no %s file: it is %s" % (os.fspath(path), suffix, kind.name), hint=hint)
