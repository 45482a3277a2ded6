"""A model as one file of several: what a format can hold in that format, the rest as ONNX for the fallback.

`divide` says which nodes go where and why, `write` makes the file (a zip whose `manifest.json` says what is in it), and
`Bundle` runs it.
"""

from onnx_compat.conversion.bundle.division import Division, divide
from onnx_compat.conversion.bundle.manifest import SUFFIX, is_bundle
from onnx_compat.conversion.bundle.reading import Bundle, read_manifest
from onnx_compat.conversion.bundle.writing import write

__all__ = ["SUFFIX", "Bundle", "Division", "divide", "is_bundle", "read_manifest", "write"]
