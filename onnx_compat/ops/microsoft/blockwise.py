"""Operators with block-quantized weights of 2, 4 or 8 bits, packed into bytes, with a scale for each block."""

from typing import Any, Optional

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, UnsupportedError
from onnx_compat.ir.dims import Extent, ceildiv, floordiv
from onnx_compat.ir.dtypes import DType, int8, uint8
from onnx_compat.ops.indexing import gather
from onnx_compat.ops.microsoft.common import DOMAIN
from onnx_compat.ops.quantization import dequantize_linear
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift


def _unpack(packed: Tensor, bits: int, length: Extent) -> Tensor:
    """Return the first `length` numbers that are packed into the bytes of the last axis, as uint8.

    `bits` is the width of a number. The lowest bits of a byte hold the first number. Raises UnsupportedError unless
    `bits` is 2, 4 or 8.
    """
    if bits not in (2, 4, 8):
        raise UnsupportedError("weights of %d bits are not supported" % bits, hint="quantize to 2, 4 or 8 bits")
    if bits == 8:
        return p.slice_axis(packed, packed.rank - 1, 0, length)
    shifts = lift(list(range(0, 8, bits)), uint8)
    numbers = p.bitwise_and(p.shift_right(p.unsqueeze(packed, [packed.rank]), shifts), lift(2**bits - 1, uint8))
    flat = p.reshape(numbers, (*packed.shape[:-1], packed.shape[-1] * (8 // bits)))
    return p.slice_axis(flat, flat.rank - 1, 0, length)


@op("MatMulNBits", since=1, domain=DOMAIN)
def matmul_nbits(
    A: Tensor,
    B: Tensor,
    scales: Tensor,
    zero_points: Optional[Tensor] = None,
    g_idx: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    *,
    K: int,
    N: int,
    accuracy_level: int = 0,
    bits: int = 4,
    block_size: int,
    weight_prepacked: int = 0,
) -> Tensor:
    """Return A @ dequantized(B)^T + bias, in the dtype of A.

    - A: [..., K]; the result is [..., N].
    - B: N rows of K numbers of `bits` bits, packed into bytes.
    - scales, zero_points: an entry for each block of `block_size` numbers of a row. Integer zero points are packed like
      B. By default, the zero point is 2 ** (bits - 1).
    - g_idx: the block of each of the K columns of B; by default, blocks are contiguous.
    - accuracy_level: no effect.

    Raises UnsupportedError for weight_prepacked, and for `bits` other than 2, 4 and 8.
    """
    if weight_prepacked:
        raise UnsupportedError("weights packed for a GPU cannot be read", hint="export with weight_prepacked=0")
    blocks = ceildiv(K, block_size)
    weights = _unpack(p.reshape(B, (N, floordiv(B.size, N))), bits, K)
    scale, zero = p.reshape(scales, (N, blocks)), _zero_points(zero_points, bits, N, blocks)
    if zero.dtype.kind == "f":
        weights = p.cast(weights, zero.dtype)
    if g_idx is not None:
        group_indices = p.slice_axis(g_idx, 0, 0, K)
        scale, zero = p.take(scale, group_indices, 1), p.take(zero, group_indices, 1) if zero.rank else zero
    dequantized = dequantize_linear(weights, scale, zero, axis=1, block_size=block_size if g_idx is None else 1)
    return p.matmul(A, p.cast(dequantized, A.dtype), bias, transpose_y=True)


def _zero_points(packed: Optional[Tensor], bits: int, rows: int, blocks: Extent) -> Tensor:
    """Return the zero point of each block, [rows, blocks].

    If `packed` is absent, return the default as a uint8 scalar: 2 ** (bits - 1). Integer zero points are unpacked from
    bytes, like the weights. Float zero points are not packed. Raises UnsupportedError for integer zero points if
    `bits` is not 2, 4 or 8.
    """
    if packed is None:
        return lift(2 ** (bits - 1), uint8)
    if packed.dtype.kind == "f":
        return p.reshape(packed, (rows, blocks))
    return _unpack(p.reshape(packed, (rows, floordiv(packed.size, rows))), bits, blocks)


@op("GatherBlockQuantized", since=1, domain=DOMAIN)
def gather_block_quantized(
    data: Tensor,
    indices: Tensor,
    scales: Tensor,
    zero_points: Optional[Tensor] = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Tensor:
    """Return slices of block-quantized data along `gather_axis`, dequantized, in the dtype of the scales.

    A negative index counts from the end, and an index out of range gives zeros. Blocks of `block_size` numbers are on
    `quantize_axis`. uint8 data holds packed numbers of `bits` bits on the last axis, other integers a number in each
    element. Float data is multiplied by the scales, without zero points.

    Raises InvalidModelError for uint8 data unless `gather_axis` is the first axis and `quantize_axis` the last, as
    onnxruntime does. Raises UnsupportedError for uint8 data with `bits` other than 2, 4 and 8.
    """
    axis, blocked = p.axis_of(gather_axis, data.rank), p.axis_of(quantize_axis, data.rank)
    if data.dtype.name == "uint8" and (axis, blocked) != (0, data.rank - 1):
        raise InvalidModelError(
            "packed uint8 data of rank %d is gathered along axis %d and quantized along axis %d; these must be the axes"
            " 0 and %d" % (data.rank, axis, blocked, data.rank - 1)
        )
    if data.dtype.kind == "f":
        extent = data.shape[blocked]
        table = dequantize_linear(data, scales, axis=blocked, block_size=block_size or extent)  # type: ignore[arg-type]  # a blocked axis has a static length
        return _gather_or_zero(table, indices, axis)
    numbers, zero = _unpack_integers(data, scales, zero_points, bits)
    if axis == blocked:
        table = dequantize_linear(numbers, scales, zero, axis=blocked, block_size=block_size)
        return _gather_or_zero(table, indices, axis)
    index = _replace_invalid(indices, data.shape[axis])
    parts = [part if part.rank == 0 else gather(part, index, axis=axis) for part in (numbers, scales, zero)]
    blocked += indices.rank - 1 if blocked > axis else 0
    return _zero_invalid(
        dequantize_linear(*parts, axis=blocked, block_size=block_size), indices, axis, data.shape[axis]
    )


def _unpack_integers(data: Tensor, scales: Tensor, zero_points: Optional[Tensor], bits: int) -> Any:
    """Return (quantized numbers, zero points), with each number in an int8 or uint8 element.

    - uint8 data: numbers and zero points are unpacked along the last axis. The default zero point is 2 ** (bits - 1).
    - other data: numbers and zero points are cast to int8 or uint8. The default zero point is 0.

    The default holds for `zero_points` None, and is a scalar. Raises UnsupportedError for uint8 data with `bits` other
    than 2, 4 and 8.
    """
    if data.dtype.name == "uint8":
        middle = lift(2 ** (bits - 1), uint8)
        numbers = _unpack(data, bits, data.shape[-1] * (8 // bits))
        return numbers, middle if zero_points is None else _unpack(zero_points, bits, scales.shape[-1])
    byte: DType = int8 if data.dtype.kind == "i" else uint8
    return p.cast(data, byte), lift(0, byte) if zero_points is None else p.cast(zero_points, byte)


def _gather_or_zero(table: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Return the slices of `table` at `indices` along `axis`, with zeros for an index that is out of range."""
    extent = table.shape[axis]
    return _zero_invalid(gather(table, _replace_invalid(indices, extent), axis=axis), indices, axis, extent)


def _is_valid_index(indices: Tensor, extent: Extent) -> Tensor:
    length = lift(extent, indices.dtype)
    return p.logical_and(p.greater_equal(indices, p.neg(length)), p.less(indices, length))


def _replace_invalid(indices: Tensor, extent: Extent) -> Tensor:
    """Return the indices with 0 in place of each index outside [-extent, extent)."""
    return p.where(_is_valid_index(indices, extent), indices, lift(0, indices.dtype))


def _zero_invalid(y: Tensor, indices: Tensor, axis: int, extent: Extent) -> Tensor:
    """Return y with zeros in the slices that belong to indices outside [-extent, extent).

    y is the result of a gather along `axis`: the axes of the indices begin at `axis`.
    """
    trailing_rank = y.rank - axis - indices.rank
    valid = p.reshape(_is_valid_index(indices, extent), (1,) * axis + indices.shape + (1,) * trailing_rank)
    return p.where(valid, y, lift(0, y.dtype))
