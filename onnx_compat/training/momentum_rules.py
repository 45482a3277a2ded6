"""Update rules without a scale of their own for each element: SGD with its forms of momentum, and Lion."""

from typing import Any, Dict

from onnx_compat import primitives as p
from onnx_compat.training.update_rules import Options, Slot, Update, update_rule


def _momentum_slot(options: Options) -> Dict[str, Slot]:
    return {"momentum": Slot()} if options["momentum"] else {}


@update_rule("sgd", _momentum_slot, learning_rate=0.01)
@update_rule("momentum", _momentum_slot, learning_rate=0.01, momentum=0.9)
@update_rule("nesterov", _momentum_slot, learning_rate=0.01, momentum=0.9, nesterov=True)
def sgd(at: Update, *, momentum: float = 0.0, nesterov: bool = False) -> Any:
    """Return the parameter after a step of stochastic gradient descent.

    The slot of `at` becomes v = momentum * v - rate * gradient, and is added to the parameter. With `nesterov`,
    momentum * v - rate * gradient is added, with the new v. Without momentum, rate * gradient is subtracted.

    As in Keras, v contains the learning rates of earlier steps. In torch it does not: with a rate that changes, the
    results differ.
    """
    step = at.gradient * at.rate
    if not momentum:
        return at.parameter - step
    velocity = at.slots["momentum"] = at.slots["momentum"] * momentum - step
    return at.parameter + (velocity * momentum - step if nesterov else velocity)


@update_rule("lion", lambda options: {"momentum": Slot()})
def lion(at: Update, *, beta_1: float = 0.9, beta_2: float = 0.99) -> Any:
    """Return the parameter after a step of Lion: rate * sign(beta_1 * m + (1 - beta_1) * gradient) is subtracted.

    The slot of `at` becomes m = beta_2 * m + (1 - beta_2) * gradient.
    """
    momentum = at.slots["momentum"]
    at.slots["momentum"] = momentum * beta_2 + at.gradient * (1 - beta_2)
    return at.parameter - at.rate * p.sign(momentum * beta_1 + at.gradient * (1 - beta_1))
