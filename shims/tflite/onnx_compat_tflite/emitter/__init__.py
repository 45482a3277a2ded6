"""The emitter: it writes each primitive as TFLite operators.

- `tflite_emitter`: the class that the core calls. It finds the function of a primitive in a table (`registry`).
- `builder`: the interface that all parts use. It appends operators for one node.
- `parts`: modules of functions over the builder. A part calls another part by its module.
"""

from onnx_compat_tflite.emitter.tflite_emitter import TFLiteEmitter

__all__ = ["TFLiteEmitter"]
