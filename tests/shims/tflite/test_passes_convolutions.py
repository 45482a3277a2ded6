"""Convolutions take the form for which kernels are fast, with the results of the reference."""

from typing import Any, List

import numpy as np
import pytest
from programs import check_program

from matrix.harness.generators import per_test
from onnx_compat import primitives as p
from onnx_compat.ir.window import Window

RANDOM = per_test(np.random.RandomState(0))


def names(*arguments: Any, **named: Any) -> List[str]:
    return [op.builtin for op in check_program(*arguments, **named) if op.builtin != "TRANSPOSE"]


# -- depthwise ---------------------------------------------------------------------------------------------------------------
def depthwise(kernel: Any, stride: int = 1, dilation: int = 1, held: bool = False) -> Any:
    w = RANDOM.standard_normal((6, 1, *kernel)).astype(np.float32)
    bias = RANDOM.standard_normal(6).astype(np.float32)
    pads = [((taps - 1) // 2 * dilation, taps // 2 * dilation) for taps in kernel]

    def convolve(x: Any) -> Any:
        rank = len(kernel)
        window = Window.of(kernel, (stride,) * rank, (dilation,) * rank, pads)
        y = p.conv(x, w, bias, window=window, groups=6)
        return p.relu(y) if held else y

    return convolve


@pytest.mark.parametrize(
    ("kernel", "parts"),
    [
        ((7, 7), 3),
        ((6, 6), 2),
        ((9, 9), 4),
        ((5, 6), 2),
        ((3, 11), 2),
        ((11, 3), 2),
        ((1, 31), 2),
        ((5, 5), 1),
        ((31,), 2),
    ],
)
def test_many_taps_of_a_depthwise_convolution_are_divided(kernel: Any, parts: int) -> None:
    shape = (2, 6, 31) if len(kernel) == 1 else (2, 6, 13, 31)
    result = names(depthwise(kernel), shape)
    assert result.count("DEPTHWISE_CONV_2D") == parts and result.count("ADD") == parts - 1


def test_divided_taps_leave_the_activation_to_the_sum() -> None:
    builtins = [op for op in check_program(depthwise((7, 7), held=True), (1, 6, 9, 9)) if op.builtin != "TRANSPOSE"]
    bounds = [op.options.get("fused_activation_function", "NONE") for op in builtins]
    assert bounds == ["NONE"] * 4 + ["RELU"]


def test_taps_are_divided_for_any_size() -> None:
    assert names(depthwise((7, 7)), (None, 6, None, None), fed=[(2, 6, 3, 12)]).count("DEPTHWISE_CONV_2D") == 3


@pytest.mark.parametrize("how", [{"stride": 2}, {"dilation": 2}])
def test_taps_with_strides_or_dilations_are_not_divided(how: Any) -> None:
    assert names(depthwise((7, 7), **how), (1, 6, 15, 15)).count("DEPTHWISE_CONV_2D") == 1


def test_very_many_taps_are_not_divided() -> None:
    assert names(depthwise((21, 21)), (1, 6, 9, 9)) == ["DEPTHWISE_CONV_2D"]


# -- transposed --------------------------------------------------------------------------------------------------------------
def spread(kernel: Any, strides: Any, filters: int = 5, biased: bool = True, groups: int = 1) -> Any:
    w = RANDOM.standard_normal((4, filters, *kernel)).astype(np.float32)
    bias = RANDOM.standard_normal(filters * groups).astype(np.float32) if biased else None
    return lambda x: p.conv_transpose(x, w, bias, window=Window.of(kernel, strides), groups=groups)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(("size", "filters"), [(2, 5), (3, 1), (4, 2)])
def test_adjacent_windows_become_a_matrix_product(size: int, filters: int, biased: bool) -> None:
    block = spread((size, size), (size, size), filters, biased)
    assert names(block, (2, 4, 3, 5))[:2] == ["CONV_2D", "DEPTH_TO_SPACE"]
    result = names(block, (None, 4, None, None), fed=[(2, 4, 3, 5)])
    assert result[:2] == ["CONV_2D", "DEPTH_TO_SPACE"]  # without arithmetic on sizes before it


def test_computed_weights_and_biases_stay() -> None:
    w = RANDOM.standard_normal((4, 5, 2, 2)).astype(np.float32)

    def block(x: Any, w: Any, bias: Any = None) -> Any:
        return p.conv_transpose(x, w, bias, window=Window.of((2, 2), (2, 2)))

    assert "TRANSPOSE_CONV" in names(lambda x, bias: block(x, w, p.tanh(bias)), (1, 4, 3, 5), (5,))
    assert "TRANSPOSE_CONV" in names(lambda x, w: block(x, p.tanh(w)), (1, 4, 3, 5), (4, 5, 2, 2))

    def wide(x: Any, w: Any, bias: Any = None, groups: int = 6) -> Any:
        return p.conv(x, w, bias, window=Window.of((7, 7), pads=[(3, 3)] * 2), groups=groups)

    shape, filters = (1, 6, 9, 9), (6, 1, 7, 7)
    assert names(lambda x, w: wide(x, p.tanh(w)), shape, filters).count("DEPTHWISE_CONV_2D") == 1
    known = RANDOM.standard_normal(filters).astype(np.float32)
    assert names(lambda x, bias: wide(x, known, p.tanh(bias)), shape, (6,)).count("DEPTHWISE_CONV_2D") == 3
    several = RANDOM.standard_normal((12, 1, 7, 7)).astype(np.float32)  # two filters for each channel
    assert names(lambda x: wide(x, several), shape).count("DEPTHWISE_CONV_2D") == 1


def test_adjacent_windows_along_one_axis_become_rows() -> None:
    assert "TRANSPOSE_CONV" not in names(spread((4,), (4,)), (2, 4, 7))
    assert "TRANSPOSE_CONV" not in names(spread((1, 3), (1, 3)), (2, 4, 1, 7))
    assert "TRANSPOSE_CONV" in names(spread((1, 3), (1, 3)), (2, 4, 2, 7))  # several rows
    assert "TRANSPOSE_CONV" in names(spread((4,), (4,)), (2, 4, None), fed=[(2, 4, 7)])


def test_an_activation_goes_into_the_product() -> None:
    block = spread((2, 2), (2, 2))
    result = check_program(lambda x: p.relu(block(x)), (1, 4, 3, 5))
    assert [op.builtin for op in result] == ["TRANSPOSE", "CONV_2D", "DEPTH_TO_SPACE", "TRANSPOSE"]
    assert result[1].options["fused_activation_function"] == "RELU"

    def both(x: Any) -> Any:
        y = block(x)
        return p.mul(p.relu(y), y)

    assert names(both, (1, 4, 3, 5)) == ["CONV_2D", "DEPTH_TO_SPACE", "RELU", "MUL"]


def test_windows_that_overlap_or_leave_gaps_stay() -> None:
    for kernel, strides in (((3, 3), (2, 2)), ((2, 2), (3, 3)), ((2, 3), (2, 3)), ((1, 1), (1, 1))):
        assert "TRANSPOSE_CONV" in names(spread(kernel, strides), (1, 4, 3, 5))


def test_patches_that_are_convolved_are_no_blocks() -> None:
    w = RANDOM.standard_normal((5, 4, 2, 2)).astype(np.float32)
    patches = names(lambda x: p.conv(x, w, window=Window.of((2, 2), (2, 2))), (1, 4, 4, 6))
    assert patches == ["CONV_2D"]


def test_blocks_of_groups() -> None:
    assert names(spread((2, 2), (2, 2), groups=2), (1, 4, 3, 5)).count("DEPTH_TO_SPACE") == 2


# -- padding -----------------------------------------------------------------------------------------------------------------
FILTER = RANDOM.standard_normal((8, 3, 3, 3)).astype(np.float32)


def stem(x: Any) -> Any:
    return p.conv(x, FILTER, window=Window.of((3, 3), (2, 2), pads=[(1, 1)] * 2))


@pytest.mark.parametrize("shape", [(1, 3, 8, 10), (None, 3, None, None)])
def test_an_image_is_padded_before_its_channels_are_put_last(shape: Any) -> None:
    result = check_program(stem, shape, fed=[(2 if shape[0] is None else 1, 3, 8, 10)])
    assert [op.builtin for op in result][:3] == ["PAD", "TRANSPOSE", "CONV_2D"]


@pytest.mark.parametrize("axis", [0, 1])
def test_padding_of_more_than_the_image_is_not_that_of_a_convolution(axis: int) -> None:
    def convolve(x: Any, taps: int) -> Any:
        w = np.ones((3, x.shape[1], taps, taps), np.float32)
        return p.conv(x, w, window=Window.of((taps, taps)))

    def pad_image(x: Any, *more: int) -> Any:
        return convolve(p.pad(convolve(x, 1), (*more, 1, 1), (0, 0, 1, 1)), 3)

    assert names(lambda x: pad_image(x, 0, 0), (2, 3, 6, 5)) == ["CONV_2D", "CONV_2D"]
    assert "PAD" in names(lambda x: pad_image(x, int(axis == 0), int(axis == 1)), (2, 3, 6, 5))


def test_long_rows_keep_their_padding() -> None:
    result = check_program(stem, (1, 3, 4, 2))
    assert [op.builtin for op in result][:2] == ["TRANSPOSE", "PAD"]


def test_a_padded_tensor_with_other_readers_keeps_its_padding() -> None:
    result = check_program(lambda x: p.concat([stem(p.abs(x)), stem(p.abs(x))], 1), (1, 3, 8, 10))
    assert "PAD" in [op.builtin for op in result]


# -- pools -------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("batch", [2, None])
def test_volumes_are_pooled_by_kernels(batch: Any) -> None:
    window = Window.of((2, 3, 2), (1, 2, 2))
    shape = (batch, 2, 4, 5, 6)
    assert names(lambda x: p.max_pool(x, window), shape, fed=[(2, *shape[1:])]).count("MAX_POOL_2D") == 2
    assert names(lambda x: p.avg_pool(x, window), shape, fed=[(2, *shape[1:])]).count("AVERAGE_POOL_2D") == 2
    open_sizes = (None, 2, None, 5, 6)
    assert "MAX_POOL_2D" not in names(lambda x: p.max_pool(x, window), open_sizes, fed=[(2, *shape[1:])])


def test_a_pool_along_some_of_three_axes_is_one_operator() -> None:
    shape = (1, 4, 6, 4, 4)
    for kernel in ((1, 2, 2), (3, 1, 1)):
        result = names(lambda x, k=kernel: p.avg_pool(x, Window.of(k, k)), shape)
        assert result.count("AVERAGE_POOL_2D") == 1
        result = names(lambda x, k=kernel: p.max_pool(x, Window.of(k, k)), shape)
        assert result.count("MAX_POOL_2D") == 1
    assert "AVERAGE_POOL_2D" not in names(lambda x: p.avg_pool(x, Window.of((1, 1))), (1, 4, 6, 4))
