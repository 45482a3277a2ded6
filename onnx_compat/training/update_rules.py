"""The declaration of update rules: how an optimizer computes the new value of a parameter from its gradient.

The rules are in `momentum_rules`, `adam_rules` and `adaptive_rules`.
"""

import math
from typing import Any, Callable, Dict, Mapping, NamedTuple, Sequence, Tuple

from onnx_compat.training.names import keyword_defaults

__all__ = ["RULES", "Slot", "Update", "UpdateRule", "update_rule"]

Options = Mapping[str, Any]


class Update:
    """A step of one parameter: what an update rule reads, and the state that it replaces.

    - parameter, gradient: tensors of one dtype and shape.
    - rate: the learning rate, a scalar of the same dtype.
    - time: the number of the update, a scalar of the same dtype: 1 in the first update.
    - slots: name -> state of the parameter. A rule replaces its entries.
    - shared: name -> state that all parameters share, after the step.
    """

    def __init__(
        self, parameter: Any, gradient: Any, rate: Any, time: Any, slots: Dict[str, Any], shared: Dict[str, Any]
    ) -> None:
        self.parameter = parameter
        self.gradient = gradient
        self.rate = rate
        self.time = time
        self.slots = slots
        self.shared = shared


class Slot(NamedTuple):
    """A state of each parameter: its initial value, the function from the parameter's shape to the state's shape."""

    value: float = 0.0
    shape: Callable[[Sequence[int]], Sequence[int]] = tuple


class UpdateRule(NamedTuple):
    """An update rule.

    - function: (update, **options) -> the new parameter. It replaces entries of `update.slots`.
    - slots: a function from the options to the states of a parameter: name -> `Slot`.
    - learning_rate: the default learning rate.
    - defaults: option -> default value.
    - weight_decay: the default weight decay; None for none.
    - shared: name -> (initial value, function (value, time, options) -> next value) of a state of all parameters.
    """

    function: Callable[..., Any]
    slots: Callable[[Options], Dict[str, Slot]]
    learning_rate: float
    defaults: Dict[str, Any]
    weight_decay: Any
    shared: Dict[str, Tuple[float, Callable[..., Any]]]


#: Name of the optimizer -> its rule.
RULES: Dict[str, UpdateRule] = {}

Function = Callable[..., Any]


def update_rule(
    name: str,
    slots: Callable[[Options], Dict[str, Slot]],
    learning_rate: float = 0.001,
    weight_decay: Any = None,
    shared: Any = None,
    **defaults: Any,
) -> Callable[[Function], Function]:
    """Return a decorator that adds a function to `RULES`, and returns it unchanged. The arguments are in `UpdateRule`.

    The keyword-only parameters of the function are the options. `defaults` replaces default values.
    """

    def declare(function: Function) -> Function:
        options = {**keyword_defaults(function), **defaults}
        RULES[name] = UpdateRule(function, slots, learning_rate, options, weight_decay, shared or {})
        return function

    return declare


#: Option -> (least, greatest, whether the least value itself is out of range).
RANGES: Dict[str, Tuple[float, float, bool]] = {
    "beta": (0, math.inf, False),
    "beta_1": (0, 1, False),
    "beta_2": (0, 1, False),
    "beta_2_decay": (-math.inf, 0, False),
    "clip_threshold": (0, math.inf, True),
    "epsilon": (0, math.inf, False),
    "epsilon_1": (0, math.inf, False),
    "epsilon_2": (0, math.inf, False),
    "initial_accumulator_value": (0, math.inf, False),
    "l1_regularization_strength": (0, math.inf, False),
    "l2_regularization_strength": (0, math.inf, False),
    "l2_shrinkage_regularization_strength": (0, math.inf, False),
    "learning_rate_power": (-math.inf, 0, False),
    "momentum": (0, 1, False),
    "rho": (0, 1, False),
}
