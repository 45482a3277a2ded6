"""Rules for normalizations and attention."""

from typing import Optional, Sequence

from onnx_compat.ir.dims import Extent, is_equal
from onnx_compat.retarget.edited_node import EditedNode, Inexpressible
from onnx_compat.retarget.steps import keep, register, register_added


def _require_inference(node: EditedNode) -> None:
    """Drop `is_test` of a BatchNormalization that infers.

    Up to opset 6, `is_test` tells inference; from 7 on, the number of outputs does. Raises Inexpressible if `is_test`
    is not set and the node has several outputs: it trains.
    """
    if not node.get("is_test", 0) and any(node.proto.output[1:]):
        raise Inexpressible("it trains")
    node.drop("is_test")


def _set_inference(node: EditedNode) -> None:
    """Set `is_test` of a BatchNormalization to 1.

    Raises Inexpressible if the node has several outputs: it trains.
    """
    if any(node.proto.output[1:]):
        raise Inexpressible("it trains")
    node.set("is_test", 1)


def _drop_buffers(node: EditedNode) -> None:
    node.drop("consumed_inputs")


def _set_buffers(node: EditedNode) -> None:
    """Set `consumed_inputs` of a BatchNormalization, which is required before version 6, to its fixed value."""
    node.set("consumed_inputs", [0, 0, 0, 1, 1])


def _require_spatial(node: EditedNode) -> None:
    """Drop `spatial`. Raises Inexpressible unless it is 1 or absent."""
    node.drop_default("spatial", 1)


def _require_one_output(node: EditedNode) -> None:
    """Raise Inexpressible for a BatchNormalization with several outputs: it trains."""
    if any(node.proto.output[1:]):
        raise Inexpressible("it trains, and the two versions have other outputs")


def _without_training(node: EditedNode) -> None:
    """Drop `training_mode`. Raises Inexpressible if it is set, or if the node has several outputs."""
    node.drop_default("training_mode", 0)
    _require_one_output(node)
    del node.proto.output[1:]


def _require_groups_of_one(node: EditedNode) -> None:
    """Raise Inexpressible unless each group of a GroupNormalization is known to have one channel.

    Scale and bias are for each group in opset 18, and for each channel from 21 on. So they agree only for groups of one
    channel.
    """
    if node.size(0, 1) is None or node.size(0, 1) != node.get("num_groups"):
        raise Inexpressible("its scale and bias are for groups in one version, and for channels in the other")


def _drop_stash_type(node: EditedNode) -> None:
    """Drop `stash_type`. Raises Inexpressible unless it is 1 or absent, and each group has one channel."""
    _require_groups_of_one(node)
    node.drop_default("stash_type", 1)


def _require_whole_mask(node: EditedNode) -> None:
    """Raise Inexpressible if an Attention has a mask that may not have an entry for each key, past keys included.

    Without a mask, nothing is required. A mask with a single entry is broadcast in opset 23; from 24 on it is padded.
    """
    if node.has_input(3):
        keys, mask, past = (node.extents(index) for index in (1, 3, 4))
        total = _size_at(keys, -2)
        if node.has_input(4):
            added = _size_at(past, -2)
            total = None if total is None or added is None else total + added
        entries = _size_at(mask, -1)
        if total is None or entries is None or not is_equal(entries, total):
            raise Inexpressible("its mask may be shorter than the keys, which the versions treat differently")


def _size_at(extents: Optional[Sequence[Optional[Extent]]], axis: int) -> Optional[Extent]:
    """Return the size of a negative axis. None if the size or all sizes are unknown, or if there is no such axis."""
    return extents[axis] if extents is not None and len(extents) >= -axis else None


def _drop_key_counts(node: EditedNode) -> None:
    """Raise Inexpressible if an Attention has the input `nonpad_kv_seqlen`, or a mask that may be too short.

    Otherwise do nothing.
    """
    if node.has_input(6):
        raise Inexpressible("the other version has no input 'nonpad_kv_seqlen'")
    _require_whole_mask(node)


register("BatchNormalization", 6, _drop_buffers, _set_buffers)
register("BatchNormalization", 7, _require_inference, _set_inference)
register("BatchNormalization", 9, _require_spatial, keep)
register("BatchNormalization", 14, _require_one_output, _without_training)
register("GroupNormalization", 21, _require_groups_of_one, _drop_stash_type)
register("Attention", 24, _require_whole_mask, _drop_key_counts)
register_added("Attention", 25, {"left_window_size": -1, "right_window_size": -1})
