"""A guard for kernels that end the process if an axis is empty.

A size may become 0 at run time, for example that of a TopK of k elements. Sizes that are 0 only if an input of the
model is empty need no guard: `InterpretedModel` refuses such an input. A guard is a RESHAPE to computed sizes, and
costs the delegate for all operators after it.
"""

from onnx_compat.shim import is_nonnegative, is_positive_for_elements
from onnx_compat_tflite.emitter import extremes, runtime_sizes
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.subgraph_builder import Handle, Size

__all__ = ["flatten_empty_rows", "may_become_empty"]


def may_become_empty(builder: Builder, size: Size) -> bool:
    """Whether an axis of this size may be empty at run time although no input of the model is empty.

    Returns False for an int. In a branch or loop, returns True unless the size is always positive.
    """
    if isinstance(size, int):
        return False
    if size is None:
        return True
    if builder.graph is builder.graphs[0]:
        return not is_positive_for_elements(size)
    return not is_nonnegative(size - 1)


def flatten_empty_rows(builder: Builder, x: Handle) -> Handle:
    """Reshape x to a matrix of its rows: vectors along the last axis. If the last axis is empty, the matrix is [0, 1].

    A kernel that divides by the length of the rows then works. The size of the last axis is no int.
    """
    last = x.rank - 1
    length, unit = builder.dim(x, last), runtime_sizes.scalar(builder, 1)
    count = runtime_sizes.scalar(builder, runtime_sizes.size_product(builder, x, last))
    rows = runtime_sizes.fold_op(builder, "MUL", count, extremes.minimum(builder, unit, length))
    shape = runtime_sizes.stack(builder, [rows, extremes.maximum(builder, unit, length)])
    return builder.add_op("RESHAPE", [x, shape], x.dtype, (None, None))
