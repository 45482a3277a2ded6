"""Custom operators on the shim under test: a meaning works on every shim, a kernel only on the shim that it is given to."""

from typing import Any, Iterator

import numpy as np
import pytest
from onnx import TensorProto, helper

import onnx_compat
from onnx_compat import primitives as p
from onnx_compat.discovery.selection import find
from onnx_compat.ops import OPERATORS
from onnx_compat.shim import native

X = np.array([[1.0, -2.0, 3.0], [0.0, 5.0, -6.0]], np.float32)


@pytest.fixture(autouse=True)
def _meaning() -> Iterator[None]:
    @onnx_compat.op("Fold", since=1, domain="my.domain")
    def fold(x: Any, *, by: float = 2.0) -> Any:
        return p.where(p.less(x, 0.0), x * by, p.reduce_max(x, [-1], keepdims=True))

    yield
    OPERATORS.pop(("my.domain", "Fold"))


def model() -> Any:
    """Return a model with the operator Fold after an operator of ONNX. One size is symbolic."""
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Fold", ["a"], ["y"], domain="my.domain", by=4.0)]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy"]
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("my.domain", 1)]
    return helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:]), opset_imports=opsets, ir_version=8)


def test_a_meaning_serves_every_shim(shim_name: str) -> None:
    runnable = onnx_compat.prepare(model(), shim=shim_name, fallback=False)
    for x in (X, X[:1]):
        wanted = np.where(-x < 0, -x * 4, (-x).max(-1, keepdims=True))
        np.testing.assert_array_equal(runnable.run([x])[0], wanted)


def test_a_users_kernel_serves_one_shim(shim_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    declare = native("Fold", domain="my.domain")
    if shim_name == "tflite":  # its primitives and natives are functions in a table
        from onnx_compat_tflite.emitter import elementwise, registry

        def fast_fold(builder: Any, x: Any, by: float = 2.0) -> Any:
            return elementwise.abs(builder, x)  # differs from the result of the meaning

        monkeypatch.setitem(registry.FUNCTIONS, "fast_fold", declare(fast_fold))
    else:

        def fast_method(self: Any, x: Any, by: float = 2.0) -> Any:
            return self.abs(x)

        monkeypatch.setattr(type(find(shim_name).emitter()), "fast_fold", declare(fast_method), raising=False)
    statuses = {row.operator: row.status for row in onnx_compat.support(model(), shim=shim_name)}
    assert statuses["Fold"] == "native"
    np.testing.assert_array_equal(onnx_compat.prepare(model(), shim=shim_name).run([X])[0], abs(X))
    composed = onnx_compat.prepare(model(), shim=shim_name, natives=False).run([X])[0]
    np.testing.assert_array_equal(composed, np.where(-X < 0, -X * 4, (-X).max(-1, keepdims=True)))
