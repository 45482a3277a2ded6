"""Convolutions and pools on torch: its kernels want channels first, ours come channels last.

The permutations around a kernel are views: torch computes in the memory order that it is given, and gives it back.
"""

import itertools
from typing import Any, Callable, Dict, FrozenSet, List, Sequence, Tuple

import numpy as np
import torch
import torch.nn.functional as F

__all__ = ["Windows"]

Pads = Sequence[Tuple[int, int]]
_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
_MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVG_POOL = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def _channels_first(x: Any) -> Any:
    return x.movedim(-1, 1)


def _channels_last(x: Any) -> Any:
    return x.movedim(1, -1)


def _around(x: Any, pads: Pads, value: float) -> Any:
    """Padding of the spatial axes of an image with channels first."""
    if not any(itertools.chain.from_iterable(pads)):
        return x
    return F.pad(x, [size for pair in reversed(pads) for size in pair], value=value)


class Windows:
    """The windows of `onnx_compat.primitives.linear`."""

    _filters: Dict[Tuple[int, str], Any]
    _lasting: FrozenSet[int] = frozenset()

    def hold(self, held: Dict[int, Any]) -> None:
        if not self._lasting:
            super().hold(held)  # type: ignore[misc]
            self._filters = {}
            self._lasting = frozenset(map(id, held.values()))

    def _filter(self, w: Any, form: str, arrange: Callable[[Any], Any]) -> Any:
        """The filter as torch wants it; arranged once where the weights stay the same."""
        if id(w) not in self._lasting:
            return arrange(w)
        if (id(w), form) not in self._filters:
            self._filters[id(w), form] = arrange(w).contiguous()
        return self._filters[id(w), form]

    def conv(self, x: Any, w: Any, bias: Any = None, *, strides: Any, dilations: Any, pads: Pads, groups: int) -> Any:
        space = tuple(range(w.ndim - 2))
        filters = self._filter(w, "conv", lambda w: w.permute((w.ndim - 1, w.ndim - 2, *space)))
        return self._convolved(x, filters, bias, strides, dilations, pads, groups)

    def depthwise_conv(
        self, x: Any, w: Any, bias: Any = None, *, strides: Any, dilations: Any, pads: Pads, groups: int
    ) -> Any:
        filters = self._filter(w, "depthwise", lambda w: w.movedim(-1, 0))
        return self._convolved(x, filters, bias, strides, dilations, pads, groups)

    def _convolved(self, x: Any, w: Any, bias: Any, strides: Any, dilations: Any, pads: Pads, groups: int) -> Any:
        x = _channels_first(x)
        kernel = _CONV[x.ndim - 2]
        if all(low == high for low, high in pads):
            return _channels_last(kernel(x, w, bias, strides, [low for low, _ in pads], dilations, groups))
        return _channels_last(kernel(_around(x, pads, 0.0), w, bias, strides, 0, dilations, groups))

    def conv_transpose(self, x: Any, w: Any, bias: Any = None, *, strides: Any, dilations: Any, groups: int) -> Any:
        space = tuple(range(w.ndim - 2))
        kernel = _TRANSPOSED[x.ndim - 2]
        filters = self._filter(w, "transposed", lambda w: w.permute((w.ndim - 2, w.ndim - 1, *space)))
        out = kernel(_channels_first(x), filters, bias, strides, 0, 0, groups, dilations)
        return _channels_last(out)

    def upsampled(self, x: Any, factors: Sequence[int], mode: str) -> Any:
        options: Any = {"align_corners": False} if mode == "bilinear" else {}
        scales = [float(factor) for factor in factors]
        return _channels_last(F.interpolate(_channels_first(x), scale_factor=scales, mode=mode, **options))

    def max_pool(self, x: Any, kernel: Any, strides: Any, dilations: Any, pads: Pads) -> Any:
        pool = _MAX_POOL.get(len(kernel))
        if pool is None or not x.is_floating_point():
            least = -np.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
            value = torch.tensor(least, dtype=x.dtype, device=x.device)
            padded = self.surrounded(x, [(0, 0), *pads, (0, 0)], value)  # type: ignore[attr-defined]
            return _combined(torch.maximum, padded, kernel, strides, dilations)
        x = _channels_first(x)
        if all(low == high <= size // 2 for (low, high), size in zip(pads, kernel)):
            return _channels_last(pool(x, kernel, strides, [low for low, _ in pads], dilations))
        return _channels_last(pool(_around(x, pads, -np.inf), kernel, strides, 0, dilations))

    def avg_pool(self, x: Any, kernel: Any, strides: Any, dilations: Any) -> Any:
        pool = _AVG_POOL.get(len(kernel))
        if pool is not None and all(dilation == 1 for dilation in dilations):
            return _channels_last(pool(_channels_first(x), kernel, strides))
        wide = self.wide(x)  # type: ignore[attr-defined]
        total = _combined(torch.add, wide, kernel, strides, dilations)
        return (total / int(np.prod(kernel))).to(x.dtype)


def _combined(combine: Any, x: Any, kernel: Any, strides: Any, dilations: Any) -> Any:
    """Windows are boxes, so that each axis can be combined by itself."""
    for axis, (taps, stride, dilation) in enumerate(zip(kernel, strides, dilations), 1):
        places = max((int(x.shape[axis]) - (taps - 1) * dilation - 1) // stride + 1, 0)
        seen: List[Any] = []
        for tap in range(taps):
            start = tap * dilation
            stop = start + (places - 1) * stride + 1 if places else start
            seen.append(x[(slice(None),) * axis + (slice(start, stop, stride),)])
        total = seen[0]
        for other in seen[1:]:
            total = combine(total, other)
        x = total
    return x
