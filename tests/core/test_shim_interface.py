"""The shims of this repository import only the public interface for shims from the core."""

import ast
from pathlib import Path
from typing import Iterator, List

import pytest

ROOT = Path(__file__).parents[2]
INTERFACE = ("onnx_compat.shim", "onnx_compat.passes", "onnx_compat.primitives")
SOURCES = sorted([*ROOT.glob("shims/*/onnx_compat_*/**/*.py"), *ROOT.glob("examples/toy_shim/**/*.py")])


def imported_modules(source: str) -> Iterator[str]:
    """Yield the modules of the core that a source file imports, inside functions too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "onnx_compat":
            names = ["onnx_compat." + alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "onnx_compat")


def internal_modules(source: str) -> List[str]:
    """Return the modules of the core that a file imports and that are not part of the interface for shims."""
    return [
        name for name in imported_modules(source) if name not in INTERFACE and not name.startswith("onnx_compat.shim.")
    ]


def test_the_shims_and_the_example_are_checked() -> None:
    folders = {path.relative_to(ROOT).parts[1] for path in SOURCES}
    assert folders == {"keras", "tensorflow", "tf1", "tf2", "tflite", "toy_shim"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_shim_imports_the_interface_alone(path: Path) -> None:
    assert internal_modules(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("source", "internal"),
    [
        ("from onnx_compat.ir.rewriter import Replacement", ["onnx_compat.ir.rewriter"]),
        ("from onnx_compat.passes.report import count_rewrites", ["onnx_compat.passes.report"]),
        ("from onnx_compat import ops, primitives", ["onnx_compat.ops"]),
        ("def f():\n    import onnx_compat.tracing.trace", ["onnx_compat.tracing.trace"]),
        (
            "from onnx_compat.shim.geometry import window_from_attributes\nimport onnx_compat_tflite, onnx_compat.passes",
            [],
        ),
    ],
)
def test_an_import_of_an_internal_module_is_found(source: str, internal: List[str]) -> None:
    assert internal_modules(source) == internal
