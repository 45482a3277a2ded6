"""Reinterpretation of the bits of elements as another dtype."""

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import DType
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor


@op("BitCast", since=26)
def bit_cast(input: Tensor, *, to: int) -> Tensor:
    """Reinterpret the bits of each element as the dtype with the number `to` in TensorProto.

    The shape stays. Raises InvalidModelError if the widths differ, or for strings. Raises UnsupportedError for a number
    without a dtype.
    """
    return p.bitcast(input, DType.of(to))
