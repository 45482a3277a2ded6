"""Text form of a case: JSON that a reader can edit. Chunks and stored test cases have it.

    {"seed": 7, "opset": 18,
     "inputs": ["x: float32[n, 3]"], "outputs": ["y: float32[n, 3]"],
     "initializers": {"w": {"float32[3]": [1, 2.5, -1]}},
     "nodes": [{"op": "Add", "inputs": ["x", "w"], "outputs": ["y"], "attributes": {}}],
     "runs": [{"feeds": {"x": {"float32[1, 3]": [0, 0, 0]}}, "expected": {"y": …}, "atol": {"y": 0.0001}}]}

An attribute that is a tensor or a graph is an object; a tensor as above, a graph under the key "graph".
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from matrix.fuzz.graphs import Case, Graph, Node, Port, Run, Size

__all__ = ["dump_case", "parse_case", "pretty"]

_PORT = re.compile(r"(\S+): (?:(sequence|optional) )?(\w+)(?:\[(.*)\])?$")
_TENSOR = re.compile(r"(\w+)\[(.*)\]$")
_STRING = "string"
_GRAPH = "graph"
_LONGEST_LINE = 120


def dump_case(case: Case) -> Dict[str, Any]:
    """Return a case as a JSON object, in the form that the module's docstring shows."""
    runs = [
        {
            "feeds": {name: _dump_value(value) for name, value in run.feeds.items()},
            "expected": {name: _dump_value(value) for name, value in run.expected.items()},
            "atol": run.atol,
        }
        for run in case.runs
    ]
    return {"seed": case.seed, "opset": case.opset, **_dump_graph(case.graph), "runs": runs}


def parse_case(document: Dict[str, Any]) -> Case:
    """Return the case that a JSON object of `dump_case` describes."""
    runs = [
        Run(
            {name: _parse_value(value) for name, value in run["feeds"].items()},
            {name: _parse_value(value) for name, value in run["expected"].items()},
            run["atol"],
        )
        for run in document["runs"]
    ]
    return Case(document["seed"], document["opset"], _parse_graph(document), tuple(runs))


def pretty(document: Any, indent: str = "") -> str:
    """Return a JSON document as text with line breaks. `indent`: the blanks before all lines but the first.

    A list of scalars has one line, and so has every object or list that fits in a line of 120 characters.
    """
    line = json.dumps(document, ensure_ascii=False)
    if len(indent) + len(line) <= _LONGEST_LINE or not isinstance(document, (dict, list)) or not document:
        return line
    deeper = indent + "  "
    if isinstance(document, list):
        if not any(isinstance(item, (dict, list)) for item in document):
            return line
        return "[\n%s\n%s]" % (",\n".join(deeper + pretty(item, deeper) for item in document), indent)
    items = ["%s%s: %s" % (deeper, json.dumps(key), pretty(item, deeper)) for key, item in document.items()]
    return "{\n%s\n%s}" % (",\n".join(items), indent)


def _dump_graph(graph: Graph) -> Dict[str, Any]:
    return {
        "inputs": [_dump_port(port) for port in graph.inputs],
        "outputs": [_dump_port(port) for port in graph.outputs],
        "initializers": {name: _dump_value(array) for name, array in graph.initializers.items()},
        "nodes": [_dump_node(node) for node in graph.nodes],
    }


def _parse_graph(document: Dict[str, Any]) -> Graph:
    return Graph(
        tuple(_parse_port(text) for text in document["inputs"]),
        tuple(_parse_port(text) for text in document["outputs"]),
        tuple(_parse_node(node) for node in document["nodes"]),
        {name: _parse_value(value) for name, value in document["initializers"].items()},
    )


def _dump_node(node: Node) -> Dict[str, Any]:
    attributes = {name: _dump_attribute(value) for name, value in node.attributes.items()}
    document = {"op": node.operator, "inputs": list(node.inputs), "outputs": list(node.outputs)}
    domain = {"domain": node.domain} if node.domain else {}
    return {**document, **domain, "attributes": attributes}


def _parse_node(document: Dict[str, Any]) -> Node:
    attributes = {name: _parse_attribute(value) for name, value in document["attributes"].items()}
    names = tuple(document["inputs"]), tuple(document["outputs"])
    return Node(document["op"], names[0], names[1], attributes, document.get("domain", ""))


def _dump_attribute(value: Any) -> Any:
    if isinstance(value, Graph):
        return {_GRAPH: _dump_graph(value)}
    return _dump_value(value) if isinstance(value, np.ndarray) else value


def _parse_attribute(value: Any) -> Any:
    if isinstance(value, dict):
        return _parse_graph(value[_GRAPH]) if _GRAPH in value else _parse_value(value)
    return value


def _dump_port(port: Port) -> str:
    container = port.container + " " if port.container else ""
    shape = "" if port.shape is None else "[%s]" % ", ".join(map(str, port.shape))
    return "%s: %s%s%s" % (port.name, container, _dtype_text(port.dtype), shape)


def _parse_port(text: str) -> Port:
    match = _PORT.match(text)
    assert match is not None, text
    name, container, dtype, shape = match.groups()
    sizes: Optional[Tuple[Size, ...]] = None
    if shape is not None:
        sizes = tuple(int(size) if size.isdigit() else size for size in _split(shape))
    return Port(name, "object" if dtype == _STRING else dtype, sizes, container or "")


def _dump_value(value: Any) -> Any:
    """Return a value as JSON: a tensor as {"float32[3]": elements}, a sequence as a list, an empty optional as None."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [_dump_value(item) for item in value]
    elements: List[Any] = value.reshape(-1).tolist()
    if value.dtype == np.float32:  # the shortest text that is the same number
        elements = [float(str(number)) for number in value.reshape(-1)]
    if value.dtype.kind == "f":
        elements = [int(number) if number == int(number) and abs(number) < 1e6 else number for number in elements]
    return {"%s[%s]" % (_dtype_text(value.dtype.name), ", ".join(map(str, value.shape))): elements}


def _parse_value(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_parse_value(item) for item in value]
    ((type_text, elements),) = value.items()
    match = _TENSOR.match(type_text)
    assert match is not None, type_text
    dtype = object if match.group(1) == _STRING else match.group(1)
    array = np.empty(len(elements), dtype)
    array[:] = elements
    return array.reshape([int(size) for size in _split(match.group(2))])


def _dtype_text(dtype: str) -> str:
    """Return the name of a numpy dtype as documents have it: `string` in place of `object`."""
    return _STRING if dtype == "object" else dtype


def _split(text: str) -> List[str]:
    """Return the sizes in the text of a shape, which commas separate; [] for an empty text."""
    return [part.strip() for part in text.split(",")] if text.strip() else []
