"""Script that writes the node cases of the installed onnx as files.

`wheels._load_data` runs it with the Python of that onnx.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Callable, Dict

import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

_FROM: Dict[str, Callable[..., Any]] = {
    "sequence_type": numpy_helper.from_list,
    "optional_type": numpy_helper.from_optional,
    "map_type": numpy_helper.from_dict,
    "tensor_type": numpy_helper.from_array,
}


def main(folder: Path) -> None:
    """Write each node case into `folder`/node/<name>: the model, the tolerances and the data sets."""
    for case in load_model_tests(kind="node"):
        assert case.model is not None and case.data_sets is not None
        case_folder = folder / "node" / case.name
        case_folder.mkdir(parents=True)
        (case_folder / "model.onnx").write_bytes(case.model.SerializeToString())
        (case_folder / "data.json").write_text(json.dumps({"rtol": case.rtol, "atol": case.atol}), encoding="utf-8")
        for k, (inputs, outputs) in enumerate(case.data_sets):
            data = case_folder / f"test_data_set_{k}"
            data.mkdir()
            for side, values, infos in (
                ("input", inputs, case.model.graph.input),
                ("output", outputs, case.model.graph.output),
            ):
                for i, (value, info) in enumerate(zip(values, infos)):
                    (data / f"{side}_{i}.pb").write_bytes(_serialize(value, info))


def _serialize(value: Any, info: onnx.ValueInfoProto) -> bytes:
    if not hasattr(value, "SerializeToString"):  # a few cases have protobuf messages instead of arrays
        value = _FROM[str(info.type.WhichOneof("value"))](value, info.name)
    content: bytes = value.SerializeToString()
    return content


if __name__ == "__main__":
    main(Path(sys.argv[1]))
