"""Activations that models compose of simpler primitives are found in recorded programs, and only these."""

import math
from typing import Any, Callable

import numpy as np
import pytest

from onnx_compat import primitives as p
from onnx_compat.ir import Node
from onnx_compat.ir.dtypes import float32
from onnx_compat.reference import Reference
from onnx_compat.shim import activation_matches as matches
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program

Body = Callable[[Any, Any], Any]


def number(value: float) -> Any:
    return np.float32(value)


def last_node(body: Body) -> Node:
    """Return the last node of a program of the inputs x and y."""
    ports = [Port(name, float32, (2, 3)) for name in "xy"]
    program = record_program(lambda x, y: [body(x, y)], ports, Reference(), ["out"])
    for ref, port in zip(program.region.inputs, ports):
        ref.name = port.name
    node = program.region.outputs[0].node  # type: ignore[union-attr]  # an output is a Ref
    assert isinstance(node, Node)
    return node


def erf_gelu(x: Any, y: Any, scale: float = math.sqrt(0.5), half: float = 0.5) -> Any:
    return p.mul(p.mul(x, number(half)), p.add(p.erf(p.mul(y, number(scale))), number(1)))


def tanh_gelu(x: Any, y: Any, factor: float = 0.044715) -> Any:
    inner = p.add(y, p.mul(p.pow(y, number(3)), number(factor)))
    return p.mul(p.mul(x, p.add(number(1), p.tanh(p.mul(inner, number(math.sqrt(2 / math.pi)))))), number(0.5))


def elu(x: Any, y: Any, low: Any = 0) -> Any:
    return p.add(p.clip(x, low, None), p.sub(p.exp(p.clip(y, None, 0)), number(1)))


def softplus(x: Any, y: Any, shift: float = 2) -> Any:
    small = p.exp(p.minimum(y, p.neg(y)))
    return p.add(p.mul(p.atanh(p.div(small, p.add(small, number(shift)))), number(2)), p.clip(x, 0, None))


def hard_sigmoid(x: Any, slope: float = 1 / 6, high: float = 1) -> Any:
    return p.clip(p.add(p.mul(x, number(slope)), number(0.5)), 0, high)


def relu6(x: Any, low: float = 0, high: float = 6) -> Any:
    return p.clip(p.add(x, number(3)), low, high)


#: Name of the activation -> the function that finds it, and bodies that compute it of x alone.
FOUND = [
    ("gelu", matches.match_gelu, lambda x, y: erf_gelu(x, x)),
    ("gelu", matches.match_gelu, lambda x, y: p.div(p.mul(p.add(p.erf(p.div(x, number(2**0.5))), number(1)), x), number(2))),
    ("gelu", matches.match_gelu, lambda x, y: tanh_gelu(x, x)),
    ("elu", matches.match_elu, lambda x, y: elu(x, x)),
    ("elu", matches.match_elu, lambda x, y: p.add(p.add(p.exp(p.clip(x, None, 0)), number(-1)), p.clip(x, 0, None))),
    ("softplus", matches.match_softplus, lambda x, y: softplus(x, x)),
    ("mish", matches.match_mish, lambda x, y: p.mul(p.tanh(softplus(x, x)), x)),
    ("swish", matches.match_swish, lambda x, y: p.mul(p.sigmoid(x), x)),
    ("softsign", matches.match_softsign, lambda x, y: p.div(x, p.add(number(1), p.abs(x)))),
    ("hard_sigmoid", matches.match_hard_sigmoid, lambda x, y: hard_sigmoid(x)),
    ("hard_sigmoid", matches.match_hard_sigmoid, lambda x, y: p.div(relu6(x), number(6))),
    ("hard_swish", matches.match_hard_swish, lambda x, y: p.mul(hard_sigmoid(x), x)),
    ("hard_swish", matches.match_hard_swish, lambda x, y: p.mul(x, p.div(relu6(x), number(6)))),
]  # fmt: skip


@pytest.mark.parametrize(("activation", "find", "body"), FOUND)
def test_an_activation_is_found_with_its_argument(activation: str, find: Any, body: Body) -> None:
    node = last_node(body)
    name, (x,), parameters = find(node)
    assert name == activation
    assert x.node is None and x.name == "x"
    assert parameters in ({}, {"approximate": any(user.primitive == "tanh" for user in _producers(node))})


def _producers(node: Node) -> Any:
    """Yield a node and all nodes that it is computed from."""
    yield node
    for ref in node.uses():
        if ref.node is not None:
            yield from _producers(ref.node)


FINDERS = [getattr(matches, name) for name in matches.__all__ if name.startswith("match_")]


@pytest.mark.parametrize(
    "body",
    [
        erf_gelu,
        lambda x, y: erf_gelu(x, x, scale=0.7),
        lambda x, y: erf_gelu(x, x, half=0.4),
        lambda x, y: p.mul(p.mul(x, number(0.5)), p.add(p.sin(x), number(1))),
        tanh_gelu,
        lambda x, y: tanh_gelu(x, x, factor=0.04),
        lambda x, y: p.mul(p.mul(x, number(0.5)), p.add(p.tanh(p.mul(x, number(math.sqrt(2 / math.pi)))), number(1))),
        elu,
        lambda x, y: elu(x, x, low=-1),
        lambda x, y: p.add(x, p.exp(y)),
        softplus,
        lambda x, y: softplus(x, x, shift=3),
        lambda x, y: p.add(p.clip(x, 0, None), p.mul(p.atanh(p.div(x, y)), number(2))),
        lambda x, y: p.mul(p.tanh(softplus(x, x)), y),
        lambda x, y: p.mul(p.tanh(x), x),
        lambda x, y: p.mul(p.tanh(p.add(x, y)), x),
        lambda x, y: p.mul(p.sigmoid(x), y),
        lambda x, y: p.div(y, p.add(p.abs(x), number(1))),
        lambda x, y: p.div(x, p.add(p.abs(x), number(2))),
        lambda x, y: p.div(x, p.add(x, y)),
        lambda x, y: hard_sigmoid(x, slope=0.2),
        lambda x, y: hard_sigmoid(x, high=2),
        lambda x, y: p.clip(p.add(x, y), 0, 1),
        lambda x, y: p.div(relu6(x, low=-1), number(6)),
        lambda x, y: p.div(relu6(x), number(5)),
        lambda x, y: p.div(x, number(6)),
        lambda x, y: p.mul(hard_sigmoid(x), y),
        lambda x, y: p.mul(x, p.div(relu6(x, high=5), number(6))),
        lambda x, y: p.mul(x, p.pow(y, number(0.5))),
        lambda x, y: p.neg(x),
    ],
)
def test_other_nodes_are_no_activations(body: Body) -> None:
    node = last_node(body)
    assert [find.__name__ for find in FINDERS if find(node) is not None] == []


def test_a_product_is_expanded_to_its_numbers_and_values() -> None:
    node = last_node(lambda x, y: p.mul(p.div(p.mul(number(3), x), number(2)), p.pow(p.mul(y, number(2)), number(3))))
    product = matches.product_of(node.outputs[0])
    assert product.number == 12
    assert [value.name for value in product.values] == ["x", "y", "y", "y"]
    quotient = last_node(p.div).outputs[0]
    assert matches.product_of(quotient) == (1.0, [quotient])


def test_an_addend_may_be_subtracted() -> None:
    assert matches.addend_of(last_node(lambda x, y: p.sub(x, number(2))), -2).name == "x"
    assert matches.addend_of(last_node(lambda x, y: p.sub(x, number(2))), 2) is None
    assert matches.addend_of(last_node(lambda x, y: p.sub(number(2), x)), 2) is None
    assert matches.addend_of(last_node(lambda x, y: p.add(number(2), x)), 2).name == "x"
    assert matches.addend_of(last_node(lambda x, y: p.mul(x, number(2))), 2) is None
