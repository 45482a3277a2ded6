"""Load a model from a path, bytes or a ModelProto, and check it."""

import difflib
import os
from typing import TYPE_CHECKING, Any, Dict, Optional, Set, Union

from onnx_compat.boundary import typed_errors
from onnx_compat.errors import InputError, InvalidModelError, OnnxCompatError, UnsupportedError
from onnx_compat.model.check import check
from onnx_compat.model.external import Folder
from onnx_compat.model.first_bytes import kind_of_bytes, kind_of_file, not_a_model
from onnx_compat.model.functions import inline
from onnx_compat.model.graph import Model
from onnx_compat.model.read import Reader, opsets
from onnx_compat.model.schema import MODEL
from onnx_compat.model.versions import NEWEST_IR, check_versions
from onnx_compat.model.wire import BytesSource, FileSource, Message, Source, parse

if TYPE_CHECKING:
    import onnx

    #: Whatever `load` reads. `onnx` is imported by the type checker only.
    ModelSource = Union[str, os.PathLike[str], bytes, onnx.ModelProto, Model]
else:
    ModelSource = Any

__all__ = ["ModelSource", "StrPath", "load"]

StrPath = Union[str, "os.PathLike[str]"]


@typed_errors
def load(
    source: "Union[str, os.PathLike[str], bytes, onnx.ModelProto, Model]",
    folder: "Union[str, os.PathLike[str], None]" = None,
) -> Model:
    """Read a model, check it, sort its nodes and inline its functions.

    Args:
        source: The path of an .onnx file, its bytes, an onnx.ModelProto (which is never changed), or a Model, which is
            returned as it is.
        folder: The folder of the external data. None: the folder of the path. Bytes and a ModelProto with external data
            need a `folder`.

    Returns:
        The model. Its weights are decoded on demand.

    Raises:
        InvalidModelError: The file is missing, truncated or not a valid model.
        UnsupportedError: The model needs a newer opset, dtype or format than this library knows.
        LimitError: The model exceeds a limit; see `onnx_compat.limits`.
        InputError: `source` is of another type.

    Examples:
        >>> model = onnx_compat.load("digits.onnx")
        >>> model.opset, [value.name for value in model.graph.inputs]
        (17, ['image'])
    """
    if isinstance(source, Model):
        return source
    data_folder = folder if folder is None or isinstance(folder, Folder) else Folder(os.fspath(folder))
    if isinstance(source, (bytes, bytearray, memoryview)):
        try:
            return _read_model(BytesSource(bytes(source)), data_folder, source)
        except OnnxCompatError as error:
            raise not_a_model("the bytes", kind_of_bytes(bytes(source[:512]))) or error from error.__cause__
    if isinstance(source, (str, os.PathLike)):
        return _read_file(os.fspath(source), data_folder)
    kind = getattr(getattr(source, "DESCRIPTOR", None), "full_name", "")
    if kind != "onnx.ModelProto":
        raise InputError(
            "a model cannot be loaded from a %s" % (kind or type(source).__name__),
            hint="give the path of an .onnx file, its bytes, or an onnx.ModelProto",
        )
    return _read_model(BytesSource(_serialise(source)), data_folder, source)


def _serialise(proto: "onnx.ModelProto") -> bytes:
    try:
        return bytes(proto.SerializeToString())
    except Exception as error:  # protobuf's own errors differ between its versions
        raise InvalidModelError(
            "the ModelProto cannot be serialised: %s" % error,
            hint="a model of 2 GB or more: save it with external data and pass the path",
        ) from error


def _read_file(path: object, folder: Optional[Folder]) -> Model:
    """Return the model in the file at `path`. `folder`: as for `_read_model`; None: the folder of the path.

    Raises InputError if `path` is no str, and InvalidModelError if the file cannot be read. Raises the errors of
    `_read_model` too.
    """
    if not isinstance(path, str) or "\0" in path:
        raise InputError("%r is no path in text" % (path,), hint="give a str")
    if not os.path.isfile(path):
        raise _no_file_error(path)
    try:
        with open(path, "rb") as file:
            data_folder = folder or Folder(os.path.dirname(path) or os.curdir, path)
            return _read_model(FileSource(file, os.fstat(file.fileno()).st_size), data_folder, path)
    except OnnxCompatError as error:
        error.reason = "%s (in '%s')" % (error.reason, path)
        raise not_a_model(path, kind_of_file(path)) or error from error.__cause__
    except OSError as error:
        raise InvalidModelError("cannot read the model '%s': %s" % (path, error.strerror or error)) from error


def _no_file_error(path: str) -> InvalidModelError:
    """Return the error for a path that is no file: nothing is there, or a folder, a device or a pipe is."""
    hint = "give the path of an .onnx file"
    if not os.path.exists(path):
        folder, name = os.path.split(path)
        names = os.listdir(folder or os.curdir) if os.path.isdir(folder or os.curdir) else []
        close = difflib.get_close_matches(name, names, 1)
        hint = "did you mean '%s'?" % os.path.join(folder, close[0]) if close else hint
        return InvalidModelError("the model '%s' does not exist" % path, hint=hint)
    if os.path.isdir(path):
        models = sorted(name for name in os.listdir(path) if name.lower().endswith(".onnx"))
        hint = "did you mean '%s'?" % os.path.join(path, models[0]) if models else hint
        return InvalidModelError("the model '%s' is not a file, but a folder" % path, hint=hint)
    hint = "on the command line, - reads the standard input; in Python, load(file.read())"
    return InvalidModelError("the model '%s' is not a file, but a device or a pipe" % path, hint=hint)


def _read_model(source: Source, folder: Optional[Folder], source_argument: ModelSource) -> Model:
    """Return the model in the bytes of `source`, checked, sorted and inlined.

    `folder`: the folder of the external data, or None. `source_argument`: the argument of `load`, for `Model.source`.
    Raises InvalidModelError, UnsupportedError and LimitError as `load` does.
    """
    if not source.size:
        raise InvalidModelError("the model is empty: there are no bytes", hint="export or copy it again")
    record, unknown = parse(source, MODEL)
    if record.graph is None:
        raise InvalidModelError("this is no ONNX model: it has no graph", hint="give an .onnx file, not a part of one")
    versions = _versions(record, unknown)
    reader = Reader(folder)
    try:
        functions = [reader.function(function) for function in record.functions]
        graph = check(inline(reader.graph(record.graph), functions, versions))
    except RecursionError:
        raise UnsupportedError("the graphs or functions of the model are nested too deeply") from None
    return Model(
        graph,
        versions,
        record.ir_version,
        source_argument if isinstance(source_argument, str) else None,
        [function.key for function in functions],
        {entry.key: entry.value for entry in record.metadata_props},
        ("%s %s" % (record.producer_name, record.producer_version)).strip(),
        source_argument,
        () if folder is None else tuple(folder.files),
        None if folder is None else folder.named,
    )


def _versions(record: Message, unknown: Set[str]) -> Dict[str, int]:
    """Return domain -> opset version of a model. `unknown`: the names of fields that this library does not know.

    Before IR version 3, a model without opsets has version 1 of ai.onnx.

    Raises InvalidModelError in these cases:

    - The IR version is missing.
    - The opsets are missing, from IR version 3 on.
    - A domain has two versions, or a standard domain has a version below 1.

    Raises UnsupportedError in these cases:

    - A standard domain has a version that is newer than this library.
    - The IR version is newer than this library, and `unknown` is not empty.
    """
    if record.ir_version < 1:
        raise InvalidModelError("this is no ONNX model: it has no IR version", hint="export the model again")
    # A later format only adds fields. A model without unknown fields reads correctly, and is accepted.
    if record.ir_version > NEWEST_IR and unknown:
        raise UnsupportedError(
            "the model has IR version %d with parts that this release does not know (%s); the newest it knows is %d"
            % (record.ir_version, ", ".join(sorted(unknown)), NEWEST_IR),
            hint="update onnx-compat, or export the model with an older onnx",
        )
    versions = opsets(record.opset_import)
    if not versions:
        if record.ir_version >= 3:
            raise InvalidModelError("the model imports no operator set (opset_import)", hint="export the model again")
        versions[""] = 1
    check_versions(versions)
    return versions
