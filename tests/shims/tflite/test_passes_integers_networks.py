"""QDQ models of several layers, operators on quantised tensors, and the borders between integers and floats.

A kernel may differ by one step, if a number is halfway between two integers. Later layers carry that difference on. So
a single layer must be within one step of its result; these networks must be within two steps and give the same answer.
"""

from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from qdq import Case, Layers, Scheme, quantize_model

import onnx_compat


def cnn(layers: Layers) -> str:
    x = layers.node("Relu", layers.conv("x", 3, 16, strides=[2, 2]))
    inner = layers.conv(layers.node("Relu", layers.conv(x, 16, 16, group=16)), 16, 16, taps=1)
    x = layers.node("MaxPool", layers.node("Add", x, inner), kernel_shape=[2, 2], strides=[2, 2])
    sides = [layers.node("Relu", layers.conv(x, 16, 8, taps=taps)) for taps in (1, 3)]
    x = layers.node("GlobalAveragePool", layers.node("Concat", *sides, axis=1))
    return layers.gemm(layers.node("Flatten", x), 16, 10)


def mlp(layers: Layers) -> str:
    x = layers.node("MatMul", layers.node("Flatten", "x"), layers.weight(3 * 32 * 32, 24, scale=0.05))
    x = layers.node("Relu", layers.node("Add", x, layers.weight(24)))
    return layers.node("Sigmoid", layers.node("MatMul", x, layers.weight(24, 6, scale=2)))


def attention(layers: Layers) -> str:
    x = layers.node("Reshape", "x", layers.constant(np.asarray([-1, 32, 96], np.int64)))
    parts: List[str] = []
    for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        part = layers.node("MatMul", x, layers.weight(96, 16, scale=0.1))
        heads = layers.node("Reshape", part, layers.constant(np.asarray([-1, 32, 2, 8], np.int64)))
        parts.append(layers.node("Transpose", heads, perm=perm))
    products = layers.node("Mul", layers.node("MatMul", parts[0], parts[1]), layers.constant(np.float32(12)))
    mixed = layers.node("MatMul", layers.node("Softmax", products, axis=-1), parts[2])
    joined = layers.node("Transpose", mixed, perm=[0, 2, 1, 3])
    joined = layers.node("Reshape", joined, layers.constant(np.asarray([-1, 32, 16], np.int64)))
    return layers.node("Add", x, layers.node("MatMul", joined, layers.weight(16, 96, scale=0.1)))


NETWORKS: Dict[Callable[[Layers], str], Sequence[str]] = {
    cnn: ("CONV_2D", "DEPTHWISE_CONV_2D", "ADD", "MAX_POOL_2D", "CONCATENATION", "MEAN"),
    mlp: ("ADD", "LOGISTIC"),
    attention: ("BATCH_MATMUL", "MUL", "SOFTMAX", "TRANSPOSE", "ADD"),
}


@pytest.mark.parametrize(
    "scheme",
    [
        Scheme("uint8", "int8"),
        Scheme("uint8", "uint8"),
        Scheme("uint8", "int8", True),
        Scheme("int8", "int8", True),
        Scheme("int8", "int8", False, True),
    ],
    ids=lambda scheme: "-".join(map(str, scheme)),
)
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)
def test_a_network_has_no_floats_inside(network: Callable[[Layers], str], scheme: Scheme, tmp_path: Path) -> None:
    layers = Layers([1, 3, 32, 32])
    x = layers.input()
    case = Case(quantize_model(layers.model(network(layers)), x, scheme), x, tmp_path)
    assert case.floats() == [] and set(NETWORKS[network]) <= set(case.names)
    assert case.steps() < 2.001
    assert case.ours()[0].argmax() == case.theirs(False)[0].argmax()


def test_a_quantised_file_is_judged_as_quantised(tmp_path: Path) -> None:
    """A quantised file is judged by its SNR: one step of a scale is more than the tolerance for floats."""
    layers = Layers([1, 3, 32, 32])
    x = layers.input()
    Case(quantize_model(layers.model(attention(layers)), x, Scheme("uint8", "int8")), x, tmp_path)
    files = str(tmp_path / "model.onnx"), str(tmp_path / "model.tflite")
    report = onnx_compat.verify(files[0], converted=files[1], inputs={"x": x})
    assert report.ok and report.fidelity == 20
    assert not onnx_compat.verify(files[0], converted=files[1], inputs={"x": x}, rtol=1e-6, atol=0).ok


def test_the_batch_may_be_of_any_size(tmp_path: Path) -> None:
    layers = Layers([1, 3, 32, 32])
    x = layers.input()
    model = quantize_model(layers.model(cnn(layers)), x, Scheme("uint8", "int8", True))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    case = Case(model, np.concatenate([x, -x, x / 2]), tmp_path)
    assert case.floats() == [] and case.steps() < 2.001


def test_operators_without_integer_kernel_stay_in_floats(tmp_path: Path) -> None:
    layers = Layers([1, 4, 9, 9])
    x = layers.input()
    inner = layers.node("Exp", layers.conv("x", 4, 6))
    case = Case(quantize_model(layers.model(layers.conv(inner, 6, 3)), x, Scheme("uint8")), x, tmp_path)
    assert case.names.count("CONV_2D") == 2 and "EXP" in case.floats()
    assert case.steps() < 2.001


# -- operators on quantized numbers -----------------------------------------------------------------------------------------
F = np.float32


def numbers(dtype: Any, *shape: int) -> Any:
    ends = np.iinfo(dtype)
    return np.random.RandomState(3).randint(ends.min, ends.max + 1, shape).astype(dtype)


def operator_case(
    operator: str, shape: Sequence[int], dtype: Any, rest: Sequence[Any], folder: Path, **how: Any
) -> Case:
    """Return a case of one operator. Its first input is the input of the graph, and the others are initializers."""
    names = ["x"] + ["c%d" % k for k in range(len(rest))]
    domain = "" if operator in ("QLinearConv", "QLinearMatMul") else "com.microsoft"
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) if hasattr(helper, "np_dtype_to_tensor_dtype") else None
    kind = kind or {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}[np.dtype(dtype).name]
    graph = helper.make_graph(
        [helper.make_node(operator, names, ["y"], domain=domain, **how)],
        "operator",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in zip(names[1:], rest)],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 7
    return Case(model, numbers(dtype, *shape), folder)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_operators_on_quantized_numbers_are_kernels_of_integers(dtype: Any, tmp_path: Path) -> None:
    zero = dtype(3)
    given = [F(0.02), zero]
    weights = np.random.RandomState(4).randint(-127, 128, (6, 4, 3, 3)).astype(np.int8)
    scales, zeros = np.linspace(0.01, 0.03, 6).astype(F), np.zeros(6, np.int8)
    bias = np.arange(-3, 3).astype(np.int32) * 1000
    square = numbers(np.int8, 9, 5)
    square[square == -128] = 0
    cases = {
        "CONV_2D": ("QLinearConv", [*given, weights, scales, zeros, F(0.3), zero, bias], {"pads": [1, 1, 1, 1]}),
        "FULLY_CONNECTED": ("QLinearMatMul", [*given, square, F(0.01), np.int8(0), F(0.03), zero], {}),
        "ADD": ("QLinearAdd", [*given, numbers(dtype, 9), F(0.01), zero, F(0.03), zero], {}),
        "MUL": ("QLinearMul", [*given, numbers(dtype, 9), F(0.01), zero, F(0.03), zero], {}),
        "LOGISTIC": ("QLinearSigmoid", [*given, F(1 / 256), dtype(np.iinfo(dtype).min)], {}),
        "MEAN": ("QLinearGlobalAveragePool", [*given, F(0.01), zero], {}),
        "LEAKY_RELU": ("QLinearLeakyRelu", [*given, F(0.015), zero], {"alpha": 0.1}),
    }
    for kernel, (operator, rest, how) in cases.items():
        (tmp_path / operator).mkdir()
        case = operator_case(operator, [1, 4, 9, 9], dtype, rest, tmp_path / operator, **how)
        assert kernel in case.names and case.floats() == [], operator
        assert case.steps() < 1.001, operator
        first, last = (case.graph.tensors[index[0]].dtype for index in (case.graph.inputs, case.graph.outputs))
        assert (first, last) == (np.dtype(dtype).name, np.dtype(dtype).name)


@pytest.mark.parametrize(("depth", "products"), [(700, 1), (3000, 2)])
def test_a_product_of_integers_is_one_of_floats(depth: int, products: int, tmp_path: Path) -> None:
    """Dynamic quantisation writes MatMulInteger.

    TFLite has no kernel for it, and a product of all elements needs much memory.
    """
    weights = np.random.RandomState(4).normal(0, 40, (depth, 6)).clip(-127, 127).astype(np.int8)
    graph = helper.make_graph(
        [
            helper.make_node("DynamicQuantizeLinear", ["x"], ["a", "s", "z"]),
            helper.make_node("MatMulInteger", ["a", "b", "z"], ["y"]),
        ],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, depth])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(weights, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 7
    case = Case(model, np.random.RandomState(5).randn(3, depth).astype(F), tmp_path)
    assert case.names.count("FULLY_CONNECTED") == products and "SUM" not in case.names
    np.testing.assert_array_equal(case.ours()[0], case.theirs(False)[0])


# -- where no integers are --------------------------------------------------------------------------------------------------
def pair(shape: Sequence[int], scale: Any, zero: Any, again: Any, middle: Sequence[Any] = ()) -> Any:
    """Return a model: QuantizeLinear, the nodes `middle`, and DequantizeLinear with the scale `again`."""
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]), *middle]
    last = middle[-1].output[0] if middle else "q"
    nodes.append(helper.make_node("DequantizeLinear", [last, "t", "z"], ["y"]))
    held = {"s": scale, "z": zero, "t": again}
    graph = helper.make_graph(
        nodes,
        "pair",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 7
    return model


def test_a_pair_alone_rounds_halves_to_even(tmp_path: Path) -> None:
    x = (np.arange(-20, 21) / 2).astype(F)
    case = Case(pair(x.shape, F(1), np.uint8(30), F(1)), x, tmp_path)
    np.testing.assert_array_equal(case.ours()[0], np.round(x))


def test_a_second_scale_is_no_integer_region(tmp_path: Path) -> None:
    x = np.linspace(-3, 3, 36, dtype=F).reshape(1, 1, 6, 6)
    pool = helper.make_node("MaxPool", ["q"], ["p"], kernel_shape=[2, 2])
    case = Case(pair(x.shape, F(0.05), np.uint8(64), F(0.5), [pool]), x, tmp_path)
    np.testing.assert_allclose(case.ours()[0], case.theirs(False)[0], rtol=1e-6)


def test_weights_that_are_no_integers_stay_floats(tmp_path: Path) -> None:
    layers = Layers([1, 4, 9, 9])
    x = layers.input()
    model = quantize_model(layers.model(layers.conv("x", 4, 6)), x, Scheme("uint8"))
    for node in model.graph.node:
        if node.input[0] == "w0_q":
            node.CopyFrom(helper.make_node("Identity", ["floats"], list(node.output)))
    model.graph.initializer.append(numpy_helper.from_array(layers.weights["w0"], "floats"))
    case = Case(model, x, tmp_path)
    assert "CONV_2D" in case.floats() and case.steps() < 1.001
