"""Transposed convolutions whose result is read without its edges, as the one operator that leaves them out.

A transposed convolution is recorded in full, and a slice takes the padding off. Where that is what TFLite calls SAME, its
kernel does it: nothing is computed that is cut off, and no copy is made.
"""

from collections import Counter
from typing import List, Optional

from onnx_compat.dims import Extent, is_known, same
from onnx_compat.ir import Extents, Node, Ref, Region, refs
from onnx_compat_tflite.passes.recorded import rewritten

__all__ = ["trimmed"]


def trimmed(region: Region) -> Region:
    """The region with such slices as a part of their convolution: it is told how far its result goes `beyond` one
    stride for each place.
    """
    uses: Counter[Ref] = Counter(ref for node in region.live() for ref in node.uses())
    uses.update(ref for output in region.outputs for ref in refs(output))

    def together(node: Node) -> Node:
        whole = node.args[0] if node.primitive == "slice" else None
        if not isinstance(whole, Ref) or whole.node is None or whole.node.primitive != "conv_transpose":
            return node
        beyond = _beyond(node, whole.node) if uses[whole] == 1 else None
        if beyond is None:
            return node
        other = Node("conv_transpose", whole.node.args, dict(whole.node.params, beyond=beyond), [], node.origin)
        other.outputs = node.outputs
        return other

    return rewritten(region, together)


def _beyond(cut: Node, full: Node) -> Optional[List[int]]:
    """For each axis how much longer than stride * size what is left is, if that is SAME: half of the rest, rounded down,
    goes at the beginning.
    """
    _, starts, ends = cut.args
    assert isinstance(starts, Extents) and isinstance(ends, Extents) and isinstance(full.args[0], Ref)
    source, whole, last = full.args[0].spec.shape, full.outputs[0].spec.shape, len(full.outputs[0].spec.shape) - 1
    left = [_left(*along) for along in zip(whole, starts.dims, ends.dims)]
    kept = all(same(left[axis], whole[axis]) for axis in (0, last))
    if not kept or last > 3 or any(step != 1 for step in cut.params["steps"]):
        return None
    beyond = []
    for axis, stride in enumerate(full.params["strides"], 1):
        first, total, more = starts.dims[axis], whole[axis] - left[axis], left[axis] - source[axis] * stride
        if not (is_known(total) and is_known(more)) or not (
            total >= 0 and same(first, total // 2) and -stride < more <= 0
        ):
            return None
        beyond.append(int(more))
    return beyond


def _left(extent: Extent, start: Extent, end: Extent) -> Extent:
    """How long an axis is between two places. (A convolution of anything at all has more than is cut off.)"""
    return end - start if not is_known(end) or end >= 0 else extent + end - start
