"""Rules for Resize and Upsample."""

from typing import List

from onnx_compat.ir.dtypes import float32
from onnx_compat.retarget.edited_node import EditedNode, Inexpressible
from onnx_compat.retarget.steps import keep, register

_COORDINATES = "coordinate_transformation_mode"
#: The attributes of Resize that have no effect in the forms that opset 10 has.
_UNUSED = (_COORDINATES, "nearest_mode", "cubic_coeff_a", "exclude_outside", "extrapolation_value")


def _scales_of_images(node: EditedNode) -> None:
    """Replace `height_scale` and `width_scale` of an Upsample by `scales` of four axes."""
    node.set("scales", [1.0, 1.0, node.get("height_scale"), node.get("width_scale")])
    node.drop("height_scale", "width_scale")


def _images_of_scales(node: EditedNode) -> None:
    """Replace `scales` of an Upsample by `height_scale` and `width_scale`.

    Raises Inexpressible unless there are four scales, and the first two are 1.
    """
    scales = list(node.get("scales"))
    if len(scales) != 4 or scales[:2] != [1.0, 1.0]:
        raise Inexpressible("the other version resizes images only")
    node.drop("scales")
    node.set("height_scale", scales[2])
    node.set("width_scale", scales[3])


def _scales_to_input(node: EditedNode) -> None:
    scales = node.get("scales")
    node.drop("scales")
    node.add_input(1, "scales", list(scales), float32)


def _scales_to_attribute(node: EditedNode) -> None:
    """Move the second input to the attribute `scales`. Raises Inexpressible if it is not known."""
    scales = [float(scale) for scale in node.array_of(1).reshape(-1)]
    node.drop_input(1)
    node.set("scales", scales)


def _to_resize(node: EditedNode) -> None:
    """Make the Upsample of `node` a Resize of opset 10, which rounds in another way for scales below 1.

    Raises Inexpressible if a known scale is below 1. Scales that are not known count as 1 or more, as the specification
    of Upsample demands.
    """
    value = node.fact(1).value
    if value is not None and (value < 1).any():
        raise Inexpressible("its scales are below 1")
    node.proto.op_type = "Resize"
    node.only_enlarges = True


def _to_upsample(node: EditedNode) -> None:
    """Make the Resize of `node` an Upsample. Raises Inexpressible if a scale is below 1, or if scales are not known."""
    if (node.array_of(1) < 1).any():
        raise Inexpressible("its scales are below 1, and the other version only enlarges")
    node.proto.op_type = "Upsample"


def _name_simple_sampling(node: EditedNode) -> None:
    """Write out how a Resize of opset 10 samples: by asymmetric coordinates, which `nearest` rounds.

    It rounds down, but up where the scale is below 1. Raises Inexpressible for `nearest` if scales are not known, or
    enlarge one axis and shrink another. A former Upsample never shrinks.
    """
    rounding = "floor"
    if node.get("mode", "nearest") == "nearest" and not node.only_enlarges:
        scales = node.array_of(1)
        if (scales < 1).any():
            rounding = "ceil"
            if (scales > 1).any():
                raise Inexpressible("it enlarges one axis and shrinks another")
    scales_name = node.proto.input[1]
    node.set_input(2, scales_name)
    node.add_input(1, "roi", [], float32)
    node.set(_COORDINATES, "asymmetric")
    node.set("nearest_mode", rounding)


def _to_simple_sampling(node: EditedNode) -> None:
    """Write a Resize in the form of opset 10, with only scales, if it samples as that opset does.

    The scales may follow from known sizes. Raises Inexpressible for a mode other than `nearest` and `linear`, for other
    coordinates or another rounding, and if the scales are not known. For `linear`, scales of 1 need no certain
    coordinates.
    """
    mode = node.get("mode", "nearest")
    if mode not in ("nearest", "linear"):
        raise Inexpressible("the other version has no mode '%s'" % mode)
    has_scales = node.has_input(2) and node.fact(2).shape != (0,)
    scales = [float(scale) for scale in node.array_of(2).reshape(-1)] if has_scales else _scales_of_sizes(node)
    coordinates = node.get(_COORDINATES, "half_pixel")
    rounding = node.get("nearest_mode", "round_prefer_floor")
    if mode == "nearest":
        is_whole = all(scale >= 1 and scale == int(scale) for scale in scales)
        # with a whole factor, half pixels rounded to the nearest lie where asymmetric coordinates are rounded down
        is_floor = (coordinates, rounding) == ("asymmetric", "floor") and all(scale >= 1 for scale in scales)
        is_ceil = (coordinates, rounding) == ("asymmetric", "ceil") and all(scale <= 1 for scale in scales)
        is_half = coordinates == "half_pixel" and rounding.startswith("round_prefer") and is_whole
        if not (is_floor or is_ceil or is_half):
            raise Inexpressible("the other version samples other coordinates")
    elif coordinates != "asymmetric" and any(scale != 1 for scale in scales):
        raise Inexpressible("the other version has no coordinates '%s'" % coordinates)
    name = node.proto.input[2] if has_scales else ""
    for index in (3, 2, 1):
        node.drop_input(index)
    node.drop(*_UNUSED)
    if has_scales:
        node.set_input(1, name)
    else:
        node.add_input(1, "scales", scales, float32)


def _scales_of_sizes(node: EditedNode) -> List[float]:
    """Return the scales that give the sizes of a Resize.

    Raises Inexpressible if a size before or after is not known, or if a size after is no multiple of that before.
    """
    sizes, shape = node.integers_of(3), node.fact(0).shape
    if shape is None or any(size is None or not size or target % size for size, target in zip(shape, sizes)):
        raise Inexpressible("its scales do not follow from its sizes")
    return [target / size for size, target in zip(shape, sizes) if size]


def _require_no_old_coordinates(node: EditedNode) -> None:
    """Raise Inexpressible for the coordinates "tf_half_pixel_for_nn"."""
    if node.get(_COORDINATES) == "tf_half_pixel_for_nn":
        raise Inexpressible("the other version has no coordinates 'tf_half_pixel_for_nn'")


def _give_empty_inputs(node: EditedNode) -> None:
    """Add an empty `roi` and empty `scales` if they are absent: before opset 13, they may be empty, but not absent."""
    for index, label in ((1, "roi"), (2, "scales")):
        if not node.has_input(index):
            node.add_input(index, label, [], float32)


def _resize_every_axis(node: EditedNode) -> None:
    """Write a Resize of some `axes` for all axes, and drop `axes`, `antialias` and `keep_aspect_ratio_policy`.

    Raises Inexpressible if `antialias` is set, for another policy than "stretch", and if a value that the new inputs
    depend on is not known.
    """
    node.drop_default("antialias", 0)
    axes = node.get("axes")
    if node.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Inexpressible("the other version does not keep the aspect ratio")
    node.drop("keep_aspect_ratio_policy")
    if axes is None:
        return
    rank = node.rank()
    positions = [axis % rank for axis in axes]
    node.drop("axes")
    if node.get(_COORDINATES) == "tf_crop_and_resize":
        roi = [float(number) for number in node.array_of(1).reshape(-1)]
        full_roi = [0.0] * rank + [1.0] * rank
        for index, axis in enumerate(positions):
            full_roi[axis], full_roi[axis + rank] = roi[index], roi[index + len(positions)]
        node.add_input(1, "roi", full_roi, node.dtype(1))
    if node.has_input(2) and node.fact(2).shape != (0,):
        scales = [1.0] * rank
        for axis, scale in zip(positions, node.array_of(2).reshape(-1)):
            scales[axis] = float(scale)
        node.add_input(2, "scales", scales, float32)
        return
    shape = node.fact(0).shape or ()
    sizes = list(shape)
    for axis, target in zip(positions, node.integers_of(3)):
        sizes[axis] = target
    if any(size is None for size in sizes):
        raise Inexpressible("the sizes of the axes that it keeps are not known")
    node.add_input(3, "sizes", sizes)


def _require_no_symmetry(node: EditedNode) -> None:
    """Raise Inexpressible for the coordinates "half_pixel_symmetric"."""
    if node.get(_COORDINATES) == "half_pixel_symmetric":
        raise Inexpressible("the other version has no coordinates 'half_pixel_symmetric'")


register("Upsample", 7, _scales_of_images, _images_of_scales)
register("Upsample", 9, _scales_to_input, _scales_to_attribute)
register("Upsample", 10, _to_resize)
register("Resize", 10, keep, _to_upsample)
register("Resize", 11, _name_simple_sampling, _to_simple_sampling)
register("Resize", 13, _require_no_old_coordinates, _give_empty_inputs)
register("Resize", 18, keep, _resize_every_axis)
register("Resize", 19, keep, _require_no_symmetry)
