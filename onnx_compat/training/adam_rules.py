"""Update rules with an average of the gradient and one of its size: Adam, AdamW, Adamax, Nadam, Lamb."""

from typing import Any, Dict, Tuple

from onnx_compat import primitives as p
from onnx_compat.training.clipping import norm
from onnx_compat.training.update_rules import Options, Slot, Update, update_rule


def _two_moments(options: Options) -> Dict[str, Slot]:
    slots = {"momentum": Slot(), "velocity": Slot()}
    return {**slots, "velocity_hat": Slot()} if options.get("amsgrad") else slots


def _average_moments(at: Update, beta_1: float, beta_2: float) -> Tuple[Any, Any]:
    """Return the new averages of the gradient and of its square. The slots `momentum` and `velocity` of `at` are replaced."""
    momentum, velocity = at.slots["momentum"], at.slots["velocity"]
    at.slots["momentum"] = momentum + (at.gradient - momentum) * (1 - beta_1)
    at.slots["velocity"] = velocity + (at.gradient * at.gradient - velocity) * (1 - beta_2)
    return at.slots["momentum"], at.slots["velocity"]


def _bias(at: Update, beta: float) -> Any:
    """Return 1 - beta^t: the factor by which an average that began with 0 is too small."""
    return 1 - p.pow(beta, at.time)


@update_rule("adam", _two_moments)
@update_rule("adamw", _two_moments, weight_decay=0.004)
def adam(
    at: Update,
    *,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-7,
    amsgrad: bool = False,
    bias_corrected_epsilon: bool = False,
) -> Any:
    """Return the parameter after a step of Adam; AdamW is Adam with a default weight decay.

    rate * sqrt(1 - beta_2^t) / (1 - beta_1^t) * m / (sqrt(v) + epsilon) is subtracted. m and v are the averages of the
    gradient and of its square: they replace slots of `at`.

    - amsgrad: the largest v so far replaces v.
    - bias_corrected_epsilon: epsilon is added to sqrt(v / (1 - beta_2^t)), as in torch and in the paper. By default it
      is added to sqrt(v), as in Keras.
    """
    momentum, velocity = _average_moments(at, beta_1, beta_2)
    if amsgrad:
        velocity = at.slots["velocity_hat"] = p.maximum(at.slots["velocity_hat"], velocity)
    correction = p.sqrt(_bias(at, beta_2))
    if bias_corrected_epsilon:
        return at.parameter - at.rate / _bias(at, beta_1) * momentum / (p.sqrt(velocity) / correction + epsilon)
    return at.parameter - momentum * (at.rate * correction / _bias(at, beta_1)) / (p.sqrt(velocity) + epsilon)


@update_rule("adamax", lambda options: {"momentum": Slot(), "norm": Slot()})
def adamax(at: Update, *, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7) -> Any:
    """Return the parameter after a step of Adamax: rate * m / ((1 - beta_1^t) * (u + epsilon)) is subtracted.

    m is the average of the gradient, and u = max(beta_2 * u, |gradient|). torch adds epsilon to |gradient| instead.
    m and u replace the slots of `at`.
    """
    momentum = at.slots["momentum"]
    momentum = at.slots["momentum"] = momentum + (at.gradient - momentum) * (1 - beta_1)
    size = at.slots["norm"] = p.maximum(at.slots["norm"] * beta_2, p.abs(at.gradient))
    return at.parameter - at.rate * momentum / (_bias(at, beta_1) * (size + epsilon))


def _nadam_factor(time: Any, beta_1: float) -> Any:
    """Return the momentum of Nadam in the update `time`: it rises from 0.5 to 1 times beta_1."""
    return (1 - p.pow(0.96, time) * 0.5) * beta_1


@update_rule(
    "nadam",
    _two_moments,
    shared={"momentum_product": (1.0, lambda value, time, options: value * _nadam_factor(time, options["beta_1"]))},
)
def nadam(at: Update, *, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7) -> Any:
    """Return the parameter after a step of Nadam: rate * m' / (sqrt(v / (1 - beta_2^t)) + epsilon) is subtracted.

    m' looks a step ahead: u2 * m / (1 - product * u2) + (1 - u1) * gradient / (1 - product). u1 and u2 are the momenta
    of this update and of the next one. The shared state `momentum_product` is the product of all momenta so far.
    """
    momentum, velocity = _average_moments(at, beta_1, beta_2)
    product = p.cast(at.shared["momentum_product"], at.parameter.dtype)
    now, ahead = _nadam_factor(at.time, beta_1), _nadam_factor(at.time + 1, beta_1)
    mixed = ahead * momentum / (1 - product * ahead) + (1 - now) * at.gradient / (1 - product)
    return at.parameter - mixed * at.rate / (p.sqrt(velocity / _bias(at, beta_2)) + epsilon)


@update_rule("lamb", _two_moments)
def lamb(at: Update, *, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7) -> Any:
    """Return the parameter after a step of Lamb: rate * ratio * d is subtracted.

    d is m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon), as in Adam. The ratio is the norm of the parameter
    divided by the norm of d; 1 if a norm is 0.
    """
    momentum, velocity = _average_moments(at, beta_1, beta_2)
    direction = momentum / _bias(at, beta_1) / (p.sqrt(velocity / _bias(at, beta_2)) + epsilon)
    length, step = norm(at.parameter), norm(direction)
    is_usable = p.logical_and(length > 0, step > 0)
    ratio = p.where(is_usable, p.div(length, p.where(is_usable, step, 1)), 1)
    return at.parameter - ratio * at.rate * direction
