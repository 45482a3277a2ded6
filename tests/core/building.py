"""Build small models for tests."""

from typing import Any, Optional, Sequence

import numpy as np
import pytest
from onnx import TensorProto, defs, helper, numpy_helper

BOOL, FLOAT, INT64, STRING = TensorProto.BOOL, TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


def require_opset(opset: int) -> None:
    """Skip the test if the installed onnx does not know the opset: an older release of onnx has no schemas of it."""
    if opset > defs.onnx_opset_version():
        pytest.skip("the installed onnx lacks opset %d" % opset)


def value(name: str, shape: Optional[Sequence[Any]] = None, dtype: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: Optional[dict] = None,
    opset: int = 13,
    extra_opsets: Sequence[Any] = (),
) -> Any:
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), initializers)
    opsets = [helper.make_opsetid("", opset), *extra_opsets]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


node = helper.make_node


def relu_model() -> Any:
    """Return a model with a single operator."""
    return model([node("Relu", ["x"], ["y"])], [value("x", ["n", 3])], [value("y")])
