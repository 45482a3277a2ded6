"""Numbers that a product of two tensors is scaled by, as one, or as part of a layer before it: the scores of attention.

(x * a) @ (y * b) * c is (x * abc) @ y. Exporters scale queries and keys alike, the keys of the whole cache with them, or the
scores, of which there are more.
"""

from typing import List, NamedTuple, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.filters import scale_layer
from onnx_compat_tflite.passes.view import View

__all__ = ["join_scales"]

#: What leaves all numbers as they are, wherever it puts them.
_MOVES = ("RESHAPE", "EXPAND_DIMS", "SQUEEZE", "TRANSPOSE")


class _Scale(NamedTuple):
    """An operator that multiplies a tensor by a number."""

    operator: fb.OperatorSpec
    x: int
    number: float


class _Side(NamedTuple):
    """What makes one factor of a product: perhaps a layer and something that scales, and what moves the numbers before and
    behind that.
    """

    layer: Optional[fb.OperatorSpec]
    before: List[fb.OperatorSpec]
    scale: Optional[_Scale]
    behind: List[fb.OperatorSpec]


def join_scales(graph: fb.SubGraph) -> None:
    """What lies between is read by nobody else, so that nothing but the scores tells where they were scaled."""
    view = View(graph)
    for product in list(graph.operators):
        if product.builtin == "BATCH_MATMUL" and all(_floats(view, index) for index in product.inputs):
            _join(view, product)


def _floats(view: View, index: Optional[int]) -> bool:
    return index is not None and view.graph.tensors[index].dtype == "float32"


def _join(view: View, product: fb.OperatorSpec) -> None:
    if product.inputs[0] == product.inputs[1]:  # a square: a factor of one side is one of the other, too
        return
    sides = [_side(view, product, place) for place in (0, 1)]
    after = _after(view, product)
    scales = [side.scale for side in sides if side.scale is not None]
    number = float(np.prod([one.number for one in [*scales, *after]]))
    if not scales + after or not np.finfo(np.float32).tiny <= abs(number) <= np.finfo(np.float32).max:
        return
    scaled = next((side for side in sides if side.layer is not None and scale_layer(view, side.layer, number)), None)
    if scaled is None:
        if len(scales + after) < 2:
            return
        sides = [side._replace(layer=None, before=[]) for side in sides]
        scaled = min((side for side in sides if side.scale is not None), key=lambda side: _extent(view, side))
        _scale_by(view, scaled, number)
    for side in sides:
        if side is scaled or side.scale is not None:
            _leave(view, side, side is scaled)
    for one in after:
        view.take_over(product, one.operator)


def _scale_by(view: View, side: _Side, number: float) -> None:
    assert side.scale is not None
    operator = side.scale.operator
    name = view.graph.tensors[operator.outputs[0]].name + "/scale"
    place = view.graph.add(fb.TensorSpec(name, "float32", (), np.array(number, np.float32)))
    view.turn_into(operator, "MUL", [side.scale.x, place], **operator.options)


def _leave(view: View, side: _Side, scaled: bool) -> None:
    """Take away what scaled a side, unless it does so now; the values of that side are others than the model's."""
    changed = list(side.behind)
    if scaled and side.layer is not None:
        changed += [*side.before, side.layer]
    if side.scale is not None:
        if scaled and side.layer is None:
            changed.append(side.scale.operator)
        else:
            view.skip(side.scale.operator, side.scale.x)
    for operator in changed:
        view.write_anew(operator, "/scaled")


def _side(view: View, product: fb.OperatorSpec, place: int) -> _Side:
    moves: List[List[fb.OperatorSpec]] = [[], []]  # behind what scales, and before it
    scale: Optional[_Scale] = None
    index, reader = product.inputs[place], product
    while index is not None and view.only_read_by(index, reader):
        writer = view.writer(index, *_MOVES, "MUL", "DIV", "FULLY_CONNECTED")
        if writer is None or writer.options.get("fused_activation_function", "NONE") != "NONE":
            break
        if writer.builtin == "FULLY_CONNECTED":
            return _Side(writer, moves[1] if scale else [], scale, moves[0])
        if writer.builtin in _MOVES:
            moves[scale is not None].append(writer)
            index = writer.inputs[0]
        else:
            found = _scale(view, writer) if scale is None else None
            if found is None:
                break
            scale, index = found, found.x
        reader = writer
    return _Side(None, [], scale, moves[0])


def _after(view: View, product: fb.OperatorSpec) -> List[_Scale]:
    """What scales the result, if nobody else reads that."""
    (result,) = product.outputs
    scales = [_scale(view, reader) for reader in view.readers(result) if view.only_read_by(result, reader)]
    return [one for one in scales if one is not None]


def _scale(view: View, operator: fb.OperatorSpec) -> Optional[_Scale]:
    """Not zero, and of a result that has the shape of what is scaled."""
    if operator.builtin not in ("MUL", "DIV") or operator.options.get("fused_activation_function", "NONE") != "NONE":
        return None
    pairs = [operator.inputs, list(operator.inputs)[::-1]]
    for x, other in pairs[: 1 if operator.builtin == "DIV" else 2]:
        number = view.number(other)
        if x is None or not number or not np.isfinite(number) or view.constant(x) is not None:
            continue
        if tuple(view.sizes(x)) == tuple(view.sizes(operator.outputs[0])):
            return _Scale(operator, x, number if operator.builtin == "MUL" else 1 / number)
    return None


def _extent(view: View, side: _Side) -> Tuple[int, int]:
    """To tell the smaller one of two sides: that of less open sizes, and of less elements."""
    assert side.scale is not None
    sizes = view.sizes(side.scale.x)
    return sum(size < 0 for size in sizes), int(np.prod([abs(size) for size in sizes]))
