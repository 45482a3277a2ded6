"""Grid sampling, regions of interest, deformable convolution and boxes, compared with onnxruntime.

Sizes are static and symbolic.
"""

import sys

import numpy as np
import pytest
from against_onnxruntime import agree, build_model, check

import onnx_compat
from matrix.harness.generators import per_test
from onnx_compat.errors import InvalidModelError, MissingDependencyError

RNG = per_test(np.random.RandomState(7))


def floats(*shape, low=-1.0, high=1.0):
    return RNG.uniform(low, high, shape).astype(np.float32)


# -- GridSample and AffineGrid -----------------------------------------------------------------------------------------
PLANE = floats(2, 3, 5, 4)
VOLUME = floats(2, 2, 3, 5, 4)


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_an_image_under_a_grid(mode, padding_mode, align_corners):
    how = {"padding_mode": padding_mode, "align_corners": align_corners, "domain": ""}
    grid = floats(2, 6, 3, 2, low=-2.5, high=2.5)
    check("GridSample", [PLANE, grid], mode=mode, ai_onnx=20, **how)
    older = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    check("GridSample", [PLANE, grid], mode=older, ai_onnx=16, **how)
    if mode != "cubic":  # onnxruntime has it in the plane only
        check("GridSample", [VOLUME, floats(2, 3, 4, 2, 3, low=-2.5, high=2.5)], mode=mode, ai_onnx=20, **how)


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("extents", [(3, 5), (2, 3, 4)])
def test_an_affine_grid(extents, align_corners):
    rank = len(extents)
    theta, size = floats(2, rank, rank + 1), np.array([2, 3, *extents], np.int64)
    for known in ((), (1,)):
        check("AffineGrid", [theta, size], known=known, align_corners=align_corners, domain="", ai_onnx=20)


# -- DeformConv --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("group", "offset_group", "bias", "masked"),
    [(1, 1, False, False), (2, 1, True, False), (1, 2, False, True), (2, 4, True, True)],
)
def test_a_deformed_convolution(group, offset_group, bias, masked):
    x, w = floats(2, 4, 7, 6), floats(6, 4 // group, 3, 2)
    indices = (4, 3)
    offset = floats(2, offset_group * 12, *indices, low=-3, high=3)
    inputs = [x, w, offset, floats(6) if bias else None, floats(2, offset_group * 6, *indices) if masked else None]
    how = {"group": group, "offset_group": offset_group, "pads": [1, 0, 2, 1], "strides": [2, 2], "dilations": [1, 2]}
    inputs = inputs if masked else inputs[: 4 if bias else 3]
    check("DeformConv", inputs, domain="", ai_onnx=19, **how)


# -- regions of interest -----------------------------------------------------------------------------------------------
IMAGES = floats(3, 2, 9, 12)
BATCH = np.array([2, 0, 1, 1, 0], np.int64)
ROIS = np.array([[0, 0, 11, 8], [2.3, 1.6, 7.9, 6.2], [-4, -3, 5, 20], [5, 5, 5.2, 5.1], [30, 30, 40, 50]], np.float32)


@pytest.mark.parametrize("ratio", [0, 1, 2])
@pytest.mark.parametrize("transformation", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_aligned_regions(mode, transformation, ratio):
    how = {"output_height": 3, "output_width": 2, "sampling_ratio": ratio, "spatial_scale": 0.75, "domain": ""}
    inputs = [IMAGES, ROIS, BATCH]
    check("RoiAlign", inputs, mode=mode, coordinate_transformation_mode=transformation, ai_onnx=16, **how)
    if transformation == "output_half_pixel":
        check("RoiAlign", inputs, mode=mode, ai_onnx=10, **how)


def test_pooled_regions():
    rois = np.concatenate([BATCH.astype(np.float32)[:, None], ROIS], 1)
    for scale in (1.0, 0.5):
        check("MaxRoiPool", [IMAGES, rois], pooled_shape=[3, 4], spatial_scale=scale, domain="", ai_onnx=13)


@pytest.mark.parametrize("number", [-1, 3, 2**31, 2**62, -(2**62), 2**63 - 1])
@pytest.mark.parametrize("known", [(), (2,)])
def test_a_number_of_an_image_that_is_not_there_is_refused(known, number):
    """IMAGES has planes of 108 pixels: 2**62 * 108 is 0 in int64."""
    batch = np.array([0, number, 1, 1, 0], np.int64)
    proto, feed = build_model("RoiAlign", [IMAGES, ROIS, batch], domain="", ai_onnx=16, known=known)
    with pytest.raises(InvalidModelError, match="out of range"):
        onnx_compat.prepare(proto, shim="reference").run(feed)


# -- columns and maxima ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("image", "block", "how"),
    [
        ([5, 6], [2, 3], {"pads": [1, 0, 2, 1]}),
        ([6, 7], [2, 2], {"dilations": [2, 3], "strides": [1, 2]}),
        ([4, 3, 5], [2, 1, 3], {"pads": [0, 1, 1, 1, 0, 0], "strides": [2, 1, 1]}),
    ],
)
def test_columns_become_an_image(image, block, how):
    rank = len(image)
    pads, strides = how.get("pads", [0] * 2 * rank), how.get("strides", [1] * rank)
    dilations = how.get("dilations", [1] * rank)
    counts = [
        (size + pads[k] + pads[rank + k] - (block[k] - 1) * dilations[k] - 1) // strides[k] + 1
        for k, size in enumerate(image)
    ]
    columns = floats(2, 3 * int(np.prod(block)), int(np.prod(counts)))
    inputs = [columns, np.array(image, np.int64), np.array(block, np.int64)]
    for known in ((), (1, 2)):
        check("Col2Im", inputs, known=known, domain="", ai_onnx=18, **how)


def test_max_unpool():
    x = np.array([[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]], np.float32)
    indices = np.array([[[[0, 6], [9, 15]], [[16, 19], [28, 31]]]], np.int64)
    check("MaxUnpool", [x, indices], kernel_shape=[2, 2], strides=[2, 2], domain="", ai_onnx=11)


# -- NonMaxSuppression -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize(("limit", "iou", "score"), [(3, 0.4, 0.3), (100, 0.0, None), (5, 0.9, 0.95), (0, 0.5, 0.1)])
def test_boxes_that_overlap(limit, iou, score, center):
    boxes = floats(2, 30, 4, low=0)
    scores = np.round(floats(2, 3, 30, low=0), 1)  # many are equal
    inputs = [boxes, scores, np.array([limit], np.int64), np.array([iou], np.float32)]
    inputs += [] if score is None else [np.array([score], np.float32)]
    for known in ((), (2, 3, 4)):
        known = [k for k in known if k < len(inputs)]
        check("NonMaxSuppression", inputs, known=known, center_point_box=center, domain="", ai_onnx=11)


def test_boxes_without_a_limit_or_a_threshold():
    boxes, scores = floats(1, 8, 4, low=0), floats(1, 2, 8)
    check("NonMaxSuppression", [boxes, scores], domain="", ai_onnx=10)
    check("NonMaxSuppression", [boxes, scores, np.array([4], np.int64)], domain="", ai_onnx=10)
    check("NonMaxSuppression", [boxes[:, :0], scores[:, :, :0], np.array([4], np.int64)], domain="", ai_onnx=10)


# -- Resize ------------------------------------------------------------------------------------------------------------
TRANSFORMATIONS = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric"]
PICTURE = floats(1, 2, 7, 5)


@pytest.mark.parametrize("transformation", [*TRANSFORMATIONS, "align_corners"])
@pytest.mark.parametrize(
    "how",
    [{"nearest_mode": mode} for mode in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")]
    + [{"mode": "linear"}, {"mode": "linear", "antialias": 1}]
    + [{"mode": "cubic", "cubic_coeff_a": a, "exclude_outside": out} for a in (-0.5, -0.75) for out in (0, 1)]
    + [{"mode": "cubic", "antialias": 1}],
    ids=lambda how: "-".join(str(value) for value in how.values()),
)
def test_every_mode_of_resize(how, transformation):
    how = {**how, "coordinate_transformation_mode": transformation, "domain": "", "ai_onnx": 19}
    for sizes in ([3, 8], [7, 1], [2, 6], [14, 10]):
        agree(*build_model("Resize", [PICTURE, None, None, np.array([1, 2, *sizes])], known=[3], **how), atol=1e-4)
    for scales in ([0.65, 1.7], [2, 3]) if transformation != "align_corners" else ([2, 3],):
        agree(
            *build_model("Resize", [PICTURE, None, np.array([1, 1, *scales], np.float32)], known=[2], **how), atol=1e-4
        )


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_cropped_and_resized(mode):
    how = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 5.0, "mode": mode}
    roi = np.array([0, 0, -0.3, 0.2, 1, 1, 0.7, 0.9], np.float32)
    for known in ((3,), (1, 3)):
        inputs = [PICTURE, roi, None, np.array([1, 2, 4, 8])]
        agree(*build_model("Resize", inputs, known=known, domain="", ai_onnx=19, **how), atol=1e-4)
    inputs = [PICTURE, roi, np.array([1, 1, 0.6, 1.7], np.float32)]
    agree(*build_model("Resize", inputs, known=[2], domain="", ai_onnx=19, **how), atol=1e-4)


def test_a_crop_counts_on_an_axis_that_keeps_its_length():
    """The expected values come from the formula of the specification. onnxruntime does not crop an axis that keeps its
    length.
    """
    x, roi = np.arange(5, dtype=np.float32), np.array([0.5, 1.0], np.float32)
    proto, feed = build_model(
        "Resize",
        [x, roi, np.ones(1, np.float32)],
        known=[1, 2],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        domain="",
        ai_onnx=19,
    )
    result = onnx_compat.prepare(proto, shim="reference").run(feed)[0]
    assert result.tolist() == [2, 2.5, 3, 3.5, 4]


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
def test_the_aspect_ratio_is_kept(policy):
    how = {"axes": [3, 2], "keep_aspect_ratio_policy": policy, "mode": "linear", "domain": "", "ai_onnx": 18}
    for sizes in ([4, 10], [9, 3], [5, 7]):
        agree(*build_model("Resize", [PICTURE, None, None, np.array(sizes)], known=[3], **how), atol=1e-4)


@pytest.mark.parametrize("how", [{}, {"mode": "linear"}, {"mode": "linear", "antialias": 1}], ids=str)
@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
def test_an_empty_axis_stays_empty_and_has_no_ratio(policy, how):
    how = {"axes": [2, 3], "keep_aspect_ratio_policy": policy, "domain": "", "ai_onnx": 18, **how}
    for shape, sizes in (((1, 1, 0, 4), [0, 8]), ((1, 1, 4, 0), [2, 0]), ((1, 1, 0, 0), [0, 0])):
        proto, feed = build_model(
            "Resize", [np.zeros(shape, np.float32), None, None, np.array(sizes)], known=[3], **how
        )
        assert onnx_compat.prepare(proto, shim="reference").run(feed)[0].shape == (1, 1, *sizes)
        if policy == "stretch":  # onnxruntime takes 0 / 0 for a ratio, with results that depend on the order of axes
            agree(proto, feed)
    for after in ([3, 4], [3, 0]):
        x = np.zeros((1, 1, 0, 4), np.float32)
        proto, feed = build_model("Resize", [x, None, None, np.array(after)], known=[3], **how)
        with pytest.raises(InvalidModelError, match="an empty axis stays empty"):
            onnx_compat.prepare(proto, shim="reference", fallback=False)


def test_an_antialiased_axis_may_become_empty():
    how = {"axes": [2], "mode": "linear", "antialias": 1, "domain": "", "ai_onnx": 18}
    proto, feed = build_model("Resize", [PICTURE, None, None, np.array([0])], known=[3], **how)
    assert onnx_compat.prepare(proto, shim="reference", fallback=False).run(feed)[0].shape == (1, 2, 0, 5)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
def test_integers_are_truncated_between_pixels(dtype):
    """The image is enlarged 2 and 4 times: all products and sums are exact, so only the truncation changes numbers."""
    x = RNG.randint(0, 100, (1, 1, 5, 4)).astype(dtype)
    agree(
        *build_model(
            "Resize", [x, None, None, np.array([1, 1, 10, 16])], known=[3], mode="linear", domain="", ai_onnx=19
        )
    )


def test_a_cubic_that_overshoots_stays_in_its_type():
    x = np.array([0, 0, 255, 255], np.uint8)
    how = {"known": [2], "mode": "cubic", "domain": "", "ai_onnx": 19}
    proto, feed = build_model("Resize", [x, None, np.array([2], np.float32)], **how)
    result = onnx_compat.prepare(proto, shim="reference").run(feed)[0].tolist()
    assert result[:3] == [0, 0, 0]
    assert result[-3:] == [255, 255, 255]


@pytest.mark.parametrize(("operator", "opset"), [("Upsample", 9), ("Resize", 10)])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_the_oldest_forms_of_resize(operator, opset, mode):
    for scales in ([1, 1, 2, 3], [1, 1, 1.5, 2.6]) if operator == "Upsample" else ([1, 1, 0.3, 2.6], [1, 1, 1.5, 0.5]):
        inputs = [PICTURE, np.array(scales, np.float32)]
        agree(*build_model(operator, inputs, known=[1], mode=mode, domain="", ai_onnx=opset), atol=1e-4)


# -- ImageDecoder ------------------------------------------------------------------------------------------------------
def decoder(data, **attributes):
    return build_model("ImageDecoder", [np.frombuffer(data, np.uint8)], domain="", ai_onnx=20, **attributes)


@pytest.mark.parametrize("data", [b"", b"no image", b"\x89PNG\r\n\x1a\n and then nothing", b"P6 2 2 255\n12"])
def test_invalid_image_data_gives_an_empty_image(data):
    pytest.importorskip("PIL", minversion="8.0")
    for pixel_format, channels in (("RGB", 3), ("Grayscale", 1)):
        proto, feed = decoder(data, pixel_format=pixel_format)
        result = onnx_compat.prepare(proto, shim="reference").run(feed)[0]
        assert result.shape == (0, 0, channels)
        assert result.dtype == np.uint8


def test_an_image_in_its_smallest_file():
    pytest.importorskip("PIL", minversion="8.0")
    pixels = {"RGB": [[[1, 2, 3], [4, 5, 6]]], "BGR": [[[3, 2, 1], [6, 5, 4]]], "Grayscale": [[[2], [5]]]}
    for pixel_format, expected in pixels.items():
        proto, feed = decoder(b"P6 2 1 255\n\1\2\3\4\5\6", pixel_format=pixel_format)
        assert onnx_compat.prepare(proto, shim="reference").run(feed)[0].tolist() == expected


def test_without_pillow_an_image_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    proto, feed = decoder(b"P6 2 1 255\n\1\2\3\4\5\6")
    with pytest.raises(MissingDependencyError, match=r"onnx-compat\[images\]"):
        onnx_compat.prepare(proto, shim="reference").run(feed)


# -- what there is not -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("GridSample", [PLANE, floats(2, 1, 1, 2)], {"mode": "area"}),
        ("GridSample", [PLANE, floats(2, 1, 1, 2)], {"padding_mode": "wrap"}),
        ("RoiAlign", [IMAGES, ROIS, BATCH], {"mode": "sum"}),
        ("RoiAlign", [IMAGES, ROIS, BATCH], {"coordinate_transformation_mode": "asymmetric"}),
        ("ImageDecoder", [np.zeros(3, np.uint8)], {"pixel_format": "CMYK"}),
    ],
)
def test_an_unknown_attribute_value_is_refused(operator, inputs, attributes):
    proto, feed = build_model(operator, inputs, domain="", ai_onnx=20, **attributes)
    with pytest.raises(InvalidModelError):
        onnx_compat.prepare(proto, shim="reference").run(feed)
