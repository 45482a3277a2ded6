"""Train on the shim under test: loss curves beside the reference, and the example with handwritten digits."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from matrix.harness.training_networks import NETWORKS, batches
from onnx_compat.training import make_trainable, optimizer, prepare_training

EXAMPLE = Path(__file__).parents[2] / "examples" / "mnist" / "train.py"
STEPS = 20


@pytest.mark.parametrize("form", ["gradient", "expanded"])
@pytest.mark.parametrize("kind", sorted(NETWORKS))
def test_the_curve_is_that_of_the_reference(kind: str, form: str, shim_name: str) -> None:
    network = NETWORKS[kind]()
    curves = []
    for shim, own_form in (("reference", "gradient"), (shim_name, form)):
        training = make_trainable(network.model, "softmax_cross_entropy", optimizer("adam", 0.01), form=own_form)
        trainer = prepare_training(training, shim=shim)
        curves.append([trainer.step(batch)["loss"] for batch in batches(network, STEPS)])
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-5)


def test_the_example_reaches_its_accuracy(shim_name: str) -> None:
    assert runpy.run_path(str(EXAMPLE))["train"](shim_name, "gradient", 10) >= 0.97
