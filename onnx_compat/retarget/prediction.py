"""Predict what a conversion to ONNX writes: convert the model in memory, but write nothing."""

from collections import Counter
from typing import Any, Mapping, Optional

from onnx_compat.conversion.convert import ONNX
from onnx_compat.conversion.input_fixing import Shapes
from onnx_compat.conversion.onnx_options import OnnxOptions
from onnx_compat.conversion.prediction import FILE, REFUSED
from onnx_compat.execution.support import NodeSupport, Support
from onnx_compat.model.loading import ModelSource
from onnx_compat.model.protos import operator_name, walk
from onnx_compat.retarget.conversion import change
from onnx_compat.retarget.outcomes import NodeOutcome
from onnx_compat.retarget.protos import all_graphs
from onnx_compat.retarget.retargeting import refusal_error

__all__ = ["predict_onnx"]


def predict_onnx(
    model: ModelSource,
    options: OnnxOptions,
    shapes: Optional[Shapes] = None,
    values: Optional[Mapping[str, Any]] = None,
) -> Support:
    """Return what `write_onnx` does with a model: the outcome of each node, and the operators of the file.

    - options: the opset and the IR version, and whether functions are inlined and the model is simplified.
    - shapes: input name -> sizes to fix. values: input name -> value to fix. See `fix_inputs`. None: no input is fixed.

    Raises InvalidModelError, InputError and ConversionError as `write_onnx` does. A refused node is in the result.
    """
    changed = change(model, options, shapes, values)
    if changed.plan.first_refusal is not None:
        nodes = [_describe(entry)._replace(ops=()) for entry in changed.plan.nodes]
        return Support(nodes, format=ONNX, outcome=REFUSED, reason=refusal_error(changed.plan).reason)
    proto = changed.result.proto
    bodies = [graph.node for graph in all_graphs(proto)] + [function.node for function in proto.functions]
    ops = Counter(operator_name(node) for nodes in bodies for node in walk(nodes))
    return Support(map(_describe, changed.plan.nodes), format=ONNX, outcome=FILE, ops=ops)


def _describe(entry: NodeOutcome) -> NodeSupport:
    """Return the outcome of a node as an entry of `Support`. A node of a function has its function in the reason."""
    where = "in the function '%s'" % entry.function if entry.function else ""
    reason = "; ".join(filter(None, (where, entry.reason)))
    return NodeSupport(entry.node, entry.operator, entry.opset, entry.outcome, reason, entry.operators)
