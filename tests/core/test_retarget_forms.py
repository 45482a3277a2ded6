"""Nodes that rules re-spell between versions far apart, in both directions, and the reasons of nodes without a form."""

from typing import Any, Dict, List, NamedTuple

import numpy as np
import onnx
import pytest
from building import model, node, require_opset, value

import onnx_compat
from onnx_compat.ir.dtypes import DType
from onnx_compat.retarget.outcomes import COMPOSED, REFUSED
from onnx_compat.retarget.retargeting import retarget_in_place

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7 - 1
IMAGE = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4) / 9
CHANNELS = np.float32([0.5, 2])
STATISTICS = {"s": CHANNELS, "b": CHANNELS - 1, "m": CHANNELS / 2, "v": CHANNELS}
INTS = np.asarray


class Form(NamedTuple):
    """A node at two opsets. `back`: the older opset, to which the node of `source` is written, and then written again.

    Inputs of the node that are not in `constants` are the feeds, in order: by default the single array X.
    """

    node: Any
    source: int
    target: int
    constants: Dict[str, Any] = {}
    feeds: Any = (X,)

    def __repr__(self) -> str:
        return "%s-%d-%d" % (self.node.op_type, self.source, self.target)


def build(form: Form) -> Any:
    """Return the model of a form."""
    names = [name for name in dict.fromkeys(form.node.input) if name and name not in form.constants]
    ports = [value(name, list(feed.shape), DType.of(feed.dtype).onnx) for name, feed in zip(names, form.feeds)]
    outputs = [onnx.ValueInfoProto(name=name) for name in form.node.output if name]
    proto = model([form.node], ports, outputs, form.constants, opset=form.source)
    for port, result in zip(proto.graph.output, run(proto, form.feeds)):  # opset 6 requires the types of outputs
        port.CopyFrom(value(port.name, list(result.shape), DType.of(result.dtype).onnx))
    return proto


def run(proto: Any, feeds: Any) -> Any:
    return list(onnx_compat.run(proto, list(feeds), shim="reference"))


def assert_same(results: List[Any], wanted: List[Any]) -> None:
    assert len(results) == len(wanted)
    for got, want in zip(results, wanted):
        assert got.dtype == want.dtype
        if got.dtype.kind == "f":
            np.testing.assert_allclose(got, want, 1e-5, 1e-6)
        else:
            np.testing.assert_array_equal(got, want)


FORMS = [
    # the oldest opsets have buffers, a flag for broadcasting, and one for inference
    Form(node("Relu", ["x"], ["y"]), 6, 1),
    Form(node("Selu", ["x"], ["y"]), 5, 9),
    Form(node("Selu", ["x"], ["y"]), 9, 1),
    Form(node("Selu", ["x"], ["y"], alpha=2.0, gamma=0.5), 5, 9),
    Form(node("Add", ["x", "b"], ["y"]), 13, 6, {"b": X[0]}),
    Form(node("Add", ["x", "b"], ["y"]), 13, 6, {"b": X}),
    Form(node("Mul", ["x", "b"], ["y"], broadcast=1), 6, 13, {"b": X[0, 0]}),
    Form(node("Gemm", ["x", "w", "c"], ["y"]), 9, 6, {"w": X[0].T, "c": np.ones(3, np.float32)}, (X[0],)),
    Form(node("Gemm", ["x", "w", "c"], ["y"], broadcast=1), 6, 13, {"w": X[0].T, "c": np.ones(3, np.float32)}, (X[0],)),
    Form(node("PRelu", ["x", "s"], ["y"]), 6, 9, {"s": np.float32([0.25])}),
    Form(node("PRelu", ["x", "s"], ["y"]), 9, 6, {"s": np.float32([0.25])}),
    Form(node("Max", ["x", "b"], ["y"]), 13, 6, {"b": X[::-1].copy()}),
    Form(node("Dropout", ["x"], ["y"], is_test=1), 6, 13),
    Form(node("Dropout", ["x"], ["y"]), 13, 6),
    Form(node("Dropout", ["x", "r", "t"], ["y"], seed=3), 13, 9, {"r": np.float32(0.5), "t": INTS(False)}),
    Form(node("Dropout", ["x"], ["y"]), 9, 13),
    Form(node("BatchNormalization", ["x", *"sbmv"], ["y"], is_test=1, consumed_inputs=[0, 0, 0, 1, 1]), 5, 15, STATISTICS, (IMAGE,)),
    Form(node("BatchNormalization", ["x", *"sbmv"], ["y"]), 15, 5, STATISTICS, (IMAGE,)),
    Form(node("BatchNormalization", ["x", *"sbmv"], ["y"], spatial=1), 7, 9, STATISTICS, (IMAGE,)),
    Form(node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2), 18, 21, STATISTICS, (IMAGE,)),
    # attributes that became inputs, and inputs that became attributes
    Form(node("Clip", ["x", "", "h"], ["y"]), 13, 6, {"h": np.float32(0.5)}),
    Form(node("Clip", ["x"], ["y"], min=0.25), 6, 13),
    Form(node("Pad", ["x"], ["y"], paddings=[0, 1, 0, 0, 0, 2]), 1, 13),
    Form(node("Pad", ["x", "p"], ["y"]), 13, 1, {"p": INTS([0, 1, 0, 0, 0, 2])}),
    Form(node("Pad", ["x", "p", "v"], ["y"]), 13, 9, {"p": INTS([0, 1, 0, 0, 0, 2]), "v": np.float32(np.nan)}),
    Form(node("Reshape", ["x"], ["y"], shape=[4, -1]), 1, 13),
    Form(node("Reshape", ["x", "s"], ["y"]), 13, 1, {"s": INTS([4, -1])}),
    Form(node("Shape", ["x"], ["y"], start=-3, end=5), 15, 13),
    Form(node("Slice", ["x"], ["y"], starts=[1, 0], ends=[3, 2]), 9, 13),
    Form(node("Slice", ["x", "s", "e"], ["y"]), 13, 9, {"s": INTS([1]), "e": INTS([2])}),
    Form(node("Slice", ["x", "s", "e", "a", "t"], ["y"]), 13, 9, {name: INTS([k]) for name, k in zip("seat", (1, 4, -1, 1))}),
    Form(node("Slice", ["x", "s", "e", "a"], ["y"]), 13, 10, {name: INTS([k]) for name, k in zip("sea", (1, 4, -1))}),
    Form(node("Split", ["x"], ["y", "z"], axis=2, split=[1, 3]), 1, 13),
    Form(node("Split", ["x", "s"], ["y", "z"], axis=2), 13, 2, {"s": INTS([1, 3])}),
    Form(node("Split", ["x"], ["y", "z"], num_outputs=2, axis=2), 18, 11),
    Form(node("TopK", ["x", "k"], ["y", "z"], sorted=0), 11, 10, {"k": INTS([4])}),
    Form(node("SpaceToDepth", ["x"], ["y"], blocksize=2), 13, 1, {}, (IMAGE,)),
    Form(node("Concat", ["x", "x"], ["y"]), 3, 13, {}, (X,)),
    Form(node("ReduceSum", ["x", "a"], ["y"]), 13, 11, {"a": np.zeros(0, np.int64)}),
    Form(node("Squeeze", ["x"], ["y"]), 13, 11, {}, (X[:1, :, :1],)),
    Form(node("Hardmax", ["x"], ["y"], axis=-1), 11, 13),
    Form(node("Softmax", ["x"], ["y"], axis=1), 11, 13, {}, (X[:, :1, :1],)),
    Form(node("DFT", ["x"], ["y"], axis=1), 17, 20, {}, (X[..., :1],)),
    Form(node("DFT", ["x"], ["y"]), 20, 17, {}, (X[..., :1],)),
    Form(node("Cast", ["x"], ["y"], to="INT64"), 5, 13),
    Form(node("Cast", ["x"], ["y"], to=7), 13, 5),
    Form(node("CastLike", ["x", "b"], ["y"]), 15, 13, {"b": INTS([1])}),
    Form(node("QuantizeLinear", ["x", "s", "z"], ["y"]), 19, 10, {"s": np.float32(0.5), "z": np.uint8(3)}),
    Form(node("DequantizeLinear", ["x", "s"], ["y"], output_dtype=1), 23, 10, {"s": np.float32(0.5)}, (np.uint8([[1, 200]]),)),
    # images
    Form(node("Upsample", ["x"], ["y"], height_scale=2.0, width_scale=3.0), 1, 13, {}, (IMAGE,)),
    Form(node("Upsample", ["x"], ["y"], scales=[1.0, 1.0, 2.0, 3.0]), 7, 13, {}, (IMAGE,)),
    Form(node("Upsample", ["x"], ["y"], scales=[1.0, 1.0, 2.0, 3.0]), 7, 6, {}, (IMAGE,)),
    Form(node("Upsample", ["x", "s"], ["y"], mode="linear"), 9, 7, {"s": np.float32([1, 1, 2, 2])}, (IMAGE,)),
    Form(node("Resize", ["x", "s"], ["y"]), 10, 13, {"s": np.float32([1, 1, 0.5, 0.5])}, (IMAGE,)),
    Form(node("Resize", ["x", "s"], ["y"], mode="linear"), 10, 13, {"s": np.float32([1, 1, 0.5, 2])}, (IMAGE,)),
    Form(node("Resize", ["x", "", "s"], ["y"]), 13, 10, {"s": np.float32([1, 1, 2, 2])}, (IMAGE,)),
    Form(node("Resize", ["x", "", "s"], ["y"], coordinate_transformation_mode="asymmetric", nearest_mode="ceil"), 13, 10, {"s": np.float32([1, 1, 0.5, 0.5])}, (IMAGE,)),
    Form(node("Resize", ["x", "", "", "z"], ["y"], mode="linear", coordinate_transformation_mode="asymmetric"), 13, 10, {"z": INTS([1, 2, 8, 4])}, (IMAGE,)),
    Form(node("Resize", ["x", "", "s"], ["y"], mode="linear"), 13, 11, {"s": np.float32([1, 1, 2, 2])}, (IMAGE,)),
    Form(node("Resize", ["x", "", "", "z"], ["y"], axes=[2, 3], mode="linear"), 18, 13, {"z": INTS([8, 2])}, (IMAGE,)),
    Form(node("Resize", ["x", "r", "s"], ["y"], axes=[3], mode="linear", coordinate_transformation_mode="tf_crop_and_resize"), 18, 13, {"r": np.float32([0.25, 0.75]), "s": np.float32([2])}, (IMAGE,)),
    Form(node("LpPool", ["x"], ["y"], kernel_shape=[2, 2], p=2.0), 1, 18, {}, (IMAGE,)),
    Form(node("LpPool", ["x"], ["y"], kernel_shape=[2, 2], p=3), 18, 1, {}, (IMAGE,)),
    Form(node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 0], ceil_mode=1), 19, 11, {}, (IMAGE,)),
    Form(node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], ceil_mode=0, storage_order=0, dilations=[1, 1]), 12, 1, {}, (IMAGE,)),
    Form(node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[3, 3], pads=[0, 0, 1, 1], ceil_mode=1), 22, 12, {}, (IMAGE[..., :3],)),
    Form(node("GridSample", ["x", "g"], ["y"], mode="bilinear"), 16, 20, {"g": np.zeros((1, 2, 2, 2), np.float32)}, (IMAGE,)),
    Form(node("RoiAlign", ["x", "r", "i"], ["y"]), 10, 16, {"r": np.float32([[0, 0, 3, 3]]), "i": INTS([0])}, (IMAGE,)),
    Form(node("RoiAlign", ["x", "r", "i"], ["y"], coordinate_transformation_mode="output_half_pixel"), 16, 10, {"r": np.float32([[0, 0, 3, 3]]), "i": INTS([0])}, (IMAGE,)),
    # constants, indices, recurrent networks
    *(Form(node("Constant", [], ["y"], **{name: number}), 13, 9, {}, ()) for name, number in (("value_float", 1.5), ("value_int", 3), ("value_ints", [1, 2]), ("value_string", "a"))),
    Form(node("Range", ["a", "b", "c"], ["y"], stash_type=1), 27, 13, {}, (np.float32(0), np.float32(3), np.float32(1))),
    Form(node("BitShift", ["x", "b"], ["y"], direction="LEFT"), 28, 13, {"b": np.uint8([1])}, (np.uint8([1, 2]),)),
    Form(node("ScatterND", ["x", "i", "u"], ["y"], reduction="add"), 18, 16, {"i": INTS([[1]]), "u": X[:1]}),
    Form(node("GatherND", ["x", "i"], ["y"]), 13, 11, {"i": INTS([[1, 0]])}),
    Form(node("GRU", ["x", "w", "r"], ["y", "h"], hidden_size=2, linear_before_reset=0), 14, 1, {"w": np.ones((1, 6, 4), np.float32), "r": np.ones((1, 6, 2), np.float32)}),
    Form(node("RNN", ["x", "w", "r"], ["y"], hidden_size=2, output_sequence=1), 1, 14, {"w": np.ones((1, 2, 4), np.float32), "r": np.ones((1, 2, 2), np.float32)}),
    Form(node("Attention", ["q", "k", "v", "m"], ["y"]), 24, 23, {"m": np.zeros((2, 3), np.float32)}, (X[None, :1, :2], X[None, :1], X[None, :1])),
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_a_node_of_another_form_gives_the_same_numbers(form: Form) -> None:
    require_opset(max(form.source, form.target))
    source = build(form)
    target = onnx.ModelProto.FromString(source.SerializeToString())
    plan = retarget_in_place(target, form.target)
    assert plan.counts[REFUSED] == plan.counts[COMPOSED] == 0
    assert {entry.version for entry in target.opset_import} == {form.target}
    onnx.checker.check_model(target)
    assert_same(run(target, form.feeds), run(source, form.feeds))


REFUSED_FORMS = [
    ("aligned to axis 0", Form(node("Add", ["x", "b"], ["y"], broadcast=1, axis=0), 6, 13, {"b": X[:, 0, 0]})),
    ("does not broadcast [2, 3, 4] and [3, 1]", Form(node("Add", ["x", "b"], ["y"]), 13, 6, {"b": X[0, :, :1]})),
    ("its slope is aligned to axis 1", Form(node("PRelu", ["x", "s"], ["y"]), 6, 9, {"s": X[0, :, 0]})),
    ("aligns the slope to axis 1", Form(node("PRelu", ["x", "s"], ["y"]), 9, 6, {"s": X[0, 0]})),
    ("does not broadcast", Form(node("Max", ["x", "b"], ["y"]), 13, 6, {"b": X[0]})),
    ("it drops random elements", Form(node("Dropout", ["x"], ["y"], ratio=0.0), 6, 13)),
    ("its mask has another type", Form(node("Dropout", ["x"], ["y", "m"]), 9, 10)),
    ("disagree about its mask", Form(node("Dropout", ["x"], ["y", "m"]), 13, 11)),
    ("is no float32", Form(node("Clip", ["x", "h"], ["y"]), 13, 9, {"h": np.float64(0.1)}, (X.astype(np.float64),))),
    ("its value 0.1 is no float32", Form(node("Pad", ["x", "p", "v"], ["y"]), 13, 9, {"p": INTS([1] * 6), "v": np.float64(0.1)}, (X.astype(np.float64),))),
    ("no mode 'wrap'", Form(node("Pad", ["x", "p"], ["y"], mode="wrap"), 19, 18, {"p": INTS([1] * 6)})),
    ("copies a size where the shape is 0", Form(node("Reshape", ["x", "s"], ["y"], allowzero=1), 14, 13, {"s": INTS([0, 4])}, (X[:0],))),
    ("gives the whole shape", Form(node("Shape", ["x"], ["y"], start=1), 15, 13)),
    ("shifts unsigned integers only", Form(node("BitShift", ["x", "b"], ["y"], direction="LEFT"), 28, 13, {"b": INTS([1])}, (INTS([1, 2]),))),
    ("no reduction 'max'", Form(node("ScatterND", ["x", "i", "u"], ["y"], reduction="max"), 18, 16, {"i": INTS([[1]]), "u": X[:1]})),
    ("'linear_before_reset'", Form(node("GRU", ["x", "w", "r"], ["y", "h"], hidden_size=2, linear_before_reset=1), 14, 1, {"w": np.ones((1, 6, 4), np.float32), "r": np.ones((1, 6, 2), np.float32)})),
    ("it trains", Form(node("BatchNormalization", ["x", *"sbmv"], ["y", "n", "w"]), 13, 14, STATISTICS, (IMAGE,))),
    ("'training_mode'", Form(node("BatchNormalization", ["x", *"sbmv"], ["y"], training_mode=1), 15, 13, STATISTICS, (IMAGE,))),
    ("GroupNormalization is not there", Form(node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2, stash_type=1), 21, 18, STATISTICS, (IMAGE,))),
    ("for groups in one version", Form(node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=1), 18, 21, {"s": CHANNELS[:1], "b": CHANNELS[:1]}, (IMAGE,))),
    ("its mask may be shorter", Form(node("Attention", ["q", "k", "v", "m"], ["y"]), 24, 23, {"m": np.zeros((2, 2), np.float32)}, (X[None, :1, :2], X[None, :1], X[None, :1]))),
    ("cannot reduce no axes", Form(node("ReduceSum", ["x"], ["y"], noop_with_empty_axes=1), 13, 11)),
    ("one scale for all elements", Form(node("QuantizeLinear", ["x", "s"], ["y"], axis=2), 13, 10, {"s": np.ones(4, np.float32)})),
    ("'block_size'", Form(node("DequantizeLinear", ["x", "s"], ["y"], axis=1, block_size=2), 21, 13, {"s": np.ones((1, 2), np.float32)}, (np.uint8([[1, 2, 3, 4]]),))),
    ("resizes images only", Form(node("Upsample", ["x"], ["y"], scales=[1.0, 2.0, 2.0]), 7, 1)),
    ("only enlarges", Form(node("Resize", ["x", "s"], ["y"]), 10, 9, {"s": np.float32([1, 1, 0.5, 1])}, (IMAGE,))),
    ("enlarges one axis and shrinks another", Form(node("Resize", ["x", "s"], ["y"]), 10, 11, {"s": np.float32([1, 1, 0.5, 2])}, (IMAGE,))),
    ("samples other coordinates", Form(node("Resize", ["x", "", "s"], ["y"]), 13, 10, {"s": np.float32([1, 1, 1.5, 2])}, (IMAGE,))),
    ("no coordinates 'half_pixel'", Form(node("Resize", ["x", "", "s"], ["y"], mode="linear"), 13, 10, {"s": np.float32([1, 1, 2, 2])}, (IMAGE,))),
    ("do not follow from its sizes", Form(node("Resize", ["x", "", "", "z"], ["y"]), 13, 10, {"z": INTS([1, 2, 6, 4])}, (IMAGE,))),
    ("'half_pixel_symmetric'", Form(node("Resize", ["x", "", "s"], ["y"], coordinate_transformation_mode="half_pixel_symmetric"), 19, 18, {"s": np.float32([1, 1, 2, 2])}, (IMAGE,))),
    ("'tf_half_pixel_for_nn'", Form(node("Resize", ["x", "", "s"], ["y"], coordinate_transformation_mode="tf_half_pixel_for_nn"), 11, 13, {"s": np.float32([1, 1, 2, 2])}, (IMAGE,))),
    ("does not keep the aspect ratio", Form(node("Resize", ["x", "", "", "z"], ["y"], keep_aspect_ratio_policy="not_larger"), 18, 13, {"z": INTS([1, 2, 8, 4])}, (IMAGE,))),
    ("is no integer", Form(node("LpPool", ["x"], ["y"], kernel_shape=[2, 2], p=1.5), 1, 18, {}, (IMAGE,))),
    ("counts a window that begins in the padding", Form(node("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 3], pads=[0, 0, 0, 1], ceil_mode=1), 22, 12, {}, (IMAGE[..., :3],))),
    ("shifts the coordinates by half a pixel", Form(node("RoiAlign", ["x", "r", "i"], ["y"]), 16, 10, {"r": np.float32([[0, 0, 3, 3]]), "i": INTS([0])}, (IMAGE,))),
    ("samples images only", Form(node("GridSample", ["x", "g"], ["y"]), 20, 16, {"g": np.zeros((1, 2, 2, 2, 3), np.float32)}, (IMAGE[..., None],))),
    ("'storage_order'", Form(node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], storage_order=1), 8, 7, {}, (IMAGE,))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "form"), REFUSED_FORMS, ids=repr)
def test_a_node_without_a_form_tells_the_reason(text: str, form: Form) -> None:
    require_opset(max(form.source, form.target))
    plan = retarget_in_place(build(form), form.target)  # without a composer
    assert plan.counts[REFUSED] == 1
    assert text in str(plan.first_refusal)
