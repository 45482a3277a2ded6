"""Lists, ranks and texts that do not fit each other are typed errors, as in onnxruntime, and never raw or silent."""

from typing import Any, Dict, List, Sequence

import numpy as np
import pytest
from meanings import apply_operator, meaning, record_function
from onnx import helper, numpy_helper
from onnx.helper import make_node, make_tensor_value_info

import onnx_compat
from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, NeedsKnownError
from onnx_compat.ir.dtypes import DType, float32
from onnx_compat.tracing.values import SequenceValue, lift

ML = "ai.onnx.ml"


def unit_tensor(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def sequence(*arrays: np.ndarray) -> SequenceValue:
    return SequenceValue(float32, tuple(map(lift, arrays)))


ROW = unit_tensor(1, 2)
SVM = {
    "coefficients": [1.0, 1.0], "support_vectors": [1.0, 2.0, 3.0, 4.0], "vectors_per_class": [1, 1], "rho": [0.0],
    "classlabels_ints": [0, 1],
}  # fmt: skip
VECTORS = {"coefficients": [1.0, 1.0], "support_vectors": [1.0, 2.0, 3.0, 4.0], "n_supports": 2, "rho": [0.0]}
NODES = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}  # fmt: skip
REGRESSOR = dict(
    NODES, target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.0, 2.0], n_targets=1
)
CLASSIFIER = dict(
    NODES, class_treeids=[0, 0], class_nodeids=[1, 2], class_ids=[0, 1], class_weights=[1.0, 2.0],
    classlabels_int64s=[0, 1],
)  # fmt: skip


def splits(*values: float) -> Any:
    return lift(np.float32(values))


ENSEMBLE = {
    "nodes_splits": splits(0.5), "nodes_modes": lift(np.uint8([0])), "nodes_featureids": [0],
    "nodes_truenodeids": [0], "nodes_trueleafs": [1], "nodes_falsenodeids": [1], "nodes_falseleafs": [1],
    "leaf_targetids": [0, 0], "leaf_weights": splits(1.0, 2.0), "tree_roots": [0], "n_targets": 1,
}  # fmt: skip

INVALID: Sequence[Any] = [  # operator, opset, domain, inputs, attributes, text of the error
    *(
        (name, 13, "", [unit_tensor(*shape)], {"blocksize": size}, "the rank must be 4, and blocksize 1 or more")
        for name in ("DepthToSpace", "SpaceToDepth")
        for shape, size in (((4, 2, 2), 2), ((1, 4, 2, 2, 2), 2), ((), 2), ((1, 4, 2, 2), 0), ((1, 4, 2, 2), -2))
    ),
    ("DepthToSpace", 13, "", [unit_tensor(1, 5, 2, 2)], {"blocksize": 2}, "cannot be reshaped"),
    (
        "CenterCropPad",
        18,
        "",
        [unit_tensor(2, 3), np.array([4])],
        {},
        "the number of sizes is 1, the number of axes is 2",
    ),
    ("CenterCropPad", 18, "", [unit_tensor(2, 3), np.array([4, 4])], {"axes": [0]}, "the number of sizes is 2"),
    ("Reshape", 13, "", [unit_tensor(2), np.array([2, 0])], {}, "the input of rank 1 lacks"),
    ("Reshape", 1, "", [unit_tensor(2)], {"shape": [1, 2, 0]}, "the input of rank 1 lacks"),
    ("TopK", 11, "", [unit_tensor(), np.array([-1])], {"axis": 0}, "an axis of length 1 has no -1 elements"),
    ("TopK", 11, "", [unit_tensor(), np.array([2])], {"axis": 0}, "an axis of length 1 has no 2 elements"),
    ("TopK", 1, "", [unit_tensor(3)], {"k": -1}, "an axis of length 3 has no -1 elements"),
    *(
        ("ConcatFromSequence", 11, "", [sequence(*arrays)], {"axis": 0, "new_axis": new}, text)
        for new, arrays, text in (
            (0, (unit_tensor(2, 3), unit_tensor(2, 4)), "cannot be joined"),
            (1, (unit_tensor(2), unit_tensor(3)), "cannot be joined"),
            (0, (unit_tensor(2), unit_tensor(2, 2)), "cannot be joined"),
            (1, (unit_tensor(2), unit_tensor()), "cannot be joined"),
            (0, (unit_tensor(), unit_tensor()), "cannot be joined"),
        )
    ),
    *(
        (
            name,
            14,
            "",
            [unit_tensor(1, 1, 1), unit_tensor(count, gates, 1), unit_tensor(count, gates, 1)],
            attributes,
            text,
        )
        for name, gates, count, attributes, text in (
            ("LSTM", 4, 1, {"activations": ["Sigmoid"]}, "1 activations are given.*needs 3"),
            ("GRU", 3, 1, {"activations": ["Sigmoid"]}, "1 activations are given.*needs 2"),
            ("RNN", 1, 2, {"activations": ["Tanh"], "direction": "bidirectional"}, "1 activations.*needs 2"),
            ("LSTM", 4, 2, {"activations": ["Tanh"] * 5, "direction": "bidirectional"}, "5 activations.*needs 6"),
        )
    ),
    ("SVMClassifier", 1, ML, [ROW], dict(SVM, support_vectors=[1.0, 2.0, 3.0]), "support_vectors has 3 entries"),
    ("SVMClassifier", 1, ML, [ROW], dict(SVM, support_vectors=[]), "support_vectors has 0 entries"),
    ("SVMClassifier", 1, ML, [ROW], dict(SVM, coefficients=[1.0]), "coefficients has 1 entries.*need 2"),
    ("SVMClassifier", 1, ML, [ROW], dict(SVM, vectors_per_class=[2]), "a number of 0 or more for each of 2 classes"),
    ("SVMClassifier", 1, ML, [ROW], dict(SVM, vectors_per_class=[3, -1]), "0 or more for each of 2 classes"),
    ("SVMClassifier", 1, ML, [ROW], dict(SVM, kernel_params=[1.0]), "kernel_params has 1 entries"),
    ("SVMClassifier", 1, ML, [ROW], dict(SVM, prob_a=[1.0]), "prob_b has 0 entries for 1 pairs"),
    ("SVMClassifier", 1, ML, [ROW], dict(SVM, vectors_per_class=[], coefficients=[1.0]), "coefficients has 1 entries"),
    ("SVMRegressor", 1, ML, [ROW], dict(VECTORS, support_vectors=[1.0, 2.0, 3.0]), "support_vectors has 3 entries"),
    ("SVMRegressor", 1, ML, [ROW], dict(VECTORS, kernel_params=[1.0, 2.0]), "kernel_params has 2 entries"),
    *(
        ("TreeEnsembleRegressor", 3, ML, [ROW], dict(REGRESSOR, **changes), text)
        for changes, text in (
            ({"nodes_nodeids": [0, 1]}, "the lists of the trees' nodes are empty or differ"),
            ({"nodes_treeids": [0, 0, 0, 1]}, "the lists of the trees' nodes are empty or differ"),
            ({"target_nodeids": [1]}, "the trees and nodes of weights differ in length"),
            ({"base_values": [1.0, 2.0]}, "2 base values for 1 targets"),
            ({"n_targets": -1}, "the number of targets is -1"),
        )
    ),  # type: ignore[list-item]  # a mapping of attributes has values of several types
    ("TreeEnsembleClassifier", 3, ML, [ROW], dict(CLASSIFIER, base_values=[1.0] * 3), "3 base values for 2 targets"),
    *(
        ("TreeEnsemble", 5, ML, [ROW], dict(ENSEMBLE, **changes), text)
        for changes, text in (
            ({"tree_roots": [7]}, "do not form trees"),
            ({"tree_roots": [-1]}, "do not form trees"),
            ({"tree_roots": []}, "do not form trees"),
            ({"nodes_missing_value_tracks_true": [0, 0]}, "differ in length"),
            ({"leaf_targetids": []}, "0 and 2 entries|2, 0 and 2"),
            ({"leaf_weights": splits(), "leaf_targetids": []}, "the trees have no leaves"),
        )
    ),
]


def describe(case: Any) -> str:
    return "%s: %s" % (case[0], case[5][:30])


@pytest.mark.parametrize("case", INVALID, ids=describe)
def test_lists_that_do_not_fit(case: Any) -> None:
    name, opset, domain, inputs, attributes, text = case
    with pytest.raises(InvalidModelError, match=text):
        meaning(name, opset, domain)(*inputs, **attributes)


def test_attributes_that_fit_are_accepted() -> None:
    """The cases above differ from these by one attribute."""
    for name, attributes in (("SVMClassifier", SVM), ("SVMRegressor", VECTORS)):
        meaning(name, 1, ML)(ROW, **attributes)
    for name, opset, attributes in (
        ("TreeEnsembleRegressor", 3, REGRESSOR),
        ("TreeEnsembleClassifier", 3, CLASSIFIER),
        ("TreeEnsemble", 5, ENSEMBLE),
    ):
        meaning(name, opset, ML)(ROW, **attributes)


# -- rows of unknown length ----------------------------------------------------------------------------------------------
def test_coordinates_of_an_unknown_number() -> None:
    """The number of coordinates decides the rank of the result."""
    with pytest.raises(NeedsKnownError, match="the number of coordinates"):
        record_function(lambda x: p.gather_nd(x, p.cast(x, DType.of("int64"))), ["n", "m"])


def test_a_model_with_coordinates_of_an_unknown_number_runs() -> None:
    ports = [make_tensor_value_info("x", 1, [2, 2]), make_tensor_value_info("i", 7, ["n", "m"])]
    graph = helper.make_graph(
        [make_node("GatherND", ["x", "i"], ["y"])], "g", ports, [make_tensor_value_info("y", 1, None)]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    runnable = onnx_compat.prepare(model, shim="reference")
    x = np.float32([[1, 2], [3, 4]])
    assert runnable.run([x, np.array([[0, 1]])])[0].tolist() == [2]
    assert runnable.run([x, np.array([[1]])])[0].tolist() == [[3, 4]]


# -- sequences and loops -----------------------------------------------------------------------------------------------
def map_sequences(lengths: Sequence[int]) -> List[Any]:
    """Return the outputs of a SequenceMap over two sequences of these lengths, which adds the elements of both."""
    ports = [make_tensor_value_info(name, 1, [1]) for name in "ab"]
    body = helper.make_graph([make_node("Add", ["a", "b"], ["c"])], "b", ports, [make_tensor_value_info("c", 1, [1])])
    nodes = [make_node("SequenceConstruct", ["x"] * n, ["s%d" % k]) for k, n in enumerate(lengths)]
    nodes.append(make_node("SequenceMap", ["s0", "s1"], ["m"], body=body))
    nodes.append(make_node("ConcatFromSequence", ["m"], ["y"], axis=0))
    graph = helper.make_graph(nodes, "g", [make_tensor_value_info("x", 1, [1])], [make_tensor_value_info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return list(onnx_compat.run(model, [unit_tensor(1)], shim="reference"))


def test_sequences_of_different_lengths() -> None:
    """Elements of a longer sequence are not read, as in onnxruntime."""
    assert map_sequences([2, 2])[0].tolist() == map_sequences([2, 3])[0].tolist() == [2, 2]
    with pytest.raises(InvalidModelError, match="has 1 elements, the first sequence has 2"):
        map_sequences([2, 1])


def scan_8(batch: Any, steps: int = 3, **inputs: np.ndarray) -> Dict[str, Any]:
    """Return the outputs of a Scan of opset 8 that adds up vectors of two elements."""
    ports = [make_tensor_value_info(name, 1, [2]) for name in ("s", "v", "t", "o")]
    body = helper.make_graph(
        [make_node("Add", ["s", "v"], ["t"]), make_node("Identity", ["t"], ["o"])], "b", ports[:2], ports[2:]
    )
    declared = [make_tensor_value_info("i", 1, [batch, 2]), make_tensor_value_info("x", 1, [batch, steps, 2])]
    initializers = [numpy_helper.from_array(array, name) for name, array in inputs.items()]
    node = make_node("Scan", ["n" if "n" in inputs else "", "i", "x"], ["f", "y"], body=body, num_scan_inputs=1)
    results = [make_tensor_value_info(name, 1, None) for name in "fy"]
    graph = helper.make_graph([node], "g", declared, results, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=8)
    feeds = [unit_tensor(batch, 2), unit_tensor(batch, steps, 2)]
    return onnx_compat.run(model, feeds, shim="reference").as_dict()


@pytest.mark.parametrize("batch", [0, 1, 2])
def test_a_scan_of_a_batch_gives_all_its_results(batch: int) -> None:
    outputs = scan_8(batch)
    assert outputs["f"].shape == (batch, 2) and outputs["y"].shape == (batch, 3, 2)
    assert (outputs["f"] == 4).all()


def test_sequence_lengths_of_another_batch() -> None:
    with pytest.raises(InvalidModelError, match="the number of sequence lengths is 1, the batch size is 2"):
        scan_8(2, n=np.array([3]))


# -- texts -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("INF", "int32"), ("-inf", "int64"), ("NaN", "bool"), ("abc", "float32"), ("", "int32"), ("1_0", "int32"),
        ("1_0", "float32"), ("3000000000", "int32"), ("-1", "uint8"), ("1e30", "int64"), ("9" * 5000, "int64"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_number_of_the_type(text: str, name: str) -> None:
    """The error is typed where the cast is folded, and where it runs."""
    number = DType.of(name).onnx
    with pytest.raises(InvalidModelError, match=r"is no number of the type|does not fit the type"):
        meaning("Cast", 13)(np.array([text], object), to=number)
    port, result = make_tensor_value_info("x", 8, [1]), make_tensor_value_info("y", number, [1])
    graph = helper.make_graph([make_node("Cast", ["x"], ["y"], to=number)], "g", [port], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    with pytest.raises(InvalidModelError):
        onnx_compat.run(model, [np.array([text], object)], shim="reference")


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("0.5", "bool", False),
        ("1.5", "bool", True),
        ("-2", "bool", True),
        (" 7 ", "int32", 7),
        ("INF", "float32", np.inf),
    ],
)
def test_a_text_becomes_what_onnxruntime_makes_of_it(text: str, name: str, value: Any) -> None:
    result = apply_operator("Cast", 13, np.array([text], object), to=DType.of(name).onnx)
    assert result.tolist() == [value]


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize(("axis", "shape"), [(2, [1, 2]), (-3, [1, 2]), (0, [])])
def test_a_split_along_an_axis_that_is_not_there(axis: int, shape: List[int], opset: int) -> None:
    ports = [make_tensor_value_info("x", 1, shape)]
    outputs = [make_tensor_value_info(name, 1, None) for name in "yz"]
    graph = helper.make_graph([make_node("Split", ["x"], ["y", "z"], axis=axis)], "g", ports, outputs)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=6)
    with pytest.raises(InvalidModelError, match="axis %d is out of range" % axis):
        onnx_compat.prepare(proto, shim="reference")


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("SplitToSequence", [], {"axis": 0}),
        ("Compress", [np.ones(1, bool)], {"axis": 0}),
        ("CumSum", [np.array(0)], {"exclusive": 1}),
    ],
)
def test_a_scalar_has_no_axis(operator: str, inputs: List[np.ndarray], attributes: Dict[str, int]) -> None:
    with pytest.raises(InvalidModelError, match="axis 0 is out of range for a scalar"):
        apply_operator(operator, 17, np.array(1, np.float32), *inputs, **attributes)
