"""Rules for normalizations and attention."""

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
    """Require a mask for all keys: from opset 24 on, it may have fewer entries.

    Raises Inexpressible for a mask that may be shorter than the keys, and for an input `nonpad_kv_seqlen`.
    """
    if draft.has_input(6):
        raise Inexpressible("the other version has no input 'nonpad_kv_seqlen'")
    if draft.has_input(3):
        shapes = [draft.fact(index).shape for index in (1, 3, 4)]
        keys, mask, past = shapes
        total = keys[-2] if keys else None
        if total is not None and draft.has_input(4):
            total = None if past is None or past[-2] is None else total + past[-2]
        if mask is None or mask[-1] is None or mask[-1] not in (1, total):
            raise Inexpressible("its mask may be shorter than the keys")


register("BatchNormalization", 6, _drop_buffers, _set_buffers)
register("BatchNormalization", 7, _require_inference, _set_inference)
register("BatchNormalization", 9, _require_spatial, keep)
register("BatchNormalization", 14, _require_one_output, _without_training)
register("GroupNormalization", 21, _require_groups_of_one, _drop_stash_type)
register("Attention", 24, keep, _require_whole_mask)
register_added("Attention", 25, {"left_window_size": -1, "right_window_size": -1})
