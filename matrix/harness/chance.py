"""Statistical tests for models that draw random numbers. The recorded output gives only their shape and dtype.

For a sample that is large enough, the model runs on the recorded inputs repeated 4000 times along their first axis. A
bound of 7 standard errors fails by chance once in 10^11 runs. A case with a seed draws the same numbers in each run.
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
    """Raise Mismatch unless 0/1 events happen about as often as their chances say.

    - name: the name of the output, for the text.
    - happened: 0 or 1 for each event.
    - chances: the probability of each event, or probabilities that broadcast to the shape of `happened`.

    The events up to the median chance and the events above it are counted apart.
    """
    chances = np.broadcast_to(np.asarray(chances, np.float64), happened.shape)
    if not np.isin(happened, [0, 1]).all():
        raise Mismatch("%s: not only zeros and ones" % name)
    if (happened[chances <= 0] != 0).any() or (happened[chances >= 1] != 1).any():
        raise Mismatch("%s: an event of chance 0 happened, or an event of chance 1 did not" % name)
    middle = np.median(chances)
    for part in (chances <= middle, chances > middle):
        wanted, variance = chances[part].sum(), (chances[part] * (1 - chances[part])).sum()
        if abs(happened[part].sum(dtype=np.float64) - wanted) > ERRORS * np.sqrt(variance) + 1e-9:
            raise Mismatch("%s: happened %g times of %g" % (name, happened[part].sum(dtype=np.float64), wanted))


def check_moments(name: str, drawn: np.ndarray, mean: float, variance: float, fourth: float) -> None:
    """Raise Mismatch unless random numbers have this mean and variance, and consecutive numbers are not correlated.

    `fourth`: the fourth central moment divided by the squared variance. It is 3 for a normal distribution, and 1.8 for
    a uniform distribution.
    """
    values = np.asarray(drawn, np.float64).reshape(-1)
    error = np.sqrt(variance / values.size)
    if not abs(values.mean() - mean) <= ERRORS * error:
        raise Mismatch("%s: the mean is %g, expected %g" % (name, values.mean(), mean))
    spread = np.square(values - mean).mean()
    if not abs(spread - variance) <= ERRORS * variance * np.sqrt((fourth - 1) / values.size):
        raise Mismatch("%s: the variance is %g, expected %g" % (name, spread, variance))
    products = (values[:-1] - mean) * (values[1:] - mean)
    if not abs(products.mean()) <= ERRORS * variance / np.sqrt(products.size):
        raise Mismatch("%s: consecutive numbers are not independent: their covariance is %g" % (name, products.mean()))


def check_sample(model: onnx.ModelProto, run: Callable[[Dict[str, Any]], Sequence[Any]], fed: Dict[str, Any]) -> None:
    """Run a model twice on a large sample, and check that its numbers follow the distribution of its operator.

    - run: the function from feeds to outputs that runs the model.
    - fed: the recorded inputs by name; the sample repeats them 4000 times.

    Raises Mismatch for another distribution, and for an operator without a check. The numbers of the two runs must
    differ; if a node of the model has the attribute `seed`, they must be equal.
    """
    inputs = {name: _repeat(value) for name, value in fed.items()}
    first, again = list(run(inputs)), list(run(inputs))
    same = all(np.array_equal(first_output, second_output) for first_output, second_output in zip(first, again))
    if same != any(attribute.name == "seed" for node in model.graph.node for attribute in node.attribute):
        raise Mismatch("the second run drew %s numbers" % ("the same" if same else "different"))
    nodes = {node.op_type: node for node in model.graph.node}
    if "Dropout" in nodes:
        _check_dropout(list(inputs.values()), first)
    elif "Bernoulli" in nodes:
        check_frequency("the output", first[0], next(iter(inputs.values())))
    elif set(nodes) == {"RandomUniformLike", "Greater", "Cast"}:
        ((name, chances),) = inputs.items()  # Bernoulli, expanded; early releases of onnx swap the inputs of Greater
        check_frequency("the output", first[0], chances if nodes["Greater"].input[0] == name else 1 - chances)
    else:
        raise Mismatch("the harness has no test for the numbers of %s" % ", ".join(sorted(nodes)))


def _repeat(value: np.ndarray) -> np.ndarray:
    """Return an array repeated `TIMES` times along its first axis; a scalar as it is."""
    return np.concatenate([value] * TIMES) if value.ndim else value


def _check_dropout(inputs: Sequence[Any], outputs: List[Any]) -> None:
    """Check the mask of a Dropout, and its output: the kept input divided by 1 - ratio, else 0.

    `inputs[1]` is the ratio, 0.5 if there are fewer than three inputs. Raises Mismatch for a wrong mask or output.
    """
    data, ratio = inputs[0], float(inputs[1]) if len(inputs) > 2 else 0.5
    kept = outputs[1] if len(outputs) > 1 else outputs[0] != 0
    check_frequency("the mask", kept, 1 - ratio)
    wanted = np.where(kept, data / (1 - ratio), 0)
    if not np.allclose(outputs[0], wanted, rtol=1e-3, atol=1e-7):
        raise Mismatch("the kept elements are not the input scaled by 1 / (1 - ratio)")
