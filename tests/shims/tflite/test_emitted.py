"""The TFLite operators that the emitter writes for a program."""

from typing import Any, Callable, List, Optional, Sequence

import numpy as np
import pytest
from onnx_compat_tflite import SHIM, features
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.build import build
from onnx_compat_tflite.kernels import Kernels
from programs import check_program

from onnx_compat import primitives
from onnx_compat.ir.dtypes import DType
from onnx_compat.ir.window import Window
from onnx_compat.shim.interface import Port, Program
from onnx_compat.tracing.recording import record_program

Shape = Sequence[Any]


def program(function: Callable[..., Any], *shapes: Shape, dtype: str = "float32") -> Program:
    ports = [Port("x%d" % k, DType.of(dtype), tuple(shape)) for k, shape in enumerate(shapes)]
    return record_program(lambda *tensors: [function(*tensors)], ports, SHIM.emitter(), ["y"])


def operators(function: Callable[..., Any], *shapes: Shape, dtype: str = "float32") -> List[fb.OperatorSpec]:
    """Return the operators of a file for every runtime (`portable`): only kernels that the oldest runtime has."""
    return build(program(function, *shapes, dtype=dtype), Kernels()).subgraphs[0].operators


def names(function: Callable[..., Any], *shapes: Shape, dtype: str = "float32") -> List[str]:
    return [operator.builtin for operator in operators(function, *shapes, dtype=dtype)]


def convolve(x: Any, pads: Any = ((1, 1), (1, 1)), strides: Any = (1, 1), groups: int = 1, fan_in: int = 4) -> Any:
    w = np.random.RandomState(0).rand(8, fan_in, 3, 3).astype(np.float32)
    return primitives.conv(x, w, window=Window.of((3, 3), strides, pads=pads), groups=groups)


def test_padding_equal_to_same_is_written_as_same() -> None:
    ops = operators(convolve, (1, 4, 8, 8))
    assert [op.builtin for op in ops] == ["TRANSPOSE", "CONV_2D", "TRANSPOSE"]
    assert ops[1].options["padding"] == "SAME"


def test_padding_of_an_unknown_size_is_same_with_stride_one() -> None:
    assert names(convolve, (None, 4, None, None)) == ["TRANSPOSE", "CONV_2D", "TRANSPOSE"]


def test_other_padding_is_an_operator() -> None:
    assert "PAD" in names(lambda x: convolve(x, strides=(2, 2)), (1, 4, 8, 8))


def test_a_pad_that_is_same_goes_into_the_convolution() -> None:
    def pad_image(x: Any) -> Any:
        inner = primitives.pad(convolve(x), [0, 0, 0, 0], [0, 0, 1, 1])
        return convolve(inner, ((0, 0), (0, 0)), (2, 2), fan_in=8)

    ops = operators(pad_image, (1, 4, 8, 8))
    assert [op.builtin for op in ops] == ["TRANSPOSE", "CONV_2D", "CONV_2D", "TRANSPOSE"]
    assert ops[2].options["padding"] == "SAME"


def test_groups_are_split_where_a_runtime_has_no_grouped_kernel() -> None:
    result = names(lambda x: convolve(x, groups=2, fan_in=2), (1, 4, 8, 8))
    assert result.count("CONV_2D") == 2 and "CONCATENATION" in result


def test_an_activation_becomes_part_of_its_producer() -> None:
    ops = operators(lambda x: primitives.clip(convolve(x), 0, 6), (1, 4, 8, 8))
    assert ops[1].options["fused_activation_function"] == "RELU6"
    assert [op.builtin for op in ops] == ["TRANSPOSE", "CONV_2D", "TRANSPOSE"]


def test_an_activation_beside_another_reader_stays() -> None:
    def both(x: Any) -> Any:
        total = primitives.add(x, 1.0)
        return primitives.mul(total, primitives.relu(total))

    assert names(both, (2, 3)) == ["ADD", "RELU", "MUL"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: primitives.mul(x, primitives.clip(primitives.add(primitives.mul(x, 1 / 6), 0.5), 0, 1)),
        lambda x: primitives.mul(primitives.mul(x, primitives.clip(primitives.add(x, 3.0), 0, 6)), 1 / 6),
        lambda x: primitives.div(primitives.mul(x, primitives.clip(primitives.add(x, 3.0), 0, 6)), 6.0),
        lambda x: primitives.mul(x, primitives.div(primitives.clip(primitives.add(x, 3.0), 0, 6), 6.0)),
    ],
)
def test_hard_swish_has_an_operator(function: Any) -> None:
    assert names(function, (2, 3)) == ["HARD_SWISH"]


def test_a_similar_function_is_no_hard_swish() -> None:
    def swish(x: Any, over: Any) -> Any:
        return primitives.div(primitives.mul(x, primitives.clip(primitives.add(x, 3.0), 0, 6)), over)

    assert "DIV" in names(lambda x: swish(x, 5.0), (2, 3))
    assert "DIV" in names(lambda x: swish(x, np.full((1, 1), 6, np.float32)), (3,))  # the result has a rank more


def test_a_mirror_image_beside_an_open_batch_has_an_operator() -> None:
    def mirror(x: Any) -> Any:
        return primitives.pad(x, (0, 2), (0, 1), "reflect")

    assert names(mirror, (None, 3)) == ["MIRROR_PAD"]
    assert "MIRROR_PAD" not in names(mirror, (2, None))


@pytest.mark.parametrize(
    ("sizes", "before", "after", "operators"),
    [
        ((None, 16, 4, 8), (0, 1, 2, 0), (0, 3, 0, 0), ["GATHER", "GATHER"]),  # an image: whole rows and pixels
        ((2, 1, 300), (0, 0, 9), (0, 0, 0), ["GATHER", "CONCATENATION"]),
        ((None, 300, 1), (0, 9, 0), (0, 299, 0), ["GATHER", "GATHER", "CONCATENATION"]),  # a sound
        ((5, 8, 40), (2, 0, 39), (4, 0, 0), ["GATHER", "GATHER", "CONCATENATION"]),
    ],
)
def test_a_large_mirror_image_is_copied(sizes: Any, before: Any, after: Any, operators: Any) -> None:
    """The kernel of MIRROR_PAD computes the position of each element.

    GATHER copies whole rows, which is faster for a large image.
    """

    def mirror(x: Any) -> Any:
        return primitives.pad(x, before, after, "reflect")

    fed = [[2 if size is None else size for size in sizes]]
    assert [op.builtin for op in check_program(mirror, sizes, fed=fed)] == operators


def test_a_bound_of_one_has_an_operator() -> None:
    assert names(lambda x: primitives.clip(x, -1, 1), (2, 3)) == ["RELU_N1_TO_1"]


def test_reshapes_in_a_row_are_one() -> None:
    def twice(x: Any) -> Any:
        return primitives.reshape(primitives.exp(primitives.reshape(x, (6,))), (3, 2))

    assert names(twice, (2, 3)) == ["RESHAPE", "EXP", "MAXIMUM", "RESHAPE"]
    assert names(lambda x: primitives.reshape(primitives.reshape(x, (6,)), (3, 2)), (2, 3)) == ["RESHAPE"]


def test_a_known_matrix_is_the_weights_of_a_layer_and_is_not_copied() -> None:
    weights = np.ones((3, 5), np.float32)
    model = build(program(lambda x: primitives.matmul(x, weights), (None, 3)), Kernels())
    (operator,) = model.subgraphs[0].operators
    held = model.subgraphs[0].tensors[operator.inputs[1] or 0].buffer
    assert operator.builtin == "FULLY_CONNECTED" and np.shares_memory(held, weights)


def test_many_axes_are_merged_for_kernels_that_broadcast_four() -> None:
    model = build(program(primitives.add, (2, 3, 1, 2, 2, 2), (1, 1, 4, 2, 2, 2)), Kernels())
    (addition,) = [op for op in model.subgraphs[0].operators if op.builtin == "ADD"]
    assert len(model.subgraphs[0].tensors[addition.inputs[0] or 0].shape) <= 4


@pytest.mark.parametrize(
    ("narrow", "wide", "fed"),
    [
        ((2, 1, 3, 4), (2, 5, 3, 4), None),
        ((2, 3, 1), (2, 3, 4), None),
        ((None, 2, 1, None, 4), (None, 2, 3, None, 4), (3, 2, 1, 5, 4)),
        ((None, 1), (None, 4), (2, 1)),
    ],
)
def test_an_axis_that_is_repeated_a_known_number_of_times_is_a_tile(narrow: Any, wide: Any, fed: Any) -> None:
    """Keys that several queries share are repeated. BROADCAST_TO takes a hundred times as long as TILE."""

    def repeat(x: Any) -> Any:
        return primitives.broadcast_to(x, [x.shape[k] if size is None else size for k, size in enumerate(wide)])

    assert names(repeat, narrow) == ["TILE"]
    assert [op.builtin for op in check_program(repeat, narrow, fed=[fed or narrow])] == ["TILE"]


def test_an_axis_that_is_repeated_an_open_number_of_times_is_broadcast() -> None:
    def repeat(x: Any, y: Any) -> Any:
        return primitives.broadcast_to(x, (y.shape[0], 3))

    result = check_program(repeat, (1, 3), (None, 4), fed=[(1, 3), (2, 4)])
    assert "TILE" not in [op.builtin for op in result]  # which writes beyond the end if the number is zero


def test_many_axes_of_which_one_is_open_are_merged() -> None:
    """A mask is applied to each window of an image, and one axis is symbolic."""

    def apply_mask(x: Any, y: Any) -> Any:
        return primitives.add(x, y)

    shapes = ("n", 4, 3, 2, 5), (1, 4, 1, 2, 5)
    for many in (1, 3):
        result = check_program(apply_mask, *shapes, fed=[(many, *shapes[0][1:]), shapes[1]])
        assert [op.builtin for op in result] == ["RESHAPE", "RESHAPE", "ADD", "RESHAPE"]


@pytest.mark.parametrize(
    ("left", "right", "fed"),
    [
        (("n", 4, 1, 2, 5), (3, 4, 3, 2, 1), [((many, 4, 1, 2, 5), (3, 4, 3, 2, 1)) for many in (1, 3)]),
        (
            ("n", 4, 1, 2, 5),
            ("m", 1, 3, 2, 5),
            [((1, 4, 1, 2, 5), (3, 1, 3, 2, 5)), ((3, 4, 1, 2, 5), (1, 1, 3, 2, 5))],
        ),
        (("n", 4, 1, "m", 5), (1, 4, 3, 1, 5), [((2, 4, 1, 3, 5), (1, 4, 3, 1, 5))]),
    ],
)
def test_many_axes_that_may_be_repeated_or_not_are_not_merged(left: Any, right: Any, fed: Any) -> None:
    for shapes in fed:
        check_program(primitives.mul, left, right, fed=shapes)


def test_two_builds_are_the_same_bytes() -> None:
    first, second = (build(program(convolve, (None, 4, 8, 8)), features.kernels()) for _ in range(2))
    assert fb.to_bytes(first) == fb.to_bytes(second)


@pytest.mark.parametrize("batch", [2, None])
def test_many_axes_are_transposed_by_old_kernels_also_of_an_open_batch(batch: Any) -> None:
    def pixels(x: Any) -> Any:
        blocks = primitives.reshape(x, [x.shape[0], 2, 2, 3, 4, 5])
        return primitives.transpose(blocks, [0, 3, 4, 1, 5, 2])

    ops = operators(pixels, (batch, 12, 4, 5))
    assert [op.builtin for op in ops] == ["RESHAPE", "TRANSPOSE", "RESHAPE"]


@pytest.mark.parametrize("batch", [2, None])
@pytest.mark.parametrize("perm", [(0, 2, 4, 3, 5, 1), (5, 4, 3, 2, 1, 0), (1, 0, 3, 2, 5, 4)])
def test_six_axes_that_all_move_are_transposed_in_steps(batch: Any, perm: Sequence[int]) -> None:
    def transpose_input(x: Any) -> Any:
        return primitives.transpose(primitives.add(x, 1.0), perm)

    recorded_program = build(program(transpose_input, (batch, 3, 2, 4, 5, 3)), Kernels())
    assert [op.builtin for op in recorded_program.subgraphs[0].operators].count("TRANSPOSE") == 2
    x = np.random.RandomState(0).rand(2, 3, 2, 4, 5, 3).astype(np.float32)
    runtime, _ = features.find_runtime()
    assert runtime is not None
    recorded_program.signatures.append(
        fb.Signature({"x": recorded_program.subgraphs[0].inputs[0]}, {"y": recorded_program.subgraphs[0].outputs[0]})
    )
    interpreter = runtime.interpreter(plain=True, model_content=fb.to_bytes(recorded_program))
    interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    actual = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    np.testing.assert_allclose(actual, (x + 1).transpose(perm), rtol=1e-6)


def test_unknown_channels_come_from_the_filter(tmp_path: Any) -> None:
    """An unknown number of channels would require a kernel with groups, which old runtimes lack."""

    def version(channels: Optional[int]) -> List[int]:
        path = str(tmp_path / "model.tflite")
        fb.write(build(program(convolve, (1, channels, 8, 8)), Kernels()), path)
        return [op.version for op in fb.read(path).subgraphs[0].operators if op.builtin == "CONV_2D"]

    assert version(None) == version(4)
