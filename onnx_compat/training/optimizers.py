"""Optimizers by name: the step of all parameters, as a function over primitives. Names and results are Keras 3's.

An optimizer is a description without state. Its state is given to `apply`, which returns the state after the step:

- The slots of each parameter: one tensor for each parameter and each name of `Optimizer.slots`.
- The shared state: one scalar for each name of `Optimizer.shared_state`.
"""

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InputError
from onnx_compat.ir.dtypes import float32, int64
from onnx_compat.tracing.values import Tensor, lift
from onnx_compat.training import adam_rules, adaptive_rules, momentum_rules  # noqa: F401  # imported for their rules
from onnx_compat.training.clipping import clip_by_global_norm, clip_by_norm, clip_by_value
from onnx_compat.training.loss_scaling import DynamicLossScale, is_finite, next_scale, unscale
from onnx_compat.training.names import check_options, find, number
from onnx_compat.training.schedules import LearningRateSchedule
from onnx_compat.training.update_rules import RANGES, RULES, Update, UpdateRule

__all__ = ["OPTIMIZERS", "Optimizer", "Slots", "optimizer"]

#: The names of the optimizers. `optimizer` takes other spellings too.
OPTIMIZERS = tuple(RULES)

#: The state of an optimizer: name of a slot -> a tensor for each parameter; name of a shared state -> one tensor.
Slots = Dict[str, List[Tensor]]

_CLIPPING = {"clip_norm": clip_by_norm, "clip_value": clip_by_value, "global_clip_norm": clip_by_global_norm}

#: Option of every optimizer -> default value.
_COMMON: Dict[str, Any] = {"weight_decay": None, "accumulate": 1, "loss_scale": None, **dict.fromkeys(_CLIPPING)}


@dataclass(frozen=True)
class Optimizer:
    """An optimizer with its options. `optimizer` makes it; its `repr` is an expression that makes it again.

    - name: the name, one of `OPTIMIZERS`.
    - learning_rate: a number, or a schedule.
    - options: option -> value, with all defaults. It must not be changed.
    """

    name: str
    learning_rate: Union[float, LearningRateSchedule]
    options: Mapping[str, Any]

    def __repr__(self) -> str:
        defaults = _default_options(self._rule)
        given = ["learning_rate=%r" % (self.learning_rate,)]
        given += ["%s=%r" % item for item in self.options.items() if item[1] != defaults[item[0]]]
        return "optimizer(%r, %s)" % (self.name, ", ".join(given))

    @property
    def _rule(self) -> UpdateRule:
        return RULES[self.name]

    @property
    def _rule_options(self) -> Dict[str, Any]:
        return {name: self.options[name] for name in self._rule.defaults}

    @property
    def _is_dynamic(self) -> bool:
        return isinstance(self.options["loss_scale"], DynamicLossScale)

    # -- state ---------------------------------------------------------------------------------------------------------
    def slots(self) -> Tuple[str, ...]:
        """Return the names of the state of each parameter, such as ("momentum", "velocity")."""
        own = tuple(self._rule.slots(self.options))
        return (*own, "accumulated_gradient_sum") if self.options["accumulate"] > 1 else own

    def initial(self, slot: str, parameter: np.ndarray) -> np.ndarray:
        """Return the initial value of a slot of one parameter.

        Its shape and dtype are those of the slot. They depend on the shape and dtype of the parameter only. The
        shape is that of the parameter, except for Adafactor: its slot `column` of a vector is an unused scalar.
        """
        slots = self._rule.slots(self.options)
        if slot not in slots:
            return np.zeros(parameter.shape, parameter.dtype)
        return np.full(tuple(slots[slot].shape(parameter.shape)), slots[slot].value, parameter.dtype)

    def shared_state(self) -> Dict[str, np.ndarray]:
        """Return the state that all parameters share: name -> initial value, a scalar.

        - learning_rate: float32, if the rate is a number. A user may change it between steps.
        - momentum_product: float32, of Nadam.
        - loss_scale, finite_steps, skipped_steps: of a dynamic loss scale.
        """
        state = {name: np.array(rate, np.float32) for name, rate in self.hyperparameters().items()}
        state.update((name, np.array(value, np.float32)) for name, (value, _) in self._rule.shared.items())
        return {**state, **self.options["loss_scale"].shared_state()} if self._is_dynamic else state

    def hyperparameters(self) -> Dict[str, float]:
        """Return the part of the shared state that a user may set: name -> initial value. With a schedule, none."""
        return {} if isinstance(self.learning_rate, LearningRateSchedule) else {"learning_rate": self.learning_rate}

    # -- computation ---------------------------------------------------------------------------------------------------
    def scale_loss(self, loss: Tensor, slots: Slots) -> Tensor:
        """Return the loss to differentiate: the loss times the loss scale. `apply` divides the gradients by the scale.

        Without the option `loss_scale`, the loss itself is returned.
        """
        if self.options["loss_scale"] is None:
            return loss
        scale = p.cast(slots["loss_scale"][0], loss.dtype) if self._is_dynamic else self.options["loss_scale"]
        return p.mul(loss, scale)

    def apply(
        self,
        parameters: Sequence[Tensor],
        gradients: Sequence[Tensor],
        slots: Slots,
        step: Tensor,
        decayed: Optional[Sequence[bool]] = None,
    ) -> Tuple[List[Tensor], Slots]:
        """Return the parameters and the state after a step.

        - gradients: a gradient for each parameter.
        - slots: the state before the step, with all names of `slots` and `shared_state`.
        - step: how often `apply` was called before; int64 of rank 0. The caller counts.
        - decayed: whether each parameter gets weight decay; None: all do.

        The new state has the names of `slots`. A state that the step cannot change, such as the learning rate, is the
        same Tensor.

        Raises InputError for a state that is missing, and for lists of different lengths.
        """
        self._check_arguments(parameters, gradients, slots, decayed)
        shared = {name: slots[name][0] for name in self.shared_state()}
        calls: Any = lift(step, int64)
        conditions = []
        gradients = [p.cast(gradient, parameter.dtype) for gradient, parameter in zip(gradients, parameters)]
        scale_state: Dict[str, Tensor] = {}
        if self._is_dynamic:
            finite = is_finite(gradients)
            conditions.append(finite)
            calls = calls - shared["skipped_steps"]
            scale_state = next_scale(self.options["loss_scale"].growth_steps, shared, finite)
            gradients = unscale(gradients, shared["loss_scale"])
        elif self.options["loss_scale"] is not None:
            gradients = unscale(gradients, self.options["loss_scale"])
        sums: List[Tensor] = []
        count = self.options["accumulate"]
        if count > 1:
            sums = [p.add(*pair) for pair in zip(slots["accumulated_gradient_sum"], gradients)]
            conditions.append(p.equal(p.mod(calls + 1, count), 0))
            gradients = [p.div(total, count) for total in sums]
        parameters, after = self._update(parameters, self._clip(gradients), slots, calls, decayed, conditions)
        if sums:
            kept = [p.where(conditions[-1], 0, total) for total in sums]
            after["accumulated_gradient_sum"] = _select(conditions[:-1], kept, slots["accumulated_gradient_sum"])
        after.update((name, [value]) for name, value in scale_state.items())
        return parameters, {**slots, **after}

    def _check_arguments(
        self,
        parameters: Sequence[Tensor],
        gradients: Sequence[Tensor],
        slots: Slots,
        decayed: Optional[Sequence[bool]],
    ) -> None:
        """Raise InputError for a missing state, and for a list without an element for each parameter.

        `decayed` may be None: see `apply`.
        """
        lengths = {"gradients": len(gradients), "decayed": len(parameters if decayed is None else decayed)}
        expected = dict.fromkeys(lengths, len(parameters))
        expected.update({**dict.fromkeys(self.slots(), len(parameters)), **dict.fromkeys(self.shared_state(), 1)})
        lengths.update((name, len(values)) for name, values in slots.items())
        for name, length in expected.items():
            if lengths.get(name) != length or not parameters:
                raise InputError(
                    "the step of '%s' needs %d tensors of '%s', and has %s"
                    % (self.name, length, name, lengths.get(name, "none")),
                    hint="give the state of `slots()` and `shared_state()`, one parameter or more, and a gradient for each",
                )

    def _clip(self, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
        for name, clip in _CLIPPING.items():
            if self.options[name] is not None:
                return clip(gradients, self.options[name])
        return gradients

    def _update(
        self,
        parameters: Sequence[Tensor],
        gradients: Sequence[Tensor],
        slots: Slots,
        calls: Any,
        decayed: Optional[Sequence[bool]],
        conditions: Sequence[Tensor],
    ) -> Tuple[List[Tensor], Slots]:
        """Return the new parameters, and the new state of the update rule. The old ones if a condition is false.

        `calls`: the number of earlier calls that were not skipped. The other arguments are those of `apply`.
        """
        rule, options, count = self._rule, self._rule_options, self.options["accumulate"]
        rate: Any = (
            self.learning_rate(calls)
            if isinstance(self.learning_rate, LearningRateSchedule)
            else slots["learning_rate"][0]
        )
        number_of_update = (calls if count == 1 else p.floordiv(calls, count)) + 1
        time = p.cast(number_of_update, float32)
        shared = {name: advance(slots[name][0], time, self.options) for name, (_, advance) in rule.shared.items()}
        names = tuple(rule.slots(self.options))
        decay = self.options["weight_decay"]
        rows = []
        for k, (parameter, gradient) in enumerate(zip(parameters, gradients)):
            own_rate = p.cast(rate, parameter.dtype)
            start: Any = parameter
            if decay and (decayed is None or decayed[k]):
                start = start - start * decay * own_rate
            state = {name: slots[name][k] for name in names}
            at = Update(start, gradient, own_rate, p.cast(number_of_update, parameter.dtype), state, shared)
            rows.append([rule.function(at, **options), *(at.slots[name] for name in names)])
        old = [parameters, *(slots[name] for name in names)]
        columns = [_select(conditions, column, before) for column, before in zip(zip(*rows), old)]
        after = {name: _select(conditions, [value], slots[name]) for name, value in shared.items()}
        return columns[0], {**after, **dict(zip(names, columns[1:]))}


def _select(conditions: Sequence[Tensor], new: Sequence[Tensor], old: Sequence[Tensor]) -> List[Tensor]:
    """Return the new tensors if all conditions are true, else the old ones. An unchanged Tensor is returned itself."""
    if not conditions:
        return list(new)
    condition = conditions[0]
    for operand in conditions[1:]:
        condition = p.logical_and(condition, operand)
    return [after if after is before else p.where(condition, after, before) for after, before in zip(new, old)]


def _default_options(rule: UpdateRule) -> Dict[str, Any]:
    return {**_COMMON, "weight_decay": rule.weight_decay, **rule.defaults}


def optimizer(name: str, learning_rate: Union[float, LearningRateSchedule, None] = None, **options: Any) -> Optimizer:
    """Return an optimizer by its name in any spelling: adamw, AdamW. Defaults are those of Keras 3.

    - learning_rate: a number or a `LearningRateSchedule`; None: the default of the optimizer.
    - options: the options of the update rule, such as `beta_1`, and these:

      - weight_decay: before a step, parameter * weight_decay * learning rate is subtracted from each parameter. torch
        adds weight_decay * parameter to the gradient instead, except in AdamW.
      - clip_norm, clip_value, global_clip_norm: the greatest norm of each gradient, the greatest absolute value of its
        elements, or the greatest norm of all gradients together. At most one of the three is given.
      - accumulate: the number of steps whose gradients are averaged. Parameters change in the last of them only.
      - loss_scale: a number, a `DynamicLossScale`, or "dynamic" for the default one. See `Optimizer.scale_loss`.

    Raises InputError for an unknown name or option, and for a value out of range.
    """
    key = find("optimizer", name, {key: key for key in RULES})
    rule = RULES[key]
    defaults = _default_options(rule)
    check_options("the optimizer '%s'" % key, options, defaults)
    rate = rule.learning_rate if learning_rate is None else learning_rate
    if not isinstance(rate, LearningRateSchedule):
        number("learning_rate", rate, "[0, inf)")
    values = {**defaults, **options}
    if values["loss_scale"] == "dynamic":
        values["loss_scale"] = DynamicLossScale()
    for option, value in values.items():
        _check_value(option, value, defaults[option])
    if sum(values[option] is not None for option in _CLIPPING) > 1:
        raise InputError("only one of %s may be given" % ", ".join(_CLIPPING))
    return Optimizer(key, rate, values)


def _check_value(option: str, value: Any, default: Any) -> None:
    """Raise InputError for a value that an option does not take. `default` is its default value."""
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise InputError("%s must be True or False, not %r" % (option, value))
    elif option == "accumulate":
        if number(option, value, "[1, inf)") != int(value):
            raise InputError("accumulate must be an integer, not %r" % (value,))
    elif option == "weight_decay":
        number(option, 0 if value is None else value, "[0, inf)")
    elif option in _COMMON:  # clipping and loss_scale
        if value is not None and not (option == "loss_scale" and isinstance(value, DynamicLossScale)):
            number(option, value, "(0, inf)")
    else:
        number(option, value, RANGES[option])
