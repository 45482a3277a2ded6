"""The accuracy of a quantised file, and the verdict that follows from it."""

import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from building import model, node, value

import onnx_compat
from matrix.harness.generators import per_test
from onnx_compat.shim.interface import Scheme
from onnx_compat.verification import verify_model
from onnx_compat.verification.accuracy import Accuracy, format_accuracy, judge_accuracy, measure_accuracy
from onnx_compat.verification.compare import compare

RANDOM = per_test(np.random.RandomState(0))


def accuracy(got: Any, want: Any) -> Any:
    (comparison,) = compare("y", got, want, 1e-3, 1e-3)
    return measure_accuracy(comparison, got, want).accuracy


def test_the_figures() -> None:
    want = np.float32([[0, 3, 4], [1, 2, 7]])
    got = want + np.float32([[0, 0, 0], [0, 6, 0]])
    figures = accuracy(got, want)
    assert figures.snr == pytest.approx(10 * math.log10(79 / 36))
    assert figures.range_error == pytest.approx(6 / 7)
    assert figures.cosine == pytest.approx((want * got).sum() / np.linalg.norm(want) / np.linalg.norm(got))
    assert figures.top1 == 0.5
    assert "SNR 3.4 dB" in format_accuracy(figures) and "top-1 50 %" in format_accuracy(figures)


def test_equal_outputs_have_no_noise() -> None:
    want = np.ones((2, 3, 4), np.float32)
    assert accuracy(want, want).snr == math.inf
    assert accuracy(want, want).top1 is None  # no class scores
    assert accuracy(want, 0 * want).snr == -math.inf
    assert accuracy(0 * want, 0 * want).snr == math.inf
    assert accuracy(want * np.float32(np.nan), want).snr == -math.inf


def test_equal_elements_of_integers_are_counted() -> None:
    want = np.arange(20)
    figures = accuracy(np.where(want == 3, 0, want), want)
    assert figures.equal == 0.95 and figures.snr is None
    assert format_accuracy(figures) == "95.0 % of the elements equal"


def test_other_shapes_and_sequences_have_no_accuracy() -> None:
    assert accuracy(np.ones(3, np.float32), np.ones(4, np.float32)) is None
    assert accuracy([], []) is None


@pytest.mark.parametrize(("noise", "good"), [(0.1, True), (0.5, False)])
def test_the_verdict_follows_the_signal_to_noise_ratio(noise: float, good: bool) -> None:
    want = RANDOM.standard_normal((10, 10)).astype(np.float32)
    got = want + noise * RANDOM.standard_normal((10, 10)).astype(np.float32)
    (comparison,) = compare("y", got, want, 1e-3, 1e-3)
    assert not comparison.ok
    assert judge_accuracy(measure_accuracy(comparison, got, want), 15).ok is good


@pytest.fixture(name="quantised")
def _quantised_file(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install a fake converted file of y = relu(x) whose results are 1 % too large."""
    scheme = Scheme("tiny", "as few bits as possible", 30)

    def run(inputs: Any) -> Any:
        return {"y": np.maximum(inputs["x"], 0) * np.float32(1.01)}

    monkeypatch.setattr(verify_model, "open_converted", lambda *_: SimpleNamespace(shim="s", scheme=scheme, run=run))
    return model([node("Relu", ["x"], ["y"])], [value("x", ["n", 8])], [value("y")])


def test_a_quantised_file_is_judged_by_its_scheme(quantised: Any) -> None:
    report = onnx_compat.verify(quantised, converted="m.tflite", oracle="reference")
    assert report.ok and report.fidelity == 30
    assert report.summary.endswith("agree: SNR 40.0 dB, at least 30 dB") and "SNR 40.0 dB" in str(report)
    assert any("quantised as 'tiny'" in note for note in report.notes)
    assert json.loads(report.to_json())["outputs"][0]["accuracy"]["snr"] == pytest.approx(40, abs=0.01)


def test_a_failure_names_the_ratio_and_its_limit(quantised: Any) -> None:
    report = onnx_compat.verify(quantised, converted="m.tflite", oracle="reference")
    (output,) = report.outputs
    failed = report._replace(outputs=[output._replace(verdict="mismatch")], fidelity=50.0)
    assert failed.summary.endswith("differ: SNR 40.0 dB, below 50 dB")
    counted = output._replace(accuracy=Accuracy(equal=0.5), verdict="mismatch")
    assert report._replace(outputs=[counted]).summary.endswith("differ: 50.0 % of the elements equal, below 90 %")
    misshapen = output._replace(accuracy=None, verdict="shape")
    assert report._replace(outputs=[output, misshapen]).summary.endswith("differ")


def test_a_tolerance_replaces_the_accuracy(quantised: Any) -> None:
    strict = onnx_compat.verify(quantised, converted="m.tflite", oracle="reference", rtol=1e-3)
    assert not strict.ok and strict.fidelity is None and "within atol 0.001 + rtol 0.001" in strict.summary
    assert "SNR 40.0 dB" in str(strict)
    assert onnx_compat.verify(quantised, converted="m.tflite", oracle="reference", rtol=0.02).ok
