"""The description of .tflite files by `onnx-compat inspect`."""

import json
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest
from onnx_compat_tflite import SHIM, describe, features
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.delegate_coverage import Coverage, delegate_coverage

from onnx_compat.errors import InvalidModelError, OnnxCompatError


def model(**more: Any) -> fb.ModelSpec:
    """Return a file with a fully connected layer, int8 weights by channel, then a GELU.

    The oldest runtimes support neither.
    """
    graph = fb.SubGraph(name="main")
    x = graph.add(fb.TensorSpec("x", "float32", (-1, 4)))
    scales = fb.Quantization([0.5, 0.25, 0.125], [0, 0, 0], 0)
    weights = graph.add(fb.TensorSpec("w", "int8", (3, 4), np.arange(12, dtype=np.int8).reshape(3, 4), None, scales))
    again = graph.add(fb.TensorSpec("again", "int8", (3, 4), np.arange(12, dtype=np.int8).reshape(3, 4), None, scales))
    both, y = (graph.add(fb.TensorSpec(name, "float32", (-1, 3))) for name in ("both", "y"))
    graph.operators = [
        fb.OperatorSpec("FULLY_CONNECTED", [x, weights, None], [both]),
        fb.OperatorSpec("FULLY_CONNECTED", [x, again, None], [graph.add(fb.TensorSpec("other", "float32", (-1, 3)))]),
        fb.OperatorSpec("GELU", [both], [y]),
    ]
    graph.inputs, graph.outputs = [x], [y]
    signature = fb.Signature({"given": x}, {"result": y})
    return fb.ModelSpec([graph], [signature], {"note": b"by hand"}, **more)


@pytest.fixture
def path(tmp_path: Path) -> str:
    target = str(tmp_path / "m.tflite")
    fb.write(model(), target)
    return target


def rows(path: str, table: str) -> List[Dict[str, Any]]:
    result: List[Dict[str, Any]] = SHIM.describe(path, "tflite").tables[table]
    return result


def test_facts(path: str) -> None:
    facts = SHIM.describe(path, "tflite").facts
    assert facts["bytes"] == Path(path).stat().st_size
    assert facts["constant_bytes"] == 12  # equal constants are held once
    assert (facts["operators"], facts["tensors"]) == (3, 6)
    assert facts["quantization"] == {"int8 per channel (axis 0), constant": 2}
    assert facts["lowest_runtime"] == "2.17.0"  # from which on int8 weights by channel meet floats
    assert facts["custom_operators"] == []


def test_tables(path: str) -> None:
    tables = SHIM.describe(path, "tflite").tables
    given, result = tables["signatures"]
    assert (given["name"], given["tensor"], given["shape"], given["shape_signature"]) == ("given", "x", [1, 4], [-1, 4])
    assert (result["name"], result["tensor"], result["port"]) == ("result", "y", "output")
    counts = {(row["operator"], row["count"]) for row in tables["operator_counts"]}
    assert counts == {("FULLY_CONNECTED", 2), ("GELU", 1)}
    assert tables["constants"] == [{"type": "int8", "buffers": 1, "bytes": 12}]
    largest = {row["tensor"]: row for row in tables["largest_tensors"]}
    assert largest["w"]["bytes"] == 12
    assert largest["w"]["first_read_for"] == "FULLY_CONNECTED both"
    assert largest["y"]["kind"] == "computed"
    assert {row["name"]: row["text"] for row in tables["metadata"]}["note"] == "by hand"


def test_a_file_without_a_signature_is_described_by_its_tensors(tmp_path: Path) -> None:
    model_spec = model()
    model_spec.signatures = []
    fb.write(model_spec, str(tmp_path / "m.tflite"))
    assert [row["name"] for row in rows(str(tmp_path / "m.tflite"), "signatures")] == ["x", "y"]


def test_ports_without_a_name_have_rows_of_their_own(tmp_path: Path) -> None:
    tensors = [fb.TensorSpec("", "float32", (size,)) for size in (2, 3, 2, 3)]
    operators = [fb.OperatorSpec("ABS", [k], [2 + k]) for k in range(2)]
    fb.write(fb.ModelSpec([fb.SubGraph(tensors, operators, [0, 1], [2, 3])]), str(tmp_path / "m.tflite"))
    ports = [(row["port"], row["shape"]) for row in rows(str(tmp_path / "m.tflite"), "signatures")]
    assert ports == [("input", [2]), ("input", [3]), ("output", [2]), ("output", [3])]


def test_the_delegate_is_counted_where_the_runtime_tells(path: str) -> None:
    runtime = features.find_runtime()[0]
    assert runtime is not None
    result = delegate_coverage(path, 3)
    assert result.runtime.startswith(runtime.name)
    if result.refusal:  # this runtime has no GELU
        description = result.refusal.lower()  # LiteRT 1.2 and 1.4 do not survive it
        assert any(words in description for words in ("gelu", "failed", "op", "ends its process"))
        return
    description = SHIM.describe(path, "tflite").facts["delegate"]
    assert description["of"] == 3
    assert description["taken"] + sum(description["left"].values()) == 3
    assert description["taken"] == sum(row["delegated"] for row in rows(path, "operator_counts"))


def test_operators_in_a_delegate() -> None:
    from onnx_compat_tflite.delegate_coverage import _delegated_ops

    def plan(index: int, inputs: List[int], outputs: List[int]) -> Dict[str, Any]:
        return {"index": index, "op_name": "", "inputs": inputs, "outputs": outputs}

    # 0 -> a -> 1 -> b -> 2 -> c -> 3, and d reads 1 too
    operators = [plan(0, [0], [1]), plan(1, [1], [2]), plan(2, [2], [3]), plan(3, [1], [4])]
    assert _delegated_ops(operators, [plan(4, [1], [3])]) == {1, 2}
    assert _delegated_ops(operators, [plan(4, [0], [1]), plan(5, [1], [4])]) == {0, 3}
    assert _delegated_ops(operators, []) == set()


def test_a_file_that_ends_the_runtime_is_a_line(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nonexistent")  # its process ends before it has said a word
    result = delegate_coverage(path, 3)
    assert "ends its process" in result.refusal
    assert result.delegated is None


def test_a_file_that_the_runtime_refuses_is_described(tmp_path: Path) -> None:
    model_spec = model()
    model_spec.subgraphs[0].operators[2] = fb.OperatorSpec("CUSTOM", [3], [4], custom_code="Unheard\x1b[31mOf")
    fb.write(model_spec, str(tmp_path / "m.tflite"))
    facts = SHIM.describe(str(tmp_path / "m.tflite"), "tflite").facts
    assert facts["custom_operators"] == ["Unheard\x1b[31mOf"]
    assert facts["delegate"] is None
    assert facts["refusal"]


def test_a_file_that_is_no_flatbuffer(tmp_path: Path, path: str) -> None:
    whole = Path(path).read_bytes()
    for name, content in (
        ("cut", whole[: len(whole) // 2]),
        ("text", b"hello, this is no model"),
        ("other", whole[:4] + b"TFL2" + whole[8:]),
        ("empty", b""),
    ):
        broken = tmp_path / (name + ".tflite")
        broken.write_bytes(content)
        with pytest.raises(InvalidModelError):
            SHIM.describe(str(broken), "tflite")


def test_damaged_files_are_described_or_refused(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe, "delegate_coverage", lambda *_: Coverage("", "not asked"))
    whole, draw = bytearray(Path(path).read_bytes()), np.random.RandomState(5)
    description = 0
    for _ in range(200):
        content = bytearray(whole)
        for _ in range(draw.randint(1, 5)):
            content[draw.randint(8, len(content))] = draw.choice([0, 1, 127, 128, 255, draw.randint(256)])
        broken = tmp_path / "m.tflite"
        broken.write_bytes(bytes(content))
        try:
            result = SHIM.describe(str(broken), "tflite")
        except OnnxCompatError:
            continue
        json.dumps(result, allow_nan=False)
        description += 1
    assert description > 10
