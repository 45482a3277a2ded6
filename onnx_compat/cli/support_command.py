"""`onnx-compat support`: what a shim would do with each node, without running anything."""

from collections import Counter
from typing import Any, Dict, Optional

import click

from . import options
from .codes import NEGATIVE, OK
from .output import Cell, emit, emit_json, table
from .progress import working

__all__ = ["support"]

UNSUPPORTED = "unsupported"
_STYLES = {"native": "green", "composed": "cyan", "fallback": "yellow", UNSUPPORTED: "bold red"}


@click.command()
@options.model
@options.shim
@options.machine
@click.pass_obj
def support(settings: options.Settings, model: str, shim: Optional[str]) -> int:
    """List the nodes of MODEL with what a shim does for each.

    native: the framework's own operator or layer. composed: of several. fallback: run outside the framework.
    unsupported: not at all.
    """
    import onnx_compat

    with working("Examining %s" % model):
        nodes = onnx_compat.support(model, shim=shim)
    counts = Counter(node.status for node in nodes)
    ok = not counts[UNSUPPORTED]
    if settings.json:
        emit_json({"ok": ok, "counts": dict(counts), "nodes": [_fields(node) for node in nodes]})
    else:
        table(
            ("node", "operator", ">opset", "status", "reason"),
            [[n.node, n.operator, n.opset, Cell(n.status, _STYLES.get(n.status, "")), n.reason or ""] for n in nodes],
        )
        emit("%d nodes: %s" % (len(nodes), ", ".join("%d %s" % (counts[s], s) for s in _STYLES if counts[s]) or "none"))
    return OK if ok else NEGATIVE


def _fields(node: Any) -> Dict[str, Any]:
    return {name: getattr(node, name) for name in ("node", "operator", "opset", "status", "reason")}
