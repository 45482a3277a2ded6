"""BATCH_MATMUL(x * a, y * b) * c => BATCH_MATMUL(x * (a * b * c), y): join the factors around a matrix product.

    BATCH_MATMUL(x * a, y * b) * c                =>  BATCH_MATMUL(x * (a * b * c), y)
    BATCH_MATMUL(FULLY_CONNECTED(x, w), y) * c    =>  BATCH_MATMUL(FULLY_CONNECTED(x, c * w), y)

In attention, x and y are the queries and keys, and the result holds the scores. Exporters scale the queries and the
keys, or the scores, which have more elements. The pass scales the weights of a FULLY_CONNECTED, or else the smaller of
the operands that have a scale. The ops of `_MOVES` may be between the FULLY_CONNECTED, the scale and the product.

Conditions: x and y are different float32 tensors, and a, b and c are scalar constants. Their product is neither 0,
denormal nor infinite. No other operator reads the intermediate tensors. Without a FULLY_CONNECTED, at least two of a, b
and c are present.
"""

from typing import List, NamedTuple, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.affine_folding import scale_layer
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter, is_unfused

__all__ = ["attention_scale"]

#: Ops that move elements and compute nothing: a scale before them gives the same result as after them.
_MOVES = ("RESHAPE", "EXPAND_DIMS", "SQUEEZE", "TRANSPOSE")


class _Scale(NamedTuple):
    """An operator MUL or DIV that multiplies the tensor `x` by the constant `number`: 1/4 for x / 4."""

    op: fb.OperatorSpec
    x: int
    number: float


class _Operand(NamedTuple):
    """The operators that compute an operand of a product, in this order: layer, moves, scale, moves.

    layer: the FULLY_CONNECTED, or None.
    before: the moves before the scale; empty without a layer or without a scale.
    scale: the scale, or None.
    behind: the moves between the scale and the product; without a scale, all moves.

    The lists of moves begin with the move that is nearest to the product.
    """

    layer: Optional[fb.OperatorSpec]
    before: List[fb.OperatorSpec]
    scale: Optional[_Scale]
    behind: List[fb.OperatorSpec]


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((2, 3, 4), (2, 4, 3))
    queries, keys = (graph.op("MUL", [x, graph.constant(0.5)], graph.spec.tensors[x].shape) for x in graph.inputs)
    return graph.model(graph.op("BATCH_MATMUL", [queries, keys], (2, 3, 3)))


@graph_pass(
    "attention_scale", "BATCH_MATMUL(x * a, y * b) * c => BATCH_MATMUL(x * (a * b * c), y)", _example,
    after=("constant_factors",), before=("affine_after_layer",),
)  # fmt: skip
def attention_scale(graph: GraphRewriter, context: Context) -> int:
    """Join the scales of the operands and of the result of each BATCH_MATMUL; return the number of rewritten products.

    A scale is a MUL or DIV by a scalar constant. Applies under the conditions of this module.

    - If a FULLY_CONNECTED that `scale_layer` can scale computes an operand, the joined scale is folded into its
      weights.
    - Otherwise two or more scales become one scale of the smallest scaled operand. A single scale stays.
    """
    count = 0
    for product in graph.operators:
        if product.builtin == "BATCH_MATMUL" and all(_is_float(graph, index) for index in product.inputs):
            count += _join_scales(graph, product)
    return count


def _is_float(graph: GraphRewriter, index: Optional[int]) -> bool:
    return index is not None and graph.tensor(index).dtype == "float32"


def _join_scales(graph: GraphRewriter, product: fb.OperatorSpec) -> bool:
    if product.inputs[0] == product.inputs[1]:  # a square: a factor of one operand would scale both
        return False
    operands = [_find_operand(graph, product, position) for position in (0, 1)]
    after = _scales_of_result(graph, product)
    scales = [operand.scale for operand in operands if operand.scale is not None]
    number = float(np.prod([scale.number for scale in [*scales, *after]]))
    if not scales + after or not np.finfo(np.float32).tiny <= abs(number) <= np.finfo(np.float32).max:
        return False
    scaled = next(
        (operand for operand in operands if operand.layer is not None and scale_layer(graph, operand.layer, number)),
        None,
    )
    if scaled is None:
        if len(scales + after) < 2:
            return False
        operands = [operand._replace(layer=None, before=[]) for operand in operands]
        scaled = min(
            (operand for operand in operands if operand.scale is not None), key=lambda operand: _extent(graph, operand)
        )
        _set_scale(graph, scaled, number)
    for operand in operands:
        if operand is scaled or operand.scale is not None:
            _finish_operand(graph, operand, operand is scaled)
    for scale in after:
        graph.take_outputs(product, scale.op)
    return True


def _set_scale(graph: GraphRewriter, operand: _Operand, number: float) -> None:
    assert operand.scale is not None
    op = operand.scale.op
    constant = graph.add_constant(graph.tensor(op.outputs[0]).name + "/scale", np.array(number, np.float32))
    graph.replace_op(op, "MUL", [operand.scale.x, constant], **op.options)


def _finish_operand(graph: GraphRewriter, operand: _Operand, is_scaled: bool) -> None:
    """Remove the scale of an operand, unless it applies the joined scale. Rename the results that changed.

    `is_scaled`: the joined scale was applied to this operand, in its layer or, without a layer, in its scale. Operators
    whose results changed write new tensors, because the old names belong to values of the model.
    """
    changed = list(operand.behind)
    if is_scaled and operand.layer is not None:
        changed += [*operand.before, operand.layer]
    if operand.scale is not None:
        if is_scaled and operand.layer is None:
            changed.append(operand.scale.op)
        else:
            graph.bypass(operand.scale.op, operand.scale.x)
    for op in changed:
        graph.write_new_tensor(op, "/scaled")


def _find_operand(graph: GraphRewriter, product: fb.OperatorSpec, position: int) -> _Operand:
    """Return the moves, the scale and the layer that compute the operand of a product at `position`.

    The search goes backwards from the product to a FULLY_CONNECTED, which is the layer. It ends without a layer at

    - any other op, or a second scale,
    - an operator with a fused activation,
    - a tensor that is an output or has several readers.

    Without a layer, returns the scale and the moves between the scale and the product. Without a scale too, returns all
    moves found.
    """
    moves: List[List[fb.OperatorSpec]] = [[], []]  # behind the scale, and before it
    scale: Optional[_Scale] = None
    index, reader = product.inputs[position], product
    while index is not None and graph.is_only_read_by(index, reader):
        op = graph.producer(index, *_MOVES, "MUL", "DIV", "FULLY_CONNECTED")
        if op is None or not is_unfused(op):
            break
        if op.builtin == "FULLY_CONNECTED":
            return _Operand(op, moves[1] if scale else [], scale, moves[0])
        if op.builtin in _MOVES:
            moves[scale is not None].append(op)
            index = op.inputs[0]
        else:
            inner_scale = _find_scale(graph, op) if scale is None else None
            if inner_scale is None:
                break
            scale, index = inner_scale, inner_scale.x
        reader = op
    return _Operand(None, [], scale, moves[0])


def _scales_of_result(graph: GraphRewriter, product: fb.OperatorSpec) -> List[_Scale]:
    """Return a list with the scale that is applied to the product's result, or [] without such a scale.

    The scale is a MUL or DIV that `_find_scale` accepts. It must be the only reader of the result, which must not be an
    output.
    """
    (result,) = product.outputs
    readers = [reader for reader in graph.readers(result) if graph.is_only_read_by(result, reader)]
    return [scale for scale in (_find_scale(graph, reader) for reader in readers) if scale is not None]


def _find_scale(graph: GraphRewriter, op: fb.OperatorSpec) -> Optional[_Scale]:
    """Return the `_Scale` of an op that multiplies or divides a tensor x by a scalar constant.

    For x / 4, the number is 1/4. Returns None if

    - the op is neither MUL nor DIV, or has a fused activation,
    - x is a constant, or is the divisor of the DIV,
    - the shape of the result is not that of x,
    - the scalar is 0, not finite or quantised.
    """
    if op.builtin not in ("MUL", "DIV") or not is_unfused(op):
        return None
    pairs = [op.inputs, list(op.inputs)[::-1]]
    for x, factor in pairs[: 1 if op.builtin == "DIV" else 2]:
        number = graph.number(factor)
        if x is None or not number or not np.isfinite(number) or graph.constant(x) is not None:
            continue
        if tuple(graph.sizes(x)) == tuple(graph.sizes(op.outputs[0])):
            return _Scale(op, x, number if op.builtin == "MUL" else 1 / number)
    return None


def _extent(graph: GraphRewriter, operand: _Operand) -> Tuple[int, int]:
    """Return a sort key for the size of the tensor that the scale of an operand multiplies: (open sizes, elements).

    Both are numbers; in the number of elements, an open size counts as 1. The operand must have a scale.
    """
    assert operand.scale is not None
    sizes = graph.sizes(operand.scale.x)
    return sum(size < 0 for size in sizes), int(np.prod([abs(size) for size in sizes]))
