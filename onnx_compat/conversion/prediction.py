"""Predict what `convert` writes: build the file with the code of `convert`, but write nothing."""

import contextlib
from typing import Dict, List, Mapping, NamedTuple, Sequence, Set, Tuple

from onnx_compat.conversion.attempt import Emit, attempt_whole, emit_model
from onnx_compat.conversion.bundle import Division, divide, plan
from onnx_compat.errors import ConversionError, OnnxCompatError, UnsupportedError
from onnx_compat.execution.plan import TracedModel
from onnx_compat.execution.support import NodeSupport, PartSupport, Support, describe_done, may_fall_back
from onnx_compat.model import GraphNode, Model
from onnx_compat.shim.description import Preview
from onnx_compat.shim.interface import Shim
from onnx_compat.verification.missing_values import MissingValues

__all__ = ["BUNDLE", "FILE", "REFUSED", "predict"]

FILE, BUNDLE, REFUSED = "file", "bundle", "refused"


class _Built(NamedTuple):
    """The files that were built for a model, and how their nodes are done.

    - done: node name -> "native" or "composed".
    - previews: one for the file, or one for each file of a bundle in the format of the framework.
    """

    done: Dict[str, str]
    previews: List[Preview]

    @property
    def nodes(self) -> Dict[str, Tuple[str, ...]]:
        """Node name -> the ops that compute its results."""
        return {name: ops for preview in self.previews for name, ops in preview.nodes.items()}

    @property
    def fuses(self) -> bool:
        """Whether an op may compute several nodes (see `Preview`)."""
        return any(preview.fuses for preview in self.previews)

    @property
    def ops(self) -> Dict[str, int]:
        """Op -> its number in all files."""
        counts: Dict[str, int] = {}
        for preview in self.previews:
            for name, count in preview.ops.items():
                counts[name] = counts.get(name, 0) + count
        return counts

    def builder(self, writer: Shim, file_format: str) -> Emit:
        """Return a function that builds the file of a traced model, and adds the outcome to `done` and `previews`."""

        def build(traced: TracedModel) -> None:
            self.done.update(traced.done)
            self.previews.append(writer.preview(traced.program, file_format))

        return build


def predict(model: Model, writer: Shim, file_format: str, channels_last: Sequence[str] = ()) -> Support:
    """Predict what `convert` does with a model: return the nodes, the outcome, and the parts of a bundle.

    The arguments are those of `convert`, after its checks. Nothing is written or run, except by a shim without
    `preview`, which writes to a temporary folder.

    Raises InvalidModelError and LimitError as `convert` does. Any other refusal of the format is in the result.
    """
    built = _Built({}, [])
    try:
        refusal = attempt_whole(model, writer, built.builder(writer, file_format), channels_last=channels_last)
    except ConversionError as error:  # not even a part of the model would be written
        return _describe_refusal(model, writer, file_format, error, error)
    if refusal is None:
        nodes = _describe_nodes(model, built, {}, set())
        return Support(nodes, format=file_format, outcome=FILE, ops=built.ops)
    if channels_last:
        return _describe_refusal(model, writer, file_format, refusal, refusal)
    parts: List[_Built] = []

    def build_part(inner: Model) -> None:
        parts.append(_Built({}, []))
        emit_model(inner, writer, parts[-1].builder(writer, file_format))

    try:
        division = plan(model, writer, build_part)
    except (ConversionError, UnsupportedError) as error:
        return _describe_refusal(model, writer, file_format, refusal, error)
    parts = parts[len(parts) - sum(not part.fallback for part in division.parts) :]  # of the last division
    whole = _Built({}, [])
    for part in parts:
        whole.done.update(part.done)
        whole.previews.extend(part.previews)
    reasons = {node.name: division.reason(node).reason for node in division.fallback}
    inner_fallback = {inner.name for node in division.fallback for graph in node.subgraphs() for inner in graph.walk()}
    return Support(
        _describe_nodes(model, whole, reasons, inner_fallback),
        format=file_format,
        outcome=BUNDLE,
        reason=refusal.reason,
        parts=_describe_parts(division, file_format),
        ops=whole.ops,
    )


def _describe_refusal(
    model: Model, writer: Shim, file_format: str, refusal: OnnxCompatError, final: OnnxCompatError
) -> Support:
    """Return the prediction for a model that `convert` refuses, with or without a bundle.

    `refusal`: why the format cannot hold the model. `final`: why there is no bundle either.
    """
    reason = refusal.reason
    if final is not refusal:
        reason += "; a bundle is refused too: " + final.reason
    errors: Dict[str, OnnxCompatError] = {}
    for error in (final, refusal):
        if error.node is not None:
            errors.update({**getattr(error, "other_errors", {}), error.node: error})
    with contextlib.suppress(OnnxCompatError):  # the cause may be no single node
        errors = {**divide(model, writer, errors).reasons, **errors}
    nodes = []
    for node in model.graph.walk():
        status, why = "composed", "the format could hold this node"
        if node.name in errors:
            status, why = "fallback" if may_fall_back(node) else "unsupported", errors[node.name].reason
        nodes.append(NodeSupport(node.name, node.operator, node.opset, status, why))
    return Support(nodes, format=file_format, outcome=REFUSED, reason=reason)


def _describe_parts(division: Division, file_format: str) -> List[PartSupport]:
    parts = []
    for part in division.parts:
        reasons = {node.name: division.reason(node).reason for node in part.nodes} if part.fallback else {}
        kind = "onnx" if part.fallback else file_format
        names = [node.name for node in part.nodes]
        parts.append(PartSupport(kind, names, list(part.inputs), list(part.outputs), reasons))
    return parts


def _describe_nodes(
    model: Model, built: _Built, fallback: Mapping[str, str], inner_fallback: Set[str]
) -> List[NodeSupport]:
    """Return an entry for each node of a model that is written as a file or a bundle.

    `fallback`: node name -> why the node is in the fallback. `inner_fallback`: the names of the nodes in the subgraphs
    of these nodes.
    """
    ops, main = built.nodes, model.graph.nodes
    held = {name for node in main if node.name in ops or node.name in fallback for name in node.outputs}
    missing = MissingValues(model, held | {port.name for port in model.graph.inputs})
    without_ops = {gone.node: gone.why for gone in reversed(missing.gone)}
    together: Dict[str, str] = {}  # node -> the node in whose ops it is computed
    for node in main:
        if node.name in ops and built.fuses:
            together.update((fused, node.name) for fused in missing.fused_nodes(node) if fused not in ops)

    def entry(node: GraphNode) -> NodeSupport:
        own: Tuple[str, ...] = ops.get(node.name, ())
        status = built.done.get(node.name, "composed")
        reason = describe_done(status)
        if node.name in fallback or node.name in inner_fallback:
            status = "fallback"
            reason = fallback.get(node.name, "it is in a subgraph of a node in the fallback")
        elif not own and node.name in without_ops:
            why = without_ops[node.name]
            reason = _NO_OP if why == "lost" or (why.startswith("fused") and not built.fuses) else why
            own = ops.get(together.get(node.name, ""), ())
        return NodeSupport(node.name, node.operator, node.opset, status, reason, own)

    return [entry(node) for node in model.graph.walk()]


#: The reason of a node whose result is another value of the model, or that was folded into the weights of another node.
_NO_OP = "no op of its own"
