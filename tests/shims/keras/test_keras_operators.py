"""Operators that Keras has no layer for, as `.keras` files: composed of `keras.ops`, loaded again, compared with the reference."""

from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence

import keras
import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx_compat_keras.features import back_end

import onnx_compat
from matrix.harness.generators import per_test

ALL = ("tensorflow", "jax", "torch")
FLOAT, HALF, INT64, INT32, INT8 = (
    TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.INT32, TensorProto.INT8,
)  # fmt: skip
UINT8, UINT64 = TensorProto.UINT8, TensorProto.UINT64
RNG = per_test(np.random.RandomState(0))


class Sample(NamedTuple):
    """Nodes, the inputs with their declared shapes, feeds, constants, and the back ends whose files hold the nodes.

    `needs`: the functions of keras.ops without which a file does not hold the nodes.
    """

    nodes: Sequence[Any]
    shapes: Mapping[str, Any]
    feeds: Mapping[str, np.ndarray]
    weights: Mapping[str, np.ndarray] = {}
    back_ends: Sequence[str] = ALL
    needs: Sequence[str] = ()


def to_model(sample: Sample) -> ModelProto:
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), sample.shapes[name])
        for name, array in sample.feeds.items()
    ]
    inner = {name for node in sample.nodes for name in node.input}
    outputs = [
        helper.make_empty_tensor_value_info(name) for node in sample.nodes for name in node.output if name not in inner
    ]
    initializers = [numpy_helper.from_array(array, name) for name, array in sample.weights.items()]
    graph = helper.make_graph(sample.nodes, "model", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def pools(dtype: Any) -> Sample:
    window: Dict[str, Any] = {"kernel_shape": [3, 2], "dilations": [2, 3], "strides": [2, 1]}
    nodes = [
        node("MaxPool", "x", "a", pads=[1, 0, 2, 1], **window),
        node("MaxPool", "x", "b", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    if dtype != np.uint8:
        nodes.append(node("AveragePool", "x", "c", pads=[1, 0, 2, 1], count_include_pad=0, **window))
    x = (RNG.rand(2, 3, 9, 8) * 200 - 100 * (dtype != np.uint8)).astype(dtype)
    return Sample(nodes, {"x": ["n", 3, "h", 8]}, {"x": x})


def computed_filters(groups: int, dtype: Any = np.float32) -> Sample:
    """Return convolutions whose filter is an input."""
    x, w = numbers(2, 4, 7, 6).astype(dtype), numbers(4, 4 // groups, 3, 2).astype(dtype)
    t = numbers(4, 2, 3, 2).astype(dtype)
    nodes = [
        node("Conv", "x w", "a", group=groups, strides=[2, 1], dilations=[1, 2], pads=[1, 0, 1, 1]),
        node("Conv", "x w", "b", group=groups, strides=[2, 2], dilations=[2, 2]),
        node(
            "ConvTranspose", "x t", "c", group=min(groups, 2), strides=[2, 3], dilations=[1, 2], output_padding=[1, 0]
        ),
        node("ConvTranspose", "x t", "d", group=min(groups, 2), pads=[1, 1, 0, 0]),
    ]
    shapes = {"x": ["n", 4, "h", 6], "w": list(w.shape), "t": list(t.shape)}
    return Sample(nodes, shapes, {"x": x, "w": w, "t": t})


def depthwise_filters() -> Sample:
    nodes = [
        node("Conv", "x w", "a", group=3, strides=[2, 1]),
        node("Conv", "x w", "b", group=3, pads=[1, 1, 1, 1]),
        node("Conv", "y v", "c", group=3),
    ]
    feeds = {
        "x": numbers(1, 3, 7, 6),
        "w": numbers(6, 1, 3, 3),
        "y": numbers(1, 3, 4, 4, 4),
        "v": numbers(3, 1, 2, 2, 2),
    }
    return Sample(nodes, {name: list(array.shape) for name, array in feeds.items()}, feeds)


def integer_products(dtype: Any) -> Sample:
    limits = np.iinfo(dtype)
    a = RNG.randint(limits.min // 2, limits.max // 2, (2, 5, 4)).astype(dtype)
    b = RNG.randint(limits.min // 2, limits.max // 2, (4, 3)).astype(dtype)
    nodes = [node("MatMul", "a b", "y"), node("MatMul", "a c", "z")]
    back_ends = ALL if dtype == np.int32 else ("tensorflow", "jax")
    return Sample(nodes, {"a": ["n", 5, 4], "b": [4, 3]}, {"a": a, "b": b}, {"c": b[:, :2] % 2**20}, back_ends)


def quantised_product() -> Sample:
    a, b = RNG.randint(0, 255, (4, 300)).astype(np.uint8), RNG.randint(-127, 127, (300, 3)).astype(np.int8)
    weights = {"za": np.array(7, np.uint8), "zb": np.array([1, 0, -3], np.int8)}
    return Sample(
        [node("MatMulInteger", "a b za zb", "y")], {"a": ["n", 300], "b": [300, 3]}, {"a": a, "b": b}, weights
    )


def uint64_arithmetic() -> Sample:
    """Return arithmetic on uint64 whose results depend on all 64 bits."""
    x = np.array([2**63 + 5, 7, 2**64 - 1, 0, 2**53 + 1], np.uint64)
    y = np.array([3, 2**63 + 1, 2**64 - 2, 5, 10], np.uint64)
    s = np.array([0, 1, 63, 64, 40], np.uint64)
    binary = "Add Sub Mul Div Mod Less LessOrEqual Greater Equal BitwiseAnd BitwiseXor".split()
    nodes = [node(operator, "x y", operator.lower()) for operator in binary]
    nodes += [node(operator, "x y", operator.lower()) for operator in ("Max", "Min")]
    nodes += [node("BitShift", "x s", "left", direction="LEFT"), node("BitShift", "x s", "right", direction="RIGHT")]
    nodes += [node("ArgMax", "x", "argmax"), node("ReduceMax", "x", "reducemax"), node("TopK", "x k", "top at")]
    nodes += [
        node("Cast", "x", "float", to=FLOAT),
        node("Cast", "x", "narrow", to=INT32),
        node("Div", "x ten", "tenth"),
    ]
    weights = {"k": np.array([3], np.int64), "ten": np.array(10, np.uint64)}
    shapes = {name: ["n"] for name in ("x", "y", "s")}
    return Sample(nodes, shapes, {"x": x, "y": y, "s": s}, weights, ("tensorflow", "jax"))


def integer_powers() -> Sample:
    x, y = np.array([3, -1, -1, 2, 0, 1], np.int32), np.array([13, -3, -2, -1, 0, -9], np.int32)
    return Sample([node("Pow", "x y", "z")], {"x": ["n"], "y": ["n"]}, {"x": x, "y": y}, {}, ("tensorflow", "torch"))


def bounds_of_int64() -> Sample:
    nodes = [
        node("Clip", "x low high", "a"),
        node("Clip", "x low", "b"),
        node("Max", "x y", "c"),
        node("Min", "x y", "d"),
    ]
    x = np.array([2**62, -(2**62), 2**33 + 1, 5, 0], np.int64)
    weights = {"low": np.array(-(2**34), np.int64), "high": np.array(2**33, np.int64)}
    return Sample(nodes, {"x": ["n"], "y": ["n"]}, {"x": x, "y": x[::-1].copy()}, weights)


def bits() -> Sample:
    """Return operations on bits by constants, and triangles of an empty matrix."""
    nodes = [node("BitwiseAnd", "x m", "a"), node("BitwiseOr", "x m", "b"), node("Trilu", "e", "c", upper=0)]
    feeds = {"x": np.arange(6, dtype=np.int32).reshape(2, 3), "e": np.zeros((3, 0, 5), np.int64)}
    return Sample(nodes, {"x": ["n", 3], "e": [3, 0, 5]}, feeds, {"m": np.array([1, 2, 12], np.int32)})


def scatter_in_order() -> Sample:
    """Return a ScatterND with equal indices, of which the last counts, and a ScatterElements."""
    nodes = [node("ScatterND", "x i u", "y"), node("ScatterElements", "x j v", "z", axis=1)]
    feeds = {
        "x": numbers(4, 3), "i": np.array([[1], [3], [1], [1]], np.int64), "u": numbers(4, 3),
        "j": np.array([[2, 0], [1, 0]], np.int64), "v": numbers(2, 2),
    }  # fmt: skip
    return Sample(nodes, {name: list(array.shape) for name, array in feeds.items()}, feeds)


def static_scan(reverse: int) -> Sample:
    """Return a Scan of a known length, which files of JAX hold too."""
    port = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("MatMul", "h m", "p"), node("Add", "p x", "k"), node("Tanh", "k", "y"), node("Identity", "y", "z")],
        "body", [port("h", FLOAT, [2, 3]), port("x", FLOAT, [2, 3])], [port("y", FLOAT, [2, 3]), port("z", FLOAT, [2, 3])],
    )  # fmt: skip
    scan = node("Scan", "h0 xs", "last all", body=body, num_scan_inputs=1, scan_input_directions=[reverse])
    feeds = {"h0": numbers(2, 3), "xs": numbers(5, 2, 3)}
    return Sample([scan], {"h0": [2, 3], "xs": [5, 2, 3]}, feeds, {"m": numbers(3, 3)})


def loop_of_rounds(count: int, ends: bool) -> Sample:
    """Return a Loop with a known limit of its rounds. If `ends`, it ends before; else it stacks two results of each round."""
    port = helper.make_tensor_value_info
    again = node("Less", "s limit", "again") if ends else node("Identity", "c", "again")
    nodes = [node("MatMul", "h m", "p"), node("Tanh", "p", "y"), node("ReduceSum", "y", "s", keepdims=0), again]
    nodes += [node("Identity", "y", "z"), node("Mul", "y y", "q")]
    rows = [] if ends else [port("z", FLOAT, [1, 4]), port("q", FLOAT, [1, 4])]
    body = helper.make_graph(
        nodes, "body", [port("i", INT64, []), port("c", TensorProto.BOOL, []), port("h", FLOAT, [1, 4])],
        [port("again", TensorProto.BOOL, []), port("y", FLOAT, [1, 4]), *rows],
    )  # fmt: skip
    loop = node("Loop", "n yes h0", "last" if ends else "last all squares", body=body)
    weights = {
        "n": np.array(count), "yes": np.array(True), "m": np.eye(4, dtype=np.float32) * np.float32(1.1),
        "limit": np.float32(1.5),
    }  # fmt: skip
    return Sample([loop], {"h0": [1, 4]}, {"h0": np.full((1, 4), 0.1, np.float32)}, weights, needs=["scan"])


def empty_batch() -> Sample:
    """Return pools and reductions of an empty batch, and arithmetic on the length of an empty axis."""
    nodes = [
        node("GlobalMaxPool", "x", "a"),
        node("ReduceMin", "x axes", "b", keepdims=0),
        node("Shape", "x", "s"),
        node("Sub", "s one", "c"),
    ]
    weights = {"axes": np.array([1, 3], np.int64), "one": np.array([1], np.int64)}
    return Sample(nodes, {"x": ["n", 3, 4, 5]}, {"x": np.zeros((0, 3, 4, 5), np.float32)}, weights)


def extremes_of_nothing() -> Sample:
    nodes = [node(operator, "%s axes" % x, operator + x) for operator in ("ReduceMax", "ReduceMin") for x in "xij"]
    feeds = {"x": np.zeros((2, 0), np.float32), "i": np.zeros((2, 0), np.int64), "j": np.zeros((2, 0), np.int8)}
    return Sample(nodes, {name: ["n", 0] for name in feeds}, feeds, {"axes": np.array([1], np.int64)})


def sums_of_float16() -> Sample:
    """Return sums of many float16 numbers, which float16 cannot hold one after the other: 2048 + 1 is 2048."""
    nodes = [
        node("MatMul", "x w", "a"),
        node("ReduceSum", "x axes", "b"),
        node("ReduceMean", "x axes", "c"),
        node("CumSum", "x axis", "d"),
        node("Softmax", "x", "e"),
    ]
    weights = {"w": np.ones((5000, 2), np.float16), "axes": np.array([1], np.int64), "axis": np.array(1, np.int64)}
    x = np.ones((2, 5000), np.float16) * np.array([[1], [0.5]], np.float16)
    return Sample(nodes, {"x": ["n", 5000]}, {"x": x}, weights)


def expand() -> Sample:
    """Return an Expand of an open size, whose result another operator reads."""
    nodes = [node("Expand", "x e", "y"), node("Neg", "y", "z")]
    weights = {"e": np.array([1, 2, 1, 3], np.int64)}
    return Sample(nodes, {"x": [2, 1, "n", 1]}, {"x": numbers(2, 1, 4, 1)}, weights)


SAMPLES: Dict[str, Callable[[], Sample]] = {
    "dilated pools": lambda: pools(np.float32),
    "dilated pools of float16": lambda: pools(np.float16),
    "pools of integers": lambda: pools(np.uint8),
    "computed filters": lambda: computed_filters(1),
    "computed filters of groups": lambda: computed_filters(2),
    "computed filters of float16": lambda: computed_filters(2, np.float16),
    "computed depthwise filters": depthwise_filters,
    "products of int32": lambda: integer_products(np.int32),
    "products of int64": lambda: integer_products(np.int64),
    "quantised product": quantised_product,
    "uint64": uint64_arithmetic,
    "powers of integers": integer_powers,
    "bits": bits,
    "bounds of int64": bounds_of_int64,
    "scatter in order": scatter_in_order,
    "expand": expand,
    "scan of a known length": lambda: static_scan(0),
    "reverse scan of a known length": lambda: static_scan(1),
    "loop of 700 rounds": lambda: loop_of_rounds(700, ends=False),
    "loop of at most 100 rounds that ends": lambda: loop_of_rounds(100, ends=True),
    "empty batch": empty_batch,
    "extremes of an empty axis": extremes_of_nothing,
    "sums of float16": sums_of_float16,
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_computes_what_keras_has_no_layer_for(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]()
    source, path = to_model(sample), tmp_path / "model.keras"
    if back_end() not in sample.back_ends or not all(hasattr(keras.ops, name) for name in sample.needs):
        with pytest.raises(onnx_compat.UnsupportedError):
            onnx_compat.convert(source, path)
        return
    onnx_compat.convert(source, path)
    wanted = onnx_compat.prepare(source, shim="reference").run(dict(sample.feeds)).as_dict()
    got = onnx_compat.load_converted(path).run(dict(sample.feeds)).as_dict()
    for output, expected in wanted.items():
        assert got[output].dtype == expected.dtype, output
        close = 1e-2 if expected.dtype == np.float16 else 1e-5 if expected.dtype.kind == "f" else 0
        np.testing.assert_allclose(got[output], expected, close, close, err_msg=output)


@pytest.mark.parametrize(
    "divisors",
    [
        np.array([3, 5, 7, 9, 10, 11, 13, 255], np.float32),
        np.array([0.5, -2, 0.125, 1, 4, 1024, -1, 2**-40], np.float32),
        np.array([0, -0.0, 0.3, np.nan, 1e-40, 1, 2, np.inf], np.float32),
        np.float32(0.3),
        np.float32(0.5),
    ],
    ids=["integers", "powers of two", "zeros", "scalar", "scalar power of two"],
)
def test_a_file_divides_by_a_constant_exactly(divisors: Any, tmp_path: Path) -> None:
    """An optimizer that multiplies by an approximate reciprocal changes ties: 1.75 / 0.5 must be 3.5."""
    x = np.random.RandomState(0).uniform(-8, 8, (64, 8)).astype(np.float32).round(2)
    path = tmp_path / "model.keras"
    onnx_compat.convert(
        to_model(Sample([node("Div", "x d", "y")], {"x": ["n", 8]}, {"x": x}, {"d": np.asarray(divisors)})), path
    )
    (got,) = onnx_compat.load_converted(path).run({"x": x})
    with np.errstate(all="ignore"):
        expected = x / divisors
    # XLA multiplies by the rounded reciprocal of a constant, and counts a subnormal number as 0.
    if back_end() == "jax":
        normal = np.broadcast_to(np.abs(divisors) != np.float32(1e-40), x.shape)
        np.testing.assert_array_max_ulp(got[normal], expected[normal], maxulp=1)
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("operator", ["RandomUniformLike", "RandomNormalLike"])
@pytest.mark.parametrize("seed", [None, 3.0])
def test_a_file_draws_random_numbers(operator: str, seed: Any, tmp_path: Path) -> None:
    sample = Sample(
        [node(operator, "x", "y", **({} if seed is None else {"seed": seed}))], {"x": [40, 50]}, {"x": numbers(40, 50)}
    )
    path = tmp_path / "model.keras"
    if back_end() == "jax" and seed is None:  # a compiled function keeps no state
        with pytest.raises(onnx_compat.UnsupportedError, match="seed"):
            onnx_compat.convert(to_model(sample), path)
        return
    onnx_compat.convert(to_model(sample), path)
    converted, loaded = onnx_compat.load_converted(path), keras.saving.load_model(path)
    draws: List[np.ndarray] = [converted.run(dict(sample.feeds))[0] for _ in range(2)]
    draws += [keras.ops.convert_to_numpy(loaded(sample.feeds["x"])) for _ in range(2)]
    assert np.array_equal(draws[0], draws[1]) == np.array_equal(draws[2], draws[3]) == (seed is not None)
    for drawn in draws:
        assert drawn.shape == (40, 50)
        mean, deviation = (0.5, 12**-0.5) if "Uniform" in operator else (0, 1)
        assert abs(drawn.mean() - mean) < 0.15 and abs(drawn.std() - deviation) < 0.1
        assert "Uniform" not in operator or (drawn.min() >= 0 and drawn.max() < 1)
