"""Models whose names, orders, dtypes or magnitudes are unusual keep their results when they are simplified."""

from typing import Any, List

import numpy as np
import pytest
from building import model, node, value
from onnx import TensorProto, helper, numpy_helper
from simplifying import outputs_of

import onnx_compat
from onnx_compat.passes import leaving_out
from onnx_compat.simplify import graph_draft, simplify
from onnx_compat.simplify.node import DraftNode
from onnx_compat.simplify.node_list import NodeList
from onnx_compat.simplify.rewrites.examples import example


def operators(proto: Any) -> List[str]:
    return [entry.op_type for entry in proto.graph.node]


def branch(nodes: List[Any], output: str) -> Any:
    return helper.make_graph(nodes, "branch", [], [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)])


@pytest.mark.parametrize("perm", [[0, 1], [1, 0], None])
def test_a_transpose_without_effect_does_not_transpose_an_operand(perm: Any) -> None:
    attributes = {} if perm is None else {"perm": perm}
    proto = example(
        ("Transpose", "x", "a", attributes), ("Gemm", "a w", "y"), w=np.arange(4.0).reshape(2, 2), shape=(2, 2)
    )
    with leaving_out(["equal_values"]):
        after, _ = simplify(proto)
    np.testing.assert_allclose(outputs_of(after)[0], outputs_of(proto)[0], rtol=1e-6)


def test_slices_whose_bounds_differ_in_dtype_stay() -> None:
    numbers = {"a": np.array([0]), "b": np.array([2**63 - 1]), "c": np.array([1])}
    small = {name: np.array([number], np.int32) for name, number in (("d", 0), ("e", 1), ("f", 0))}
    proto = example(("Slice", "x a b c", "s"), ("Slice", "s d e f", "y"), shape=(4, 5), **numbers)
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in {**numbers, **small}.items())
    after, _ = simplify(proto)
    np.testing.assert_array_equal(outputs_of(after)[0], outputs_of(proto)[0])


def test_a_sparse_initializer_that_a_caller_may_replace_is_no_constant() -> None:
    values = numpy_helper.from_array(np.float32([2, 3]), "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([0, 2]), "w_indices"), [3])
    nodes = [node("Neg", ["w"], ["n"]), node("Add", ["x", "n"], ["y"])]
    proto = model(nodes, [value("x", [3]), value("w", [3])], [value("y", [3])])
    proto.graph.sparse_initializer.append(sparse)
    assert operators(simplify(proto)[0]) == ["Neg", "Add"]
    del proto.graph.input[1]
    assert operators(simplify(proto)[0]) == ["Add"]


@pytest.mark.parametrize(("weight", "count"), [(1e-4, 2), (0.5, 1)])
def test_a_scale_that_underflows_stays(weight: float, count: int) -> None:
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("Mul", ["p", "s"], ["y"])]
    stored = {"w": np.full((2, 2), weight, np.float16), "s": np.full(2, 1e-4, np.float16)}
    half = TensorProto.FLOAT16
    proto = model(nodes, [value("x", [1, 2], half)], [value("y", [1, 2], half)], stored)
    assert len(simplify(proto)[0].graph.node) == count


def test_weights_that_are_nearly_zero_do_not_keep_a_scale() -> None:
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("Mul", ["p", "s"], ["y"])]
    proto = model(
        nodes, [value("x", [1, 2])], [value("y", [1, 2])], {"w": np.float32([[1, 1e-43], [2, 3]]), "s": np.float32([0.7, 0.7])}
    )  # fmt: skip
    assert operators(simplify(proto)[0]) == ["MatMul"]


def test_a_branch_may_use_the_names_of_its_if() -> None:
    then = branch([node("Neg", ["x"], ["b"]), node("Exp", ["b"], ["a"])], "a")
    choice = node("If", ["c"], ["a"], then_branch=then, else_branch=branch([node("Abs", ["x"], ["a"])], "a"))
    for output in ("a", "y"):
        nodes = [choice] if output == "a" else [choice, node("Relu", ["a"], ["y"])]
        proto = model(nodes, [value("x", [2])], [value(output, [2])], {"c": np.asarray(True)})
        after, _ = simplify(proto)
        assert "If" not in operators(after)
        np.testing.assert_allclose(outputs_of(after)[0], outputs_of(proto)[0], rtol=1e-6)


def test_a_result_of_a_branch_that_nothing_reads_disappears() -> None:
    graphs = {}
    for name in ("then_branch", "else_branch"):
        ports = [helper.make_tensor_value_info(port, TensorProto.FLOAT, None) for port in ("a", "b")]
        graphs[name] = helper.make_graph([node("Neg", ["x"], ["a"]), node("Exp", ["x"], ["b"])], name, [], ports)
    nodes = [node("If", ["c"], ["a", "b"], **graphs), node("Relu", ["b"], ["y"])]
    proto = model(nodes, [value("x", [2])], [value("y", [2])], {"c": np.asarray(True)})
    after, _ = simplify(proto)
    assert operators(after) == ["Exp", "Relu"]


def test_the_nodes_of_a_branch_may_have_any_order() -> None:
    then = branch([node("Exp", ["n"], ["t"]), node("Neg", ["x"], ["n"])], "t")
    choice = node("If", ["c"], ["a"], then_branch=then, else_branch=branch([node("Abs", ["x"], ["e"])], "e"))
    proto = model([choice, node("Relu", ["a"], ["y"])], [value("x", [2])], [value("y", [2])], {"c": np.asarray(True)})
    assert operators(simplify(proto)[0]) == ["Neg", "Exp", "Relu"]


def test_what_only_a_removed_node_of_a_subgraph_read_is_removed() -> None:
    then = branch([node("Mul", ["x", "w"], ["unread"]), node("Neg", ["x"], ["t"])], "t")
    choice = node("If", ["c"], ["y"], then_branch=then, else_branch=branch([node("Abs", ["x"], ["e"])], "e"))
    ports = [value("x", [2]), value("c", [], TensorProto.BOOL)]
    nodes = [node("Exp", ["x"], ["z"]), node("Relu", ["z"], ["w"]), choice]
    proto = model(nodes, ports, [value("y", [2])])
    assert operators(simplify(proto)[0]) == ["If"]


def test_a_long_reversed_chain_is_sorted_in_linear_time() -> None:
    count = 2000
    nodes = [DraftNode(node("Neg", ["v%d" % k], ["v%d" % (k + 1)])) for k in reversed(range(count))]
    producers = {entry.outputs[0]: entry for entry in nodes}
    looked_up: List[str] = []

    def producer(name: str) -> Any:
        looked_up.append(name)
        return producers.get(name)

    chain = NodeList(nodes)
    assert chain.sort(producer)
    assert list(chain) == nodes[::-1]
    assert len(looked_up) == count, "each read is looked up once"
    chain.replace(nodes[0], nodes[:1])
    assert not chain.sort(producer)


def test_sizes_that_an_exporter_calls_none_may_differ() -> None:
    nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["n"]), node("Expand", ["z", "n"], ["y"])]
    stored = {"one": np.array([1]), "z": np.float32([2])}
    proto = model(nodes, [value("x", ["None", "None"])], [value("y", ["None"])], stored)
    names = model([*nodes[:2], node("Gather", ["s", "zero"], ["m"]), node("Concat", ["n", "m"], ["y"], axis=0)],
                  [value("x", ["None", "None"])], [value("y", [2], TensorProto.INT64)], {"one": np.array([1]), "zero": np.array([0])})  # fmt: skip
    for source in (proto, names):
        for got, want in zip(
            *(
                onnx_compat.run(variant, np.ones((2, 3), np.float32), shim="reference")
                for variant in (simplify(source)[0], source)
            )
        ):
            np.testing.assert_array_equal(got, want)


def test_the_elements_of_an_initializer_are_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: List[str] = []
    original = graph_draft.digest_of_elements
    monkeypatch.setattr(
        graph_draft, "digest_of_elements", lambda tensor: (hashed.append(tensor.name), original(tensor))[1]
    )
    proto = example(
        ("Add", "x v", "a"), ("Mul", "a w", "b"), ("Relu", "b", "c"), ("Relu", "c", "y"), v=[1.0, 2.0], w=[3.0, 4.0]
    )
    simplify(proto)
    assert sorted(hashed) == ["v", "w"]
