"""How a quantised file is judged."""

import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from building import model, node, value

import onnx_compat
from onnx_compat.shim.interface import Scheme
from onnx_compat.verification import verify_model
from onnx_compat.verification.accuracy import format_accuracy, judge_accuracy, measure_accuracy
from onnx_compat.verification.compare import compare

RANDOM = np.random.RandomState(0)


def accuracy(got: Any, want: Any) -> Any:
    (comparison,) = compare("y", got, want, 1e-3, 1e-3)
    return measure_accuracy(comparison, got, want).accuracy


def test_the_figures() -> None:
    want = np.float32([[0, 3, 4], [1, 2, 7]])
    got = want + np.float32([[0, 0, 0], [0, 6, 0]])
    found = accuracy(got, want)
    assert found.snr == pytest.approx(10 * math.log10(79 / 36))
    assert found.range_error == pytest.approx(6 / 7)
    assert found.cosine == pytest.approx((want * got).sum() / np.linalg.norm(want) / np.linalg.norm(got))
    assert found.top1 == 0.5
    assert "SNR 3.4 dB" in format_accuracy(found) and "top-1 50 %" in format_accuracy(found)


def test_equal_outputs_have_no_noise() -> None:
    ones = np.ones((2, 3, 4), np.float32)
    assert accuracy(ones, ones).snr == math.inf
    assert accuracy(ones, ones).top1 is None  # no class scores
    assert accuracy(ones, 0 * ones).snr == -math.inf
    assert accuracy(0 * ones, 0 * ones).snr == math.inf
    assert accuracy(ones * np.float32(np.nan), ones).snr == -math.inf


def test_what_is_not_floating_point_is_counted() -> None:
    want = np.arange(20)
    found = accuracy(np.where(want == 3, 0, want), want)
    assert found.equal == 0.95 and found.snr is None
    assert format_accuracy(found) == "95.0 % of the elements equal"


def test_another_form_has_no_accuracy() -> None:
    assert accuracy(np.ones(3, np.float32), np.ones(4, np.float32)) is None
    assert accuracy([], []) is None


@pytest.mark.parametrize(("noise", "good"), [(0.1, True), (0.5, False)])
def test_the_verdict_is_that_of_the_ratio(noise: float, good: bool) -> None:
    want = RANDOM.standard_normal((10, 10)).astype(np.float32)
    got = want + noise * RANDOM.standard_normal((10, 10)).astype(np.float32)
    (comparison,) = compare("y", got, want, 1e-3, 1e-3)
    assert not comparison.ok
    assert judge_accuracy(measure_accuracy(comparison, got, want), 15).ok is good


@pytest.fixture(name="quantised")
def _quantised(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A file of y = relu(x) whose results are a hundredth too large."""
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


def test_a_tolerance_that_is_given_counts(quantised: Any) -> None:
    strict = onnx_compat.verify(quantised, converted="m.tflite", oracle="reference", rtol=1e-3)
    assert not strict.ok and strict.fidelity is None and "within atol 0.001 + rtol 0.001" in strict.summary
    assert "SNR 40.0 dB" in str(strict)
    assert onnx_compat.verify(quantised, converted="m.tflite", oracle="reference", rtol=0.02).ok
