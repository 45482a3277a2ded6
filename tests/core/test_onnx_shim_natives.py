"""Nodes that are written as a whole: versions and operators with one meaning, unread results, and other targets."""

from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import onnx_compat
from onnx_compat.execution.plan import Specialisation, trace_model
from onnx_compat.execution.support import declared_structures
from onnx_compat.model import load
from onnx_compat.onnx_shim import natives
from onnx_compat.onnx_shim.emission import write_program
from onnx_compat.onnx_shim.emitter import OnnxEmitter
from onnx_compat.onnx_shim.equivalents import WITH_EQUIVALENTS
from onnx_compat.onnx_shim.operator_sets import OperatorOffer
from onnx_compat.onnx_shim.runtime import runtime_offer
from onnx_compat.onnx_shim.signatures import newest_opset, signature_of
from onnx_compat.ops.older_versions import newer_function
from onnx_compat.ops.registry import OPERATORS, lookup
from onnx_compat.shim.interface import Program
from onnx_compat.tracing.interpreter import Interpreter

runtime = pytest.importorskip("onnxruntime")

#: The newest operator set that both packages have.
NEWEST = min(newest_opset(), runtime_offer().opset)
FLOAT = TensorProto.FLOAT
Shapes = Dict[str, Sequence[Any]]


def model(
    operator: str,
    inputs: Shapes,
    outputs: Sequence[str],
    opset: int,
    domain: str = "",
    constants: Optional[Dict[str, np.ndarray]] = None,
    names: Optional[Sequence[str]] = None,
    **attributes: Any,
) -> Any:
    """Return a model of one node. `names`: the node's inputs; by default the inputs, then the constants."""
    stored = {name: np.asarray(array) for name, array in (constants or {}).items()}
    node = helper.make_node(operator, list(names or [*inputs, *stored]), list(outputs), domain=domain, **attributes)
    ports = [helper.make_tensor_value_info(name, FLOAT, list(shape)) for name, shape in inputs.items()]
    results = [onnx.ValueInfoProto(name=name) for name in outputs if name]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in stored.items()]
    graph = helper.make_graph([node], "g", ports, results, tensors)
    imports = [helper.make_opsetid("", 17 if domain else opset)]
    imports += [helper.make_opsetid(domain, 1)] if domain else []
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def record(proto: Any, opset: int) -> Program:
    loaded = load(proto.SerializeToString())
    emitter = OnnxEmitter(OperatorOffer(opset))
    structures = declared_structures(loaded.graph)
    return trace_model(
        loaded, emitter, structures, Specialisation(), Interpreter(emitter.natives()), whole=True
    ).program


def write(proto: Any, opset: int, recorded_for: Optional[int] = None) -> Any:
    return write_program(record(proto, recorded_for or opset), opset)


def operators(proto: Any) -> List[str]:
    return [node.op_type for node in proto.graph.node]


def run(proto: Any, feeds: Dict[str, np.ndarray]) -> List[np.ndarray]:
    session = runtime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    results: List[np.ndarray] = session.run(None, feeds)
    return results


def numbers(*shape: int) -> np.ndarray:
    size = int(np.prod(shape))
    return np.sin(np.arange(size, dtype=np.float32) + 1).reshape(shape)


def lstm(outputs: Sequence[str], opset: int, operator: str = "LSTM") -> Any:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    constants = {"w": numbers(1, gates * 4, 3), "r": numbers(1, gates * 4, 4)}
    return model(operator, {"x": (5, 2, 3)}, outputs, opset, constants=constants, hidden_size=4)


# -- versions ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("opset", [7, 9, 13, 14])
def test_a_recurrent_node_of_an_older_opset_is_one_node_of_the_newest(operator: str, opset: int) -> None:
    assert operators(write(lstm(["y", "h"], opset, operator), NEWEST)) == [operator]


def wrapped_versions() -> List[Any]:
    """Return (operator, version) for each version whose meaning is that of a newer one with fewer attributes."""
    lookup("", "Identity", NEWEST)
    return [
        (name, version)
        for (domain, name), meanings in sorted(OPERATORS.items())
        if not domain and name in natives.OPERATORS
        for version, meaning in sorted(meanings.items())
        if newer_function(meaning.function) is not meaning.function and signature_of("", name, version) is not None
    ]


def test_each_version_with_fewer_attributes_means_what_the_newest_version_means() -> None:
    versions = [pair for pair in wrapped_versions() if pair[1] >= 7]
    assert {"LSTM", "GRU", "RNN", "Resize", "QuantizeLinear", "AveragePool", "MaxPool"} <= {
        name for name, _ in versions
    }
    for name, version in versions:
        newest = lookup("", name, NEWEST).function
        if newer_function(lookup("", name, version).function) is newer_function(newest):
            call = natives.NodeCall("", name, version, (), {}, 1)
            assert natives.has_same_meaning(call, {}, OperatorOffer(NEWEST)), (name, version)


def test_another_default_of_the_target_is_no_same_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    call = natives.NodeCall("", "LSTM", 7, (), {}, 3)
    offer = OperatorOffer(NEWEST)
    signature = offer.signature("LSTM")
    assert signature is not None
    layout = signature.attributes["layout"]._replace(default=1)
    changed = signature._replace(attributes={**signature.attributes, "layout": layout})
    monkeypatch.setattr(offer, "signature", lambda *_: changed)
    assert not natives.has_same_meaning(call, {}, offer)
    assert natives.has_same_meaning(call, {"layout": 0}, offer)


def test_an_attribute_that_an_older_version_lacks_keeps_its_default_only() -> None:
    def batch_first(layout: int) -> Any:
        constants = {"w": numbers(1, 16, 3), "r": numbers(1, 16, 4)}
        return model("LSTM", {"x": (5, 2, 3)}, ["y"], 14, constants=constants, hidden_size=4, layout=layout)

    assert operators(write(batch_first(0), 13)) == ["LSTM"]
    assert "LSTM" not in operators(write(batch_first(1), 13))


@pytest.mark.parametrize(("opset", "target"), [(9, NEWEST), (13, 14), (15, 9), (7, 9)])
def test_a_batch_normalization_is_one_node_in_both_directions(opset: int, target: int) -> None:
    constants = {"s": numbers(3), "b": numbers(3), "m": numbers(3), "v": numbers(3) + 2}
    proto = model("BatchNormalization", {"x": (2, 3, 4)}, ["y"], opset, constants=constants)
    result = write(proto, target)
    assert operators(result) == ["BatchNormalization"]
    x = numbers(2, 3, 4)
    np.testing.assert_allclose(run(result, {"x": x})[0], run(proto, {"x": x})[0], rtol=1e-5, atol=1e-6)


# -- unread results ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("outputs", [["", "h"], ["", "h", "c"], ["", "", "c"], ["y", "", "c"]])
def test_a_node_with_an_unread_result_is_one_node(outputs: Sequence[str]) -> None:
    proto = lstm(outputs, 14)
    result = write(proto, NEWEST)
    assert operators(result) == ["LSTM"]
    x = numbers(5, 2, 3)
    for got, expected in zip(run(result, {"x": x}), run(proto, {"x": x})):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


# -- another target than that of the recording -------------------------------------------------------------------------
@pytest.mark.parametrize(("operator", "recorded_for", "target"), [("GroupNormalization", 21, 18), ("Gelu", 20, 17)])
def test_a_node_that_the_target_lacks_is_composed_after_the_recording(
    operator: str, recorded_for: int, target: int
) -> None:
    vectors = {"s": numbers(4), "b": numbers(4)} if operator == "GroupNormalization" else {}
    attributes = {"num_groups": 2} if vectors else {}
    proto = model(operator, {"x": (2, 4, 3)}, ["y"], recorded_for, constants=vectors, **attributes)
    result = write(proto, target, recorded_for)
    assert operators(write(proto, recorded_for)) == [operator]
    assert operator not in operators(result)
    onnx.checker.check_model(result, full_check=True)
    x = numbers(2, 4, 3)
    np.testing.assert_allclose(run(result, {"x": x})[0], run(proto, {"x": x})[0], rtol=1e-5, atol=1e-6)


# -- required inputs ---------------------------------------------------------------------------------------------------
def test_an_omitted_input_that_an_older_version_requires_is_written() -> None:
    proto = model("Gemm", {"a": (2, 3), "b": (3, 4)}, ["y"], 13)
    result = write(proto, 9)
    assert operators(result) == ["Gemm"] and len(result.graph.node[0].input) == 3
    a, b = numbers(2, 3), numbers(3, 4)
    np.testing.assert_allclose(run(result, {"a": a, "b": b})[0], a @ b, rtol=1e-5)


@pytest.mark.parametrize("target", [11, 12])
def test_a_resize_by_sizes_gets_empty_regions_and_scales(target: int) -> None:
    sizes = {"sizes": np.asarray([1, 1, 4, 4])}
    proto = model("Resize", {"x": (1, 1, 2, 2)}, ["y"], 13, constants=sizes, names=["x", "", "", "sizes"])
    result = write(proto, target)
    onnx.checker.check_model(result, full_check=True)
    assert operators(result) == ["Resize"] and all(result.graph.node[0].input)
    x = numbers(1, 1, 2, 2)
    np.testing.assert_array_equal(run(result, {"x": x})[0], run(proto, {"x": x})[0])


def test_a_call_without_a_required_input_is_not_offered() -> None:
    float32 = natives.DType.of("float32")
    assert not OperatorOffer(9).has("Gemm", [float32, float32], [float32])
    assert OperatorOffer(11).has("Gemm", [float32, float32], [float32])


# -- values of attributes ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("operator", "attribute", "value", "first", "last"),
    [
        ("ScatterND", "reduction", "max", 18, NEWEST),
        ("ScatterElements", "reduction", "min", 18, NEWEST),
        ("Pad", "mode", "wrap", 19, NEWEST),
        ("GridSample", "mode", "bilinear", 16, 19),
        ("GridSample", "mode", "linear", 20, NEWEST),
        ("Resize", "coordinate_transformation_mode", "half_pixel_symmetric", 19, NEWEST),
        ("Resize", "coordinate_transformation_mode", "tf_half_pixel_for_nn", 11, 12),
    ],
)
def test_a_value_of_an_attribute_is_offered_by_the_versions_that_have_it(
    operator: str, attribute: str, value: str, first: int, last: int
) -> None:
    float32, int64 = natives.DType.of("float32"), natives.DType.of("int64")
    inputs = {
        "ScatterND": [float32, int64, float32],
        "ScatterElements": [float32, int64, float32],
        "Pad": [float32, int64],
        "GridSample": [float32, float32],
        "Resize": [float32, float32, float32],
    }[operator]
    offered = [
        opset
        for opset in range(11, NEWEST + 1)
        if OperatorOffer(opset).has(operator, inputs, [float32], {attribute: value})
    ]
    assert offered == list(range(first, last + 1))


# -- operators of onnxruntime ------------------------------------------------------------------------------------------
def rope() -> Any:
    caches = {"p": np.asarray([[0, 1, 2]] * 2), "c": numbers(5, 4), "s": numbers(5, 4)}
    return model("RotaryEmbedding", {"x": (2, 2, 3, 8)}, ["y"], 1, "com.microsoft", caches)


def attention(**attributes: Any) -> Any:
    shapes: Shapes = dict.fromkeys("qkv", (2, 3, 8))
    return model("MultiHeadAttention", shapes, ["y"], 1, "com.microsoft", num_heads=2, **attributes)


FUSED = {
    ("Gelu", ""): lambda: model("Gelu", {"x": (2, 4)}, ["y"], 1, "com.microsoft"),
    ("Gelu", "tanh"): lambda: model("FastGelu", {"x": (2, 4)}, ["y"], 1, "com.microsoft"),
    ("Swish", ""): lambda: model("QuickGelu", {"x": (2, 4)}, ["y"], 1, "com.microsoft"),
    ("Gemm", ""): lambda: model(
        "FusedMatMul", {"a": (3, 2), "b": (3, 4)}, ["y"], 1, "com.microsoft", transA=1, alpha=0.5
    ),
    ("RMSNormalization", ""): lambda: model(
        "SimplifiedLayerNormalization", {"x": (2, 4)}, ["y"], 17, constants={"s": numbers(4)}
    ),
    ("LayerNormalization", ""): lambda: model(
        "LayerNormalization", {"x": (2, 4)}, ["y"], 12, constants={"s": numbers(4), "b": numbers(4)}
    ),
    ("RotaryEmbedding", ""): rope,
    ("Attention", ""): attention,
    ("Attention", "causal"): lambda: attention(unidirectional=1, scale=0.25),
}


@pytest.mark.parametrize("case", sorted(FUSED), ids="-".join)
def test_a_fused_operator_is_written_as_the_operator_that_it_means(case: Any) -> None:
    proto = FUSED[case]()
    result = write(proto, NEWEST)
    assert operators(result) == [case[0]]
    onnx.checker.check_model(result, full_check=True)
    feeds = {port.name: numbers(*[d.dim_value for d in port.type.tensor_type.shape.dim]) for port in proto.graph.input}
    actual = onnx_compat.run(result, feeds, shim="reference")[0]  # onnxruntime 1.31 lacks Swish
    np.testing.assert_allclose(actual, run(proto, feeds)[0], rtol=2e-4, atol=2e-5)


def test_every_fused_operator_has_a_meaning() -> None:
    for domain, operator in WITH_EQUIVALENTS:
        assert lookup(domain, operator, 1 if domain else NEWEST).name == operator


def test_a_causal_mask_of_a_single_query_is_not_written_as_attention() -> None:
    shapes: Shapes = {"q": (2, 1, 8), "k": (2, 3, 8), "v": (2, 3, 8)}
    proto = model("MultiHeadAttention", shapes, ["y"], 1, "com.microsoft", num_heads=2, unidirectional=1)
    assert "Attention" not in operators(write(proto, NEWEST))


def quantised_conv(elements: int) -> Any:
    """Return a model of a Conv over quantised values, with `elements` int8 weights of random scales."""
    rng = np.random.RandomState(0)
    scale = np.float32(0.037)
    constants = {
        "s": scale,
        "z": np.uint8(128),
        "w": rng.randint(-127, 127, (elements // 4, 4, 1, 1)).astype(np.int8),
        "ws": np.float32(0.011),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "ws"], ["dw"]),
        helper.make_node("Conv", ["d", "dw"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["qc"]),
        helper.make_node("DequantizeLinear", ["qc", "s", "z"], ["y"]),
    ]
    tensors = [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    ports = [helper.make_tensor_value_info("x", FLOAT, ["n", 4, "h", "w"])]
    graph = helper.make_graph(
        nodes, "g", ports, [onnx.ValueInfoProto(name="y"), onnx.ValueInfoProto(name="c")], tensors
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


@pytest.mark.parametrize("elements", [32, 256])
def test_onnxruntime_does_not_quantise_weights_again(elements: int) -> None:
    proto = quantised_conv(elements)
    x = np.random.RandomState(1).randn(2, 4, 5, 5).astype(np.float32)
    wanted = onnx_compat.run(proto, [x], shim="reference")
    got = onnx_compat.run(proto, [x], shim="onnx")
    np.testing.assert_allclose(got["c"], wanted["c"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got["y"], wanted["y"], atol=0.0371)  # a tie may be rounded to the next step


def test_weights_stay_quantised_and_small_constants_do_not() -> None:
    written = [write_program(record(quantised_conv(elements), 13), 13) for elements in (32, 256)]
    assert [[tensor.data_type for tensor in proto.graph.initializer].count(TensorProto.INT8) for proto in written] == [
        0,
        1,
    ]
