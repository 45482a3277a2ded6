"""`onnx-compat support`: list for each node of a model how a shim would do it, without running the model."""

from collections import Counter
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence

import click

from onnx_compat.cli import options
from onnx_compat.cli.exit_codes import NEGATIVE, OK
from onnx_compat.cli.output import Cell, count_of, emit, emit_json, table
from onnx_compat.cli.progress import working

if TYPE_CHECKING:
    from onnx_compat.execution.support import NodeSupport
    from onnx_compat.model import Model

__all__ = ["support"]

UNSUPPORTED = "unsupported"
_STYLES = {"native": "green", "composed": "cyan", "fallback": "yellow", UNSUPPORTED: "bold red"}


@click.command()
@options.model
@options.shim
@options.fixed_inputs
@options.portable
@options.limits
@options.machine
@click.pass_obj
def support(
    settings: options.Settings,
    model: str,
    shim: Optional[str],
    shapes: options.Shapes,
    values: Dict[str, Any],
    portable: bool,
) -> int:
    """List the nodes of MODEL, and how a shim does each of them.

    native: a method of the shim does the whole operator. composed: primitives of the shim do it. fallback: it runs outside
    the framework. unsupported: it cannot run.

    If a file cannot hold every node, a table lists the parts of a bundle (convert --allow-fallback). --shape, --value and
    --portable have the same effect as with convert.
    """
    import onnx_compat
    from onnx_compat.conversion.input_fixing import fix_inputs

    with working("Examining %s" % model):
        loaded = onnx_compat.load(model)
        if shapes or values:
            loaded = fix_inputs(loaded, shapes, values)
        nodes = onnx_compat.support(loaded, shim=shim, portable=portable)
        parts = _bundle_parts(loaded, shim, portable, nodes)
    counts = Counter(node.status for node in nodes)
    ok = not counts[UNSUPPORTED]
    if settings.json:
        emit_json({"ok": ok, "counts": dict(counts), "nodes": [_node_fields(node) for node in nodes], "parts": parts})
    else:
        table(
            ("node", "operator", ">opset", "status", "reason"),
            [[n.node, n.operator, n.opset, Cell(n.status, _STYLES.get(n.status, "")), n.reason or ""] for n in nodes],
        )
        totals = ", ".join("%d %s" % (counts[status], status) for status in _STYLES if counts[status])
        emit("%s: %s" % (count_of(len(nodes), "node"), totals or "none"))
        _show_parts(parts)
    return OK if ok else NEGATIVE


def _node_fields(node: "NodeSupport") -> Dict[str, Any]:
    """Return {"node", "operator", "opset", "status", "reason"} of a node, for the JSON document."""
    return {name: getattr(node, name) for name in ("node", "operator", "opset", "status", "reason")}


def _bundle_parts(
    model: "Model", shim: Optional[str], portable: bool, nodes: "Sequence[NodeSupport]"
) -> List[Dict[str, Any]]:
    """Predict the parts of the bundle that `convert --allow-fallback` writes: return a list of dicts, in running order.

    Return an empty list if a node is unsupported, or if `nodes` shows that a single file can hold the model. `nodes`:
    the result of `onnx_compat.support` for the model. Errors of `divide` pass. A dict has these keys:

    - "kind": "onnx" for a part in the fallback, else the first format of the shim, or its name if it has no format
    - "nodes", "inputs", "outputs": lists of names
    - "reasons": node -> why the node is in the fallback; empty for other parts
    """
    from onnx_compat.conversion.bundle import divide
    from onnx_compat.discovery import selection
    from onnx_compat.execution.support import AGAIN, UNSEEN

    statuses = {node.status for node in nodes}
    outside = "fallback" in statuses or any(node.reason == UNSEEN or node.reason.startswith(AGAIN) for node in nodes)
    if UNSUPPORTED in statuses or not outside:
        return []
    target = selection.find(selection.decide(shim).name)
    division = divide(model, target.portable() if portable else target)
    kind = next(iter(target.formats), target.name)
    return [
        {
            "kind": "onnx" if part.fallback else kind,
            "nodes": [node.name for node in part.nodes],
            "inputs": list(part.inputs),
            "outputs": list(part.outputs),
            "reasons": {node.name: division.reason(node).reason for node in part.nodes} if part.fallback else {},
        }
        for part in division.parts
    ]


def _show_parts(parts: Sequence[Dict[str, Any]]) -> None:
    """Print the table of the parts of a bundle, and how many of them run in the fallback.

    Print nothing if no part runs in the fallback.

    `parts`: the result of `_bundle_parts`.
    """
    if not any(part["reasons"] for part in parts):
        return
    rows = []
    for number, part in enumerate(parts):
        nodes = part["nodes"]
        names = ", ".join(nodes) if part["reasons"] or len(nodes) < 3 else "%s ... %s" % (nodes[0], nodes[-1])
        rows.append([number, part["kind"], len(nodes), names, "; ".join(dict.fromkeys(part["reasons"].values()))])
    table((">part", "kind", ">nodes", "which", "why in the fallback"), rows)
    outside = [part for part in parts if part["reasons"]]
    emit("as a file: a bundle of %s, %d of them for the fallback" % (count_of(len(parts), "part"), len(outside)))
