"""Cases of matrix products, convolutions and pools."""

from typing import Any

import numpy as np

from cases.making import Making, case
from onnx_compat import primitives
from onnx_compat.ir.window import Window


@case("matmul")
def matmul(make: Making) -> Any:
    make.exact = make.dtype.kind in "iu"
    rows, inner, columns = make.size(), make.size(), make.size()
    if make.flavour.shape == "empty":
        rows, inner, columns = make.choose([(0, 2, 3), (2, 0, 3), (2, 3, 0)])
    batch = tuple(make.size() for _ in range(make.number(0, 2)))
    flags = make.note(transpose_x=make.yes(), transpose_y=make.yes())
    left = (inner, rows) if flags["transpose_x"] else (rows, inner)
    right = (columns, inner) if flags["transpose_y"] else (inner, columns)
    values = "plain" if make.dtype.kind == "f" else None
    x = make.feed(make.values(batch + left, values=values))
    y = make.feed_or_fix(make.values(make.narrow(batch) + right, values=values))
    bias = make.perhaps(make.values((columns,), values="plain"))
    return lambda *tensors: primitives.matmul(tensors[x], y(tensors), bias(tensors), **flags)


def _space(make: Making, window: Window) -> Any:
    """Return spatial sizes on which the window fits at least once."""
    return [max(span - low - high, 1) + make.number(0, 4) for span, (low, high) in zip(window.spans, window.pads)]


def _per_axis(make: Making, rank: int, low: int, high: int) -> Any:
    return [make.number(low, high) for _ in range(rank)]


@case("conv depthwise_conv")
def conv(make: Making) -> Any:
    rank = make.choose([2, 2, 1, 3])
    kernel = _per_axis(make, rank, 1, 3)
    strides, dilations = _per_axis(make, rank, 1, 2), _per_axis(make, rank, 1, 2)
    pads = [(make.number(0, 2), make.number(0, 2)) for _ in range(rank)]
    groups = make.number(1, 3) if make.name == "conv" else make.number(2, 4)
    params = make.note(window=Window.of(kernel, strides, dilations, pads), groups=groups)
    inner = make.number(2, 3) if make.name == "conv" else 1
    batch = 0 if make.flavour.shape == "empty" else make.number(1, 2)
    shape = (batch, groups * inner, *_space(make, params["window"]))
    filters = groups * make.number(1, 3)
    x = make.feed(make.values(shape, values="plain"), known=[1])
    w = make.feed_or_fix(make.values((filters, inner, *kernel), values="plain"), known=range(rank + 2))
    bias = make.perhaps(make.values((filters,), values="plain"), known=[0])
    return lambda *tensors: primitives.conv(tensors[x], w(tensors), bias(tensors), **params)


@case("conv_transpose")
def conv_transpose(make: Making) -> Any:
    rank = make.choose([2, 2, 1, 3])
    kernel = _per_axis(make, rank, 1, 3)
    strides, dilations, groups = _per_axis(make, rank, 1, 3), _per_axis(make, rank, 1, 2), make.number(1, 2)
    params = make.note(window=Window.of(kernel, strides, dilations), groups=groups)
    filters = make.number(1, 3)
    batch = 0 if make.flavour.shape == "empty" else make.number(1, 2)
    shape = (batch, groups * make.number(1, 3), *_per_axis(make, rank, 1, 4))
    x = make.feed(make.values(shape, values="plain"), known=[1])
    weights = make.values((shape[1], filters, *kernel), values="plain")
    w = make.feed_or_fix(weights, known=range(rank + 2))
    bias = make.values((groups * filters,), values="plain")
    b = make.perhaps(bias, known=[0])
    return lambda *tensors: primitives.conv_transpose(tensors[x], w(tensors), b(tensors), **params)


@case("max_pool avg_pool")
def pool(make: Making) -> Any:
    rank = make.choose([2, 2, 1, 3])
    kernel = _per_axis(make, rank, 1, 3)
    strides, dilations, pads = _per_axis(make, rank, 1, 3), _per_axis(make, rank, 1, 2), [(0, 0)] * rank
    values = "plain"
    if make.name == "max_pool":
        pads = [(make.number(0, taps - 1), make.number(0, taps - 1)) for taps in kernel]
        values = "extreme"
    params = make.note(window=Window.of(kernel, strides, dilations, pads))
    batch = 0 if make.flavour.shape == "empty" else make.number(1, 2)
    shape = (batch, make.number(1, 3), *_space(make, params["window"]))
    array = make.values(shape, values=values)
    make.exact = make.name == "max_pool"
    make.feed(np.abs(array) * -1 if make.dtype.kind == "f" and make.exact else array, known=[1])
    return lambda x: getattr(primitives, make.name)(x, **params)
