"""Read the recorded cases from the test data of an onnx release.

The suites node, simple and pytorch-* have a folder for each case. The suite light has a model file and an output file
for each case, and no inputs.
"""

from __future__ import annotations

import json
from itertools import count, takewhile
from typing import Dict, Iterator, List, NamedTuple, Tuple

import numpy as np
import onnx
from onnx import numpy_helper

from matrix.suites.cache import ATOL, RTOL
from matrix.suites.wheels import Files

__all__ = ["SUITES", "Recorded", "read_recorded"]

SUITES = ("node", "simple", "pytorch-converted", "pytorch-operator", "light")

# Tolerances that are in the code of onnx's own test runner, and in no file of the case.
_LIGHT_RTOL = {"test_densenet121": 2e-3}


class Recorded(NamedTuple):
    """A case in the data of a release. `sets`: the serialised inputs and outputs of each data set."""

    name: str
    model: bytes
    sets: List[Tuple[List[bytes], List[bytes]]]
    rtol: float = RTOL
    atol: float = ATOL


def read_recorded(data: Files, suite: str) -> Iterator[Recorded]:
    """Yield the cases of a suite in the data of a release, sorted by name. No case if the release lacks the suite."""
    return _read_light(data) if suite == "light" else _read_folders(data, suite)


def _read_folders(data: Files, suite: str) -> Iterator[Recorded]:
    for model in sorted(name for name in data if name.startswith(suite + "/") and name.endswith("/model.onnx")):
        case = model[: -len("/model.onnx")]
        tolerances: Dict[str, float] = json.loads(data.get(case + "/data.json", b"{}"))
        folders = takewhile(
            lambda folder: folder + "input_0.pb" in data or folder + "output_0.pb" in data,
            (case + "/test_data_set_%d/" % k for k in count()),
        )
        sets = [
            (_read_numbered(data, folder + "input_%d.pb"), _read_numbered(data, folder + "output_%d.pb"))
            for folder in folders
        ]
        name = case[len(suite) + 1 :]
        yield Recorded(name, data[model], sets, tolerances.get("rtol", RTOL), tolerances.get("atol", ATOL))


def _read_light(data: Files) -> Iterator[Recorded]:
    for model in sorted(name for name in data if name.startswith("light/light_") and name.endswith(".onnx")):
        content = data[model]
        stem = model[: -len(".onnx")]
        name = "test_" + stem[len("light/light_") :]
        sets = [(_make_ramps(onnx.load_from_string(content).graph), _read_numbered(data, stem + "_output_%d.pb"))]
        yield Recorded(name, content, sets, _LIGHT_RTOL.get(name, RTOL))


def _read_numbered(data: Files, pattern: str) -> List[bytes]:
    """Return the contents of the files `pattern % 0`, `pattern % 1` and so on, up to the first that is absent."""
    return [data[name] for name in takewhile(data.__contains__, (pattern % i for i in count()))]


def _make_ramps(graph: onnx.GraphProto) -> List[bytes]:
    """Return the serialised inputs for which the outputs of a light model were recorded.

    An input of n elements has the elements 0, 1/n, 2/n, … in the order of storage.
    """
    initializers = {tensor.name for tensor in graph.initializer}
    ramps = []
    for value in graph.input:
        if value.name not in initializers:
            shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
            size = int(np.prod(shape))
            ramp = (np.arange(size).reshape(shape) / size).astype(np.float32)
            ramps.append(numpy_helper.from_array(ramp).SerializeToString())
    return ramps
