"""Cases that draw random numbers: what is recorded says only shape and dtype; what is drawn is tested as a sample.

The sample is large: the model is run again on the recorded inputs repeated along their first axis. A bound of 7 standard
errors is missed by chance once in 10^11 runs; the seeded cases draw the same at each run of one framework.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

import numpy as np
import onnx

from .compare import Mismatch

__all__ = ["check_frequency", "check_moments", "check_sample"]

ERRORS = 7.0
TIMES = 4000


def check_frequency(name: str, happened: np.ndarray, chances: Any) -> None:
    """Each of these happened (0 or 1) with its chance: all in all, and where the chance is the larger one."""
    chances = np.broadcast_to(np.asarray(chances, np.float64), happened.shape)
    if not np.isin(happened, [0, 1]).all():
        raise Mismatch("%s: not only zeros and ones" % name)
    if (happened[chances <= 0] != 0).any() or (happened[chances >= 1] != 1).any():
        raise Mismatch("%s: what never happens did, or what always happens did not" % name)
    middle = np.median(chances)
    for part in (chances <= middle, chances > middle):
        wanted, variance = chances[part].sum(), (chances[part] * (1 - chances[part])).sum()
        if abs(happened[part].sum(dtype=np.float64) - wanted) > ERRORS * np.sqrt(variance) + 1e-9:
            raise Mismatch("%s: happened %g times of %g" % (name, happened[part].sum(dtype=np.float64), wanted))


def check_moments(name: str, drawn: np.ndarray, mean: float, variance: float, fourth: float) -> None:
    """`fourth` is the fourth central moment in units of the variance squared: 3 for a normal one, 1.8 for a uniform."""
    wide = np.asarray(drawn, np.float64).reshape(-1)
    error = np.sqrt(variance / wide.size)
    if not abs(wide.mean() - mean) <= ERRORS * error:
        raise Mismatch("%s: the mean is %g, expected %g" % (name, wide.mean(), mean))
    spread = np.square(wide - mean).mean()
    if not abs(spread - variance) <= ERRORS * variance * np.sqrt((fourth - 1) / wide.size):
        raise Mismatch("%s: the variance is %g, expected %g" % (name, spread, variance))
    together = (wide[:-1] - mean) * (wide[1:] - mean)
    if not abs(together.mean()) <= ERRORS * variance / np.sqrt(together.size):
        raise Mismatch("%s: neighbours are not independent: their covariance is %g" % (name, together.mean()))


def check_sample(model: onnx.ModelProto, run: Callable[[Dict[str, Any]], Sequence[Any]], fed: Dict[str, Any]) -> None:
    """Draw twice: other numbers, unless the model has a seed; and as many as follow the distribution of its operator."""
    inputs = {name: _repeated(value) for name, value in fed.items()}
    first, again = list(run(inputs)), list(run(inputs))
    same = all(np.array_equal(one, other) for one, other in zip(first, again))
    if same != any(attribute.name == "seed" for node in model.graph.node for attribute in node.attribute):
        raise Mismatch("the second run drew %s numbers" % ("the same" if same else "other"))
    nodes = {node.op_type: node for node in model.graph.node}
    if "Dropout" in nodes:
        _check_dropout(list(inputs.values()), first)
    elif "Bernoulli" in nodes:
        check_frequency("the output", first[0], next(iter(inputs.values())))
    elif set(nodes) == {"RandomUniformLike", "Greater", "Cast"}:
        ((name, chances),) = inputs.items()  # Bernoulli, expanded; early releases have it turned round
        check_frequency("the output", first[0], chances if nodes["Greater"].input[0] == name else 1 - chances)
    else:
        raise Mismatch("no test is known for what %s draws" % ", ".join(sorted(nodes)))


def _repeated(value: np.ndarray) -> np.ndarray:
    return np.concatenate([value] * TIMES) if value.ndim else value


def _check_dropout(inputs: Sequence[Any], outputs: List[Any]) -> None:
    """The second input is the ratio. What is kept is scaled so that the mean stays."""
    data, ratio = inputs[0], float(inputs[1]) if len(inputs) > 2 else 0.5
    kept = outputs[1] if len(outputs) > 1 else outputs[0] != 0
    check_frequency("the mask", kept, 1 - ratio)
    wanted = np.where(kept, data / (1 - ratio), 0)
    if not np.allclose(outputs[0], wanted, rtol=1e-3, atol=1e-7):
        raise Mismatch("what was kept is not the input, scaled by 1 / (1 - ratio)")
