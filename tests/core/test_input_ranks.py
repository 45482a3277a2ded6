"""Inputs of another rank than ONNX allows give an InvalidModelError that names the rank, whatever the meaning computes."""

from typing import Any, Dict, Tuple

import numpy as np
import pytest
from building import model, node, value
from onnx import defs, helper

import onnx_compat
from matrix.fuzz.damage.outcomes import RAN, judge
from matrix.fuzz.execution import REFUSED
from onnx_compat.errors import InvalidModelError, LimitError
from onnx_compat.ir.dtypes import DType
from onnx_compat.ops import ranks

A, N = np.float32, np.int64
#: Operator -> (opset, shapes of valid inputs with their dtypes, attributes). The first input gets other ranks.
CASES: Dict[str, Tuple[int, Any, Dict[str, Any]]] = {
    "AffineGrid": (20, [((2, 2, 3), A), ((4,), N)], {}),
    "ArgMax": (13, [((2, 2), A)], {"axis": 1}),
    "Attention": (23, [((1, 2, 3, 4), A)] * 3, {}),
    "CausalConvWithState": (27, [((2, 4, 8), A), ((4, 1, 4), A)], {}),
    "Col2Im": (18, [((1, 5, 5), A), ((2,), N), ((2,), N)], {}),
    "Conv": (11, [((1, 1, 5, 5), A), ((1, 1, 3, 3), A)], {}),
    "ConvTranspose": (11, [((1, 1, 3, 3), A), ((1, 2, 3, 3), A)], {}),
    "Det": (11, [((2, 2), A)], {}),
    "EyeLike": (9, [((4, 5), A)], {}),
    "GatherElements": (13, [((3, 3), A), ((3, 3), N)], {}),
    "Gemm": (13, [((2, 3), A), ((3, 2), A)], {}),
    "GroupNormalization": (21, [((3, 4, 2, 2), A), ((4,), A), ((4,), A)], {"num_groups": 2}),
    "Hardmax": (13, [((3, 4), A)], {}),
    "InstanceNormalization": (6, [((2, 3, 4, 5), A), ((3,), A), ((3,), A)], {}),
    "LRN": (13, [((5, 5, 5, 5), A)], {"size": 3}),
    "LinearAttention": (27, [((2, 1, 32), A)] * 3, {"q_num_heads": 4, "kv_num_heads": 4}),
    "MatMul": (13, [((3, 4), A), ((4, 3), A)], {}),
    "NonMaxSuppression": (11, [((1, 6, 4), A), ((1, 1, 6), A), ((1,), N)], {}),
    "ReverseSequence": (10, [((4, 4), A), ((4,), N)], {}),
    "RoiAlign": (16, [((1, 1, 9, 9), A), ((1, 4), A), ((1,), N)], {}),
    "RotaryEmbedding": (23, [((2, 3, 4, 8), A), ((50, 4), A), ((50, 4), A), ((2, 4), N)], {}),
    "ScatterElements": (18, [((3, 3), A), ((2, 3), N), ((2, 3), A)], {}),
    "Slice": (13, [((3,), A), ((1,), N), ((1,), N)], {}),
    "Trilu": (14, [((4, 5), A)], {}),
    "Unique": (11, [((3, 3), A)], {"axis": 0}),
}


#: Operator -> the first version that the table describes, where a version before has fewer inputs.
MEANT = {"DFT": 20}


def feeds_of(operator: str, rank: int) -> Dict[str, np.ndarray]:
    _, inputs, _ = CASES[operator]
    arrays = [np.ones(shape, dtype) for shape, dtype in inputs]
    arrays[0] = np.ones((2,) * rank, arrays[0].dtype)
    return {"x%d" % k: array for k, array in enumerate(arrays)}


def run_node(operator: str, opset: int, feeds: Dict[str, np.ndarray], outputs: int = 1, **attributes: Any) -> Any:
    ports = [value(k, array.shape, DType.of(array.dtype).onnx) for k, array in feeds.items()]
    names = ["y%d" % k for k in range(outputs)]
    proto = model([node(operator, list(feeds), names, **attributes)], ports, [value(k) for k in names], opset=opset)
    for output in proto.graph.output:
        output.ClearField("type")
    return onnx_compat.prepare(proto, shim="reference", fallback=False).run(feeds)[0]


@pytest.mark.parametrize("rank", range(7))
@pytest.mark.parametrize("operator", sorted(CASES))
def test_no_rank_gives_an_exception_that_no_code_foresaw(operator: str, rank: int) -> None:
    opset, _, attributes = CASES[operator]
    outcome = judge(lambda: run_node(operator, opset, feeds_of(operator, rank), **attributes))
    assert outcome.kind in (RAN, REFUSED), outcome.detail


@pytest.mark.parametrize("operator", sorted(CASES))
def test_a_scalar_is_refused_by_its_rank(operator: str) -> None:
    opset, _, attributes = CASES[operator]
    with pytest.raises(InvalidModelError):
        run_node(operator, opset, feeds_of(operator, 0), **attributes)


@pytest.mark.parametrize("operator", sorted(ranks.TABLE))
def test_the_table_has_operators_and_inputs_of_onnx(operator: str) -> None:
    for schema in defs.get_all_schemas():  # an older onnx lacks some
        if schema.name != operator or schema.domain not in ("", "ai.onnx.preview"):
            continue
        if schema.since_version >= MEANT.get(operator, 1):
            assert len(ranks.TABLE[operator].split()) <= len(schema.inputs)


def test_a_sequence_in_place_of_a_tensor_is_refused() -> None:
    nodes = [node("SequenceConstruct", ["x"], ["s"]), node("LSTM", ["s", "w", "r"], ["y"], hidden_size=1)]
    ports = [value("x", [2, 1, 3]), value("w", [1, 4, 3]), value("r", [1, 4, 1])]
    with pytest.raises(InvalidModelError, match="number 0 is no tensor, LSTM takes a tensor"):
        onnx_compat.prepare(model(nodes, ports, [value("y")], opset=14), shim="reference")


X = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
FAULTS = [
    ("Cast", 24, [X], {"to": 24, "round_mode": "sideways"}, "round_mode"),
    ("Compress", 11, [X, np.ones((2, 2), bool)], {}, "condition of a Compress is a vector"),
    ("DFT", 17, [X[..., :0]], {"axis": 1}, "size 1 or 2, not 0"),
    ("LpPool", 18, [X], {"kernel_shape": [2, 2], "p": 0}, "positive number"),
    ("LRN", 13, [X], {"size": 0}, "1 or more"),
    ("Attention", 23, [X, X, X], {"scale": -1.0}, "0 or more, not -1"),
    ("Shrink", 9, [np.array([1], np.uint16)], {"lambd": -70000.0}, "does not fit uint16"),
]
GRAMS: Dict[str, Any] = {
    "max_gram_length": 1,
    "min_gram_length": 1,
    "max_skip_count": 0,
    "mode": "TF",
    "ngram_counts": [0],
}
for changes, text in [
    ({"ngram_indexes": [0]}, "needs pool_strings or pool_int64s"),
    ({"ngram_indexes": [0], "pool_int64s": [2**31]}, "does not fit int32"),
    ({"ngram_indexes": [0], "pool_int64s": [1, 2]}, "2 n-grams, 1 indexes"),
    ({"ngram_indexes": [0], "pool_int64s": [1, 2], "ngram_counts": [0, 1]}, "no whole n-grams"),
    ({"ngram_indexes": [0], "pool_int64s": [1, 2], "ngram_counts": [3]}, "do not fit a pool"),
    ({"ngram_indexes": [-1], "pool_int64s": [1]}, "0 or more"),
]:
    FAULTS.append(("TfIdfVectorizer", 9, [np.array([1], np.int32)], {**GRAMS, **changes}, text))


@pytest.mark.parametrize(("operator", "opset", "arrays", "attributes", "text"), FAULTS)
def test_attributes_that_fit_nothing_are_refused(operator, opset, arrays, attributes, text) -> None:
    with pytest.raises(InvalidModelError, match=text):
        run_node(operator, opset, {"x%d" % k: array for k, array in enumerate(arrays)}, **attributes)


def test_a_window_of_many_channels_is_no_loop_over_all_of_them() -> None:
    """The channels beyond the ends count as 0, so that a window of 2^40 channels is as wide as one of five."""
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(1, 3, 2, 2)
    got = run_node("LRN", 13, {"x": x}, size=2**40, alpha=float(2**40), beta=1.0, bias=0.0)
    np.testing.assert_allclose(got, x / (x * x).sum(1, keepdims=True), rtol=1e-5)
    proto = model([node("LRN", ["x"], ["y"], size=2**40)], [value("x", ["n", "c", 2, 2])], [value("y")])
    with pytest.raises(LimitError):
        onnx_compat.prepare(proto, shim="reference")


@pytest.mark.parametrize("size", [2**31 - 1, 2**63 - 1])
def test_a_window_of_all_positions_is_no_window(size: int) -> None:
    arrays = {name: np.random.RandomState(k).rand(1, 2, 3, 4).astype(np.float32) for k, name in enumerate("qkv")}
    wide = run_node("Attention", 27, arrays, left_window_size=size, right_window_size=size)
    np.testing.assert_array_equal(wide, run_node("Attention", 27, arrays))


def test_unsigned_numbers_shrink() -> None:
    x = np.array([0, 1, 2, 3, 200], np.uint8)
    np.testing.assert_array_equal(run_node("Shrink", 9, {"x": x}, lambd=1.5, bias=1.0), [0, 0, 1, 2, 199])


@pytest.mark.parametrize(("count", "inputs", "text"), [(0, 2, "num_scan_inputs is 0"), (5, 2, "5"), (1, 3, "2 inputs")])
def test_a_body_that_does_not_fit_its_scan_is_refused(count: int, inputs: int, text: str) -> None:
    body = helper.make_graph(
        [node("Add", ["a", "b"], ["c"]), node("Identity", ["c"], ["d"])],
        "body",
        [value("a", [2]), value("b", [2])],
        [value("c", [2]), value("d", [2])],
    )
    names = ["x%d" % k for k in range(inputs)]
    scan = node("Scan", names, ["y", "z"], body=body, num_scan_inputs=count)
    ports = [value(name, [2] if k == 0 else [3, 2]) for k, name in enumerate(names)]
    with pytest.raises(InvalidModelError, match=text):
        onnx_compat.prepare(model([scan], ports, [value("y"), value("z")]), shim="reference")


@pytest.mark.parametrize("to", [10, 16, 17, 23])
def test_a_scalar_of_any_dtype_is_an_array(to: int) -> None:
    assert isinstance(run_node("Cast", 23, {"x": np.float32(1) * np.ones((), A)}, to=to), np.ndarray)


def test_a_body_with_an_identity_of_nothing_is_refused() -> None:
    body = helper.make_graph(
        [node("Identity", [], ["s2"]), node("Identity", ["c"], ["c2"])],
        "body",
        [value("k", [], 7), value("c", [], 9), value("s", [2])],
        [value("c2", [], 9), value("s2", [2])],
    )
    loop = node("Loop", ["n", "", "x"], ["y"], body=body)
    with pytest.raises(InvalidModelError):
        onnx_compat.prepare(model([loop], [value("n", [], 7), value("x", [2])], [value("y")]), shim="reference")
