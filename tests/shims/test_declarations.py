"""Models that onnxruntime runs although a declaration or a branch does not fit the inputs: every shim runs them too."""

import warnings
from typing import Any, Dict, List, Sequence

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_compat
from onnx_compat.errors import OnnxCompatError

FLOAT, INT64, BOOL, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
make = helper.make_node


def port(name: str, kind: int, shape: Any = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], **constants: Any) -> Any:
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


def branch(nodes: Sequence[Any], output: str) -> Any:
    return helper.make_graph(list(nodes), output, [], [port(output, FLOAT, None)])


def warnings_of_run(runnable: Any, feed: Any) -> List[str]:
    """Run a model. Return the warnings about declarations that the feed contradicts."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runnable.run(feed)
    return [str(item.message) for item in caught if "contradict the declarations" in str(item.message)]


# -- sizes and ranks -------------------------------------------------------------------------------------------------
def test_one_size_name_for_two_sizes(shim_name: str) -> None:
    """Robust Video Matting has one name for the sizes of a frame and of its states, which are 1 at the first frame."""
    nodes = [make("Add", ["x", "y"], ["z"]), make("Shape", ["z"], ["s"])]
    sizes = ["height", "width"]
    proto = model(nodes, [port("x", FLOAT, sizes), port("y", FLOAT, sizes)], [port("z", FLOAT), port("s", INT64)])
    runnable = onnx_compat.prepare(proto, shim=shim_name)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    texts = []
    for y in (x[:1, :1], x, x[:, :1], x[:1, :1]):
        texts.append(warnings_of_run(runnable, [x, y]))
        z, shape = runnable.run([x, y])
        np.testing.assert_array_equal(z, x + y)
        assert shape.tolist() == [3, 4]
    assert [len(text) for text in texts] == [1, 0, 0, 0]
    assert "the size 'height' is 3 in the input 'x' and 1 in 'y'" in texts[0][0]


def test_one_size_name_for_the_past_and_the_present_of_a_decoder(shim_name: str) -> None:
    """The exporter names the sizes of past, new and present keys alike."""
    sizes = [1, 2, "sequence", 4]
    names = ["past", "new", "query"]
    nodes = [
        make("Concat", ["past", "new"], ["present"], axis=2),
        make("Transpose", ["present"], ["keys"], perm=[0, 1, 3, 2]),
        make("MatMul", ["query", "keys"], ["scores"]),
        make("Softmax", ["scores"], ["weights"], axis=-1),
        make("MatMul", ["weights", "present"], ["y"]),
    ]
    outputs = [port("present", FLOAT, sizes), port("y", FLOAT, sizes)]
    proto = model(nodes, [port(name, FLOAT, sizes) for name in names], outputs)
    runnable = onnx_compat.prepare(proto, shim=shim_name)
    random = np.random.RandomState(0)
    past = random.rand(1, 2, 2, 4).astype(np.float32)
    texts = []
    for count in (3, 1, 1, 2):
        new = random.rand(1, 2, count, 4).astype(np.float32)
        feed = {"past": past, "new": new, "query": -new}
        texts.append(warnings_of_run(runnable, feed))
        present, y = runnable.run(feed)
        np.testing.assert_array_equal(present, np.concatenate([past, new], 2))
        scores = np.exp(-new @ present.transpose(0, 1, 3, 2))
        np.testing.assert_allclose(y, scores / scores.sum(-1, keepdims=True) @ present, rtol=1e-5)
        past = present
    assert [len(text) for text in texts] == [1, 0, 0, 0]
    assert "the size 'sequence' is 2 in the input 'past' and 3 in 'new'" in texts[0][0]


def test_one_size_name_within_an_input(shim_name: str) -> None:
    """Exporters of xgboost name every open size "None"."""
    nodes = [make("Transpose", ["x"], ["t"], perm=[1, 0]), make("MatMul", ["x", "t"], ["z"])]
    proto = model(nodes, [port("x", FLOAT, ["None", "None"])], [port("z", FLOAT, ["None", "None"])])
    runnable = onnx_compat.prepare(proto, shim=shim_name)
    assert len(warnings_of_run(runnable, [np.ones((2, 3), np.float32)])) == 1
    for rows in (2, 3, 4):
        x = np.ones((rows, 3), np.float32)
        np.testing.assert_array_equal(runnable.run([x])[0], x @ x.T)


def test_one_size_name_in_a_model_of_parts(shim_name: str) -> None:
    """A Gather of strings runs in a part of its own where a shim has no strings."""
    nodes = [make("Concat", ["x", "y"], ["z"], axis=0), make("Concat", ["s", "t"], ["u"], axis=0)]
    kinds = {"x": FLOAT, "y": FLOAT, "s": STRING, "t": STRING}
    inputs = [port(name, kind, ["n"]) for name, kind in kinds.items()]
    proto = model(nodes, inputs, [port("z", FLOAT), port("u", STRING)])
    runnable = onnx_compat.prepare(proto, shim=shim_name)
    x, words = np.arange(5, dtype=np.float32), np.array(list("abcde"), object)
    assert len(warnings_of_run(runnable, [x[:2], x, words[:1], words])) == 1
    z, u = runnable.run([x[:3], x, words[:4], words])
    assert (z.tolist(), u.tolist()) == ([0, 1, 2, 0, 1, 2, 3, 4], list("abcdabcde"))


def test_an_input_that_is_declared_as_a_scalar_has_any_shape(shim_name: str) -> None:
    proto = model([make("Neg", ["x"], ["y"])], [port("x", FLOAT, [])], [port("y", FLOAT)])
    runnable = onnx_compat.prepare(proto, shim=shim_name)
    x = np.ones((2, 3), np.float32)
    assert len(warnings_of_run(runnable, [x])) == 1
    np.testing.assert_array_equal(runnable.run([x])[0], -x)
    np.testing.assert_array_equal(runnable.run([x[0, 0]])[0], -x[0, 0])


@pytest.mark.parametrize("x", [np.ones((2, 3, 1), np.float32), np.ones((2, 4), np.float32)])
def test_what_onnxruntime_refuses_is_refused(x: Any, shim_name: str) -> None:
    proto = model([make("Neg", ["x"], ["y"])], [port("x", FLOAT, [None, 3])], [port("y", FLOAT)])
    with pytest.raises(onnx_compat.InputError, match="the model takes"):
        onnx_compat.prepare(proto, shim=shim_name).run([x])


def test_a_loop_whose_body_declares_vectors_of_one_element(shim_name: str) -> None:
    """onnxruntime gives the iteration number and the condition the rank that the body declares."""
    body = helper.make_graph(
        [
            make("Less", ["i", "limit"], ["next"]),
            make("Cast", ["i"], ["f"], to=FLOAT),
            make("Add", ["v", "f"], ["w"]),
            make("Squeeze", ["i", "last"], ["row"]),
        ],
        "body",
        [port("i", INT64, [1]), port("c", BOOL, [1]), port("v", FLOAT, [1])],
        [port("next", BOOL, [1]), port("w", FLOAT, [1]), port("row", INT64, [])],
    )
    nodes = [make("Loop", ["", "", "zero"], ["sum", "rows"], body=body)]
    proto = model(
        nodes,
        [port("limit", INT64, [])],
        [port("sum", FLOAT), port("rows", INT64)],
        zero=np.zeros(1, np.float32),
        last=np.array([-1]),
    )
    runnable = onnx_compat.prepare(proto, shim=shim_name)
    for limit in (4, 20):
        total, rows = runnable.run([np.array(limit)])
        assert rows.tolist() == list(range(limit + 1))
        assert total.tolist() == [sum(range(limit + 1))]


@pytest.mark.parametrize("given", [None, "absent"])
def test_an_input_without_a_value(given: Any, shim_name: str) -> None:
    """None stands for the default of an input, and for an omitted input where the nodes can do without it."""
    nodes = [make("Add", ["x", "d"], ["y"]), make("Clip", ["y", "low", "high"], ["z"])]
    ports = [port("x", FLOAT, ["n"]), port("d", FLOAT, []), port("low", FLOAT, []), port("high", FLOAT, [])]
    proto = model(nodes, ports, [port("z", FLOAT)], d=np.float32(4))
    feed = {"x": np.arange(3, dtype=np.float32), "low": None, "high": np.float32(5)}
    if given is None:
        feed["d"] = None
    runnable = onnx_compat.prepare(proto, shim=shim_name)
    assert runnable.run(feed)[0].tolist() == [4, 5, 5]
    assert runnable.run(dict(feed, low=np.float32(4.5)))[0].tolist() == [4.5, 5, 5]
    with pytest.raises(onnx_compat.InputError, match="the input 'x' is None"):
        runnable.run(dict(feed, x=None))


# -- branches --------------------------------------------------------------------------------------------------------
def rate_model(sizes: Sequence[Any]) -> Any:
    """Return a model as silero-vad 5: a branch for each sampling rate, and only one of them fits the length of x."""
    wide = [make("Reshape", ["x", "wide"], ["w"]), make("MatMul", ["w", "m8"], ["y16"])]
    narrow = [make("Reshape", ["x", "narrow"], ["n"]), make("MatMul", ["n", "m5"], ["y8"])]
    nodes = [
        make("Equal", ["rate", "k16"], ["is16"]),
        make("If", ["is16"], ["y"], then_branch=branch(wide, "y16"), else_branch=branch(narrow, "y8")),
    ]
    return model(
        nodes,
        [port("x", FLOAT, sizes), port("rate", INT64, [])],
        [port("y", FLOAT)],
        k16=np.int64(16000),
        wide=np.array([-1, 4, 8]),
        narrow=np.array([-1, 4, 5]),
        m8=np.ones((8, 2), np.float32),
        m5=np.ones((5, 2), np.float32),
    )


@pytest.mark.parametrize("sizes", [[1, 32], [None, None]])
def test_a_branch_that_is_not_taken_need_not_fit(sizes: Any, shim_name: str) -> None:
    runnable = onnx_compat.prepare(rate_model(sizes), shim=shim_name)
    for number in (1, 2):
        (y,) = runnable.run([np.full((1, 32), number, np.float32), np.array(16000)])
        np.testing.assert_array_equal(y, np.full((1, 4, 2), 8 * number, np.float32))
    assert runnable.fallbacks == []
    with pytest.raises(OnnxCompatError):
        runnable.run([np.ones((1, 32), np.float32), np.array(8000)])
    np.testing.assert_array_equal(runnable.run([np.ones((1, 32), np.float32), np.array(16000)])[0], y / 2)


@pytest.mark.parametrize("count", [3, 300])
@pytest.mark.parametrize("nested", [False, True])
def test_branches_of_two_ranks(count: int, nested: bool, shim_name: str) -> None:
    """The condition depends on data: of few elements, and of more than become part of a program."""
    condition = [make("ReduceMax", ["x"], ["m"], keepdims=0), make("Greater", ["m", "zero"], ["positive"])]
    choice = make(
        "If",
        ["positive"],
        ["y"],
        then_branch=branch([make("Neg", ["x"], ["same"])], "same"),
        else_branch=branch([make("ReduceSum", ["x"], ["total"], keepdims=0)], "total"),
    )
    nodes = [*condition, choice, make("Shape", ["y"], ["s"])]
    if nested:
        small = [make("Less", ["m", "ten"], ["is_small"])]
        inner = branch([choice, make("Abs", ["y"], ["inner"])], "inner")
        outer = branch([make("Identity", ["x"], ["outer"])], "outer")
        nodes = [*condition, *small, make("If", ["is_small"], ["z"], then_branch=inner, else_branch=outer)]
        nodes.append(make("Shape", ["z"], ["s"]))
    output = "z" if nested else "y"
    proto = model(
        nodes,
        [port("x", FLOAT, [None, None])],
        [port(output, FLOAT), port("s", INT64)],
        zero=np.float32(0),
        ten=np.float32(10),
    )
    runnable = onnx_compat.prepare(proto, shim=shim_name)
    x = np.ones((count, 20), np.float32)
    expected = {2: -2 * x, -1: -x.sum()} if not nested else {2: 2 * x, -1: x.sum(), 20: 20 * x}
    for factor in (*expected, *expected):
        y, shape = runnable.run([np.float32(factor) * x])
        np.testing.assert_array_equal(y, expected[factor])
        assert shape.tolist() == list(np.shape(expected[factor]))


def test_an_erased_item_of_an_empty_sequence_in_a_branch_that_is_not_taken(shim_name: str) -> None:
    def sequence_branch(name: str, node: Any) -> Any:
        return helper.make_graph([node], name, [], [helper.make_tensor_sequence_value_info(name, INT64, None)])

    erase = sequence_branch("erased", make("SequenceErase", ["none", "last"], ["erased"]))
    keep = sequence_branch("kept", make("Identity", ["one"], ["kept"]))
    nodes = [
        make("SequenceEmpty", [], ["none"], dtype=INT64),
        make("SequenceConstruct", ["x"], ["one"]),
        make("If", ["c"], ["r"], then_branch=erase, else_branch=keep),
        make("SequenceLength", ["r"], ["y"]),
    ]
    proto = model(nodes, [port("x", INT64, []), port("c", BOOL, [])], [port("y", INT64)], last=np.int64(-1))
    proto.opset_import[0].version = 16  # Identity of a sequence
    runnable = onnx_compat.prepare(proto, shim=shim_name)
    assert runnable.run([np.array(5), np.array(False)])[0] == 1
    with pytest.raises(onnx_compat.InvalidModelError, match="position -1 is out of range"):
        runnable.run([np.array(5), np.array(True)])


# -- outputs, vectors, text ------------------------------------------------------------------------------------------
def test_an_output_that_is_an_initializer_in_a_model_of_parts(shim_name: str) -> None:
    """A float64 Loop over strings is done by no framework, so the model is cut into parts."""
    nodes = [make("StringNormalizer", ["t"], ["u"], case_change_action="UPPER"), make("Neg", ["x"], ["y"])]
    ports = [port("t", STRING, [1]), port("x", FLOAT, ["n"]), port("d", FLOAT, [1])]
    outputs = [port("y", FLOAT), port("k", INT64), port("u", STRING), port("d", FLOAT), port("x", FLOAT)]
    proto = model(nodes, ports, outputs, k=np.array([7, 8]), d=np.float32([3]))
    runnable = onnx_compat.prepare(proto, shim=shim_name)
    x = np.ones(2, np.float32)
    for given, default in (({}, 3), ({"d": np.float32([4])}, 4)):
        results = runnable.run({"t": np.array(["a"], object), "x": x, **given}).as_dict()
        assert {name: np.asarray(value).tolist() for name, value in results.items()} == {
            "y": [-1, -1],
            "k": [7, 8],
            "u": ["A"],
            "d": [default],
            "x": [1, 1],
        }


def vector_cases() -> Dict[str, Any]:
    """Return name -> (nodes, vectors of unknown length, expected result). x is 0 … 23 as [4, 6]."""
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    return {
        "Slice with axes": ([make("Slice", ["x", "a", "b", "axis"], ["y"])], {"a": [1], "b": [5]}, x[:, 1:5]),
        "Slice with steps": ([make("Slice", ["x", "a", "b", "", "two"], ["y"])], {"a": [1], "b": [4]}, x[1:4:2]),
        "Slice with starts": ([make("Slice", ["x", "two", "b"], ["y"])], {"b": [3]}, x[2:3]),
        "Pad": ([make("Pad", ["x", "a"], ["y"])], {"a": [1, 0, 0, 2]}, np.pad(x, ((1, 0), (0, 2)))),
        "Tile": ([make("Tile", ["x", "a"], ["y"])], {"a": [2, 3]}, np.tile(x, (2, 3))),
        "Split": ([make("Split", ["x", "a"], ["y", "z"], axis=1)], {"a": [2, 4]}, x[:, :2]),
        "TopK": ([make("TopK", ["x", "a"], ["y", "z"])], {"a": [2]}, x[:, :-3:-1]),
    }


@pytest.mark.parametrize("name", list(vector_cases()))
def test_another_input_gives_the_length_of_a_vector(name: str, shim_name: str) -> None:
    """The declared length is open, and the operator needs only the elements: they stay run-time values."""
    nodes, vectors, expected = vector_cases()[name]
    ports = [port("x", FLOAT, [None, None]), *(port(vector, INT64, ["k_" + vector]) for vector in vectors)]
    proto = model(nodes, ports, [port("y", FLOAT)], axis=np.array([1]), two=np.array([2]))
    runnable = onnx_compat.prepare(proto, shim=shim_name)
    traces = runnable.traces
    feed = {key: np.array(elements) for key, elements in vectors.items()}
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(runnable.run({"x": x, **feed})[0], expected)
    assert not any(plan.fixed for plan in runnable._plans.values() if hasattr(plan, "fixed"))
    assert traces <= 1
    (only,) = runnable._plans.values()
    assert not getattr(only, "fixed", ())


@pytest.mark.parametrize("container", ["array", "list"])
def test_objects_where_text_is_declared(container: str, shim_name: str) -> None:
    """None and NaN of a table become the texts that onnxruntime makes of them."""
    items = ["a", None, float("nan"), 1.5, np.int64(3), b"b"]
    words: Any = items
    if container == "array":
        words = np.empty(len(items), object)
        words[:] = items
    proto = model([make("Identity", ["x"], ["y"])], [port("x", STRING, ["n"])], [port("y", STRING)])
    result = onnx_compat.prepare(proto, shim=shim_name).run([words])[0]
    assert result.tolist() == ["a", "None", "nan", "1.5", "3", "b"]


def test_a_misspelt_attribute_warns(shim_name: str) -> None:
    node = make("InstanceNormalization", ["x", "s", "b"], ["y"], epsion=0.5, name="norm")
    proto = model([node], [port("x", FLOAT, [1, 2, 8])], [port("y", FLOAT)], s=np.ones(2, "f"), b=np.zeros(2, "f"))
    x = np.arange(16, dtype=np.float32).reshape(1, 2, 8)
    with pytest.warns(
        RuntimeWarning, match="no attribute 'epsion'.*node 'norm'.*did you mean 'epsilon'.*default, 1e-05"
    ):
        runnable = onnx_compat.prepare(proto, shim=shim_name)
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(runnable.run([x])[0], expected, atol=1e-5)
