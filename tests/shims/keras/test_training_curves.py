"""Loss curves of 100 steps beside torch, from the same weights and batches: gradient and expanded, on several shims."""

from typing import Any, Dict, List, Tuple

import numpy as np
import pytest
from onnx_compat_keras.features import back_end

from matrix.harness.training_networks import NETWORKS, Network, batches
from onnx_compat.training import make_trainable, optimizer, prepare_training

STEPS = 100
RTOL = 1e-5
#: Name -> (name and options here, name of the class of torch, its options).
OPTIMIZERS: Dict[str, Tuple[str, Dict[str, Any], str, Dict[str, Any]]] = {
    "sgd": ("sgd", {"learning_rate": 0.05}, "SGD", {"lr": 0.05}),
    "momentum": ("momentum", {"learning_rate": 0.01}, "SGD", {"lr": 0.01, "momentum": 0.9}),
    "adam": ("adam", {"epsilon": 1e-8, "bias_corrected_epsilon": True}, "Adam", {"lr": 1e-3}),
    "adamw": (
        "adamw",
        {"epsilon": 1e-8, "bias_corrected_epsilon": True, "weight_decay": 0.1},
        "AdamW",
        {"lr": 1e-3, "weight_decay": 0.1},
    ),
}


def follow_torch(network: Network, name: str) -> List[float]:
    """Return the losses of the steps in torch."""
    import torch

    torch_class, options = OPTIMIZERS[name][2:]
    weights = {key: torch.tensor(array, requires_grad=True, device="cpu") for key, array in network.weights.items()}
    steps = getattr(torch.optim, torch_class)(list(weights.values()), **options)
    losses = []
    for batch in batches(network, STEPS):
        scores = network.forward(torch, weights, torch.tensor(batch["x"], device="cpu"))
        loss = torch.nn.functional.cross_entropy(scores, torch.tensor(batch["labels"], device="cpu"))
        steps.zero_grad()
        loss.backward()
        steps.step()
        losses.append(float(loss.detach()))
    return losses


if back_end() == "torch":

    @pytest.mark.parametrize("shim", ["reference", "keras", "onnx"])
    @pytest.mark.parametrize("name", sorted(OPTIMIZERS))
    @pytest.mark.parametrize("kind", sorted(NETWORKS))
    def test_the_curve_is_that_of_torch(kind: str, name: str, shim: str) -> None:
        network = NETWORKS[kind]()
        own_name, options = OPTIMIZERS[name][:2]
        form = "expanded" if shim == "onnx" else "gradient"
        training = make_trainable(network.model, "softmax_cross_entropy", optimizer(own_name, **options), form=form)
        trainer = prepare_training(training, shim=shim)
        losses = [trainer.step(batch)["loss"] for batch in batches(network, STEPS)]
        expected = follow_torch(network, name)
        assert len(set(np.round(expected, 4))) > STEPS // 2
        np.testing.assert_allclose(losses, expected, rtol=RTOL)
