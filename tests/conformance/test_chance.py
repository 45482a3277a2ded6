"""The statistical tests of the harness on seeded samples: which samples pass, and which raise Mismatch."""

from typing import Any, Callable, Dict, List

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from matrix.harness.chance import check_frequency, check_moments, check_sample
from matrix.harness.compare import Mismatch
from matrix.harness.generators import per_test

RANDOM = per_test(np.random.RandomState(7))
CHANCES = np.tile(np.array([0.0, 0.2, 0.5, 0.9, 1.0]), 20000)
DRAWN = RANDOM.uniform(size=CHANCES.shape) < CHANCES


def test_events_of_the_expected_frequency_pass() -> None:
    check_frequency("y", DRAWN, CHANCES)
    check_frequency("y", DRAWN.astype(np.float64), CHANCES)
    check_frequency("y", RANDOM.uniform(size=10000) < 0.25, 0.25)


@pytest.mark.parametrize(
    "drawn",
    [
        DRAWN * 2,
        ~DRAWN,
        np.zeros_like(DRAWN),
        RANDOM.uniform(size=CHANCES.shape) < CHANCES.mean(),
        RANDOM.uniform(size=CHANCES.shape) < np.clip(CHANCES * 1.05, 0, 1),
        DRAWN[::-1],
    ],
)
def test_events_of_another_frequency_are_reported(drawn: np.ndarray) -> None:
    with pytest.raises(Mismatch, match=r"^y"):
        check_frequency("y", drawn, CHANCES)


def test_moments() -> None:
    check_moments("y", RANDOM.standard_normal(50000) * 2 + 3, 3, 4, 3)
    check_moments("y", RANDOM.uniform(-1, 3, 50000), 1, 16 / 12, 1.8)


@pytest.mark.parametrize(
    "drawn",
    [
        RANDOM.standard_normal(50000) * 2 + 3.1,
        RANDOM.standard_normal(50000) * 2.1 + 3,
        np.sort(RANDOM.standard_normal(50000)) * 2 + 3,
        np.repeat(RANDOM.standard_normal(25000), 2) * 2 + 3,
        np.full(50000, 3.0),
        np.full(50000, np.nan),
    ],
)
def test_other_moments_are_reported(drawn: np.ndarray) -> None:
    with pytest.raises(Mismatch, match=r"^y"):
        check_moments("y", drawn, 3, 4, 3)


def model(operator: str, inputs: List[str], **attributes: Any) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in [*inputs, "y"]]
    node = helper.make_node(operator, inputs, ["y"], **attributes)
    return helper.make_model(helper.make_graph([node], "g", infos[:-1], infos[-1:]))


def drawing(draw: Callable[[Any, Dict[str, Any]], List[Any]], seeded: bool = False) -> Callable[..., List[Any]]:
    source = np.random.RandomState(3)
    return lambda fed: draw(np.random.RandomState(5) if seeded else source, fed)


def bernoulli(random: Any, fed: Dict[str, Any]) -> List[Any]:
    return [(random.uniform(size=fed["x"].shape) < fed["x"]).astype(np.float32)]


def dropout(random: Any, fed: Dict[str, Any]) -> List[Any]:
    kept = random.uniform(size=fed["x"].shape) >= fed["r"]
    return [np.where(kept, fed["x"] / (1 - fed["r"]), 0), kept]


FED = {"x": np.array([0.1, 0.5, 0.7]), "r": np.array(0.25), "t": np.array(True)}


def test_a_sample_repeats_with_a_seed_only() -> None:
    plain, seeded = model("Bernoulli", ["x"]), model("Bernoulli", ["x"], seed=1.0)
    fed = {"x": FED["x"]}
    check_sample(plain, drawing(bernoulli), fed)
    check_sample(seeded, drawing(bernoulli, seeded=True), fed)
    with pytest.raises(Mismatch, match="drew the same"):
        check_sample(plain, drawing(bernoulli, seeded=True), fed)
    with pytest.raises(Mismatch, match="drew different"):
        check_sample(seeded, drawing(bernoulli), fed)


def test_a_dropout_scales_the_kept_elements() -> None:
    proto = model("Dropout", ["x", "r", "t"])
    check_sample(proto, drawing(dropout), FED)
    check_sample(proto, drawing(lambda random, fed: dropout(random, fed)[:1]), FED)
    with pytest.raises(Mismatch, match="scaled"):
        check_sample(proto, drawing(lambda random, fed: [dropout(random, fed)[0] * 1.1]), FED)
    with pytest.raises(Mismatch, match="the mask"):
        check_sample(proto, drawing(lambda random, fed: dropout(random, {**fed, "r": 0.5})), FED)


def test_an_operator_without_a_test_does_not_pass() -> None:
    with pytest.raises(Mismatch, match="the harness has no test for the numbers of Multinomial"):
        check_sample(model("Multinomial", ["x"]), drawing(bernoulli), {"x": FED["x"]})
