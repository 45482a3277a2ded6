"""The recogniser of standard recurrent operators: what it accepts, and each attribute or input for which it declines."""

from typing import Any, Dict, List, Optional

import numpy as np
import pytest

from onnx_compat.shim.recurrent import activations, directions, standard_recurrent
from onnx_compat.tracing.values import Tensor, lift


def _inputs(count: int = 3) -> List[Optional[Tensor]]:
    shapes = [(5, 1, 3), (1, 16, 3), (1, 16, 4), (1, 32)]
    return [lift(np.zeros(shape, np.float32)) for shape in shapes[:count]]


def test_a_plain_operator_is_standard() -> None:
    layer = standard_recurrent("LSTM", _inputs(4), {"hidden_size": 4})
    assert layer is not None
    assert layer.backwards == (False,)
    assert layer.activations == (("sigmoid", "tanh", "tanh"),)
    assert layer.has_known_weights and layer.is_uniform
    assert len(layer.weights) == 4 - 1
    assert layer.peepholes is None


def test_directions_have_activations_of_their_own() -> None:
    attributes = {"direction": "bidirectional", "activations": ["Tanh", "Relu"]}
    layer = standard_recurrent("RNN", _inputs(), attributes)
    assert layer is not None
    assert layer.backwards == directions(attributes) == (False, True)
    assert layer.activations == (("tanh",), ("relu",))
    assert not layer.is_uniform


def test_the_default_of_rnn_has_a_name_too_many() -> None:
    assert activations("RNN", {"activations": ["Tanh", "Tanh"]}) == (("tanh",),)


@pytest.mark.parametrize(
    "attributes",
    [
        {"clip": 1.0},
        {"input_forget": 1},
        {"layout": 1},
        {"activation_alpha": [0.5]},
        {"activation_beta": [0.5]},
        {"activations": ["Relu", "Tanh", "Tanh"]},
        {"direction": "sideways"},
    ],
)
def test_an_unusual_attribute_is_declined(attributes: Dict[str, Any]) -> None:
    assert standard_recurrent("LSTM", _inputs(), attributes) is None


def test_sequence_lengths_are_declined() -> None:
    inputs = [*_inputs(4), lift(np.array([5], np.int32))]
    assert standard_recurrent("LSTM", inputs, {}) is None
    assert standard_recurrent("LSTM", [*inputs[:4], None], {}) is not None


def test_peepholes_count_among_the_known_weights() -> None:
    inputs: List[Optional[Tensor]] = [*_inputs(3), None, None, None, None, Tensor(_inputs()[0].dtype, (1, 12))]  # type: ignore[union-attr]
    layer = standard_recurrent("LSTM", inputs, {})
    assert layer is not None
    assert layer.peepholes is not None
    assert not layer.has_known_weights
