"""The cache of cases: its folders, its index files, and how cases are read and written.

    <cache>/<suite>/index.json                       the rows of one suite
    <cache>/<suite>/<release>/<case>/model.onnx      a case; `release` is a version of onnx, or `generated`
    <cache>/<suite>/<release>/<case>/test_data_set_k/input_i.pb, output_i.pb

The files have onnx's own format: a TensorProto, SequenceProto or OptionalProto each, by the type in the graph. A row
with the same content as an earlier row names the folder of that row, so that a content is stored and run once.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Dict, FrozenSet, Iterable, Iterator, List, NamedTuple, Sequence, Tuple

import onnx

from matrix.suites.chance import is_random
from matrix.suites.place import cache_dir
from matrix.suites.values import Value, read_value

__all__ = ["ATOL", "RTOL", "Case", "DataSet", "Value", "cache_dir", "read_index", "write_case", "write_index"]

RTOL, ATOL = 1e-3, 1e-7


class DataSet(NamedTuple):
    """A data set of a case: the inputs of the model and the expected outputs, by name, in the order of the graph."""

    inputs: Dict[str, Value]
    outputs: Dict[str, Value]
    coarse: FrozenSet[str] = frozenset()
    """The names of the outputs of type bfloat16, whose arrays may have a wider dtype. Their tolerance is larger."""


class Case(NamedTuple):
    """A row of an index: a case, with the properties that are known without its model. `sets`: the number of data sets."""

    suite: str
    release: str
    name: str
    folder: str
    """The path of the case in the cache; for equal content, the path of the earlier row."""
    opset: Dict[str, int]
    ir: int
    operators: List[str]
    sets: int
    rtol: float
    atol: float
    hash: str
    tags: List[str]
    """`dynamic`: one prepared model runs all data sets, whose shapes differ. `random`: the model draws random numbers."""

    @property
    def id(self) -> str:
        """Return the id of the case: `suite/release/name`."""
        return "%s/%s/%s" % (self.suite, self.release, self.name)

    @property
    def model(self) -> Path:
        """Return the path of the model's file."""
        return cache_dir() / self.folder / "model.onnx"

    def data_sets(self) -> Iterator[DataSet]:
        """Yield each data set: its inputs, and the recorded outputs."""
        graph = onnx.load(str(self.model)).graph
        for k in range(self.sets):
            yield _read_set(graph, self.model.parent / ("test_data_set_%d" % k))


def read_index(suite: str) -> List[Case]:
    """Return the rows of a suite, the oldest release first; an empty list if the suite is not in the cache."""
    path = cache_dir() / suite / "index.json"
    if not path.exists():
        return []
    return [Case(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def write_index(suite: str, cases: Iterable[Case]) -> None:
    """Add rows to the index of a suite. A row replaces the old row with the same id."""
    rows = {case.id: case for case in read_index(suite)}
    rows.update((case.id, case) for case in cases)
    text = "[\n%s\n]\n" % ",\n".join(json.dumps(rows[id]._asdict()) for id in sorted(rows, key=_by_release))
    path = cache_dir() / suite / "index.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name("index.json.%d" % os.getpid())
    temporary.write_text(text, encoding="utf-8")
    os.replace(str(temporary), str(path))


def write_case(
    suite: str,
    release: str,
    name: str,
    model: bytes,
    sets: Sequence[Tuple[Sequence[bytes], Sequence[bytes]]],
    known: Dict[str, str],
    rtol: float = RTOL,
    atol: float = ATOL,
    tags: Sequence[str] = (),
) -> Case:
    """Write the files of a case into the cache, and return its row.

    - sets: the data sets, as pairs (serialised inputs, serialised outputs).
    - known: content hash -> folder of the cases of the suite so far. If it has the content, no file is written, and the
      row names that folder. Otherwise the content is added to it.
    - tags: the tags of the row. The tag "random" is added for a model that draws random numbers.
    """
    digest = _digest(model, sets)
    folder = known.setdefault(digest, "%s/%s/%s" % (suite, release, name))
    if folder == "%s/%s/%s" % (suite, release, name):
        _write_folder(cache_dir() / folder, model, sets)
    proto = onnx.load_from_string(model)
    return Case(
        suite=suite,
        release=release,
        name=name,
        folder=folder,
        opset={entry.domain: entry.version for entry in proto.opset_import},
        ir=proto.ir_version,
        operators=sorted(set(_operators(proto))),
        sets=len(sets),
        rtol=rtol,
        atol=atol,
        hash=digest,
        tags=[*tags, *(["random"] if is_random(proto, sets[0][0] if sets else ()) else [])],
    )


def _by_release(id: str) -> Tuple[str, List[int], str]:
    """Return the key that sorts an id by suite, release as numbers, and name."""
    suite, release, name = id.split("/", 2)
    return suite, [int(part) for part in release.split(".") if part.isdigit()], name


def _operators(model: onnx.ModelProto) -> Iterator[str]:
    yield from _operators_of(model.graph.node)
    for function in model.functions:
        yield from _operators_of(function.node)


def _operators_of(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    for node in nodes:
        yield "%s::%s" % (node.domain, node.op_type) if node.domain else node.op_type
        for attribute in node.attribute:
            for graph in [attribute.g, *attribute.graphs]:
                yield from _operators_of(graph.node)


def _digest(model: bytes, sets: Sequence[Tuple[Sequence[bytes], Sequence[bytes]]]) -> str:
    """Return the digest of the model and the data sets of a case.

    The producer, the IR version and the doc string of the model do not count.
    """
    proto = onnx.load_from_string(model)
    for field in ("ir_version", "producer_name", "producer_version", "doc_string"):
        proto.ClearField(field)
    content_hash = hashlib.sha256(proto.SerializeToString(deterministic=True))
    for inputs, outputs in sets:
        for side in (inputs, outputs):
            content_hash.update(b"%d;" % len(side))
            for data in side:
                content_hash.update(b"%d:" % len(data))
                content_hash.update(data)
    return content_hash.hexdigest()[:32]


def _write_folder(folder: Path, model: bytes, sets: Sequence[Tuple[Sequence[bytes], Sequence[bytes]]]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=str(folder.parent)))
    (temporary / "model.onnx").write_bytes(model)
    for k, (inputs, outputs) in enumerate(sets):
        data = temporary / ("test_data_set_%d" % k)
        data.mkdir()
        for side, values in (("input", inputs), ("output", outputs)):
            for i, value in enumerate(values):
                (data / ("%s_%d.pb" % (side, i))).write_bytes(value)
    if folder.exists():
        shutil.rmtree(str(folder))
    temporary.chmod(0o755)
    os.replace(str(temporary), str(folder))


def _read_set(graph: onnx.GraphProto, folder: Path) -> DataSet:
    initializers = {tensor.name for tensor in graph.initializer}
    expected_inputs = [value for value in graph.input if value.name not in initializers]
    if (folder / ("input_%d.pb" % len(expected_inputs))).exists():  # the case also has values for initialised inputs
        expected_inputs = list(graph.input)
    coarse = (value.name for value in graph.output if value.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16)
    return DataSet(
        _read_side(expected_inputs, folder, "input"), _read_side(graph.output, folder, "output"), frozenset(coarse)
    )


def _read_side(infos: Iterable[onnx.ValueInfoProto], folder: Path, side: str) -> Dict[str, Value]:
    values: Dict[str, Value] = {}
    for i, info in enumerate(infos):
        path = folder / ("%s_%d.pb" % (side, i))
        if path.exists():
            values[info.name] = read_value(info.type, path.read_bytes())
    return values
