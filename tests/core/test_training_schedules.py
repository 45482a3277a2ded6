"""Learning-rate schedules: their formulas, restarts at exact steps, and options that do not fit."""

import math

import numpy as np
import pytest

from matrix.harness.functions import run_function
from onnx_compat.errors import InputError
from onnx_compat.ir.dtypes import float32
from onnx_compat.training import schedules
from onnx_compat.training.schedules import SCHEDULES, schedule


def restarts(step, first, t_mul, m_mul, alpha):
    """Return the rate of CosineDecayRestarts, by walking through its periods."""
    length, height = first, 1.0
    while step >= length:
        step, length, height = step - length, length * t_mul, height * m_mul
    return (1 - alpha) * height * 0.5 * (1 + math.cos(math.pi * step / length)) + alpha


#: Name -> class, options, the rate of a step.
FORMULAS = {
    "constant": ("ConstantRate", {"learning_rate": 0.3}, lambda n: 0.3),
    "exponential": (
        "ExponentialDecay", {"initial_learning_rate": 2, "decay_steps": 4, "decay_rate": 0.3},
        lambda n: 2 * 0.3 ** (n / 4),
    ),
    "staircase": (
        "exponential_decay", {"initial_learning_rate": 2, "decay_steps": 4, "decay_rate": 0.3, "staircase": True},
        lambda n: 2 * 0.3 ** (n // 4),
    ),
    "piecewise": (
        "piecewise_constant_decay", {"boundaries": [2, 5.5], "values": [3, 2, 1]},
        lambda n: 3 if n <= 2 else 2 if n <= 5.5 else 1,
    ),
    "one piece": ("PiecewiseConstantDecay", {"boundaries": [], "values": [3]}, lambda n: 3),
    "polynomial": (
        "PolynomialDecay", {"initial_learning_rate": 2, "decay_steps": 8, "end_learning_rate": 0.5, "power": 3},
        lambda n: 1.5 * (1 - min(n, 8) / 8) ** 3 + 0.5,
    ),
    "cycle": (
        "PolynomialDecay", {"initial_learning_rate": 2, "decay_steps": 8, "end_learning_rate": 0, "cycle": True},
        lambda n: 2 * (1 - n / (8 * max(1, math.ceil(n / 8)))),
    ),
    "inverse": (
        "InverseTimeDecay", {"initial_learning_rate": 2, "decay_steps": 4, "decay_rate": 0.3},
        lambda n: 2 / (1 + 0.3 * n / 4),
    ),
    "inverse staircase": (
        "InverseTimeDecay", {"initial_learning_rate": 2, "decay_steps": 4, "decay_rate": 0.3, "staircase": True},
        lambda n: 2 / (1 + 0.3 * (n // 4)),
    ),
    "cosine": (
        "CosineDecay", {"initial_learning_rate": 2, "decay_steps": 10, "alpha": 0.1},
        lambda n: 2 * (0.9 * 0.5 * (1 + math.cos(math.pi * min(n, 10) / 10)) + 0.1),
    ),
    "warm-up": (
        "CosineDecay", {"initial_learning_rate": 0.5, "decay_steps": 10, "warmup_target": 2, "warmup_steps": 4},
        lambda n: 0.5 + 1.5 * n / 4 if n < 4 else 1 + math.cos(math.pi * min(n - 4, 10) / 10),
    ),
    "warm-up without steps": (
        "CosineDecay", {"initial_learning_rate": 0.5, "decay_steps": 10, "warmup_target": 2},
        lambda n: 1 + math.cos(math.pi * min(n, 10) / 10),
    ),
    "restarts": (
        "CosineDecayRestarts", {"initial_learning_rate": 1, "first_decay_steps": 3, "m_mul": 0.5, "alpha": 0.2},
        lambda n: restarts(n, 3, 2, 0.5, 0.2),
    ),
    "equal restarts": (
        "CosineDecayRestarts", {"initial_learning_rate": 1, "first_decay_steps": 3, "t_mul": 1},
        lambda n: restarts(n, 3, 1, 1, 0),
    ),
    "longer restarts": (
        "CosineDecayRestarts", {"initial_learning_rate": 1, "first_decay_steps": 4, "t_mul": 1.5},
        lambda n: restarts(n, 4, 1.5, 1, 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_schedules_are_their_formulas(name):
    kind, options, formula = FORMULAS[name]
    rate_function = schedule(kind, **options)
    for step in range(24):
        (got,) = run_function(rate_function, [np.array(step, np.int64)])
        assert (got.dtype, got.shape) == (np.float32, ())
        assert got == pytest.approx(formula(step), rel=1e-5, abs=1e-6), step


def test_every_schedule_has_a_formula():
    assert {type(schedule(kind, **options)).__name__ for kind, options, _ in FORMULAS.values()} == set(SCHEDULES)


@pytest.mark.parametrize("first", [1, 3, 10, 1000])
def test_a_restart_is_at_its_step(first):
    """The logarithm of the restart's step is rounded: without care, the rate there is that of the end of a period."""
    rate_function = schedules.CosineDecayRestarts(1.0, first)
    for period in range(10):
        (rate,) = run_function(rate_function, [np.array(first * (2**period - 1), np.int64)])
        assert rate == pytest.approx(1, abs=1e-5), period


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_a_known_step_folds(name):
    kind, options, formula = FORMULAS[name]
    rate = schedule(kind, **options)(5)
    assert (rate.known, rate.dtype) == (True, float32)
    assert float(rate.value) == pytest.approx(formula(5), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_the_repr_makes_the_schedule_again(name):
    kind, options, _ = FORMULAS[name]
    rate_function = schedule(kind, **options)
    assert eval(repr(rate_function), vars(schedules)) == rate_function  # noqa: S307 (the text is the repr of the test's own object)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("cosine", {}, "did you mean 'CosineDecay'"),
        ("CosineDecay", {"initial_learning_rate": 1}, "lacks an option.*decay_steps"),
        ("CosineDecay", {"initial_learning_rate": 1, "decay_step": 1}, "did you mean 'decay_steps'"),
        ("CosineDecay", {"initial_learning_rate": 1, "decay_steps": 0}, r"decay_steps must be a number in \(0, inf\)"),
        (
            "CosineDecay",
            {"initial_learning_rate": math.nan, "decay_steps": 1},
            "initial_learning_rate must be a number",
        ),
        ("CosineDecay", {"initial_learning_rate": "1", "decay_steps": 1}, "initial_learning_rate must be a number"),
        ("CosineDecayRestarts", {"initial_learning_rate": 1, "first_decay_steps": 1, "t_mul": 0.5}, "t_mul must be"),
        ("PiecewiseConstantDecay", {"boundaries": [1], "values": [1]}, "one value more"),
        ("PiecewiseConstantDecay", {"boundaries": [2, 1], "values": [1, 2, 3]}, "ascending"),
        ("PiecewiseConstantDecay", {"boundaries": [1], "values": [1, math.inf]}, "each of values must be a number"),
        ("InverseTimeDecay", {"initial_learning_rate": 1, "decay_steps": 1, "decay_rate": -1}, "decay_rate must be"),
    ],
)
def test_options_that_do_not_fit_are_refused(name, options, message):
    with pytest.raises(InputError, match=message):
        schedule(name, **options)
