"""Compositions of primitives are written as the operators that the target has."""

from typing import Any, Callable, List

import numpy as np
import onnx
import pytest

import onnx_compat
from onnx_compat import primitives as p
from onnx_compat.ir import dtypes
from onnx_compat.onnx_shim.emission import write_program
from onnx_compat.onnx_shim.emitter import OnnxEmitter
from onnx_compat.onnx_shim.operator_sets import OperatorOffer
from onnx_compat.onnx_shim.runtime import runtime_offer
from onnx_compat.onnx_shim.shim import SHIM
from onnx_compat.onnx_shim.signatures import newest_opset
from onnx_compat.ops import activation, normalization
from onnx_compat.shim.interface import Port, Program
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import lift

pytest.importorskip("onnxruntime")

#: The newest operator set that both packages have.
NEWEST = min(newest_opset(), runtime_offer().opset)
ROWS = Port("x", dtypes.float32, ("n", 4))
SCALE = np.asarray([1, 2, -1, 0.5], np.float32)
BIAS = np.asarray([0, 1, 2, 3], np.float32)


class _Named:
    """A context in which the mean and the deviation are not read."""

    @staticmethod
    def wants(_: int) -> bool:
        return False


def layer_normalization(x: Any, bias: Any = None) -> Any:
    shift = None if bias is None else lift(bias)
    return normalization.layer_normalization(_Named(), x, lift(SCALE), shift, epsilon=1e-3)[0]  # type: ignore[arg-type]  # a part of Context


def by_inverse(x: Any) -> Any:
    """Return the normalization that torch exports for its models: x * (1 / sqrt(mean(x^2) + eps)) * scale."""
    mean = p.reduce_mean(p.pow(x, np.float32(2)), [1], keepdims=True)
    return p.mul(lift(SCALE), p.mul(x, p.div(np.float32(1), p.sqrt(mean + np.float32(1e-3)))))


FORMS: Any = {
    "Gelu": activation.gelu,
    "Gelu by tanh": lambda x: activation.gelu(x, approximate="tanh"),
    "Elu": activation.elu,
    "HardSigmoid": lambda x: activation.hard_sigmoid(x, alpha=1 / 6, beta=0.5),
    "HardSwish": activation.hard_swish,
    "Mish": activation.mish,
    "Softplus": activation.softplus,
    "Softsign": activation.softsign,
    "Swish": activation.swish,
    "Swish of another slope": lambda x: activation.swish(x, alpha=1.702),
    "Swish of a product": lambda x: activation.swish(x * 0.5, alpha=1.702),
    "LayerNormalization": layer_normalization,
    "LayerNormalization with a bias": lambda x: layer_normalization(x, BIAS),
    "RMSNormalization": lambda x: normalization.rms_normalization(x, lift(SCALE)),
    "RMSNormalization by an inverse": by_inverse,
}


def record(body: Callable[[Any], Any], opset: int = NEWEST, port: Port = ROWS) -> Program:
    return record_program(lambda x: [body(x)], [port], OnnxEmitter(OperatorOffer(opset)))


def operators(proto: Any) -> List[str]:
    return [node.op_type for node in proto.graph.node]


def rows() -> np.ndarray:
    return np.linspace(-4, 4, 20, dtype=np.float32).reshape(5, 4)


def run(proto: Any) -> np.ndarray:
    onnx.checker.check_model(proto, full_check=True)
    result: np.ndarray = onnx_compat.run(proto, {"x": rows()}, shim="reference")[0]  # onnxruntime 1.31 lacks Swish
    return result


@pytest.mark.parametrize("name", sorted(FORMS))
def test_a_composition_is_one_operator_with_the_same_results(name: str) -> None:
    program = record(FORMS[name])
    proto = write_program(program, NEWEST)
    assert operators(proto)[-1:] == [name.split(maxsplit=1)[0]] and len(proto.graph.node) == 1 + ("product" in name)
    older = write_program(record(FORMS[name], 13), 13)
    np.testing.assert_allclose(run(proto), run(older), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["Gelu", "Mish", "HardSwish", "Swish", "LayerNormalization", "RMSNormalization"])
def test_an_operator_that_the_target_lacks_stays_composed(name: str) -> None:
    assert name not in operators(write_program(record(FORMS[name], 13), 13))


def test_an_operator_inside_a_body_is_recognised() -> None:
    def body(x: Any) -> Any:
        return p.cond(p.greater(p.reduce_max(x), np.float32(0)), lambda: [activation.gelu(x)], lambda: [x])[0]

    proto = write_program(record(body), NEWEST)
    branches = [attribute.g for node in proto.graph.node for attribute in node.attribute if attribute.HasField("g")]
    assert "Gelu" in [node.op_type for branch in branches for node in branch.node]
    np.testing.assert_allclose(run(proto), run(write_program(record(FORMS["Gelu"]), NEWEST)), rtol=1e-5)


def not_last_axis(x: Any) -> Any:
    return p.mul(p.div(x, p.sqrt(p.reduce_mean(x * x, [0], keepdims=True) + 1e-3)), lift(SCALE))


def other_axes(x: Any) -> Any:
    distance: Any = p.sub(x, p.reduce_mean(x, [0], keepdims=True))
    variance = p.reduce_mean(distance * distance, [1], keepdims=True)
    return p.mul(p.div(distance, p.sqrt(variance + 1e-3)), lift(SCALE))


@pytest.mark.parametrize(
    "body",
    [
        not_last_axis,
        lambda x: p.mul(normalization.rms_normalization(x, lift(np.float32(2))), 1.0),
        lambda x: x * p.sigmoid(x + 1),
        lambda x: x * (p.erf(x) + 1) * 0.5,
    ],
    ids=["first axis", "scale of one number", "sum", "other slope"],
)
def test_a_similar_composition_stays(body: Callable[[Any], Any]) -> None:
    names = operators(write_program(record(body), NEWEST))
    assert not {"RMSNormalization", "LayerNormalization", "Swish", "Gelu"} & set(names)


def test_a_difference_to_the_mean_of_another_axis_is_not_centered() -> None:
    proto = write_program(record(other_axes), NEWEST)
    assert "LayerNormalization" not in operators(proto)
    np.testing.assert_allclose(run(proto), run(write_program(record(other_axes, 13), 13)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", sorted(FORMS))
def test_the_shim_computes_the_operators_of_the_runtime(name: str) -> None:
    program = record_program(lambda x: [FORMS[name](x)], [ROWS], SHIM.emitter())
    expected = run(write_program(record(FORMS[name], 13), 13))
    np.testing.assert_allclose(SHIM.compile(program).run([rows()])[0], expected, rtol=1e-4, atol=1e-6)
