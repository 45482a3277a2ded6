"""Models that quantise as they run: the oracle does not optimise them, and its spread is part of the criterion."""

import json
import math
from typing import Any, List, Optional

import numpy as np
import pytest
from building import model, node, value
from onnx import TensorProto, helper

import onnx_compat
from onnx_compat.execution.onnxruntime_child import run_in_child
from onnx_compat.model import Model, load
from onnx_compat.passes import CORE, leaving_out
from onnx_compat.shim.schemes import Scheme
from onnx_compat.verification import layers, verify_model
from onnx_compat.verification.accuracy import Accuracy, judge_accuracy, measure_accuracy, signal_to_noise
from onnx_compat.verification.compare import MISMATCH, compare
from onnx_compat.verification.criterion import choose_criterion, measure_spread
from onnx_compat.verification.oracle import Answer
from onnx_compat.verification.quantizing_nodes import quantizing_nodes

#: Each second element is a tie between two integers, after the two products of `ties`.
X = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
SCALES = {"s": np.float32(1), "z": np.uint8(0)}


def ties() -> Any:
    """Return a model whose optimisation folds two factors, 0.7 and 0.5 / 0.7, into one before a QuantizeLinear."""
    factor = np.ones(1, np.float32)
    weights = {"w": np.full((1, 1, 1, 1), 0.7, np.float32), "gamma": factor * np.float32(0.5 / 0.7), "beta": 0 * factor}
    nodes = [
        node("Conv", ["x", "w"], ["c"], name="conv"),
        node("BatchNormalization", ["c", "gamma", "beta", "mean", "var"], ["n"], name="norm", epsilon=0.0),
        node("QuantizeLinear", ["n", "s", "z"], ["q"], name="quantise"),
        node("DequantizeLinear", ["q", "s", "z"], ["y"], name="dequantise"),
    ]
    ports = [value(name, [1, 1, 8, 8]) for name in "xy"]
    return model(nodes, ports[:1], ports[1:], {**weights, **SCALES, "mean": 0 * factor, "var": factor})


def operators(nodes: List[Any], constants: Optional[dict] = None, domain: str = "") -> List[str]:
    """Return the quantising operators of a model of these nodes, with the inputs x, y and the condition c."""
    inputs = [value("x", [2, 32]), value("y", [2, 32]), value("c", [], TensorProto.BOOL)]
    opsets = [helper.make_opsetid("com.microsoft", 1)]
    proto = model(nodes, inputs, [value("out")], {**SCALES, **(constants or {})}, extra_opsets=opsets)
    return [quantiser.operator for quantiser in quantizing_nodes(load(proto))]


def test_a_quantiser_of_a_value_is_found() -> None:
    assert operators([node("DynamicQuantizeLinear", ["x"], ["out", "a", "b"])]) == ["DynamicQuantizeLinear"]
    assert operators([node("QuantizeLinear", ["x", "s", "z"], ["out"])]) == ["QuantizeLinear"]
    added = node("QLinearAdd", ["x", "s", "z", "y", "s", "z", "s", "z"], ["out"], domain="com.microsoft")
    assert operators([added]) == ["QLinearAdd"]
    joined = node("QLinearConcat", ["s", "z", "x", "s", "z"], ["out"], domain="com.microsoft", axis=0)
    assert operators([joined]) == ["QLinearConcat"]


def test_a_quantiser_of_weights_and_exact_operators_do_not_count() -> None:
    weights = {"w": np.ones((2, 32), np.float32)}
    nodes = [
        node("Neg", ["w"], ["v"]),
        node("QuantizeLinear", ["v", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("Add", ["x", "d"], ["out"]),
    ]
    assert operators(nodes, weights) == []
    assert operators([node("MatMulInteger", ["x", "y"], ["out"])]) == []


@pytest.mark.parametrize(("level", "expected"), [(0, []), (4, ["MatMulNBits"])])
def test_a_kernel_of_integers_quantises_from_its_accuracy_level_on(level: int, expected: List[str]) -> None:
    sizes = {"K": 32, "N": 1, "bits": 4, "block_size": 32}
    product = node("MatMulNBits", ["x", "b", "a"], ["out"], domain="com.microsoft", accuracy_level=level, **sizes)
    assert operators([product], {"b": np.zeros((1, 1, 16), np.uint8), "a": np.ones(1, np.float32)}) == expected


def test_a_quantiser_in_a_branch_is_found() -> None:
    def branch(*nodes: Any) -> Any:
        return helper.make_graph(list(nodes), "branch", [], [value("r", None)])

    quantised = branch(node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["r"]))
    of_weights = branch(
        node("QuantizeLinear", ["s", "s", "z"], ["q2"]), node("DequantizeLinear", ["q2", "s", "z"], ["r"])
    )
    chosen = node("If", ["c"], ["out"], then_branch=quantised, else_branch=of_weights)
    assert operators([chosen]) == ["QuantizeLinear"]


def test_onnxruntime_does_not_optimise_and_says_how_far_it_would_differ() -> None:
    pytest.importorskip("onnxruntime", minversion="1.23")
    report = onnx_compat.verify(ties(), {"x": X}, shim="reference", oracle="onnxruntime")
    assert report.ok and report.oracle_optimised is False
    assert report.oracle_spread is not None and report.oracle_spread < 60
    assert report.summary.endswith(" without optimisation agree: SNR %.1f dB, at least 20 dB" % report.oracle_spread)
    with leaving_out([pass_.name for pass_ in CORE.passes]):  # they fold the factors too
        exact = onnx_compat.verify(ties(), {"x": X}, shim="reference", oracle="onnxruntime")
    assert " without optimisation agree within atol" in exact.summary and exact.fidelity is None
    (note,) = report.notes
    assert "'quantise' (QuantizeLinear)" in note and "%.1f dB" % report.oracle_spread in note
    document = json.loads(report.to_json())
    assert document["oracle_optimised"] is False and document["oracle_spread"] == report.oracle_spread


def test_a_model_that_chooses_its_scale_as_it_runs_agrees_although_onnxruntime_differs_from_itself() -> None:
    """The scale is 1, so that every second element is a tie, which the folded factor decides in another way."""
    pytest.importorskip("onnxruntime", minversion="1.23")
    proto = ties()
    proto.graph.node[2].CopyFrom(node("DynamicQuantizeLinear", ["n"], ["q", "scale", "zero"], name="quantise"))
    proto.graph.node[3].CopyFrom(node("DequantizeLinear", ["q", "scale", "zero"], ["y"], name="dequantise"))
    feed = X.copy()
    feed[0, 0, -1, -1] = 510
    report = onnx_compat.verify(proto, {"x": feed}, shim="reference", oracle="onnxruntime")
    assert report.ok and report.oracle_optimised is False
    assert report.oracle_spread is not None and math.isfinite(report.oracle_spread)
    assert "'quantise' (DynamicQuantizeLinear)" in report.notes[0]
    optimised = run_in_child(proto.SerializeToString(), {"x": feed}, optimised=True)
    plain = run_in_child(proto.SerializeToString(), {"x": feed}, optimised=False)
    assert optimised is not None and plain is not None
    spread = signal_to_noise(optimised.outputs[0], plain.outputs[0])
    assert report.oracle_spread == pytest.approx(spread, abs=0.1)


def test_every_value_of_a_node_is_compared_without_optimisation() -> None:
    pytest.importorskip("onnxruntime", minversion="1.23")
    report = onnx_compat.verify(ties(), {"x": X}, shim="reference", oracle="onnxruntime", layers=True)
    assert report.layers is not None and report.layers.ok and report.layers.culprit is None


def test_a_child_process_does_not_optimise_either() -> None:
    pytest.importorskip("onnxruntime", minversion="1.23")
    content = ties().SerializeToString()
    plain, optimised = [run_in_child(content, {"x": X}, optimised=optimised) for optimised in (False, True)]
    assert plain is not None and optimised is not None
    with leaving_out([pass_.name for pass_ in CORE.passes]):
        want = onnx_compat.prepare(ties(), shim="reference").run({"x": X})["y"]
    assert np.array_equal(plain.outputs[0], want) and not np.array_equal(optimised.outputs[0], want)


def test_other_models_run_with_optimisation() -> None:
    pytest.importorskip("onnxruntime", minversion="1.23")
    relu = model([node("Relu", ["x"], ["y"])], [value("x", [2])], [value("y", [2])])
    report = onnx_compat.verify(relu, shim="reference", oracle="onnxruntime")
    assert report.oracle_optimised is True and report.oracle_spread is None and report.notes == []
    assert "without optimisation" not in report.summary


def test_a_model_that_runs_only_with_optimisation_is_compared_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from onnx_compat.verification import oracle

    def run(submodel: Model, inputs: Any, optimised: bool = True, in_child: bool = False) -> Answer:
        if not optimised:
            raise onnx_compat.UnsupportedError("no kernel")
        return Answer("onnxruntime 1", [np.round(X * 0.5)], [], optimised)

    monkeypatch.setattr(oracle, "_run_on_onnxruntime", run)
    report = onnx_compat.verify(ties(), {"x": X}, shim="reference")
    assert report.oracle_optimised is True and report.oracle_spread is None
    assert "without them no kernel" in report.notes[0]


def answer_with(monkeypatch: pytest.MonkeyPatch, error: float, spread: float) -> Any:
    """Verify `ties` with an oracle whose result is `error` dB from the shim's, and `spread` dB from its optimised result."""
    want = onnx_compat.prepare(ties(), shim="reference").run({"x": X})["y"]
    plain = want * np.float32(1 + 10 ** (-error / 20))
    optimised = plain * np.float32(1 + 10 ** (-spread / 20))
    monkeypatch.setattr(verify_model, "run_oracle", lambda *_, **__: Answer("onnxruntime 1", [plain], [], False))
    monkeypatch.setattr(verify_model, "optimised_outputs", lambda *_: [optimised])
    return onnx_compat.verify(ties(), {"x": X}, shim="reference")


@pytest.mark.parametrize(
    ("error", "spread", "fidelity", "ok"),
    [
        (25, 34, 20, True),
        (17, 34, 20, False),
        (17, 22, 16, True),
        (12, 15, 9, True),
        (1, 3, 0, True),
        (80, 34, None, True),
    ],
)
def test_the_accuracy_decides_beyond_the_tolerance(
    monkeypatch: pytest.MonkeyPatch, error: float, spread: float, fidelity: Optional[float], ok: bool
) -> None:
    report = answer_with(monkeypatch, error, spread)
    assert report.ok is ok and report.oracle_spread == pytest.approx(spread, abs=0.1)
    if fidelity is None:
        assert report.fidelity is None and "within atol" in report.summary
    else:
        assert report.fidelity == pytest.approx(fidelity, abs=0.1)
        assert "SNR" in report.summary and ("at least" if ok else "below") in report.summary


def test_a_tolerance_of_the_user_decides_alone() -> None:
    assert choose_criterion(1e-3, None, None, True, 34.0).fidelity is None
    assert choose_criterion(None, 1e-3, Scheme("tiny", "few bits", 30), True, 34.0).fidelity is None
    assert choose_criterion(None, None, None, False, None).fidelity is None


def test_a_quantised_file_of_such_a_model_keeps_its_scheme() -> None:
    scheme = Scheme("tiny", "few bits", 30)
    assert choose_criterion(None, None, scheme, True, 50.0).fidelity == 30
    assert choose_criterion(None, None, scheme, True, 12.0).fidelity == 6
    assert not choose_criterion(None, None, scheme, True, 12.0).or_tolerance


def test_the_spread_is_that_of_the_worst_output() -> None:
    want = np.ones(4, np.float32)
    pairs = [(want, want), (1.1 * want, want), (want.astype(np.float64), want), (want[:2], want), ([want], [want])]
    spread = measure_spread(
        [np.asarray(a, want.dtype) if k == 1 else a for k, (a, _) in enumerate(pairs)], [b for _, b in pairs]
    )
    assert spread == pytest.approx(20, abs=0.01)
    assert measure_spread([None, ["a"]], [None, ["a"]]) is None


# -- figures at the limits of float64 ----------------------------------------------------------------------------------
@pytest.mark.parametrize("factor", [1e200, 1e-200, 1e308, 5e-324 * 2**60, 1.0])
def test_the_ratio_does_not_depend_on_the_magnitude(factor: float) -> None:
    want = np.array([1.0, -0.5, 0.25]) * factor
    got = np.array([1.1, -0.5, 0.25]) * factor
    expected = pytest.approx(10 * math.log10(1.3125 / 0.01), abs=1e-6)
    assert signal_to_noise(got, want) == expected
    assert layers._snr(got, want) == expected
    (comparison,) = compare("y", got, want, 1e-3, 0.0)
    figures = measure_accuracy(comparison, got, want).accuracy
    assert figures.snr == expected and figures.cosine == pytest.approx(0.9983, abs=1e-3)
    assert figures.range_error == pytest.approx(0.1 / 1.5)


def test_opposite_extremes_have_a_ratio() -> None:
    largest = np.finfo(np.float64).max
    assert signal_to_noise(np.array([-largest]), np.array([largest])) == pytest.approx(10 * math.log10(1 / 4))
    assert signal_to_noise(np.array([1e200]), np.array([1e-200])) == pytest.approx(-8000)
    assert signal_to_noise(np.array([1e-200]), np.array([0.0])) == -math.inf
    assert signal_to_noise(np.array([]), np.array([])) == math.inf


@pytest.mark.parametrize(("fidelity", "ok"), [(0.0, True), (-3.0, True), (0.1, False)])
def test_a_ratio_of_zero_decibels_is_a_number(fidelity: float, ok: bool) -> None:
    want = np.ones(2, np.float32)
    (comparison,) = compare("y", 2 * want, want, 1e-3, 1e-3)
    measured = measure_accuracy(comparison, 2 * want, want)
    assert measured.accuracy == Accuracy(snr=0.0, cosine=pytest.approx(1), range_error=1.0)
    assert measured.verdict == MISMATCH and judge_accuracy(measured, fidelity).ok is ok
