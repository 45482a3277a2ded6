"""The networks of the zoo: how each is built, its inputs, and its symbolic sizes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Callable, Dict, List, Mapping, Sequence, Union

import torch
from torch import Tensor, nn

from matrix.zoo import sequence, vision
from matrix.zoo.condition import seed

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Input:
    """An input of a network: normal random floats, or random integers from 0 to `below` - 1 if `below` is not 0.

    Each size in `shape` is a number, the name of a size (`batch`), or a multiple of a named size (`length*8`).
    """

    shape: Sequence[object]
    below: int = 0

    def make(self, sizes: Sizes, generator: torch.Generator) -> Tensor:
        """Return a tensor of random values. `sizes`: name of a size -> number."""
        shape = [_size(dim, sizes) for dim in self.shape]
        if self.below:
            return torch.randint(0, self.below, shape, generator=generator)
        return torch.randn(shape, generator=generator)

    def symbolic_axes(self) -> Dict[int, str]:
        """Return axis -> the name in `shape`, for the axes whose size is named."""
        return {axis: dim for axis, dim in enumerate(self.shape) if isinstance(dim, str)}


@dataclass(frozen=True)
class Model:
    """A network of the zoo: a function that builds it, its inputs by name, and the names of its outputs.

    - old_opset: the opset of its export by the script exporter with fixed sizes.
    - full: whether it is a large network, which the suite `zoo-full` has.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Mapping[str, Input]
    outputs: Sequence[str] = ("y",)
    sizes: Mapping[str, Sequence[int]] = field(default_factory=lambda: {"batch": (2, 3)})
    """Name of a size -> its numbers in the data sets. An export with fixed sizes uses the first number."""
    old_opset: int = 11
    unrolled: Sequence[str] = ()
    """The names of sizes that torch.export cannot keep symbolic, because it unrolls recurrent layers over them."""
    full: bool = False

    def fixed_sizes(self) -> Sizes:
        """Return name of a size -> number, for an export with fixed sizes: the first number of each."""
        return {name: values[0] for name, values in self.sizes.items()}

    def grid(self, closed: Sequence[str] = ()) -> List[Sizes]:
        """Return every combination of numbers for the sizes: name of a size -> number. `closed`: names of sizes.

        A size in `closed` has only its first number.
        """
        choices = [values[:1] if name in closed else values for name, values in self.sizes.items()]
        return [dict(zip(self.sizes, values)) for values in product(*choices)]

    def sample(self, sizes: Sizes, salt: str = "") -> Dict[str, Tensor]:
        """Return random inputs by name. The same sizes and salt give the same inputs."""
        generator = seed(self.name + salt + str(sorted(sizes.items())))
        return {name: value.make(sizes, generator) for name, value in self.inputs.items()}


def _size(dim: object, sizes: Sizes) -> int:
    """Return the number for an element of `Input.shape`: a number, a name or a multiple. `sizes`: name -> number."""
    name, _, factor = str(dim).partition("*")
    return (sizes[name] if name in sizes else int(name)) * int(factor or 1)


def _image(size: object) -> Dict[str, Input]:
    return {"x": Input(("batch", 3, size, size))}


def _images() -> List[Model]:
    small, square = _image(32), {"x": Input(("batch", 3, "height*4", "width*4"))}
    spatial = {"batch": (1, 3), "height": (4, 6), "width": (4,)}
    models = [
        Model("residual", lambda: vision.ResNet(vision.Basic, (2, 1), 8, 10), small),
        Model("resnet50", lambda: vision.ResNet(vision.Bottleneck, (1, 2, 1, 1), 8, 10), small),
        Model("mobilenet_v2", lambda: vision.mobilenet_v2(0.25, 10), _image(64)),
        Model("mobilenet_v3", lambda: vision.mobilenet_v3(0.25, 10), _image(64)),
        Model("efficientnet", lambda: vision.efficientnet_b0(0.25, 10), _image(64)),
        Model("grouped", lambda: vision.GroupedNet(8, 4, 10), small, old_opset=13),
        Model("vit", lambda: vision.VisionTransformer(32, 8, 32, 2, 4, 10), small),
    ]
    models += [
        Model("unet_" + up, partial(vision.UNet, (8, 12, 16), up), square, sizes=spatial)
        for up in ("bilinear", "nearest", "transpose")
    ]
    return models


def _recurrent() -> List[Model]:
    def model(
        name: str, kind: type, states: Sequence[str], batch_first: bool = False, **options: Union[int, str]
    ) -> Model:
        layer = dict(input_size=6, hidden_size=5, batch_first=batch_first, **options)
        runs = int(options.get("num_layers", 1)) * (2 if options.get("bidirectional") else 1)
        inputs = {"x": Input(("batch", "length", 6) if batch_first else ("length", "batch", 6))}
        inputs.update((state, Input((runs, "batch", 5))) for state in states)
        outputs = ["y", "last_h", "last_c"][: 3 if kind is nn.LSTM else 2]
        sizes = {"batch": (2, 3), "length": (5, 8)}
        return Model(name, lambda: sequence.Recurrent(kind(**layer), 4), inputs, outputs, sizes, unrolled=("length",))

    return [
        model("lstm", nn.LSTM, ("h", "c"), num_layers=2, bidirectional=True),
        model("lstm_batch_first", nn.LSTM, (), batch_first=True),
        model("gru", nn.GRU, ("h",), num_layers=2, bidirectional=True),
        model("gru_batch_first", nn.GRU, (), batch_first=True),
        model("rnn_tanh", nn.RNN, ("h",), num_layers=2, bidirectional=True),
        model("rnn_relu", nn.RNN, (), batch_first=True, nonlinearity="relu"),
    ]


def _tokens() -> List[Model]:
    text = {"batch": (2, 3), "length": (7, 12)}
    tokens = Input(("batch", "length"), below=50)
    bits = Input(("batch", "length"), below=2)
    return [
        Model(
            "bert",
            lambda: sequence.Bert(50, 16, 32, 2, 4),
            {"tokens": tokens, "mask": bits, "segments": bits},
            ("hidden", "pooled"),
            text,
        ),
        Model("gpt", lambda: sequence.Gpt(50, 16, 32, 2, 4), {"tokens": tokens}, ("logits",), text, old_opset=14),
        Model("gpt_masked", lambda: sequence.MaskedGpt(50, 16, 32, 2, 4), {"tokens": tokens}, ("logits",), text),
        Model(
            "audio",
            lambda: sequence.AudioNet(8, 5),
            {"x": Input(("batch", 1, "length*8"))},
            ("y", "signal"),
            {"batch": (2, 3), "length": (20, 25)},
        ),
    ]


def _full() -> List[Model]:
    image = _image(224)
    sizes = {"batch": (1, 2)}
    models = [
        Model("resnet50", lambda: vision.ResNet(vision.Bottleneck, (3, 4, 6, 3), 64, 1000), image),
        Model("mobilenet_v2", vision.mobilenet_v2, image),
        Model("mobilenet_v3", vision.mobilenet_v3, image),
        Model("efficientnet", vision.efficientnet_b0, image),
        Model("unet_bilinear", lambda: vision.UNet((32, 64, 128, 256), "bilinear"), image),
        Model("unet_transpose", lambda: vision.UNet((32, 64, 128, 256), "transpose"), image),
    ]
    return [replace(model, sizes=sizes, full=True) for model in models]


def catalog() -> List[Model]:
    """Return all networks: small images, recurrent networks, token networks, then the large networks."""
    return [*_images(), *_recurrent(), *_tokens(), *_full()]
