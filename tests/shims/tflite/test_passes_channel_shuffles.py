"""Channel shuffles between convolutions, in the form that exporters write, compared with the reference."""

import tracemalloc
from pathlib import Path
from typing import Any, List, Sequence

import numpy as np
import programs
import pytest
from onnx_compat_tflite import SHIM, features
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.build import build

from matrix.harness.generators import per_test
from onnx_compat import primitives as p
from onnx_compat.ir.window import Window

RANDOM = per_test(np.random.RandomState(0))


def convolve(x: Any, filters: int, groups: int, kernel: int = 1, strides: Sequence[int] = (1, 1)) -> Any:
    w = RANDOM.standard_normal((filters, x.shape[1] // groups, kernel, kernel)).astype(np.float32)
    pads = [(kernel // 2, kernel // 2)] * 2
    bias = RANDOM.standard_normal(filters).astype(np.float32)
    return p.conv(x, w, bias, window=Window.of((kernel, kernel), strides, pads=pads), groups=groups)


def shuffle_channels(x: Any, groups: int) -> Any:
    many, channels, height, width = x.shape
    cut = p.reshape(x, (many, groups, channels // groups, height, width))
    return p.reshape(p.transpose(cut, (0, 2, 1, 3, 4)), (many, channels, height, width))


def unit(x: Any, groups: Sequence[int], channels: int = 16, shuffle: int = 4, stride: int = 1, last: int = 1) -> Any:
    middle = shuffle_channels(p.relu(convolve(x, channels, groups[0])), shuffle)
    middle = convolve(middle, channels, channels, 3, (stride, stride))
    return convolve(middle, 8, groups[1], 1, (last, last))


def check_program(function: Any, shape: Sequence[int], *batch: Any) -> List[fb.OperatorSpec]:
    """Assert that the results equal the reference.

    Return the operators without the TRANSPOSEs of the input and the output.
    """

    def same(x: Any) -> Any:
        RANDOM.seed(0)
        return function(x)

    return programs.check_program(same, [*batch, *shape[len(batch) :]], fed=[shape], atol=1e-4)[1:-1]


def becomes(function: Any, shape: Sequence[int], *names: str, batch: Sequence[Any] = ()) -> None:
    """Assert that the results equal the reference, and, if the runtime has grouped convolutions, that the operators are
    these.
    """
    result = check_program(function, shape, *batch)
    if features.kernels().accepts("CONV_2D", "float32", "grouped"):
        assert [op.builtin for op in result] == list(names)


@pytest.mark.parametrize(("channels", "stride", "last"), [(16, 1, 1), (32, 2, 1), (16, 1, 2), (60, 1, 1)])
def test_a_shuffle_between_groups_becomes_a_reshape(channels: int, stride: int, last: int) -> None:
    """Also with 60 channels: each of the four groups of 15 takes 3 or 4 channels from each group."""
    pad = ["PAD"] if stride == 2 else []
    names = ["CONV_2D", *pad, "DEPTHWISE_CONV_2D", "RESHAPE", "CONV_2D"]
    becomes(lambda x: unit(x, (4, 4), channels, 4, stride, last), (2, 8, 6, 8), *names)


@pytest.mark.parametrize("groups", [(2, 4), (4, 2), (2, 8)])
def test_groups_need_not_be_those_of_the_shuffle(groups: Sequence[int]) -> None:
    names = ["CONV_2D", "DEPTHWISE_CONV_2D", "RESHAPE", "CONV_2D"]
    for batch in ((), ("n",)):
        becomes(lambda x: unit(x, groups, 32, 4), (2, 8, 6, 8), *names, batch=batch)


@pytest.mark.parametrize("groups", [(1, 4), (4, 1), (1, 1)])
def test_a_shuffle_before_an_ungrouped_convolution_is_removed(groups: Sequence[int]) -> None:
    becomes(lambda x: unit(x, groups), (1, 8, 6, 8), "CONV_2D", "DEPTHWISE_CONV_2D", "CONV_2D")


def test_a_shuffle_that_would_leave_many_channels_empty_stays() -> None:
    result = check_program(lambda x: unit(x, (4, 4), 20), (1, 8, 6, 8))
    assert [op.builtin for op in result].count("TRANSPOSE") == 1


def test_a_shuffle_with_other_readers_stays() -> None:
    def both(x: Any) -> Any:
        middle = shuffle_channels(convolve(x, 16, 4), 4)
        return p.concat([convolve(middle, 8, 4), p.exp(middle)], 1)

    assert "TRANSPOSE" in [op.builtin for op in check_program(both, (1, 8, 6, 8))]


@pytest.mark.parametrize(
    ("perm", "shape"), [((0, 3, 2, 1, 4), (4, 6)), ((0, 2, 1, 3, 4), (8, 3)), ((0, 1, 2, 4, 3), (6, 4))]
)
def test_a_permutation_that_moves_pixels_stays(perm: Sequence[int], shape: Sequence[int]) -> None:
    """The transpose exchanges channels with rows, or the reshape changes rows and columns: these are no channel
    shuffles.
    """

    def swap_channels(x: Any) -> Any:
        middle = p.transpose(p.reshape(convolve(x, 16, 4), (1, 4, 4, 4, 6)), perm)
        return convolve(p.reshape(middle, (1, 16, *shape)), 8, 4)

    assert "TRANSPOSE" in [op.builtin for op in check_program(swap_channels, (1, 8, 4, 6))]


@pytest.mark.parametrize(
    "between",
    [
        lambda x: convolve(x, 32, 16, 3),  # two of each channel
        lambda x: p.pad(x, (0, 2, 0, 0), (0, 2, 0, 0)),
        p.tanh,
    ],
)
def test_channelwise_operators_may_lie_between(between: Any) -> None:
    result = check_program(lambda x: convolve(between(shuffle_channels(convolve(x, 16, 4), 4)), 8, 4), (1, 8, 6, 8))
    assert "TRANSPOSE" in [op.builtin for op in result]


def test_the_next_convolution_is_the_last() -> None:
    def several(x: Any) -> Any:
        return convolve(convolve(shuffle_channels(convolve(x, 16, 4), 4), 16, 4), 8, 4)

    becomes(several, (1, 8, 6, 8), "CONV_2D", "RESHAPE", "CONV_2D", "CONV_2D")


def test_a_shuffle_before_larger_windows_stays() -> None:
    result = check_program(lambda x: convolve(shuffle_channels(convolve(x, 16, 4), 4), 8, 4, 3), (1, 8, 6, 8))
    assert "TRANSPOSE" in [op.builtin for op in result]


def test_a_shuffle_of_images_of_any_size_stays() -> None:
    result = check_program(
        lambda x: convolve(shuffle_channels(convolve(x, 16, 4), 4), 8, 4), (1, 8, 6, 8), 1, 8, None, None
    )
    assert "TRANSPOSE" in [op.builtin for op in result]


def test_an_activation_behind_what_is_joined_is_that_of_the_parts() -> None:
    def same(x: Any) -> Any:
        part = convolve(x, 4, 1)
        return p.relu(p.concat([part, part], 1))

    assert [op.builtin for op in check_program(same, (1, 8, 6, 8))] == ["CONV_2D", "CONCATENATION", "RELU"]

    def join(x: Any, read: Any = None) -> Any:
        part, other_part = convolve(x, 4, 1), convolve(x, 6, 1)
        both = p.relu(p.concat([part, other_part], 1))
        return both if read is None else p.concat([both, read(part)], 1)

    assert [op.builtin for op in check_program(join, (1, 8, 6, 8))] == ["CONV_2D", "CONV_2D", "CONCATENATION"]
    recorded_program = build(programs.program(join, (1, 8, 6, 8)), features.kernels()).subgraphs[0]
    parts = [
        recorded_program.tensors[op.outputs[0]].name for op in recorded_program.operators if op.builtin == "CONV_2D"
    ]
    assert all(name.endswith("/bounded") for name in parts)  # what they hold is no value of the model any more
    assert "RELU" in [op.builtin for op in check_program(lambda x: join(x, p.exp), (1, 8, 6, 8))]


def test_replaced_weights_are_released(tmp_path: Path) -> None:
    def network(x: Any) -> Any:
        for _ in range(8):
            x = convolve(convolve(shuffle_channels(convolve(x, 512, 4), 4), 512, 512, 3), 512, 4)
        return x

    tracemalloc.start()
    try:
        SHIM.export(programs.program(network, (1, 512, 4, 4)), str(tmp_path / "m.tflite"), "tflite")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.75 * (tmp_path / "m.tflite").stat().st_size
