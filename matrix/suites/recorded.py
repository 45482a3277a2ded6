"""The cases in the data of a release: node, simple and pytorch-* as folders, light as a model and an output each."""

from __future__ import annotations

import json
from itertools import count, takewhile
from pathlib import Path
from typing import Iterator, List, NamedTuple, Tuple

import numpy as np
import onnx
from onnx import numpy_helper

from matrix.suites.cache import ATOL, RTOL

__all__ = ["SUITES", "Recorded", "recorded"]

SUITES = ("node", "simple", "pytorch-converted", "pytorch-operator", "light")

# Tolerances that onnx's own runner keeps in code, not beside the model.
_LIGHT_RTOL = {"test_densenet121": 2e-3}


class Recorded(NamedTuple):
    """A case as a release has it."""

    name: str
    model: bytes
    sets: List[Tuple[List[bytes], List[bytes]]]
    rtol: float = RTOL
    atol: float = ATOL


def recorded(data: Path, suite: str) -> Iterator[Recorded]:
    """The cases of a suite in this data; none where the release has none."""
    return _light(data / suite) if suite == "light" else _folders(data / suite)


def _folders(suite: Path) -> Iterator[Recorded]:
    for model in sorted(suite.glob("*/model.onnx")):
        case = model.parent
        settings = case / "data.json"
        told = json.loads(settings.read_text(encoding="utf-8")) if settings.exists() else {}
        sets = [
            (_files(folder, "input_%d.pb"), _files(folder, "output_%d.pb"))
            for folder in _numbered(case, "test_data_set_%d")
        ]
        yield Recorded(case.name, model.read_bytes(), sets, told.get("rtol", RTOL), told.get("atol", ATOL))


def _light(suite: Path) -> Iterator[Recorded]:
    for model in sorted(suite.glob("light_*.onnx")):
        content = model.read_bytes()
        graph = onnx.load_from_string(content).graph
        outputs = _files(suite, model.stem + "_output_%d.pb")
        name = "test_" + model.stem[len("light_") :]
        yield Recorded(name, content, [(_ramps(graph), outputs)], _LIGHT_RTOL.get(name, RTOL))


def _numbered(folder: Path, pattern: str) -> List[Path]:
    return list(takewhile(Path.exists, (folder / (pattern % i) for i in count())))


def _files(folder: Path, pattern: str) -> List[bytes]:
    return [path.read_bytes() for path in _numbered(folder, pattern)]


def _ramps(graph: onnx.GraphProto) -> List[bytes]:
    """The inputs for which the outputs of the light models were recorded: 0, 1/n, 2/n, ..."""
    given = {tensor.name for tensor in graph.initializer}
    found = []
    for value in graph.input:
        if value.name not in given:
            shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
            size = int(np.prod(shape))
            ramp = (np.arange(size).reshape(shape) / size).astype(np.float32)
            found.append(numpy_helper.from_array(ramp).SerializeToString())
    return found
