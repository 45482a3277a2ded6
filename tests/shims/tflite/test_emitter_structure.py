"""The structure of the emitter: parts are modules of functions, and the node is an argument.

- No class of a part inherits, except named tuples; so no part calls a method that another part defines.
- Every primitive and native is a function in a table.
- Nothing assigns the node of a builder after its creation.
"""

import ast
import importlib
from pathlib import Path
from typing import Iterator, List, Tuple

import onnx_compat_tflite.emitter
import pytest
from onnx_compat_tflite.emitter import TFLiteEmitter, parts, registry
from onnx_compat_tflite.kernels import Kernels

from onnx_compat.primitives import PRIMITIVES

SOURCES = sorted(Path(onnx_compat_tflite.emitter.__file__).parent.glob("*.py"))
TREES = [(path.stem, ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCES]

#: Primitives that TFLite has no kernel for, and no composition of kernels.
NOT_EMITTED = {
    "from_text", "image_decode", "string_concat", "string_lower", "string_match", "string_rank", "string_split",
    "string_upper", "to_text",
}  # fmt: skip
#: Primitives that only passes of this shim record.
OF_PASSES = {"conv_transpose_same", "elu", "gelu", "leaky_relu", "mish", "prelu", "softplus"}
#: Natives, by the name of their function.
NATIVES = {
    "average_pool_same", "conv_same", "lstm", "max_pool_same", "normalize_channels", "resize_image", "rnn",
    "suppress_boxes", "upsample_image",
}  # fmt: skip


def inherited_classes(tree: ast.AST) -> List[str]:
    """Return the classes that inherit from another class than NamedTuple."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return [node.name for node in classes if any(ast.dump(base) != _NAMED_TUPLE for base in node.bases)]


_NAMED_TUPLE = ast.dump(ast.parse("NamedTuple", mode="eval").body)


def node_assignments(tree: ast.AST) -> Iterator[Tuple[str, int]]:
    """Yield the function and line of each assignment to an attribute `node` or `_node`."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for part in ast.walk(function):
                stores = isinstance(part, ast.Attribute) and isinstance(part.ctx, (ast.Store, ast.Del))
                if stores and part.attr in ("node", "_node"):
                    yield function.name, part.lineno


@pytest.mark.parametrize(("name", "tree"), TREES, ids=[name for name, _ in TREES])
def test_no_part_inherits_from_another(name: str, tree: ast.AST) -> None:
    assert inherited_classes(tree) == (["TFLiteEmitter"] if name == "tflite_emitter" else [])


def test_the_emitter_inherits_from_the_interface_alone() -> None:
    assert [kind.__module__.split(".")[0] for kind in TFLiteEmitter.__mro__[1:]] == ["onnx_compat", "builtins"]


@pytest.mark.parametrize(("name", "tree"), TREES, ids=[name for name, _ in TREES])
def test_a_node_is_set_at_the_creation_of_a_builder_alone(name: str, tree: ast.AST) -> None:
    functions = [function for function, _ in node_assignments(tree)]
    assert functions == (["__init__"] if name == "builder" else [])


def test_the_checks_find_what_they_look_for() -> None:
    tree = ast.parse("class A(B):\n    def f(self, node):\n        self.node = node\n        del self._node")
    assert inherited_classes(tree) == ["A"]
    assert list(node_assignments(tree)) == [("f", 3), ("f", 4)]
    assert inherited_classes(ast.parse("class A(NamedTuple): pass\nclass B: pass")) == []


def test_every_primitive_is_in_the_table() -> None:
    assert set(registry.FUNCTIONS) == set(PRIMITIVES) - NOT_EMITTED | OF_PASSES | NATIVES
    emitter = TFLiteEmitter(Kernels())
    assert all(emitter.has(name) for name in registry.FUNCTIONS)
    assert not any(emitter.has(name) for name in NOT_EMITTED)
    assert {native.method for native in emitter.natives().values()} == NATIVES


def test_every_module_that_registers_a_function_is_a_part() -> None:
    modules = {function.__module__ for function in registry.FUNCTIONS.values()}
    assert modules <= {part.__name__ for part in parts.PARTS}
    names = ["onnx_compat_tflite.emitter." + path.stem for path in SOURCES]
    registering = [
        name for name in names if {"primitive", "native", "register"} & set(vars(importlib.import_module(name)))
    ]
    assert set(registering) - {registry.__name__} == {part.__name__ for part in parts.PARTS}


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match=r"'add' is emitted by onnx_compat_tflite.emitter.elementwise already"):
        registry.register("add", lambda builder, x, y: x)


def test_every_public_function_has_a_docstring() -> None:
    bare = [
        "%s.%s" % (name, node.name)
        for name, tree in TREES
        for node in getattr(tree, "body", [])
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and ast.get_docstring(node) is None
    ]
    assert bare == []
