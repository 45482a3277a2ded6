"""`onnx-compat support`: what a shim would do with each node, without running anything."""

from collections import Counter
from typing import Any, Dict, List, Optional, Sequence

import click

from onnx_compat.cli import options
from onnx_compat.cli.exit_codes import NEGATIVE, OK
from onnx_compat.cli.output import Cell, emit, emit_json, table
from onnx_compat.cli.progress import working

__all__ = ["support"]

UNSUPPORTED = "unsupported"
_STYLES = {"native": "green", "composed": "cyan", "fallback": "yellow", UNSUPPORTED: "bold red"}


@click.command()
@options.model
@options.shim
@options.settled
@options.portable
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
    """List the nodes of MODEL with what a shim does for each.

    native: a method of the shim for the whole operator. composed: several primitives. fallback: outside the framework.
    unsupported: not at all.

    If a file cannot hold every node, the parts of a bundle follow (convert --allow-fallback). --shape, --value and --portable
    have the same effect as with convert.
    """
    import onnx_compat
    from onnx_compat.conversion.input_fixing import fix_inputs

    with working("Examining %s" % model):
        loaded = onnx_compat.load(model)
        if shapes or values:
            loaded = fix_inputs(loaded, shapes, values)
        nodes = onnx_compat.support(loaded, shim=shim, portable=portable)
        parts = _parts(loaded, shim, portable, nodes)
    counts = Counter(node.status for node in nodes)
    ok = not counts[UNSUPPORTED]
    if settings.json:
        emit_json({"ok": ok, "counts": dict(counts), "nodes": [_fields(node) for node in nodes], "parts": parts})
    else:
        table(
            ("node", "operator", ">opset", "status", "reason"),
            [[n.node, n.operator, n.opset, Cell(n.status, _STYLES.get(n.status, "")), n.reason or ""] for n in nodes],
        )
        emit("%d nodes: %s" % (len(nodes), ", ".join("%d %s" % (counts[s], s) for s in _STYLES if counts[s]) or "none"))
        _show(parts)
    return OK if ok else NEGATIVE


def _fields(node: Any) -> Dict[str, Any]:
    return {name: getattr(node, name) for name in ("node", "operator", "opset", "status", "reason")}


def _parts(model: Any, shim: Optional[str], portable: bool, nodes: Sequence[Any]) -> List[Dict[str, Any]]:
    """What a bundle of the model would be made of; nothing where one file holds it all, or nothing holds it."""
    from onnx_compat.conversion.bundle import divide
    from onnx_compat.discovery import selection
    from onnx_compat.execution.support import AGAIN, UNSEEN

    told = {node.status for node in nodes}
    outside = "fallback" in told or any(node.reason == UNSEEN or node.reason.startswith(AGAIN) for node in nodes)
    if UNSUPPORTED in told or not outside:
        return []
    found = selection.find(selection.decide(shim).name)
    division = divide(model, found.portable() if portable else found)
    kind = next(iter(found.formats), found.name)
    return [
        {
            "kind": "onnx" if part.fallback else kind,
            "nodes": [node.name for node in part.nodes],
            "inputs": list(part.inputs),
            "outputs": list(part.outputs),
            "reasons": {one.name: division.reason(one).reason for one in part.nodes} if part.fallback else {},
        }
        for part in division.parts
    ]


def _show(parts: Sequence[Dict[str, Any]]) -> None:
    if not any(part["reasons"] for part in parts):
        return
    rows = []
    for number, part in enumerate(parts):
        nodes = part["nodes"]
        named = ", ".join(nodes) if part["reasons"] or len(nodes) < 3 else "%s ... %s" % (nodes[0], nodes[-1])
        rows.append([number, part["kind"], len(nodes), named, "; ".join(dict.fromkeys(part["reasons"].values()))])
    table((">part", "kind", ">nodes", "which", "why in the fallback"), rows)
    outside = [part for part in parts if part["reasons"]]
    emit("as a file: a bundle of %d parts, %d of them for the fallback" % (len(parts), len(outside)))
