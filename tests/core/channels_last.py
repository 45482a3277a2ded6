"""An emitter of the reference for images and filters that are stored channels last."""

from typing import Any

import numpy as np

from onnx_compat.reference import Reference


class ChannelsLast(Reference):
    """The reference for images stored channels last, and filters HWIO."""

    layout = "channels_last"
    filter_layout = "HWIO"

    def conv(self, x: Any, w: Any, bias: Any = None, **params: Any) -> Any:
        return _last(super().conv(_first(x), _filters_first(w), bias, **params))

    def depthwise_conv(self, x: Any, w: Any, bias: Any = None, **params: Any) -> Any:
        return _last(super().conv(_first(x), np.moveaxis(w, -1, 0), bias, **params))

    def conv_transpose(self, x: Any, w: Any, bias: Any = None, **params: Any) -> Any:
        return _last(super().conv_transpose(_first(x), _filters_first(w), bias, **params))

    def max_pool(self, x: Any, **params: Any) -> Any:
        return _last(super().max_pool(_first(x), **params))

    def avg_pool(self, x: Any, **params: Any) -> Any:
        return _last(super().avg_pool(_first(x), **params))


def _first(x: Any) -> Any:
    return np.moveaxis(x, -1, 1)


def _last(x: Any) -> Any:
    return np.moveaxis(x, 1, -1)


def _filters_first(w: Any) -> Any:
    return np.moveaxis(np.moveaxis(w, -1, 0), -1, 1)
