"""`onnx-compat inspect`: what a model is, from its file alone."""

from typing import Any, Dict, List

import click

from . import options
from .output import emit, emit_json, table
from .progress import working

__all__ = ["inspect"]


@click.command()
@options.model
@options.machine
@click.pass_obj
def inspect(settings: options.Settings, model: str) -> None:
    """Show the opsets, inputs, outputs and operators of MODEL."""
    import onnx_compat

    with working("Reading %s" % model):
        document = _described(onnx_compat.load(model))
    if settings.json:
        emit_json(dict(document, ok=True))
        return
    opsets = ", ".join("%s %d" % item for item in document["opsets"].items())
    emit("%s: IR version %d, opset %s%s" % (
        document["graph"] or model, document["ir_version"], opsets,
        document["producer"] and ", made by " + document["producer"],
    ))  # fmt: skip
    table(("", "name", "type"), _values(document, "input") + _values(document, "output"))
    table(
        ("operator", ">opset", ">nodes"),
        [[entry["operator"], entry["opset"], entry["nodes"]] for entry in document["operators"]],
    )


def _values(document: Dict[str, Any], kind: str) -> List[List[str]]:
    return [[kind, value["name"], value["type"]] for value in document[kind + "s"]]


def _described(model: Any) -> Dict[str, Any]:
    operators = sorted(model.operators().items(), key=lambda item: (-item[1], item[0]))
    return {
        "graph": model.graph.name,
        "ir_version": model.ir_version,
        "producer": model.producer,
        "opsets": {domain or "ai.onnx": version for domain, version in sorted(model.opsets.items())},
        "inputs": [{"name": value.name, "type": str(value.type or "?")} for value in model.inputs],
        "outputs": [{"name": value.name, "type": str(value.type or "?")} for value in model.outputs],
        "operators": [
            {"operator": "%s::%s" % (domain, name) if domain else name, "opset": opset, "nodes": count}
            for (domain, name, opset), count in operators
        ],
    }
