"""Intermediate values inside a converted file: axis orders, operators of a value, and infinities that saturate."""

from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np
import pytest
from building import model, node, value

import onnx_compat
from onnx_compat.discovery import selection
from onnx_compat.errors import InputError, UnsupportedError
from onnx_compat.reference.shim import ReferenceShim
from onnx_compat.shim.description import OpenedFile, Step
from onnx_compat.verification.compare import compare
from onnx_compat.verification.intermediate_values import InFile
from onnx_compat.verification.layers import examine_layers

IMAGE = np.arange(12, dtype=np.float32).reshape(1, 2, 3, 2)
LAST = (0, 2, 3, 1)


class ChannelsLast(OpenedFile):
    """A fake file for y = relu(-x) in channels last. Its NEG is split in two steps; `wrong` is added to the result."""

    notes = ("it is a fake",)
    steps = (
        Step("TRANSPOSE", ("x",), ("x_last",)),
        Step("NEG", ("x_last",), ("n",)),
        Step("RELU", ("n",), ("y",)),
        Step("ABS", ("x",), ("unknown",)),
    )

    def __init__(self, wrong: float = 0.0, dtype: Any = np.float32) -> None:
        self.wrong, self.dtype = wrong, dtype
        self.given: Dict[str, Sequence[str]] = {}

    def values(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        x = inputs["x"].transpose(LAST)
        n = (-x).astype(self.dtype)
        return {"x_last": x, "n": n, "y": np.maximum(n, 0) + self.wrong, "unknown": abs(x)}

    def alone(self, name: str, given: Mapping[str, np.ndarray]) -> np.ndarray:
        self.given[name] = sorted(given)
        (array,) = given.values()
        if name == "n":
            return -array.transpose(LAST)
        return np.maximum(array, 0) + self.wrong


class Reader(ReferenceShim):
    """A shim that opens the fake file."""

    name = "reader"
    formats = {"fake": (".fake", "a file of the tests")}

    def __init__(self, file: OpenedFile) -> None:
        self.file = file

    def look_inside(self, path: str, file_format: str) -> OpenedFile:
        assert file_format == "fake"
        return self.file


def negation() -> Any:
    nodes = [node("Neg", ["x"], ["n"], name="neg"), node("Relu", ["n"], ["y"], name="relu")]
    return onnx_compat.load(model(nodes, [value("x", [1, 2, 3, 2])], [value("y", [1, 2, 3, 2])]))


def open_file(monkeypatch: pytest.MonkeyPatch, file: ChannelsLast, channels_last: Sequence[str] = ()) -> InFile:
    monkeypatch.setitem(selection._LOADED, "reader", Reader(file))
    return InFile(negation(), "m.fake", "reader", channels_last)


def examine(subject: InFile) -> Any:
    def judge(*outputs: Any) -> Any:
        return compare(*outputs, rtol=1e-3, atol=1e-3)

    return examine_layers(subject.model, {"x": IMAGE}, subject, "reference", judge)


def test_the_suffix_of_the_file_must_be_that_of_a_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(selection._LOADED, "reader", Reader(ChannelsLast()))
    with pytest.raises(InputError, match=r"the shim reader does not read 'm\.other'") as error:
        InFile(negation(), "m.other", "reader")
    assert error.value.hint == "check the suffix of the file"


def test_values_in_channels_last_agree_with_those_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = open_file(monkeypatch, ChannelsLast())
    layers = examine(subject)
    assert layers.ok and layers.culprit is None
    assert [layer.value for layer in layers.layers] == ["n", "y"]
    assert subject.notes == ["it is a fake"]
    assert subject.emitted == {"n": ("TRANSPOSE", "NEG"), "y": ("RELU",)}


def test_the_operator_that_departs_runs_alone_in_the_order_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    file = ChannelsLast(wrong=1.0)
    layers = examine(open_file(monkeypatch, file))
    assert layers.culprit == "relu"
    assert file.given["y"] == ["n"]


def test_a_node_that_the_file_does_not_hold_has_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    file = ChannelsLast()
    file.steps = (Step("RELU", ("x",), ("y",)),)
    subject = open_file(monkeypatch, file)
    neg, relu = subject.model.graph.nodes
    assert subject.alone(neg, {"x": IMAGE}) == {}
    np.testing.assert_array_equal(subject.alone(relu, {"x": IMAGE})["y"], IMAGE)


def test_an_input_in_channels_last_is_fed_in_that_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake transposes its input, so an input that is fed in channels last arrives as (0, 3, 1, 2) of it."""
    subject = open_file(monkeypatch, ChannelsLast(), ["x"])
    fed = IMAGE.transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(subject.values({"x": IMAGE}, {})["n"], -fed.transpose(LAST))


@pytest.mark.parametrize("fed", [None, [IMAGE], (IMAGE,)])
def test_a_sequence_has_no_values_inside_a_file(monkeypatch: pytest.MonkeyPatch, fed: Any) -> None:
    subject = open_file(monkeypatch, ChannelsLast())
    with pytest.raises(UnsupportedError, match="only be compared for tensors, not for sequences") as error:
        subject.alone(subject.model.graph.nodes[1], {"n": fed})
    assert error.value.hint == "verify without layers (--layers)"


# -- alignment ---------------------------------------------------------------------------------------------------------
def align(monkeypatch: pytest.MonkeyPatch, got: Any, want: Any) -> Any:
    return open_file(monkeypatch, ChannelsLast()).align("n", got, want)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0)])
def test_a_value_is_compared_in_the_order_with_the_smallest_error(
    monkeypatch: pytest.MonkeyPatch, order: List[int]
) -> None:
    want = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
    np.testing.assert_array_equal(align(monkeypatch, want.transpose(order), want), want)


def test_equal_sizes_are_told_apart_by_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    want = np.arange(16, dtype=np.float32).reshape(2, 2, 2, 2)
    np.testing.assert_array_equal(align(monkeypatch, want.transpose(0, 2, 3, 1), want), want)


@pytest.mark.parametrize(("got", "want"), [([IMAGE], IMAGE), (IMAGE, None), (IMAGE, [IMAGE])])
def test_a_value_that_is_no_tensor_is_not_aligned(monkeypatch: pytest.MonkeyPatch, got: Any, want: Any) -> None:
    assert align(monkeypatch, got, want) is got


@pytest.mark.parametrize("shape", [(3,), (2, 2), (1, 2, 3, 2, 1)])
def test_a_value_of_another_shape_keeps_its_order(monkeypatch: pytest.MonkeyPatch, shape: Sequence[int]) -> None:
    got = np.zeros(shape, np.float32)
    assert align(monkeypatch, got, IMAGE).shape == shape


def test_a_value_takes_the_dtype_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    aligned = align(monkeypatch, IMAGE.astype(np.float16), IMAGE)
    assert aligned.dtype == np.float32
    np.testing.assert_array_equal(aligned, IMAGE)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_texts_are_aligned_by_the_number_that_differ(monkeypatch: pytest.MonkeyPatch, order: Any) -> None:
    want = np.array([["a", "b"], ["c", "d"]], object)
    assert align(monkeypatch, want.transpose(order), want).tolist() == want.tolist()


@pytest.mark.parametrize(
    ("got", "want", "expected"),
    [
        (np.finfo(np.float32).max, np.inf, np.inf),
        (np.finfo(np.float32).min, -np.inf, -np.inf),
        (np.finfo(np.float32).min, np.inf, np.finfo(np.float32).min),
        (3.0, np.inf, 3.0),
    ],
)
def test_the_largest_number_stands_for_an_infinity(
    monkeypatch: pytest.MonkeyPatch, got: float, want: float, expected: Optional[float]
) -> None:
    assert align(monkeypatch, np.float32([got]), np.float32([want])).tolist() == [expected]


def test_integers_do_not_saturate(monkeypatch: pytest.MonkeyPatch) -> None:
    assert align(monkeypatch, np.int32([2147483647]), np.int32([5])).tolist() == [2147483647]
