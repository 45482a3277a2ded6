"""Chains of slices along different axes.

    Slice(Slice(x, a on axis 1), b on axis 2)   =>  Slice(x, a and b on axes 1 and 2)

Conditions: the bounds, axes and steps are initializers of one dtype; no axis occurs twice; nothing else reads the value
in between.
"""

from typing import Any, List, Optional, Tuple

import numpy as np

from onnx_compat.simplify.contract import model_pass
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.node import DraftNode
from onnx_compat.simplify.rewrites.examples import example

__all__ = ["merged_slices"]

#: From this opset on, the bounds are inputs.
_FIRST_OPSET = 10


def _example() -> Any:
    nodes = (("Slice", "x a b c", "s"), ("Slice", "s d e f", "y"))
    numbers: Any = {name: np.array([number]) for name, number in zip("abcdef", (1, 3, 0, 2, 4, -1))}
    return example(*nodes, shape=(4, 5), **numbers)


@model_pass("merged_slices", "Slice(Slice(x, axis 1), axis 2) => Slice(x, axes 1 and 2)", _example)
def merged_slices(draft: GraphDraft) -> int:
    """Merge each Slice of `draft` into the Slice that reads its result. Return the number of removed nodes."""
    count = 0
    for node in list(draft.nodes):
        inner = draft.producer(node.input(0)) if node.operator == "Slice" and draft.opset >= _FIRST_OPSET else None
        if inner is None or inner.operator != "Slice" or draft.only_reader(node.input(0)) is not node:
            continue
        first, second, spec = _bounds(draft, inner), _bounds(draft, node), draft.spec(node.input(1))
        if first is None or second is None or spec is None or set(first[2]) & set(second[2]):
            continue
        inner_spec = draft.spec(inner.input(1))
        if inner_spec is None or inner_spec.dtype is not spec.dtype:
            continue
        numbers = [a + b for a, b in zip(first, second)]
        if set(numbers[3]) == {1}:
            numbers.pop()
        names = [
            draft.add_constant(np.array(values, spec.dtype.numpy), spec.dtype, "%s_%s" % (node.outputs[0], role))
            for values, role in zip(numbers, ("starts", "ends", "axes", "steps"))
        ]
        draft.set_inputs(node, [inner.input(0), *names])
        draft.remove(inner)
        count += 1
    return count


def _bounds(draft: GraphDraft, node: DraftNode) -> Optional[Tuple[List[int], ...]]:
    """Return (starts, ends, axes, steps) of a Slice, with axes counted from the front.

    Omitted axes are the first ones, and omitted steps are 1. None: one of the inputs is not constant, or the rank is
    not known.
    """
    spec = draft.spec(node.input(0))
    given = [draft.constant(name) if name else None for name in [*node.inputs[1:], "", ""][:4]]
    if spec is None or any(array is None for array, name in zip(given, node.inputs[1:]) if name):
        return None
    lists = [None if array is None else [int(number) for number in array.reshape(-1)] for array in given]
    starts, ends = lists[0] or [], lists[1] or []
    axes = list(range(len(starts))) if lists[2] is None else [axis % max(spec.rank, 1) for axis in lists[2]]
    return starts, ends, axes, [1] * len(starts) if lists[3] is None else lists[3]
