"""Activations fuse into the operator before them, also through operators that only move data."""

from typing import Any, List

import numpy as np
import pytest
from onnx_compat_tflite import build, features
from onnx_compat_tflite.kernels import Kernels
from programs import check_program, program

from onnx_compat import primitives as p
from onnx_compat.ir.window import Window

SHAPE = (1, 4, 6, 6)
FILTER = np.random.RandomState(0).standard_normal((8, 4, 3, 3)).astype(np.float32)
HERE = features.kernels()


def layer(x: Any, stride: int = 1) -> Any:
    return p.conv(x, FILTER, window=Window.of((3, 3), (stride,) * 2, pads=[(1, 1)] * 2))


def spread(x: Any) -> Any:
    w = FILTER.transpose(1, 0, 2, 3)
    return p.conv_transpose(x, w, window=Window.of((3, 3), (2, 2)))


def bounds(operators: Any) -> List[str]:
    layers = [op for op in operators if op.builtin in ("CONV_2D", "TRANSPOSE_CONV")]
    return [op.options.get("fused_activation_function", "NONE") for op in layers]


def inner(x: Any) -> Any:
    return p.slice(x, [0, 0, 1, 1], [None, None, -1, -1], [1, 1, 1, 1])


MOVES = {
    "slice": inner,
    "stride": lambda x: p.slice(x, [0] * 4, [None] * 4, [1, 1, 2, 2]),
    "reshape": lambda x: p.reshape(x, [2, 144]),
    "transpose": lambda x: p.reshape(p.transpose(x, [0, 2, 1, 3]), [6, 48]),
    "several": lambda x: p.reshape(inner(x), [8, 16]),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=list(MOVES))
@pytest.mark.parametrize("bounded", [p.relu, lambda x: p.clip(x, low=0, high=6)], ids=["relu", "relu6"])
def test_activations_fuse_through_data_movement(move: Any, bounded: Any) -> None:
    result = check_program(lambda x: bounded(move(layer(x))), SHAPE)
    assert "RELU" not in [op.builtin for op in result] and "RELU6" not in [op.builtin for op in result]
    assert bounds(result)[0] in ("RELU", "RELU6")


def test_activations_fuse_through_concatenations() -> None:
    result = check_program(lambda x: p.relu(p.concat([inner(layer(x)), inner(layer(p.tanh(x)))], 1)), SHAPE)
    assert bounds(result) == ["RELU", "RELU"] and "RELU" not in [op.builtin for op in result]


def test_activations_fuse_into_three_dimensional_convolutions() -> None:
    w = FILTER[:, :, None]
    result = check_program(lambda x: p.relu(p.conv(x, w, window=Window.of((1, 3, 3)))), (1, 4, 2, 5, 6))
    assert [op.options.get("fused_activation_function") for op in result if op.builtin == "CONV_3D"] == ["RELU"]
    assert "RELU" not in [op.builtin for op in result]


def test_activations_stay_if_a_part_is_no_layer() -> None:
    result = check_program(lambda x: p.relu(p.concat([inner(layer(x)), inner(p.tanh(x))], 1)), SHAPE)
    assert bounds(result) == ["NONE"] and "RELU" in [op.builtin for op in result]


def test_activations_stay_if_another_operator_reads_the_moved_tensor() -> None:
    def both(x: Any) -> Any:
        y = inner(layer(x))
        return p.mul(p.relu(y), y)

    assert bounds(check_program(both, SHAPE)) == ["NONE"]
    assert bounds(check_program(lambda x: p.relu(p.concat([layer(x)] * 2, 1)), SHAPE)) == ["NONE"]


def test_activations_do_not_fuse_into_an_activated_layer() -> None:
    result = check_program(lambda x: p.relu(inner(p.clip(layer(x), low=-1, high=1))), SHAPE)
    assert bounds(result) == ["RELU_N1_TO_1"] and "RELU" in [op.builtin for op in result]


def test_a_transposed_convolution_takes_an_activation_if_its_kernel_does() -> None:
    result = check_program(lambda x: p.relu(inner(spread(x))), SHAPE)
    takes = HERE.has("TRANSPOSE_CONV", 4)
    assert bounds(result) == ["RELU" if takes else "NONE"]
    assert ("RELU" in [op.builtin for op in result]) is not takes


def test_a_portable_file_keeps_the_activation_separate() -> None:
    recorded_program = build.build(program(lambda x: p.relu(spread(x)), SHAPE), Kernels())
    assert "RELU" in [op.builtin for op in recorded_program.subgraphs[0].operators]
    assert bounds(recorded_program.subgraphs[0].operators) == ["NONE"]
