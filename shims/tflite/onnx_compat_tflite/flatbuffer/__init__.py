"""Reading and writing .tflite files without any generated schema and without TensorFlow.

    from onnx_compat_tflite import flatbuffer as fb

    graph = fb.SubGraph(name="main")
    x = graph.add(fb.TensorSpec("x", "float32", (-1, 4)))
    two = graph.add(fb.TensorSpec("two", "float32", (), np.float32(2)))
    y = graph.add(fb.TensorSpec("y", "float32", (-1, 4)))
    graph.operators.append(fb.OperatorSpec("MUL", [x, two], [y]))
    graph.inputs, graph.outputs = [x], [y]
    fb.write(fb.ModelSpec([graph], [fb.Signature({"x": x}, {"y": y})]), "double.tflite")

The rooms: `names` and `tables` are the format as data, `schema` reads them; `encode` and `decode` know flatbuffers and
no TFLite; `model` is the plain objects; `lower`, `constants` and `writer` make a file of them, `reader` the reverse;
`versions` and `runtimes` know which operator version a use needs, and which runtime has it.
"""

from onnx_compat_tflite.flatbuffer.model import (
    ModelSpec,
    OperatorSpec,
    Quantization,
    Signature,
    SubGraph,
    TensorSpec,
    storage,
)
from onnx_compat_tflite.flatbuffer.reader import read
from onnx_compat_tflite.flatbuffer.runtimes import minimum_runtime
from onnx_compat_tflite.flatbuffer.schema import options_of, options_table
from onnx_compat_tflite.flatbuffer.versions import required_version
from onnx_compat_tflite.flatbuffer.writer import LIMIT, oversized, to_bytes, write

__all__ = [
    "LIMIT",
    "ModelSpec",
    "OperatorSpec",
    "Quantization",
    "Signature",
    "SubGraph",
    "TensorSpec",
    "minimum_runtime",
    "options_of",
    "options_table",
    "oversized",
    "read",
    "required_version",
    "storage",
    "to_bytes",
    "write",
]
