"""Calibration data in files: arrays that hold samples one behind the other, and folders of such files or of images."""

import os
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple, Union

import numpy as np

from onnx_compat.calibration.images import SUFFIXES, Images
from onnx_compat.errors import InputError
from onnx_compat.model import TensorType, ValueInfo

__all__ = ["Named", "cut", "only", "read"]

#: Where a sample is from, in words, and what it is.
Named = Tuple[str, Any]


def read(path: Union[str, "os.PathLike[str]"], declared: Sequence[ValueInfo]) -> Iterator[Named]:
    """The samples of a file or a folder."""
    place = Path(os.fspath(path))
    if place.is_dir():
        return _folder(place, declared)
    if not place.exists():
        raise InputError("there is no file or folder '%s'" % place)
    return _file(place, declared)


def _file(path: Path, declared: Sequence[ValueInfo]) -> Iterator[Named]:
    from onnx_compat.verification.npz import load_npz

    if path.suffix.lower() == ".npz":
        return cut("'%s'" % path.name, load_npz(path), declared)
    if path.suffix.lower() == ".npy":
        return cut("'%s'" % path.name, {only(declared).name: _npy(path)}, declared)
    raise InputError(
        "'%s' is no calibration data" % path, hint="give a .npz or .npy file, or a folder of these or of images"
    )


def _folder(folder: Path, declared: Sequence[ValueInfo]) -> Iterator[Named]:
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    kinds = [[path for path in paths if path.suffix.lower() in kind] for kind in ((".npz",), (".npy",), SUFFIXES)]
    if sum(map(bool, kinds)) != 1:
        held = "files of several kinds" if any(kinds) else "no .npz file, no .npy file and no image"
        raise InputError("the folder '%s' holds %s" % (folder, held), hint="give a folder with one kind of them")
    if kinds[2]:
        yield from Images(str(folder)).read(declared)
    for path in kinds[0] + kinds[1]:
        yield from _file(path, declared)


def _npy(path: Path) -> Any:
    try:
        return np.load(str(path), allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError("'%s' is not a readable .npy file (%s)" % (path, error)) from error


def only(declared: Sequence[ValueInfo]) -> ValueInfo:
    """The only input: the one that an array without a name is for."""
    if len(declared) != 1:
        names = ", ".join("'%s'" % one.name for one in declared)
        raise InputError(
            "the calibration data has no names, and the model has %d inputs" % len(declared),
            hint="give a .npz file with an array for each of %s" % names,
        )
    return declared[0]


def cut(what: str, arrays: Mapping[str, Any], declared: Sequence[ValueInfo]) -> Iterator[Named]:
    """The samples that lie in arrays one behind the other. What is missing, or of no use to the model, is left as it is:
    the check of the samples tells.
    """
    pieces: Dict[str, List[Any]] = {}
    for one in declared:
        if one.name in arrays:
            pieces[one.name] = _pieces(what, one, np.asarray(arrays[one.name]))
    counts = {name: len(found) for name, found in pieces.items()}
    if len(set(counts.values())) > 1:
        told = ", ".join("%d of '%s'" % (count, name) for name, count in counts.items())
        raise InputError("calibration data, %s: not as many samples of one input as of another: %s" % (what, told))
    strange = {name: array for name, array in arrays.items() if name not in pieces}
    for place in range(min(counts.values()) if counts else len(strange)):
        yield "%s, sample %d" % (what, place), dict(strange, **{name: found[place] for name, found in pieces.items()})


def _pieces(what: str, one: ValueInfo, array: "np.ndarray[Any, np.dtype[Any]]") -> List[Any]:
    assert isinstance(one.type, TensorType) and one.type.shape is not None
    shape = one.type.shape
    if array.ndim == len(shape) + 1:
        return list(array)
    if not shape or array.ndim != len(shape):
        return [array]
    length = shape[0] if isinstance(shape[0], int) and shape[0] > 0 else 1
    if len(array) % length:
        raise InputError(
            "calibration data, %s: the array of '%s' is %d long, and the model takes %d at once: %s"
            % (what, one.name, len(array), length, one.type),
            hint="give a multiple, or one axis more in front, for the samples",
        )
    return [array[start : start + length] for start in range(0, len(array), length)]
