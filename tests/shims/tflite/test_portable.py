"""Files for every runtime (`portable`): they do not depend on the installed runtime, and the oldest runtime can run
them.
"""

import hashlib
from pathlib import Path

import pytest
from onnx import TensorProto, helper
from onnx_compat_tflite import SHIM, features
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.kernels import Kernels
from zoo_cases import case

import onnx_compat
from onnx_compat.errors import ConversionError, OnnxCompatError

NAMES = "audio bert efficientnet gpt gru lstm mobilenet_v3 residual rnn_tanh unet_bilinear unet_nearest vit".split()


@pytest.mark.parametrize("name", NAMES)
def test_a_portable_file_is_for_the_oldest_runtime_and_runs_here(name: str, tmp_path: Path) -> None:
    zoo_case = case(name + "-script-dynamic")
    path = onnx_compat.convert(zoo_case.model, tmp_path / "m.tflite", shim="tflite", portable=True)
    uses = [(operator.builtin, operator.version) for graph in fb.read(path).subgraphs for operator in graph.operators]
    assert fb.minimum_runtime(uses) == "2.7.0"
    for data in zoo_case.data_sets():
        report = onnx_compat.verify(zoo_case.model, data.inputs, shim="tflite", converted=path, oracle="reference")
        assert report.ok, report.summary


def test_a_portable_file_equals_that_of_unknown_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = case("gpt-script-dynamic").model
    portable = onnx_compat.convert(model, tmp_path / "a.tflite", shim="tflite", portable=True)
    monkeypatch.setitem(features._CACHE, "kernels", Kernels())
    anywhere = onnx_compat.convert(model, tmp_path / "b.tflite", shim="tflite")
    first, second = (hashlib.sha256(path.read_bytes()).hexdigest() for path in (portable, anywhere))
    assert first == second


def test_support_predicts_the_portable_file(tmp_path: Path) -> None:
    ports = [
        helper.make_tensor_value_info(name, kind, ["n", 3]) for name, kind in (("x", 1), ("y", TensorProto.FLOAT16))
    ]
    node = helper.make_node("Cast", ["x"], ["y"], name="half", to=TensorProto.FLOAT16)
    model = helper.make_model(helper.make_graph([node], "g", ports[:1], ports[1:]), ir_version=8)
    model.opset_import[0].version = 13
    (description,) = onnx_compat.support(model, "tflite", portable=True)
    assert description.status == "fallback"
    with pytest.raises(OnnxCompatError, match="float16") as caught:
        onnx_compat.convert(model, tmp_path / "m.tflite", shim="tflite", portable=True)
    assert caught.value.node == "half" and caught.value.reason == description.reason


def test_the_size_of_a_flatbuffer_is_that_of_old_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fb, "is_oversized", lambda model: True)
    with pytest.raises(ConversionError, match="old runtimes read"):
        SHIM.portable()._stores_outside(fb.ModelSpec([]))
