"""Rules for Cast and for quantisation."""

import numpy as np

from onnx_compat.ir.dtypes import DType
from onnx_compat.retarget.edited_node import EditedNode, Inexpressible
from onnx_compat.retarget.steps import keep, register, register_added

_CASTS = ("Cast", "CastLike")


def _number_of_type(node: EditedNode) -> None:
    """Convert the attribute `to` from the name of a type, as up to opset 5, to its number."""
    import onnx

    node.set("to", onnx.TensorProto.DataType.Value(str(node.get("to")).upper()))


def _name_of_type(node: EditedNode) -> None:
    """Convert the attribute `to` from the number of a type to its name, as up to opset 5."""
    import onnx

    node.set("to", onnx.TensorProto.DataType.Name(node.get("to")))


def _target(node: EditedNode) -> DType:
    """Return the dtype that a Cast or CastLike casts to. Raises Inexpressible if it is not known."""
    return DType.of(node.get("to")) if node.proto.op_type == "Cast" else node.dtype(1)


def _drop_saturation(node: EditedNode) -> None:
    """Drop `saturate`. It has an effect on 8-bit floats only, which the versions without the attribute lack."""
    node.drop("saturate")


def _drop_rounding(node: EditedNode) -> None:
    """Drop `round_mode` of a Cast or CastLike, which has an effect on float8e8m0 only.

    Raises Inexpressible for a cast to float8e8m0, for a cast of floats to 4 bits, and for an unknown target dtype.
    """
    if _target(node).name == "float8e8m0":
        raise Inexpressible("the other version has no type float8e8m0")
    _require_no_four_bits(node)
    node.drop("round_mode")


def _require_no_four_bits(node: EditedNode) -> None:
    """Raise Inexpressible for a cast of floats to a 4-bit type, or if a dtype that decides this is not known."""
    if _target(node).bits == 4 and node.dtype(0).kind == "f":
        raise Inexpressible("the two versions clip to 4 bits in another way")


def _to_cast(node: EditedNode) -> None:
    """Write the CastLike of `node`, which begins with opset 15, as a Cast to the type of its second input.

    Raises Inexpressible if this type is not known.
    """
    node.set("to", node.dtype(1).onnx)
    node.drop_input(1)
    node.proto.op_type = "Cast"


def _require_one_scale(node: EditedNode) -> None:
    """Drop `axis` of a node whose elements all share one scale, as they do before opset 13.

    Raises Inexpressible if the scale has several elements or an unknown shape.
    """
    shape = node.fact(1).shape
    if shape is None or any(size != 1 for size in shape):
        raise Inexpressible("the other version has one scale for all elements")
    node.drop("axis")


def _drop_output_dtype(node: EditedNode) -> None:
    """Replace `output_dtype` of a QuantizeLinear by a zero point of this type, unless the node has a zero point.

    Drop `block_size` too. Raises Inexpressible if `block_size` is not 0, or if a new zero point is needed and the shape
    of the scale is not known.
    """
    node.drop_default("block_size", 0)
    number = node.get("output_dtype", 0)
    node.drop("output_dtype")
    if number and not node.has_input(2):
        shape = node.fact(1).shape
        if shape is None or any(size is None for size in shape):
            raise Inexpressible("the shape of its scale is not known")
        dtype = DType.of(number)
        node.add_input(2, "zero_point", np.zeros([size or 0 for size in shape]), dtype)


def _drop_precision(node: EditedNode) -> None:
    """Drop `precision`. Raises Inexpressible unless it is 0 or the dtype of the scale."""
    node.drop_default("precision", 0, [node.dtype(1).onnx] if node.get("precision") else ())


def _drop_dequantized_type(node: EditedNode) -> None:
    """Drop `output_dtype`. Raises Inexpressible unless it is 0 or the dtype of the scale."""
    node.drop_default("output_dtype", 0, [node.dtype(1).onnx] if node.get("output_dtype") else ())


register("Cast", 6, _number_of_type, _name_of_type)
register("CastLike", 15, keep, _to_cast)
register(_CASTS, 19, keep, _drop_saturation)
register(_CASTS, 21, keep, keep)
register(_CASTS, 24, _require_no_four_bits, _drop_rounding)
register("DequantizeLinear", 13, keep, _require_one_scale)
register_added("DequantizeLinear", 21, {"block_size": 0})
register("DequantizeLinear", 23, keep, _drop_dequantized_type)
register("QuantizeLinear", 13, keep, _require_one_scale)
register("QuantizeLinear", 19, keep, _drop_saturation)
register("QuantizeLinear", 21, keep, _drop_output_dtype)
register("QuantizeLinear", 23, keep, _drop_precision)
