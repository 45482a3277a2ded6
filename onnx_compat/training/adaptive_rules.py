"""Update rules that divide by the size of earlier gradients: Adagrad, RMSprop, Adadelta, Ftrl, Adafactor."""

from typing import Any, Dict

from onnx_compat import primitives as p
from onnx_compat.training.update_rules import Options, Slot, Update, update_rule


def _root(square: Any, epsilon: float, epsilon_outside_root: bool) -> Any:
    return p.sqrt(square) + epsilon if epsilon_outside_root else p.sqrt(square + epsilon)


def _average(value: Any, update: Any, rho: float) -> Any:
    return value * rho + update * (1 - rho)


@update_rule("adagrad", lambda options: {"accumulator": Slot(options["initial_accumulator_value"])})
def adagrad(
    at: Update,
    *,
    initial_accumulator_value: float = 0.1,  # noqa: ARG001 (the initial value of the slot)
    epsilon: float = 1e-7,
    epsilon_outside_root: bool = False,
) -> Any:
    """Return the parameter after a step of Adagrad: rate * gradient / sqrt(a + epsilon) is subtracted.

    a is `initial_accumulator_value` plus the sum of all squared gradients. With `epsilon_outside_root`, the divisor is
    sqrt(a) + epsilon, as in torch. a replaces the slot of `at`.
    """
    total = at.slots["accumulator"] = at.slots["accumulator"] + at.gradient * at.gradient
    return at.parameter - at.rate * at.gradient / _root(total, epsilon, epsilon_outside_root)


def _rmsprop_slots(options: Options) -> Dict[str, Slot]:
    slots = {"velocity": Slot()}
    if options["momentum"]:
        slots["momentum"] = Slot()
    if options["centered"]:
        slots["average_gradient"] = Slot()
    return slots


@update_rule("rmsprop", _rmsprop_slots)
def rmsprop(
    at: Update,
    *,
    rho: float = 0.9,
    momentum: float = 0.0,
    epsilon: float = 1e-7,
    centered: bool = False,
    epsilon_outside_root: bool = False,
) -> Any:
    """Return the parameter after a step of RMSprop: rate * gradient / sqrt(v + epsilon) is subtracted.

    v is the average of the squared gradient: v = rho * v + (1 - rho) * gradient^2. The new averages replace the slots of
    `at`.

    - momentum: the step is added to momentum * earlier steps, and that sum is subtracted.
    - centered: the square of the average gradient is subtracted from v: the variance of the gradient.
    - epsilon_outside_root: the divisor is sqrt(v) + epsilon, as in torch.
    """
    velocity = at.slots["velocity"] = _average(at.slots["velocity"], at.gradient * at.gradient, rho)
    if centered:
        mean = at.slots["average_gradient"] = _average(at.slots["average_gradient"], at.gradient, rho)
        velocity = velocity - mean * mean
    step = at.rate * at.gradient / _root(velocity, epsilon, epsilon_outside_root)
    if momentum:
        step = at.slots["momentum"] = at.slots["momentum"] * momentum + step
    return at.parameter - step


@update_rule("adadelta", lambda options: {"accumulated_gradient": Slot(), "accumulated_delta": Slot()})
def adadelta(at: Update, *, rho: float = 0.95, epsilon: float = 1e-7) -> Any:
    """Return the parameter after a step of Adadelta: rate * d is subtracted.

    d is gradient * sqrt(a + epsilon) / sqrt(v + epsilon). v and a are the averages of gradient^2 and of d^2; v with
    this gradient, a without this d. The new averages replace the slots of `at`.
    """
    square = at.slots["accumulated_gradient"] = _average(
        at.slots["accumulated_gradient"], at.gradient * at.gradient, rho
    )
    deltas = at.slots["accumulated_delta"]
    step = p.sqrt(deltas + epsilon) * at.gradient / p.sqrt(square + epsilon)
    at.slots["accumulated_delta"] = _average(deltas, step * step, rho)
    return at.parameter - at.rate * step


@update_rule("ftrl", lambda options: {"accumulator": Slot(options["initial_accumulator_value"]), "linear": Slot()})
def ftrl(
    at: Update,
    *,
    learning_rate_power: float = -0.5,
    initial_accumulator_value: float = 0.1,  # noqa: ARG001 (the initial value of the slot)
    l1_regularization_strength: float = 0.0,
    l2_regularization_strength: float = 0.0,
    l2_shrinkage_regularization_strength: float = 0.0,
    beta: float = 0.0,
) -> Any:
    """Return the parameter after a step of Ftrl: (clip(z, -l1, l1) - z) / ((a^-power + beta) / rate + 2 * l2).

    a is `initial_accumulator_value` plus the sum of all squared gradients, without the shrinkage. z grows by
    gradient + 2 * shrinkage * parameter - (new a^-power - old a^-power) / rate * parameter. a and z replace the slots
    of `at`.
    """
    old, linear, rate = at.slots["accumulator"], at.slots["linear"], at.rate
    new = at.slots["accumulator"] = old + at.gradient * at.gradient
    roots = [p.pow(value, -learning_rate_power) for value in (new, old)]
    gradient = at.gradient + at.parameter * (2 * l2_shrinkage_regularization_strength)
    linear = at.slots["linear"] = linear + gradient - (roots[0] - roots[1]) / rate * at.parameter
    divisor = (roots[0] + beta) / rate + 2 * l2_regularization_strength
    return (p.clip(linear, -l1_regularization_strength, l1_regularization_strength) - linear) / divisor


def _adafactor_slots(_options: Options) -> Dict[str, Slot]:
    """Return the slots of Adafactor: the averages of rows and columns of a matrix; of a vector, the average itself."""
    return {
        "row": Slot(0.0, lambda shape: shape[:-1] if len(shape) > 1 else shape),
        "column": Slot(0.0, lambda shape: (*shape[:-2], shape[-1]) if len(shape) > 1 else ()),
    }


def _root_mean_square(x: Any) -> Any:
    return p.sqrt(p.reduce_mean(p.mul(x, x)))


@update_rule("adafactor", _adafactor_slots)
def adafactor(
    at: Update,
    *,
    beta_2_decay: float = -0.8,
    epsilon_1: float = 1e-30,
    epsilon_2: float = 1e-3,
    clip_threshold: float = 1.0,
) -> Any:
    """Return the parameter after a step of Adafactor.

    max(epsilon_2, rms(parameter)) * min(rate, 1 / sqrt(t)) * d is subtracted. d is gradient / sqrt(v), divided by
    max(1, rms(d) / clip_threshold). v is the average of gradient^2 + epsilon_1 with the weight 1 - t^beta_2_decay for
    earlier steps. Of a matrix, only the averages of rows and columns are kept, for the last two axes. The
    new averages replace the slots of `at`.

    Keras has an option `relative_step`. It has no effect in Keras 3.15, and none here.
    """
    keep: Any = 1 - p.pow(at.time, beta_2_decay)
    square = at.gradient * at.gradient + epsilon_1
    if at.parameter.rank > 1:
        row = at.slots["row"] = at.slots["row"] * keep + p.reduce_mean(square, [-1]) * (1 - keep)
        column = at.slots["column"] = at.slots["column"] * keep + p.reduce_mean(square, [-2]) * (1 - keep)
        share = row / p.reduce_mean(row, [-1], keepdims=True)
        square = p.unsqueeze(share, [-1]) * p.unsqueeze(column, [-2])
    else:
        square = at.slots["row"] = at.slots["row"] * keep + square * (1 - keep)
    direction = at.gradient / p.sqrt(square)
    direction = direction / p.maximum(_root_mean_square(direction) / clip_threshold, 1)
    rate = p.minimum(at.rate, p.div(1, p.sqrt(at.time)))
    return at.parameter - p.maximum(_root_mean_square(at.parameter), epsilon_2) * rate * direction
