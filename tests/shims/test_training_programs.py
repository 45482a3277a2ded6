"""Losses with derivatives, and steps of optimizers, as programs of the shim under test, beside the reference."""

from typing import Any, Dict, Tuple

import numpy as np
import pytest

from matrix.harness.functions import run_with_derivative
from matrix.harness.generators import per_test
from matrix.harness.optimizer_steps import OptimizerRun
from onnx_compat.discovery import selection
from onnx_compat.training.losses import scalar_loss
from onnx_compat.training.optimizers import optimizer
from onnx_compat.training.schedules import CosineDecay, CosineDecayRestarts, PolynomialDecay

RNG = per_test(np.random.RandomState(11))
RTOL, ATOL = 2e-5, 2e-6


@pytest.fixture(scope="module")
def shim(shim_name: str) -> Any:
    return selection.find(shim_name)


def values(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def indices(classes: int, *shape: int) -> np.ndarray:
    return RNG.randint(0, classes, shape).astype(np.int64)


#: Name of the loss -> a function that returns labels, predictions and options.
LOSSES: Dict[str, Any] = {
    "binary_crossentropy": lambda: (indices(2, 5, 3), values(5, 3) * 5, {"from_logits": True, "label_smoothing": 0.1}),
    "categorical_focal_crossentropy": lambda: (
        np.eye(4, dtype=np.float32)[indices(4, 5)], values(5, 4), {"from_logits": True}
    ),
    "circle": lambda: (np.array([0, 1, 0, 2, 1]), values(5, 3) / 3, {}),
    "cosine_similarity": lambda: (values(5, 3), values(5, 3), {}),
    "ctc": lambda: (np.array([[1, 2, 2], [3, 0, 0]]), values(2, 6, 4), {}),
    "hinge": lambda: (indices(2, 5, 3), values(5, 3), {}),
    "huber": lambda: (values(5, 3) * 3, values(5, 3), {}),
    "softmax_cross_entropy": lambda: (indices(4, 5, 2), values(5, 4, 2), {"ignore_index": 1, "weights": [1, 2, 3, 4]}),
    "sparse_categorical_crossentropy": lambda: (
        indices(4, 9), values(9, 4), {"from_logits": True, "ignore_class": 2}
    ),
    "tversky": lambda: (indices(2, 5, 3), RNG.rand(5, 3).astype(np.float32), {"axis": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_losses_and_their_derivatives(name: str, shim: Any) -> None:
    labels, predictions, options = LOSSES[name]()

    def loss(y: Any, x: Any) -> Any:
        return scalar_loss(name, y, x, **options)

    got = run_with_derivative(loss, [labels, predictions], 1, shim)
    expected = run_with_derivative(loss, [labels, predictions], 1)
    for mine, theirs in zip(got, expected):
        np.testing.assert_allclose(mine, theirs, RTOL, ATOL)


OPTIMIZERS: Dict[str, Tuple[Any, Dict[str, Any]]] = {
    "sgd": (None, {"weight_decay": 0.1, "global_clip_norm": 1.0}),
    "nesterov": (PolynomialDecay(0.1, 4, power=0.5, cycle=True), {}),
    "adam": (None, {"amsgrad": True, "accumulate": 2, "loss_scale": "dynamic"}),
    "adamw": (CosineDecay(0.01, 4, warmup_target=0.1, warmup_steps=2), {"clip_norm": 1.0}),
    "adagrad": (None, {}),
    "rmsprop": (None, {"centered": True, "momentum": 0.5}),
    "adadelta": (1.0, {}),
    "adamax": (None, {"clip_value": 0.5}),
    "nadam": (CosineDecayRestarts(0.1, 2), {}),
    "ftrl": (0.1, {"l1_regularization_strength": 0.01}),
    "lion": (None, {}),
    "lamb": (None, {"loss_scale": 64.0}),
    "adafactor": (None, {}),
}


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_steps_of_optimizers(name: str, shim: Any) -> None:
    rate, options = OPTIMIZERS[name]
    parameters = [values(4, 3), values(3)]
    own_optimizer = optimizer(name, rate, **options)
    runs = [OptimizerRun(own_optimizer, parameters, chosen) for chosen in (shim, None)]
    for k in range(5):
        gradients = [values(4, 3), values(3)]
        if k == 3 and "loss_scale" in options and name == "adam":
            gradients[0][1, 2] = np.nan
        for mine, theirs in zip(*(run.step(gradients) for run in runs)):
            np.testing.assert_allclose(mine, theirs, RTOL, ATOL)
    for slot, arrays in runs[0].state.items():
        for mine, theirs in zip(arrays, runs[1].state[slot]):
            assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
            np.testing.assert_allclose(mine, theirs, RTOL, ATOL)
