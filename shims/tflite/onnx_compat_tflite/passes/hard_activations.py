"""MINIMUM(MAXIMUM(x, -1), 1) => RELU_N1_TO_1(x): replace clamps, hard sigmoids and hard swishes by their kernels.

    MINIMUM(MAXIMUM(x, -1), 1)              =>  RELU_N1_TO_1(x)
    MINIMUM(MAXIMUM(x / 6 + 1/2, 0), 1)     =>  RELU6(x + 3) / 6
    x * (RELU6(x + 3) / 6)                  =>  HARD_SWISH(x)

Conditions: x is float32, the constants are scalars, and the intermediate operators have no fused activation. If a
SELECT_V2 after a clamp restores the NaN of x, it is replaced too: these kernels keep NaN. MAXIMUM(x, 0) may be a RELU.
"""

from typing import Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter, is_unfused

__all__ = ["hard_activations"]

_Clamp = Tuple[int, float, float]


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((2, 3))
    low = graph.op("MAXIMUM", [graph.constant(-1), graph.inputs[0]], (2, 3))
    return graph.model(graph.op("MINIMUM", [graph.constant(1), low], (2, 3)))


@graph_pass(
    "hard_activations", "MINIMUM(MAXIMUM(x, -1), 1) => RELU_N1_TO_1(x); also hard sigmoid, HARD_SWISH", _example,
    after=("redundant_reshapes",), before=("integer_kernels", "activation_fusion"),
)  # fmt: skip
def hard_activations(graph: GraphRewriter, context: Context) -> int:
    """Replace composed clamps to [-1, 1], hard sigmoids and hard swishes by RELU_N1_TO_1, RELU6 and HARD_SWISH.

    Applies to float32, under the conditions of this module. The operators before the last one stay. Returns the number
    of rewrites.
    """
    count = sum(_rewrite_clamp(graph, op) for op in graph.operators if op.builtin == "MINIMUM")
    return count + sum(
        _rewrite_hard_swish(graph, op) for op in graph.operators if op.builtin in ("MUL", "DIV") and is_unfused(op)
    )


def _rewrite_clamp(graph: GraphRewriter, op: fb.OperatorSpec) -> bool:
    clamp = _find_clamp(graph, op)
    if clamp is None or graph.tensor(clamp[0]).dtype != "float32":
        return False
    source, low, high = clamp
    op = _last_operator(graph, op, source)
    if (low, high) == (-1, 1):
        graph.replace_op(op, "RELU_N1_TO_1", [source])
        return True
    x = _hard_sigmoid_input(graph, source) if (low, high) == (0, 1) else None
    if x is not None:
        _write_hard_sigmoid(graph, op, x)
    return x is not None


def _find_clamp(graph: GraphRewriter, op: fb.OperatorSpec) -> Optional[_Clamp]:
    """Return (x, low, high) if the MINIMUM `op` computes MINIMUM(high, MAXIMUM(low, x)) or MINIMUM(high, RELU(x)).

    x is a tensor index. `low` and `high` must be scalar constants, each the first operand of its op, as the emitter
    writes them. For RELU, `low` is 0. Returns None for any other MINIMUM.
    """
    high = graph.number(op.inputs[0])
    lower = graph.producer(op.inputs[1], "MAXIMUM", "RELU")
    if high is None or lower is None:
        return None
    if lower.builtin == "RELU":
        return lower.inputs[0] or 0, 0, high
    low, source = graph.number(lower.inputs[0]), lower.inputs[1]
    return None if low is None or source is None else (source, low, high)


def _last_operator(graph: GraphRewriter, op: fb.OperatorSpec, source: int) -> fb.OperatorSpec:
    """Return the SELECT_V2 that reads the result of `op` and restores the NaN of `source`.

    The SELECT_V2 has the form SELECT_V2(NOT_EQUAL(source, source), source, result). Returns `op` if no operator has
    this form.
    """
    for reader in graph.readers(op.outputs[0]):
        if reader.builtin == "SELECT_V2" and reader.inputs[1] == source:
            is_nan = graph.producer(reader.inputs[0], "NOT_EQUAL")
            if is_nan is not None and list(is_nan.inputs) == [source, source]:
                return reader
    return op


def _hard_sigmoid_input(graph: GraphRewriter, index: int) -> Optional[int]:
    """Return the tensor index of x if the tensor `index` is computed as x * (1/6) + 1/2, by a MUL and an ADD.

    The constants may differ by a relative 1e-5. Returns None for any other tensor, and if an operator has a fused
    activation.
    """
    total = graph.producer(index, "ADD")
    scaled = None if total is None else graph.producer(_other_operand(graph, total, 0.5), "MUL")
    return None if scaled is None else _other_operand(graph, scaled, 1 / 6)


def _other_operand(graph: GraphRewriter, op: fb.OperatorSpec, number: float) -> Optional[int]:
    """Return the tensor index of the other operand of `op`, if one operand is the scalar constant `number`.

    The constant may differ by a relative 1e-5. Returns None if no operand is this constant, or if `op` has a fused
    activation.
    """
    if not is_unfused(op):
        return None
    for operand, remaining in (op.inputs, list(op.inputs)[::-1]):
        value = graph.number(operand)
        if value is not None and np.isclose(value, number, rtol=1e-5, atol=0):
            return remaining
    return None


def _write_hard_sigmoid(graph: GraphRewriter, op: fb.OperatorSpec, source: int) -> None:
    """Replace `op` by RELU6(source + 3) * (1/6), in place.

    An ADD with a fused RELU6 is inserted before `op`, and `op` becomes the MUL. `source` is a tensor index.
    """
    name = graph.tensor(op.outputs[0]).name
    three = graph.add_constant(name + "/three", np.asarray(3, np.float32))
    sixth = graph.add_constant(name + "/sixth", np.asarray(1 / 6, np.float32))
    clamped = graph.add_like(source, name + "/held", "float32")
    graph.insert_before(op, fb.OperatorSpec("ADD", [source, three], [clamped], {"fused_activation_function": "RELU6"}))
    graph.replace_op(op, "MUL", [clamped, sixth])


def _rewrite_hard_swish(graph: GraphRewriter, op: fb.OperatorSpec) -> bool:
    """Replace `op` by HARD_SWISH(x) if it computes x * (RELU6(x + 3) / 6) or (x * RELU6(x + 3)) / 6.

    `op` is a MUL or DIV without a fused activation. The factors may be in any order, and a MUL by 1/6 counts as a DIV
    by 6. The RELU6 may be fused into the ADD. Returns whether `op` was replaced.

    Returns False for another form, for any other fused activation, and if the result has another rank than x.
    """
    if op.builtin == "MUL":
        for x, factor in (op.inputs, list(op.inputs)[::-1]):
            clamped = _divided_by_six(graph, graph.producer(factor, "MUL", "DIV"))
            if clamped is not None and _write_hard_swish(graph, op, x, clamped):
                return True
    product = graph.producer(_divided_by_six(graph, op), "MUL")
    if product is not None and is_unfused(product):
        for x, clamped in (product.inputs, list(product.inputs)[::-1]):
            if clamped is not None and _write_hard_swish(graph, op, x, clamped):
                return True
    return False


def _write_hard_swish(graph: GraphRewriter, op: fb.OperatorSpec, x: Optional[int], clamped: int) -> bool:
    """Replace `op` by HARD_SWISH(x) if `clamped` is computed as RELU6(x + 3); return whether it was replaced.

    `x` and `clamped` are tensor indices. Returns False also if x is omitted (None), or if the result has another rank
    than x.
    """
    if x is None or _plus_three(graph, clamped) != x or len(graph.sizes(x)) != len(graph.sizes(op.outputs[0])):
        return False
    graph.replace_op(op, "HARD_SWISH", [x])
    return True


def _divided_by_six(graph: GraphRewriter, op: Optional[fb.OperatorSpec]) -> Optional[int]:
    """Return the tensor index of x if the operator computes x / 6 or x * (1/6).

    The 1/6 may differ by a relative 1e-5, the 6 must be exact.

    `op` is a MUL or a DIV, or may be None. Returns None for another number, for an operator with a fused activation,
    and without an operator.
    """
    if op is None or op.builtin == "MUL":
        return None if op is None else _other_operand(graph, op, 1 / 6)
    return op.inputs[0] if is_unfused(op) and graph.number(op.inputs[1]) == 6 else None


def _plus_three(graph: GraphRewriter, index: int) -> Optional[int]:
    """Return the tensor index of x if the tensor `index` is computed as RELU6(x + 3).

    The RELU6 may be fused into the ADD, or a separate operator. Returns None for any other tensor.
    """
    six = graph.producer(index, "RELU6")
    total = graph.producer(six.inputs[0] if six is not None else index, "ADD")
    if total is None:
        return None
    activation = total.options.get("fused_activation_function", "NONE")
    if activation != ("NONE" if six is not None else "RELU6"):
        return None
    return next((b for a, b in (total.inputs, list(total.inputs)[::-1]) if graph.number(a) == 3), None)
