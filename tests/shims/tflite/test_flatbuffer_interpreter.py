"""Files of the writer, run by the installed interpreter, with and without its default delegate."""

import importlib

import numpy as np
import pytest
from onnx_compat_tflite import flatbuffer as fb


def _runtime():
    for name in ("ai_edge_litert.interpreter", "tflite_runtime.interpreter", "tensorflow.lite.python.interpreter"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


RUNTIME = _runtime()
pytestmark = pytest.mark.skipif(RUNTIME is None, reason="no TFLite interpreter is installed")


@pytest.fixture(params=["AUTO", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"])
def load(request):
    resolver = getattr(RUNTIME.OpResolverType, request.param)

    def _load(model, **how):
        return RUNTIME.Interpreter(model_content=fb.to_bytes(model, **how), experimental_op_resolver_type=resolver)

    return _load


def run(interpreter, *inputs):
    """Resize the inputs of an interpreter to these arrays, run it, and return all outputs."""
    details = interpreter.get_input_details()
    for detail, value in zip(details, inputs):
        if tuple(detail["shape"]) != np.shape(value):
            interpreter.resize_tensor_input(detail["index"], np.shape(value))
    interpreter.allocate_tensors()
    for detail, value in zip(details, inputs):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


class Graph(fb.SubGraph):
    """Builder of a subgraph, with short names."""

    def tensor(self, dtype, shape):
        return self.add(fb.TensorSpec("t%d" % len(self.tensors), dtype, shape))

    def constant(self, value, dtype=None):
        value = np.asarray(value)
        name = dtype or value.dtype.name
        return self.add(fb.TensorSpec("t%d" % len(self.tensors), name, value.shape, value))

    def op(self, name, inputs, dtype, shape, **options):
        output = self.tensor(dtype, shape)
        self.operators.append(fb.OperatorSpec(name, inputs, [output], options))
        return output

    def ends(self, inputs, outputs):
        self.inputs, self.outputs = inputs, outputs
        return self


def build_model(build):
    graph = Graph()
    build(graph)
    return fb.ModelSpec([graph])


def test_unknown_batch(load):
    def build(g):
        x = g.tensor("float32", (-1, 3))
        g.ends([x], [g.op("ADD", [x, g.constant(np.float32([1, 2, 3]))], "float32", (-1, 3))])

    interpreter = load(build_model(build))
    for batch in (1, 4, 2):
        x = np.random.RandomState(batch).randn(batch, 3).astype(np.float32)
        np.testing.assert_array_equal(run(interpreter, x)[0], x + np.float32([1, 2, 3]))
    assert list(interpreter.get_input_details()[0]["shape_signature"]) == [-1, 3]


def test_convolution(load):
    rng = np.random.RandomState(0)
    weights = rng.randn(4, 3, 3, 2).astype(np.float32)

    def build(g):
        x = g.tensor("float32", (1, 5, 5, 2))
        options = {"padding": "VALID", "stride_w": 1, "stride_h": 1, "fused_activation_function": "RELU"}
        y = g.op(
            "CONV_2D", [x, g.constant(weights), g.constant(np.zeros(4, np.float32))], "float32", (1, 3, 3, 4), **options
        )
        g.ends([x], [y])

    x = rng.randn(1, 5, 5, 2).astype(np.float32)
    expected = np.zeros((1, 3, 3, 4), np.float32)
    for i in range(3):
        for j in range(3):
            expected[0, i, j] = np.einsum("hwc,ohwc->o", x[0, i : i + 3, j : j + 3], weights)
    np.testing.assert_allclose(run(load(build_model(build)), x)[0], np.maximum(expected, 0), rtol=1e-5, atol=1e-5)


def test_slice_and_reshape(load):
    def build(g):
        x = g.tensor("float32", (2, 6))
        part = [g.constant(np.int32(v)) for v in ([0, 1], [2, 6], [1, 2])]
        cut = g.op("STRIDED_SLICE", [x, *part], "float32", (2, 3))
        g.ends([x], [g.op("RESHAPE", [cut, g.constant(np.int32([3, 2]))], "float32", (3, 2), new_shape=[3, 2])])

    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    np.testing.assert_array_equal(run(load(build_model(build)), x)[0], x[:, 1:6:2].reshape(3, 2))


def test_int64(load):
    def build(g):
        x = g.tensor("int64", (2,))
        y = g.op("ADD", [x, g.constant(np.int64([2**40, 1]))], "int64", (2,))
        g.ends([x], [g.op("MUL", [y, g.constant(np.int64([3, -5]))], "int64", (2,))])

    np.testing.assert_array_equal(run(load(build_model(build)), np.int64([7, 8]))[0], [(7 + 2**40) * 3, -45])


def test_five_dimensions(load):
    def build(g):
        x = g.tensor("float32", (1, 2, 3, 4, 5))
        g.ends([x], [g.op("TRANSPOSE", [x, g.constant(np.int32([4, 2, 0, 1, 3]))], "float32", (5, 3, 1, 2, 4))])

    x = np.arange(120, dtype=np.float32).reshape(1, 2, 3, 4, 5)
    np.testing.assert_array_equal(run(load(build_model(build)), x)[0], x.transpose(4, 2, 0, 1, 3))


def test_strings(load):
    words = np.array(["zero", "", "drei €", "x" * 100], dtype=object)

    def build(g):
        which = g.tensor("int32", (3,))
        table = g.add(fb.TensorSpec("words", "string", (4,), words))
        g.ends([which], [g.op("GATHER", [table, which], "string", (3,), axis=0)])

    (result,) = run(load(build_model(build)), np.int32([3, 1, 2]))
    assert [bytes(item) for item in result] == [words[i].encode() for i in (3, 1, 2)]


def test_condition(load):
    main, double, negate = Graph(), Graph(), Graph()
    flag, x = main.tensor("bool", (1,)), main.tensor("float32", (2,))
    y = main.op("IF", [flag, x], "float32", (2,), then_subgraph_index=1, else_subgraph_index=2)
    main.ends([flag, x], [y])
    for body, name in ((double, "ADD"), (negate, "SUB")):
        x = body.tensor("float32", (2,))
        body.ends([x], [body.op(name, [x, x], "float32", (2,))])
    interpreter = load(fb.ModelSpec([main, double, negate]))
    x = np.float32([1, 2])
    np.testing.assert_array_equal(run(interpreter, np.array([True]), x)[0], [2, 4])
    np.testing.assert_array_equal(run(interpreter, np.array([False]), x)[0], [0, 0])


def test_loop(load):
    main, cond, body = Graph(), Graph(), Graph()
    state = [main.tensor("int32", (1,)), main.tensor("float32", (2,))]
    results = [main.tensor("int32", (1,)), main.tensor("float32", (2,))]
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    main.operators.append(fb.OperatorSpec("WHILE", state, results, options))
    main.ends(state, results)
    ends = [cond.tensor("int32", (1,)), cond.tensor("float32", (2,))]
    cond.ends(ends, [cond.op("LESS", [ends[0], cond.constant(np.int32([5]))], "bool", (1,))])
    i, x = body.tensor("int32", (1,)), body.tensor("float32", (2,))
    following = body.op("ADD", [i, body.constant(np.int32([1]))], "int32", (1,))
    body.ends([i, x], [following, body.op("ADD", [x, x], "float32", (2,))])
    count, x = run(load(fb.ModelSpec([main, cond, body])), np.int32([2]), np.float32([1, 3]))
    assert count.tolist() == [5]
    assert x.tolist() == [8, 24]


def test_signature_keeps_names(load):
    graph = Graph()
    a, b = graph.tensor("float32", (2,)), graph.tensor("float32", (2,))
    graph.ends([a, b], [graph.op("SUB", [a, b], "float32", (2,))])
    signature = fb.Signature({"input:0": a, "Ein gang": b}, {"out/put": graph.outputs[0]})
    interpreter = load(fb.ModelSpec([graph], [signature]))
    runner = interpreter.get_signature_runner("serving_default")
    result = runner(**{"Ein gang": np.float32([1, 2]), "input:0": np.float32([5, 5])})
    assert result["out/put"].tolist() == [4, 3]


def test_constants_outside_the_flatbuffer(load):
    def build(g):
        x = g.tensor("float32", (3,))
        y = g.op("MUL", [x, g.constant(np.float32([2, 4, 8]))], "float32", (3,))
        g.ends([x], [g.op("ADD", [y, g.constant(np.float32(1))], "float32", (3,))])

    try:
        (result,) = run(load(build_model(build), outside=True), np.float32([1, 1, 1]))
    except RuntimeError as error:
        pytest.skip("this runtime does not know them: %s" % error)
    assert result.tolist() == [3, 5, 9]
