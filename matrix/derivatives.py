"""docs/reference/derivatives.md, rendered from the derivative rules."""

from __future__ import annotations

import ast
from pathlib import Path

from onnx_compat.autodiff import elementwise
from onnx_compat.autodiff.reasons import REASONS
from onnx_compat.autodiff.rules import RULES
from onnx_compat.primitives import PRIMITIVES

__all__ = ["PAGE", "page"]

PAGE = "docs/reference/derivatives.md"
_PREFIX = "Differentiate "

_HEAD = """\
# Derivatives

The operator `Gradient` of `ai.onnx.preview.training` is differentiated in reverse mode, by a rule for each primitive.
This page is rendered from the rules by `python -m matrix render`.

- A derivative consists of primitives. So it runs on every shim, and has a derivative again: of second order.
- TensorFlow, PyTorch and JAX differentiate by their own means. The rules take over for an operation that these cannot
  differentiate.
- Where several elements are the maximum, they share the derivative equally. At any other kink it is the derivative of
  one side, or 0.
- `python -m matrix.derivative_survey SHIM` compares the derivatives of the recorded cases with finite differences.

## A derivative that does not exist

The error names the node, the primitive and the reason:

```python
import numpy as np
from onnx import TensorProto, helper

import onnx_compat

nodes = [
    helper.make_node("BitCast", ["x"], ["bits"], to=TensorProto.INT32, name="bits of x"),
    helper.make_node("BitCast", ["bits"], ["y"], to=TensorProto.FLOAT, name="number"),
    helper.make_node("Gradient", ["x"], ["dx"], domain="ai.onnx.preview.training", xs=["x"], y="y"),
]
x, dx = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "dx"))
opsets = [helper.make_opsetid("", 26), helper.make_opsetid("ai.onnx.preview.training", 1)]
model = helper.make_model(helper.make_graph(nodes, "g", [x], [dx]), opset_imports=opsets, ir_version=10)
try:
    onnx_compat.run(model, [np.ones(2, np.float32)], shim="reference")
except onnx_compat.UnsupportedError as error:
    print(error)
    assert "number" in str(error) and "bitcast" in str(error)
else:
    raise AssertionError
```

Freeze the tensor: name it in `zs` of the Gradient, not in `xs`. Or replace the operator.

## Choices

`autodiff.choose` sets choices for a block of Python code. Prepare and run the model inside of the block.

| choice | default | with it |
|---|---|---|
| `straight_through=True` | rounding and casts to integers have the derivative 0 | they pass the derivative on: QuantizeLinear and DequantizeLinear have the derivative of a clip |
| `kept_states=N` | the derivative of a loop keeps the state before each iteration | it keeps at most `N` states at a time, and computes the others again |

```python
from onnx_compat import autodiff

nodes = [
    helper.make_node("Round", ["x"], ["y"]),
    helper.make_node("Gradient", ["x"], ["dx"], domain="ai.onnx.preview.training", xs=["x"], y="y"),
]
model = helper.make_model(helper.make_graph(nodes, "g", [x], [dx]), opset_imports=opsets, ir_version=10)
feed = [np.array([0.2, 1.7], np.float32)]
assert onnx_compat.run(model, feed, shim="reference")["dx"].tolist() == [0, 0]
with autodiff.choose(straight_through=True):
    assert onnx_compat.run(model, feed, shim="reference")["dx"].tolist() == [1, 1]
```

## Rules

`x` and `y` are the operands, `g` is the derivative by the result. In the rule of a primitive of two operands, `z` is
the result; the rule has a derivative for each operand. In the rule of one operand, `y` is the result.
"""


def page() -> str:
    """Return the text of docs/reference/derivatives.md."""
    lines = [_HEAD, "| primitive | derivative |", "|---|---|"]
    formulas = _formulas()
    for name in sorted(PRIMITIVES):
        text = formulas[name] if name in formulas else _description(name)
        lines.append("| `%s` | %s |" % (name, text))
    return "\n".join(lines) + "\n"


def _description(name: str) -> str:
    """Return the derivative of a primitive in words: of its rule, or the reason why it has none."""
    if name in REASONS:
        return "none: " + REASONS[name]
    text = " ".join((RULES[name].__doc__ or "").split("\n\n")[0].split())
    sentence = text.partition(". ")[0].rstrip(".")
    return sentence.partition(": ")[2].replace("|", "\\|")


def _formulas() -> dict[str, str]:
    """Return primitive -> formula, for the tables of elementwise rules: as their functions have it."""
    tree = ast.parse(Path(elementwise.__file__).read_text(encoding="utf-8"))
    formulas = {}
    for statement in tree.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.value, ast.Dict):
            for key, value in zip(statement.value.keys, statement.value.values):
                assert isinstance(key, ast.Constant) and isinstance(value, ast.Lambda)
                formulas[str(key.value)] = _formula(value)
    return formulas


def _formula(function: ast.Lambda) -> str:
    """Return the body of a rule as text: of one operand as `g * (slope)`, of two as a list of two derivatives."""
    body = function.body
    if isinstance(body, ast.List):
        return " and ".join("`%s`" % _unparse(item) for item in body.elts)
    return "`g * (%s)`" % _unparse(body)


def _unparse(node: ast.expr) -> str:
    return ast.unparse(node).replace("p.", "")
