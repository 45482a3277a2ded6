"""Templates of convolutions and pools, over one to three spatial axes."""

from __future__ import annotations

from typing import Any, Dict, List

from matrix.fuzz.draft import GRID, MOVE, SMOOTH
from matrix.fuzz.draw import Draw
from matrix.fuzz.registry import template
from matrix.fuzz.values import Rejected, Value


def image(draw: Draw) -> Value:
    """Return a value [N, C, one to three spatial axes] of float32 whose number of channels is known.

    Raises Rejected if the draft has no such value.
    """
    return draw.pick(("float32",), [3, 4, 4, 4, 5], where=lambda value: bool(value.dims[1]))


def window(draw: Draw, x: Value, dilated: bool) -> Dict[str, Any]:
    """Return random attributes of a window over x: kernel_shape, and sometimes strides, dilations, pads or auto_pad.

    No window is larger than x. There are never both dilations and auto_pad, or both pads and auto_pad. `dilated`:
    whether there are sometimes dilations.
    """
    smallest = [min(sizes) for sizes in zip(*x.shapes)][2:]
    spatial = x.rank - 2
    kernel = [draw.integer(1, min(3, size)) for size in smallest]
    attributes: Dict[str, Any] = {"kernel_shape": kernel}
    if dilated and draw.chance(0.25):
        attributes["dilations"] = [
            draw.integer(1, 2 if 2 * width - 1 <= size else 1) for width, size in zip(kernel, smallest)
        ]
    if draw.chance(0.4):
        attributes["strides"] = [draw.integer(1, 3) for _ in range(spatial)]
    strides = attributes.get("strides", [1] * spatial)
    # A window that is smaller than its stride would need a negative padding.
    if (
        "dilations" not in attributes
        and draw.chance(0.4)
        and all(size >= stride for size, stride in zip(kernel, strides))
    ):
        attributes["auto_pad"] = draw.choice(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
    elif draw.chance(0.6):
        pads = [draw.integer(0, min(1, size - 1)) for size in kernel]
        ends = pads if draw.chance(0.6) else [draw.integer(0, min(1, size - 1)) for size in kernel]
        attributes["pads"] = [*pads, *ends]
    return attributes


@template("Conv", 7)
def conv(draw: Draw) -> None:
    """Add a Conv, sometimes with groups, depthwise, or with a bias. `window` gives its other attributes.

    Its weights are sometimes an input.
    """
    x = image(draw)
    channels = x.shape[1]
    group = draw.choice([1, 1, 1, channels, *([2] if channels % 2 == 0 else [])])
    outputs = group * draw.integer(1, 3)
    attributes = window(draw, x, dilated=True)
    shape = (outputs, channels // group, *attributes["kernel_shape"])
    inputs = [x, draw.fresh([shape] * draw.shared.worlds, low=-2, high=2)]
    if draw.chance(0.6):
        inputs.append(draw.fresh([(outputs,)] * draw.shared.worlds))
    draw.node("Conv", inputs, GRID, group=group if group != 1 or draw.chance(0.3) else None, **attributes)


@template("ConvTranspose", 2.5)
def conv_transpose(draw: Draw) -> None:
    """Add a ConvTranspose, sometimes with groups, pads, output_padding, dilations or a bias.

    It never has auto_pad or output_shape.
    """
    x = draw.pick(("float32",), [3, 4, 4], where=lambda value: bool(value.dims[1]))
    spatial, channels = x.rank - 2, x.shape[1]
    group = draw.choice([1, 1, 1, *([2] if channels % 2 == 0 else [])])
    kernel = [draw.integer(1, 3) for _ in range(spatial)]
    strides = [draw.integer(1, 2) for _ in range(spatial)]
    attributes: Dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "group": group}
    if draw.chance(0.4):
        attributes["pads"] = [draw.integer(0, min(1, size - 1)) for size in kernel] * 2
    if draw.chance(0.3):
        attributes["output_padding"] = [draw.integer(0, stride - 1) for stride in strides]
    if draw.chance(0.2):
        attributes["dilations"] = [draw.integer(1, 2) for _ in kernel]
    per_group = draw.integer(1, 2)
    inputs = [x, draw.fresh([(channels, per_group, *kernel)] * draw.shared.worlds, low=-2, high=2)]
    if draw.chance(0.5):
        inputs.append(draw.fresh([(per_group * group,)] * draw.shared.worlds))
    draw.node("ConvTranspose", inputs, GRID, **attributes)


@template("MaxPool", 3)
def max_pool(draw: Draw) -> None:
    """Add a MaxPool, sometimes with ceil_mode. `window` gives its other attributes."""
    x = image(draw)
    attributes = window(draw, x, dilated=True)
    if draw.chance(0.2) and "auto_pad" not in attributes:
        _check_ceil(x, attributes)
        attributes["ceil_mode"] = 1
    draw.node("MaxPool", [x], MOVE, **attributes)


@template("AveragePool", 3)
def average_pool(draw: Draw) -> None:
    """Add an AveragePool, sometimes with count_include_pad; from opset 19 on, sometimes with dilations.

    `window` gives its other attributes.
    """
    x = image(draw)
    attributes = window(draw, x, dilated=draw.opset >= 19)
    draw.node("AveragePool", [x], SMOOTH, count_include_pad=draw.choice([None, 0, 1]), **attributes)


def _check_ceil(x: Value, attributes: Dict[str, Any]) -> None:
    """Raise Rejected for a pool with ceil_mode whose last window would begin in the padding, or that has dilations.

    Versions of ONNX differ in whether the output has a window that begins in the padding.
    """
    spatial = x.rank - 2
    kernel: List[int] = attributes["kernel_shape"]
    strides = attributes.get("strides", [1] * spatial)
    pads = attributes.get("pads", [0] * 2 * spatial)
    for shape in x.shapes:
        for k in range(spatial):
            begin, size, end = pads[k], shape[2 + k], pads[k + spatial]
            last = -(-(begin + size + end - kernel[k]) // strides[k])
            if last * strides[k] >= begin + size or "dilations" in attributes:
                raise Rejected("window in the padding")


@template("GlobalAveragePool", 1.5)
def global_pool(draw: Draw) -> None:
    """Add a GlobalAveragePool or a GlobalMaxPool."""
    x = draw.pick(("float32",), [3, 4, 5])
    operator = draw.choice(["GlobalAveragePool", "GlobalMaxPool"])
    draw.node(operator, [x], SMOOTH if "Average" in operator else MOVE)


@template("LpPool", 0.4, 18)
def lp_pool(draw: Draw) -> None:
    """Add an LpPool with windows of size 2, of a value whose elements are above 0.2."""
    x = draw.pick(("float32",), [3, 4], where=lambda value: all((array > 0.2).all() for array in value.arrays))
    draw.node("LpPool", [x], SMOOTH, p=draw.choice([None, 1, 2]), kernel_shape=[2] * (x.rank - 2))
