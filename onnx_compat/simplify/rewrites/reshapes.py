"""Reshapes with constant sizes, and chains of reshapes.

    Reshape(x, Concat(Shape(x), ...))   =>  Reshape(x, [0, 4, -1])
    Reshape(Squeeze(x), sizes)          =>  Reshape(x, sizes); also Flatten, Unsqueeze

The trace of the model gives the sizes of the result. At most one size may differ at run time from the size of `x` on
the same axis; it becomes -1. A 0 copies the size of `x`. A 0 beside a -1 is not written, because no runtime accepts it
for an empty tensor. In a chain, nothing else reads the values in between.
"""

from typing import Any, List, Optional, Sequence

import numpy as np

from onnx_compat.ir.dims import Extent, is_equal, is_static
from onnx_compat.ir.dtypes import int64
from onnx_compat.simplify.contract import model_pass
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.node import DraftNode
from onnx_compat.simplify.rewrites.examples import example

__all__ = ["merged_reshapes", "reshape_sizes"]

_RESHAPES = frozenset(["Flatten", "Reshape", "Squeeze", "Unsqueeze"])
#: From this opset on, the shape of a Reshape is an input.
_FIRST_OPSET = 5


def _sizes_example() -> Any:
    nodes = (
        ("Shape", "x", "s"),
        ("Gather", "s zero", "n"),
        ("Concat", "n two", "m", {"axis": 0}),
        ("Reshape", "x m", "y"),
    )
    return example(*nodes, shape=("N", 4), zero=np.array([0]), two=np.array([2, 2]))


@model_pass("reshape_sizes", "Reshape(x, sizes of x) => Reshape(x, [0, 4, -1])", _sizes_example)
def reshape_sizes(draft: GraphDraft) -> int:
    """Give each Reshape a constant shape, where the trace allows it. Return the number of changed nodes."""
    count = 0
    for node in draft.nodes:
        if node.operator != "Reshape" or draft.opset < _FIRST_OPSET or draft.constant(node.input(1)) is not None:
            continue
        target = _target(draft, node.input(0), node.outputs[0])
        if target is not None:
            _set_target(draft, node, node.input(0), target)
            count += 1
    return count


def _chain_example() -> Any:
    nodes = (("Unsqueeze", "x axes", "a"), ("Flatten", "a", "b", {"axis": 1}), ("Relu", "b", "y"))
    return example(*nodes, shape=(2, 4, 3), axes=np.array([1]))


@model_pass(
    "merged_reshapes", "Reshape(Squeeze(x), sizes) => Reshape(x, sizes); also Flatten, Unsqueeze", _chain_example
)
def merged_reshapes(draft: GraphDraft) -> int:
    """Merge each reshape of `draft` into the reshape that reads its result. Return the number of removed nodes."""
    count = 0
    for node in list(draft.nodes):
        first = draft.producer(node.input(0)) if node.operator in _RESHAPES and draft.opset >= _FIRST_OPSET else None
        if first is None or first.operator not in _RESHAPES or draft.only_reader(node.input(0)) is not node:
            continue
        target = _target(draft, first.input(0), node.outputs[0])
        if target is None:
            continue
        if node.operator == "Reshape":
            _set_target(draft, node, first.input(0), target)
        else:
            shape = draft.add_constant(np.array(target, np.int64), int64, node.outputs[0] + "_shape")
            draft.replace_node(node, "Reshape", [first.input(0), shape])
        draft.remove(first)
        count += 1
    return count


def _set_target(draft: GraphDraft, node: DraftNode, operand: str, target: Sequence[int]) -> None:
    shape = draft.add_constant(np.array(target, np.int64), int64, node.outputs[0] + "_shape")
    draft.set_inputs(node, [operand, shape])
    draft.set_attribute(node, "allowzero", None)


def _target(draft: GraphDraft, operand: str, result: str) -> Optional[List[int]]:
    """Return the constant shape, with 0 and -1, with which a Reshape of `operand` gives the shape of `result`.

    None: a shape is not known, or no constant shape fits.
    """
    before, after = draft.spec(operand), draft.spec(result)
    if before is None or after is None:
        return None
    return constant_target(before.shape, after.shape)


def constant_target(before: Sequence[Extent], after: Sequence[Extent]) -> Optional[List[int]]:
    """Return the constant shape with which a Reshape turns the shape `before` into the shape `after`.

    A symbolic size becomes 0 if `before` has it on the same axis, else -1. None: `after` has an axis of length 0, or
    the constant shape would have two -1, or a -1 beside a 0.
    """
    target: List[int] = []
    for axis, size in enumerate(after):
        if is_static(size):
            target.append(int(size))
        else:
            target.append(0 if axis < len(before) and is_equal(size, before[axis]) else -1)
    has_empty_axis = any(is_static(size) and not size for size in after)
    if target.count(-1) > 1 or has_empty_axis or (-1 in target and 0 in target):
        return None
    return target
