"""Learning-rate schedules: functions from the number of the step to the learning rate, with the names of Keras."""

import math
from dataclasses import dataclass
from typing import Any, Dict, Optional, Sequence, Type

from onnx_compat import primitives as p
from onnx_compat.errors import InputError
from onnx_compat.ir.dtypes import float32, int64
from onnx_compat.tracing.values import Tensor, lift
from onnx_compat.training.names import check_options, find, number

__all__ = [
    "SCHEDULES",
    "ConstantRate",
    "CosineDecay",
    "CosineDecayRestarts",
    "ExponentialDecay",
    "InverseTimeDecay",
    "LearningRateSchedule",
    "PiecewiseConstantDecay",
    "PolynomialDecay",
    "schedule",
]


class LearningRateSchedule:
    """A learning rate that depends on the step. Its `repr` is an expression that makes it again."""

    def __call__(self, step: Tensor) -> Tensor:
        """Return the learning rate of a step, float32 of rank 0. `step` is an int64 of rank 0: 0 in the first step."""
        raise NotImplementedError


def _check(schedule: Any, *positive: str) -> None:
    """Raise InputError for a field of a schedule that is no finite number, or not above 0 though in `positive`.

    Fields with booleans, sequences and None are not checked.
    """
    for name, value in vars(schedule).items():
        if name in positive:
            number(name, value, "(0, inf)")
        elif not isinstance(value, (bool, tuple, list, type(None))):
            number(name, value)


def _as_float(step: Tensor) -> Any:
    return p.cast(lift(step, int64), float32)


@dataclass(frozen=True)
class ConstantRate(LearningRateSchedule):
    """The same learning rate in every step."""

    learning_rate: float

    def __post_init__(self) -> None:
        _check(self)

    def __call__(self, step: Tensor) -> Tensor:
        """Return the learning rate."""
        return lift(self.learning_rate, float32)


@dataclass(frozen=True)
class ExponentialDecay(LearningRateSchedule):
    """initial_learning_rate * decay_rate^(step / decay_steps). `staircase`: the quotient is rounded down."""

    initial_learning_rate: float
    decay_steps: float
    decay_rate: float
    staircase: bool = False

    def __post_init__(self) -> None:
        _check(self, "decay_steps", "decay_rate")

    def __call__(self, step: Tensor) -> Tensor:
        """Return the learning rate of a step."""
        periods: Any = _as_float(step) / self.decay_steps
        periods = p.floor(periods) if self.staircase else periods
        return p.mul(p.pow(self.decay_rate, periods), self.initial_learning_rate)


@dataclass(frozen=True)
class PiecewiseConstantDecay(LearningRateSchedule):
    """values[0] up to and with the step boundaries[0], then values[1] up to and with boundaries[1], and so on.

    `values` has one element more than `boundaries`, which are ascending integers.
    """

    boundaries: Sequence[int]
    values: Sequence[float]

    def __post_init__(self) -> None:
        for name, numbers in (("boundaries", self.boundaries), ("values", self.values)):
            for item in numbers:
                number("each of " + name, item)
        ascending = list(self.boundaries) == sorted(set(self.boundaries))
        if len(self.values) != len(self.boundaries) + 1 or not ascending:
            raise InputError("%r needs ascending boundaries, and one value more than boundaries" % self)

    def __call__(self, step: Tensor) -> Tensor:
        """Return the learning rate of a step."""
        rate = lift(self.values[-1], float32)
        for boundary, value in reversed(list(zip(self.boundaries, self.values))):
            rate = p.where(p.less_equal(lift(step, int64), math.floor(boundary)), lift(value, float32), rate)
        return rate


@dataclass(frozen=True)
class PolynomialDecay(LearningRateSchedule):
    """(initial - end) * (1 - step / decay_steps)^power + end; from decay_steps on, the end learning rate.

    `cycle`: from decay_steps on, decay_steps is multiplied by the least integer with which it is not below the step.
    """

    initial_learning_rate: float
    decay_steps: float
    end_learning_rate: float = 0.0001
    power: float = 1.0
    cycle: bool = False

    def __post_init__(self) -> None:
        _check(self, "decay_steps", "power")

    def __call__(self, step: Tensor) -> Tensor:
        """Return the learning rate of a step."""
        time: Any = _as_float(step)
        length: Any = lift(self.decay_steps, float32)
        if self.cycle:
            length = p.maximum(p.ceil(time / length), 1) * length
        rest = p.pow(1 - p.minimum(time, length) / length, self.power)
        return rest * (self.initial_learning_rate - self.end_learning_rate) + self.end_learning_rate


@dataclass(frozen=True)
class InverseTimeDecay(LearningRateSchedule):
    """initial_learning_rate / (1 + decay_rate * step / decay_steps). `staircase`: the quotient is rounded down."""

    initial_learning_rate: float
    decay_steps: float
    decay_rate: float
    staircase: bool = False

    def __post_init__(self) -> None:
        _check(self, "decay_steps")
        number("decay_rate", self.decay_rate, "[0, inf)")

    def __call__(self, step: Tensor) -> Tensor:
        """Return the learning rate of a step."""
        periods: Any = _as_float(step) / self.decay_steps
        periods = p.floor(periods) if self.staircase else periods
        return p.div(self.initial_learning_rate, periods * self.decay_rate + 1)


def _cosine(fraction: Any, alpha: float) -> Any:
    """Return (1 + cos(pi * fraction)) / 2, moved from [0, 1] to [alpha, 1]."""
    return (p.cos(fraction * math.pi) + 1) * (0.5 * (1 - alpha)) + alpha


@dataclass(frozen=True)
class CosineDecay(LearningRateSchedule):
    """A linear warm-up, then a decay along half a cosine.

    With `warmup_target`, the rate first rises from initial_learning_rate to warmup_target, in warmup_steps. Then it
    falls in decay_steps to alpha * warmup_target. Without it, it falls from initial_learning_rate to
    alpha * initial_learning_rate.
    """

    initial_learning_rate: float
    decay_steps: float
    alpha: float = 0.0
    warmup_target: Optional[float] = None
    warmup_steps: float = 0

    def __post_init__(self) -> None:
        _check(self, "decay_steps")
        number("warmup_steps", self.warmup_steps, "[0, inf)")

    def __call__(self, step: Tensor) -> Tensor:
        """Return the learning rate of a step."""
        time: Any = _as_float(step)
        if self.warmup_target is None:
            return p.mul(_cosine(p.minimum(time / self.decay_steps, 1), self.alpha), self.initial_learning_rate)
        since = p.maximum(time - self.warmup_steps, 0)
        decay = p.mul(_cosine(p.minimum(since / self.decay_steps, 1), self.alpha), self.warmup_target)
        if not self.warmup_steps:
            return decay
        rise = time * ((self.warmup_target - self.initial_learning_rate) / self.warmup_steps)
        return p.where(time < self.warmup_steps, rise + self.initial_learning_rate, decay)


@dataclass(frozen=True)
class CosineDecayRestarts(LearningRateSchedule):
    """Periods of half a cosine. The first has first_decay_steps steps, and each t_mul times those of the one before.

    Period i falls from initial_learning_rate * m_mul^i to alpha * initial_learning_rate. `t_mul` is 1 or more.
    """

    initial_learning_rate: float
    first_decay_steps: float
    t_mul: float = 2.0
    m_mul: float = 1.0
    alpha: float = 0.0

    def __post_init__(self) -> None:
        _check(self, "first_decay_steps", "m_mul")
        number("t_mul", self.t_mul, "[1, inf)")

    def __call__(self, step: Tensor) -> Tensor:
        """Return the learning rate of a step. The first step of a period has the highest rate of the period."""
        time: Any = _as_float(step) / self.first_decay_steps
        if self.t_mul == 1:
            period: Any = p.floor(time)
            fraction = time - period
        else:
            # The logarithm is rounded: just at a restart, it may be on either side of an integer.
            nearest: Any = p.round(p.log(time * (self.t_mul - 1) + 1) / math.log(self.t_mul))
            period = p.where(self._start(nearest) <= time, nearest, nearest - 1)
            fraction = (time - self._start(period)) / p.pow(self.t_mul, period)
        height = p.pow(self.m_mul, period) * (p.cos(fraction * math.pi) + 1) * (0.5 * (1 - self.alpha))
        return (height + self.alpha) * self.initial_learning_rate

    def _start(self, period: Any) -> Any:
        """Return the start of a period, in units of the length of period 0. `t_mul` is not 1."""
        return (p.pow(self.t_mul, period) - 1) / (self.t_mul - 1)


#: Class name -> class. `schedule` takes other spellings too.
SCHEDULES: Dict[str, Type[Any]] = {
    kind.__name__: kind
    for kind in (
        ConstantRate,
        CosineDecay,
        CosineDecayRestarts,
        ExponentialDecay,
        InverseTimeDecay,
        PiecewiseConstantDecay,
        PolynomialDecay,
    )
}


def schedule(name: str, **options: Any) -> LearningRateSchedule:
    """Return a schedule by its name in any spelling, such as cosine_decay or CosineDecay, with its options.

    Raises InputError for an unknown name or option, for a missing option, and for a value out of range.
    """
    kind = find("schedule", name, SCHEDULES)
    fields = kind.__dataclass_fields__
    check_options("the schedule '%s'" % kind.__name__, options, fields)
    try:
        instance: LearningRateSchedule = kind(**options)
    except TypeError as error:
        raise InputError("the schedule '%s' lacks an option: %s" % (kind.__name__, error)) from error
    return instance
