"""Networks over images, after their papers. Width and depth are arguments, so that small variants run fast."""

from __future__ import annotations

from itertools import pairwise
from typing import List, NamedTuple, Optional, Sequence, Tuple, Type, Union

import torch
from torch import Tensor, nn
from torch.nn import functional

from matrix.zoo.layers import Activation, SqueezeExcite, TransformerBlock, conv


class Basic(nn.Module):
    """Basic block of ResNet: two 3x3 convolutions and a residual."""

    growth = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(inputs, width, 3, stride), conv(width, width, 3, act=None))
        self.skip = nn.Identity() if stride == 1 and inputs == width else conv(inputs, width, 1, stride, act=None)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.skip(x))


class Bottleneck(nn.Module):
    """Bottleneck block of ResNet-50: 1x1, 3x3 and 1x1 convolutions and a residual. With `groups`, the block of ResNeXt."""

    growth = 4

    def __init__(self, inputs: int, width: int, stride: int, groups: int = 1) -> None:
        super().__init__()
        outputs = width * self.growth
        self.body = nn.Sequential(
            conv(inputs, width, 1), conv(width, width, 3, stride, groups), conv(width, outputs, 1, act=None)
        )
        self.skip = nn.Identity() if stride == 1 and inputs == outputs else conv(inputs, outputs, 1, stride, act=None)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.skip(x))


class ResNet(nn.Module):
    """ResNet of Basic or Bottleneck blocks, with `classes` outputs.

    `depths`: the number of blocks in each stage. `width`: the width of the first stage; each later stage doubles it.
    """

    def __init__(
        self, block: Union[Type[Basic], Type[Bottleneck]], depths: Sequence[int], width: int, classes: int
    ) -> None:
        super().__init__()
        parts: List[nn.Module] = [conv(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
        channels = width
        for stage, depth in enumerate(depths):
            for i in range(depth):
                parts.append(block(channels, width << stage, 2 if stage and not i else 1))
                channels = (width << stage) * block.growth
        self.features = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classify = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.features(x))


class Stage(NamedTuple):
    """A stage of MobileNet or EfficientNet: `depth` inverted residual blocks with `outputs` channels.

    `expand`: the hidden channels, as a multiple of the input channels. `stride`: the stride of the first block.
    """

    expand: float
    outputs: int
    depth: int
    stride: int
    kernel: int = 3
    squeeze: float = 0.0
    """Channels between the 1x1 convolutions of squeeze-and-excitation, as a share of the hidden channels; 0: none."""
    act: Activation = nn.ReLU6


class InvertedResidual(nn.Module):
    """Inverted residual block: 1x1 expansion, depthwise convolution, squeeze-and-excitation, and 1x1 projection.

    The expansion is left out if it adds no channels, squeeze-and-excitation if `stage.squeeze` is 0. `gate`: the last
    activation of squeeze-and-excitation. The block has a residual if the shapes of its input and output are equal.
    """

    def __init__(self, inputs: int, stage: Stage, stride: int, gate: Activation) -> None:
        super().__init__()
        hidden = int(inputs * stage.expand)
        parts: List[nn.Module] = [] if hidden == inputs else [conv(inputs, hidden, 1, act=stage.act)]
        parts.append(conv(hidden, hidden, stage.kernel, stride, hidden, stage.act))
        if stage.squeeze:
            act = nn.SiLU if stage.act is nn.SiLU else nn.ReLU
            parts.append(SqueezeExcite(hidden, max(2, int(hidden * stage.squeeze)), act, gate))
        self.body = nn.Sequential(*parts, conv(hidden, stage.outputs, 1, act=None))
        self.residual = stride == 1 and inputs == stage.outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.residual else self.body(x)


class MobileNet(nn.Module):
    """MobileNet v2, MobileNet v3 or EfficientNet: a first convolution, stages of inverted residuals, and a classifier.

    `stem`, `head`: the channels of the first and of the last convolution. `gate`: see `InvertedResidual`.
    """

    def __init__(self, stem: int, stages: Sequence[Stage], head: int, classes: int, gate: Activation = nn.Sigmoid):
        super().__init__()
        parts: List[nn.Module] = [conv(3, stem, 3, 2, act=stages[-1].act)]
        channels = stem
        for stage in stages:
            for i in range(stage.depth):
                parts.append(InvertedResidual(channels, stage, 1 if i else stage.stride, gate))
                channels = stage.outputs
        self.features = nn.Sequential(*parts, conv(channels, head, 1, act=stages[-1].act))
        self.classify = nn.Linear(head, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.features(x).mean((2, 3)))


class UNet(nn.Module):
    """U-Net: an encoder and a decoder with skip connections.

    - widths: the channels of each level, from the full size to the smallest.
    - up: how the decoder enlarges an image: `bilinear` (to the size of the skip), `nearest` (by 2) or `transpose` (by a
      transposed convolution).
    """

    def __init__(self, widths: Sequence[int], up: str, classes: int = 2) -> None:
        super().__init__()
        self.up = up
        steps = list(pairwise(widths))
        self.first = self._double(3, widths[0])
        self.down = nn.ModuleList(self._double(a, b) for a, b in steps)
        self.rise = nn.ModuleList(self._rise(b, a) for a, b in reversed(steps))
        self.join = nn.ModuleList(self._double(2 * a, a) for a, _ in reversed(steps))
        self.last = nn.Conv2d(widths[0], classes, 1)

    @staticmethod
    def _double(inputs: int, outputs: int) -> nn.Sequential:
        """Return two 3x3 convolutions (see `conv`)."""
        return nn.Sequential(conv(inputs, outputs), conv(outputs, outputs))

    def _rise(self, inputs: int, outputs: int) -> nn.Module:
        """Return the layer of the decoder that changes the channels; with `transpose`, it also enlarges the image."""
        return nn.ConvTranspose2d(inputs, outputs, 2, 2) if self.up == "transpose" else conv(inputs, outputs, 1)

    def _larger(self, x: Tensor, skip: Tensor) -> Tensor:
        """Return the image, enlarged by interpolation; with `transpose`, the image itself, which is large already."""
        if self.up == "bilinear":
            return functional.interpolate(x, size=skip.shape[2:], mode="bilinear", align_corners=False)
        return functional.interpolate(x, scale_factor=2.0, mode="nearest") if self.up == "nearest" else x

    def forward(self, x: Tensor) -> Tensor:
        skips = [self.first(x)]
        for down in self.down:
            skips.append(down(functional.max_pool2d(skips[-1], 2)))
        x = skips.pop()
        for rise, join in zip(self.rise, self.join):
            skip = skips.pop()
            x = join(torch.cat([skip, self._larger(rise(x), skip)], 1))
        return self.last(x)


class Shuffle(nn.Module):
    """Channel shuffle of ShuffleNet: exchange channels between groups."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        return x.unflatten(1, (self.groups, -1)).transpose(1, 2).flatten(1, 2)


class GroupedNet(nn.Module):
    """Classifier with many kinds of convolutions: grouped with channel shuffle, depthwise, dilated and asymmetric."""

    def __init__(self, width: int, groups: int, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            conv(3, width, 3, 2),
            Bottleneck(width, width, 1, groups),
            Shuffle(groups),
            conv(4 * width, 2 * width, 1, groups=groups),
            Shuffle(groups),
            conv(2 * width, 4 * width, 3, 2, groups=2 * width),
            nn.Conv2d(4 * width, width, 3, padding=2, dilation=2, groups=groups),
            nn.PReLU(width),
            nn.Conv2d(width, width, (1, 5), padding=(0, 1), stride=(2, 1), groups=width),
            nn.AvgPool2d(3, 1, 1, count_include_pad=False),
            nn.LeakyReLU(0.1),
            nn.AdaptiveAvgPool2d(1),
        )
        self.classify = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return torch.log_softmax(self.classify(self.features(x).flatten(1)), 1)


class VisionTransformer(nn.Module):
    """Vision transformer (ViT): transformer blocks over image patches and a class token.

    `image`, `patch`: the height and width, in pixels, of the image and of a patch.
    """

    def __init__(self, image: int, patch: int, width: int, depth: int, heads: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.position = nn.Parameter(torch.randn(1, 1 + (image // patch) ** 2, width))
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.classify = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.classify(self.norm(self.blocks(x))[:, 0])


def _make_stages(rows: Sequence[Tuple[float, ...]], share: float, act: Optional[Activation] = None) -> List[Stage]:
    """Return the stages for rows of (expand, outputs, depth, stride, kernel, squeeze).

    `share`: a factor of the channels; the depths are scaled by twice `share`, at most by 1. `act`: the activation;
    None: ReLU6.
    """
    stages = []
    for expand, outputs, depth, stride, kernel, squeeze in rows:
        width = max(4, int(outputs * share + 2) // 4 * 4)
        stage_depth = max(1, round(depth * min(1.0, share * 2)))
        stages.append(Stage(expand, width, int(stage_depth), int(stride), int(kernel), squeeze, act or nn.ReLU6))
    return stages


def mobilenet_v2(share: float = 1.0, classes: int = 1000) -> MobileNet:
    """Return MobileNet v2. `share` scales channels and depths."""
    rows = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    return MobileNet(int(32 * share), _make_stages([(*row, 3, 0) for row in rows], share), int(1280 * share), classes)


def mobilenet_v3(share: float = 1.0, classes: int = 1000) -> MobileNet:
    """Return MobileNet v3 (large): squeeze-and-excitation in some stages, ReLU in early and hard-swish in late stages."""
    early = [(1, 16, 1, 1, 3, 0), (4, 24, 2, 2, 3, 0), (3, 40, 3, 2, 5, 0.25)]
    late = [(6, 80, 1, 2, 3, 0), (2.5, 80, 3, 1, 3, 0), (6, 112, 2, 1, 3, 0.25), (6, 160, 3, 2, 5, 0.25)]
    stages = _make_stages(early, share, nn.ReLU) + _make_stages(late, share, nn.Hardswish)
    return MobileNet(int(16 * share), stages, int(960 * share), classes, nn.Hardsigmoid)


def efficientnet_b0(share: float = 1.0, classes: int = 1000) -> MobileNet:
    """Return EfficientNet-B0. `share` scales channels and depths."""
    rows = [
        (1, 16, 1, 1, 3),
        (6, 24, 2, 2, 3),
        (6, 40, 2, 2, 5),
        (6, 80, 3, 2, 3),
        (6, 112, 3, 1, 5),
        (6, 192, 4, 2, 5),
    ]
    rows.append((6, 320, 1, 1, 3))
    squeezed = [(*row, 0.25 if row[0] == 1 else 0.25 / 6) for row in rows]
    return MobileNet(int(32 * share), _make_stages(squeezed, share, nn.SiLU), int(1280 * share), classes)
