"""Build the example models of the passes."""

from typing import Any, List, Sequence

import numpy as np

__all__ = ["example"]

#: An operator with its inputs and outputs, separated by blanks, and its attributes: ("Cast", "x", "y", {"to": 1}). An
#: omitted input is "-".
NodeText = Sequence[Any]


def example(*nodes: NodeText, shape: Sequence[Any] = ("N", 2), opset: int = 17, **constants: Any) -> Any:
    """Return a ModelProto with the input `x` of type float32, and the output `y` of type float32.

    - nodes: (operator, inputs, outputs) or (operator, inputs, outputs, attributes) for each node: see `NodeText`.
    - shape: the shape of `x`. A text is the name of a size.
    - opset: the version of ai.onnx.
    - constants: name -> elements of the initializers. Floats become float32.
    """
    import onnx

    protos: List[Any] = []
    for operator, inputs, outputs, *attributes in nodes:
        names = ["" if name == "-" else name for name in inputs.split()]
        values = attributes[0] if attributes else {}
        name = "%s_%d" % (operator, len(protos))
        protos.append(onnx.helper.make_node(operator, names, outputs.split(), name, **values))
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    stored = {name: array.astype(np.float32) if array.dtype.kind == "f" else array for name, array in arrays.items()}
    graph = onnx.helper.make_graph(
        protos,
        "example",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)
