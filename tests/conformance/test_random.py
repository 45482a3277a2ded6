"""Operators that draw random numbers, in each version, on the shim under test. No release of onnx recorded most of them."""

from typing import Any, List

import numpy as np
import pytest
from onnx import TensorProto, helper

import onnx_compat
from matrix.harness.chance import check_frequency, check_moments

LIKE = np.zeros((200, 300), np.float32)
FLOATS = [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16]
NUMPY = {1: np.float32, 6: np.int32, 7: np.int64, 10: np.float16, 11: np.float64}


def prepare_model(
    shim: str, operator: str, opset: int, fed: bool, out: int = TensorProto.FLOAT, **attributes: Any
) -> Any:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, LIKE.shape)] if fed else []
    output = helper.make_tensor_value_info("y", out, None)
    node = helper.make_node(operator, [value_info.name for value_info in inputs], ["y"], **attributes)
    graph = helper.make_graph([node], "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx_compat.prepare(model.SerializeToString(), shim=shim)


def draw(model: Any, fed: List[Any]) -> np.ndarray:
    first, again = model.run(fed)[0], model.run(fed)[0]
    assert (first != again).any(), "the same numbers at the second run"
    assert isinstance(first, np.ndarray)
    return first


@pytest.mark.parametrize("opset", [7, 22])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("like", [False, True])
def test_normal(shim: str, like: bool, dtype: int, opset: int) -> None:
    attributes = {} if like else {"shape": LIKE.shape}
    name = "RandomNormalLike" if like else "RandomNormal"
    model = prepare_model(shim, name, opset, like, dtype, dtype=dtype, mean=3.0, scale=2.0, **attributes)
    drawn = draw(model, [LIKE] if like else [])
    assert (drawn.dtype, drawn.shape) == (NUMPY[dtype], LIKE.shape)
    check_moments("y", drawn, 3, 4, 3)


@pytest.mark.parametrize("opset", [7, 22])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("like", [False, True])
def test_uniform(shim: str, like: bool, dtype: int, opset: int) -> None:
    attributes = {} if like else {"shape": LIKE.shape}
    name = "RandomUniformLike" if like else "RandomUniform"
    model = prepare_model(shim, name, opset, like, dtype, dtype=dtype, low=-1.0, high=3.0, **attributes)
    drawn = draw(model, [LIKE] if like else [])
    assert (drawn.dtype, drawn.shape) == (NUMPY[dtype], LIKE.shape)
    assert drawn.min() >= -1
    assert drawn.max() <= 3
    check_moments("y", drawn, 1, 16 / 12, 1.8)


@pytest.mark.parametrize("opset", [15, 22])
def test_bernoulli(shim: str, opset: int) -> None:
    chances = np.broadcast_to(np.linspace(0, 1, 300, dtype=np.float32), LIKE.shape).copy()
    drawn = draw(prepare_model(shim, "Bernoulli", opset, True, TensorProto.INT32, dtype=TensorProto.INT32), [chances])
    assert drawn.dtype == np.int32
    check_frequency("y", drawn, chances)


@pytest.mark.parametrize("opset", [7, 22])
@pytest.mark.parametrize("dtype", [TensorProto.INT32, TensorProto.INT64])
def test_multinomial(shim: str, dtype: int, opset: int) -> None:
    odds = np.arange(1, 301, dtype=np.float64)
    logs = np.broadcast_to(np.log(odds).astype(np.float32), LIKE.shape).copy()
    drawn = draw(prepare_model(shim, "Multinomial", opset, True, dtype, dtype=dtype, sample_size=400), [logs])
    assert (drawn.dtype, drawn.shape) == (NUMPY[dtype], (200, 400))
    assert drawn.min() >= 0
    assert drawn.max() < 300
    for start in range(0, 300, 60):  # a fifth of the classes each
        here = (drawn >= start) & (drawn < start + 60)
        check_frequency("classes from %d" % start, here, odds[start : start + 60].sum() / odds.sum())


@pytest.mark.parametrize("ratio", [0.25, 0.5])
def test_the_first_dropouts_train_by_default(shim: str, ratio: float) -> None:
    drawn = draw(prepare_model(shim, "Dropout", 6, True, ratio=ratio), [LIKE + 1])
    check_frequency("kept", drawn != 0, 1 - ratio)
    np.testing.assert_allclose(drawn[drawn != 0], 1 / (1 - ratio), rtol=1e-6)


@pytest.mark.parametrize("name", ["RandomNormal", "RandomUniform"])
def test_each_seed_gives_its_own_numbers(shim: str, name: str) -> None:
    def draw_seeded(seed: float) -> np.ndarray:
        return np.asarray(prepare_model(shim, name, 22, False, shape=LIKE.shape, seed=seed).run([])[0])

    np.testing.assert_array_equal(draw_seeded(1.5), draw_seeded(1.5))
    assert (draw_seeded(1.5) != draw_seeded(2.5)).mean() > 0.9
