import json

import numpy as np
import pytest

from onnx_compat.discovery import selection
from onnx_compat.errors import InputError, MissingDependencyError, ShimError, UnsupportedError
from onnx_compat.ir.dtypes import DType
from onnx_compat.shim.interface import Compiled, Port, Probe, Shim
from onnx_compat.verification import converted_file, oracle, save_npz, verify

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


def test_fallback_nodes_are_noted(monkeypatch, runnable):
    monkeypatch.setattr(runnable, "fallbacks", ["add_0"], raising=False)
    assert verify("m.onnx", shim="tf2", oracle="reference").notes == [
        "outside the framework, in the fallback, ran 'add_0'"
    ]


@pytest.mark.parametrize("error", [MissingDependencyError("it is not installed"), UnsupportedError("it cannot")])
def test_the_reference_stands_in_for_onnxruntime(monkeypatch, error):
    def refuse(*arguments):
        raise error

    monkeypatch.setattr(oracle, "_run_on_onnxruntime", refuse)
    report = verify("m.onnx", shim="tf2")
    assert report.oracle == "shim reference"
    assert report.notes == ["the oracle is the reference, because %s" % error.reason]
    with pytest.raises(type(error)):
        verify("m.onnx", shim="tf2", oracle="onnxruntime")


def test_a_note_says_that_onnxruntime_cannot_read_the_model(tmp_path):
    pytest.importorskip("onnxruntime")
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\0" * 64)
    (note,) = verify(str(path), shim="tf2").notes
    assert "onnxruntime" in note


class Doubling(Compiled):
    def run(self, arrays):
        return [arrays[0] * np.float32(2)]


class Reader(Shim):
    """A fake shim that loads files with any content. The test sets its formats and whether it works."""

    def __init__(self, name, formats, available=True, output="y"):
        self.name, self.formats, self.available = (
            name,
            {form: (suffix, "") for form, suffix in formats.items()},
            available,
        )
        self.output = output

    def probe(self):
        return Probe(self.available, "there" if self.available else "its framework is not installed")

    def emitter(self):
        raise NotImplementedError

    def compile(self, program, device=None):
        raise NotImplementedError

    def load_converted(self, path, form):
        floats = DType.of("float32")
        return Doubling(), (Port("x", floats, ("batch", 3)),), (Port(self.output, floats, ("batch", 3)),)


@pytest.fixture
def install(monkeypatch):
    """Return a function that replaces the installed shims by fake shims for one test."""

    def do(*readers):
        by_name = {reader.name: reader for reader in readers}
        monkeypatch.setattr(selection, "installed_shims", lambda: by_name)
        monkeypatch.setattr(selection, "_LOADED", {**by_name, "reference": Reader("reference", {})})
        monkeypatch.setattr(selection, "_PROBED", {})

    return do


def verify_file(path, **options):
    return verify("m.onnx", converted=path, oracle="reference", **options)


def test_a_converted_file_goes_to_the_first_shim_that_reads_it_and_works(install, tmp_path):
    install(
        Reader("a", {"keras": ".keras"}),
        Reader("b", {"tflite": ".tflite"}, available=False),
        Reader("c", {"t": ".tflite"}),
    )
    (tmp_path / "m.tflite").write_bytes(b"")
    report = verify_file(tmp_path / "m.tflite")
    assert report.ok
    assert report.subject == "m.tflite on shim c"


def test_a_named_shim_is_not_replaced(install, tmp_path):
    install(Reader("a", {"keras": ".keras"}), Reader("c", {"tflite": ".tflite"}))
    (tmp_path / "m.tflite").write_bytes(b"")
    with pytest.raises(ShimError, match="a reads no such file"):
        verify_file(tmp_path / "m.tflite", shim="a")


def test_a_saved_model_is_a_folder(install, tmp_path):
    install(Reader("tf2", {"saved_model": ""}))
    assert verify_file(tmp_path).ok


def test_a_file_that_no_shim_opens(install, tmp_path):
    install(Reader("tf2", {"saved_model": ""}), Reader("keras", {"keras": ".keras"}, available=False))
    (tmp_path / "m.keras").write_bytes(b"")
    with pytest.raises(ShimError, match=r"its framework is not installed[\s\S]*(onnx-compat\[keras\]|another Python)"):
        verify_file(tmp_path / "m.keras")
    (tmp_path / "m.xyz").write_bytes(b"")
    with pytest.raises(ShimError, match=r"m\.xyz[\s\S]*suffix"):
        verify_file(tmp_path / "m.xyz")
    with pytest.raises(InputError, match="no file or folder"):
        verify_file(tmp_path / "absent.tflite")


def test_a_lost_output_is_a_failure(install, tmp_path):
    install(Reader("tflite", {"tflite": ".tflite"}, output="renamed"))
    (tmp_path / "m.tflite").write_bytes(b"")
    assert [output.verdict for output in verify_file(tmp_path / "m.tflite").outputs] == ["kind"]


def test_sequences_of_a_file_are_joined():
    assert converted_file._join_sequences({"s.0": 1, "s.1": 2, "y": 3})["s"] == [1, 2]
    assert converted_file.flatten_sequences({"s": [1, [2]], "x": 3, "none": None}) == [
        ("s.0", 1),
        ("s.1.0", 2),
        ("x", 3),
    ]
