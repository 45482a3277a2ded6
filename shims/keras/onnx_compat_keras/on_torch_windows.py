"""Emitter methods for convolutions and pools on torch, whose functions expect channels first; handles are channels last.

The permutations before and after a call are views without a copy: torch computes in the memory order of its input.
"""

import itertools
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Sequence, Tuple

import numpy as np
import torch
import torch.nn.functional as F

from onnx_compat.shim import Window
from onnx_compat_keras.arrays import Arrays
from onnx_compat_keras.framework_types import Pads

__all__ = ["Windows"]

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
_MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVG_POOL = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def _channels_first(x: torch.Tensor) -> torch.Tensor:
    """Return a view with the channels as axis 1. A single channel has the strides of a contiguous tensor.

    torch 2.13 interprets the strides that `movedim` leaves for a single channel as channels last. Its oneDNN then
    computes wrong numbers, if the last axis of the result has size 1 and a stride greater than 1.
    """
    return x.reshape((x.shape[0], 1, *x.shape[1:-1])) if x.shape[-1] == 1 else x.movedim(-1, 1)


def _channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.movedim(1, -1)


def _pad_space(x: torch.Tensor, pads: Pads, value: float) -> torch.Tensor:
    """Pad the spatial axes of a channels-first tensor with `value`; `pads` has (before, after) for each spatial axis.

    If all counts are 0, x itself is returned.
    """
    if not any(itertools.chain.from_iterable(pads)):
        return x
    return F.pad(x, [size for pair in reversed(pads) for size in pair], value=value)


class Windows(Arrays):
    """Emitter methods for the convolutions and pools of `onnx_compat.primitives.linear`, and `upsample`."""

    _filters: Dict[Tuple[int, str], torch.Tensor]
    _lasting: FrozenSet[int] = frozenset()

    def hold(self, held: Dict[int, torch.Tensor]) -> None:
        if not self._lasting:
            super().hold(held)
            self._filters = {}
            self._lasting = frozenset(map(id, held.values()))

    def _filter(self, w: torch.Tensor, form: str, arrange: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """Return `arrange(w)`, the filter in torch's axis order.

        For a weight of the program, the result is a contiguous copy, which is cached by w and `form`. Any other filter
        is arranged at each call. The weights are the tensors of the first call of `hold` that passes any.

        `form`: the kind of convolution, "conv", "depthwise" or "transposed".
        """
        if id(w) not in self._lasting:
            return arrange(w)
        if (id(w), form) not in self._filters:
            self._filters[id(w), form] = arrange(w).contiguous()
        return self._filters[id(w), form]

    def conv(
        self, x: torch.Tensor, w: torch.Tensor, bias: Optional[torch.Tensor] = None, *, window: Window, groups: int
    ) -> torch.Tensor:
        space = tuple(range(w.ndim - 2))
        filters = self._filter(w, "conv", lambda w: w.permute((w.ndim - 1, w.ndim - 2, *space)))
        return _convolve(x, filters, bias, window, groups)

    def depthwise_conv(
        self, x: torch.Tensor, w: torch.Tensor, bias: Optional[torch.Tensor] = None, *, window: Window, groups: int
    ) -> torch.Tensor:
        filters = self._filter(w, "depthwise", lambda w: w.movedim(-1, 0))
        return _convolve(x, filters, bias, window, groups)

    def conv_transpose(
        self, x: torch.Tensor, w: torch.Tensor, bias: Optional[torch.Tensor] = None, *, window: Window, groups: int
    ) -> torch.Tensor:
        space = tuple(range(w.ndim - 2))
        kernel = _TRANSPOSED[x.ndim - 2]
        filters = self._filter(w, "transposed", lambda w: w.permute((w.ndim - 2, w.ndim - 1, *space)))
        out = kernel(_channels_first(x), filters, bias, window.strides, 0, 0, groups, window.dilations)
        return _channels_last(out)

    def upsample(self, x: torch.Tensor, factors: Sequence[int], mode: str) -> torch.Tensor:
        options: Any = {"align_corners": False} if mode == "bilinear" else {}
        scales = [float(factor) for factor in factors]
        return _channels_last(F.interpolate(_channels_first(x), scale_factor=scales, mode=mode, **options))

    def max_pool(self, x: torch.Tensor, window: Window) -> torch.Tensor:
        kernel, strides, dilations, pads = window
        pool = _MAX_POOL.get(len(kernel))
        if pool is None or not x.is_floating_point():
            least = -np.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
            value = torch.tensor(least, dtype=x.dtype, device=x.device)
            padded = self.pad_constant(x, [(0, 0), *pads, (0, 0)], value)
            return _combine_windows(torch.maximum, padded, window)
        x = _channels_first(x)
        if all(low == high <= size // 2 for (low, high), size in zip(pads, kernel)):
            return _channels_last(pool(x, kernel, strides, [low for low, _ in pads], dilations))
        return _channels_last(pool(_pad_space(x, pads, -np.inf), kernel, strides, 0, dilations))

    def avg_pool(self, x: torch.Tensor, window: Window) -> torch.Tensor:
        pool = _AVG_POOL.get(len(window.kernel))
        if pool is not None and not window.is_dilated:
            return _channels_last(pool(_channels_first(x), window.kernel, window.strides))
        wide = self.widen(x)
        total = _combine_windows(torch.add, wide, window)
        return (total / int(np.prod(window.kernel))).to(x.dtype)


def _convolve(
    x: torch.Tensor, w: torch.Tensor, bias: Optional[torch.Tensor], window: Window, groups: int
) -> torch.Tensor:
    """Convolve a channels-last image of one to three spatial axes by a filter in torch's axis order.

    The filter is [output channels, input channels of a group, spatial...]. A bias of None adds nothing. The result is
    channels last.
    """
    x = _channels_first(x)
    kernel, pads = _CONV[x.ndim - 2], window.pads
    if all(low == high for low, high in pads):
        low_pads = [low for low, _ in pads]
        return _channels_last(kernel(x, w, bias, window.strides, low_pads, window.dilations, groups))
    return _channels_last(kernel(_pad_space(x, pads, 0.0), w, bias, window.strides, 0, window.dilations, groups))


def _combine_windows(
    combine: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], x: torch.Tensor, window: Window
) -> torch.Tensor:
    """Reduce each window of the channels-last tensor x by `combine` (maximum or addition). Ignore the window's pads.

    The spatial axes are reduced one after the other. For each axis, the strided slices at the kernel positions are
    combined: a k x k pool takes 2 k slices.
    """
    for axis, (taps, stride, dilation, _) in enumerate(zip(*window), 1):
        count = max((int(x.shape[axis]) - (taps - 1) * dilation - 1) // stride + 1, 0)
        tap_slices: List[torch.Tensor] = []
        for tap in range(taps):
            start = tap * dilation
            stop = start + (count - 1) * stride + 1 if count else start
            tap_slices.append(x[(slice(None),) * axis + (slice(start, stop, stride),)])
        total = tap_slices[0]
        for tap_slice in tap_slices[1:]:
            total = combine(total, tap_slice)
        x = total
    return x
