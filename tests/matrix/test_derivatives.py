"""The comparison of derivatives with finite differences finds wrong ones, and takes kinks and jumps for what they are."""

from pathlib import Path
from typing import Any, Dict

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from matrix import derivatives
from matrix.derivative_survey import format_counts
from matrix.harness.derivatives import AGREES, REFUSED, WRONG, Outcome, compare_derivatives
from matrix.suites.cache import DataSet
from onnx_compat import autodiff
from onnx_compat.autodiff.rules import RULES
from onnx_compat.primitives import PRIMITIVES


class RecordedCase:
    """A case of one operator, with float32 inputs and outputs."""

    id, tags = "node/1/test", ()

    def __init__(self, folder: Path, operator: str, inputs: Dict[str, Any], shape: Any, **attributes: Any) -> None:
        node = helper.make_node(operator, list(inputs), ["y"], **attributes)
        arrays = {name: np.asarray(value) for name, value in inputs.items()}
        ports = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in arrays.items()
        ]
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
        graph = helper.make_graph([node], "g", ports, [output])
        self.model = folder / "model.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)]), str(self.model))
        self.data = DataSet(arrays, {"y": np.zeros(shape, np.float32)})

    def data_sets(self) -> Any:
        return iter([self.data])


def outcome_of(*arguments: Any, **attributes: Any) -> Any:
    return compare_derivatives(RecordedCase(*arguments, **attributes), "reference")  # type: ignore[arg-type]


POINTS = np.array([0.5, 0.0, -1.25, 2.0], np.float32)


@pytest.mark.parametrize("operator", ["Sin", "Abs", "Relu", "Floor", "Sign", "Softplus", "Elu", "Selu", "Celu", "Mish"])
def test_smooth_functions_kinks_and_jumps_agree(operator: str, tmp_path: Path) -> None:
    assert outcome_of(tmp_path, operator, {"x": POINTS}, [4]).outcome == AGREES


@pytest.mark.parametrize(("operator", "primitive"), [("Sin", "sin"), ("Abs", "abs"), ("Floor", "floor")])
def test_a_wrong_rule_is_found(operator: str, primitive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = RULES[primitive]
    monkeypatch.setitem(RULES, primitive, lambda at, g: [(rule(at, g)[0] or 0) + g * 1.5])
    outcome = outcome_of(tmp_path, operator, {"x": POINTS}, [4])
    assert outcome.outcome == WRONG
    assert "d x[0] is" in outcome.reason


def test_a_derivative_that_is_not_finite_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, "floor", lambda at, g: [g * float("nan")])
    assert outcome_of(tmp_path, "Floor", {"x": POINTS}, [4]).outcome == WRONG


def test_a_missing_rule_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RULES, "sin")
    outcome = outcome_of(tmp_path, "Sin", {"x": POINTS}, [4])
    assert outcome.outcome == REFUSED
    assert "1 refused" in format_counts([outcome])


def test_an_input_that_must_be_known_is_no_variable(tmp_path: Path) -> None:
    inputs = {"x": POINTS.reshape(1, 4), "roi": np.zeros(0, np.float32), "scales": np.array([1, 2], np.float32)}
    assert outcome_of(tmp_path, "Resize", inputs, [1, 8], mode="linear").outcome == AGREES


def test_a_case_without_floats_has_no_derivative(tmp_path: Path) -> None:
    assert outcome_of(tmp_path, "Cast", {"x": np.arange(4)}, [4], to=TensorProto.FLOAT) is None


def test_counts_name_each_wrong_case() -> None:
    text = format_counts([Outcome("a", AGREES), Outcome("b", WRONG, "d x[0] is 1"), Outcome("c", REFUSED, "no 'x' 1")])
    assert text.splitlines() == [
        "3 differentiable cases: 1 agrees, 0 agrees with a fallback, 1 refused, 1 wrong",
        "    1  no _ _",
        "WRONG  b: d x[0] is 1",
    ]


def test_the_page_has_a_row_for_each_primitive() -> None:
    rows = [line.split("|")[1:3] for line in derivatives.page().splitlines() if line.startswith("| `")]
    described = {name.strip(" `"): text.strip() for name, text in rows}
    assert {*PRIMITIVES} <= set(described)
    assert all(described.values())
    assert autodiff.choices() == autodiff.Choices()
