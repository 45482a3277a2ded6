"""Programs at the limits of a form: activations that only look composed, short scans without operators, seven axes."""

from typing import Any, Callable

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_compat_tflite.flatbuffer import strings
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.passes import GRAPH
from onnx_compat_tflite.passes.contract import Context, ExampleGraph
from onnx_compat_tflite.passes.depth_to_space import merge_axes
from onnx_compat_tflite.passes.rewriter import GraphRewriter
from programs import check_program

import onnx_compat
from onnx_compat import primitives as p
from onnx_compat.errors import ConversionError

SHAPE = (2, 3)


def gelu(x: Any, cube: Any) -> Any:
    inner = p.mul(p.add(x, p.mul(cube, np.float32(0.044715))), np.float32(np.sqrt(2 / np.pi)))
    return p.mul(p.mul(x, np.float32(0.5)), p.add(p.tanh(inner), np.float32(1)))


@pytest.mark.parametrize(
    "cube",
    [
        lambda x, y, z: p.mul(p.mul(x, y), z),
        lambda x, y, z: p.mul(p.mul(x, x), y),
        lambda x, y, z: p.mul(p.mul(y, y), x),
    ],
    ids=["xyz", "xxy", "yyx"],
)
def test_a_product_of_several_values_is_no_cube(cube: Callable[..., Any]) -> None:
    operators = check_program(lambda x, y, z: gelu(x, cube(x, y, z)), SHAPE, SHAPE, SHAPE)
    assert "GELU" not in [op.builtin for op in operators]


def scan_without_operators(length: int) -> Any:
    values = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name, size in {"s": 3, "x": 4}.items()
    }
    results = [
        helper.make_tensor_value_info("s2", TensorProto.FLOAT, [3]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [4]),
    ]
    copies = [helper.make_node("Identity", ["s"], ["s2"]), helper.make_node("Identity", ["x"], ["y"])]
    body = helper.make_graph(copies, "body", list(values.values()), results)
    node = helper.make_node("Scan", ["S", "X"], ["T", "Y"], body=body, num_scan_inputs=1)
    ports = [("S", [3]), ("X", [length, 4]), ("T", [3]), ("Y", [length, 4])]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ports]
    graph = helper.make_graph([node], "scan", infos[:2], infos[2:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("length", [1, 8, 9, 10, 32, 33, 65])
def test_a_scan_without_operators_writes_each_row_once(length: int, tmp_path: Any) -> None:
    state = np.arange(3, dtype=np.float32)
    rows = np.arange(4 * length, dtype=np.float32).reshape(length, 4)
    model = scan_without_operators(length)
    for result in (
        onnx_compat.run(model, [state, rows], shim="tflite"),
        onnx_compat.load_converted(onnx_compat.convert(model, tmp_path / "scan.tflite")).run([state, rows]),
    ):
        np.testing.assert_array_equal(result[0], state)
        np.testing.assert_array_equal(result[1], rows)


@pytest.mark.parametrize("size", [1, 5])
def test_an_open_size_is_broadcast_among_seven(size: int) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, 1, 1, 1, 1, 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    shape = [5, 2, 3, 1, 2, 1, 2]
    target = helper.make_tensor("shape", TensorProto.INT64, [7], shape)
    graph = helper.make_graph([helper.make_node("Expand", ["x", "shape"], ["y"])], "expand", [x], [y], [target])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    data = np.random.RandomState(0).standard_normal((size, 2, 1, 1, 1, 1, 1)).astype(np.float32)
    np.testing.assert_array_equal(onnx_compat.run(model, [data], shim="tflite")[0], np.broadcast_to(data, shape))


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("shape", [(2, 1, 3, 1, 2, 2), (1, 2, 1, 2, 1, 2, 3)])
@pytest.mark.parametrize("is_open", [False, True])
def test_many_axes_are_padded_one_after_another(is_open: bool, shape: Any, known: bool, dtype: Any) -> None:
    """PADV2 takes five axes. The amounts are known or computed at run time, and so are the sizes."""
    rank = len(shape)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    pads = np.arange(2 * rank) % 3
    sizes = ["n%d" % k for k in range(rank)] if is_open else shape
    ports = [helper.make_tensor_value_info("x", element, sizes)]
    ports += [] if known else [helper.make_tensor_value_info("pads", TensorProto.INT64, [2 * rank])]
    held = [numpy_helper.from_array(np.asarray(1, dtype), "value")]
    held += [numpy_helper.from_array(pads, "pads")] if known else []
    results = [helper.make_tensor_value_info("y", element, None)]
    graph = helper.make_graph([helper.make_node("Pad", ["x", "pads", "value"], ["y"])], "pad", ports, results, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    x = (np.arange(np.prod(shape)).reshape(shape) % 5).astype(dtype)
    expected = np.pad(x, list(zip(pads[:rank], pads[rank:])), "constant", constant_values=1)
    runnable = onnx_compat.prepare(model, shim="tflite", fallback=False)
    np.testing.assert_array_equal(runnable.run([x] if known else [x, pads])[0], expected)


def test_merged_axes_with_two_open_sizes_are_open() -> None:
    assert merge_axes([-1, -1, 3, 2], [0, 1, 3, 2]) == ([-1, 3, 2], [0, 2, 1])
    assert merge_axes([-1, 4, 3, 2], [0, 1, 3, 2]) == ([-1, 3, 2], [0, 2, 1])
    assert merge_axes([0, 4, 3, 2], [0, 1, 3, 2]) == ([0, 3, 2], [0, 2, 1])


def test_a_cast_between_equal_bytes_is_a_copy() -> None:
    graph = ExampleGraph((2, 3), dtype="int8")
    types = {"in_data_type": "int8", "out_data_type": "int8"}
    model = graph.model(graph.op("CAST", [graph.inputs[0]], (2, 3), "int8", **types))
    assert Context(model, Kernels()).apply(next(pass_ for pass_ in GRAPH.distinct if pass_.name == "int8_casts")) == 1
    assert [op.builtin for op in model.subgraphs[0].operators] == ["RESHAPE"]


def test_text_beyond_the_offsets_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strings, "LIMIT", 20)
    assert strings.unpack(strings.pack(["a", "b"])) == [b"a", b"b"]
    with pytest.raises(ConversionError, match="offsets end at"):
        strings.pack(["a" * 9])


def test_a_tensor_that_no_operator_writes_has_no_producer() -> None:
    graph = ExampleGraph((2, 3))
    model = graph.model(graph.op("ABS", [graph.inputs[0]], (2, 3)))
    rewriter = GraphRewriter(model.subgraphs[0])
    (op,) = rewriter.operators
    (old,) = op.outputs
    new = rewriter.add_like(old, "new", "float32")
    rewriter.set_outputs(op, [new])
    assert rewriter.producer(old, "ABS") is None and rewriter.producer(new, "ABS") is op
    rewriter.erase(op)
    assert rewriter.producer(new, "ABS") is None
