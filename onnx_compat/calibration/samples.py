"""Split calibration data into samples, and check each sample against the inputs of the model."""

import os
from itertools import islice
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Union

import numpy as np

from onnx_compat.calibration import files
from onnx_compat.calibration.files import NamedSample
from onnx_compat.calibration.images import Images
from onnx_compat.errors import InputError
from onnx_compat.execution.feeds import check_feed
from onnx_compat.model import Model, TensorType, ValueInfo

__all__ = ["GENERATED", "Sample", "batch", "paths_of", "samples"]

#: The value of `calibrate` that requests generated inputs.
GENERATED = "generated"
_GENERATED_COUNT = 32

Sample = Dict[str, np.ndarray]
#: A path, `GENERATED`, images, an array, arrays by name, or an iterable of samples.
Data = Union[str, "os.PathLike[str]", Images, np.ndarray, Mapping[str, Any], Iterable[Any]]


def samples(model: Model, data: Data) -> Iterator[Sample]:
    """Yield each sample of calibration data as {input name: carrier array}, checked against the inputs of the model.

    The call itself raises nothing. The first item raises `InputError` in these cases:

    - An input of the model is not a tensor of a known dtype and rank.
    - `data` is of an unknown kind.
    - `data` has no sample.

    When a sample is reached, it raises `InputError` if it does not fit the model, or UnsupportedError if ONNX lacks its
    dtype. Errors of reading files and images pass.
    """
    for info in model.inputs:
        if not isinstance(info.type, TensorType) or info.type.shape is None or info.type.dtype is None:
            raise InputError(
                "the input '%s' is %s, and only tensors of a known rank can be calibrated"
                % (info.name, info.type or "untyped")
            )
    is_empty = True
    for origin, sample in _read_samples(model.inputs, data):
        is_empty = False
        try:
            yield _check_sample(sample, model.inputs)
        except InputError as error:
            raise InputError("calibration data, %s: %s" % (origin, error.reason), hint=error.hint) from error
    if is_empty:
        raise InputError("the calibration data holds no sample", hint="give some dozens of typical inputs")


def paths_of(data: Optional[Data]) -> List[str]:
    """Return the paths of the files that calibration data is read from.

    - A file: the path itself, even if it does not exist.
    - A folder, or the folder of `Images`: the path of each entry directly in the folder, subfolders included.
    - Data in memory, `GENERATED` and None: an empty list.
    """
    source = data.folder if isinstance(data, Images) else data
    if not isinstance(source, (str, os.PathLike)) or source == GENERATED:
        return []
    path = os.fspath(source)
    return [os.path.join(path, name) for name in os.listdir(path)] if os.path.isdir(path) else [path]


def batch(model: Model, data: Data, limit: int = 32) -> Sample:
    """Return the first samples as one batch, {input name: carrier array}, concatenated along the first axis.

    Read the first `limit` samples, and leave out each sample whose shapes differ from those of the first sample. If the
    first axis of any input has a fixed size, or an input is a scalar, return the first sample alone. Raises as
    `samples` does.
    """
    several = all(isinstance(info.type, TensorType) and _has_open_batch(info.type) for info in model.inputs)
    leading: List[Sample] = list(islice(samples(model, data), limit if several else 1))
    first = leading[0]
    equal_shapes = [
        sample for sample in leading if all(sample[name].shape == array.shape for name, array in first.items())
    ]
    return {name: np.concatenate([sample[name] for sample in equal_shapes]) for name in first} if several else first


def _has_open_batch(kind: TensorType) -> bool:
    """Return whether the size of the first axis, the batch, is open; False for a scalar and for an unknown shape."""
    return bool(kind.shape) and not isinstance((kind.shape or ())[0], int)


def _check_sample(sample: object, declared: Sequence[ValueInfo]) -> Sample:
    """Check a sample against the inputs `declared`; return {input name: carrier array} in the order of `declared`.

    The sample is a dict, a list or tuple in the order of the inputs, or the array of the only input.

    Raises `InputError` if the sample does not fit the inputs, if an array is empty, or if a float is not finite.
    Raises UnsupportedError for an array of a dtype that ONNX lacks.
    """
    feed: Any = sample if isinstance(sample, (Mapping, list, tuple)) else [sample]
    names = [info.name for info in declared]
    arrays = {name: array for name, (array, _) in check_feed(feed, declared, names).items()}
    for name, array in arrays.items():
        if not array.size:
            raise InputError("the input '%s' has no elements (shape %s)" % (name, list(array.shape)))
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError("the input '%s' has values that are not finite" % name)
    return arrays


def _read_samples(declared: Sequence[ValueInfo], data: Data) -> Iterator[NamedSample]:
    """Return an iterator over (origin, sample) for each sample of calibration data. The samples are not checked yet.

    The origin is a text for errors. A sample is {input name: array}; from an iterable, it is whatever the iterable
    yields. Raises `InputError` at the call for data of an unknown kind. Other errors come at the call or while
    iterating, as for `files.read_samples` and `files.split_samples`.
    """
    if isinstance(data, Images):
        return data.read(declared)
    if isinstance(data, str) and data == GENERATED:
        return _generate_samples(declared)
    if isinstance(data, np.ndarray):
        return files.split_samples("the array", {files.only_input(declared).name: data}, declared)
    if isinstance(data, Mapping):
        return files.split_samples("the arrays", data, declared)
    if isinstance(data, (str, os.PathLike)):
        return files.read_samples(data, declared)
    if hasattr(data, "__iter__"):
        return (("sample %d" % index, sample) for index, sample in enumerate(data))
    raise InputError(
        "%s is no calibration data" % type(data).__name__,
        hint="give a .npz file, a folder, or an iterable of samples, each a dict with an array for each input",
    )


def _generate_samples(declared: Sequence[ValueInfo]) -> Iterator[NamedSample]:
    """Yield 32 pairs (origin, {input name: array}) of generated inputs, from the seeds 0 to 31.

    The origin is a text for errors. Errors of `verification.generate` pass.
    """
    from onnx_compat.verification.generate import generate

    for seed in range(_GENERATED_COUNT):
        yield "generated sample %d" % seed, generate(declared, seed)
