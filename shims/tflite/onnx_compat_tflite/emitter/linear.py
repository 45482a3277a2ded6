"""Matrix products.

A known matrix on the right becomes the weights of a FULLY_CONNECTED. Other float products become BATCH_MATMUL.
Integers have no kernel: they are multiplied and summed.
"""

from typing import List, Optional, Sequence

import numpy as np

from onnx_compat_tflite.emitter import casting, elementwise, reductions, repeating, reshaping, transposing
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.known_shapes import broadcast_dims, is_same_shape
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["matmul"]


@primitive
def matmul(
    builder: Builder,
    x: Handle,
    y: Handle,
    bias: Optional[Handle] = None,
    transpose_x: bool = False,
    transpose_y: bool = False,
) -> Handle:
    """Emit the matrix product x y + bias over the last two axes. `transpose_x`, `transpose_y`: swap these axes first.

    Ranks are at least 2, and batch axes broadcast. `bias` is a vector along the last axis of the result.

    - float32, y a constant of rank 2 with elements: FULLY_CONNECTED, with y as weights
    - float32, any other y: BATCH_MATMUL, then ADD for a bias
    - float16: cast to float32 and computed as float32
    - another dtype: elementwise products and their sum

    Raises UnsupportedError for BATCH_MATMUL of a rank above 4 if an operand is not static and the runtime does not
    broadcast so many axes. Raises it also if no kernel multiplies the dtype or a wider dtype.
    """
    if x.dtype == "float16":
        return casting.call_in_float32(builder, matmul, x, y, bias, transpose_x=transpose_x, transpose_y=transpose_y)
    if x.dtype != "float32":
        return _add_bias(builder, _sum_products(builder, x, y, transpose_x, transpose_y), bias)
    if y.is_constant and y.rank == 2 and not y.is_empty:
        left = transposing.swap_last_axes(builder, x) if transpose_x else x
        return _fully_connected(builder, left, y if transpose_y else transposing.swap_last_axes(builder, y), bias)
    return _add_bias(builder, _batch_matmul(builder, x, y, transpose_x, transpose_y), bias)


def _add_bias(builder: Builder, product: Handle, bias: Optional[Handle]) -> Handle:
    return product if bias is None else elementwise.add(builder, product, bias)


def _fully_connected(builder: Builder, x: Handle, weights: Handle, bias: Optional[Handle]) -> Handle:
    """Return x @ weights^T + bias by FULLY_CONNECTED, for constant weights [units, depth].

    If x is a constant of zeros, the weights are finite and there is no bias, returns a constant of zeros.
    """
    dims = (*x.dims[:-1], weights.dims[0])
    if x.is_constant and not x.array.any() and bias is None and np.isfinite(weights.array).all():
        return Handle.of(np.zeros(dims, x.dtype))  # seen for the initial state of a recurrent network
    options = {"keep_num_dims": True} if x.rank > 2 else {}
    return builder.add_op("FULLY_CONNECTED", [x, weights, bias], x.dtype, dims, **options)


def _batch_matmul(builder: Builder, x: Handle, y: Handle, transpose_x: bool, transpose_y: bool) -> Handle:
    """Return x @ y by BATCH_MATMUL. `transpose_x` and `transpose_y` first swap the last two axes of x or y.

    - If an operand has no elements and the product has known sizes, the product is a constant of zeros.
    - If a rank is above 4 and both operands are static, the batch axes are merged first.

    Raises UnsupportedError if a rank is above 4, an operand is not static, and the runtime does not broadcast so many
    axes.
    """
    if x is y and transpose_x == transpose_y:
        # XNNPACK (LiteRT 2.1 to 2.3) computes x^T x for x x behind a TRANSPOSE, but not if the operands are two tensors.
        y = builder.add_op("MAXIMUM", [y, y], y.dtype, y.dims)
    rank = max(x.rank, y.rank)
    # The kernels give wrong results for a transposed x whose batch axes broadcast with those of y.
    if transpose_x and not is_same_shape(x.dims[:-2], y.dims[:-2]):
        x, transpose_x = transposing.swap_last_axes(builder, x), False
    x, y = reshaping.prepend_axes(builder, x, rank), reshaping.prepend_axes(builder, y, rank)
    batch = broadcast_dims([x.dims[:-2], y.dims[:-2]])
    dims = (*batch, x.dims[-1 if transpose_x else -2], y.dims[-2 if transpose_y else -1])
    if (x.is_empty or y.is_empty) and all(isinstance(size, int) for size in dims):
        return Handle.of(np.zeros(dims, x.dtype))
    if rank > 4 and x.is_static and y.is_static:
        return _matmul_merged(builder, x, y, dims, transpose_x, transpose_y)
    if rank > 4:
        builder.demand("BATCH_MATMUL", x.dtype, "broadcast rank %d" % rank)
    return builder.add_op("BATCH_MATMUL", [x, y], x.dtype, dims, adj_x=transpose_x, adj_y=transpose_y)


def _matmul_merged(
    builder: Builder, x: Handle, y: Handle, dims: Sequence[int], transpose_x: bool, transpose_y: bool
) -> Handle:
    """Return x @ y of static x and y of equal rank: the batch axes are broadcast and merged into a single axis.

    `transpose_x`, `transpose_y`: swap the last two axes of x or y first. `dims`: the sizes of the result.
    """
    count = int(np.prod(dims[:-2]))
    flat: List[Handle] = []
    for operand in (x, y):
        batched_dims = (*dims[:-2], *operand.dims[-2:])
        operand_in_shape = repeating.broadcast_known(builder, operand, batched_dims)
        flat.append(reshaping.reshape_to(builder, operand_in_shape, (count, *operand.dims[-2:])))
    return reshaping.reshape_to(builder, _batch_matmul(builder, flat[0], flat[1], transpose_x, transpose_y), dims)


def _sum_products(builder: Builder, x: Handle, y: Handle, transpose_x: bool, transpose_y: bool) -> Handle:
    """Return the matrix product x @ y as the sum of elementwise products.

    `transpose_x`, `transpose_y`: swap the last two axes of x or y first.
    """
    left = transposing.swap_last_axes(builder, x) if transpose_x else x
    right = y if transpose_y else transposing.swap_last_axes(builder, y)
    left, right = reshaping.insert_axis(builder, left, -1), reshaping.insert_axis(builder, right, -2)
    products = elementwise.mul(builder, left, right)
    return reductions.reduce_sum(builder, products, [products.rank - 1], False)
