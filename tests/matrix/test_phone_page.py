"""The Kotlin and Swift code of docs/howto/pytorch-to-phone.md: it parses, it uses published names, and it fits the file.

What it may call is listed with its source. The classes of TensorFlow Lite are in tensorflow/tensorflow:
tensorflow/lite/java/src/main/java/org/tensorflow/lite/Interpreter.java (commit 6b1457f11d28486051cd7876700837fe4eee238c), and
Interpreter.swift (18be7438e0b3a1fd4012e46a8c60d22a172b27a8) and Tensor.swift in tensorflow/lite/swift/Sources.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tree_sitter
import tree_sitter_kotlin
import tree_sitter_swift

sys.path.insert(0, str(Path(__file__).parents[1] / "pages"))

import pages as documentation

PAGE = documentation.ROOT / "docs" / "howto" / "pytorch-to-phone.md"
GRAMMARS = {"kotlin": tree_sitter_kotlin, "swift": tree_sitter_swift}
KOTLIN = {
    # org.tensorflow.lite.Interpreter: Interpreter(ByteBuffer), runSignature(Map inputs, Map outputs, String signatureKey)
    *("Interpreter", "runSignature"),
    # AssetManager of a Context of android.content, and AssetFileDescriptor
    *("assets", "openFd", "fileDescriptor", "startOffset", "declaredLength"),
    # FileInputStream of java.io, and FileChannel of java.nio.channels
    *("FileInputStream", "channel", "map", "MapMode", "READ_ONLY"),
    # kotlin, kotlin.collections
    *("Array", "FloatArray", "mapOf"),
}
SWIFT = {
    # Interpreter.swift: init(modelPath:), allocateTensors(), copy(_:toInputAt:), invoke(), output(at:); Tensor.swift: data
    *("Interpreter", "modelPath", "allocateTensors", "copy", "toInputAt", "invoke", "output", "at", "data"),
    # Foundation: Bundle.main.path(forResource:ofType:), Data(buffer:)
    *("main", "path", "forResource", "ofType", "Data", "buffer"),
    # Swift: Array(repeating:count:), withUnsafeBufferPointer, withUnsafeBytes, UnsafeRawBufferPointer.bindMemory(to:), Float.self
    *("Array", "repeating", "count", "withUnsafeBufferPointer", "withUnsafeBytes", "bindMemory", "to", "self"),
}


def code(language: str) -> str:
    (block,) = [block for block in documentation.blocks(PAGE) if block.language == language]
    return block.text


def parse(language: str, text: str) -> tree_sitter.Node:
    grammar = tree_sitter.Language(GRAMMARS[language].language())
    return tree_sitter.Parser(grammar).parse(text.encode()).root_node


def names(node: tree_sitter.Node) -> Iterator[str]:
    """Yield the names that are called, the members that are read, and the labels of arguments."""
    first = node.children[0] if node.children else None
    if node.type == "call_expression" and first is not None and first.type in ("identifier", "simple_identifier"):
        yield text_of(first)
    if node.type in ("navigation_suffix", "value_argument_label"):  # Swift
        yield text_of(node).lstrip(".")
    if node.type == "navigation_expression" and node.children[-1].type == "identifier":  # Kotlin
        yield text_of(node.children[-1])
    for child in node.children:
        yield from names(child)


def text_of(node: tree_sitter.Node) -> str:
    return (node.text or b"").decode()


@pytest.mark.parametrize(("language", "known"), [("kotlin", KOTLIN), ("swift", SWIFT)])
def test_the_code_parses_and_uses_published_names(language: str, known: set[str]) -> None:
    tree = parse(language, code(language))
    assert not tree.has_error
    assert set(names(tree)) == known


def test_wrong_code_is_found() -> None:
    for language in GRAMMARS:
        assert parse(language, code(language) + "(").has_error
    wrong = code("kotlin").replace("runSignature", "runSignatures")
    assert set(names(parse("kotlin", wrong))) - KOTLIN == {"runSignatures"}
    wrong = code("swift").replace("toInputAt:", "toInput:").replace("invoke", "run")
    assert set(names(parse("swift", wrong))) - SWIFT == {"toInput", "run"}


def test_the_code_fits_the_file_of_the_page() -> None:
    """A block of the page prints the signature of the file; a cell of tflite compares this output."""
    (signature,) = [block.text for block in documentation.blocks(PAGE) if "$ onnx-compat inspect" in block.text]
    ports = dict(re.findall(r"^serving_default +(?:in|out)put +(\w+) +float32 +(\[[\d, ]+\])", signature, re.MULTILINE))
    assert ports == {"image": "[1, 28, 28, 1]", "scores": "[1, 10]"}
    kotlin = code("kotlin")
    assert 'mapOf("image" to image), mapOf("scores" to scores), "serving_default"' in kotlin
    assert re.findall(r"(?:Float)?Array\((\d+)\)", kotlin) == ["1", "28", "28", "1", "1", "10"]
    assert re.search(r"repeating: 0, count: 28 \* 28\)", code("swift")), "as many floats as the input has"
