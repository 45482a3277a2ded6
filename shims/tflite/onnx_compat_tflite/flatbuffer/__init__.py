"""Read and write .tflite files, without a generated schema and without TensorFlow.

    from onnx_compat_tflite import flatbuffer as fb

    graph = fb.SubGraph(name="main")
    x = graph.add(fb.TensorSpec("x", "float32", (-1, 4)))
    two = graph.add(fb.TensorSpec("two", "float32", (), np.float32(2)))
    y = graph.add(fb.TensorSpec("y", "float32", (-1, 4)))
    graph.operators.append(fb.OperatorSpec("MUL", [x, two], [y]))
    graph.inputs, graph.outputs = [x], [y]
    fb.write(fb.ModelSpec([graph], [fb.Signature({"x": x}, {"y": y})]), "double.tflite")

The modules:

- `names` and `tables`: the enumerations and tables of the format, as text; `schema` parses the text.
- `encode` and `decode`: dictionaries to flatbuffer bytes, and back.
- `model`: the dataclasses of a TFLite model, such as `ModelSpec` and `OperatorSpec`.
- `serialize`, `constants` and `writer`: a `ModelSpec` to a file; `reader`: a file to a `ModelSpec`.
- `versions` and `runtimes`: the lowest version of an op for its dtypes and options, and the oldest runtime with that version.
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
from onnx_compat_tflite.flatbuffer.writer import LIMIT, is_oversized, to_bytes, write

__all__ = [
    "LIMIT",
    "ModelSpec",
    "OperatorSpec",
    "Quantization",
    "Signature",
    "SubGraph",
    "TensorSpec",
    "is_oversized",
    "minimum_runtime",
    "options_of",
    "options_table",
    "read",
    "required_version",
    "storage",
    "to_bytes",
    "write",
]
