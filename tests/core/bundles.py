"""Helpers for bundles: a fake framework without `exp`, and a model with an Exp in the middle."""

import os
from pathlib import Path
from typing import Any, Dict

import numpy as np
from building import model, node, value
from limited import LimitedShim

import onnx_compat
from onnx_compat.errors import UnsupportedError

__all__ = ["Keeper", "X", "check_agreement", "exp_model"]

X = np.random.RandomState(0).rand(4, 3).astype(np.float32)


class Keeper(LimitedShim):
    """A fake framework without the primitive `exp`. Its files hold the number of a program that is kept in memory."""

    name = "keeper"
    formats = {"tflite": (".tflite", "kept program"), "saved_model": ("", "kept folder")}
    programs: Dict[bytes, Any] = {}
    refuses = ""

    def export(self, program: Any, path: str, file_format: str) -> None:
        for recorded_node in program.region.live():
            if recorded_node.origin is not None and recorded_node.origin.node == self.refuses:
                raise UnsupportedError("its kernel has had enough", node=self.refuses)
        self.compile(program)
        key = b"%d" % len(self.programs)
        self.programs[key] = program
        if file_format == "saved_model":
            os.makedirs(os.path.join(path, "inner"))
            path = os.path.join(path, "inner", "kept")
        Path(path).write_bytes(key)

    def load_converted(self, path: str, file_format: str) -> Any:
        program = self.programs[
            Path(path if file_format == "tflite" else os.path.join(path, "inner", "kept")).read_bytes()
        ]
        return self.compile(program), program.inputs, program.outputs


def exp_model() -> Any:
    """Return a model with an Exp in the middle. Nodes after it read a constant and a size that are computed before it."""
    nodes = [
        node("Neg", ["x"], ["a"], name="neg"),
        node("Constant", [], ["axes"], name="axes", value_ints=[1]),
        node("Shape", ["x"], ["size"], name="size"),
        node("Exp", ["a"], ["b"], name="exp"),
        node("Mul", ["b", "a"], ["c"], name="mul"),
        node("Reshape", ["c", "size"], ["d"], name="reshape"),
        node("ReduceSum", ["d", "axes"], ["y"], name="sum", keepdims=0),
    ]
    return model(nodes, [value("x", ["n", 3])], [value("y"), value("c")])


def check_agreement(proto: Any, path: Any, feed: Dict[str, Any]) -> Any:
    loaded = onnx_compat.load_converted(path)
    for actual, expected in zip(loaded.run(feed), onnx_compat.run(proto, feed, shim="reference")):
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
        assert actual.dtype == expected.dtype
    return loaded
