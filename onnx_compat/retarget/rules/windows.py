"""Rules for pooling and for sampling images."""

from typing import List, Optional

from onnx_compat.retarget.edited_node import EditedNode, Inexpressible
from onnx_compat.retarget.steps import keep, register, register_added

_GRID_MODES = {"bilinear": "linear", "bicubic": "cubic"}


def _integer_power(node: EditedNode) -> None:
    """Convert the attribute `p` of an LpPool, if any, to an int. Raises Inexpressible if it is no whole number."""
    power = node.get("p")
    if power is not None:
        if power != int(power):
            raise Inexpressible("its power %r is no integer" % power)
        node.set("p", int(power))


def _float_power(node: EditedNode) -> None:
    if node.has("p"):
        node.set("p", float(node.get("p")))


def _to_new_grid_mode(node: EditedNode) -> None:
    """Rename the mode of a GridSample: "bilinear" -> "linear", "bicubic" -> "cubic". Any other mode stays."""
    mode = node.get("mode")
    if mode in _GRID_MODES:
        node.set("mode", _GRID_MODES[mode])


def _to_old_grid_mode(node: EditedNode) -> None:
    """Rename the mode of a GridSample: "linear" -> "bilinear", "cubic" -> "bicubic". Any other mode stays.

    Raises Inexpressible unless the data has rank 4.
    """
    if node.rank() != 4:
        raise Inexpressible("the other version samples images only")
    old = {new: name for name, new in _GRID_MODES.items()}
    if node.get("mode") in old:
        node.set("mode", old[node.get("mode")])


def _name_old_coordinates(node: EditedNode) -> None:
    """Set `coordinate_transformation_mode` of a RoiAlign to "output_half_pixel", the behaviour before version 16."""
    node.set("coordinate_transformation_mode", "output_half_pixel")


def _drop_coordinates(node: EditedNode) -> None:
    """Drop `coordinate_transformation_mode` of a RoiAlign. Raises Inexpressible unless it is "output_half_pixel"."""
    if node.get("coordinate_transformation_mode", "half_pixel") != "output_half_pixel":
        raise Inexpressible("the other version shifts the coordinates by half a pixel")
    node.drop("coordinate_transformation_mode")


def _require_whole_windows(node: EditedNode) -> None:
    """Make a pool with `ceil_mode` independent of whether a last window that begins in the padding counts.

    Before version 22, such a window counts in the sizes that onnx infers, but not in those that runtimes compute.

    - If no known result size depends on it, the node stays.
    - Otherwise, if all sizes are known and rounded down in the result, `ceil_mode` becomes 0.

    Raises Inexpressible in any other case. A node without `ceil_mode`, or with `auto_pad`, stays.
    """
    if not node.get("ceil_mode", 0) or node.get("auto_pad", "NOTSET") != "NOTSET":
        return
    shape, result = node.fact(0).shape, node.output_shape(0)
    kernel = list(node.get("kernel_shape"))
    rank = len(kernel)
    strides, dilations = (list(node.get(name, [1] * rank)) for name in ("strides", "dilations"))
    pads = list(node.get("pads", [0] * (2 * rank)))
    is_exact = is_whole = True
    for axis in range(rank if shape is not None and result is not None else 0):
        size, declared_size = (shape or ())[axis + 2], (result or ())[axis + 2]
        if size is None or declared_size is None:
            is_whole = False
            continue
        rest = size + pads[axis] + pads[axis + rank] - (kernel[axis] - 1) * dilations[axis] - 1
        is_exact = is_exact and -(-rest // strides[axis]) + 1 == declared_size
        is_whole = is_whole and rest // strides[axis] + 1 == declared_size
    if not is_exact and not is_whole:
        raise Inexpressible("the other version counts a window that begins in the padding")
    if not is_exact:
        node.set("ceil_mode", 0)


def _write_deconvolution_pads(node: EditedNode) -> None:
    """Write the padding that `output_shape` or `auto_pad` of a ConvTranspose implies, if it is odd for any axis.

    Up to version 10, the specification puts the odd element at the other end than from 11 on. `node` gets a caveat if
    a size is not known. The node stays if all padding is even, if any padding is negative, or if the node has
    neither attribute.
    """
    upper, output_shape = node.get("auto_pad", "NOTSET"), node.get("output_shape")
    if output_shape is None and not upper.startswith("SAME"):
        return
    totals = _deconvolution_padding(node, list(output_shape) if output_shape else None)
    if totals is None:
        node.caveats.append("if an axis is padded by an odd number, its specification differs before version 11")
    elif min(totals) >= 0 and any(total % 2 for total in totals):
        smaller = [total // 2 for total in totals]
        larger = [total - half for total, half in zip(totals, smaller)]
        node.drop("auto_pad", "output_shape")
        node.set("pads", smaller + larger if upper == "SAME_UPPER" else larger + smaller)


def _deconvolution_padding(node: EditedNode, output_shape: Optional[List[int]]) -> Optional[List[int]]:
    """Return the total padding of each spatial axis of a ConvTranspose; None if a size is not known.

    The padding is negative if the result is larger than the unpadded result. `output_shape`: the sizes of the result;
    None: those of the data times the strides.
    """
    data, weights = node.fact(0).shape, node.fact(1).shape
    kernel = node.get("kernel_shape", weights[2:] if weights else None)
    if data is None or kernel is None or None in data[2:] or None in list(kernel):
        return None
    rank = len(kernel)
    strides, dilations = (list(node.get(name, [1] * rank)) for name in ("strides", "dilations"))
    extra = list(node.get("output_padding", [0] * rank))
    sizes = [size or 0 for size in data[2:]]
    targets = [size * stride for size, stride in zip(sizes, strides)] if output_shape is None else output_shape[-rank:]
    full = [
        stride * (size - 1) + added + (width - 1) * dilation + 1
        for size, stride, added, width, dilation in zip(sizes, strides, extra, kernel, dilations)
    ]
    return [total - target for total, target in zip(full, targets)]


register("ConvTranspose", 11, keep, _write_deconvolution_pads)
register_added("AveragePool", 7, {"count_include_pad": 0})
register_added("AveragePool", 10, {"ceil_mode": 0})
register_added("AveragePool", 19, {"dilations": ()})
register(("AveragePool", "MaxPool"), 22, keep, _require_whole_windows)
register_added("MaxPool", 8, {"storage_order": 0}, outputs=1)
register_added("MaxPool", 10, {"ceil_mode": 0, "dilations": ()})
register(("LpPool", "GlobalLpPool"), 2, _integer_power, _float_power)
register_added("LpPool", 18, {"ceil_mode": 0, "dilations": ()})
register("GridSample", 20, _to_new_grid_mode, _to_old_grid_mode)
register("RoiAlign", 16, _name_old_coordinates, _drop_coordinates)
