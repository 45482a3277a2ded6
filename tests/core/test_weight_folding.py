"""Scales and shifts fold into every kind of layer, in both layouts, only where the results stay equal."""

from typing import Any, Callable, List, Sequence, Tuple

import numpy as np
import pytest
from channels_last import ChannelsLast

from onnx_compat import primitives as p
from onnx_compat.ir import Const
from onnx_compat.ir.dims import atoms_of
from onnx_compat.ir.dtypes import DType, float32, float64, int32
from onnx_compat.ir.verifier import verify_region
from onnx_compat.ir.window import Window
from onnx_compat.passes.weight_folding import weight_folding
from onnx_compat.reference import Reference
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    """Return random numbers between 0.5 and 1.5, so that division by them is safe."""
    return np.random.RandomState(seed).uniform(0.5, 1.5, shape).astype(np.float32)


def fold(
    function: Callable[[Any], List[Any]], shape: Sequence[int], emitter: Any = None, dtype: Any = float32
) -> Tuple[List[str], Any]:
    """Fold the scales and shifts of a function. Return (primitives without transposes, nodes).

    Assert that the results stay equal.
    """
    emitter = emitter or Reference()
    x = draw(*shape, seed=9).astype(dtype.numpy)

    def program() -> Any:
        return record_program(function, [Port("x", dtype, tuple(shape))], emitter)

    folded = program()
    weight_folding.apply(folded.region, emitter)
    expected, results = (emit(region, emitter, [x]) for region in (program().region, folded.region))
    for expected_array, array in zip(expected, results):
        np.testing.assert_allclose(array, expected_array, rtol=1e-5, atol=1e-5)
        assert array.dtype == expected_array.dtype
    nodes = [node for node in folded.region.live() if node.primitive != "transpose"]
    return [node.primitive for node in nodes], nodes


WINDOW = Window.of((2, 2))


def convolve(x: Any, bias: Any = None) -> Any:
    """Convolve three channels to five."""
    return p.conv(x, draw(5, 3, 2, 2), bias, window=WINDOW)


def depthwise(x: Any, bias: Any = None) -> Any:
    """Convolve three channels to six, two of each."""
    return p.conv(x, draw(6, 1, 2, 2), bias, window=WINDOW, groups=3)


def convolve_transpose(x: Any, bias: Any = None) -> Any:
    """Apply a transposed convolution of three channels to five."""
    return p.conv_transpose(x, draw(3, 5, 2, 2), bias, window=WINDOW)


LAYERS = [(convolve, 5), (depthwise, 6), (convolve_transpose, 5)]
EMITTERS = [Reference, ChannelsLast]
IMAGE = (2, 3, 6, 7)


@pytest.mark.parametrize("emitter", EMITTERS)
@pytest.mark.parametrize(("layer", "channels"), LAYERS)
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("operation", [p.mul, p.div, p.add, p.sub])
def test_a_number_per_channel_folds_into_every_layer(
    operation: Any, with_bias: bool, layer: Any, channels: int, emitter: Any
) -> None:
    bias = draw(channels, seed=1) if with_bias else None
    constant = draw(channels, 1, 1, seed=2)
    left, (node,) = fold(lambda x: [operation(layer(x, bias), constant)], IMAGE, emitter())
    assert left in (["conv"], ["depthwise_conv"], ["conv_transpose"])
    assert len(node.args) == (2 if operation in (p.mul, p.div) and not with_bias else 3), "a scale adds no bias"


@pytest.mark.parametrize("emitter", EMITTERS)
@pytest.mark.parametrize("operation", [p.mul, p.add])
def test_the_constant_may_be_on_the_left(operation: Any, emitter: Any) -> None:
    left, _ = fold(lambda x: [operation(draw(5, 1, 1), convolve(x))], IMAGE, emitter())
    assert left == ["conv"]


@pytest.mark.parametrize("operation", [p.div, p.sub])
def test_a_constant_that_is_divided_or_subtracted_from_stays(operation: Any) -> None:
    left, _ = fold(lambda x: [operation(draw(5, 1, 1), convolve(x))], IMAGE)
    assert len(left) == 2


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1, 1), (5, 1, 1), (1, 5, 1, 1)])
def test_one_number_is_a_number_for_each_channel(shape: Any) -> None:
    for emitter in EMITTERS:
        left, _ = fold(lambda x: [p.mul(convolve(x), draw(*shape))], IMAGE, emitter())
        assert left == ["conv"]


@pytest.mark.parametrize("shape", [(5, 6), (5, 5, 1), (2, 1, 1, 1), (5, 1, 6), (6,), (1, 1, 5, 1), (1, 2, 5, 1, 1)])
def test_a_constant_that_varies_along_another_axis_stays(shape: Any) -> None:
    """The result of the layer has the shape [2, 5, 5, 6], and the constant does not vary along the channels."""
    for emitter in EMITTERS:
        left, _ = fold(lambda x: [p.add(convolve(x), draw(*shape))], IMAGE, emitter())
        assert "add" in left


def test_a_constant_that_widens_the_result_stays() -> None:
    weights = draw(3, 1)
    left, _ = fold(lambda x: [p.mul(p.matmul(x, weights), draw(4))], (2, 3))
    assert left == ["matmul", "mul"]
    left, _ = fold(lambda x: [p.mul(p.matmul(x, weights), draw(2, 1, 1, 1))], (2, 3))
    assert left == ["matmul", "mul"]


@pytest.mark.parametrize("transpose_y", [False, True])
@pytest.mark.parametrize("operation", [p.mul, p.div, p.add, p.sub])
def test_a_number_per_column_folds_into_a_product(operation: Any, transpose_y: bool) -> None:
    weights = draw(4, 3) if transpose_y else draw(3, 4)
    left, (node,) = fold(lambda x: [operation(p.matmul(x, weights, transpose_y=transpose_y), draw(4))], (2, 5, 3))
    # The product has no bias before the pass; a shift gives it one.
    assert left == ["matmul"] and len(node.args) == (3 if operation in (p.add, p.sub) else 2)


def test_a_square_product_keeps_its_columns_apart_from_its_rows() -> None:
    for transpose_y in (False, True):
        left, _ = fold(lambda x, t=transpose_y: [p.mul(p.matmul(x, draw(3, 3), transpose_y=t), draw(3))], (2, 3))
        assert left == ["matmul"]


def test_a_number_per_row_and_a_batch_of_weights_stay() -> None:
    left, _ = fold(lambda x: [p.mul(p.matmul(x, draw(3, 4)), draw(2, 1))], (2, 3))
    assert left == ["matmul", "mul"]
    left, _ = fold(lambda x: [p.mul(p.matmul(x, draw(2, 3, 4)), draw(4))], (2, 5, 3))
    assert left == ["matmul", "mul"]


@pytest.mark.parametrize("emitter", EMITTERS)
def test_a_scale_stays_behind_a_transposed_convolution_in_groups(emitter: Any) -> None:
    """The weights [C, M / groups, ...] have no axis with all M channels.

    A shift folds, because it changes only the bias.
    """

    def layer(x: Any) -> Any:
        return p.conv_transpose(x, draw(4, 3, 2, 2), window=WINDOW, groups=2)

    scaled, _ = fold(lambda x: [p.mul(layer(x), draw(6, 1, 1))], (2, 4, 5, 5), emitter())
    assert scaled == ["conv_transpose", "mul"]
    shifted, _ = fold(lambda x: [p.add(layer(x), draw(6, 1, 1))], (2, 4, 5, 5), emitter())
    assert shifted == ["conv_transpose"]


def test_a_scale_folds_into_a_convolution_in_groups() -> None:
    def layer(x: Any) -> Any:
        return p.conv(x, draw(6, 2, 2, 2), window=WINDOW, groups=2)

    for emitter in EMITTERS:
        left, _ = fold(lambda x: [p.mul(layer(x), draw(6, 1, 1))], (2, 4, 5, 5), emitter())
        assert left == ["conv"]


def test_scales_and_shifts_in_a_row_all_fold() -> None:
    """Mul and Add nodes in a row, as exporters write a BatchNormalization."""

    def normalize(x: Any) -> Any:
        y = p.sub(convolve(x, draw(5, seed=3)), draw(5, 1, 1, seed=4))
        return [p.add(p.mul(p.div(y, draw(5, 1, 1, seed=5)), draw(5, 1, 1, seed=6)), draw(5, 1, 1, seed=7))]

    for emitter in EMITTERS:
        assert fold(normalize, IMAGE, emitter())[0] == ["conv"]


def test_a_shift_by_zero_adds_no_bias() -> None:
    left, (node,) = fold(lambda x: [p.add(convolve(x), np.zeros((5, 1, 1), np.float32))], IMAGE)
    assert left == ["conv"] and len(node.args) == 2


def test_the_weights_of_double_precision_stay_of_double_precision() -> None:
    weights = draw(3, 4).astype(np.float64)
    left, (node,) = fold(lambda x: [p.add(p.mul(p.matmul(x, weights), weights[0]), weights[1])], (2, 3), dtype=float64)
    assert left == ["matmul"]
    constants = [arg for arg in node.args if isinstance(arg, Const)]
    assert [(constant.array.dtype, constant.spec.dtype) for constant in constants] == [(np.float64, float64)] * 2


# -- where it must not act ---------------------------------------------------------------------------------------------
def test_a_quotient_that_is_rounded_keeps_its_scale() -> None:
    """A rounded quotient is a quantisation. With folded weights, it would round to other integers."""
    left, _ = fold(lambda x: [p.round(p.div(p.matmul(x, draw(3, 4)), np.float32(0.1)))], (2, 3))
    assert left == ["matmul", "div", "round"]
    left, _ = fold(lambda x: [p.exp(p.div(p.matmul(x, draw(3, 4)), np.float32(10)))], (2, 3))
    assert left == ["matmul", "exp"]


def test_a_layer_whose_result_is_read_twice_or_is_an_output_stays() -> None:
    def read_twice(x: Any) -> Any:
        y = p.matmul(x, draw(3, 4))
        return [p.mul(y, draw(4)), p.exp(y)]

    def output(x: Any) -> Any:
        y = p.matmul(x, draw(3, 4))
        return [p.mul(y, draw(4)), y]

    assert fold(read_twice, (2, 3))[0] == ["matmul", "mul", "exp"]
    assert fold(output, (2, 3))[0] == ["matmul", "mul"]


def test_weights_or_a_bias_that_are_computed_stay() -> None:
    def computed_weights(x: Any) -> Any:
        return [p.mul(p.matmul(x, p.transpose(p.exp(x), [1, 0])), draw(2))]

    def computed_bias(x: Any) -> Any:
        return [p.mul(convolve(x, p.reduce_sum(p.reshape(x, [5, -1]), [1])), draw(5, 1, 1))]

    assert fold(computed_weights, (2, 3))[0] == ["exp", "matmul", "mul"]
    assert fold(computed_bias, (1, 3, 5, 6))[0][-1] == "mul"


def test_other_nodes_before_a_scale_stay() -> None:
    assert fold(lambda x: [p.mul(p.exp(x), draw(3))], (2, 3))[0] == ["exp", "mul"]
    assert fold(lambda x: [p.mul(x, draw(3))], (2, 3))[0] == ["mul"]
    assert fold(lambda x: [p.mul(p.slice_axis(x, 0, 1, 2), draw(3))], (2, 3))[0] == ["slice", "mul"]
    assert fold(lambda x: [p.mul(p.slice_axis(p.exp(x), 0, 1, 2), draw(3))], (2, 3))[0] == ["exp", "slice", "mul"]
    assert fold(lambda x: [p.maximum(p.matmul(x, draw(3, 4)), draw(4))], (2, 3))[0] == ["matmul", "maximum"]


def test_two_layers_that_are_added_stay() -> None:
    left, _ = fold(lambda x: [p.add(p.matmul(x, draw(3, 4)), p.matmul(x, draw(3, 4, seed=1)))], (2, 3))
    assert left == ["matmul", "matmul", "add"]


# -- behind a slice ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("emitter", EMITTERS)
@pytest.mark.parametrize(
    ("starts", "ends", "steps", "folds"),
    [
        ([0, 0, 1, 1], [None, None, None, -1], [1, 1, 1, 1], True),
        ([0, 0, -1, 0], [None, None, None, None], [1, 1, -1, 2], True),
        ([1, 0, 0, 0], [None, None, None, None], [1, 1, 1, 1], True),
        ([0, 1, 0, 0], [None, None, None, None], [1, 1, 1, 1], False),
        ([0, 0, 0, 0], [None, None, None, None], [1, 2, 1, 1], False),
        ([0, -1, 0, 0], [None, None, None, None], [1, -1, 1, 1], False),
    ],
)
def test_a_slice_that_keeps_the_channels_stays_behind_the_layer(
    starts: Any, ends: Any, steps: Any, folds: bool, emitter: Any
) -> None:
    channels = len(range(5)[starts[1] : ends[1] : steps[1]])

    def cut(x: Any) -> Any:
        return [p.mul(p.slice(convolve(x, draw(5, seed=1)), starts, ends, steps), draw(channels, 1, 1))]

    assert fold(cut, IMAGE, emitter())[0] == (["conv", "slice"] if folds else ["conv", "slice", "mul"])


@pytest.mark.parametrize("read", ["layer", "slice"])
def test_a_slice_between_that_is_read_twice_stays(read: str) -> None:
    def cut(x: Any) -> Any:
        whole = convolve(x)
        part = p.slice_axis(whole, 2, 1, 3)
        return [p.mul(part, draw(5, 1, 1)), p.exp(whole if read == "layer" else part)]

    assert "mul" in fold(cut, IMAGE)[0]


def test_sizes_of_a_folded_layer_are_those_of_its_replacement() -> None:
    """The height of the slice is symbolic, and the types of later values name the slice."""

    def function(x: Any) -> Any:
        return [p.exp(p.mul(p.slice_axis(convolve(x), 2, 1, 4), draw(5, 1, 1)))]

    program = record_program(function, [Port("x", float32, ("n", 3, "h", "w"))], Reference())
    weight_folding.apply(program.region, Reference())
    verify_region(program.region)
    nodes = program.region.live()
    assert [node.primitive for node in nodes] == ["conv", "slice", "exp"]
    (atom,) = atoms_of(nodes[-1].outputs[0].spec.shape[2])
    assert atom.args[0].node is nodes[1]


def test_the_pass_counts_the_nodes_that_it_removes() -> None:
    def function(x: Any) -> Any:
        return [p.add(p.mul(p.matmul(x, draw(3, 4)), draw(4)), draw(4)), p.exp(x)]

    program = record_program(function, [Port("x", float32, (2, 3))], Reference())
    _, count = weight_folding.apply(program.region, Reference())
    assert count == 2
    _, again = weight_folding.apply(program.region, Reference())
    assert again == 0


def test_integers_and_types_that_are_carried_stay() -> None:
    """A scaled product of integers may overflow, and a scaled bfloat16 would be rounded twice."""
    weights = np.arange(12).reshape(3, 4)
    for dtype in (int32, DType.of("bfloat16")):

        def function(x: Any, dtype: Any = dtype) -> Any:
            return [p.mul(p.matmul(x, p.cast(weights, dtype)), p.cast(weights[0], dtype))]

        program = record_program(function, [Port("x", dtype, (2, 3))], Reference())
        _, count = weight_folding.apply(program.region, Reference())
        assert count == 0
        assert [node.primitive for node in program.region.live()][-1] == "mul"
