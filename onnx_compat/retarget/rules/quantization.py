"""Rules for Cast and for quantisation."""

import numpy as np

from onnx_compat.ir.dtypes import DType
from onnx_compat.retarget.draft import Draft, Inexpressible
from onnx_compat.retarget.steps import keep, register, register_added

_CASTS = ("Cast", "CastLike")


def _number_of_type(draft: Draft) -> None:
    """Up to opset 5, the attribute `to` is the name of a type."""
    import onnx

    draft.set("to", onnx.TensorProto.DataType.Value(str(draft.get("to")).upper()))


def _name_of_type(draft: Draft) -> None:
    import onnx

    draft.set("to", onnx.TensorProto.DataType.Name(draft.get("to")))


def _target(draft: Draft) -> DType:
    return DType.of(draft.get("to")) if draft.node.op_type == "Cast" else draft.dtype(1)


def _drop_saturation(draft: Draft) -> None:
    """`saturate` has an effect on 8-bit floats only, which the versions without it lack."""
    draft.drop("saturate")


def _drop_rounding(draft: Draft) -> None:
    if _target(draft).name == "float8e8m0":
        raise Inexpressible("the other version has no type float8e8m0")
    _require_no_four_bits(draft)
    draft.drop("round_mode")


def _require_no_four_bits(draft: Draft) -> None:
    if _target(draft).bits == 4 and draft.dtype(0).kind == "f":
        raise Inexpressible("the two versions clip to 4 bits in another way")


def _to_cast(draft: Draft) -> None:
    """Write the CastLike of `draft`, which begins with opset 15, as a Cast to the known type."""
    draft.set("to", draft.dtype(1).onnx)
    draft.drop_input(1)
    draft.node.op_type = "Cast"


def _require_one_scale(draft: Draft) -> None:
    """Before opset 13, all elements share a scale.

    Raises Inexpressible if the scale has several elements or an unknown shape.
    """
    shape = draft.fact(1).shape
    if shape is None or any(size != 1 for size in shape):
        raise Inexpressible("the other version has one scale for all elements")
    draft.drop("axis")


def _drop_output_dtype(draft: Draft) -> None:
    """Write the type of the result as a zero point.

    Raises Inexpressible for blocks, or if a new zero point is needed and the shape of the scale is not known.
    """
    draft.drop_default("block_size", 0)
    number = draft.get("output_dtype", 0)
    draft.drop("output_dtype")
    if number and not draft.has_input(2):
        shape = draft.fact(1).shape
        if shape is None or any(size is None for size in shape):
            raise Inexpressible("the shape of its scale is not known")
        dtype = DType.of(number)
        draft.add_input(2, "zero_point", np.zeros([size or 0 for size in shape]), dtype)


def _drop_precision(draft: Draft) -> None:
    draft.drop_default("precision", 0, [draft.dtype(1).onnx] if draft.get("precision") else ())


def _drop_dequantized_type(draft: Draft) -> None:
    draft.drop_default("output_dtype", 0, [draft.dtype(1).onnx] if draft.get("output_dtype") else ())


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
