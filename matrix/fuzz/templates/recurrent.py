"""Templates of recurrent layers."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from matrix.fuzz.draft import SMOOTH
from matrix.fuzz.draw import Draw
from matrix.fuzz.registry import template
from matrix.fuzz.values import Value


def _recurrent(draw: Draw, operator: str, gates: int) -> None:
    """Add an LSTM, GRU or RNN with random weights. `gates`: the number of gates in the weights of the operator.

    Sometimes there is a bias, initial states, sequence lengths or the peepholes of an LSTM.
    """
    x = draw.pick(("float32",), [3], where=lambda v: v.dims[2] is not None and all(array.size for array in v.arrays))
    direction = draw.choice([None, "forward", "reverse", "bidirectional"])
    directions, hidden, features = 2 if direction == "bidirectional" else 1, draw.integer(1, 4), x.shape[2]
    worlds = draw.shared.worlds

    def weights(*shape: int) -> Value:
        return draw.fresh([shape] * worlds, low=-1, high=1)

    inputs: List[Optional[Value]] = [
        x,
        weights(directions, gates * hidden, features),
        weights(directions, gates * hidden, hidden),
    ]
    inputs.append(weights(directions, 2 * gates * hidden) if draw.chance(0.7) else None)
    states = 2 if operator == "LSTM" else 1
    if draw.chance(0.4):
        lengths = None
        if None not in x.dims[:2] and draw.chance(0.5):
            lengths = draw.constant([draw.integer(1, x.shape[0]) for _ in range(x.shape[1])], "int32")
        shapes = [(directions, shape[1], hidden) for shape in x.shapes]
        inputs += [lengths, *(draw.fresh(shapes, low=-1, high=1) for _ in range(states))]
        if operator == "LSTM" and draw.chance(0.3):
            inputs.append(weights(directions, 3 * hidden))
    while inputs[-1] is None:
        inputs.pop()
    attributes: Dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if operator == "GRU":
        attributes["linear_before_reset"] = draw.choice([None, 0, 1])
    draw.nodes(operator, inputs, draw.integer(1, 1 + states), SMOOTH, **attributes)


@template("LSTM", 1.2)
def lstm(draw: Draw) -> None:
    """Add an LSTM."""
    _recurrent(draw, "LSTM", 4)


@template("GRU", 1.2)
def gru(draw: Draw) -> None:
    """Add a GRU."""
    _recurrent(draw, "GRU", 3)


@template("RNN", 1)
def rnn(draw: Draw) -> None:
    """Add an RNN."""
    _recurrent(draw, "RNN", 1)
