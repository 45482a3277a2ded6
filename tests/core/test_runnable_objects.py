"""A Runnable as an object: its repr, an array as its only input, pickles, and outputs that belong to the caller."""

import copy
import pickle
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
from building import INT64, model, node, value
from limited import install
from onnx import TensorProto, helper

import onnx_compat
from onnx_compat.errors import InputError, LimitError, MissingDependencyError, OnnxCompatError, UnsupportedError
from onnx_compat.execution.summary import summarize
from onnx_compat.model import Model, ValueInfo, pickling

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def relu() -> Any:
    return model([node("Relu", ["x"], ["y"])], [value("x", ["n", 3])], [value("y", ["n", 3])])


def add() -> Any:
    return model([node("Add", ["a", "b"], ["y"])], [value("a", [2, 3]), value("b", [2, 3])], [value("y", [2, 3])])


# -- repr ----------------------------------------------------------------------------------------------------------------
def test_the_repr_names_the_model_the_shim_and_the_ports(tmp_path: Path) -> None:
    assert repr(onnx_compat.prepare(relu(), shim="reference")) == (
        "<Runnable 'graph' on reference: x float32[n, 3] -> y float32[n, 3]>"
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(relu().SerializeToString())
    assert "'%s' on reference, cpu:" % path in repr(onnx_compat.prepare(path, shim="reference", device="cpu"))


def test_the_repr_counts_the_nodes_in_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    runnable = onnx_compat.prepare(model([node("Exp", ["x"], ["y"])], [value("x", [3])], [value("y")]), shim="limited")
    count = len(set(runnable.fallbacks))
    assert ("in the fallback" in repr(runnable)) == bool(count)


def test_a_summary_is_one_short_line_without_control_characters() -> None:
    ports = [ValueInfo("in\x1b[31m%d\n" % number, None) for number in range(30)]
    text = summarize("Runnable", "m", "tf2", ports, [], "gpu:0", 1)
    assert text.isprintable()
    assert "and 26 more -> nothing" in text
    assert text.endswith("1 node in the fallback>")


# -- an array as the only input --------------------------------------------------------------------------------------------
def test_an_array_is_the_only_input() -> None:
    runnable = onnx_compat.prepare(relu(), shim="reference")
    for array in (X, X[:1], np.asfortranarray(X)):
        np.testing.assert_array_equal(runnable.run(array)[0], array)
    np.testing.assert_array_equal(onnx_compat.run(relu(), -X, shim="reference")[0], -X * 0)
    assert onnx_compat.verify(relu(), X, shim="reference", oracle="reference").ok


def test_an_array_is_the_input_without_a_default() -> None:
    proto = model([node("Mul", ["x", "w"], ["y"])], [value("x", [3]), value("w", [3])], [value("y")], {"w": X[1]})
    np.testing.assert_array_equal(onnx_compat.run(proto, X[0], shim="reference")[0], X[0] * X[1])


class Convertible:
    """An object that numpy converts, as a tensor of a framework."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return X


def test_an_object_that_numpy_converts_is_an_array() -> None:
    np.testing.assert_array_equal(onnx_compat.run(relu(), Convertible(), shim="reference")[0], X)


@pytest.mark.parametrize("inputs", [X, Convertible(), np.float32(3), "x", b"x", 3, None, {1}])
def test_other_objects_are_refused_with_the_names_of_the_inputs(inputs: Any) -> None:
    with pytest.raises(InputError, match="inputs are a dict by name") as caught:
        onnx_compat.run(add(), inputs, shim="reference")
    assert "'a', 'b'" in str(caught.value.hint)


# -- pickles ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("copied", [lambda r: pickle.loads(pickle.dumps(r)), copy.copy, copy.deepcopy])  # noqa: S301 (its own pickle)
def test_a_pickled_runnable_is_prepared_again_with_its_options(copied: Any) -> None:
    runnable = onnx_compat.prepare(relu(), shim="reference", device="cpu", natives=False, fallback=False)
    renewed = copied(runnable)
    assert renewed is not runnable
    np.testing.assert_array_equal(renewed.run(X)[0], X)
    options = [(r.shim, r.device, r._natives, r._fallback) for r in (runnable, renewed)]
    assert options[0] == options[1] == ("reference", "cpu", False, False)


def test_a_pickle_holds_the_weights_of_other_files(tmp_path: Path) -> None:
    """After pickling, neither the model nor its external data is needed."""
    weights = np.arange(3, dtype=np.float32)
    proto = model([node("Add", ["x", "w"], ["y"])], [value("x", [3])], [value("y")], {"w": weights})
    (tmp_path / "w.bin").write_bytes(weights.tobytes())
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "w.bin"
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    pickled = pickle.dumps(onnx_compat.prepare(path, shim="reference"))
    path.unlink()
    (tmp_path / "w.bin").unlink()
    np.testing.assert_array_equal(pickle.loads(pickled).run(X[0])[0], X[0] + weights)  # noqa: S301 (its own pickle)


def test_a_pickled_model_keeps_everything_but_its_path() -> None:
    proto = model([node("Mul", ["x", "w"], ["y"])], [value("x", ["n"]), value("w", [1])], [value("y")], {"w": [2.0]})
    proto.metadata_props.add(key="author", value="me")
    before = onnx_compat.load(proto)
    after: Model = pickle.loads(pickle.dumps(before))  # noqa: S301 (its own pickle)
    assert (after.inputs, after.outputs, after.opsets) == (before.inputs, before.outputs, before.opsets)
    assert after.metadata == {"author": "me"}
    assert [repr(n) for n in after.graph.nodes] == [repr(n) for n in before.graph.nodes]


def test_a_model_of_two_gigabytes_is_not_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickling, "_MOST_BYTES", 7)
    proto = model([node("Add", ["x", "w"], ["y"])], [value("x", [3])], [value("y")], {"w": X[0]})
    with pytest.raises(UnsupportedError, match="GB of weights cannot be pickled") as caught:
        pickle.dumps(onnx_compat.prepare(proto, shim="reference"))
    assert "in each process" in str(caught.value.hint)


def test_outputs_and_errors_are_pickled() -> None:
    outputs = pickle.loads(pickle.dumps(onnx_compat.run(relu(), X, shim="reference")))  # noqa: S301 (its own pickle)
    np.testing.assert_array_equal(outputs["y"], X)
    for error in (
        UnsupportedError("r", hint="h", node="n"),
        LimitError("r", limit="nodes"),
        MissingDependencyError("r"),
    ):
        again: OnnxCompatError = pickle.loads(pickle.dumps(error))  # noqa: S301 (its own pickle)
        assert (type(again), str(again), again.hint, again.node) == (type(error), str(error), error.hint, error.node)


# -- outputs belong to the caller ------------------------------------------------------------------------------------------
def _arrays(values: Any) -> List[Any]:
    return [a for v in values for a in (_arrays(v) if isinstance(v, list) else [v])]


def test_sequences_and_parts_belong_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    nodes = [
        node("Identity", ["x"], ["same"]),
        node("SequenceConstruct", ["x", "w", "x"], ["s"]),
        node("Exp", ["x"], ["e"]),
    ]
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    outputs = [value("same", [2, 3]), sequence, value("w", [3]), value("e", [2, 3]), value("n", [1], INT64)]
    proto = model(nodes, [value("x", [2, 3])], outputs, {"w": X[0], "n": np.array([7])})
    for shim in ("reference", "limited"):
        runnable = onnx_compat.prepare(proto, shim=shim)
        given = X.copy()
        first = _arrays(runnable.run([given]))
        expected = [array.copy() for array in first]
        for array in first:
            assert array.flags.writeable
            array += 1
        np.testing.assert_array_equal(given, X)
        for array, want in zip(first, expected):
            np.testing.assert_array_equal(array, want + 1)  # changed once: no two outputs share memory
        for array, want in zip(_arrays(runnable.run([given])), expected):
            np.testing.assert_array_equal(array, want)
