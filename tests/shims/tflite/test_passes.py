"""Passes over TFLite graphs: the operators that composed programs become, with the results of the reference."""

from typing import Any

import numpy as np
import pytest
from onnx_compat_tflite import SHIM, features
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.build import build
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.passes import optimize
from onnx_compat_tflite.passes.rewriter import GraphRewriter
from programs import check_program, names, program

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import DType
from onnx_compat.ir.window import Window
from onnx_compat.ops.recurrent import lstm
from onnx_compat.reference import Reference
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program


def test_consecutive_factors_are_merged() -> None:
    a, b = np.linspace(1, 2, 5, dtype=np.float32), np.linspace(3, 4, 4, dtype=np.float32)[:, None]
    assert names(lambda x: p.mul(p.mul(x, a), b), (4, 5)) == ["MUL"]
    assert names(lambda x: p.div(p.div(x, a), b), (4, 5)) == ["DIV"]
    assert names(lambda x: p.div(p.mul(x, a), b), (4, 5)) == ["MUL"]
    assert names(lambda x: p.mul(p.div(x, a), b), (4, 5)) == ["MUL"]


def test_consecutive_normalisations_are_merged() -> None:
    a, b, c, d = np.random.RandomState(0).standard_normal((4, 5)).astype(np.float32)
    result = check_program(lambda x: p.relu(p.add(p.mul(p.add(p.mul(x, a), b), c), d)), (4, 5))
    assert [op.builtin for op in result] == ["MUL", "ADD"]
    assert result[1].options["fused_activation_function"] == "RELU"
    assert names(lambda x: p.mul(p.add(p.mul(x, a), b), c), (4, 5)) == ["MUL", "ADD"]
    bounded = names(lambda x: p.mul(p.relu(p.add(p.mul(x, a), b)), c), (4, 5))
    assert bounded == ["MUL", "ADD", "MUL"]


def test_a_normalisation_with_constants_of_other_shapes_stays() -> None:
    """The fold would change the shape of a tensor."""
    a, b = np.random.RandomState(0).standard_normal((2, 5)).astype(np.float32)
    rows = np.random.RandomState(1).standard_normal((4, 5)).astype(np.float32)
    assert names(lambda x: p.mul(p.add(p.mul(x, a), b), rows), (1, 5)) == ["MUL", "ADD", "MUL"]
    assert names(lambda x: p.mul(p.add(p.mul(x, a), rows), b), (5,)) == ["MUL", "ADD", "MUL"]
    assert names(lambda x: p.mul(p.add(p.mul(x, rows), a), b), (5,)) == ["MUL", "ADD"]


def test_a_tensor_with_another_value_has_another_name() -> None:
    recorded_program = build(
        program(lambda x: p.tanh(p.mul(p.add(p.mul(x, 2.0), 3.0), 4.0)), (4, 5)), Kernels()
    ).subgraphs[0]
    assert [op.builtin for op in recorded_program.operators] == ["MUL", "ADD", "TANH"]
    assert recorded_program.tensors[recorded_program.operators[0].outputs[0]].name.endswith("/scaled")


def test_factors_that_overflow_together_stay_apart() -> None:
    for factor in (1e30, 1e-30):
        recorded_program = program(lambda x, factor=factor: p.mul(p.mul(x, factor), factor), (4, 5))
        assert [op.builtin for op in build(recorded_program, Kernels()).subgraphs[0].operators] == ["MUL", "MUL"]
        recorded_program = program(lambda x, factor=factor: p.mul(p.add(p.mul(x, factor), 1.0), factor), (4, 5))
        assert [op.builtin for op in build(recorded_program, Kernels()).subgraphs[0].operators] == ["MUL", "ADD", "MUL"]


def test_a_factor_before_another_reader_stays() -> None:
    def both(x: Any) -> Any:
        double = p.mul(x, 2.0)
        return p.add(double, p.mul(double, 3.0))

    assert names(both, (4, 5)) == ["MUL", "MUL", "ADD"]


def test_a_layer_absorbs_a_reshape_of_its_input() -> None:
    weights = np.random.RandomState(0).standard_normal((12, 5)).astype(np.float32)
    assert names(lambda x: p.matmul(p.reshape(x, (3, 12)), weights), (3, 2, 2, 3)) == ["FULLY_CONNECTED"]
    regrouped = names(lambda x: p.matmul(p.reshape(x, (6, 12)), weights), (3, 4, 6))
    assert regrouped == ["FULLY_CONNECTED"]


def test_equal_slices_become_a_split() -> None:
    def cut(x: Any, *bounds: Any, axis: int = 1) -> Any:
        return p.concat([p.tanh(p.slice_axis(x, axis, start, end)) for start, end in bounds], axis)

    def corners(x: Any, *bounds: Any) -> Any:
        return p.concat([p.tanh(p.slice(x, starts, ends, (1, 1))) for starts, ends in bounds], 0)

    result = ["SPLIT", "TANH", "TANH", "CONCATENATION"]
    assert names(lambda x: cut(x, (3, 6), (0, 3)), (4, 6)) == result
    assert names(lambda x: cut(x, (0, 3), (3, 6)), (None, 6), fed=[(4, 6)]) == result
    for bounds in (
        [(0, 2), (2, 3), (3, 6)],  # of different lengths
        [(0, 2), (2, 4)],  # not the whole
        [(0, 3), (1, 4)],  # over each other
        [(k, k + 1) for k in range(6)],  # more than XNNPACK cuts
    ):
        assert "SPLIT" not in names(lambda x, bounds=bounds: cut(x, *bounds), (4, 6))
    assert "SPLIT" not in names(lambda x: cut(x, (0, 2), (2, 4), axis=0), (None, 6), fed=[(4, 6)])
    assert "SPLIT" not in names(lambda x: corners(x, ((0, 0), (2, 3)), ((2, 0), (4, 3))), (4, 6))

    def later(x: Any) -> Any:
        return corners(x, ((2, 0), (9, 3)), ((2, 3), (9, 6)))

    assert "SPLIT" not in names(later, (None, 6), fed=[(4, 6)])


def test_slices_stay_for_dtypes_that_split_lacks() -> None:
    recorded_program = record_program(
        lambda x: p.split(p.add(x, x), 1, [3, 3]), [Port("x", DType.of("int64"), (4, 6))], SHIM.emitter(), ["y", "z"]
    )
    assert [op.builtin for op in build(recorded_program, features.kernels()).subgraphs[0].operators] == [
        "ADD",
        "SLICE",
        "SLICE",
    ]


def test_heads_are_split_before_they_are_reshaped() -> None:
    def heads(x: Any, axis: int, many: int, *shape: int) -> Any:
        parts = p.split(p.reshape(p.tanh(x), (2, 5, 3, 2, 4)), axis, [1] * many)
        return p.concat([p.tanh(p.reshape(part, shape)) for part in parts], 2)

    result = names(lambda x: heads(x, 2, 3, 2, 5, 2, 4), (2, 5, 24))
    assert result == ["TANH", "SPLIT", *["RESHAPE", "TANH"] * 3, "CONCATENATION"]
    between = names(lambda x: heads(x, 3, 2, 2, 5, 3, 4), (2, 5, 24))
    assert between == ["TANH", "RESHAPE", "SPLIT", *["RESHAPE", "TANH"] * 2, "CONCATENATION"]


@pytest.mark.parametrize(("length", "loops"), [(2, False), (40, False), (90, True)])
def test_runs_of_a_recurrent_network_are_equal(length: int, loops: bool) -> None:
    """A short sequence is unrolled, a long one is a WHILE loop."""
    random = np.random.RandomState(0)
    w, r, b = (random.standard_normal(shape).astype(np.float32) for shape in ((1, 32, 5), (1, 32, 8), (1, 64)))
    recorded_program = program(lambda x: lstm(x, w, r, b)[0], (length, 3, 5))
    builtins = [op.builtin for graph in build(recorded_program, features.kernels()).subgraphs for op in graph.operators]
    assert ("WHILE" in builtins) is loops
    x = random.standard_normal((length, 3, 5)).astype(np.float32)
    (wanted,) = emit(
        program(lambda x: lstm(x, w, r, b)[0], (length, 3, 5), emitter=Reference()).region, Reference(), [x]
    )
    runs = SHIM.compile(recorded_program)
    for _ in range(3):
        np.testing.assert_allclose(runs.run([x])[0], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(), (4, 64), (1, 2, 4, 1, 32), (None, 64), (None, None), (0, None)])
@pytest.mark.parametrize("dtype", ["bool", "float32", "int32", "int64", "uint8"])
def test_int8_is_cast_without_an_int8_kernel(dtype: str, shape: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file for the oldest runtimes runs on the installed runtime."""
    monkeypatch.setitem(features._CACHE, "kernels", Kernels())
    sizes = [4 if size is None else size for size in shape]
    count = int(np.prod(sizes))
    for source, target in (("int8", dtype), (dtype, "int8")):
        numbers = np.arange(count) * 7 - 130 if source != "bool" else np.arange(count) % 2
        x = (numbers.clip(-128, 127) if source == "float32" else numbers).reshape(sizes).astype(source)
        port = Port("x", DType.of(source), shape)
        recorded_program = record_program(lambda x, to=target: [p.cast(x, DType.of(to))], [port], SHIM.emitter(), ["y"])
        operators = build(recorded_program, features.kernels()).subgraphs[0].operators
        assert ("GATHER" if target == "int8" else "DEQUANTIZE") in [op.builtin for op in operators]
        (actual,) = SHIM.compile(recorded_program).run([x])
        np.testing.assert_array_equal(actual, x.astype(target))
        assert actual.dtype == target


def test_identities_are_removed() -> None:
    def neutral(x: Any) -> Any:
        return p.tanh(p.sub(p.div(p.mul(x, 1.0), 1.0), 0.0))

    assert names(neutral, (4, 5)) == ["TANH"]
    bounds = names(lambda x: p.minimum(p.maximum(p.tanh(x), -np.inf), np.inf), (4, 5))
    assert not {"MAXIMUM", "MINIMUM"}.intersection(bounds)
    assert names(lambda x: p.tanh(p.mul(x, np.ones((3, 1, 1), np.float32))), (4, 5)) == ["MUL", "TANH"]
    assert names(lambda x: p.tanh(p.sub(0.0, x)), (4, 5)) == ["SUB", "TANH"]
    assert names(lambda x: p.tanh(p.add(x, 0.0)), (4, 5)) == ["ADD", "TANH"]  # which makes -0 positive


def test_no_op_clamps_are_removed() -> None:
    graph = fb.SubGraph(inputs=[0], outputs=[5])
    for number in (None, -np.inf, np.inf, None, None, None):
        constant = None if number is None else np.asarray(number, np.float32)
        graph.add(fb.TensorSpec("t", "float32", (4,) if number is None else (), constant))
    for builtin, inputs, output in (("MAXIMUM", [1, 0], 3), ("MINIMUM", [3, 2], 4), ("TANH", [4], 5)):
        graph.operators.append(fb.OperatorSpec(builtin, list(inputs), [output]))
    optimize(fb.ModelSpec([graph]), Kernels())
    assert [op.builtin for op in graph.operators] == ["TANH"]


def test_a_range_reads_a_size_without_clamp_and_cast() -> None:
    """RANGE counts to a size as an int32 scalar, without a clamp or a cast. ONNX stores sizes in int64 vectors."""

    def positions(x: Any) -> Any:
        return p.add(x, p.cast(p.iota(x.shape[1]), DType.of("float32")))

    assert names(positions, (2, None), fed=[(2, 5)]) == ["SHAPE", "STRIDED_SLICE", "RANGE", "CAST", "ADD"]

    def differences(x: Any) -> Any:
        count = p.iota(p.sub(x.shape[0], 2))
        return p.add(p.cast(count, DType.of("float32")), p.reduce_sum(x))

    assert "MAXIMUM" in names(differences, (None, 3), fed=[(4, 3)])


def test_a_quantised_one_of_another_scale_is_not_neutral() -> None:
    tenths, halves = fb.Quantization([0.1], [0]), fb.Quantization([0.5], [0])
    graph = fb.SubGraph(inputs=[0], outputs=[2])
    graph.add(fb.TensorSpec("x", "int8", (4,), quantization=tenths))
    graph.add(fb.TensorSpec("half", "int8", (1,), np.ones(1, np.int8), quantization=halves))
    graph.add(fb.TensorSpec("y", "int8", (4,), quantization=tenths))
    graph.add(fb.TensorSpec("z", "int8", (4,), quantization=tenths))
    graph.operators = [fb.OperatorSpec("MUL", [0, 1], [3]), fb.OperatorSpec("TANH", [3], [2])]
    optimize(fb.ModelSpec([graph]), Kernels())
    assert [op.builtin for op in graph.operators] == ["MUL", "TANH"]


def test_an_output_replaces_an_unread_value() -> None:
    assert names(lambda x: p.sub(p.tanh(x), 0.0), (4, 5)) == ["TANH"]
    assert names(lambda x: p.sub(x, 0.0), (4, 5)) == ["SUB"]  # an input is not an output


def test_a_reshape_to_the_same_sizes_is_removed_beside_an_open_batch() -> None:
    def layer(x: Any) -> Any:
        image, filters = p.reshape(x, (x.shape[0], 1, 8, 6)), np.ones((2, 1, 3, 3), np.float32)
        return p.conv(image, filters, window=Window.of((3, 3), pads=[(1, 1)] * 2))

    recorded_program = build(program(layer, ("n", 8, 6, 1)), Kernels()).subgraphs[0].operators
    assert [op.builtin for op in recorded_program] == ["CONV_2D", "TRANSPOSE"]


def test_factors_after_a_layer_fold_into_its_weights() -> None:
    random = np.random.RandomState(0)
    weights, bias, factor = (random.standard_normal(shape).astype(np.float32) for shape in ((6, 5), 5, 5))

    def layer(x: Any) -> Any:
        return p.add(p.matmul(x, weights), bias)

    assert names(layer, (4, 6)) == ["FULLY_CONNECTED"]
    assert names(lambda x: p.neg(layer(x)), (4, 6)) == ["FULLY_CONNECTED"]
    assert names(lambda x: p.sub(2.0, p.div(p.mul(layer(x), factor), 8.0)), (4, 6)) == ["FULLY_CONNECTED"]
    bounded = check_program(lambda x: p.relu(p.sub(layer(x), factor)), (4, 6))
    assert [op.builtin for op in bounded] == ["FULLY_CONNECTED"]
    assert bounded[0].options["fused_activation_function"] == "RELU"
    assert names(lambda x: p.mul(p.relu(layer(x)), factor), (4, 6)) == ["FULLY_CONNECTED", "MUL"]
    assert names(lambda x: p.mul(layer(x), factor[:4, None]), (4, 6)) == ["FULLY_CONNECTED", "MUL"]
    assert names(lambda x: p.mul(layer(x), 1e-40), (4, 6)) == ["FULLY_CONNECTED", "MUL"]
    assert names(lambda x: p.div(2.0, layer(x)), (4, 6)) == ["FULLY_CONNECTED", "DIV"]
    assert names(lambda x: p.mul(layer(x), factor[:, None]), (5, 6)) == ["FULLY_CONNECTED", "MUL"]  # another axis
    assert names(lambda x: p.mul(layer(x), factor[None, None]), (4, 6)) == ["FULLY_CONNECTED", "MUL"]  # one axis more


def test_a_division_by_zero_does_not_fold_into_weights() -> None:
    """Only the operators are checked: older delegates give the largest finite number in place of infinity."""
    weights = np.random.RandomState(0).standard_normal((6, 5)).astype(np.float32)
    recorded_program = program(lambda x: p.div(p.matmul(x, weights), np.float32([1, 0, 2, 3, 4])), (4, 6))
    assert [op.builtin for op in build(recorded_program, Kernels()).subgraphs[0].operators] == [
        "FULLY_CONNECTED",
        "DIV",
    ]


@pytest.mark.parametrize(("size", "folded"), [(8, True), (130, False)])
@pytest.mark.parametrize("before", [True, False])
def test_shared_large_weights_stay_shared(size: int, folded: bool, before: bool) -> None:
    """Two layers share one weight, like the steps of an unrolled recurrent network."""
    graph = fb.SubGraph(inputs=[0, 1], outputs=[6, 7])
    weights, two = np.ones((size, size), np.float32), np.asarray(2, np.float32)
    for array in (None, None, weights, two, None, None, None, None):
        shape = (4, size) if array is None else array.shape
        graph.add(fb.TensorSpec("t%d" % len(graph.tensors), "float32", shape, array))
    for x, y, z in ((0, 4, 6), (1, 5, 7)):
        steps = [("FULLY_CONNECTED", 2), ("MUL", 3)][:: -1 if before else 1]
        for (builtin, constant), source, result in zip(steps, (x, y), (y, z)):
            graph.operators.append(fb.OperatorSpec(builtin, [source, constant], [result]))
    optimize(fb.ModelSpec([graph]), Kernels())
    assert ("MUL" not in [op.builtin for op in graph.operators]) is folded
    used = {op.inputs[1] for op in graph.operators if op.builtin == "FULLY_CONNECTED"}
    assert len(used) == 1 or before


def test_computed_weights_are_not_folded() -> None:
    filters = np.ones((6, 3, 1, 1), np.float32)

    def convolve(x: Any, w: Any, bias: Any) -> Any:
        return p.conv(x, w, bias, window=Window.of((1, 1)))

    def before(x: Any, w: Any, bias: Any) -> Any:
        return convolve(p.add(p.relu(convolve(x, np.ones((3, 3, 1, 1), np.float32), None)), 2.0), w, bias)

    for function in (lambda x, w, b: p.mul(convolve(x, w, b), 2.0), before):
        kind = "ADD" if function is before else "MUL"
        bias = names(lambda x, b, function=function: function(x, filters, p.tanh(b)), (1, 3, 4, 5), (6,))
        weights = names(lambda x, w, function=function: function(x, p.tanh(w), None), (1, 3, 4, 5), (6, 3, 1, 1))
        assert kind in bias and kind in weights


def test_a_normalisation_folds_into_the_layers_that_read_it() -> None:
    random = np.random.RandomState(0)
    weights, other_weights, factor, summand = (
        random.standard_normal(s).astype(np.float32) for s in ((6, 5), (6, 4), 6, 6)
    )

    def normal(x: Any) -> Any:
        return p.add(p.mul(p.tanh(x), factor), summand)

    def both(x: Any) -> Any:
        return p.concat([p.add(p.matmul(normal(x), weights), 1.0), p.matmul(normal(x), other_weights)], 1)

    assert names(both, (4, 6)) == ["TANH", "FULLY_CONNECTED", "FULLY_CONNECTED", "CONCATENATION"]
    assert names(lambda x: p.matmul(p.sub(1.0, p.tanh(x)), weights), (4, 6)) == ["TANH", "FULLY_CONNECTED"]
    kept = names(lambda x: p.concat([p.matmul(normal(x), weights), normal(x)], 1), (4, 6))
    assert kept == ["TANH", "MUL", "ADD", "FULLY_CONNECTED", "CONCATENATION"]
    assert names(lambda x: p.matmul(p.relu(normal(x)), weights), (4, 6)) == ["TANH", "MUL", "ADD", "FULLY_CONNECTED"]
    assert names(lambda x: p.matmul(p.mul(p.tanh(x), 1e-40), weights), (4, 6)) == ["TANH", "MUL", "FULLY_CONNECTED"]


@pytest.mark.parametrize(("kernel", "folded"), [(1, True), (3, False)])
def test_a_shift_folds_into_a_following_1x1_convolution(kernel: int, folded: bool) -> None:
    """A shift before a 1x1 convolution folds into it.

    A larger convolution pads its input, and the pads would need the shift.
    """

    def convolve(x: Any, taps: int) -> Any:
        w = np.ones((3, 3, taps, taps), np.float32)
        return p.conv(x, w, window=Window.of((taps, taps), pads=[(taps // 2,) * 2] * 2))

    def layers(x: Any) -> Any:
        return convolve(p.add(p.relu(convolve(x, 1)), np.ones((3, 1, 1), np.float32)), kernel)

    recorded_program = [op.builtin for op in build(program(layers, (2, 3, 8, 6)), Kernels()).subgraphs[0].operators]
    assert recorded_program[1:-1] == (["CONV_2D", "CONV_2D"] if folded else ["CONV_2D", "ADD", "CONV_2D"])


def test_a_layer_with_two_readers_keeps_its_weights() -> None:
    def both(x: Any) -> Any:
        inner = p.matmul(x, np.ones((6, 5), np.float32))
        return p.mul(p.neg(inner), p.tanh(inner))

    assert names(both, (4, 6)) == ["FULLY_CONNECTED", "NEG", "TANH", "MUL"]


def test_common_subexpressions_are_computed_once() -> None:
    assert names(lambda x: p.mul(p.add(p.tanh(x), 1.0), p.sub(p.tanh(x), 2.0)), (4, 5)) == ["TANH", "ADD", "SUB", "MUL"]


def test_nested_concatenations_are_merged() -> None:
    def join(x: Any, last: int = 1) -> Any:
        parts = [p.tanh(x), p.sin(x), p.cos(x)]
        return p.concat([p.concat(parts[:2], 1), parts[2]], last)

    assert names(join, (4, 5)).count("CONCATENATION") == 1
    assert (
        names(lambda x: p.concat([p.concat([x, x], 0), p.concat([p.tanh(x)] * 2, 0)], 1), (4, 5)).count("CONCATENATION")
        == 3
    )

    def four(x: Any) -> Any:
        return p.concat([p.tanh(x), p.sin(x), p.cos(x), p.exp(x)], 1)

    many = names(lambda x: p.concat([four(x), x], 1), (4, 5))
    assert many.count("CONCATENATION") == 2  # five parts are more than XNNPACK joins
    assert names(lambda x: p.tanh(p.concat([p.sin(x), p.cos(x)], 0)), (4, 5))[-2:] == ["CONCATENATION", "TANH"]


@pytest.mark.parametrize(("scale", "count"), [(0.1, 1), (0.2, 2)])
def test_concatenations_of_different_scales_stay(scale: float, count: int) -> None:
    graph = fb.SubGraph(inputs=[0, 1, 2], outputs=[4])
    for rows, step in ((1, 0.1), (1, 0.1), (1, scale), (2, scale), (3, scale)):
        graph.add(
            fb.TensorSpec("t%d" % len(graph.tensors), "int8", (rows, 4), quantization=fb.Quantization([step], [0]))
        )
    for inputs, output in (([0, 1], 3), ([3, 2], 4)):
        graph.operators.append(fb.OperatorSpec("CONCATENATION", inputs, [output], {"axis": 0}))
    optimize(fb.ModelSpec([graph]), Kernels())
    assert len(graph.operators) == count


def test_a_variable_has_no_producer() -> None:
    tensors = [fb.TensorSpec(name, "float32", (4,), is_variable=name == "state") for name in ("x", "state", "y")]
    copies = [fb.OperatorSpec("ABS", [k], [k + 1]) for k in range(2)]
    graph = GraphRewriter(fb.SubGraph(tensors, copies, [0], [2]))
    assert graph.producer(1, "ABS") is None
    assert graph.producer(2, "ABS") is copies[1]
