"""Constants of a program keep the name of the float weight of the model that they were computed from."""

from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import pytest
from onnx import helper, numpy_helper

import onnx_compat
from onnx_compat.ir import Const, Region


def model(nodes: Sequence[Any], weights: Dict[str, np.ndarray], shape: Sequence[Any]) -> Any:
    ports = [helper.make_tensor_value_info("x", 1, shape), helper.make_tensor_value_info("y", 1, None)]
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "named", ports[:1], ports[1:], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def constants(region: Region) -> Iterator[Const]:
    for node in region.live():
        yield from (arg for arg in node.args if isinstance(arg, Const))
        for inner in node.regions:
            yield from constants(inner)


def weights_of(proto: Any) -> List[Tuple[Optional[str], Tuple[int, ...]]]:
    runnable = onnx_compat.prepare(proto, shim="reference")
    return [(const.weight, const.array.shape) for const in constants(runnable.native.region)]


def node(operator: str, *names: str, **attributes: Any) -> Any:
    return helper.make_node(operator, names[:-1], names[-1:], name="%s %s" % (operator, names[-1]), **attributes)


def rand(*shape: int) -> np.ndarray:
    return np.random.RandomState(len(shape)).rand(*shape).astype(np.float32)


def statistics(count: int) -> Dict[str, np.ndarray]:
    return {name: rand(count) for name in ("bn.weight", "bn.bias", "bn.mean", "bn.var")}


NORMALIZE = ("bn.weight", "bn.bias", "bn.mean", "bn.var")


def test_a_folded_normalization_leaves_the_filter_its_name() -> None:
    nodes = [node("Conv", "x", "conv.weight", "c"), node("BatchNormalization", "c", *NORMALIZE, "y")]
    proto = model(nodes, dict(statistics(4), **{"conv.weight": rand(4, 3, 3, 3)}), [1, 3, 8, 8])
    assert weights_of(proto) == [("conv.weight", (4, 3, 3, 3)), ("bn.bias", (4,))]


def test_a_folded_normalization_leaves_the_bias_its_name() -> None:
    nodes = [node("Conv", "x", "conv.weight", "conv.bias", "c"), node("BatchNormalization", "c", *NORMALIZE, "y")]
    filters = {"conv.weight": rand(4, 3, 3, 3), "conv.bias": rand(4)}
    proto = model(nodes, dict(statistics(4), **filters), [1, 3, 8, 8])
    assert weights_of(proto) == [("conv.weight", (4, 3, 3, 3)), ("conv.bias", (4,))]


def test_a_normalization_by_itself_has_scale_and_bias_and_no_statistics() -> None:
    proto = model([node("BatchNormalization", "x", *NORMALIZE, "y")], statistics(3), [1, 3, 8, 8])
    assert weights_of(proto) == [("bn.weight", (3, 1, 1)), ("bn.bias", (3, 1, 1))]


@pytest.mark.parametrize(
    ("nodes", "weights", "named"),
    [
        ([node("Gemm", "x", "w", "b", "y", transB=1, alpha=0.5)], {"w": rand(4, 3), "b": rand(4)}, {"w", "b"}),
        ([node("Transpose", "w", "t"), node("MatMul", "x", "t", "y")], {"w": rand(4, 3)}, {"w"}),
        ([node("Cast", "w", "t", to=1), node("MatMul", "x", "t", "y")], {"w": rand(3, 4).astype(np.float16)}, {"w"}),
        ([node("Mul", "scale", "w", "t"), node("MatMul", "x", "t", "y")], {"scale": rand(1), "w": rand(3, 4)}, {"w"}),
        (
            [
                helper.make_node("Split", ["w"], ["q", "k"], axis=1),
                node("MatMul", "x", "q", "a"),
                node("MatMul", "x", "k", "b"),
                node("Add", "a", "b", "y"),
            ],
            {"w": rand(3, 8)},
            {"w"},
        ),
        (
            [node("Constant", "w", value=numpy_helper.from_array(rand(3, 4))), node("MatMul", "x", "w", "y")],
            {},
            {"w"},
        ),
        # Numbers of the architecture, integers, and what is computed from them are no weights.
        ([node("Constant", "s", value_floats=[2.0]), node("Mul", "x", "s", "y")], {}, {None}),
        ([node("Mul", "x", "s", "y")], {"s": np.array(0.5, np.float32)}, {None}),
        ([node("Cast", "table", "t", to=1), node("Add", "x", "t", "y")], {"table": np.arange(3)}, {None}),
        ([node("Mul", "w", "angle", "t"), node("Cos", "t", "c"), node("Mul", "x", "c", "y")],
         {"w": rand(3), "angle": rand(2, 1)}, {None}),
    ],
)  # fmt: skip
def test_the_name_follows_the_values(nodes: Sequence[Any], weights: Dict[str, np.ndarray], named: Any) -> None:
    assert {name for name, _ in weights_of(model(nodes, weights, [2, 3]))} == named
