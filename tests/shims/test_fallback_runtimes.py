"""The fallback on the installed onnxruntime: a part that it does not load is written for it by the shim `onnx`."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import onnx_compat
from onnx_compat.execution.fallback import fallback_runnable
from onnx_compat.ir.dtypes import DType
from onnx_compat.model.write import to_proto

onnxruntime = pytest.importorskip("onnxruntime")

FLOAT, DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE
#: Operator, opset and type; the newer ones are unknown to an old onnxruntime, and it computes some in one type only.
CASES = [("Celu", 12, FLOAT), ("Mish", 18, FLOAT), ("Gelu", 20, FLOAT), ("Swish", 24, FLOAT), ("Erf", 13, DOUBLE)]


def build(operator: str, opset: int, dtype: int) -> Any:
    ports = [helper.make_tensor_value_info(name, dtype, ["n", 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"], name="it")], "g", ports[:1], ports[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)


def loads(model: Any) -> bool:
    """Whether onnxruntime loads a model as it is."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(to_proto(model).SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001 (its errors have no common base)
        return False
    return True


@pytest.mark.parametrize(("operator", "opset", "dtype"), CASES, ids=["-".join(map(str, case)) for case in CASES])
def test_a_part_runs_in_onnxruntime(operator: str, opset: int, dtype: int) -> None:
    model = onnx_compat.load(build(operator, opset, dtype))
    kind = DType.of("float64" if dtype == DOUBLE else "float32")
    x = np.linspace(-3, 3, 6, dtype=kind.numpy).reshape(2, 3)
    part = fallback_runnable(model)
    ((result, _),) = part.run_checked({"x": (x, kind)})
    np.testing.assert_allclose(result, onnx_compat.run(model, [x], shim="reference")[0], rtol=1e-5, atol=1e-6)
    assert part.fallback_runtimes == {"it": "onnxruntime" if loads(model) else "onnx"}
