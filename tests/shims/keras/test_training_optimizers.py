"""Optimizers and learning-rate schedules, compared with Keras 3 and with torch."""

from typing import Any, Dict, List, Sequence, Tuple

import keras
import numpy as np
import pytest
from onnx_compat_keras.features import back_end

from matrix.harness.functions import run_function
from matrix.harness.optimizer_steps import OptimizerRun
from onnx_compat.training import schedules
from onnx_compat.training.optimizers import OPTIMIZERS, optimizer

STEPS = 20
#: After 20 steps in float32, with another order of operations.
RTOL, ATOL = 2e-5, 2e-7
SHAPES = ((4, 3), (3,), (2, 3, 4), ())


def draw(seed: int = 5) -> Tuple[List[np.ndarray], List[List[np.ndarray]]]:
    """Return parameters, and their gradients in each step. Their sizes differ by orders of magnitude."""
    random = np.random.RandomState(seed)
    parameters = [random.standard_normal(shape).astype(np.float32) for shape in SHAPES]
    gradients = [
        [(random.standard_normal(shape) * 10 ** random.uniform(-3, 1)).astype(np.float32) for shape in SHAPES]
        for _ in range(STEPS)
    ]
    return parameters, gradients


def follow(own_optimizer: Any, parameters: Sequence[np.ndarray], gradients: Sequence[Any]) -> List[List[np.ndarray]]:
    """Return the parameters after each step of an optimizer of this library, on the reference."""
    run = OptimizerRun(own_optimizer, parameters)
    return [run.step(step) for step in gradients]


def follow_keras(
    keras_optimizer: Any, parameters: Sequence[np.ndarray], gradients: Sequence[Any]
) -> List[List[np.ndarray]]:
    """Return the parameters after each step of an optimizer of Keras."""
    variables = [keras.Variable(parameter) for parameter in parameters]
    steps = []
    for step in gradients:
        keras_optimizer.apply([keras.ops.convert_to_tensor(gradient) for gradient in step], variables)
        steps.append([keras.ops.convert_to_numpy(variable).copy() for variable in variables])
    return steps


def compare(got: Sequence[Sequence[np.ndarray]], expected: Sequence[Sequence[np.ndarray]]) -> None:
    assert len(got) == len(expected) == STEPS
    for k, (mine, theirs) in enumerate(zip(got, expected)):
        for own_array, array in zip(mine, theirs):
            atol = ATOL * max(1, np.abs(array).max())
            np.testing.assert_allclose(own_array, array, RTOL, atol, err_msg="step %d" % k)


#: Name -> (options here, name of the class of Keras, its options).
CASES: Dict[str, Tuple[Dict[str, Any], str, Dict[str, Any]]] = {
    "sgd": ({}, "SGD", {}),
    "sgd-weight decay": ({"weight_decay": 0.1}, "SGD", {"weight_decay": 0.1}),
    "momentum": ({}, "SGD", {"momentum": 0.9}),
    "nesterov": ({"momentum": 0.8}, "SGD", {"momentum": 0.8, "nesterov": True}),
    "adam": ({}, "Adam", {}),
    "adam-amsgrad": ({"amsgrad": True, "beta_2": 0.9}, "Adam", {"amsgrad": True, "beta_2": 0.9}),
    "adamw": ({}, "AdamW", {}),
    "adagrad": ({}, "Adagrad", {}),
    "rmsprop": ({}, "RMSprop", {}),
    "rmsprop-centered": ({"centered": True, "momentum": 0.7}, "RMSprop", {"centered": True, "momentum": 0.7}),
    "adadelta": ({"learning_rate": 1.0}, "Adadelta", {"learning_rate": 1.0}),
    "adamax": ({}, "Adamax", {}),
    "nadam": ({}, "Nadam", {}),
    "ftrl": ({}, "Ftrl", {}),
    "ftrl-regularized": tuple(
        dict(
            options,
            l1_regularization_strength=0.01,
            l2_regularization_strength=0.02,
            l2_shrinkage_regularization_strength=0.03,
            beta=0.1,
            learning_rate_power=-0.7,
        )
        if isinstance(options, dict)
        else options
        for options in ({}, "Ftrl", {})
    ),  # type: ignore[dict-item]
    "lion": ({}, "Lion", {}),
    "lamb": ({"weight_decay": 0.01}, "Lamb", {"weight_decay": 0.01}),
    "adafactor": ({}, "Adafactor", {}),
    "adam-clip_norm": ({"clip_norm": 0.5}, "Adam", {"clipnorm": 0.5}),
    "sgd-clip_value": ({"clip_value": 0.1}, "SGD", {"clipvalue": 0.1}),
    "sgd-global_clip_norm": ({"global_clip_norm": 0.5}, "SGD", {"global_clipnorm": 0.5}),
    "adam-accumulate": (
        {"accumulate": 3, "clip_norm": 0.5}, "Adam", {"gradient_accumulation_steps": 3, "clipnorm": 0.5}
    ),
    "nadam-accumulate": ({"accumulate": 4}, "Nadam", {"gradient_accumulation_steps": 4}),
    "momentum-loss_scale": ({"loss_scale": 128.0}, "SGD", {"momentum": 0.9, "loss_scale_factor": 128.0}),
}  # fmt: skip


def test_every_optimizer_has_a_case() -> None:
    assert {name.split("-")[0] for name in CASES} == set(OPTIMIZERS)


@pytest.mark.parametrize("name", sorted(CASES))
def test_20_steps_are_those_of_keras(name: str) -> None:
    options, keras_class, keras_options = CASES[name]
    parameters, gradients = draw()
    own_optimizer = optimizer(name.split("-", maxsplit=1)[0], **options)
    expected = follow_keras(getattr(keras.optimizers, keras_class)(**keras_options), parameters, gradients)
    compare(follow(own_optimizer, parameters, gradients), expected)


SCHEDULES: Dict[str, Tuple[str, Dict[str, Any]]] = {
    "exponential": ("ExponentialDecay", {"initial_learning_rate": 0.1, "decay_steps": 7, "decay_rate": 0.5}),
    "staircase": (
        "ExponentialDecay", {"initial_learning_rate": 0.1, "decay_steps": 7, "decay_rate": 0.5, "staircase": True}
    ),
    "piecewise": ("PiecewiseConstantDecay", {"boundaries": [3, 10, 20], "values": [1.0, 0.5, 0.25, 0.1]}),
    "polynomial": ("PolynomialDecay", {"initial_learning_rate": 0.1, "decay_steps": 15, "power": 0.5}),
    "cycle": (
        "PolynomialDecay",
        {"initial_learning_rate": 0.1, "decay_steps": 7, "end_learning_rate": 0.01, "power": 2.0, "cycle": True},
    ),
    "inverse": ("InverseTimeDecay", {"initial_learning_rate": 0.1, "decay_steps": 3, "decay_rate": 0.5}),
    "inverse staircase": (
        "InverseTimeDecay", {"initial_learning_rate": 0.1, "decay_steps": 3, "decay_rate": 0.5, "staircase": True}
    ),
    "cosine": ("CosineDecay", {"initial_learning_rate": 0.1, "decay_steps": 20, "alpha": 0.1}),
    "warm-up": (
        "CosineDecay",
        {"initial_learning_rate": 0.01, "decay_steps": 20, "alpha": 0.1, "warmup_target": 0.3, "warmup_steps": 5},
    ),
    "restarts": (
        "CosineDecayRestarts", {"initial_learning_rate": 0.1, "first_decay_steps": 6, "m_mul": 0.8, "alpha": 0.1}
    ),
    "equal restarts": ("CosineDecayRestarts", {"initial_learning_rate": 0.1, "first_decay_steps": 6, "t_mul": 1.0}),
}  # fmt: skip


def test_every_schedule_has_a_case() -> None:
    assert {keras_class for keras_class, _ in SCHEDULES.values()} | {"ConstantRate"} == set(schedules.SCHEDULES)


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_schedules_are_those_of_keras(name: str) -> None:
    keras_class, options = SCHEDULES[name]
    mine = schedules.schedule(keras_class, **options)
    theirs = getattr(keras.optimizers.schedules, keras_class)(**options)
    for step in range(40):
        (got,) = run_function(mine, [np.array(step, np.int64)])
        assert got.dtype == np.float32
        if name == "restarts" and step in (6, 18):  # there, Keras depends on the rounding of a logarithm
            continue
        expected = keras.ops.convert_to_numpy(theirs(step))
        np.testing.assert_allclose(got, expected, 2e-5, 2e-7, err_msg="step %d" % step)


def test_a_schedule_in_an_optimizer_counts_calls_and_not_updates() -> None:
    parameters, gradients = draw()
    options: Dict[str, Any] = {"initial_learning_rate": 0.1, "decay_steps": 4, "decay_rate": 0.5}
    own_optimizer = optimizer("adam", schedules.ExponentialDecay(**options), accumulate=3, weight_decay=0.1)
    theirs = keras.optimizers.Adam(
        keras.optimizers.schedules.ExponentialDecay(**options), gradient_accumulation_steps=3, weight_decay=0.1
    )
    compare(follow(own_optimizer, parameters, gradients), follow_keras(theirs, parameters, gradients))


def test_a_dynamic_loss_scale_skips_the_steps_that_keras_skips() -> None:
    from onnx_compat.training.loss_scaling import DynamicLossScale

    parameters, gradients = draw()
    scale = 2.0**10
    for k, value in ((3, np.inf), (4, np.nan), (11, -np.inf)):
        gradients[k][2][0, 1, 2] = value
    theirs = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(), initial_scale=scale, dynamic_growth_steps=4)
    own_optimizer = optimizer("adam", loss_scale=DynamicLossScale(scale, 4))
    run = OptimizerRun(own_optimizer, parameters)
    variables = [keras.Variable(parameter) for parameter in parameters]
    scales = []
    for step in gradients:
        theirs.apply([keras.ops.convert_to_tensor(gradient) for gradient in step], variables)
        for mine, variable in zip(run.step(step), variables):
            np.testing.assert_allclose(mine, keras.ops.convert_to_numpy(variable), RTOL, ATOL)
        scales.append(float(run.state["loss_scale"][0]))
        assert scales[-1] == float(keras.ops.convert_to_numpy(theirs.dynamic_scale))
        assert run.state["finite_steps"][0] == int(keras.ops.convert_to_numpy(theirs.step_counter))
    assert run.state["skipped_steps"][0] == 3
    assert len(set(scales)) > 2


#: Name -> (options here, name of the class of torch, its options).
TORCH: Dict[str, Tuple[Dict[str, Any], str, Dict[str, Any]]] = {
    "sgd": ({"learning_rate": 0.1}, "SGD", {"lr": 0.1}),
    "momentum": ({"learning_rate": 0.1}, "SGD", {"lr": 0.1, "momentum": 0.9}),
    "nesterov": ({"learning_rate": 0.1}, "SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "adam": ({"epsilon": 1e-8, "bias_corrected_epsilon": True}, "Adam", {}),
    "adam-epsilon": ({"epsilon": 1e-2, "bias_corrected_epsilon": True}, "Adam", {"eps": 1e-2}),
    "adam-amsgrad": (
        {"epsilon": 1e-2, "amsgrad": True, "bias_corrected_epsilon": True}, "Adam", {"eps": 1e-2, "amsgrad": True}
    ),
    "adamw": (
        {"epsilon": 1e-8, "bias_corrected_epsilon": True, "weight_decay": 0.1}, "AdamW", {"weight_decay": 0.1}
    ),
    "adagrad": (
        {"learning_rate": 0.01, "initial_accumulator_value": 0.0, "epsilon": 1e-10, "epsilon_outside_root": True},
        "Adagrad", {},
    ),
    "rmsprop": (
        {"learning_rate": 0.01, "rho": 0.99, "epsilon": 1e-2, "epsilon_outside_root": True}, "RMSprop", {"eps": 1e-2}
    ),
    "rmsprop-centered": (
        {"learning_rate": 0.01, "rho": 0.9, "epsilon": 1e-2, "epsilon_outside_root": True, "centered": True,
         "momentum": 0.5},
        "RMSprop", {"eps": 1e-2, "alpha": 0.9, "centered": True, "momentum": 0.5},
    ),
    "adadelta": ({"learning_rate": 1.0, "rho": 0.9, "epsilon": 1e-6}, "Adadelta", {}),
}  # fmt: skip

if back_end() == "torch":

    @pytest.mark.parametrize("name", sorted(TORCH))
    def test_20_steps_are_those_of_torch(name: str) -> None:
        import torch

        options, torch_class, torch_options = TORCH[name]
        parameters, gradients = draw()
        variables = [torch.tensor(parameter, requires_grad=True, device="cpu") for parameter in parameters]
        theirs = getattr(torch.optim, torch_class)(variables, **torch_options)
        expected = []
        for step in gradients:
            for variable, gradient in zip(variables, step):
                variable.grad = torch.tensor(gradient, device="cpu")
            theirs.step()
            expected.append([variable.detach().numpy().copy() for variable in variables])
        compare(follow(optimizer(name.split("-", maxsplit=1)[0], **options), parameters, gradients), expected)
