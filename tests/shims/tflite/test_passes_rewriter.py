"""The rewriter keeps the readers of each tensor exact, and a pass that gives up leaves the graph unchanged."""

from typing import Any

import numpy as np
import pytest
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.constant_factors import constant_factors
from onnx_compat_tflite.passes.contract import ExampleGraph
from onnx_compat_tflite.passes.disjoint_transpose_conv import disjoint_transpose_conv
from onnx_compat_tflite.passes.integers.parameters import QuantParams
from onnx_compat_tflite.passes.integers.region import QuantizedRegion
from onnx_compat_tflite.passes.integers.unary import leaky_relu
from onnx_compat_tflite.passes.rewriter import GraphRewriter
from programs import run_model


def _square() -> GraphRewriter:
    """Return x and y = RELU(x), NEG(x), z = MUL(y, y)."""
    tensors = [fb.TensorSpec(name, "float32", (2,)) for name in ("x", "y", "n", "z")]
    operators = [
        fb.OperatorSpec("RELU", [0], [1]),
        fb.OperatorSpec("NEG", [0], [2]),
        fb.OperatorSpec("MUL", [1, 1], [3]),
    ]
    return GraphRewriter(fb.SubGraph(tensors, operators, [0], [2, 3]))


def test_a_tensor_that_is_read_twice_has_no_reader_after_the_replacement_of_its_reads() -> None:
    graph = _square()
    product = graph.operators[2]
    graph.replace_reads(1, 2)
    assert list(product.inputs) == [2, 2]
    assert graph.readers(1) == [] and graph.only_reader(1) is None
    assert graph.readers(2) == [product, product]


@pytest.mark.parametrize("position", [0, 1])
def test_a_tensor_that_is_read_twice_keeps_one_reader_if_one_read_is_replaced(position: int) -> None:
    graph = _square()
    product = graph.operators[2]
    graph.set_input(product, position, 2)
    assert graph.readers(1) == [product] and graph.only_reader(1) is product
    assert graph.readers(2) == [product]


def test_a_sum_whose_constant_overflows_leaves_no_constant_behind() -> None:
    example = ExampleGraph((2, 3))
    product = example.op("MUL", [example.inputs[0], example.constant(2.0)], (2, 3))
    total = example.op("ADD", [product, example.constant(1e30)], (2, 3))
    model = example.model(example.op("MUL", [total, example.constant(1e30)], (2, 3)))
    before = fb.to_bytes(model)
    graph: Any = GraphRewriter(model.subgraphs[0])
    assert constant_factors.apply(graph, None) == 0
    assert fb.to_bytes(model) == before


def test_a_row_of_single_pixels_becomes_a_convolution_alone() -> None:
    example = ExampleGraph((1, 1, 3, 2))
    shape = example.constant([1, 1, 3, 4], np.int32)
    inputs = [shape, example.filters(4, 1, 1, 2), example.inputs[0]]
    model = example.model(example.op("TRANSPOSE_CONV", inputs, (1, 1, 3, 4), padding="VALID", stride_h=1, stride_w=1))
    x = np.arange(6, dtype=np.float32).reshape(1, 1, 3, 2)
    (wanted,) = run_model(model, [x])
    graph: Any = GraphRewriter(model.subgraphs[0])
    assert disjoint_transpose_conv.apply(graph, None) == 1
    assert [op.builtin for op in graph.operators] == ["CONV_2D"]
    np.testing.assert_allclose(run_model(model, [x])[0], wanted, rtol=1e-6)


@pytest.mark.parametrize("sizes", [(-1, 0), (0, -1)])
def test_a_copy_of_integers_computes_an_open_size_beside_a_size_of_zero(sizes: Any) -> None:
    """RESHAPE divides by the product of the other sizes to find the open size."""
    stored = tuple(max(size, 1) if size else 0 for size in sizes)
    tensors = [fb.TensorSpec(name, "int8", stored, shape_signature=sizes) for name in "xy"]
    model = fb.ModelSpec([fb.SubGraph(tensors, [], [0], [1])])
    region = QuantizedRegion(GraphRewriter(model.subgraphs[0]))
    region._append_copy(0, 1)
    region.finish()
    assert [op.builtin for op in model.subgraphs[0].operators] == ["SHAPE", "RESHAPE"]
    fed = np.zeros([3 if size < 0 else size for size in sizes], np.int8)
    assert run_model(model, [fed])[0].shape == fed.shape


@pytest.mark.parametrize(("activation", "is_slope"), [("NONE", True), ("RELU", False)])
def test_a_product_with_an_activation_is_no_slope(activation: str, is_slope: bool) -> None:
    """max(x, relu(x / 2)) is 0 for a negative x, where LEAKY_RELU gives x / 2."""
    example = ExampleGraph((2,), dtype="int8")
    x = example.op("MUL", [example.op("CAST", example.inputs, (2,)), example.constant(0.25)], (2,))
    half = example.op("MUL", [x, example.constant(0.5)], (2,), fused_activation_function=activation)
    model = example.model(example.op("MAXIMUM", [x, half], (2,)))
    region = QuantizedRegion(GraphRewriter(model.subgraphs[0]))
    writer = leaky_relu(region, model.subgraphs[0].operators[-1], QuantParams(0.25, 0, "int8"))
    assert (writer is not None) == is_slope
