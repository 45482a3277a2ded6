"""Calibration data as samples, each checked against the model."""

import os
from itertools import islice
from typing import Any, Dict, Iterator, List, Mapping, Sequence

import numpy as np

from onnx_compat.calibration import files
from onnx_compat.calibration.files import Named
from onnx_compat.calibration.images import Images
from onnx_compat.errors import InputError
from onnx_compat.execution.feeds import check_feed
from onnx_compat.model import Model, TensorType, ValueInfo

__all__ = ["GENERATED", "Sample", "batch", "paths_of", "samples"]

#: Instead of data.
GENERATED = "generated"
_MADE_UP = 32

Sample = Dict[str, np.ndarray]


def samples(model: Model, data: Any) -> Iterator[Sample]:
    """Each sample by name, as the model takes it. An `InputError` says which one does not fit, and why."""
    for one in model.inputs:
        if not isinstance(one.type, TensorType) or one.type.shape is None or one.type.dtype is None:
            raise InputError(
                "the input '%s' is %s, and only tensors of a known rank can be calibrated"
                % (one.name, one.type or "untyped")
            )
    empty = True
    for where, sample in _read(model.inputs, data):
        empty = False
        try:
            yield _checked(sample, model.inputs)
        except InputError as error:
            raise InputError("calibration data, %s: %s" % (where, error.reason), hint=error.hint) from error
    if empty:
        raise InputError("the calibration data holds no sample", hint="give some dozens of typical inputs")


def paths_of(data: Any) -> List[str]:
    """Return the files that calibration data is read from; none where it is in memory."""
    place = data.folder if isinstance(data, Images) else data
    if not isinstance(place, (str, os.PathLike)) or place == GENERATED:
        return []
    path = os.fspath(place)
    return [os.path.join(path, name) for name in os.listdir(path)] if os.path.isdir(path) else [path]


def batch(model: Model, data: Any, limit: int = 32) -> Sample:
    """Several samples as one, where the first axis of every input is open; else the first one. To verify with."""
    several = all(isinstance(one.type, TensorType) and _is_open(one.type) for one in model.inputs)
    found: List[Sample] = list(islice(samples(model, data), limit if several else 1))
    first = found[0]
    alike = [one for one in found if all(one[name].shape == array.shape for name, array in first.items())]
    return {name: np.concatenate([one[name] for one in alike]) for name in first} if several else first


def _is_open(kind: TensorType) -> bool:
    return bool(kind.shape) and not isinstance((kind.shape or ())[0], int)


def _checked(sample: Any, declared: Sequence[ValueInfo]) -> Sample:
    if not isinstance(sample, (Mapping, list, tuple)):
        sample = [sample]
    names = [one.name for one in declared]
    arrays = {name: array for name, (array, _) in check_feed(sample, declared, names).items()}
    for name, array in arrays.items():
        if not array.size:
            raise InputError("the input '%s' has no elements (shape %s)" % (name, list(array.shape)))
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError("the input '%s' has values that are not finite" % name)
    return arrays


def _read(declared: Sequence[ValueInfo], data: Any) -> Iterator[Named]:
    if isinstance(data, Images):
        return data.read(declared)
    if isinstance(data, str) and data == GENERATED:
        return _generated(declared)
    if isinstance(data, np.ndarray):
        return files.cut("the array", {files.only(declared).name: data}, declared)
    if isinstance(data, Mapping):
        return files.cut("the arrays", data, declared)
    if isinstance(data, str) or hasattr(data, "__fspath__"):
        return files.read(data, declared)
    if hasattr(data, "__iter__"):
        return (("sample %d" % place, sample) for place, sample in enumerate(data))
    raise InputError(
        "%s is no calibration data" % type(data).__name__,
        hint="give a .npz file, a folder, or an iterable of samples, each a dict with an array for each input",
    )


def _generated(declared: Sequence[ValueInfo]) -> Iterator[Named]:
    from onnx_compat.verification.generate import generate

    for seed in range(_MADE_UP):
        yield "generated sample %d" % seed, generate(declared, seed)
