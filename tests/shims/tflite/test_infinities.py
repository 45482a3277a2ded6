"""Infinities: kernels that accept a fused activation clamp their results to finite numbers, even without an activation.

The tests are strict: if a runtime stops doing so, they fail, and docs/usage.md has to change.
"""

from typing import Any, Dict, List, Tuple

import numpy as np
import pytest
from onnx_compat_tflite import features
from onnx_compat_tflite import flatbuffer as fb

LARGEST = np.finfo(np.float32).max
IMAGE, WINDOW = (1, 2, 2, 1), {"padding": "VALID", "stride_h": 2, "stride_w": 2}
ONES = np.ones(IMAGE, np.float32)
ZERO = np.zeros(1, np.float32)
SIZES = {"filter_height": 2, "filter_width": 2}

#: The operator: its constants, the shape of its input and of its result, its options.
CLAMPED: Dict[str, Tuple[List[Any], Any, Any, Dict[str, Any]]] = {
    "CONV_2D": ([ONES, ZERO], IMAGE, (1, 1, 1, 1), WINDOW),
    "DEPTHWISE_CONV_2D": ([ONES, ZERO], IMAGE, (1, 1, 1, 1), dict(WINDOW, depth_multiplier=1)),
    "MAX_POOL_2D": ([], IMAGE, (1, 1, 1, 1), dict(WINDOW, **SIZES)),
    "AVERAGE_POOL_2D": ([], IMAGE, (1, 1, 1, 1), dict(WINDOW, **SIZES)),
    "FULLY_CONNECTED": ([np.ones((1, 4), np.float32), ZERO], (1, 4), (1, 1), {}),
    "ADD": ([np.ones((1, 1), np.float32)], (1, 1), (1, 1), {}),
    "MUL": ([np.ones((1, 1), np.float32)], (1, 1), (1, 1), {}),
}


#: Operators that do not clamp.
OTHERS: Dict[str, Tuple[List[Any], Any, Any, Dict[str, Any]]] = {"LOGISTIC": ([], (1, 1), (1, 1), {})}


def result(builtin: str, value: float, plain: bool) -> float:
    constants, shape, output, options = {**CLAMPED, **OTHERS}[builtin]
    graph = fb.SubGraph(inputs=[0])
    graph.add(fb.TensorSpec("x", "float32", shape))
    positions = [0, *(graph.add(fb.TensorSpec("c", "float32", constant.shape, constant)) for constant in constants)]
    graph.outputs = [graph.add(fb.TensorSpec("y", "float32", output))]
    graph.operators.append(fb.OperatorSpec(builtin, positions, graph.outputs, options))
    runtime, reason = features.find_runtime()
    assert runtime is not None, reason
    interpreter = runtime.interpreter(plain, model_content=fb.to_bytes(fb.ModelSpec([graph])))
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.full(shape, value, np.float32))
    interpreter.invoke()
    return float(interpreter.get_tensor(graph.outputs[0]).item())


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("builtin", list(CLAMPED))
def test_kernels_without_the_delegate_hold_their_results_to_finite_numbers(builtin: str, sign: int) -> None:
    assert result(builtin, sign * np.inf, plain=True) == sign * LARGEST


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("builtin", list(CLAMPED))
def test_the_delegate_keeps_infinities(builtin: str, sign: int) -> None:
    """XNNPACK does not clamp. A runtime without XNNPACK as default delegate clamps as its kernels do."""
    delegated = np.isinf(result("ADD", np.inf, plain=False))
    assert result(builtin, sign * np.inf, plain=False) == sign * (np.inf if delegated else LARGEST)


def test_the_delegate_is_there_where_sums_are_seen_to_be_infinite() -> None:
    quirks = features.kernels().quirks
    if quirks.delegated:
        assert np.isinf(result("ADD", np.inf, plain=False)) == quirks.keeps_infinity


@pytest.mark.parametrize("sign", [1, -1])
def test_the_delegate_gives_nan_for_the_sigmoid_of_a_huge_number(sign: int) -> None:
    """XNNPACK's sigmoid of 1e26 is right, and that of 1e30 is NaN; that of infinity is right again."""
    delegated = np.isinf(result("ADD", np.inf, plain=False))
    saturated = 1.0 if sign > 0 else 0.0
    assert result("LOGISTIC", sign * 1e26, plain=False) == result("LOGISTIC", sign * np.inf, plain=False) == saturated
    np.testing.assert_equal(result("LOGISTIC", sign * 1e30, plain=False), np.nan if delegated else saturated)
