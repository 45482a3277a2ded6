"""Recurrent operators: which form each takes in the file, and that every form gives equal results, in a second run too."""

from typing import Any, Dict, List, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_compat_tflite import features
from onnx_compat_tflite import flatbuffer as fb

import onnx_compat

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def network(
    operator: str, steps: Any, batch: Any, lengths: bool = False, cells: int = 6, cell: bool = True, **attributes: Any
) -> Any:
    random = np.random.RandomState(0)
    directions, gates = 1 + (attributes.get("direction") == "bidirectional"), GATES[operator]
    shapes = {"w": (gates * cells, 5), "r": (gates * cells, cells), "b": (2 * gates * cells,)}
    held = [
        numpy_helper.from_array(random.uniform(-0.7, 0.7, (directions, *shape)).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, batch, 5])]
    inputs += [helper.make_tensor_value_info("lengths", TensorProto.INT32, [batch])] * lengths
    names = ["x", "w", "r", "b"] + ["lengths"] * lengths
    results = ["y", "y_h"] + ["y_c"] * (operator == "LSTM" and cell)
    node = helper.make_node(operator, names, results, hidden_size=cells, **attributes)
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results]
    graph = helper.make_graph([node], operator, inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def feeds(steps: int, batch: int, lengths: Sequence[int] = ()) -> Dict[str, Any]:
    result: Dict[str, Any] = {"x": np.random.RandomState(steps).standard_normal((steps, batch, 5)).astype(np.float32)}
    if lengths:
        result["lengths"] = np.array(lengths, np.int32)
    return result


def agree(model: Any, *fed: Dict[str, Any]) -> None:
    """Assert that one prepared model on tflite gives the results of the reference for each of these feeds."""
    prepared, reference = (onnx_compat.prepare(model, shim=name) for name in ("tflite", "reference"))
    for given in fed:
        for actual, wanted in zip(prepared.run(given), reference.run(given)):
            np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)


def builtins(model: Any, path: Any) -> List[List[str]]:
    onnx.save(model, str(path / "m.onnx"))
    model_read = fb.read(str(onnx_compat.convert(str(path / "m.onnx"), str(path / "m.tflite"))))
    return [[op.builtin for op in graph.operators] for graph in model_read.subgraphs]


# -- loops -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN"])
def test_any_length_and_batch(operator: str, direction: str) -> None:
    """The loop computes several steps in a round. The lengths are shorter than a round, longer with a remainder, and 0."""
    model = network(operator, "t", "n", direction=direction)
    agree(model, *[feeds(steps, batch) for steps, batch in ((2, 1), (13, 3), (1, 3), (0, 1), (31, 1))])


@pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN"])
def test_any_length_of_each_sequence(operator: str) -> None:
    model = network(operator, "t", "n", lengths=True, direction="bidirectional")
    agree(model, feeds(9, 3, [9, 1, 6]), feeds(2, 2, [0, 2]), feeds(20, 1, [17]))


@pytest.mark.parametrize("steps", [200, 211])
def test_a_long_sequence_is_a_loop_of_few_rounds(steps: int, tmp_path: Any) -> None:
    model = network("GRU", steps, 2, direction="bidirectional", linear_before_reset=1)
    assert "WHILE" in builtins(model, tmp_path)[0]
    agree(model, feeds(steps, 2))


@pytest.mark.parametrize(("cells", "alone"), [(24, False), (512, True)])
def test_a_round_reads_no_more_weights_than_a_cache_holds(cells: int, alone: bool, tmp_path: Any) -> None:
    _, *bodies = builtins(network("RNN", "t", "n", cells=cells), tmp_path)
    products = sorted(body.count("FULLY_CONNECTED") for body in bodies)
    alone = alone or not features.kernels().accepts("DYNAMIC_UPDATE_SLICE", "float32")  # each row by itself
    assert products[-1] > 0 and (products[-1] <= 4) == alone


def test_a_scan_of_identities() -> None:
    """The body of the Scan has no node, and its rows have a dtype that few kernels support."""
    names = ("state", "row")
    rows = [helper.make_tensor_value_info(name, TensorProto.UINT32, [2]) for name in names]
    body = helper.make_graph([], "body", rows, rows)
    node = helper.make_node("Scan", ["state_in", "rows"], ["last", "collected"], body=body, num_scan_inputs=1)
    shapes = {"state_in": [2], "rows": ["t", 2], "last": [2], "collected": ["t", 2]}
    ports = [helper.make_tensor_value_info(name, TensorProto.UINT32, shape) for name, shape in shapes.items()]
    model = helper.make_model(helper.make_graph([node], "scan", ports[:2], ports[2:]), ir_version=8)
    model.opset_import[0].version = 16
    for steps in (1, 70):
        fed = {"state_in": np.array([3, 4], np.uint32), "rows": np.arange(2 * steps, dtype=np.uint32).reshape(steps, 2)}
        last, collected = onnx_compat.prepare(model, shim="tflite").run(fed)
        np.testing.assert_array_equal(last, fed["state_in"])
        np.testing.assert_array_equal(collected, fed["rows"])


# -- the kernels -------------------------------------------------------------------------------------------------------
def recurrent(operator: str, steps: Any, batch: Any = 1, peepholes: bool = False, **attributes: Any) -> Any:
    """Return a model with a recurrent operator, all of whose results are outputs.

    `peepholes`: with the input P of an LSTM.
    """
    model = network(operator, steps, batch, **attributes)
    node, graph = model.graph.node[0], model.graph
    if peepholes:
        directions = 1 + (attributes.get("direction") == "bidirectional")
        weights = np.random.RandomState(1).uniform(-0.7, 0.7, (directions, 18)).astype(np.float32)
        graph.initializer.append(numpy_helper.from_array(weights, "p"))
        node.input.extend(["", "", "", "p"])
    return model


def kernels(model: Any, path: Any) -> int:
    """Return the number of recurrent sequence kernels in the main graph.

    Assert that a file with them has no other graph.
    """
    main, *other_results = builtins(model, path)
    result = sum("_SEQUENCE_" in name for name in main)
    assert not (result and other_results)
    return result


@pytest.mark.parametrize("peepholes", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("steps", ["t", 7])
def test_one_kernel_runs_all_steps_of_an_lstm(steps: Any, direction: str, peepholes: bool, tmp_path: Any) -> None:
    model = recurrent("LSTM", steps, peepholes=peepholes, direction=direction)
    assert kernels(model, tmp_path) == 1
    agree(model, *[feeds(length, 1) for length in ((3, 0, 70, 3) if steps == "t" else (steps, steps))])


@pytest.mark.parametrize("activation", ["Tanh", "Relu"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("steps", ["t", 7])
def test_one_kernel_runs_all_steps_of_an_rnn(steps: Any, direction: str, activation: str, tmp_path: Any) -> None:
    both = direction == "bidirectional"
    model = recurrent("RNN", steps, direction=direction, activations=[activation] * (1 + both))
    assert kernels(model, tmp_path) == 1 + both
    agree(model, *[feeds(length, 1) for length in ((3, 0, 70, 3) if steps == "t" else (steps, steps))])


def test_few_cells_of_a_batch(tmp_path: Any) -> None:
    for batch, steps, there in ((2, 9, True), (3, 9, False), (32, "t", True), (33, "t", False)):
        model = recurrent("LSTM", steps, batch)
        assert bool(kernels(model, tmp_path)) is there
        agree(model, feeds(9, batch))


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("peepholes", [False, True])
@pytest.mark.parametrize("steps", ["t", 120])
def test_runs_do_not_share_states(steps: Any, peepholes: bool, plain: bool, tmp_path: Any) -> None:
    """The outputs are equal to the bit in a plain interpreter, also after a run with another length, huge numbers or
    NaN.
    """
    assert kernels(recurrent("LSTM", steps, 2, peepholes, direction="bidirectional"), tmp_path)
    interpreter = features.find_runtime()[0].interpreter(plain, model_path=str(tmp_path / "m.tflite"))  # type: ignore[union-attr]

    def run(x: Any) -> List[Any]:
        (given,) = interpreter.get_input_details()
        if tuple(given["shape"]) != x.shape:
            interpreter.resize_tensor_input(given["index"], x.shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(given["index"], x)
        interpreter.invoke()
        return [interpreter.get_tensor(detail["index"]).tobytes() for detail in interpreter.get_output_details()]

    lengths = (6, 9) if steps == "t" else (steps,)
    wanted = {length: run(feeds(length, 2)["x"]) for length in lengths}
    for length in (*lengths, *lengths[::-1]):
        x = feeds(length, 2)["x"]
        assert run(x) == wanted[length]
        assert run(x) == wanted[length]
        for number in (1e6, -1e30, np.nan):
            run(np.full_like(x, number))
            assert run(x) == wanted[length]


def test_cases_that_the_kernel_lacks_are_composed(tmp_path: Any) -> None:
    other_results = [
        recurrent("LSTM", "t", "n"),  # the states have a batch
        recurrent("LSTM", "t", 40),  # a loop is faster
        recurrent("LSTM", 30, 8),  # written out, it is faster still
        recurrent("LSTM", 1),  # one step is no sequence
        recurrent("LSTM", "t", cells=320),  # each step would read more than a cache holds
        recurrent("LSTM", "t", clip=0.5),
        recurrent("LSTM", "t", input_forget=1),
        recurrent("LSTM", "t", activations=["Sigmoid", "Relu", "Tanh"]),
        recurrent("RNN", "t", activations=["Sigmoid"]),
        network("LSTM", "t", 1, lengths=True),
    ]
    for model in other_results:
        assert not any("_SEQUENCE_" in name for names in builtins(model, tmp_path) for name in names)
    for model in other_results[5:9]:
        agree(model, feeds(5, 1))


@pytest.mark.parametrize("operator", ["LSTM", "RNN"])
@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
@pytest.mark.parametrize("steps", ["t", 6])
def test_states_that_are_given(operator: str, direction: str, steps: Any, tmp_path: Any) -> None:
    """Initial states are constants or inputs. Two layers with the same initial states must not share their variables."""
    both = direction == "bidirectional"
    for known in (True, False):
        model = recurrent(operator, steps, direction=direction)
        graph, node = model.graph, model.graph.node[0]
        names = ["h", "c"][: len(node.output) - 1]
        node.input.extend(["", *names])
        twin = type(node)()
        twin.CopyFrom(node)
        twin.output[:] = [name + "2" for name in node.output]
        graph.node.append(twin)
        graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in twin.output)
        given = {name: np.full((1 + both, 1, 6), value, np.float32) for name, value in zip(names, (0.25, -0.5))}
        if known:
            graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in given.items())
        else:
            graph.input.extend(
                helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in given.items()
            )
        assert kernels(model, tmp_path) == (4 if operator == "RNN" and both else 2)
        fed = [feeds(length, 1) for length in ((6, 0, 3) if steps == "t" else (6, 6))]
        agree(model, *[sizes if known else dict(sizes, **given) for sizes in fed])


def test_a_state_from_one_layer_begins_the_next(tmp_path: Any) -> None:
    """An operator that writes a variable stays in the file, even if it only copies its input."""
    model = recurrent("LSTM", "t")
    first = model.graph.node[0]
    second = type(first)()
    second.CopyFrom(first)
    second.input.extend(["", "y_h", "y_c"])
    second.output[:] = ["z", "z_h", "z_c"]
    model.graph.node.append(second)
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in second.output)
    assert kernels(model, tmp_path) == 2
    agree(model, *[feeds(steps, 1) for steps in (4, 2, 4)])


def test_in_a_branch(tmp_path: Any) -> None:
    """A kernel with states is in a branch, which does not run each time."""
    model = network("LSTM", "t", 1, cell=False)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nothing = helper.make_tensor_value_info("nothing", TensorProto.FLOAT, None)
    branches = {
        "then_branch": helper.make_graph([model.graph.node[0]], "then", [], [y]),
        "else_branch": helper.make_graph(
            [helper.make_node("Unsqueeze", ["x", "axis"], ["nothing"])], "else", [], [nothing]
        ),
    }
    model.graph.initializer.append(numpy_helper.from_array(np.array([1]), "axis"))
    del model.graph.node[:], model.graph.output[:]
    model.graph.node.append(helper.make_node("If", ["flag"], ["z"], **branches))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    model.graph.input.append(helper.make_tensor_value_info("flag", TensorProto.BOOL, []))
    fed = [dict(feeds(steps, 1), flag=np.array(flag)) for steps, flag in ((5, True), (5, False), (5, True), (8, True))]
    assert any("UNIDIRECTIONAL_SEQUENCE_LSTM" in names for names in builtins(model, tmp_path)[1:])
    agree(model, *fed)
