"""Simplify ONNX models: fewer nodes, the same results.

`simplify` is the function; `SCHEDULE` holds the passes that it runs. docs/passes.md lists them. `import onnx_compat`
does not import this package.
"""

from onnx_compat.simplify.contract import ModelPass, model_pass
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.rewrites import SCHEDULE
from onnx_compat.simplify.simplification import GROWTH, SimplifyReport, simplify

__all__ = ["GROWTH", "SCHEDULE", "GraphDraft", "ModelPass", "SimplifyReport", "model_pass", "simplify"]
