"""Read calibration data from files: arrays that hold the samples along their first axis, and folders of files."""

import os
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple, Union

import numpy as np

from onnx_compat.calibration.images import SUFFIXES, Images
from onnx_compat.errors import InputError
from onnx_compat.model import TensorType, ValueInfo

__all__ = ["NamedSample", "only_input", "read_samples", "split_samples"]

#: The origin of a sample, for error messages, and the sample: a mapping or a sequence of arrays, or an array.
NamedSample = Tuple[str, Any]


def read_samples(path: Union[str, "os.PathLike[str]"], declared: Sequence[ValueInfo]) -> Iterator[NamedSample]:
    """Return an iterator over (origin, {input name: array}) for each sample of a .npz or .npy file, or of a folder.

    The origin is a text for errors, such as the file and the sample's number. `declared` has the model's inputs,
    tensors of known rank. The samples are not checked.

    The files of a folder are read in the order of their names. Files of other suffixes and subfolders are ignored.
    Images are read with the defaults of `Images`. A folder has only .npz files, only .npy files or only images.
    Otherwise the iterator raises `InputError`.

    The call raises `InputError` in these cases. All other errors, and every error of a folder, are raised by the
    iterator.

    - The path does not exist.
    - The file is not readable, or has another suffix.
    - The file is a .npy file, and the model does not have exactly one input.
    """
    source = Path(os.fspath(path))
    if source.is_dir():
        return _read_folder(source, declared)
    if not source.exists():
        raise InputError("there is no file or folder '%s'" % source, hint="give the path of the calibration data")
    return _read_file(source, declared)


def _read_file(path: Path, declared: Sequence[ValueInfo]) -> Iterator[NamedSample]:
    from onnx_compat.verification.npz import load_npz

    if path.suffix.lower() == ".npz":
        return split_samples("'%s'" % path.name, load_npz(path), declared)
    if path.suffix.lower() == ".npy":
        return split_samples("'%s'" % path.name, {only_input(declared).name: _load_npy(path)}, declared)
    raise InputError(
        "'%s' is no calibration data" % path, hint="give a .npz or .npy file, or a folder of these or of images"
    )


def _read_folder(folder: Path, declared: Sequence[ValueInfo]) -> Iterator[NamedSample]:
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    kinds = [[path for path in paths if path.suffix.lower() in kind] for kind in ((".npz",), (".npy",), SUFFIXES)]
    if sum(map(bool, kinds)) != 1:
        content = "files of several kinds" if any(kinds) else "no .npz file, no .npy file and no image"
        raise InputError(
            "the folder '%s' holds %s" % (folder, content),
            hint="give a folder of only .npz files, only .npy files or only images",
        )
    if kinds[2]:
        yield from Images(str(folder)).read(declared)
    for path in kinds[0] + kinds[1]:
        yield from _read_file(path, declared)


def _load_npy(path: Path) -> "np.ndarray[Any, np.dtype[Any]]":
    from onnx_compat.verification.npz import load_arrays

    array = load_arrays(path, ".npy", "write it with numpy.save")
    if isinstance(array, dict):
        raise InputError("'%s' is an archive of arrays, not a .npy file" % path, hint="rename it to .npz")
    return np.asarray(array)


def only_input(declared: Sequence[ValueInfo]) -> ValueInfo:
    """Return the only input in `declared`, the model's inputs. An array without a name belongs to it.

    Raises `InputError` if the model has no input or several.
    """
    if len(declared) != 1:
        names = ", ".join("'%s'" % info.name for info in declared)
        raise InputError(
            "the calibration data has no names, and the model has %d inputs" % len(declared),
            hint="give a .npz file with an array for each of %s" % names,
        )
    return declared[0]


def split_samples(origin: str, arrays: Mapping[str, Any], declared: Sequence[ValueInfo]) -> Iterator[NamedSample]:
    """Split each array into samples along its first axis; yield (origin of the sample, {name: array}) for each sample.

    - origin: a text that names the arrays in errors.
    - arrays: input name -> array. An array whose name is no input is not split: each sample has it whole.
    - declared: the model's inputs, tensors of known rank. An input without an array is missing in each sample.

    If no name is an input, as many samples as arrays are yielded. Missing inputs and unknown names raise nothing here:
    the check of the samples reports them.

    The first item raises `InputError` if the inputs have different numbers of samples, or if an array cannot be split.
    """
    pieces: Dict[str, List[Any]] = {}
    for info in declared:
        if info.name in arrays:
            pieces[info.name] = _split_array(origin, info, np.asarray(arrays[info.name]))
    counts = {name: len(input_pieces) for name, input_pieces in pieces.items()}
    if len(set(counts.values())) > 1:
        texts = ", ".join("%d of '%s'" % (count, name) for name, count in counts.items())
        raise InputError(
            "calibration data, %s: the inputs have different numbers of samples: %s" % (origin, texts),
            hint="give as many samples for each input",
        )
    unknown = {name: array for name, array in arrays.items() if name not in pieces}
    for index in range(min(counts.values()) if counts else len(unknown)):
        sample = dict(unknown, **{name: input_pieces[index] for name, input_pieces in pieces.items()})
        yield "%s, sample %d" % (origin, index), sample


def _split_array(origin: str, info: ValueInfo, array: "np.ndarray[Any, np.dtype[Any]]") -> List[Any]:
    """Split the array of an input into a list of samples along the first axis. `info`: the input, of known rank.

    - The array has one axis more than the input: each slice is a sample.
    - The array has as many axes as the input: a sample is as long as the input's first axis, or 1 if that size is open
      or 0.
    - The array has another number of axes, or the array and the input are scalars: the array is the only sample.

    In the second case, `InputError` is raised if the array's length is no multiple of the sample's length.
    """
    assert isinstance(info.type, TensorType) and info.type.shape is not None
    shape = info.type.shape
    if array.ndim == len(shape) + 1:
        return list(array)
    if not shape or array.ndim != len(shape):
        return [array]
    length = shape[0] if isinstance(shape[0], int) and shape[0] > 0 else 1
    if len(array) % length:
        raise InputError(
            "calibration data, %s: the array of '%s' is %d long, and the model takes %d at once: %s"
            % (origin, info.name, len(array), length, info.type),
            hint="give a multiple of %d, or insert a first axis that counts the samples" % length,
        )
    return [array[start : start + length] for start in range(0, len(array), length)]
