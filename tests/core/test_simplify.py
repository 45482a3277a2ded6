"""Simplify whole models: what stays, what may not change, and what is refused."""

import subprocess
import sys
from pathlib import Path
from typing import Any, List

import numpy as np
import onnx
import pytest
from building import FLOAT, INT64, model, node, value
from onnx import TensorProto, helper, numpy_helper
from simplifying import outputs_of

from onnx_compat.errors import InputError, InvalidModelError
from onnx_compat.simplify import simplify


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def operators(proto: Any) -> List[str]:
    return [entry.op_type for entry in proto.graph.node]


def initializers(proto: Any) -> dict:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}


def rich_model() -> Any:
    """Return a model of a Relu, an Identity, two equal Exp, and a call of a function, with every kind of declaration."""
    nodes = [
        node("Relu", ["x"], ["a"], name="first", doc_string="of the first node"),
        node("Identity", ["a"], ["b"], name="second"),
        node("Exp", ["b"], ["c"], name="third"),
        node("Exp", ["b"], ["d"], name="fourth"),
        node("double", ["c"], ["e"], domain="own", name="call"),
        node("Sub", ["e", "d"], ["y"], name="last"),
    ]
    proto = model(
        nodes, [value("x", ["batch", 3])], [value("y", ["batch", 3])], extra_opsets=[helper.make_opsetid("own", 1)]
    )
    body = [node("Add", ["p", "p"], ["q"])]
    proto.functions.append(helper.make_function("own", "double", ["p"], ["q"], body, [helper.make_opsetid("", 13)]))
    proto.graph.value_info.extend([value("a", ["batch", 3]), value("b", ["batch", 3]), value("d", ["batch", 3])])
    proto.metadata_props.add(key="author", value="somebody")
    proto.producer_name, proto.doc_string, proto.graph.doc_string = "exporter", "a model", "a graph"
    return proto


def test_everything_that_need_not_change_stays() -> None:
    before = rich_model()
    content = before.SerializeToString()
    after, report = simplify(before)
    assert before.SerializeToString() == content, "the argument is not changed"
    kept = {entry.name: entry for entry in after.graph.node}
    assert list(kept) == ["first", "third", "call", "last"]
    assert report.nodes == (6, 4)
    original = {entry.name: entry.SerializeToString() for entry in before.graph.node}
    assert all(kept[name].SerializeToString() == original[name] for name in ("first", "call"))
    assert [info.name for info in after.graph.value_info] == ["a"]
    for field in ("graph.input", "graph.output", "graph.doc_string", "functions", "metadata_props", "producer_name", "doc_string", "opset_import", "ir_version"):  # fmt: skip
        values: List[Any] = [before, after]
        for part in field.split("."):
            values = [getattr(entry, part) for entry in values]
        assert values[0] == values[1], field
    np.testing.assert_array_equal(outputs_of(after)[0], outputs_of(before)[0])


def test_a_model_without_a_rewrite_is_identical_to_the_byte() -> None:
    proto = model([node("Relu", ["x"], ["y"], name="only")], [value("x", ["n"])], [value("y", ["n"])])
    proto.graph.node[0].doc_string = "the only node"
    after, report = simplify(proto)
    assert after.SerializeToString() == proto.SerializeToString()
    assert not any(entry.rewrites for entry in report.passes)


def test_the_source_of_a_removed_output_takes_its_name() -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["z"]), node("Identity", ["a"], ["y"])]
    after, _ = simplify(model(nodes, [value("x", ["n"])], [value("y"), value("z")]))
    assert [(list(entry.input), list(entry.output)) for entry in after.graph.node] == [(["x"], ["y"]), (["y"], ["z"])]


def test_later_equal_values_read_the_new_name_of_the_source() -> None:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Identity", ["a"], ["y"]),
        node("Identity", ["a"], ["b"]),
        node("Identity", ["b"], ["c"]),
        node("Neg", ["c"], ["z"]),
    ]
    after, _ = simplify(model(nodes, [value("x", ["n"])], [value("y"), value("z")]))
    assert [(list(entry.input), list(entry.output)) for entry in after.graph.node] == [(["x"], ["y"]), (["y"], ["z"])]


@pytest.mark.parametrize("source", ["x", "w"])
def test_an_output_that_is_an_input_or_an_initializer_stays(source: str) -> None:
    nodes = [node("Identity", [source], ["y"]), node("Identity", ["a"], ["z"]), node("Neg", ["x"], ["a"])]
    proto = model(nodes, [value("x", [2])], [value("y"), value("z"), value("a")], {"w": np.ones(2, np.float32)})
    after, report = simplify(proto)
    assert report.nodes == (3, 3), "two names of one output are two outputs"
    assert [entry.op_type for entry in after.graph.node].count("Identity") == 2
    for got, wanted in zip(outputs_of(after), outputs_of(proto)):
        np.testing.assert_array_equal(got, wanted)


def build_expand(size: int) -> Any:
    nodes = [node("Expand", ["one", "size"], ["a"]), node("Mul", ["x", "a"], ["y"])]
    return model(nodes, [value("x", [size])], [value("y")], {"one": np.float32([3]), "size": ints(size)})


def test_the_size_budget_holds() -> None:
    after, report = simplify(build_expand(100000))
    assert operators(after) == ["Expand", "Mul"]
    assert operators(simplify(build_expand(1000))[0]) == ["Mul"], "64 KiB are always allowed"
    after, report = simplify(build_expand(100000), growth=5000)
    assert operators(after) == ["Mul"]
    assert report.bytes[1] > 400000
    assert report.bytes[1] == after.ByteSize()


def test_what_makes_a_model_smaller_is_folded_although_the_budget_is_exhausted() -> None:
    nodes = [
        node("Expand", ["one", "size"], ["a"]),
        node("Concat", ["v", "v"], ["w"], axis=0),
        node("Slice", ["w", "zero", "five"], ["b"]),
        node("Mul", ["x", "a"], ["c"]),
        node("Add", ["c", "b"], ["y"]),
    ]
    constants = {
        "one": np.float32([3]),
        "size": ints(100000, 5),
        "v": np.ones(50000, np.float32),
        "zero": ints(0),
        "five": ints(5),
    }
    after, report = simplify(model(nodes, [value("x", [100000, 5])], [value("y")], constants))
    assert operators(after) == ["Expand", "Mul", "Add"]
    assert report.bytes[1] < report.bytes[0]


def test_an_initializer_that_a_caller_may_replace_is_no_constant() -> None:
    nodes = [node("Neg", ["w"], ["a"]), node("Mul", ["x", "a"], ["y"])]
    proto = model(nodes, [value("x", [2]), value("w", [2])], [value("y")], {"w": np.float32([1, 2])})
    assert simplify(proto)[0].SerializeToString() == proto.SerializeToString()


def test_below_ir_version_4_initializers_are_constants_and_inputs() -> None:
    nodes = [node("Neg", ["w"], ["a"]), node("Mul", ["x", "a"], ["b"]), node("Add", ["b", "v"], ["y"])]
    inputs = [value("x", [2]), value("w", [2]), value("v", [2])]
    proto = model(nodes, inputs, [value("y")], {"w": np.float32([1, 2]), "v": np.float32([3, 4])}, opset=8)
    proto.ir_version = 3
    after, _ = simplify(proto)
    assert operators(after) == ["Mul", "Add"]
    assert [port.name for port in after.graph.input] == ["x", "v", "a"]
    assert sorted(initializers(after)) == ["a", "v"]
    np.testing.assert_array_equal(outputs_of(after)[0], outputs_of(proto)[0])


def build_range() -> Any:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Unsqueeze", ["n", "axes"], ["u"]),
        node("Range", ["zero", "n", "one"], ["r"]),
        node("Reshape", ["r", "column"], ["c"]),
        node("Cast", ["c"], ["f"], to=FLOAT),
        node("Add", ["x", "f"], ["y"]),
    ]
    constants = {"zero": np.int64(0), "one": np.int64(1), "axes": ints(0), "column": ints(-1, 1)}
    return model(nodes, [value("x", ["batch", 3])], [value("y", ["batch", "three"])], constants)


def test_shapes_settle_sizes() -> None:
    open_sizes, _ = simplify(build_range())
    assert operators(open_sizes) == ["Shape", "Gather", "Range", "Reshape", "Cast", "Add"]
    fixed, _report = simplify(build_range(), {"x": (4, 3)})
    assert operators(fixed) == ["Add"]
    sizes = [
        [dim.dim_value for dim in port.type.tensor_type.shape.dim]
        for port in (fixed.graph.input[0], fixed.graph.output[0])
    ]
    assert sizes == [[4, 3], [4, 3]]
    np.testing.assert_array_equal(outputs_of(fixed)[0], outputs_of(build_range(), batch=4)[0])


def test_a_named_size_is_fixed_wherever_it_occurs() -> None:
    nodes = [node("Add", ["x", "z"], ["a"]), node("Shape", ["a"], ["y"])]
    inputs = [value("x", ["n", "m"]), value("z", ["n", "m"])]
    proto = model(nodes, inputs, [value("y", [2], INT64), value("a", ["n", "m"])])
    after, _ = simplify(proto, {"x": (5, None)})
    dims = [[dim.dim_value or dim.dim_param for dim in port.type.tensor_type.shape.dim] for port in after.graph.input]
    assert dims == [[5, "m"], [5, "m"]]
    assert [dim.dim_value or dim.dim_param for dim in after.graph.output[1].type.tensor_type.shape.dim] == [5, "m"]


def test_a_shape_is_declared_where_the_rank_was_open() -> None:
    proto = model([node("Flatten", ["x"], ["a"]), node("Relu", ["a"], ["y"])], [value("x")], [value("y")])
    assert operators(simplify(proto)[0]) == ["Flatten", "Relu"]
    after, _ = simplify(proto, {"x": (4, 3)})
    assert operators(after) == ["Relu"]
    assert [dim.dim_value for dim in after.graph.input[0].type.tensor_type.shape.dim] == [4, 3]


def test_external_data_that_does_not_change_stays_outside(tmp_path: Path) -> None:
    weights = {
        "kept": np.arange(300, dtype=np.float32),
        "scaled": np.ones((2, 300, 1), np.float32),
        "factor": np.float32([2]),
    }
    nodes = [
        node("Add", ["x", "kept"], ["a"]),
        node("Unsqueeze", ["a", "axes"], ["b"]),
        node("Conv", ["b", "scaled"], ["c"]),
        node("Mul", ["c", "factor"], ["y"]),
    ]
    proto = model(nodes, [value("x", [1, 300])], [value("y")], {**weights, "axes": ints(2)})
    path = tmp_path / "model.onnx"
    onnx.save(proto, str(path), save_as_external_data=True, location="weights.bin", size_threshold=256)
    stored = onnx.load(str(path), load_external_data=False)
    after, report = simplify(stored, folder=tmp_path)
    tensors = {tensor.name: tensor for tensor in after.graph.initializer}
    original = {tensor.name: tensor for tensor in stored.graph.initializer}
    assert tensors["kept"] == original["kept"]
    assert tensors["kept"].data_location == TensorProto.EXTERNAL
    assert tensors["scaled"].data_location == TensorProto.DEFAULT
    assert numpy_helper.to_array(tensors["scaled"]).max() == 2
    assert operators(after) == ["Add", "Unsqueeze", "Conv"]
    assert report.bytes[0] > 3600
    with pytest.raises(InvalidModelError, match="stored outside of the model"):
        simplify(stored)


def test_weights_that_training_changes_are_no_constants() -> None:
    nodes = [
        node("Neg", ["w"], ["a"]),
        node("Mul", ["x", "a"], ["b"]),
        node("Identity", ["b"], ["loss"]),
        node("Relu", ["b"], ["y"]),
    ]
    proto = model(nodes, [value("x", [2])], [value("y")], {"w": np.float32([1, 2])})
    training = proto.training_info.add()
    training.algorithm.node.append(node("Sub", ["w", "loss"], ["w_new"]))
    training.algorithm.output.append(value("w_new", [2]))
    training.update_binding.add(key="w", value="w_new")
    after, _ = simplify(proto)
    assert after.SerializeToString() == proto.SerializeToString()


def test_values_of_quantization_annotations_stay() -> None:
    nodes = [node("Identity", ["x"], ["a"]), node("Identity", ["a"], ["b"]), node("Relu", ["b"], ["y"])]
    proto = model(nodes, [value("x", [2])], [value("y")], {"scale": np.float32(1)})
    proto.graph.quantization_annotation.add(tensor_name="a").quant_parameter_tensor_names.add(
        key="SCALE_TENSOR", value="scale"
    )
    after, _ = simplify(proto)
    assert operators(after) == ["Identity", "Relu"]
    assert after.graph.node[0].output == ["a"]
    assert "scale" in initializers(after)


@pytest.mark.skipif(not hasattr(onnx.NodeProto(), "device_configurations"), reason="onnx 1.17 and older lack the field")
def test_device_configurations_follow_renamed_values() -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("Identity", ["a"], ["b"]), node("Neg", ["b"], ["y"])]
    configuration = nodes[2].device_configurations.add(configuration_id="two")
    configuration.sharding_spec.add(tensor_name="b")
    after, _ = simplify(model(nodes, [value("x", [2])], [value("y")]))
    assert operators(after) == ["Relu", "Neg"]
    assert after.graph.node[1].device_configurations[0].sharding_spec[0].tensor_name == "a"


def build_branches(condition: Any, then: List[Any], constants: Any = None, result: str = "t") -> Any:
    def branch(name: str, nodes: List[Any], output: str, stored: Any = None) -> Any:
        tensors = [numpy_helper.from_array(array, key) for key, array in (stored or {}).items()]
        return helper.make_graph(nodes, name, [], [value(output, [2])], tensors)

    otherwise = branch("else", [node("Neg", ["b"], ["e"])], "e")
    return [
        node("Relu", ["x"], ["a"]),
        node("Identity", ["a"], ["b"]),
        node("If", [condition], ["y"], then_branch=branch("then", then, result, constants), else_branch=otherwise),
    ]


def test_subgraphs_are_simplified_and_read_the_renamed_values() -> None:
    then = [
        node("Add", ["k", "k"], ["two"]),
        node("Identity", ["b"], ["i"]),
        node("Mul", ["i", "two"], ["m"]),
        node("Identity", ["m"], ["t"]),
    ]
    nodes = [node("ReduceSum", ["x"], ["sum"], keepdims=0), node("Less", ["sum", "zero"], ["c"])]
    proto = model(
        [*nodes, *build_branches("c", then, {"k": np.float32([1, 2])})],
        [value("x", [2])],
        [value("y")],
        {"zero": np.float32(0)},
    )
    after, report = simplify(proto)
    assert report.nodes == (10, 6)
    branches = {attribute.name: attribute.g for attribute in after.graph.node[-1].attribute}
    (product,) = branches["then_branch"].node
    assert (product.op_type, list(product.input), list(product.output)) == ("Mul", ["a", "two"], ["t"])
    assert [tensor.name for tensor in branches["then_branch"].initializer] == ["two"]
    assert list(branches["else_branch"].node[0].input) == ["a"]
    np.testing.assert_array_equal(outputs_of(after)[0], outputs_of(proto)[0])


def test_subgraphs_stay_below_ir_version_4() -> None:
    then = [
        node("Constant", [], ["k"], value=numpy_helper.from_array(np.float32([1, 2]))),
        node("Mul", ["b", "k"], ["t"]),
    ]
    nodes = [node("ReduceSum", ["x"], ["sum"], keepdims=0), node("Cast", ["sum"], ["c"], to=TensorProto.BOOL)]
    proto = model([*nodes, *build_branches("c", then)], [value("x", [2])], [value("y")], opset=8)
    proto.ir_version = 3
    after, report = simplify(proto)
    assert report.nodes == (8, 7)
    assert [entry.op_type for entry in after.graph.node[-1].attribute[1].g.node] in (["Constant", "Mul"], ["Neg"])
    np.testing.assert_array_equal(outputs_of(after)[0], outputs_of(proto)[0])


def test_a_subgraph_with_a_value_of_the_same_name_forbids_the_rename() -> None:
    then = [node("Exp", ["b"], ["a"]), node("Neg", ["a"], ["t"])]
    nodes = [node("ReduceSum", ["x"], ["sum"], keepdims=0), node("Less", ["sum", "zero"], ["c"])]
    proto = model([*nodes, *build_branches("c", then)], [value("x", [2])], [value("y")], {"zero": np.float32(0)})
    after, report = simplify(proto)
    assert report.nodes == (8, 8), "`a` would be the inner value"
    np.testing.assert_array_equal(outputs_of(after)[0], outputs_of(proto)[0])


def test_declared_sizes_of_a_loop_body_are_not_believed() -> None:
    """The body declares [1] for a value that grows in each iteration; onnxruntime does not check it."""
    inner = [node("Concat", ["v", "v"], ["w"], axis=0), node("Shape", ["v"], ["s"]), node("Identity", ["go"], ["on"])]
    body = helper.make_graph(
        inner,
        "body",
        [value("i", [], INT64), value("go", [], TensorProto.BOOL), value("v", [1])],
        [value("on", [], TensorProto.BOOL), value("w", [2]), value("s", [1], INT64)],
    )
    nodes = [node("Loop", ["three", "", "x"], ["y", "sizes"], body=body)]
    proto = model(nodes, [value("x", [1])], [value("y"), value("sizes", None, INT64)], {"three": np.int64(3)})
    after, _ = simplify(proto)
    assert outputs_of(after)[1].tolist() == [[1], [2], [4]]


def test_unsorted_nodes_are_sorted() -> None:
    nodes = [node("Neg", ["b"], ["y"]), node("Identity", ["a"], ["b"]), node("Relu", ["x"], ["a"])]
    after, _ = simplify(model(nodes, [value("x", [2])], [value("y")]))
    assert operators(after) == ["Relu", "Neg"]


def test_nodes_of_unknown_domains_stay_and_are_reported() -> None:
    nodes = [
        node("Mystery", ["x"], ["a"], domain="other", name="unknown"),
        node("Mystery", ["x"], ["b"], domain="other"),
        node("Identity", ["a"], ["c"]),
        node("Add", ["c", "b"], ["y"]),
    ]
    proto = model(nodes, [value("x", [2])], [value("y")], extra_opsets=[helper.make_opsetid("other", 1)])
    after, report = simplify(proto)
    assert operators(after) == ["Mystery", "Mystery", "Add"]
    assert next(iter(report.untraced)) == "unknown"
    assert "not traced: 'unknown': " in str(report)


def test_the_results_of_a_function_are_folded_and_the_function_stays() -> None:
    proto = rich_model()
    proto.graph.node.insert(0, node("double", ["w"], ["v"], domain="own"))
    proto.graph.node[-1].input[0] = "v"
    proto.graph.initializer.append(numpy_helper.from_array(np.float32([1, 2, 3]), "w"))
    after, _ = simplify(proto)
    assert operators(after) == ["Relu", "Exp", "Sub"]
    assert initializers(after)["v"].tolist() == [2, 4, 6]
    assert after.functions == proto.functions


def test_an_input_without_a_type_is_no_obstacle() -> None:
    nodes = [node("Identity", ["x"], ["a"]), node("Relu", ["a"], ["b"]), node("Add", ["b", "two"], ["y"])]
    nodes.insert(0, node("Add", ["w", "w"], ["two"]))
    proto = model(nodes, [value("x")], [value("y")], {"w": np.float32([1])})
    after, _ = simplify(proto)
    assert operators(after) == ["Relu", "Add"]


def test_sequences_stay() -> None:
    nodes = [
        node("SequenceConstruct", ["x", "x"], ["s"]),
        node("Identity", ["s"], ["t"]),
        node("ConcatFromSequence", ["t"], ["y"], axis=0),
    ]
    proto = model(nodes, [value("x", [2])], [value("y")], opset=15)
    after, _report = simplify(proto)
    assert operators(after) == ["SequenceConstruct", "ConcatFromSequence"]
    np.testing.assert_array_equal(outputs_of(after)[0], outputs_of(proto)[0])


def test_the_report_names_the_passes_that_acted() -> None:
    lines = str(simplify(rich_model())[1]).splitlines()
    assert lines[0].startswith("6 nodes -> 4, ")
    assert [line.split()[:2] for line in lines[1:]] == [["equal_values", "1"], ["common_subexpressions", "1"]]


def test_arguments_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"growth is 0\.5"):
        simplify(rich_model(), growth=0.5)
    with pytest.raises(InputError, match=r"simplify takes an onnx\.ModelProto, not str"):
        simplify("model.onnx")
    with pytest.raises(InputError, match="no input named 'z'"):
        simplify(rich_model(), {"z": (1,)})
    monkeypatch.setenv("ONNX_COMPAT_PASSES", "-nonsense")
    with pytest.raises(InputError, match="'nonsense'"):
        simplify(rich_model())


def test_the_package_is_imported_late() -> None:
    code = "import sys, onnx_compat; print([name for name in sys.modules if name == 'onnx' or 'simplify' in name])"
    assert subprocess.check_output([sys.executable, "-c", code]).decode().strip() == "[]"
