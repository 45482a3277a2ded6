"""The interface between the walk over a program and an emitter: `at`, `has`, `apply`."""

from typing import Any, List, Mapping, Sequence

import numpy as np
import pytest

from onnx_compat import primitives as p
from onnx_compat.errors import UnsupportedError
from onnx_compat.execution.type_emitter import TypeEmitter
from onnx_compat.ir import Node
from onnx_compat.ir.dtypes import bool_, float32
from onnx_compat.reference import Reference
from onnx_compat.shim.emission import check_primitives, emission_errors, emit
from onnx_compat.shim.interface import Emitter, Port, Program
from onnx_compat.tracing.recording import record_program

X = np.arange(3, dtype=np.float32)


class _Watching(Reference):
    """An emitter that stores its node. It notes the node before and after each branch."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: List[str] = []

    def cond(self, *args: Any, bodies: Any, **params: Any) -> Any:
        def watch(body: Any) -> Any:
            def call(*handles: Any) -> Any:
                results = body(*handles)
                self.nodes.append(self.node.primitive)
                return results

            return call

        self.nodes.append(self.node.primitive)
        return super().cond(*args, bodies=[watch(body) for body in bodies], **params)


class _Table(Emitter):
    """An emitter without a method for each primitive: it looks up functions that get the node."""

    layout, filter_layout, concrete = Reference.layout, Reference.filter_layout, True
    functions: Mapping[str, Any] = {"neg": lambda node, x: -x, "exp": lambda node, x: np.exp(x)}

    def __init__(self, current: Any = None) -> None:
        self.current = current

    def at(self, node: Node) -> "_Table":
        return _Table(node)

    @property
    def node(self) -> Node:
        if self.current is None:
            raise AttributeError("no node")
        node: Node = self.current
        return node

    def has(self, primitive: str) -> bool:
        return primitive in self.functions

    def apply(self, primitive: str, args: Sequence[Any], params: Mapping[str, Any]) -> Any:
        assert self.node.primitive == primitive
        return self.functions[primitive](self.node, *args, **params)


def _branches() -> Program:
    ports = [Port("c", bool_, ()), Port("x", float32, (3,))]
    return record_program(
        lambda c, x: [p.neg(y) for y in p.cond(c, lambda: [p.exp(p.abs(x))], lambda: [p.abs(x)])], ports, Reference()
    )


@pytest.mark.parametrize("condition", [True, False])
def test_an_emitter_has_the_same_node_before_and_after_a_body(condition: bool) -> None:
    emitter = _Watching()
    (result,) = emit(_branches().region, emitter, [np.asarray(condition), X])
    np.testing.assert_allclose(result, -np.exp(X) if condition else -X, rtol=1e-6)
    assert emitter.nodes == ["cond", "cond"]


def test_an_emitter_may_look_up_functions() -> None:
    program = record_program(lambda x: [p.neg(p.exp(x))], [Port("x", float32, (3,))], Reference())
    check_primitives(program.region, _Table())
    (result,) = emit(program.region, _Table(), [X])
    np.testing.assert_allclose(result, -np.exp(X), rtol=1e-6)


def test_a_primitive_that_the_emitter_lacks_is_named() -> None:
    program = record_program(lambda x: [p.tanh(x)], [Port("x", float32, (3,))], Reference())
    with pytest.raises(UnsupportedError, match="does not offer the primitive 'tanh'"):
        check_primitives(program.region, _Table())
    with pytest.raises(UnsupportedError, match="does not offer the primitive 'tanh'"):
        emit(program.region, _Table(), [X])


def test_the_type_emitter_refuses_what_the_emitter_lacks() -> None:
    lacks = TypeEmitter(_Table())
    assert lacks.has("exp") and not lacks.has("tanh")
    program = record_program(lambda x: [p.tanh(x)], [Port("x", float32, (3,))], Reference())
    assert not emission_errors(program.region, TypeEmitter(Reference()))


def test_an_emitter_without_a_node_has_no_attribute() -> None:
    assert not hasattr(Reference(), "node")
