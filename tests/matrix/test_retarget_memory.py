"""The process of a conversion to .onnx needs at most 1.3 times the size of its model, wherever the weights are."""

import sys
from typing import Any, Dict

import pytest

from matrix.retarget.memory import measure

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the figures are those of /proc")
AIM = 1.3


@pytest.mark.parametrize(
    ("kind", "storage", "options"),
    [
        ("path", "initializer", {}),
        ("path", "initializer", {"verify": False}),
        ("path", "initializer", {"simplify": True}),
        ("path", "initializer", {"external_data": "target.data"}),
        ("path", "constant", {}),
        ("path", "external", {"simplify": True}),
        ("bytes", "initializer", {}),
        ("proto", "constant", {}),
    ],
)
def test_a_conversion_needs_little_memory(kind: str, storage: str, options: Dict[str, Any]) -> None:
    figures = measure(kind, storage, 100, opset=13, **options)
    assert figures["own"] <= AIM, figures
    assert (figures["child"] > 0.5) == options.get("verify", True), "onnxruntime runs a large model in a child process"
