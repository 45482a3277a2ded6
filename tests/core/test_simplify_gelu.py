"""The pass `input_scales` and a Gelu of several nodes: onnxruntime fuses it only with its last factor."""

from typing import Any, Tuple

import numpy as np
import pytest
from simplifying import outputs_of, run_pass

from onnx_compat.simplify.rewrites.examples import example
from onnx_compat.simplify.rewrites.input_scales import input_scales

ROOT = 2**0.5
#: The nodes of a Gelu of `x`, with the constants `r`, `one` and `h`. Its result is `g`.
GELU = (("Div", "x r", "d"), ("Erf", "d", "e"), ("Add", "e one", "a"), ("Mul", "x a", "m"), ("Mul", "m h", "g"))


def network(*gelu: Tuple[str, str, str], count: int = 1, other_nodes: int = 60, **constants: float) -> Any:
    """Return a network in which `count` Gelus precede convolutions. `other_nodes`: the number of further nodes."""
    nodes = []
    source = "x"
    for number in range(count):
        names = {name: "%s%d" % (name, number) for name in "deamg"}
        names["x"] = source
        for operator, inputs, output in gelu:
            nodes.append((operator, " ".join(names.get(name, name) for name in inputs.split()), names[output]))
        source = "c%d" % number
        nodes.append(("Conv", "%s w" % names["g"], source))
    for number in range(other_nodes):
        nodes.append((("Sigmoid", "Tanh")[number % 2], source, "o%d" % number))
        source = "o%d" % number
    nodes.append(("Neg", source, "y"))
    used = {"r": ROOT, "one": 1.0, "h": 0.5, **constants}
    return example(*nodes, shape=("N", 2, 3), w=np.arange(4.0).reshape(2, 2, 1), **used)


def replace(position: int, *node: str) -> Any:
    return (*GELU[:position], node, *GELU[position + 1 :])


@pytest.mark.parametrize(
    "gelu", [GELU, replace(2, "Add", "one e", "a"), replace(3, "Mul", "a x", "m"), replace(4, "Mul", "h m", "g")]
)
def test_the_last_factor_of_a_gelu_stays(gelu: Any) -> None:
    assert run_pass(input_scales, network(*gelu))[1] == 0


@pytest.mark.parametrize(
    ("gelu", "constants"),
    [
        (replace(0, "Mul", "x r", "d"), {"r": 1 / ROOT}),
        (replace(4, "Div", "m h", "g"), {"h": 2.0}),
        (replace(1, "Tanh", "d", "e"), {}),
        (replace(2, "Sub", "e one", "a"), {}),
        (replace(3, "Mul", "d a", "m"), {}),
        (GELU, {"h": 0.75}),
        (GELU, {"one": 2.0}),
        (GELU, {"r": 2.0}),
    ],
)
def test_the_factor_of_another_function_is_folded(gelu: Any, constants: Any) -> None:
    model = network(*gelu, **constants)
    simplified, rewrites = run_pass(input_scales, model)
    assert rewrites == 1
    for got, wanted in zip(outputs_of(simplified), outputs_of(model)):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.parametrize(("count", "other_nodes", "kept"), [(1, 20, 0), (2, 40, 1), (3, 100, 2), (5, 20, 0)])
def test_only_a_small_share_of_the_nodes_stays(count: int, other_nodes: int, kept: int) -> None:
    model = network(*GELU, count=count, other_nodes=other_nodes)
    simplified, rewrites = run_pass(input_scales, model)
    assert rewrites == count - kept
    scales = [node.output[0] for node in simplified.graph.node if node.input[-1] == "h"]
    assert scales == ["g%d" % number for number in range(kept)]
    assert len(simplified.graph.node) <= 1.02 * (len(model.graph.node) - count)
