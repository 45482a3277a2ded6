"""Named values in a .npz file: what `run` and `verify` read as inputs and write as outputs.

A sequence `s` is stored as `s[0]`, `s[1]`, …; nothing is ever pickled. Strings are stored as fixed-width text, and
the types that numpy lacks (bfloat16, int4 …) as the float32 or int8 numbers that carry them.
"""

import os
import re
import zipfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple, Union

import numpy as np

from onnx_compat.conversion.destinations import Destination
from onnx_compat.errors import InputError
from onnx_compat.ir.dtypes import from_public

__all__ = ["load_npz", "save_npz"]

_ELEMENT = re.compile(r"^(?P<name>.+)\[(?P<index>\d+)\]$")


def load_npz(path: Union[str, "os.PathLike[str]"]) -> Dict[str, Any]:
    """The values by name; sequences are put together again."""
    try:
        with open(os.fspath(path), "rb") as stream:
            archive = np.load(stream, allow_pickle=False)
            arrays = {name: archive[name] for name in archive.files} if hasattr(archive, "files") else None
    except FileNotFoundError:
        raise InputError("there is no file '%s'" % path, hint="give the .npz file that holds the inputs") from None
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise InputError("'%s' is not a readable .npz file (%s)" % (path, error), hint=_HOW) from error
    if arrays is None:
        raise InputError("'%s' holds one unnamed array" % path, hint=_HOW)
    return _joined(arrays)


_HOW = "write it with numpy.savez(path, **{input_name: array}), of numbers, bools or text, without pickled objects"


def save_npz(path: Union[str, "os.PathLike[str]"], values: Dict[str, Any]) -> Path:
    """Write the values. The file appears complete or not at all."""
    target = Destination(path)
    with target.scratch() as scratch:
        unfinished = os.path.join(scratch, "outputs.npz")
        # Not numpy.savez: an output may be called "file", which is the name of its own argument.
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, array in _entries(values):
                with archive.open(name + ".npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        target.put(unfinished)
    return Path(os.fspath(path))


def _entries(values: Dict[str, Any]) -> Iterator[Tuple[str, np.ndarray]]:
    for name, value in values.items():
        if isinstance(value, (list, tuple)):
            for index, element in enumerate(value):
                yield from _entries({"%s[%d]" % (name, index): element})
        elif value is not None:
            array, dtype = from_public(value)
            yield name, array.astype(str) if dtype.kind == "s" else array


def _joined(values: Dict[str, Any]) -> Dict[str, Any]:
    result: Dict[str, Any] = {}
    elements: Dict[str, List[Tuple[int, Any]]] = {}
    for name, value in values.items():
        match = _ELEMENT.match(name)
        if match:
            elements.setdefault(match.group("name"), []).append((int(match.group("index")), value))
        else:
            result[name] = value
    for name, found in elements.items():
        found.sort(key=lambda pair: pair[0])
        if [index for index, _ in found] != list(range(len(found))):
            raise InputError("the sequence '%s' has gaps: %s" % (name, [index for index, _ in found]), hint=_HOW)
        result[name] = [value for _, value in found]
    return result
