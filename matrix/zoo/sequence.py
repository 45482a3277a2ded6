"""Networks over sequences: recurrent networks, transformers over tokens, 1-D convolutions over a waveform."""

from __future__ import annotations

from typing import Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from matrix.zoo.layers import TransformerBlock


class Recurrent(nn.Module):
    """A recurrent layer (RNN, GRU, LSTM), and a linear layer with `classes` outputs on each of its outputs.

    `forward` starts from the states `h` and, for LSTM, `c`, if they are given. It returns the outputs of the linear
    layer, then the last states of `layer`.
    """

    def __init__(self, layer: nn.RNNBase, classes: int) -> None:
        super().__init__()
        self.layer = layer
        self.classify = nn.Linear(layer.hidden_size * (2 if layer.bidirectional else 1), classes)

    def forward(self, x: Tensor, h: Optional[Tensor] = None, c: Optional[Tensor] = None) -> Tuple[Tensor, ...]:
        state = h if c is None else (h, c)
        y, last = self.layer(x) if state is None else self.layer(x, state)
        return (self.classify(y), *(last if isinstance(last, tuple) else (last,)))


class Bert(nn.Module):
    """BERT: token, position and segment embeddings, and transformer blocks with normalisation after each part.

    `longest`: the largest number of tokens. `mask` is 1 for tokens and 0 for padding. `forward` returns the features of
    all tokens, and a linear layer with tanh on those of the first token.
    """

    def __init__(self, vocabulary: int, longest: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(longest, width)
        self.segment = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(TransformerBlock(width, heads, pre=False) for _ in range(depth))
        self.pool = nn.Linear(width, width)

    def forward(self, tokens: Tensor, mask: Tensor, segments: Tensor) -> Tuple[Tensor, Tensor]:
        positions = torch.arange(tokens.shape[1]).unsqueeze(0)
        x = self.norm(self.token(tokens) + self.position(positions) + self.segment(segments))
        added = (1.0 - mask[:, None, None, :].to(x.dtype)) * -10000.0
        for block in self.blocks:
            x = block(x, added)
        return x, torch.tanh(self.pool(x[:, 0]))


class Gpt(nn.Module):
    """GPT: causal transformer blocks over at most `longest` tokens. `forward` returns the logits of each token.

    The output layer uses the weight of the token embedding; its results are divided by the square root of `width`.
    """

    def __init__(self, vocabulary: int, longest: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(torch.randn(longest, width))
        self.blocks = nn.ModuleList(TransformerBlock(width, heads, causal=True, gelu="tanh") for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.token(tokens) + self.position[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.token.weight) / x.shape[-1] ** 0.5


class MaskedGpt(Gpt):
    """GPT with an explicit causal mask that is added to the scores."""

    def __init__(self, vocabulary: int, longest: int, width: int, depth: int, heads: int) -> None:
        super().__init__(vocabulary, longest, width, depth, heads)
        self.blocks = nn.ModuleList(TransformerBlock(width, heads) for _ in range(depth))
        self.register_buffer("mask", torch.triu(torch.full((longest, longest), float("-inf")), 1))

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        x = self.token(tokens) + self.position[:length]
        for block in self.blocks:
            x = block(x, self.mask[:length, :length])
        return functional.linear(self.norm(x), self.token.weight) / x.shape[-1] ** 0.5


class AudioNet(nn.Module):
    """Strided, dilated and gated 1-D convolutions over a waveform. Returns (scores of the classes, a waveform)."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(1, width, 9, 4, 4), nn.BatchNorm1d(width), nn.ELU())
        self.dilated = nn.ModuleList(nn.Conv1d(width, 2 * width, 3, padding=2**i, dilation=2**i) for i in range(3))
        self.norm = nn.GroupNorm(2, width)
        self.pool = nn.MaxPool1d(2)
        self.classify = nn.Linear(2 * width, classes)
        self.rebuild = nn.ConvTranspose1d(width, 1, 8, 8)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        x = self.stem(x)
        for layer in self.dilated:
            x = x + functional.glu(layer(x), 1)
        x = self.pool(self.norm(x))
        summary = torch.cat([x.mean(2), x.amax(2)], 1)
        return self.classify(summary), torch.tanh(self.rebuild(x))
