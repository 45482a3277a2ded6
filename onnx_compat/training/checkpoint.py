"""Checkpoints: write the states of a training to a file, atomically, and read them.

A checkpoint is a .npz file. The entry `header` is a JSON text: the version of the format, the digest of the states of the
model, the position of the training, and the names of the states. The entries `0`, `1`, … are the states, in this order.
"""

import hashlib
import json
import os
import zipfile
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

from onnx_compat.conversion.destinations import Destination
from onnx_compat.errors import InputError
from onnx_compat.ir.dtypes import DType, from_public, to_public
from onnx_compat.model.loading import StrPath

if TYPE_CHECKING:
    import onnx

__all__ = ["Checkpoint", "digest_of_states", "read_checkpoint", "write_checkpoint"]

_FORMAT = 1
_HINT = "give a checkpoint that a Trainer has written"


class Checkpoint(NamedTuple):
    """The content of a checkpoint.

    - states: name -> array of each state.
    - position: (complete epochs, complete steps of the epoch after them).
    """

    states: Dict[str, np.ndarray]
    position: Tuple[int, int]


def digest_of_states(states: "Mapping[str, onnx.TensorProto]") -> str:
    """Return a text that differs for models whose states have other names, element types or shapes."""
    rows = sorted((name, tensor.data_type, list(tensor.dims)) for name, tensor in states.items())
    return hashlib.sha256(json.dumps(rows).encode("utf-8")).hexdigest()


def write_checkpoint(path: StrPath, checkpoint: Checkpoint, digest: str) -> None:
    """Write a checkpoint. The file at `path` is replaced in one step, after the new content is on the disk.

    `digest`: the result of `digest_of_states`. Raises InputError if the path may not be written.
    """
    target = Destination(path)
    carriers = [from_public(array) for array in checkpoint.states.values()]
    header = {
        "format": _FORMAT,
        "digest": digest,
        "position": list(checkpoint.position),
        "states": list(checkpoint.states),
        "dtypes": [dtype.name for _, dtype in carriers],
    }
    with target.scratch() as scratch:
        unfinished = os.path.join(scratch, "checkpoint.npz")
        entries: List[Tuple[str, np.ndarray]] = [("header", np.array(json.dumps(header)))]
        entries += [(str(k), array) for k, (array, _) in enumerate(carriers)]
        with open(unfinished, "wb") as stream:
            with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
                for name, array in entries:
                    with archive.open(name + ".npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
            stream.flush()
            os.fsync(stream.fileno())
        target.put(unfinished)


def read_checkpoint(path: StrPath, digest: str) -> Checkpoint:
    """Return the content of a checkpoint. `digest`: the digest of the states of the model that continues.

    Raises InputError if the file is missing, damaged or no checkpoint, and if it belongs to a model with other states.
    """
    from onnx_compat.verification.npz import load_arrays

    if not os.path.exists(os.fspath(path)):
        raise InputError("there is no checkpoint '%s'" % path, hint=_HINT)
    arrays = load_arrays(path, "checkpoint", _HINT)
    try:
        header: Dict[str, Any] = dict(json.loads(str(arrays["header"])))
        names: Sequence[str] = header["states"]
        epochs, steps = (int(number) for number in header["position"])
        if header["format"] != _FORMAT:
            raise InputError(
                "the checkpoint '%s' has the format %s, and this release reads %d" % (path, header["format"], _FORMAT),
                hint="continue with the release of onnx-compat that has written it",
            )
        if header["digest"] != digest:
            raise InputError(
                "the checkpoint '%s' belongs to another model: its states have other names, types or shapes" % path,
                hint="give the model whose training has written it",
            )
        states = {
            name: np.array(to_public(arrays[str(k)], DType.of(dtype)))
            for k, (name, dtype) in enumerate(zip(names, header["dtypes"]))
        }
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("'%s' is no checkpoint, or is damaged: %r" % (path, error), hint=_HINT) from error
    return Checkpoint(states, (epochs, steps))
