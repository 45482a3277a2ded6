"""Primitives that join tensors along an axis."""

from typing import Any, List, Sequence

from onnx_compat_tflite.emitter import narrowing, runtime_sizes
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.known_shapes import is_same_shape
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.emitter.widening import widen_for
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["concat", "concatenate", "pack"]

#: The dtypes in which the default delegate may run CONCATENATION.
_DELEGATED = ("float32", "int8", "uint8")


@primitive
def concat(builder: Builder, xs: Sequence[Handle], axis: int) -> Handle:
    """Concatenate tensors along an axis that is not negative. Tensors of known length 0 along this axis are left out.

    If a single tensor remains, returns this tensor. If no tensor remains, returns `xs[0]`.
    """
    parts = [x for x in xs if not (isinstance(x.dims[axis], int) and x.dims[axis] == 0)] or list(xs[:1])
    if len(parts) == 1:
        return parts[0]
    return concatenate(builder, parts[0], [_require_sizes(builder, part, parts[0], axis) for part in parts[1:]], axis)


def _require_sizes(builder: Builder, x: Handle, like: Handle, axis: int) -> Handle:
    """Return x, which must have the sizes of `like` on all axes but `axis`.

    If a size may differ and CONCATENATION does not check the sizes, returns a RESHAPE of x to these sizes. The RESHAPE
    fails at run time if a size differs.
    """
    other_axes = [k for k in range(x.rank) if k != axis]
    are_equal = is_same_shape([x.dims[k] for k in other_axes], [like.dims[k] for k in other_axes])
    if are_equal or x.dtype not in _DELEGATED or builder.kernels.quirks.checks_joined_sizes:
        return x
    wanted = runtime_sizes.stack(builder, [builder.dim(x if k == axis else like, k) for k in range(x.rank)])
    fits = builder.add_op("EQUAL", [builder.shape_tensor(x), wanted], "bool", (x.rank,))
    sizes = builder.add_op("SELECT_V2", [fits, wanted, builder.like(wanted, narrowing.INVALID)], "int32", (x.rank,))
    return builder.add_op("RESHAPE", [x, sizes], x.dtype, x.dims)


@widen_for("CONCATENATION")
def concatenate(builder: Builder, first: Handle, other_parts: Sequence[Handle], axis: int) -> Handle:
    """Emit CONCATENATION of `first` and the other tensors, of the same dtype, along an axis that is not negative."""
    parts = [first, *other_parts]
    dims: List[Any] = list(first.dims)
    lengths = [part.dims[axis] for part in parts]
    dims[axis] = sum(lengths) if all(isinstance(length, int) for length in lengths) else None
    return builder.add_op("CONCATENATION", parts, first.dtype, dims, axis=axis)


@widen_for("PACK")
def pack(builder: Builder, first: Handle, other_rows: Sequence[Handle]) -> Handle:
    """Emit PACK: stack `first` and the other tensors, of equal shape, along a new first axis."""
    rows = [first, *other_rows]
    dims = (len(rows), *first.dims)
    return builder.add_op("PACK", rows, first.dtype, dims, values_count=len(rows), axis=0)
