"""Rules for elementwise operators, products, Constant, Clip, Dropout, scattering and recurrent networks."""

from typing import Any, List

import numpy as np

from onnx_compat.ir.dtypes import float32
from onnx_compat.retarget.edited_node import EditedNode, Inexpressible
from onnx_compat.retarget.inferred_facts import Shape
from onnx_compat.retarget.steps import keep, register, register_added

_BROADCASTING = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")
_WITH_BUFFERS = (
    "Abs Add Ceil Clip Div Dropout Elu Exp Floor HardSigmoid InstanceNormalization LeakyRelu Log Max"
    " Mean Min Mul Neg PRelu Reciprocal Relu Selu Sigmoid Sqrt Sub Sum Tanh"
)
_FLOAT32_MAX = float(np.finfo(np.float32).max)


def _drop_buffers(node: EditedNode) -> None:
    """Drop `consumed_inputs`, which has no effect on the results."""
    node.drop("consumed_inputs")


def _broadcast_as_numpy(node: EditedNode) -> None:
    """Drop `broadcast` and `axis`, if the axes of B are the last axes of A: then numpy broadcasts in the same way.

    Raises Inexpressible if B is aligned to other axes, or if a rank is not known.
    """
    axis = node.get("axis")
    if node.get("broadcast", 0) and axis is not None and (axis % node.rank(0)) + node.rank(1) != node.rank(0):
        raise Inexpressible("its second operand is aligned to axis %d" % axis)
    node.drop("axis", "broadcast")


def _broadcast_suffix(node: EditedNode) -> None:
    """Set `broadcast` to 1 if the shapes of A and B differ.

    Raises Inexpressible unless the sizes of B are known, and are the last sizes of A or all 1. Up to opset 6, operators
    broadcast only such a B.
    """
    if not _is_suffix(node.fact(0).shape, node.fact(1).shape):
        node.set("broadcast", 1)


def _is_suffix(first: Shape, second: Shape) -> bool:
    """Whether two shapes are equal. False: the operators with the attribute `broadcast` broadcast `second` to `first`.

    They broadcast a second operand of one element, or with the last sizes of the first operand. Raises Inexpressible
    for any other pair of shapes, and if a size that decides this is not known.
    """
    if first is None or second is None or None in second:
        raise Inexpressible("the shapes of its operands are not known")
    last = first[max(len(first) - len(second), 0) :]
    if len(second) > len(first) or (set(second) - {1} and last != second):
        if None in last:
            raise Inexpressible("the shapes of its operands are not known")
        raise Inexpressible("the other version does not broadcast %s and %s" % (list(first), list(second)))
    return first == second


def _drop_broadcast(node: EditedNode) -> None:
    """Drop `broadcast`: from opset 7 on, C of a Gemm is always broadcast."""
    node.drop("broadcast")


def _set_broadcast(node: EditedNode) -> None:
    """Set `broadcast` of a Gemm to 1. Raises Inexpressible if the other version cannot broadcast C to the result."""
    _is_suffix(node.output_shape(0), node.fact(2).shape)
    node.set("broadcast", 1)


def _require_one_slope(node: EditedNode) -> None:
    """Raise Inexpressible unless the slope of a PRelu has the shape [1]."""
    if node.fact(1).shape != (1,):
        raise Inexpressible("the other version aligns the slope to axis 1")


def _set_new_selu(node: EditedNode) -> None:
    """Set absent attributes of a Selu to their defaults from version 6 on."""
    for name, default in (("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875)):
        if not node.has(name):
            node.set(name, default)


def _set_inference(node: EditedNode) -> None:
    """Set `is_test` of a Dropout to 1."""
    node.set("is_test", 1)


def _drop_reset(node: EditedNode) -> None:
    """Drop `linear_before_reset` of a GRU. Raises Inexpressible unless it is 0 or absent."""
    node.drop_default("linear_before_reset", 0)


def _slope_of_channels(node: EditedNode) -> None:
    """Raise Inexpressible if the slope of a PRelu is aligned to axis 1: numpy would align it to the last axis."""
    if node.rank(1) not in (0, node.rank(0)) and node.size(1, 0) != 1:
        raise Inexpressible("its slope is aligned to axis 1")


def _set_old_selu(node: EditedNode) -> None:
    """Drop `consumed_inputs` of a Selu, and set absent attributes to their defaults up to version 1."""
    _drop_buffers(node)
    for name, default in (("alpha", 1.6732), ("gamma", 1.0507)):
        if not node.has(name):
            node.set(name, default)


def _require_equal_shapes(node: EditedNode) -> None:
    """Raise Inexpressible unless all inputs are known to have the same shape."""
    shapes = [node.fact(index).shape for index in range(len(node.proto.input))]
    if any(shape is None or None in shape or shape != shapes[0] for shape in shapes):
        raise Inexpressible("the other version does not broadcast")


def _give_bias(node: EditedNode) -> None:
    """Add a C of zero to a Gemm without C, which lower versions require. Raises Inexpressible for unknown dtypes."""
    if not node.has_input(2):
        node.add_input(2, "C", [0], node.dtype())


def _bounds_to_inputs(node: EditedNode) -> None:
    """Move the attributes `min` and `max` of a Clip to inputs. A bound that bounds no float32 value is left out.

    Raises Inexpressible if a bound is written and the dtype is not known.
    """
    bounds = node.get("min", -_FLOAT32_MAX), node.get("max", _FLOAT32_MAX)
    node.drop("min", "max")
    for index, (bound, label) in enumerate(zip(bounds, ("min", "max")), 1):
        if abs(bound) < _FLOAT32_MAX or (bound > 0) == (label == "min"):
            node.add_input(index, label, bound, node.dtype())


def _bounds_to_attributes(node: EditedNode) -> None:
    """Move the inputs `min` and `max` of a Clip to attributes.

    Raises Inexpressible if a bound is not known, or is neither infinite nor exact in float32.
    """
    for index, label in ((2, "max"), (1, "min")):
        if node.has_input(index):
            bound = float(node.array_of(index).reshape(-1)[0])
            if not np.isinf(bound) and float(np.float32(bound)) != bound:
                raise Inexpressible("its bound %r is no float32" % bound)
            node.drop_input(index)
            node.set(label, bound)


def _require_inference(node: EditedNode) -> None:
    """Drop `is_test` of a Dropout. Raises Inexpressible unless it is set."""
    if not node.get("is_test", 0):
        raise Inexpressible("it drops random elements")
    node.drop("is_test")


def _require_no_mask(node: EditedNode) -> None:
    """Raise Inexpressible for a Dropout with a mask, the second output."""
    if node.has_output(1):
        raise Inexpressible("its mask has another type in the other version")


def _ratio_to_input(node: EditedNode) -> None:
    """Move the attribute `ratio` of a Dropout to the second input."""
    ratio = node.get("ratio")
    if ratio is not None:
        node.drop("ratio")
        node.add_input(1, "ratio", ratio, float32)


def _ratio_to_attribute(node: EditedNode) -> None:
    """Move the ratio of a Dropout to an attribute, if it is known, and drop `training_mode` and `seed`.

    Raises Inexpressible for a Dropout with a mask, and unless `training_mode` is absent or known to be false.
    """
    if node.has_output(1):  # onnxruntime 1.31.1 gives a mask of False for Dropout of opset 10, which drops nothing
        raise Inexpressible("runtimes disagree about its mask in the other version")
    if node.has_input(2) and bool(node.array_of(2).reshape(-1)[0]):
        raise Inexpressible("it drops random elements, as in training")
    ratio = float(node.array_of(1).reshape(-1)[0]) if node.has_input(1) and node.fact(1).value is not None else None
    node.drop_input(2)
    node.drop_input(1)
    node.drop("seed")
    if ratio is not None:
        node.set("ratio", ratio)


def _to_tensor_value(node: EditedNode) -> None:
    """Write the value of a Constant as a tensor: the attributes for numbers and texts begin with opset 12."""
    import onnx

    elements = {"float": onnx.TensorProto.FLOAT, "int": onnx.TensorProto.INT64, "string": onnx.TensorProto.STRING}
    for attribute in node.proto.attribute:
        kind = attribute.name[len("value_") :].rstrip("s")
        if attribute.name.startswith("value_") and kind in elements:
            value = node.get(attribute.name)
            is_list = attribute.name.endswith("s")
            given = list(value) if is_list else [value]
            items: List[Any] = [item.encode() if isinstance(item, str) else item for item in given]
            tensor = onnx.helper.make_tensor("", elements[kind], [len(items)] if is_list else [], items)
            node.drop(attribute.name)
            node.set("value", tensor)
            return


def _require_dense(node: EditedNode) -> None:
    """Raise Inexpressible for a Constant with a sparse value."""
    if node.has("sparse_value"):
        raise Inexpressible("the other version has no sparse constants")


def _require_unsigned(node: EditedNode) -> None:
    """Raise Inexpressible unless the first input is known to be unsigned."""
    if node.dtype().kind != "u":
        raise Inexpressible("the other version shifts unsigned integers only")


def _require_no_extreme(node: EditedNode) -> None:
    """Raise Inexpressible for the reductions "max" and "min"."""
    if node.get("reduction", "none") in ("max", "min"):
        raise Inexpressible("the other version has no reduction '%s'" % node.get("reduction"))


def _to_scatter(node: EditedNode) -> None:
    node.proto.op_type = "Scatter"


def _to_scatter_elements(node: EditedNode) -> None:
    node.proto.op_type = "ScatterElements"


def _drop_output_sequence(node: EditedNode) -> None:
    """Drop `output_sequence`: from opset 7 on, the name of the first output asks for it."""
    node.drop("output_sequence")


def _set_output_sequence(node: EditedNode) -> None:
    """Set `output_sequence` to 1 if the node has the first output: up to opset 6, this attribute asks for it."""
    if node.has_output(0):
        node.set("output_sequence", 1)


def _require_wide_range(node: EditedNode) -> None:
    """Drop `stash_type` of a Range. Raises Inexpressible for a float below 32 bits or an unknown dtype."""
    dtype = node.dtype()
    if dtype.kind == "f" and dtype.bits < 32:
        raise Inexpressible("the other version computes in %s" % dtype)
    node.drop("stash_type")


register(_WITH_BUFFERS.replace(" Selu", "").split(), 6, _drop_buffers, keep)
register("Selu", 6, _set_old_selu, _set_new_selu)
register(_BROADCASTING, 7, _broadcast_as_numpy, _broadcast_suffix)
register("Gemm", 7, _drop_broadcast, _set_broadcast)
register("Gemm", 11, keep, _give_bias)
register("PRelu", 7, _slope_of_channels, _require_one_slope)
register(("Max", "Mean", "Min", "Sum"), 8, keep, _require_equal_shapes)
register("Clip", 11, _bounds_to_inputs, _bounds_to_attributes)
register("Dropout", 7, _require_inference, _set_inference)
register("Dropout", 10, _require_no_mask, _require_no_mask)
register("Dropout", 12, _ratio_to_input, _ratio_to_attribute)
register("Constant", 9, keep, keep)
register("Constant", 11, keep, _require_dense)
register("Constant", 12, keep, _to_tensor_value)
register("BitShift", 28, keep, _require_unsigned)
register("Range", 27, keep, _require_wide_range)
register_added(("ScatterElements", "ScatterND"), 16, {"reduction": "none"})
register(("ScatterElements", "ScatterND"), 18, keep, _require_no_extreme)
register("Scatter", 11, _to_scatter_elements)
register("ScatterElements", 11, keep, _to_scatter)
register_added("GatherND", 12, {"batch_dims": 0})
register("GRU", 3, keep, _drop_reset)
register(("GRU", "LSTM", "RNN"), 7, _drop_output_sequence, _set_output_sequence)
register_added(("GRU", "LSTM", "RNN"), 14, {"layout": 0})
