"""`onnx-compat inspect`: what a model is, and which of the shims here take it; or what a converted file is."""

from collections import Counter
from typing import Any, Callable, Dict, List, Optional

import click

from onnx_compat.cli import options
from onnx_compat.cli.inspect_file import document as file_document
from onnx_compat.cli.inspect_file import is_converted, show_file
from onnx_compat.cli.output import Cell, emit, emit_json, table
from onnx_compat.cli.progress import working

__all__ = ["inspect"]

_STYLES = {"yes": "green", "perhaps": "cyan", "in parts": "yellow", "no": "bold red"}


@click.command()
@options.model
@click.option("--no-shims", is_flag=True, help="Ask no shim: what the file says, at once.")
@click.option("--program", is_flag=True, help="Print the program that is recorded for a shim, and nothing else.")
@options.shim
@options.machine
@click.pass_obj
def inspect(settings: options.Settings, model: str, no_shims: bool, program: bool, shim: Optional[str]) -> None:
    """Show the opsets, inputs, outputs and operators of MODEL, and which shims can run it.

    yes: every node. perhaps: some nodes are decided when the model runs. in parts: some nodes run outside the framework.
    no: some nodes cannot be run here.

    MODEL may also be a converted file. A .tflite file shows its signatures, operators, sizes, quantisation, lowest runtime and
    the share of the delegate. A .keras file or a SavedModel shows its inputs, outputs, operators and versions. Their framework
    is not needed.

    --program prints the program that is recorded for a shim: a line for each primitive, with shapes, constants and the
    ONNX node that it comes from.
    """
    import onnx_compat

    if shim is not None and not program:
        raise click.UsageError("--shim says for which shim the program is recorded: it needs --program")
    if program:
        _show_program(model, shim, settings.json)
        return
    if is_converted(model):
        with working("Reading %s" % model):
            told = file_document(model)
        show_file(told, settings.json)
        return

    with working("Reading %s" % model) as say:
        loaded = onnx_compat.load(model)
        document = _described(loaded)
        if not no_shims:
            document["shims"] = [_taken(loaded, one.name, say) for one in onnx_compat.shims() if one.available]
    if settings.json:
        emit_json(dict(document, ok=True))
        return
    opsets = ", ".join("%s %d" % item for item in document["opsets"].items())
    emit("%s: IR version %d, opset %s%s%s" % (
        document["graph"] or model, document["ir_version"], opsets,
        " (onnx %s and newer)" % document["onnx"] if document["onnx"] else "",
        document["producer"] and ", made by " + document["producer"],
    ))  # fmt: skip
    table(("", "name", "type", "open"), _values(document, "input") + _values(document, "output"))
    table(
        ("operator", ">opset", ">nodes"),
        [[entry["operator"], entry["opset"], entry["nodes"]] for entry in document["operators"]],
    )
    if not no_shims:
        table(
            ("shim", "takes it", "nodes"),
            [[one["shim"], Cell(one["takes"], _STYLES[one["takes"]]), _nodes(one)] for one in document["shims"]],
        )


def _show_program(model: str, shim: Optional[str], json: bool) -> None:
    from onnx_compat.execution.support import program_of

    if is_converted(model):
        raise click.UsageError("--program takes an ONNX model; '%s' is a converted file" % model)
    with working("Recording %s" % model):
        text = str(program_of(model, shim))
    if json:
        emit_json({"ok": True, "program": text})
    else:
        emit(text)


def _values(document: Dict[str, Any], kind: str) -> List[List[str]]:
    return [[kind, value["name"], value["type"], ", ".join(value["open"])] for value in document[kind + "s"]]


def _nodes(taken: Dict[str, Any]) -> str:
    return taken["reason"] or ", ".join("%d %s" % (count, status) for status, count in taken["counts"].items())


def _taken(model: Any, shim: str, say: Callable[[str], None]) -> Dict[str, Any]:
    """How many nodes the shim does in which way; `onnx-compat support` has them one by one."""
    import onnx_compat
    from onnx_compat.execution.support import UNSEEN

    say("Asking the shim %s" % shim)
    try:
        nodes = onnx_compat.support(model, shim=shim)
    except onnx_compat.OnnxCompatError as error:
        return {"shim": shim, "takes": "no", "counts": {}, "reason": error.reason}
    counts = Counter("not looked at" if node.reason == UNSEEN else node.status for node in nodes)
    answers = (("unsupported", "no"), ("fallback", "in parts"), ("not looked at", "perhaps"))
    takes = next((answer for status, answer in answers if counts[status]), "yes")
    return {"shim": shim, "takes": takes, "counts": dict(sorted(counts.items())), "reason": ""}


def _described(model: Any) -> Dict[str, Any]:
    from onnx_compat.model.versions import reader_of

    reader = reader_of(model.opsets, model.ir_version)
    operators = sorted(model.operators().items(), key=lambda item: (-item[1], item[0]))
    return {
        "graph": model.graph.name,
        "ir_version": model.ir_version,
        "producer": model.producer,
        "onnx": reader and reader.onnx,
        "opsets": {domain or "ai.onnx": version for domain, version in sorted(model.opsets.items())},
        "inputs": [_value(value) for value in model.inputs],
        "outputs": [_value(value) for value in model.outputs],
        "operators": [
            {"operator": "%s::%s" % (domain, name) if domain else name, "opset": opset, "nodes": count}
            for (domain, name, opset), count in operators
        ],
    }


def _value(value: Any) -> Dict[str, Any]:
    return {"name": value.name, "type": str(value.type or "?"), "open": _open(value.type)}


def _open(type_: Any) -> List[str]:
    """What the model leaves open about a tensor: the sizes of its axes, by name or else by number, or even how many."""
    if not hasattr(type_, "shape"):
        return []
    if type_.shape is None:
        return ["rank"]
    return [str(size or "axis %d" % axis) for axis, size in enumerate(type_.shape) if not isinstance(size, int)]
