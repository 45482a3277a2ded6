"""The native methods of the TensorFlow shims give the results of the composed meanings, and decline every other case."""

import importlib
import os
from typing import Any, Dict, List, Tuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper

import onnx_compat

SHIM = os.environ.get("ONNX_COMPAT_SHIM", "")

_TYPES = {"float32": T.FLOAT, "float64": T.DOUBLE, "int8": T.INT8, "uint8": T.UINT8, "int64": T.INT64}


def _random(*shape: int) -> np.ndarray:
    return np.random.RandomState(sum(shape)).randn(*shape).astype(np.float32)


def _model(operator: str, opset: int, count: int, fed: Dict[str, Any], known: Dict[str, Any], **attributes: Any) -> Any:
    """Return a model of one node. `fed`: input -> (array, shape), in which None is a symbolic size.

    `known`: initializers.
    """
    names = [name for name in (*fed, *known) if not name.startswith("_")]
    ordered = sorted(names, key=lambda name: int(name[1:]))
    slots = ["i%d" % k if "i%d" % k in ordered else "" for k in range(int(ordered[-1][1:]) + 1)]
    inputs = [helper.make_tensor_value_info(n, _TYPES[a.dtype.name], shape) for n, (a, shape) in fed.items()]
    outputs = ["o%d" % k for k in range(count)]
    values = [onnx.numpy_helper.from_array(array, name) for name, array in known.items()]
    node = helper.make_node(operator, slots, outputs, **attributes)
    declared = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], "fast", inputs, declared, values)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 7
    return model


def _both(model: Any, *feeds: Dict[str, np.ndarray]) -> List[str]:
    fast, composed = (onnx_compat.prepare(model, shim=SHIM, natives=flag) for flag in (True, False))
    for feed in feeds:
        for ours, theirs in zip(fast.run(feed), composed.run(feed)):
            np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-6)
            assert ours.dtype == theirs.dtype
    return [row.status for row in onnx_compat.support(model, SHIM)]


def _lstm_status() -> List[str]:
    """Return the expected status of an LSTM node: TensorFlow 2.0 has no kernel with these semantics."""
    return ["native" if hasattr(importlib.import_module("tensorflow").raw_ops, "BlockLSTMV2") else "composed"]


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("peephole", [False, True])
def test_lstm(direction: str, peephole: bool) -> None:
    ways = 2 if direction == "bidirectional" else 1
    known = {"i1": _random(ways, 20, 4), "i2": _random(ways, 20, 5), "i3": _random(ways, 40)}
    if peephole:
        known["i7"] = _random(ways, 15)
    fed = {"i0": (_random(3, 2, 4), ["steps", "batch", 4])}
    model = _model("LSTM", 14, 3, fed, known, hidden_size=5, direction=direction)
    sizes = [(3, 2), (1, 1), (6, 3), (0, 2), (2, 0)]
    assert _both(model, *[{"i0": _random(*size, 4)} for size in sizes]) == _lstm_status()


def test_lstm_with_first_states() -> None:
    fed = {"i0": (_random(3, 2, 4), [3, 2, 4]), "i5": (_random(1, 2, 5), None), "i6": (_random(1, 2, 5), None)}
    fed = {name: (array, list(array.shape)) for name, (array, _) in fed.items()}
    model = _model("LSTM", 14, 3, fed, {"i1": _random(1, 20, 4), "i2": _random(1, 20, 5)}, hidden_size=5)
    assert _both(model, {name: array for name, (array, _) in fed.items()}) == _lstm_status()


@pytest.mark.parametrize("attributes", [{"clip": 0.5}, {"activations": ["Tanh"] * 3}, {"input_forget": 1}])
def test_lstm_declines(attributes: Dict[str, Any]) -> None:
    fed = {"i0": (_random(3, 2, 4), [3, 2, 4])}
    known = {"i1": _random(1, 20, 4), "i2": _random(1, 20, 5)}
    model = _model("LSTM", 14, 3, fed, known, hidden_size=5, **attributes)
    assert _both(model, {"i0": fed["i0"][0]}) == ["composed"]


@pytest.mark.parametrize("depth", [7, 258, 259, 1000])
@pytest.mark.parametrize("signs", [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")])
def test_matmul_integer_is_exact(depth: int, signs: Tuple[str, str]) -> None:
    """The numbers are those with the largest difference from their zero points."""
    ends = [np.iinfo(name) for name in signs]
    a = np.full((2, 3, depth), ends[0].max, signs[0])
    b = np.full((depth, 4), ends[1].min, signs[1])
    known = {"i1": b, "i2": np.array(ends[0].min, signs[0]), "i3": np.array([ends[1].max] * 4, signs[1])}
    model = _model("MatMulInteger", 10, 1, {"i0": (a, ["n", 3, "k"])}, known)
    fast = onnx_compat.prepare(model, shim=SHIM)
    assert np.array_equal(fast.run({"i0": a})[0], np.full((2, 3, 4), -255 * 255 * depth, np.int32))
    assert _both(model, {"i0": a}) == ["native"]


@pytest.mark.parametrize(
    ("transformation", "after", "status"),
    [
        ("half_pixel", (8, 10), "native"),
        ("asymmetric", (9, 5), "native"),
        ("align_corners", (7, 15), "native"),
        ("pytorch_half_pixel", (12, 15), "native"),
        ("half_pixel", (3, 10), "composed"),
    ],
)
def test_resize(transformation: str, after: Tuple[int, int], status: str) -> None:
    fed = {"i0": (_random(2, 3, 4, 5), ["n", 3, 4, 5])}
    known = {"i2": np.array([1, 1, after[0] / 4, after[1] / 5], np.float32)}
    model = _model("Resize", 13, 1, fed, known, mode="linear", coordinate_transformation_mode=transformation)
    assert _both(model, {"i0": fed["i0"][0]}) == [status]


@pytest.mark.parametrize(
    ("operator", "attributes", "status"),
    [
        ("Elu", {}, "native"),
        ("Elu", {"alpha": 2.0}, "composed"),
        ("Selu", {}, "native"),
        ("Selu", {"gamma": 3.0}, "composed"),
    ],
)
def test_activations(operator: str, attributes: Dict[str, Any], status: str) -> None:
    x = np.concatenate([_random(40), np.array([np.nan, np.inf, -np.inf, -0.0, 1e-9], np.float32)])
    assert _both(_model(operator, 6, 1, {"i0": (x, ["n"])}, {}, **attributes), {"i0": x}, {"i0": x[:0]}) == [status]


def test_determinants() -> None:
    x = _random(6, 4, 4)
    x[2, 1] = x[2, 0]  # of a singular matrix
    assert _both(_model("Det", 11, 1, {"i0": (x, ["n", 4, 4])}, {}), {"i0": x}, {"i0": x[:0]}) == ["native"]
