"""`onnx-compat inspect`: describe a model and which installed shims can run it; or describe a converted file."""

from collections import Counter
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

import click

from onnx_compat.cli import options
from onnx_compat.cli.inspect_file import describe_as_document, is_converted, show_file
from onnx_compat.cli.output import Cell, emit, emit_json, table
from onnx_compat.cli.progress import working

if TYPE_CHECKING:
    from onnx_compat.model import Model, Type, ValueInfo

__all__ = ["inspect"]

_STYLES = {"yes": "green", "perhaps": "cyan", "in parts": "yellow", "no": "bold red"}


@click.command()
@options.model_or_file
@click.option("--no-shims", is_flag=True, help="Read the file only; do not check which shims can run it.")
@click.option("--program", is_flag=True, help="Print only the program that is recorded for a shim.")
@options.shim
@options.limits
@options.machine
@click.pass_obj
def inspect(settings: options.Settings, model: str, no_shims: bool, program: bool, shim: Optional[str]) -> None:
    """Show the opsets, inputs, outputs and operators of MODEL, and which shims can run it.

    yes: the shim runs every node. perhaps: for some nodes, only a run of the model can tell. in parts: some nodes run
    outside the framework. no: some nodes cannot run.

    MODEL may also be a converted file; its framework need not be installed. For a .tflite file, the command shows the
    signatures, operators, sizes, quantisation, the oldest runtime and the share of operators that the delegate runs.
    For a .keras file or a SavedModel, it shows the inputs, outputs, operators and versions.

    --program prints the program that is recorded for a shim. Each line is a primitive, with its shapes, its constants
    and the ONNX node that it comes from.
    """
    import onnx_compat

    if shim is not None and not program:
        raise click.UsageError("--shim selects the shim that a program is recorded for: add --program")
    if program:
        _show_program(model, shim, settings.json)
        return
    if is_converted(model):
        with working("Reading %s" % model):
            description = describe_as_document(model)
        show_file(description, settings.json)
        return

    with working("Reading %s" % model) as report_progress:
        loaded = onnx_compat.load(model)
        document = _model_document(loaded)
        if not no_shims:
            available = [info.name for info in onnx_compat.shims() if info.available]
            document["shims"] = [_count_support(loaded, name, report_progress) for name in available]
    if settings.json:
        emit_json(dict(document, ok=True))
        return
    opsets = ", ".join("%s %d" % item for item in document["opsets"].items())
    emit("%s: IR version %d, opset %s%s%s" % (
        document["graph"] or model, document["ir_version"], opsets,
        " (onnx %s and newer)" % document["onnx"] if document["onnx"] else "",
        document["producer"] and ", made by " + document["producer"],
    ))  # fmt: skip
    table(("", "name", "type", "open"), _value_rows(document, "input") + _value_rows(document, "output"))
    table(
        ("operator", ">opset", ">nodes"),
        [[entry["operator"], entry["opset"], entry["nodes"]] for entry in document["operators"]],
    )
    if not no_shims:
        table(
            ("shim", "takes it", "nodes"),
            [
                [row["shim"], Cell(row["takes"], _STYLES[row["takes"]]), _format_counts(row)]
                for row in document["shims"]
            ],
        )


def _show_program(model: str, shim: Optional[str], json: bool) -> None:
    """Print the program that is recorded for a shim, as text or as `json`. Raise a UsageError for a converted file.

    `shim`: None selects the shim that `prepare` would use. Raises the errors of `program_of` too.
    """
    from onnx_compat.execution.support import program_of

    if is_converted(model):
        raise click.UsageError("--program takes an ONNX model; '%s' is a converted file" % model)
    with working("Recording %s" % model):
        text = str(program_of(model, shim))
    if json:
        emit_json({"ok": True, "program": text})
    else:
        emit(text)


def _value_rows(document: Dict[str, Any], kind: str) -> List[List[str]]:
    """Return a table row [kind, name, type, open sizes] for each input or output. `kind`: "input" or "output".

    `document`: the result of `_model_document`.
    """
    return [[kind, value["name"], value["type"], ", ".join(value["open"])] for value in document[kind + "s"]]


def _format_counts(row: Dict[str, Any]) -> str:
    """Return a text for the result of `_count_support`: the number of nodes of each status, `3 fallback, 40 native`.

    If the entry has a reason, the shim raised an error: return the reason.
    """
    return row["reason"] or ", ".join("%d %s" % (count, status) for status, count in row["counts"].items())


def _count_support(model: "Model", shim: str, report_progress: Callable[[str], None]) -> Dict[str, Any]:
    """Return the entry of a shim in the JSON document: {"shim", "takes", "counts", "reason"}.

    "counts" maps a status to a number of nodes. A node that could not be examined has the status "not looked at".

    "takes" is the first that holds:

    - "no": a node is unsupported.
    - "in parts": a node is in the fallback.
    - "perhaps": a node is not looked at.
    - "yes".

    If `onnx_compat.support` raises an OnnxCompatError, "takes" is "no", "counts" is empty, and "reason" is the reason
    of the error. Otherwise "reason" is "". `report_progress` is called with a text.
    """
    import onnx_compat
    from onnx_compat.execution.support import UNSEEN

    report_progress("Examining the shim %s" % shim)
    try:
        nodes = onnx_compat.support(model, shim=shim)
    except onnx_compat.OnnxCompatError as error:
        return {"shim": shim, "takes": "no", "counts": {}, "reason": error.reason}
    counts = Counter("not looked at" if node.reason == UNSEEN else node.status for node in nodes)
    answers = (("unsupported", "no"), ("fallback", "in parts"), ("not looked at", "perhaps"))
    takes = next((answer for status, answer in answers if counts[status]), "yes")
    return {"shim": shim, "takes": takes, "counts": dict(sorted(counts.items())), "reason": ""}


def _model_document(model: "Model") -> Dict[str, Any]:
    """Return the facts that the file of a model holds, as a dict of JSON values.

    - "graph": the name of the graph
    - "ir_version", "producer"
    - "inputs", "outputs": a list of {"name", "type", "open"}; "open" is the result of `_open_sizes`
    - "opsets": domain -> version; the default domain is "ai.onnx"
    - "onnx": the first release of onnx that reads the model, or None
    - "operators": a list of {"operator", "opset", "nodes"}, the most frequent operator first
    """
    from onnx_compat.model.versions import reader_of

    reader = reader_of(model.opsets, model.ir_version)
    operators = sorted(model.operators().items(), key=lambda item: (-item[1], item[0]))
    return {
        "graph": model.graph.name,
        "ir_version": model.ir_version,
        "producer": model.producer,
        "onnx": reader and reader.onnx,
        "opsets": {domain or "ai.onnx": version for domain, version in sorted(model.opsets.items())},
        "inputs": [_value_document(value) for value in model.inputs],
        "outputs": [_value_document(value) for value in model.outputs],
        "operators": [
            {"operator": "%s::%s" % (domain, name) if domain else name, "opset": opset, "nodes": count}
            for (domain, name, opset), count in operators
        ],
    }


def _value_document(value: "ValueInfo") -> Dict[str, Any]:
    return {"name": value.name, "type": str(value.type or "?"), "open": _open_sizes(value.type)}


def _open_sizes(type_: "Optional[Type]") -> List[str]:
    """Return a text for each open size of a tensor type: the symbol, or "axis 2" for a size without a symbol.

    - A type with an open rank gives ["rank"].
    - None, or a type that is neither a dense nor a sparse tensor, gives [].
    """
    from onnx_compat.model import SparseTensorType, TensorType

    if not isinstance(type_, (TensorType, SparseTensorType)):
        return []
    if type_.shape is None:
        return ["rank"]
    return [str(size or "axis %d" % axis) for axis, size in enumerate(type_.shape) if not isinstance(size, int)]
