"""Passes change recorded programs and ONNX models by the rewriting interfaces alone."""

from pathlib import Path
from typing import Any, Set

import pytest

import onnx_compat.passes
import onnx_compat.simplify.rewrites
from matrix.harness.edits import find_edits
from onnx_compat.ir import Const, Extents, Node, Ref, Region
from onnx_compat.simplify.node import DraftNode

#: The fields of recorded programs. `handle` belongs to the emission.
PROGRAM: Set[str] = {
    *Ref.__slots__, *Const.__slots__, *Extents.__slots__, *Node.__slots__, *vars(Region([])),
}  # fmt: skip
#: The fields of a draft of an ONNX model, of its nodes, of what is known of it, and of the messages in it.
DRAFT: Set[str] = {
    *DraftNode.__slots__,
    *(
        "budget",
        "graph",
        "initializers",
        "inputs",
        "knowledge",
        "model",
        "names",
        "nodes",
        "outputs",
        "pinned",
        "sparse",
    ),
    *("failed", "stored", "tensors", "variable"),
    *(
        "attribute",
        "domain",
        "initializer",
        "input",
        "node",
        "op_type",
        "output",
        "quantization_annotation",
        "value_info",
    ),
}
#: Methods of a node that its draft does not notice.
EDITORS = {"find_captures", "rename_input", "rename_output", "set_attribute"}


def modules_of(package: Any) -> Any:
    return sorted(Path(package.__file__).parent.rglob("*.py"))


def test_no_program_pass_writes_fields_of_a_program() -> None:
    modules = [path for path in modules_of(onnx_compat.passes) if path.name != "rewriting.py"]
    assert "weight_folding.py" in {path.name for path in modules}
    assert [edit for path in modules for edit in find_edits(path, PROGRAM)] == []


def test_no_model_pass_writes_fields_of_a_draft() -> None:
    modules = modules_of(onnx_compat.simplify.rewrites)
    assert len(modules) > 15
    assert [edit for path in modules for edit in find_edits(path, DRAFT, EDITORS)] == []


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("node.args = ()", 1),
        ("node.args, x = (), 1", 1),
        ("node.outputs[0].spec = None", 1),
        ("node.params['a'] = 1", 1),
        ("del node.regions[0]", 1),
        ("region.nodes.append(node)", 1),
        ("ref.name += 'x'", 1),
        ("if True: [node.params.pop(k) for k in 'ab']", 1),
        ("node.set_attribute('perm', [0])", 1),
        ("draft.set_attribute(node, 'perm', [0])", 0),
        ("self.args = ()", 0),
        ("args = node.args", 0),
        ("names.append(ref.name)", 0),
        ("def _example(): node.args = ()", 0),
        ("def _fold(): node.args = ()", 1),
    ],
)
def test_the_check_of_edits_finds_them(tmp_path: Path, line: str, count: int) -> None:
    path = tmp_path / "bad.py"
    path.write_text(line)
    assert len(list(find_edits(path, PROGRAM, EDITORS))) == count
