"""Convolution, pooling, normalisation and resizing: expected values, symbolic sizes, and recorded programs."""

import numpy as np
import pytest
from channels_last import ChannelsLast
from meanings import apply_operator, meaning, primitives, record_function

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, NeedsKnownError
from onnx_compat.tracing.values import lift

LINE = np.arange(1, 6, dtype=np.float32).reshape(1, 1, 5)


class Node:
    """A stand-in for the Context that operators read. Every output is requested."""

    outputs = 2

    @staticmethod
    def wants(_):
        return True


@pytest.mark.parametrize(
    ("auto_pad", "expected"),
    [("SAME_UPPER", [3, 7, 5]), ("SAME_LOWER", [1, 5, 9]), ("VALID", [3, 7]), ("NOTSET", [3, 7])],
)
def test_automatic_padding(auto_pad, expected):
    w = np.ones((1, 1, 2), np.float32)
    assert apply_operator("Conv", 11, LINE, w, auto_pad=auto_pad, strides=[2]).reshape(-1).tolist() == expected
    run = record_function(lambda x: meaning("Conv", 11)(x, w, auto_pad=auto_pad, strides=[2]), [1, 1, "n"])
    assert run(LINE).reshape(-1).tolist() == expected


def test_average_pool_counts():
    pool = {"kernel_shape": [3], "strides": [2], "pads": [1, 0]}
    assert apply_operator("AveragePool", 7, LINE, **pool).reshape(-1).tolist() == [1.5, 3]
    assert apply_operator("AveragePool", 7, LINE, count_include_pad=1, **pool).reshape(-1).tolist() == [1, 3]
    assert apply_operator("AveragePool", 10, LINE, ceil_mode=1, **pool).reshape(-1).tolist() == [1.5, 3, 4.5]
    run = record_function(lambda x: meaning("AveragePool", 19)(x, ceil_mode=1, **pool), [1, 1, "n"])
    for n in (4, 5, 6):
        known = apply_operator("AveragePool", 19, np.ones((1, 1, n), np.float32), ceil_mode=1, **pool)
        assert run(np.ones((1, 1, n), np.float32)).tolist() == known.tolist()


def test_indices_of_max_pool():
    x = np.array([[[[1, 5, 2], [4, 3, 5]]]], np.float32)
    y, indices = meaning("MaxPool", 12)(Node, x, kernel_shape=[2, 2])
    assert y.value.tolist() == [[[[5, 5]]]]
    assert indices.value.tolist() == [[[[1, 1]]]]
    y, indices = meaning("MaxPool", 12)(Node, x, kernel_shape=[2, 2], storage_order=1)
    assert indices.value.tolist() == [[[[2, 2]]]]


def test_a_window_that_begins_in_the_padding_is_dropped():
    x = np.ones((1, 1, 2), np.float32)
    y, _ = meaning("MaxPool", 12)(Node, x, kernel_shape=[1], strides=[2], ceil_mode=1)
    assert y.shape == (1, 1, 1)


def test_transposed_convolution_to_a_wanted_shape():
    w, bias = np.ones((1, 1, 3), np.float32), np.array([10], np.float32)
    full = apply_operator("ConvTranspose", 11, LINE[:, :, :2], w, strides=[3])
    assert full.reshape(-1).tolist() == [1, 1, 1, 2, 2, 2]
    larger = apply_operator("ConvTranspose", 11, LINE[:, :, :2], w, bias, strides=[3], output_shape=[7])
    assert larger.reshape(-1).tolist() == [11, 11, 11, 12, 12, 12, 10]
    padded = apply_operator("ConvTranspose", 11, LINE[:, :, :2], w, strides=[3], pads=[1, 1], output_padding=[1])
    assert padded.reshape(-1).tolist() == [1, 1, 2, 2, 2]


def test_batch_normalization_is_a_factor_and_a_summand():
    scale, shift, mean, var = ([1.0, 2.0], [0.0, 1.0], [1.0, 0.0], [0.0, 3.0])
    x = np.ones((1, 2, 1, 1), np.float32)

    def normalize(x):
        return meaning("BatchNormalization", 15)(x, scale, shift, mean, var, epsilon=1.0)[0]

    run = record_function(normalize, [1, 2, "h", "w"])
    assert primitives(run) == ["mul", "add"]
    np.testing.assert_allclose(run(x).reshape(-1), [0, 2])


def test_batch_normalization_in_training():
    x = np.array([[1.0], [3.0]], np.float32)
    y, mean, var = meaning("BatchNormalization", 15)(
        x, [1.0], [0.0], [0.0], [1.0], epsilon=0.0, momentum=0.9, training_mode=1
    )
    np.testing.assert_allclose(y.value, [[-1], [1]])
    np.testing.assert_allclose([mean.value, var.value], [[0.2], [1.0]], rtol=1e-6)


def test_group_normalization_scales_groups_and_then_channels():
    x = np.array([[[1.0], [3.0], [5.0], [9.0]]], np.float32)
    by_group = apply_operator("GroupNormalization", 18, x, [1.0, 2.0], [0.0, 1.0], num_groups=2, epsilon=0.0)
    assert by_group.reshape(-1).tolist() == [-1, 1, -1, 3]
    by_channel = apply_operator("GroupNormalization", 21, x, [1.0, 1, 2, 3], [0.0, 0, 0, 1], num_groups=2, epsilon=0.0)
    assert by_channel.reshape(-1).tolist() == [-1, 1, -2, 4]


def test_local_response():
    x = np.array([[[1.0], [2.0], [3.0]]], np.float32)
    result = apply_operator("LRN", 13, x, size=2, alpha=2.0, beta=1.0, bias=0.0)  # the channel itself and the next one
    np.testing.assert_allclose(result.reshape(-1), [1 / 5, 2 / 13, 3 / 9], rtol=1e-6)


RESIZED = [
    (11, {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, [1, 1, 2, 2]),
    (11, {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "floor"}, [1, 1, 2, 2]),
    (13, {"mode": "linear"}, [1, 1.25, 1.75, 2]),
    (13, {"mode": "linear", "coordinate_transformation_mode": "align_corners"}, [1, 4 / 3, 5 / 3, 2]),
    (13, {"mode": "cubic"}, [0.89453125, 1.2265625, 1.7734375, 2.10546875]),
    (13, {"mode": "cubic", "exclude_outside": 1}, [0.86363636, 1.22945205, 1.77054795, 2.13636364]),
]


@pytest.mark.parametrize("opset", [11, 13, 18, 19])
def test_aligned_corners_count_a_length_before_it_is_rounded_down(opset):
    """The expected values are those that onnx recorded: 4 * 0.6 gives a length of 2.4, of which two pixels are computed."""
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    how = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    result = apply_operator("Resize", opset, x, None, np.array([1, 1, 0.6, 0.6], np.float32), **how)
    np.testing.assert_allclose(result, [[[[1, 1 + 3 / 1.4]]]], rtol=1e-6)


@pytest.mark.parametrize(("opset", "how", "expected"), RESIZED)
def test_resize(opset, how, expected):
    x, scales = np.array([[[1.0, 2.0]]], np.float32), np.array([1, 1, 2], np.float32)
    by_scales = apply_operator("Resize", opset, x, None, scales, **how)
    np.testing.assert_allclose(by_scales.reshape(-1), expected, rtol=1e-5)
    by_sizes = apply_operator("Resize", opset, x, None, None, np.array([1, 1, 4]), **how)
    np.testing.assert_allclose(by_sizes.reshape(-1), expected, rtol=1e-5)
    run = record_function(lambda x: meaning("Resize", opset)(x, None, scales, **how), ["n", 1, "w"])
    np.testing.assert_allclose(run(x).reshape(-1), expected, rtol=1e-5)
    doubled = record_function(
        lambda x: meaning("Resize", opset)(x, None, None, lift([x.shape[0], 1, x.shape[2] * 2]), **how), ["n", 1, "w"]
    )
    np.testing.assert_allclose(doubled(x).reshape(-1), expected, rtol=1e-5)


def test_resize_with_a_filter_as_wide_as_it_shrinks():
    x = np.arange(1, 9, dtype=np.float32)
    how = {"mode": "linear", "antialias": 1, "axes": [0]}
    result = apply_operator("Resize", 18, x, None, [0.5], **how)
    np.testing.assert_allclose(result, [1.625, 3.5, 5.5, 7.375], rtol=1e-5)


def test_resize_a_region():
    roi = np.array([0.5, 1.5], np.float32)
    how = {
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 9.0,
        "axes": [0],
        "mode": "linear",
    }
    x = np.array([0.0, 1.0, 2.0], np.float32)
    assert apply_operator("Resize", 18, x, roi, None, np.array([3]), **how).tolist() == [1, 2, 9]


def test_resize_keeps_the_aspect():
    x = np.zeros((2, 4), np.float32)
    sizes = np.array([7, 8])
    assert apply_operator("Resize", 19, x, None, None, sizes, keep_aspect_ratio_policy="not_larger").shape == (4, 8)
    assert apply_operator("Resize", 19, x, None, None, sizes, keep_aspect_ratio_policy="not_smaller").shape == (7, 14)
    with pytest.raises(NeedsKnownError):
        record_function(
            lambda x: meaning("Resize", 19)(x, None, None, sizes, keep_aspect_ratio_policy="not_larger"), ["n", 4]
        )


def test_old_resizes():
    x, scales = np.arange(4, dtype=np.float32), [0.6]
    assert apply_operator("Resize", 10, x, scales).tolist() == [0, 2]
    assert apply_operator("Upsample", 9, x[:2], [2.0]).tolist() == [0, 0, 1, 1]
    image = x.reshape(1, 1, 2, 2)
    assert apply_operator("Upsample", 1, image, height_scale=1.0, width_scale=2.0)[0, 0, 1].tolist() == [2, 2, 3, 3]


def test_a_network_of_images_is_transposed_at_its_ends_only():
    """Operators that exporters write between convolutions keep images channels-last."""
    w, deep = np.ones((4, 3, 3, 3), np.float32), np.ones((4, 4, 1, 1), np.float32)
    stats = [np.ones(4, np.float32)] * 4

    def network(x):
        x = meaning("Conv", 22)(x, w, pads=[1, 1, 1, 1])
        x = meaning("BatchNormalization", 15)(x, *stats)[0]
        y = meaning("HardSwish", 22)(meaning("PRelu", 16)(x, np.ones((4, 1, 1), np.float32)))
        y = meaning("InstanceNormalization", 22)(y, *stats[:2])
        y = meaning("GroupNormalization", 21)(y, *stats[:2], num_groups=2)
        y = meaning("Resize", 19)(y, None, [1.0, 1.0, 2.0, 2.0], mode="linear")
        y = meaning("AveragePool", 22)(y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        y = meaning("LRN", 13)(p.pad(y, [0, 0, 1, 1], [0, 0, 1, 1]), size=3)
        y = meaning("Slice", 13)(y, np.array([1, 1]), np.array([-1, -1]), np.array([2, 3]))
        y = meaning("Concat", 13)(x, y, axis=1)
        y = p.add(*meaning("Split", 18)(Node, y, axis=1, num_outputs=2))
        y = meaning("Conv", 22)(y, deep)
        gate = meaning("Sigmoid", 13)(meaning("GlobalAveragePool", 22)(y))
        return meaning("Flatten", 13)(meaning("GlobalAveragePool", 22)(meaning("Mul", 14)(y, gate)))

    run = record_function(network, ["n", 3, 8, 8], emitter=ChannelsLast())
    assert primitives(run).count("transpose") == 1


def test_gemm_takes_its_factors_into_what_is_known():
    w, bias = np.ones((2, 3), np.float32), np.ones(2, np.float32)
    run = record_function(lambda x: meaning("Gemm", 13)(x, w, bias, alpha=2.0, beta=3.0, transB=1), ["n", 3])
    assert primitives(run) == ["matmul"]
    assert run(np.ones((1, 3), np.float32)).tolist() == [[9, 9]]
    assert apply_operator("Gemm", 7, w, w.T, lift(np.float32(1))).tolist() == [[4, 4], [4, 4]]


@pytest.mark.parametrize("name", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"auto_pad": "SAME"}, "auto_pad is NOTSET, SAME_UPPER.*not 'SAME'"),
        ({"pads": [1] * 6}, "must have 4 entries"),
        ({"pads": [1] * 2}, "must have 4 entries"),
        ({"pads": [1] * 2, "auto_pad": "VALID"}, "must have 4 entries"),
        ({"pads": [0, 0, 0, -1]}, "each of them 0 or more"),
    ],
)
def test_a_padding_that_does_not_fit_the_axes_is_refused(name, attributes, text):
    image = np.ones((1, 1, 3, 3), np.float32)
    shapes = [{}] if name == "Conv" else [{}, {"output_shape": [5, 5]}]
    for more in shapes:
        with pytest.raises(InvalidModelError, match=text):
            meaning(name, 11)(image, image, **attributes, **more)


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
@pytest.mark.parametrize("name", ["MaxPool", "AveragePool", "LpPool"])
def test_a_pool_without_a_spatial_axis_is_refused(name, shape):
    with pytest.raises(InvalidModelError, match="needs a spatial axis"):
        meaning(name, 11)(*([Node] if name == "MaxPool" else []), lift(np.ones(shape, np.float32)), kernel_shape=[])


@pytest.mark.parametrize("output_shape", [[5], [1, 5, 5]])
def test_an_output_shape_that_does_not_fit_the_axes_is_refused(output_shape):
    image = np.ones((1, 1, 3, 3), np.float32)
    with pytest.raises(InvalidModelError, match=r"the output_shape .* must have 2 entries"):
        meaning("ConvTranspose", 11)(image, image, output_shape=output_shape)
