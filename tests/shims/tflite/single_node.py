"""Helpers for models of a single node and the operators of their .tflite files."""

from typing import Any, Dict, List, Sequence

from onnx import TensorProto, helper, numpy_helper

import onnx_compat

__all__ = ["model", "operators"]


def model(operator: str, shape: Sequence[Any], constants: Dict[str, Any], opset: int = 13, **attributes: Any) -> bytes:
    """Return a model of a node in NCHW. Its inputs are x, then these constants; "" is an omitted input."""
    names = ["" if value is None else name for name, value in constants.items()]
    held = [numpy_helper.from_array(value, name) for name, value in constants.items() if value is not None]
    node = helper.make_node(operator, ["x", *names], ["y"], **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(shape))
    graph = helper.make_graph([node], operator, [x], [y], held)
    model_spec = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return bytes(model_spec.SerializeToString())


def operators(content: bytes, path: Any, name: str = "model") -> List[str]:
    from onnx_compat_tflite import flatbuffer as fb

    model_read = fb.read(str(onnx_compat.convert(content, str(path / (name + ".tflite")))))
    return [op.builtin for op in model_read.subgraphs[0].operators if op.builtin != "TRANSPOSE"]
