"""The rules of `onnx_compat.retarget`: none is missing, and a re-spelled node gives the numbers of the original node."""

from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import onnx
import pytest
from building import FLOAT, INT64, model, node, require_opset, value
from onnx import defs

import onnx_compat
from onnx_compat.errors import OnnxCompatError
from onnx_compat.ir.dtypes import DType
from onnx_compat.ops import lookup
from onnx_compat.retarget.outcomes import COMPOSED, KEPT, REFUSED, RESPELLED
from onnx_compat.retarget.retargeting import retarget_in_place
from onnx_compat.retarget.steps import STEPS, step_at

#: Versions whose difference no rule re-spells: such a node is composed. OptionalHasElement 18 only takes more types.
WITHOUT_RULE = {("OptionalHasElement", 18), ("Scan", 9), ("Tile", 6)}


def signature(schema: Any) -> Any:
    """Return the inputs, outputs and attributes of a schema, with their options and defaults."""
    attributes = {
        name: (str(attribute.type), attribute.required, attribute.default_value.SerializeToString())
        for name, attribute in schema.attributes.items()
    }
    ports = [[(port.name, str(port.option)) for port in ports] for ports in (schema.inputs, schema.outputs)]
    return ports, attributes


def meaning(operator: str, version: int) -> Any:
    try:
        return lookup("", operator, version).function
    except OnnxCompatError:
        return None


def differing_versions() -> List[Tuple[str, int]]:
    """Return (operator, version) for each version that onnx declares otherwise than the version before."""
    history: Dict[str, List[Any]] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            history.setdefault(schema.name, []).append(schema)
    pairs = []
    for name, schemas in sorted(history.items()):
        schemas.sort(key=lambda schema: schema.since_version)
        for before, after in zip(schemas, schemas[1:]):
            version = after.since_version
            same = meaning(name, before.since_version) is meaning(name, version)
            if not same or signature(before) != signature(after):
                pairs.append((name, version))
    return pairs


@pytest.mark.parametrize(("operator", "version"), differing_versions())
def test_every_difference_has_a_rule(operator: str, version: int) -> None:
    assert (step_at(operator, version) is None) == ((operator, version) in WITHOUT_RULE)


def test_every_rule_belongs_to_a_version() -> None:
    step_at("", 0)  # imports the rules
    names = {(schema.name, schema.since_version) for schema in defs.get_all_schemas_with_history()}
    newest = defs.onnx_opset_version()
    assert {key for key in STEPS if key[1] <= newest} <= names


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7 - 1
IMAGE = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)


class Example:
    """A node of an opset, and the operator and the names that it has at the target."""

    def __init__(
        self,
        built: Any,
        source: int,
        target: int,
        operator: str,
        attributes: str = "",
        inputs: int = 1,
        constants: Optional[Dict[str, Any]] = None,
        feed: Any = X,
    ) -> None:
        self.node, self.source, self.target, self.operator = built, source, target, operator
        self.attributes, self.inputs, self.constants, self.feed = attributes.split(), inputs, constants or {}, feed

    def model(self) -> Any:
        ports = [value("x", list(self.feed.shape), DType.of(self.feed.dtype).onnx)]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.node.output if name]
        return model([self.node], ports, outputs, self.constants, opset=self.source)

    def __repr__(self) -> str:
        return "%s-%d-%d" % (self.node.op_type, self.source, self.target)


INTS = np.asarray
EXAMPLES = [
    Example(node("ReduceSum", ["x"], ["y"], axes=[1]), 11, 13, "ReduceSum", "", 2),
    Example(node("ReduceSum", ["x", "a"], ["y"], keepdims=0), 13, 9, "ReduceSum", "keepdims axes", 1, {"a": INTS([-1])}),
    Example(node("ReduceMean", ["x", "a"], ["y"]), 18, 13, "ReduceMean", "axes", 1, {"a": INTS([0, 2])}),
    Example(node("ReduceMax", ["x"], ["y"], axes=[0]), 13, 20, "ReduceMax", "", 2),
    Example(node("Squeeze", ["x", "a"], ["y"]), 13, 11, "Squeeze", "axes", 1, {"a": INTS([0])}, X[:1]),
    Example(node("Unsqueeze", ["x", "a"], ["y"]), 13, 10, "Unsqueeze", "axes", 1, {"a": INTS([-1])}),
    Example(node("Unsqueeze", ["x"], ["y"], axes=[0, 4]), 11, 13, "Unsqueeze", "", 2),
    Example(node("Softmax", ["x"], ["y"]), 13, 11, "Softmax", "axis"),
    Example(node("Softmax", ["x"], ["y"], axis=2), 9, 13, "Softmax", "axis"),
    Example(node("LogSoftmax", ["x"], ["y"]), 11, 13, "LogSoftmax", "axis", 1, None, X[0]),
    Example(node("ArgMax", ["x"], ["y"], axis=-1, select_last_index=0), 13, 9, "ArgMax", "axis"),
    Example(node("Clip", ["x"], ["y"], min=-0.5, max=0.5), 9, 13, "Clip", "", 3),
    Example(node("Clip", ["x"], ["y"], max=0.5), 9, 13, "Clip", "", 3),
    Example(
        node("Clip", ["x", "a", "b"], ["y"]), 13, 9, "Clip", "max min", 1, {"a": np.float32(-0.5), "b": np.float32(0.5)}
    ),
    Example(node("Dropout", ["x"], ["y"], ratio=0.25), 10, 13, "Dropout", "", 2),
    Example(node("Dropout", ["x", "r"], ["y"]), 13, 9, "Dropout", "ratio", 1, {"r": np.float32(0.25)}),
    Example(node("Pad", ["x"], ["y"], pads=[0, 1, 0, 0, 0, 2], value=3.0), 9, 13, "Pad", "", 3),
    Example(
        node("Pad", ["x", "p", "", "a"], ["y"], mode="edge"), 19, 9, "Pad", "mode pads", 1,
        {"p": INTS([1, 2]), "a": INTS([-1])},
    ),
    Example(node("Slice", ["x"], ["y"], axes=[1], starts=[1], ends=[9]), 9, 11, "Slice", "", 4),
    Example(
        node("Slice", ["x", "s", "e", "a"], ["y"]), 13, 9, "Slice", "starts ends axes", 1,
        {"s": INTS([1]), "e": INTS([-1]), "a": INTS([2])},
    ),
    Example(node("Split", ["x"], ["y", "z"], axis=2, split=[1, 3]), 11, 13, "Split", "axis", 2),
    Example(node("Split", ["x"], ["y", "z"], axis=2), 13, 18, "Split", "axis num_outputs"),
    Example(node("Split", ["x"], ["y", "z"], axis=1, num_outputs=2), 18, 13, "Split", "axis", 2),
    Example(node("Split", ["x", "s"], ["y", "z"], axis=1), 18, 9, "Split", "axis split", 1, {"s": INTS([1, 2])}),
    Example(node("TopK", ["x"], ["y", "z"], k=2), 9, 13, "TopK", "", 2),
    Example(node("TopK", ["x", "k"], ["y", "z"], largest=1), 13, 9, "TopK", "k", 1, {"k": INTS([2])}),
    Example(node("Reshape", ["x", "s"], ["y"], allowzero=1), 14, 13, "Reshape", "", 2, {"s": INTS([6, 4])}),
    Example(node("Upsample", ["x", "s"], ["y"]), 9, 13, "Resize", "coordinate_transformation_mode nearest_mode", 3,
            {"s": np.float32([1, 1, 2, 2])}, IMAGE),
    Example(node("Resize", ["x", "", "s"], ["y"], coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
            13, 9, "Upsample", "", 2, {"s": np.float32([1, 1, 2, 2])}, IMAGE),
    Example(node("Resize", ["x", "", "", "s"], ["y"], mode="nearest"), 13, 10, "Resize", "mode", 2,
            {"s": INTS([1, 2, 8, 8])}, IMAGE),
    Example(node("Resize", ["x", "", "s"], ["y"], axes=[2, 3], mode="linear"), 18, 11, "Resize", "mode", 3,
            {"s": np.float32([2, 2])}, IMAGE),
    Example(node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], ceil_mode=0, dilations=[1, 1]), 19, 9,
            "AveragePool", "kernel_shape", feed=IMAGE),
    Example(node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2]), 7, 12, "MaxPool", "kernel_shape", feed=IMAGE),
    Example(node("GlobalAveragePool", ["x"], ["y"]), 22, 9, "GlobalAveragePool", feed=IMAGE),
    Example(node("Cast", ["x"], ["y"], to=INT64, saturate=1), 19, 9, "Cast", "to"),
    Example(node("Scatter", ["x", "i", "u"], ["y"]), 9, 13, "ScatterElements", "", 3,
            {"i": INTS([[[1]]]), "u": np.float32([[[9]]])}),
    Example(node("ScatterElements", ["x", "i", "u"], ["y"]), 18, 9, "Scatter", "", 3,
            {"i": INTS([[[1]]]), "u": np.float32([[[9]]])}),
    Example(node("Gemm", ["x", "w"], ["y"]), 13, 9, "Gemm", "", 3, {"w": np.ones((4, 2), np.float32)}, X[0]),
    Example(node("DFT", ["x", "", "a"], ["y"]), 20, 17, "DFT", "axis", 1, {"a": INTS(1)}, X[..., :1]),
    Example(node("Shape", ["x"], ["y"], start=0), 15, 13, "Shape"),
    Example(node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=onnx.TensorProto.INT8), 21, 19, "QuantizeLinear",
            "", 3, {"s": np.float32(0.5)}),
    Example(node("Add", ["x", "b"], ["y"], broadcast=1, axis=1), 6, 9, "Add", "", 2, {"b": np.ones((3, 4), np.float32)}),
    Example(node("GridSample", ["x", "g"], ["y"], mode="linear"), 20, 16, "GridSample", "mode", 2,
            {"g": np.zeros((1, 2, 2, 2), np.float32)}, IMAGE),
    Example(node("Concat", ["x", "x"], ["y"], axis=-1), 13, 9, "Concat", "axis", 2),
    Example(node("BatchNormalization", ["x", "a", "a", "a", "b"], ["y"], training_mode=0), 15, 9,
            "BatchNormalization", "", 5, {"a": np.zeros(2, np.float32), "b": np.ones(2, np.float32)}, IMAGE),
    Example(node("Constant", [], ["y"], value_floats=[1.0, 2.0]), 13, 11, "Constant", "value", 0),
]  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES, ids=repr)
def test_a_rule_keeps_the_numbers(example: Example) -> None:
    require_opset(max(example.source, example.target))
    source = example.model()
    target = onnx.ModelProto.FromString(source.SerializeToString())
    plan = retarget_in_place(target, example.target)
    assert plan.counts[REFUSED] == plan.counts[COMPOSED] == 0
    (written,) = target.graph.node
    assert written.op_type == example.operator
    assert sorted(attribute.name for attribute in written.attribute) == sorted(example.attributes)
    assert len(written.input) == example.inputs
    assert {(entry.domain, entry.version) for entry in target.opset_import} == {("", example.target)}
    onnx.checker.check_model(target)
    feed = {"x": example.feed}
    for got, want in zip(*(onnx_compat.run(proto, feed, shim="reference") for proto in (target, source))):
        np.testing.assert_allclose(got, want, 1e-6)
    assert {name for name in written.input if name} - {"x"} == {tensor.name for tensor in target.graph.initializer}


@pytest.mark.parametrize(
    ("built", "source", "target", "text"),
    [
        (node("Clip", ["x", "lo"], ["y"]), 13, 9, "'lo' is not a constant"),
        (node("Softmax", ["x"], ["y"], axis=1), 11, 13, "several axes"),
        (node("Softmax", ["x"], ["y"], axis=0), 13, 11, "normalise the axes after axis 0"),
        (node("ArgMax", ["x"], ["y"], select_last_index=1), 13, 11, "select_last_index"),
        (node("Mish", ["x"], ["y"]), 18, 17, "begins with version 18"),
        (node("Add", ["x", "h"], ["y"]), 14, 12, "no tensor(int8)"),
        (node("Slice", ["x", "s", "s", "s", "m"], ["y"]), 13, 9, "no steps"),
        (node("Dropout", ["x", "lo", "t"], ["y"]), 13, 10, "drops random elements"),
        (node("Resize", ["x", "", "lo3"], ["y"], mode="cubic"), 13, 10, "no mode 'cubic'"),
    ],
)
def test_a_node_without_a_form_is_refused_by_name(built: Any, source: int, target: int, text: str) -> None:
    require_opset(source)
    built.name = "it"
    dtype = onnx.TensorProto.INT8 if "h" in built.input else FLOAT
    ports = [value("x", [2, 3, 4], dtype), value("h", [4], dtype), value("lo", [])]
    ports = [port for port in ports if port.name in built.input]
    numbers = {"s": INTS([0]), "m": INTS([2]), "t": np.asarray(True), "lo3": np.float32([1, 1, 2])}
    constants = {name: array for name, array in numbers.items() if name in built.input}
    proto = model([built], ports, [onnx.ValueInfoProto(name="y")], constants, opset=source)
    plan = retarget_in_place(proto, target)
    assert plan.first_refusal is not None
    assert plan.first_refusal.node == "it"
    assert text in plan.first_refusal.reason
    assert text in str(plan)


def test_a_node_with_the_same_meaning_is_byte_identical() -> None:
    built = node("Relu", ["x"], ["y"], name="a", doc_string="text")
    proto = model([built], [value("x", ["n", 3])], [value("y")], opset=17)
    before = proto.graph.node[0].SerializeToString(deterministic=True)
    plan = retarget_in_place(proto, 9)
    assert proto.graph.node[0].SerializeToString(deterministic=True) == before
    assert [entry.outcome for entry in plan.nodes] == [KEPT]
    assert proto.ir_version == 4


def test_constants_are_shared_and_unread_ones_removed() -> None:
    require_opset(18)
    nodes = [
        node("Constant", [], ["a"], value=onnx.numpy_helper.from_array(np.asarray([1]), "v")),
        node("ReduceMean", ["x", "a"], ["m"]),
        node("ReduceMax", ["m", "k"], ["y"], keepdims=1),
    ]
    proto = model(nodes, [value("x", [2, 3])], [value("y")], {"k": np.asarray([0])}, opset=18)
    plan = retarget_in_place(proto, 17)
    assert [entry.op_type for entry in proto.graph.node] == ["ReduceMean", "ReduceMax"]
    assert not proto.graph.initializer
    assert plan.counts[RESPELLED] == 3  # the Constant is left out
    assert [entry.operators for entry in plan.nodes] == [(), ("ReduceMean",), ("ReduceMax",)]
    retarget_in_place(proto, 18)
    assert len(proto.graph.initializer) == 2
    assert all(len(entry.input) == 2 for entry in proto.graph.node)
