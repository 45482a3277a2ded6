"""Rules for normalizations and attention."""

from typing import Optional, Sequence

from onnx_compat.ir.dims import Extent, is_equal
from onnx_compat.retarget.draft import Draft, Inexpressible
from onnx_compat.retarget.steps import keep, register, register_added


def _require_inference(draft: Draft) -> None:
    """Up to opset 6, `is_test` tells inference; from 7 on, the number of outputs does.

    Raises Inexpressible if the node trains.
    """
    if not draft.get("is_test", 0) and any(draft.node.output[1:]):
        raise Inexpressible("it trains")
    draft.drop("is_test")


def _set_inference(draft: Draft) -> None:
    """Undo `_require_inference`. Raises Inexpressible if the node trains."""
    if any(draft.node.output[1:]):
        raise Inexpressible("it trains")
    draft.set("is_test", 1)


def _drop_buffers(draft: Draft) -> None:
    draft.drop("consumed_inputs")


def _set_buffers(draft: Draft) -> None:
    draft.set("consumed_inputs", [0, 0, 0, 1, 1])


def _require_spatial(draft: Draft) -> None:
    draft.drop_default("spatial", 1)


def _require_one_output(draft: Draft) -> None:
    if any(draft.node.output[1:]):
        raise Inexpressible("it trains, and the two versions have other outputs")


def _without_training(draft: Draft) -> None:
    draft.drop_default("training_mode", 0)
    _require_one_output(draft)
    del draft.node.output[1:]


def _require_groups_of_one(draft: Draft) -> None:
    """Scale and bias are for each group in opset 18, and for each channel from 21 on.

    Raises Inexpressible unless each group is known to have one channel.
    """
    if draft.size(0, 1) is None or draft.size(0, 1) != draft.get("num_groups"):
        raise Inexpressible("its scale and bias are for groups in one version, and for channels in the other")


def _drop_stash_type(draft: Draft) -> None:
    _require_groups_of_one(draft)
    draft.drop_default("stash_type", 1)


def _require_whole_mask(draft: Draft) -> None:
    """Require a mask with an entry for each key. A single entry is broadcast in opset 23; from 24 on it is padded.

    Raises Inexpressible unless the mask is known to have as many entries as there are keys, past keys included.
    """
    if draft.has_input(3):
        keys, mask, past = (draft.extents(index) for index in (1, 3, 4))
        total = _size_at(keys, -2)
        if draft.has_input(4):
            added = _size_at(past, -2)
            total = None if total is None or added is None else total + added
        entries = _size_at(mask, -1)
        if total is None or entries is None or not is_equal(entries, total):
            raise Inexpressible("its mask may be shorter than the keys, which the versions treat differently")


def _size_at(extents: Optional[Sequence[Optional[Extent]]], axis: int) -> Optional[Extent]:
    return extents[axis] if extents is not None and len(extents) >= -axis else None


def _drop_key_counts(draft: Draft) -> None:
    if draft.has_input(6):
        raise Inexpressible("the other version has no input 'nonpad_kv_seqlen'")
    _require_whole_mask(draft)


register("BatchNormalization", 6, _drop_buffers, _set_buffers)
register("BatchNormalization", 7, _require_inference, _set_inference)
register("BatchNormalization", 9, _require_spatial, keep)
register("BatchNormalization", 14, _require_one_output, _without_training)
register("GroupNormalization", 21, _require_groups_of_one, _drop_stash_type)
register("Attention", 24, _require_whole_mask, _drop_key_counts)
register_added("Attention", 25, {"left_window_size": -1, "right_window_size": -1})
