"""Random weights with which activations keep a variance near 1, and batch normalisation fitted to a sample."""

from __future__ import annotations

import zlib
from typing import Callable, Mapping

import torch
from torch import Tensor, nn

_Norms = (nn.BatchNorm1d, nn.BatchNorm2d)


def seed(text: str) -> torch.Generator:
    """Return a random generator whose seed is computed from a text, such as the name of a network.

    So a new network in the catalog changes no other network.
    """
    return torch.Generator().manual_seed(zlib.crc32(text.encode()))


def build_conditioned(name: str, build: Callable[[], nn.Module], sample: Mapping[str, Tensor]) -> nn.Module:
    """Build a network with random weights, fit its batch normalisation to a sample, and return it in eval mode.

    The CRC of `name` seeds the weights and the global generator of torch. `sample`: the inputs of the network by name.
    """
    torch.manual_seed(zlib.crc32(name.encode()))
    network = build()
    with torch.no_grad():
        for part in network.modules():
            if isinstance(part, (nn.Conv1d, nn.Conv2d)):
                nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
            if isinstance(part, (*_Norms, nn.LayerNorm, nn.GroupNorm)):
                nn.init.uniform_(part.weight, 0.6, 1.4)
                nn.init.uniform_(part.bias, -0.3, 0.3)
            if isinstance(part, _Norms):
                part.momentum = None  # the plain mean over the sample
        network.train()
        network(**sample)
    return network.eval()
