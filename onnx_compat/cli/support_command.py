"""`onnx-compat support`: list for each node of a model how a shim would do it, and predict what `convert` does."""

from collections import Counter
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence

import click

from onnx_compat.cli import onnx_options as onnx_format
from onnx_compat.cli import options
from onnx_compat.cli.exit_codes import NEGATIVE, OK
from onnx_compat.cli.output import Cell, count_of, emit, emit_json, table
from onnx_compat.cli.progress import working

if TYPE_CHECKING:
    from onnx_compat.execution.support import NodeSupport, PartSupport, Support

__all__ = ["support"]

UNSUPPORTED = "unsupported"
_STYLES = {
    "native": "green", "kept": "green", "re-spelled": "cyan", "composed": "cyan", "fallback": "yellow",
    UNSUPPORTED: "bold red", "refused": "bold red",
}  # fmt: skip
_LISTED_OPS = 2  # a node with more ops shows their number


@click.command()
@options.model
@click.option("--to", type=click.Choice(options.FORMATS), help="Predict only the file of this format.")
@options.shim
@options.fixed_inputs
@options.channels_last
@click.option("--allow-fallback", is_flag=True, help="With --to: a bundle counts as success, as with convert.")
@options.float64_as_float32
@options.portable
@onnx_format.node_options
@options.limits
@options.machine
@click.pass_obj
def support(
    settings: options.Settings,
    model: str,
    to: Optional[str],
    shim: Optional[str],
    shapes: options.Shapes,
    values: Dict[str, Any],
    channels_last: Sequence[str],
    allow_fallback: bool,
    float64_as_float32: bool,
    portable: bool,
    onnx_options: Dict[str, Any],
) -> int:
    """List the nodes of MODEL, how a shim does each of them, and the ops of the file that convert would write.

    native: a method of the shim does the whole operator. composed: primitives of the shim do it. fallback: it runs
    outside the framework, in onnxruntime or numpy; an old onnxruntime gets it in other operators. unsupported: it
    cannot run.

    The file is built as convert builds it, but not written. A last line for each format of the shim says whether
    convert writes a file, writes a bundle with --allow-fallback, or refuses the model. The options are those of
    convert.

    --to onnx lists what becomes of each node in an .onnx file, and the operators that are written for it. kept: the
    node stays. re-spelled: its operator gets another form. composed: other operators compute it. refused: it has no
    form at the opset.
    """
    import onnx_compat
    from onnx_compat.conversion.convert import ONNX
    from onnx_compat.conversion.onnx_options import check_onnx_options

    if to is None and (channels_last or allow_fallback):
        raise click.UsageError("--channels-last and --allow-fallback are for a file: name its format with --to")
    if to == ONNX and shim != ONNX:
        check_onnx_options(False, allow_fallback=allow_fallback)
    else:
        onnx_format.reject_options(onnx_options, to or "")
    with working("Examining %s" % model) as set_message:
        loaded = onnx_compat.load(model)
        common: Dict[str, Any] = {
            "shapes": shapes, "values": values, "portable": portable, "float64_as_float32": float64_as_float32
        }  # fmt: skip
        common = dict({name: value for name, value in common.items() if value}, **onnx_options)
        files: List[Support] = []
        for file_format in [to] if to is not None else _formats(shim):
            set_message("Building a file of the format %s" % file_format)
            files.append(onnx_compat.support(loaded, shim=shim, to=file_format, channels_last=channels_last, **common))
        nodes = files[0] if to is not None else onnx_compat.support(loaded, shim=shim, **common)
    counts = Counter(node.status for node in nodes)
    ok = not counts[UNSUPPORTED]
    if to is not None:
        ok = files[0].outcome == "file" or (allow_fallback and files[0].outcome == "bundle")
    if settings.json:
        parts = [_part_fields(part) for part in files[0].parts] if files else []
        document = {"ok": ok, "counts": dict(counts), "nodes": [_node_fields(node) for node in nodes], "parts": parts}
        emit_json(dict(document, files=[_file_fields(file) for file in files]))
    else:
        _show_nodes(nodes, files)
        totals = ", ".join("%d %s" % (counts[status], status) for status in _STYLES if counts[status])
        emit("%s: %s" % (count_of(len(nodes), "node"), totals or "none"))
        for file in files:
            _show_file(file)
    return OK if ok else NEGATIVE


def _formats(shim: Optional[str]) -> List[str]:
    """Return the formats that the shim writes. `shim` None: the shim that `onnx_compat.support` selects."""
    from onnx_compat.discovery import selection

    return list(selection.find(selection.decide(shim).name).formats)


def _show_nodes(nodes: "Sequence[NodeSupport]", files: "Sequence[Support]") -> None:
    """Print the table of nodes, with a column for the ops of each file. A refused file has no column."""
    written = [file for file in files if file.outcome != "refused"]
    columns = ["in the %s" % file.format for file in written]
    rows = []
    for index, node in enumerate(nodes):
        ops = [_format_ops(file[index]) for file in written]
        status = Cell(node.status, _STYLES.get(node.status, ""))
        rows.append([node.node, node.operator, node.opset, status, *ops, node.reason or ""])
    table(("node", "operator", ">opset", "status", *columns, "reason"), rows)


def _format_ops(node: "NodeSupport") -> str:
    """Return the ops of a node as text: `CONV_2D`, `RESHAPE, CONV_2D`, `6 ops`; `fallback`; "" for a node without ops.

    A node that is fused into another has the reason after its ops: `CONV_2D + RELU (fused into 'relu')`.
    """
    if node.status == "fallback":
        return node.status
    ops = ", ".join(node.ops) if len(node.ops) <= _LISTED_OPS else count_of(len(node.ops), "op")
    return "%s (%s)" % (ops, node.reason) if ops and node.reason.startswith("fused") else ops


def _node_fields(node: "NodeSupport") -> Dict[str, Any]:
    """Return {"node", "operator", "opset", "status", "reason", "ops"} of a node, for the JSON document."""
    fields = {name: getattr(node, name) for name in ("node", "operator", "opset", "status", "reason")}
    return dict(fields, ops=list(getattr(node, "ops", ())))


def _part_fields(part: "PartSupport") -> Dict[str, Any]:
    return dict(part._asdict())


def _file_fields(file: "Support") -> Dict[str, Any]:
    """Return the prediction of a file for the JSON document.

    {"format", "outcome", "reason", "ops", "nodes", "parts"}: see `Support`. "nodes" has {"node", "status", "ops"} of
    each node.
    """
    return {
        "format": file.format,
        "outcome": file.outcome,
        "reason": file.reason,
        "ops": file.ops,
        "nodes": [{"node": node.node, "status": node.status, "ops": list(node.ops)} for node in file],
        "parts": [_part_fields(part) for part in file.parts],
    }


def _show_file(file: "Support") -> None:
    """Print what `convert` does for a format: a line, after a table of the parts of a bundle."""
    if file.outcome == "refused":
        emit("as %s: refused: %s" % (file.format, file.reason))
    elif file.outcome == "file":
        emit("as %s: a file%s" % (file.format, _count_ops(file)))
    else:
        rows = []
        for number, part in enumerate(file.parts):
            names = part.nodes
            which = ", ".join(names) if part.reasons or len(names) < 3 else "%s ... %s" % (names[0], names[-1])
            rows.append([number, part.kind, len(names), which, "; ".join(dict.fromkeys(part.reasons.values()))])
        table((">part", "kind", ">nodes", "which", "why in the fallback"), rows)
        outside = sum(bool(part.reasons) for part in file.parts)
        text = "as %s: refused; with --allow-fallback: a bundle of %s, %d for the fallback"
        emit(text % (file.format, count_of(len(file.parts), "part"), outside))


def _count_ops(file: "Support") -> str:
    """Return " of 9 ops" for a file; "" if the shim does not list the ops."""
    return " of %s" % count_of(sum(file.ops.values()), "op") if file.ops else ""
