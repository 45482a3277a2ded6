"""Bundle: a zip that holds a model as several files, some in the format of a framework, the others as ONNX for the
fallback.

`divide` assigns the nodes to the files, `write` writes the zip with its `manifest.json`, and `Bundle` runs it. `plan`
predicts what `write` writes.
"""

from onnx_compat.conversion.bundle.division import Division, divide
from onnx_compat.conversion.bundle.manifest import SUFFIX, is_bundle
from onnx_compat.conversion.bundle.reading import Bundle, read_manifest
from onnx_compat.conversion.bundle.writing import plan, write

__all__ = ["SUFFIX", "Bundle", "Division", "divide", "is_bundle", "plan", "read_manifest", "write"]
