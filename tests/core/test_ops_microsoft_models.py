"""Models that onnxruntime's optimiser, transformer optimiser or quantiser writes give the results of onnxruntime."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Set

import numpy as np
import onnx
import pytest
from against_onnxruntime import MICROSOFT, onnxruntime, session
from building import INT64, model, node, value
from onnx import helper

import onnx_compat
from matrix.harness.generators import per_test
from onnx_compat.errors import UnsupportedError
from onnx_compat.ops import all_meanings

RNG = per_test(np.random.default_rng(5))


def floats(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def network() -> Any:
    """Return a small image classifier: convolutions, a residual sum, pools and a linear layer."""
    nodes = [
        node("Conv", ["image", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "w2", "b2"], ["c2"], pads=[1, 1, 1, 1]),
        node("Add", ["c2", "r1"], ["sum"]),
        node("Relu", ["sum"], ["r2"]),
        node("MaxPool", ["r2"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["m", "w3", "b3"], ["c3"]),
        node("LeakyRelu", ["c3"], ["l3"], alpha=0.1),
        node("AveragePool", ["l3"], ["a3"], kernel_shape=[2, 2]),
        node("Sigmoid", ["a3"], ["s3"]),
        node("Mul", ["a3", "s3"], ["g3"]),
        node("Concat", ["g3", "a3"], ["both"], axis=1),
        node("GlobalAveragePool", ["both"], ["mean"]),
        node("Flatten", ["mean"], ["flat"]),
        node("Gemm", ["flat", "w4", "b4"], ["d4"], transB=1),
        node("Relu", ["d4"], ["r4"]),
        node("MatMul", ["r4", "w5"], ["scores"]),
        node("Softmax", ["scores"], ["y"]),
    ]
    sizes = {"w1": (8, 3, 3, 3), "w2": (8, 8, 3, 3), "w3": (12, 8, 3, 3), "w4": (16, 24), "w5": (16, 5)}
    constants = {name: floats(*shape, scale=0.3) for name, shape in sizes.items()}
    constants.update({"b%d" % k: floats(n, scale=0.1) for k, n in ((1, 8), (2, 8), (3, 12), (4, 16))})
    return model(nodes, [value("image", ["n", 3, 12, 12])], [value("y", ["n", 5])], constants, opset=13)


def norm(x: str, y: str, name: str) -> List[Any]:
    """Return the nodes of a layer normalisation from `x` to `y`, written as primitives, as exporters did before opset
    17.
    """
    return [
        node("ReduceMean", [x], [y + ".mean"], axes=[-1]),
        node("Sub", [x, y + ".mean"], [y + ".d"]),
        node("Pow", [y + ".d", "two"], [y + ".dd"]),
        node("ReduceMean", [y + ".dd"], [y + ".var"], axes=[-1]),
        node("Add", [y + ".var", "epsilon"], [y + ".ve"]),
        node("Sqrt", [y + ".ve"], [y + ".dev"]),
        node("Div", [y + ".d", y + ".dev"], [y + ".n"]),
        node("Mul", [y + ".n", name + ".gamma"], [y + ".s"]),
        node("Add", [y + ".s", name + ".beta"], [y]),
    ]


def dense(x: str, y: str, name: str) -> List[Any]:
    return [node("MatMul", [x, name + ".w"], [y + ".p"]), node("Add", [name + ".b", y + ".p"], [y])]


def heads(x: str, y: str, perm: List[int]) -> List[Any]:
    return [node("Reshape", [x, "split"], [y + ".r"]), node("Transpose", [y + ".r"], [y], perm=perm)]


def encoder() -> Any:
    """Return a text encoder: embeddings, attention with two heads, and a feed-forward layer with exact Gelu."""
    nodes = [
        node("Gather", ["words", "ids"], ["word"]),
        node("Gather", ["kinds", "segments"], ["kind"]),
        node("Add", ["word", "positions"], ["placed"]),
        node("Add", ["placed", "kind"], ["embedded"]),
        *norm("embedded", "x", "ln0"),
        *[item for part in "qkv" for item in dense("x", part, part)],
        *heads("q", "qh", [0, 2, 1, 3]),
        *heads("k", "kh", [0, 2, 3, 1]),
        *heads("v", "vh", [0, 2, 1, 3]),
        node("MatMul", ["qh", "kh"], ["products"]),
        node("Div", ["products", "root"], ["scaled"]),
        node("Softmax", ["scaled"], ["weights"], axis=-1),
        node("MatMul", ["weights", "vh"], ["context.h"]),
        node("Transpose", ["context.h"], ["context.t"], perm=[0, 2, 1, 3]),
        node("Reshape", ["context.t", "joined"], ["context"]),
        *dense("context", "attended", "o"),
        node("Add", ["attended", "x"], ["skip1"]),
        *norm("skip1", "x1", "ln1"),
        *dense("x1", "wide", "up"),
        node("Div", ["wide", "root2"], ["g.d"]),
        node("Erf", ["g.d"], ["g.e"]),
        node("Add", ["g.e", "one"], ["g.a"]),
        node("Mul", ["wide", "g.a"], ["g.m"]),
        node("Mul", ["g.m", "half"], ["active"]),
        *dense("active", "narrow", "down"),
        node("Add", ["narrow", "x1"], ["skip2"]),
        *norm("skip2", "y", "ln2"),
    ]
    constants: Dict[str, Any] = {"two": 2.0, "epsilon": 1e-5, "root": 8**0.5, "root2": 2**0.5, "one": 1.0, "half": 0.5}
    constants = {name: np.float32(number) for name, number in constants.items()}
    constants.update(split=np.array([0, 0, 2, 8]), joined=np.array([0, 0, 16]))
    constants.update(words=floats(20, 16), kinds=floats(2, 16), positions=floats(1, 6, 16))
    for name, (rows, columns) in dict.fromkeys("qkvo", (16, 16)).items():
        constants.update({name + ".w": floats(rows, columns, scale=0.3), name + ".b": floats(columns, scale=0.1)})
    for name, (rows, columns) in {"up": (16, 32), "down": (32, 16)}.items():
        constants.update({name + ".w": floats(rows, columns, scale=0.3), name + ".b": floats(columns, scale=0.1)})
    for k in range(3):
        constants.update({"ln%d.gamma" % k: floats(16) * 0.1 + 1, "ln%d.beta" % k: floats(16, scale=0.1)})
    inputs = [value("ids", ["n", 6], INT64), value("segments", ["n", 6], INT64)]
    return model(nodes, inputs, [value("y", ["n", 6, 16])], constants, opset=13)


def feed_of(proto: Any, count: int = 3) -> Dict[str, np.ndarray]:
    if proto.graph.input[0].name == "image":
        return {"image": floats(count, 3, 12, 12)}
    return {"ids": RNG.integers(0, 20, (count, 6)), "segments": RNG.integers(0, 2, (count, 6))}


@pytest.fixture(params=["network", "encoder"])
def source_model(request: Any) -> Any:
    return {"network": network, "encoder": encoder}[request.param]()


def optimize(proto: Any, path: Path, level: str) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 4
    content = proto if isinstance(proto, str) else proto.SerializeToString()
    onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return onnx.load(str(path))


def used_operators(proto: Any) -> Set[str]:
    return {item.op_type for item in proto.graph.node if item.domain == MICROSOFT}


def same(proto: Any, feed: Dict[str, np.ndarray], atol: float = 1e-5) -> None:
    """Assert that a model agrees with onnxruntime. The fallback is off, because it is onnxruntime itself."""
    theirs = session(proto).run(None, feed)
    ours = onnx_compat.prepare(proto, shim="reference", fallback=False).run(feed)
    for k, expected in enumerate(theirs):
        np.testing.assert_allclose(ours[k], expected, rtol=1e-4, atol=atol)
    for item in onnx_compat.support(proto, shim="reference"):
        assert item.status == "composed", item


def test_optimised(source_model: Any, tmp_path: Path) -> None:
    proto = optimize(source_model, tmp_path / "model.onnx", "ORT_ENABLE_EXTENDED")
    assert used_operators(proto) >= (
        {"FusedConv", "FusedGemm"} if "image" in str(source_model.graph.input) else {"BiasGelu"}
    )
    same(proto, feed_of(source_model))


def test_fused_layer_normalizations_of_an_old_opset(tmp_path: Path) -> None:
    proto = optimize(encoder(), tmp_path / "model.onnx", "ORT_ENABLE_EXTENDED")
    fused = {(item.domain, item.op_type) for item in proto.graph.node}
    assert fused & {("", "LayerNormalization"), (MICROSOFT, "SkipLayerNormalization")}
    assert [item.version for item in proto.opset_import if item.domain == ""] == [13]


def test_optimised_as_a_transformer(tmp_path: Path) -> None:
    pytest.importorskip("sympy")  # onnxruntime's optimiser asks for it
    optimizer = pytest.importorskip("onnxruntime.transformers.optimizer")
    onnx.save(encoder(), str(tmp_path / "model.onnx"))
    how = {"model_type": "bert", "num_heads": 2, "hidden_size": 16, "opt_level": 0}
    proto = optimizer.optimize_model(str(tmp_path / "model.onnx"), **how).model
    assert used_operators(proto) == {"Attention", "BiasGelu", "SkipLayerNormalization"}
    same(proto, feed_of(proto))


def test_operators_for_one_processor_are_refused(tmp_path: Path) -> None:
    """Optimisation level 99 writes operators for one kind of processor. They are refused with a hint."""
    proto = optimize(network(), tmp_path / "model.onnx", "ORT_ENABLE_ALL")
    assert any(item.domain == MICROSOFT + ".nchwc" for item in proto.graph.node)
    with pytest.raises(UnsupportedError, match=r"com\.microsoft\.nchwc") as caught:
        onnx_compat.prepare(proto, shim="reference", fallback=False)
    assert "ORT_ENABLE_EXTENDED" in caught.value.hint
    statuses = {item.operator: item.status for item in onnx_compat.support(proto, shim="reference")}
    assert statuses["ReorderOutput"] == "fallback"  # onnxruntime itself, if the caller lets it


@pytest.fixture
def quantization(tmp_path: Path, source_model: Any) -> Iterator[Any]:
    """Return (onnxruntime's quantization module, path of the float model with static shapes, path for the quantised
    model).
    """
    from onnxruntime import quantization

    onnx.save(onnx.shape_inference.infer_shapes(source_model), str(tmp_path / "float.onnx"))
    return quantization, str(tmp_path / "float.onnx"), str(tmp_path / "quantized.onnx")


@pytest.mark.parametrize("kind", ["QInt8", "QUInt8"])
def test_quantized_on_the_way(quantization: Any, source_model: Any, kind: str, tmp_path: Path) -> None:
    tools, source, target = quantization
    tools.quantize_dynamic(source, target, weight_type=getattr(tools.QuantType, kind), op_types_to_quantize=["MatMul"])
    feed = feed_of(source_model)
    same(onnx.load(target), feed)
    proto = optimize(target, tmp_path / "optimised.onnx", "ORT_ENABLE_EXTENDED")
    assert used_operators(proto) & {"DynamicQuantizeMatMul", "MatMulIntegerToFloat"}
    same(proto, feed)


class Samples:
    """Calibration data, in the form that onnxruntime's quantiser reads."""

    def __init__(self, proto: Any) -> None:
        self.feeds = [feed_of(proto, 2) for _ in range(4)]

    def get_next(self) -> Any:
        return self.feeds.pop() if self.feeds else None


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("channels", [False, True])
def test_quantized_before(quantization: Any, source_model: Any, form: str, channels: bool, tmp_path: Path) -> None:
    """Quantised outputs may differ by one step, if a sum of floats is halfway between two integers."""
    tools, source, target = quantization
    tools.quantize_static(
        source, target, Samples(source_model), quant_format=getattr(tools.QuantFormat, form), per_channel=channels
    )
    feed = feed_of(source_model)
    proto = onnx.load(target)
    if form == "QOperator":
        assert used_operators(proto) >= (
            {"QLinearAdd", "QLinearConcat", "QGemm"} if "image" in feed else {"QLinearAdd"}
        )
    same(proto, feed, atol=TOLERANCE[form])
    proto = optimize(target, tmp_path / "optimised.onnx", "ORT_ENABLE_EXTENDED")
    same(proto, feed, atol=TOLERANCE[form])


#: A step of the coarsest output.
TOLERANCE = {"QDQ": 0.05, "QOperator": 0.05}


@pytest.mark.parametrize("bits", [4, 8])
def test_weights_of_few_bits(source_model: Any, bits: int) -> None:
    nbits = pytest.importorskip("onnxruntime.quantization.matmul_nbits_quantizer")
    quantizer = nbits.MatMulNBitsQuantizer(source_model, block_size=16, is_symmetric=False, accuracy_level=1, bits=bits)
    quantizer.process()
    proto = quantizer.model.model
    assert "MatMulNBits" in used_operators(proto)
    same(proto, feed_of(source_model))


@pytest.mark.parametrize("version", [None, 1])
def test_the_domain_may_be_missing_in_the_imports(version: Any) -> None:
    """onnxruntime runs a model that uses operators of com.microsoft without importing the domain."""
    proto = model([node("Gelu", ["x"], ["y"], domain=MICROSOFT)], [value("x", ["n"])], [value("y")])
    if version:
        proto.opset_import.append(helper.make_opsetid(MICROSOFT, version))
    same(proto, {"x": floats(7)})


def test_support_on_the_command_line(tmp_path: Path) -> None:
    optimize(network(), tmp_path / "model.onnx", "ORT_ENABLE_EXTENDED")
    command = [sys.executable, "-m", "onnx_compat", "support", str(tmp_path / "model.onnx"), "--shim", "reference"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FusedConv_0")]
    assert line.split()[1:4] == ["FusedConv", "1", "composed"]
    assert done.stdout.splitlines()[-1] == "14 nodes: 14 composed"


def test_every_operator_has_a_meaning() -> None:
    """The library defines every operator of com.microsoft in this list."""
    names = {meaning.name for meaning in all_meanings() if meaning.domain == MICROSOFT}
    assert names >= {
        "FusedConv",
        "FusedGemm",
        "BiasGelu",
        "SkipLayerNormalization",
        "QLinearAdd",
        "QGemm",
        "MatMulNBits",
    }
