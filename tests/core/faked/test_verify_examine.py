import json
from types import SimpleNamespace

import numpy as np
import pytest

from onnx_compat.errors import InputError, MissingDependencyError, ShimError, UnsupportedError
from onnx_compat.verification import oracle, save_npz, subject, verify

X = np.float32([[1, 2, 3]])


def test_a_shim_against_another():
    report = verify("m.onnx", shim="tf2", oracle="reference", seed=3, dims={"batch": 4})
    assert report.ok
    assert (report.subject, report.oracle, report.seed) == ("shim tf2", "shim reference", 3)
    assert report.inputs == [("x", "float32", (4, 3))]
    assert report.summary.startswith("OK: 1 of 1 outputs")


def test_a_wrong_shim_is_found():
    report = verify("m.onnx", {"x": X}, shim="off", oracle="reference")
    assert not report.ok
    assert report.outputs[0].mismatched == 3
    assert "3 of 3 elements differ, first at [0, 0]: 2.5, expected 2.0" in str(report)
    document = json.loads(report.to_json())
    assert document["ok"] is False
    assert document["outputs"][0]["first_bad_index"] == [0, 0]


def test_json_has_no_numbers_that_json_lacks():
    report = verify("m.onnx", {"x": X * np.inf}, shim="off", oracle="reference")
    json.loads(report.to_json(), parse_constant=pytest.fail)
    nan = verify("m.onnx", {"x": X}, oracle="reference")._replace(
        outputs=[report.outputs[0]._replace(max_abs_error=float("inf"))]
    )
    assert json.loads(nan.to_json(), parse_constant=pytest.fail)["outputs"][0]["max_abs_error"] == "inf"


@pytest.mark.parametrize("kind", ["sequence", "file"])
def test_inputs_in_order_or_from_a_file(kind, tmp_path):
    inputs = [X] if kind == "sequence" else save_npz(tmp_path / "x.npz", {"x": X})
    report = verify("m.onnx", inputs, oracle="reference")
    assert report.ok
    assert report.seed is None


def test_inputs_that_do_not_fit():
    with pytest.raises(InputError, match="2 inputs are given, the model has 1"):
        verify("m.onnx", [X, X], oracle="reference")
    with pytest.raises(InputError, match="no input z"):
        verify("m.onnx", {"z": X}, oracle="reference")
    with pytest.raises(InputError, match="dims are for generated inputs"):
        verify("m.onnx", [X], oracle="reference", dims={"batch": 1})


def test_a_model_compared_with_itself_is_noted():
    assert "proves nothing" in verify("m.onnx", shim="reference", oracle="reference").notes[0]


@pytest.mark.parametrize("error", [MissingDependencyError("it is not installed"), UnsupportedError("it cannot")])
def test_the_reference_stands_in_for_onnxruntime(monkeypatch, error):
    def refuse(model, inputs):
        raise error

    monkeypatch.setattr(oracle, "_by_onnxruntime", refuse)
    report = verify("m.onnx", shim="tf2")
    assert report.oracle == "shim reference"
    assert report.notes == ["the oracle is the reference, because %s" % error.reason]
    with pytest.raises(type(error)):
        verify("m.onnx", shim="tf2", oracle="onnxruntime")


def test_onnxruntime_cannot_read_what_is_no_model(tmp_path):
    pytest.importorskip("onnxruntime")
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\0" * 64)
    (note,) = verify(str(path), shim="tf2").notes
    assert "onnxruntime" in note


@pytest.fixture
def openers(monkeypatch, runnable):
    """The shim tf2 is here, the others are not."""

    def get(name):
        if name != "tf2":
            raise ShimError("%s is not installed" % name)
        return SimpleNamespace(load_converted=lambda _: runnable(name))

    monkeypatch.setattr(subject, "_shim", get)


def test_a_converted_file_goes_to_the_first_shim_that_reads_it(openers, tmp_path):
    (tmp_path / "m.tflite").write_bytes(b"")
    report = verify("m.onnx", converted=tmp_path / "m.tflite", oracle="reference")
    assert report.ok
    assert report.subject == "m.tflite on shim tf2"


def test_a_saved_model_is_a_folder(openers, tmp_path):
    with pytest.raises(InputError, match="not a SavedModel"):
        verify("m.onnx", converted=tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    assert verify("m.onnx", converted=tmp_path, oracle="reference").ok


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("m.keras", ShimError, "keras is not installed"),
        ("m.xyz", InputError, "suffix"),
        ("absent.tflite", InputError, "no file or folder"),
    ],
)
def test_a_file_that_nothing_opens(openers, tmp_path, name, error, text):
    if not name.startswith("absent"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(error, match=text):
        verify("m.onnx", converted=tmp_path / name)


def test_a_lost_output_is_a_failure(openers, tmp_path, monkeypatch, outputs):
    (tmp_path / "m.tflite").write_bytes(b"")
    monkeypatch.setattr(outputs, "__getitem__", lambda _, key: {}[key])
    report = verify("m.onnx", converted=tmp_path / "m.tflite", oracle="reference")
    assert [output.verdict for output in report.outputs] == ["kind"]
