"""Layers that several networks share: convolution with normalisation, squeeze-and-excitation, the transformer block."""

from __future__ import annotations

import math
from typing import Callable, Optional

import torch
from torch import Tensor, nn
from torch.nn import functional

Activation = Callable[[], nn.Module]


def conv(
    inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: Optional[Activation] = nn.ReLU
) -> nn.Sequential:
    """Return a 2-D convolution with padding kernel // 2 and no bias, then batch normalisation and the activation `act`.

    `act` None: no activation. `inputs`, `outputs`: the numbers of channels.
    """
    parts = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*parts, *([act()] if act else []))


class SqueezeExcite(nn.Module):
    """Squeeze-and-excitation: scale each channel by a weight that two 1x1 convolutions compute from the channel means.

    `squeezed`, `act`: the number of channels and the activation between the convolutions. `gate`: the last activation.
    """

    def __init__(self, channels: int, squeezed: int, act: Activation, gate: Activation) -> None:
        super().__init__()
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, squeezed, 1), act(), nn.Conv2d(squeezed, channels, 1), gate()
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weigh(x)


class SelfAttention(nn.Module):
    """Multi-head self-attention over [batch, length, width].

    `forward` adds `mask`, if it is given, to the scores. With `causal`, PyTorch's fused attention masks later positions
    instead, and `mask` is ignored.
    """

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.project = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        batch, length, width = x.shape
        split = self.project(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = split[0], split[1], split[2]
        if self.causal:
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = query @ key.transpose(-1, -2) / math.sqrt(width // self.heads)
            mixed = torch.softmax(scores if mask is None else scores + mask, dim=-1) @ value
        return self.merge(mixed.transpose(1, 2).reshape(batch, length, width))


class TransformerBlock(nn.Module):
    """Transformer block: self-attention and a feed-forward part, each with a residual.

    - causal: whether a position attends only to itself and to earlier positions.
    - pre: whether layer normalisation comes before each part; else it comes after each residual sum.
    - gelu: the form of GELU, "none" (exact) or "tanh".
    """

    def __init__(self, width: int, heads: int, *, causal: bool = False, pre: bool = True, gelu: str = "none") -> None:
        super().__init__()
        self.pre = pre
        self.attention = SelfAttention(width, heads, causal)
        self.forward_part = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate=gelu), nn.Linear(4 * width, width)
        )
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        if self.pre:
            x = x + self.attention(self.norms[0](x), mask)
            return x + self.forward_part(self.norms[1](x))
        x = self.norms[0](x + self.attention(x, mask))
        return self.norms[1](x + self.forward_part(x))
