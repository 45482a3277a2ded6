"""onnxruntime ends the process for some models: it gets such a model in a child process only."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
import onnx
import pytest
from bundles import Keeper, exp_model
from onnx import TensorProto, helper
from registered import register

import onnx_compat
from onnx_compat.execution import fallback
from onnx_compat.execution.onnxruntime_child import _restore, _store, run_in_child
from onnx_compat.execution.soundness import is_sound
from onnx_compat.ir.dtypes import float32
from onnx_compat.verification import oracle

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
Port = Tuple[str, int, Any]


def build(nodes: List[onnx.NodeProto], inputs: List[Port], outputs: List[str], opset: int = 18) -> bytes:
    ports = [[helper.make_tensor_value_info(*port) for port in inputs]]
    ports.append([helper.make_tensor_value_info(name, FLOAT, None) for name in outputs])
    graph = helper.make_graph(nodes, "g", *ports)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


UNKNOWN = build([helper.make_node("NoSuch", ["x"], ["y"], domain="com.microsoft")], [("x", FLOAT, [2])], ["y"])
RELU = build([helper.make_node("Relu", ["x"], ["y"])], [("x", FLOAT, ["n"])], ["y"])
INVALID = {
    "split": build([helper.make_node("Split", ["x"], list("abcd"), num_outputs=3)], [("x", FLOAT, [7])], list("abcd")),
    "gather_nd": build(
        [helper.make_node("GatherND", ["x", "i"], ["y"], batch_dims=-4)],
        [("x", FLOAT, [2, 2, 2]), ("i", INT64, [2, 1])],
        ["y"],
        13,
    ),
    "einsum": build(
        [helper.make_node("Einsum", ["x", "x"], ["y"], equation="ij,ij->i")], [("x", FLOAT, [0, 3])], ["y"]
    ),
    "layer_norm": build(
        [helper.make_node("LayerNormalization", ["x", "s"], ["y"])], [("x", FLOAT, [2, 0]), ("s", FLOAT, [0])], ["y"]
    ),
}
ENDS = """
import os
class SessionOptions: pass
class InferenceSession:
    def __init__(self, path, options, providers): pass
    def get_inputs(self): return []
    def run(self, names, feeds): os.abort()
"""


@pytest.fixture
def aborting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make the onnxruntime of child processes, and of them only, end its process in every run."""
    pytest.importorskip("onnxruntime")
    (tmp_path / "onnxruntime.py").write_text(ENDS)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.fixture
def no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a child process for a model that is sound")

    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(fallback, "run_in_child", refuse)
    monkeypatch.setattr(oracle, "run_in_child", refuse)


def test_what_is_sound() -> None:
    assert is_sound(onnx_compat.load(RELU))
    for data in (UNKNOWN, *INVALID.values()):
        assert not is_sound(onnx_compat.load(data))
    assert not is_sound(onnx_compat.load(build([helper.make_node("Relu", ["x"], ["y"])], [("x", FLOAT, [0])], ["y"])))
    assert not is_sound(onnx_compat.load(build([helper.make_node("Relu", ["x"], ["y"])], [("x", FLOAT, None)], ["y"])))


def test_a_sound_model_stays_in_the_process(no_child: None) -> None:
    part = fallback.fallback_runnable(onnx_compat.load(RELU))
    x = np.array([-1, 2], np.float32)
    assert part.run_checked({"x": (x, float32)})[0][0].tolist() == [0, 2]
    report = onnx_compat.verify(RELU, [x], shim="reference")
    assert report.ok and report.oracle.startswith("onnxruntime")


def test_a_part_that_ends_its_process(aborting: None) -> None:
    with pytest.raises(onnx_compat.UnsupportedError, match="ends its process"):
        onnx_compat.run(UNKNOWN, [np.zeros(2, np.float32)], shim="reference")


def test_a_part_of_a_bundle_that_ends_its_process(
    aborting: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    register(monkeypatch, Keeper())
    nodes = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("NoSuch", ["n"], ["y"], domain="com.microsoft")]
    bundle = onnx_compat.convert(build(nodes, [("x", FLOAT, [2])], ["y"]), tmp_path / "m.tflite", allow_fallback=True)
    loaded = onnx_compat.load_converted(bundle)
    assert bundle.suffix == ".zip" and len(loaded.fallbacks) == 1
    for _ in range(2):
        with pytest.raises(onnx_compat.UnsupportedError, match="ends its process"):
            loaded.run([np.zeros(2, np.float32)])


def test_an_empty_feed_of_a_sound_part_of_a_bundle(
    aborting: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The child process ends, so the reference runs the part."""
    register(monkeypatch, Keeper())
    bundle = onnx_compat.convert(exp_model(), tmp_path / "m.tflite", allow_fallback=True)
    assert onnx_compat.load_converted(bundle).run([np.zeros((0, 3), np.float32)])[0].shape == (0,)


def test_an_oracle_that_ends_its_process(aborting: None) -> None:
    empty = np.zeros(0, np.float32)
    with pytest.raises(onnx_compat.UnsupportedError, match="ends its process"):
        onnx_compat.verify(RELU, [empty], shim="reference", oracle="onnxruntime")
    report = onnx_compat.verify(RELU, [empty], shim="reference")
    assert report.ok and "ends its process" in report.notes[0]


def test_an_empty_feed_of_a_sound_part(aborting: None) -> None:
    part = fallback.fallback_runnable(onnx_compat.load(RELU))
    assert part.run_checked({"x": (np.zeros(0, np.float32), float32)})[0][0].shape == (0,)


@pytest.mark.parametrize("action", ["run", "verify"])
@pytest.mark.parametrize("name", INVALID)
def test_models_that_ended_the_process(name: str, action: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "m.onnx").write_bytes(INVALID[name])
    code = (
        "import onnx_compat\n"
        "from onnx_compat.verification import generate\n"
        "model = onnx_compat.load(%r)\n"
        "try:\n"
        "    if %r == 'run': onnx_compat.prepare(model, shim='reference').run(generate(model.inputs, 0))\n"
        "    else: onnx_compat.verify(model, shim='reference')\n"
        "except onnx_compat.OnnxCompatError as error: print(error)\n"
    ) % (str(tmp_path / "m.onnx"), action)
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_values_survive_the_way_to_the_child(tmp_path: Path) -> None:
    values: Dict[str, Any] = {
        "float": np.arange(6, dtype=np.float32).reshape(2, 3),
        "scalar": np.array(3),
        "empty": np.zeros((0, 3), np.float16),
        "bool": np.array([True, False]),
        "text": np.array([["a", "\0\x1b"], ["\u202e", ""]], object),
        "list": [np.zeros(2), [np.array("x", object)]],
        "map": {"a": 1.5},
        "integers": {1: 2},
        "none": None,
    }
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values["bfloat16"] = np.array([1.5], ml_dtypes.bfloat16)
    for name, value in values.items():
        result = _restore(_store(value, str(tmp_path), name), str(tmp_path))
        assert repr(result) == repr(value)
        if isinstance(value, np.ndarray):
            assert result.dtype == value.dtype and result.shape == value.shape and result.flags.writeable


def test_a_map_of_numpy_scalars_becomes_a_map_of_numbers(tmp_path: Path) -> None:
    value = {np.int64(3): np.float32(0.1), np.int64(4): np.float64("inf"), np.str_("k"): b"\xc3\xa9"}
    stored = json.loads(json.dumps(_store(value, str(tmp_path), "map")))
    assert _restore(stored, str(tmp_path)) == {3: float(np.float32(0.1)), 4: float("inf"), "k": "\u00e9"}


def test_a_run_in_a_child_process() -> None:
    pytest.importorskip("onnxruntime")
    result = run_in_child(RELU, {"x": np.array([-1, 2], np.float32), "unknown": np.zeros(1)})
    assert result is not None and result.outputs[0].tolist() == [0, 2]
    with pytest.raises(onnx_compat.UnsupportedError, match="could not run it"):
        run_in_child(UNKNOWN, {"x": np.zeros(2, np.float32)}, ["y"])
