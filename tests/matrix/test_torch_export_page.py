"""The export from PyTorch in docs/howto/old-runtime.md: it parses, and calls the exporter as the exports of the zoo do."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "pages"))

import pages as documentation

ROOT = documentation.ROOT
PAGE = ROOT / "docs" / "howto" / "old-runtime.md"
#: The parameters of torch.onnx.export that take a position, in this order.
POSITIONAL = ("model", "args", "f")


def blocks() -> list[documentation.Block]:
    return documentation.blocks(PAGE)


def export() -> ast.Call:
    (block,) = [block for block in blocks() if block.reason == "needs PyTorch and onnxscript"]
    (call,) = calls(ast.parse(block.text))
    return call


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls of torch.onnx.export."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.onnx.export":
            yield node


def zoo_arguments() -> set[str]:
    """Return the arguments that the exports of the zoo give: keywords, and keys of their options."""
    tree = ast.parse((ROOT / "matrix" / "zoo" / "export.py").read_text(encoding="utf-8"))
    (call,) = calls(tree)
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    keywords = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg}
    assert {keyword.arg for keyword in call.keywords} >= {"f", "input_names"}
    return strings | keywords


def test_the_exporter_is_called_as_in_the_zoo() -> None:
    call = export()
    assert len(call.args) == len(POSITIONAL)
    given = {keyword.arg for keyword in call.keywords}
    assert given <= zoo_arguments()
    assert given >= {"dynamo", "opset_version"}


def test_the_file_and_the_opset_are_those_of_the_commands() -> None:
    call = export()
    path = ast.literal_eval(call.args[POSITIONAL.index("f")])
    opset = next(ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg == "opset_version")
    commands = "".join(block.text for block in blocks() if block.language == "console")
    assert "onnx-compat convert digits.onnx %s --opset %d\n" % (path, opset) in commands
    assert "onnx-compat convert %s old.onnx" % path in commands
