"""Check known indices and static sizes against the sizes of tensors, for the primitives of all operators.

Each check raises InvalidModelError; the interpreter adds the node. Symbolic sizes and run-time indices pass: the
reference checks them when it runs, and the behaviour of other runtimes is undefined.
"""

from typing import Optional, Sequence

import numpy as np

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent, is_static
from onnx_compat.tracing.values import Tensor

__all__ = ["check_indices", "check_pieces", "check_rows", "check_same", "check_shape", "first_out_of_range"]


def first_out_of_range(indices: np.ndarray, least: Extent, most: Extent) -> Optional[int]:
    """Return the first index, in row-major order, below `least` or above `most`; None if every index is in range."""
    if not indices.size:
        return None
    if indices.size == 1:
        index = indices.item()
        return None if least <= index <= most else int(index)
    if least <= indices.min() and indices.max() <= most:
        return None
    return int(indices[(indices < least) | (indices > most)][0])


def check_indices(indices: Tensor, extent: Extent, from_end: bool = False) -> None:
    """Raise InvalidModelError if a known index is out of range for an axis of the static length `extent`.

    With `from_end`, the range is -extent to extent - 1, else 0 to extent - 1. Run-time indices are not checked, nor
    any index if `extent` is symbolic.
    """
    if indices.value is None or not is_static(extent) or not indices.known:
        return
    wrong = first_out_of_range(indices.value, -extent if from_end else 0, extent - 1)
    if wrong is not None:
        raise InvalidModelError(
            "the index %d is out of range for an axis of length %s" % (wrong, extent),
            hint="correct the indices in the model, or the shape of the tensor that they select from",
        )


def check_rows(indices: Tensor, shape: Sequence[Extent], from_end: bool = False) -> None:
    """Raise InvalidModelError if the coordinates in `indices` do not fit the axes `shape`.

    A coordinate is a vector along the last axis of `indices`. Its entry k is an index of axis k of `shape`. These cases
    raise:

    - `indices` is a scalar.
    - A coordinate has more entries than `shape` has axes.
    - A known entry is out of range of a static axis. With `from_end`, a negative entry counts from the end.
    """
    depth = indices.shape[-1] if indices.rank else 0
    if not indices.rank or (is_static(depth) and int(depth) > len(shape)):
        raise InvalidModelError(
            "indices of the shape %s cannot select from the axes %s" % (list(indices.shape), list(shape)),
            hint="give the last axis of the indices at most as many entries as the tensor has axes",
        )
    if indices.known and indices.value is not None:
        for k in range(indices.value.shape[-1]):
            column = indices.value[..., k]
            check_indices(Tensor(indices.dtype, column.shape, column), shape[k], from_end)


def check_pieces(sizes: Sequence[Extent], extent: Extent) -> None:
    """Raise InvalidModelError unless the lengths `sizes` of the pieces of an axis fit the length `extent` of the axis.

    No static length may be negative. If all lengths and `extent` are static, the lengths must add up to `extent`.
    """
    if any(is_static(size) and size < 0 for size in sizes):
        raise InvalidModelError("an axis cannot be split into pieces of %s" % list(sizes))
    if all(map(is_static, (*sizes, extent))) and sum(map(int, sizes)) != extent:  # type: ignore[arg-type]  # all are static
        raise InvalidModelError(
            "an axis of length %s cannot be split into pieces of %s" % (extent, list(sizes)),
            hint="choose lengths of the pieces that add up to the length of the axis",
        )


def check_same(subject: str, size: Extent, other_subject: str, expected: Extent) -> None:
    """Raise InvalidModelError if two static sizes differ. A symbolic size is not checked.

    `subject` and `other_subject` describe the two sizes in the error: "the bias length".
    """
    if is_static(size) and is_static(expected) and size != expected:
        raise InvalidModelError("%s is %s, %s is %s: they must be equal" % (subject, size, other_subject, expected))


def check_shape(shape: Sequence[Extent], name: str) -> None:
    """Raise InvalidModelError if a static size or repeat count is negative. `name` is the primitive in the error."""
    for size in shape:
        if isinstance(size, int) and size < 0:
            raise InvalidModelError(
                "'%s' has the negative size %d in %s" % (name, size, list(shape)),
                hint="correct the window, the crop, the shape or the repeat count in the model, or give a larger input",
            )
