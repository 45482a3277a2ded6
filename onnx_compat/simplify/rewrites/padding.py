"""Zero padding as an attribute of the layer behind it.

    Conv(Pad(x, p), w)     =>  Conv(x, w) with the pads p
    AveragePool(Pad(x, p)) =>  AveragePool(x) with the pads p, which count as elements

Conditions: the pads are constant, not negative, and on spatial axes alone; the padding is zero; nothing else reads the
padded value. The pool has no pads of its own and no `ceil_mode`. Its windows are larger than the pads, as runtimes
demand.
"""

from typing import Any, List, Optional

import numpy as np

from onnx_compat.simplify.contract import model_pass
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.node import DraftNode
from onnx_compat.simplify.rewrites.examples import example

__all__ = ["layer_padding"]


def _example() -> Any:
    nodes = (("Pad", "x p", "a"), ("Conv", "a w", "y"))
    return example(*nodes, shape=("N", 2, 3), p=np.array([0, 0, 1, 0, 0, 2]), w=np.ones((2, 2, 2)))


@model_pass("layer_padding", "Conv(Pad(x, p), w) => Conv(x, w) with the pads p; also AveragePool", _example)
def layer_padding(draft: GraphDraft) -> int:
    """Fold each Pad of `draft` into the Conv or AveragePool that reads it. Return the number of removed nodes."""
    count = 0
    for node in list(draft.nodes):
        pad = draft.producer(node.input(0)) if node.operator in ("AveragePool", "Conv") else None
        if pad is None or pad.operator != "Pad" or draft.only_reader(node.input(0)) is not node:
            continue
        padding = _spatial_padding(draft, pad)
        pads = None if padding is None else _merge_pads(draft, node, padding)
        if pads is None:
            continue
        draft.set_attribute(node, "pads", pads)
        draft.set_attribute(node, "auto_pad", None)
        if node.operator == "AveragePool":
            draft.set_attribute(node, "count_include_pad", 1)
        draft.set_inputs(node, [pad.input(0), *node.inputs[1:]])
        draft.remove(pad)
        count += 1
    return count


def _spatial_padding(draft: GraphDraft, pad: DraftNode) -> Optional[List[int]]:
    """Return the pads of the spatial axes: those at the beginning of each axis, then those at the end.

    None: the mode is not "constant"; the fill is not zero; a pad is negative, or on the batch or the channels; the pads
    or the fill are not known; the Pad has an input for axes, or no spatial axes.
    """
    if pad.attribute("mode", b"constant") != b"constant" or pad.input(3):
        return None
    if draft.opset < 11:
        pads, fill = pad.attribute("pads", pad.attribute("paddings")), pad.attribute("value", 0.0)
    else:
        array = draft.constant(pad.input(1))
        value = draft.constant(pad.input(2)) if pad.input(2) else np.zeros(())
        if array is None or value is None:
            return None
        pads, fill = [int(size) for size in array.reshape(-1)], value.reshape(-1)[0]
    if not pads or fill != 0 or min(pads) < 0:
        return None
    rank = len(pads) // 2
    begin, end = list(pads[:rank]), list(pads[rank:])
    return begin[2:] + end[2:] if rank > 2 and not any(begin[:2] + end[:2]) else None


def _merge_pads(draft: GraphDraft, node: DraftNode, padding: List[int]) -> Optional[List[int]]:
    """Return the pads of a layer together with those of the Pad before it. None if the layer cannot have them."""
    own = list(node.attribute("pads", [0] * len(padding)))
    if node.attribute("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID", b"") or len(own) != len(padding):
        return None
    if node.operator == "AveragePool":
        windows = list(node.attribute("kernel_shape")) * 2
        is_larger = all(size < window for size, window in zip(padding, windows))
        if draft.opset < 7 or any(own) or node.attribute("ceil_mode", 0) or not is_larger:
            return None
    return [mine + added for mine, added in zip(own, padding)]
