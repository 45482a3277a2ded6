"""Rules for pooling and for sampling images."""

from typing import List, Optional

from onnx_compat.retarget.draft import Draft, Inexpressible
from onnx_compat.retarget.steps import keep, register, register_added

_GRID_MODES = {"bilinear": "linear", "bicubic": "cubic"}


def _integer_power(draft: Draft) -> None:
    power = draft.get("p")
    if power is not None:
        if power != int(power):
            raise Inexpressible("its power %r is no integer" % power)
        draft.set("p", int(power))


def _float_power(draft: Draft) -> None:
    if draft.has("p"):
        draft.set("p", float(draft.get("p")))


def _to_new_grid_mode(draft: Draft) -> None:
    mode = draft.get("mode")
    if mode in _GRID_MODES:
        draft.set("mode", _GRID_MODES[mode])


def _to_old_grid_mode(draft: Draft) -> None:
    if draft.rank() != 4:
        raise Inexpressible("the other version samples images only")
    old = {new: name for name, new in _GRID_MODES.items()}
    if draft.get("mode") in old:
        draft.set("mode", old[draft.get("mode")])


def _name_old_coordinates(draft: Draft) -> None:
    draft.set("coordinate_transformation_mode", "output_half_pixel")


def _drop_coordinates(draft: Draft) -> None:
    if draft.get("coordinate_transformation_mode", "half_pixel") != "output_half_pixel":
        raise Inexpressible("the other version shifts the coordinates by half a pixel")
    draft.drop("coordinate_transformation_mode")


def _require_whole_windows(draft: Draft) -> None:
    """Before, a last window that begins in the padding counts: onnx infers a larger size than runtimes compute.

    Raises Inexpressible if the result counts such a window, where the sizes are known.
    """
    if not draft.get("ceil_mode", 0) or draft.get("auto_pad", "NOTSET") != "NOTSET":
        return
    shape, result = draft.fact(0).shape, draft.output_shape(0)
    kernel = list(draft.get("kernel_shape"))
    rank = len(kernel)
    strides, dilations = (list(draft.get(name, [1] * rank)) for name in ("strides", "dilations"))
    pads = list(draft.get("pads", [0] * (2 * rank)))
    for axis in range(rank if shape is not None and result is not None else 0):
        size, wanted = (shape or ())[axis + 2], (result or ())[axis + 2]
        if size is None or wanted is None:
            continue
        rest = size + pads[axis] + pads[axis + rank] - (kernel[axis] - 1) * dilations[axis] - 1
        if -(-rest // strides[axis]) + 1 != wanted:
            raise Inexpressible("the other version counts a window that begins in the padding")


def _write_deconvolution_pads(draft: Draft) -> None:
    """Write the padding that `output_shape` or `auto_pad` of a ConvTranspose imply, if an axis is padded by an odd number.

    Up to version 10, the specification puts the odd element at the other end than from 11 on. `draft` gets a caveat if
    a size is not known.
    """
    upper, wanted = draft.get("auto_pad", "NOTSET"), draft.get("output_shape")
    if wanted is None and not upper.startswith("SAME"):
        return
    totals = _deconvolution_padding(draft, list(wanted) if wanted else None)
    if totals is None:
        draft.caveats.append("if an axis is padded by an odd number, its specification differs before version 11")
    elif min(totals) >= 0 and any(total % 2 for total in totals):
        smaller = [total // 2 for total in totals]
        larger = [total - half for total, half in zip(totals, smaller)]
        draft.drop("auto_pad", "output_shape")
        draft.set("pads", smaller + larger if upper == "SAME_UPPER" else larger + smaller)


def _deconvolution_padding(draft: Draft, wanted: Optional[List[int]]) -> Optional[List[int]]:
    """Return by how many elements each axis of a ConvTranspose is padded; None if a size is not known.

    `wanted`: the sizes of the result; None: those of the data times the strides.
    """
    data, weights = draft.fact(0).shape, draft.fact(1).shape
    kernel = draft.get("kernel_shape", weights[2:] if weights else None)
    if data is None or kernel is None or None in data[2:] or None in list(kernel):
        return None
    rank = len(kernel)
    ones, zeros = [1] * rank, [0] * rank
    strides, dilations = (list(draft.get(name, ones)) for name in ("strides", "dilations"))
    extra = list(draft.get("output_padding", zeros))
    sizes = [size or 0 for size in data[2:]]
    targets = [size * stride for size, stride in zip(sizes, strides)] if wanted is None else wanted[-rank:]
    full = [
        stride * (size - 1) + added + (width - 1) * dilation + 1
        for size, stride, added, width, dilation in zip(sizes, strides, extra, kernel, dilations)
    ]
    return [total - target for total, target in zip(full, targets)]


register("ConvTranspose", 11, keep, _write_deconvolution_pads)
register_added("AveragePool", 7, {"count_include_pad": 0})
register_added("AveragePool", 10, {"ceil_mode": 0})
register_added("AveragePool", 19, {"dilations": ()})
register("AveragePool", 19, keep, _require_whole_windows)
register("MaxPool", 22, keep, _require_whole_windows)
register_added("MaxPool", 8, {"storage_order": 0}, outputs=1)
register_added("MaxPool", 10, {"ceil_mode": 0, "dilations": ()})
register(("LpPool", "GlobalLpPool"), 2, _integer_power, _float_power)
register_added("LpPool", 18, {"ceil_mode": 0, "dilations": ()})
register("GridSample", 20, _to_new_grid_mode, _to_old_grid_mode)
register("RoiAlign", 16, _name_old_coordinates, _drop_coordinates)
