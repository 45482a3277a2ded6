"""Dilated convolutions whose taps lie in the padding, with the results of the reference."""

from typing import Any, List, Sequence, Tuple

import numpy as np
import pytest
from onnx_compat_tflite import SHIM, build, features
from onnx_compat_tflite.passes.dilated_convolutions import _Axis
from programs import check_program, program

from matrix.harness.generators import per_test
from onnx_compat import primitives as p
from onnx_compat.ir.window import Window

RANDOM = per_test(np.random.RandomState(0))


def make_dilated(kernel: Sequence[int], dilations: Sequence[int], channels: int = 4, **more: Any) -> Any:
    """Return a convolution with the pads (taps - 1) * dilation, half of them at each end."""
    groups, strides = more.get("groups", 1), more.get("strides", (1,) * len(kernel))
    w = RANDOM.standard_normal((channels, channels // groups, *kernel)).astype(np.float32) / channels
    w.flat[:1] = more.get("first", w.flat[0])
    totals = [(taps - 1) * dilation for taps, dilation in zip(kernel, dilations)]
    window = Window.of(kernel, strides, dilations, [(total // 2, total - total // 2) for total in totals])
    bias = RANDOM.standard_normal(channels).astype(np.float32)

    def convolve(x: Any) -> Any:
        y = p.conv(x, w, bias, window=window, groups=groups)
        return p.relu(y) if more.get("held") else y

    return convolve


def operators(function: Any, *shapes: Any, **more: Any) -> List[Any]:
    return [op for op in check_program(function, *shapes, **more) if op.builtin not in ("TRANSPOSE", "RESHAPE")]


def taps(function: Any, *shapes: Any, **more: Any) -> Tuple[int, ...]:
    """Return the kernel size of the only convolution of a program, and assert that no operator pads or adds."""
    result = operators(function, *shapes, **more)
    (convolution,) = [op for op in result if op.builtin.endswith("CONV_2D")]
    assert not {op.builtin for op in result} & {"PAD", "ADD"}
    (graph,) = build.build(program(function, *shapes), features.kernels()).subgraphs
    return tuple(graph.tensors[convolution.inputs[1]].shape[1:3])


@pytest.mark.parametrize("batch", [1, 2, None])
@pytest.mark.parametrize(
    ("kernel", "dilations", "shape", "kept"),
    [
        ((3, 3), (12, 12), (8, 8), (1, 1)),
        ((3, 3), (8, 8), (8, 8), (1, 1)),
        ((3, 3), (7, 7), (8, 8), (3, 3)),  # a single row reads the image
        ((3, 3), (12, 2), (8, 9), (1, 3)),  # per axis
        ((3, 3), (2, 12), (8, 9), (3, 1)),
        ((5, 5), (3, 6), (6, 8), (3, 3)),
        ((4, 4), (9, 9), (8, 8), (2, 2)),
        ((2, 2), (20, 20), (8, 8), (2, 2)),  # no tap reads the image
        ((7,), (4,), (5,), (1, 3)),
    ],
)
def test_taps_that_read_only_padding_are_dropped(
    batch: Any, kernel: Any, dilations: Any, shape: Any, kept: Any
) -> None:
    sizes = (batch, 4, *shape)
    fed = [(2 if batch is None else batch, 4, *shape)]
    for more in ({}, {"groups": 4}, {"held": True}):
        assert taps(make_dilated(kernel, dilations, **more), sizes, fed=fed) == kept


def test_a_stride_keeps_the_taps_that_some_position_reads() -> None:
    assert taps(make_dilated((3, 3), (9, 9), strides=(1, 1)), (1, 4, 9, 9)) == (1, 1)
    for size, stride, dilation in ((9, 2, 8), (9, 2, 12), (7, 3, 9), (8, 2, 9)):
        check_program(make_dilated((3, 3), (dilation,) * 2, strides=(stride,) * 2), (1, 4, size, size))


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_dropped_taps_read_no_element_and_kept_taps_the_same_elements(stride: int) -> None:
    for size in range(1, 12):
        for count in range(1, 6):
            for dilation in range(1, 13):
                whole = _Axis(size, count, stride, dilation)
                kept = whole.kept_taps()
                shorter = whole._replace(taps=len(kept))
                for tap in range(count):
                    reads = [k * stride - whole.low + tap * dilation for k in range(whole.length)]
                    inside = [k for k, element in enumerate(reads) if 0 <= element < size]
                    assert list(whole.positions(tap)) == inside
                    assert tap in kept or not inside
                    if tap in kept:
                        again = [k * stride - shorter.low + (tap - kept[0]) * dilation for k in range(shorter.length)]
                        assert again == reads


def test_open_images_and_taps_that_are_not_finite_stay() -> None:
    (op,) = operators(make_dilated((3, 3), (12, 12)), (1, 4, None, 8), fed=[(1, 4, 8, 8)])
    assert op.options["dilation_h_factor"] == 12
    x = np.ones((1, 4, 8, 8), np.float32)
    (result,) = SHIM.compile(program(make_dilated((3, 3), (12, 12), first=np.inf), x.shape)).run([x])
    assert np.isnan(result[0, 0]).all() and np.isfinite(result[0, 1:]).all()


def test_filters_that_are_read_twice_are_not_copied() -> None:
    w = RANDOM.standard_normal((4, 4, 3, 3)).astype(np.float32)

    def twice(x: Any) -> Any:
        near, far = (Window.of((3, 3), None, (d, d), [(d, d)] * 2) for d in (1, 12))
        return p.add(p.conv(x, w, window=near), p.conv(x, w, window=far))

    steps = [op.options["dilation_h_factor"] for op in operators(twice, (1, 4, 8, 8)) if op.builtin == "CONV_2D"]
    assert sorted(steps) == [1, 12]


@pytest.mark.parametrize("batch", [2, None])
@pytest.mark.parametrize(
    ("dilations", "shape", "count"),
    [((6, 6), (8, 8), 9), ((12, 6), (8, 8), 3), ((6, 12), (8, 8), 3), ((5, 1), (6, 6), 3), ((6, 4), (8, 9), 9)],
)
def test_taps_are_applied_to_the_pixels_that_they_read(batch: Any, dilations: Any, shape: Any, count: int) -> None:
    sizes, fed = (batch, 96, *shape), [(2, 96, *shape)]
    for held in (False, True):
        result = operators(make_dilated((3, 3), dilations, 96, held=held), sizes, fed=fed)
        builtins = [op.builtin for op in result]
        assert builtins.count("CONV_2D") == count and builtins.count("ADD") == count - 1
        bounds = [op.options.get("fused_activation_function", "NONE") for op in result]
        assert bounds == ["NONE"] * (len(result) - 1) + ["RELU" if held else "NONE"]


@pytest.mark.parametrize(
    ("dilations", "channels", "more"),
    [
        ((6, 6), 4, {}),  # the products that are saved are few
        ((2, 2), 96, {}),  # most products read the image
        ((6, 6), 96, {"groups": 2}),
        ((6, 6), 96, {"first": np.nan}),
    ],
)
def test_other_convolutions_are_not_split(dilations: Any, channels: int, more: Any) -> None:
    model = build.build(
        program(make_dilated((3, 3), dilations, channels, **more), (1, channels, 8, 8)), features.kernels()
    )
    builtins = [op.builtin for op in model.subgraphs[0].operators]
    assert builtins.count("ADD") == 0 and builtins.count("CONV_2D") in (1, 2)
