"""Helpers that the meanings of many operators share: known values, axes, sizes, dtypes."""

from typing import Any, List, Optional, Sequence

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent
from onnx_compat.ir.dtypes import DType, float32
from onnx_compat.primitives import axis_of, cast, reshape, slice_axis, squeeze
from onnx_compat.tracing.values import Tensor, as_sizes, known_array

__all__ = [
    "Floats",
    "Ints",
    "Strings",
    "align_to_axis",
    "apply_in_float",
    "as_size",
    "compute_dtype",
    "known_integers",
    "known_number",
    "normalize_axes",
    "per_axis",
    "product",
    "split_pads",
    "take_slice",
]

#: The types of optional list attributes; `attribute_types` checks the attributes of a model against them.
Floats = Optional[Sequence[float]]
Ints = Optional[Sequence[int]]
Strings = Optional[Sequence[str]]


def known_integers(tensor: Tensor, description: str) -> List[int]:
    """Return the elements of an integer tensor, flattened, as Python ints.

    Raises NeedsKnownError if the value of the tensor is not known. `description` names the tensor in the error.
    """
    return [int(v) for v in known_array(tensor, description).reshape(-1)]


def known_number(tensor: Tensor, description: str) -> Any:
    """Return the only element of a numeric tensor of any rank as a Python number.

    `description` names the tensor in errors. Raises NeedsKnownError if the value is not known, and InvalidModelError if
    the tensor has another number of elements.
    """
    elements = known_array(tensor, description).reshape(-1)
    if len(elements) != 1:
        raise InvalidModelError("%s is one number, not %d" % (description, len(elements)))
    return elements[0].item()


def as_size(tensor: Tensor, description: str) -> Extent:
    """Return the only element of an integer tensor as a size: an int if the element is known, else a symbolic size.

    `description` names the tensor in errors.

    Raises InvalidModelError if the tensor has another number of elements, or is a run-time tensor of rank 2 or more. A
    run-time vector of unknown length is taken to have one element.
    """
    sizes = as_sizes(tensor, 1)
    if len(sizes) != 1:
        raise InvalidModelError("%s is one number, not %d" % (description, len(sizes)))
    return sizes[0]


def normalize_axes(axes: Sequence[int], rank: int) -> List[int]:
    """Return a list of the axes counted from 0: a negative axis counts from the end, so -1 becomes rank - 1.

    The order of the axes stays. Raises InvalidModelError if an axis is out of range for the rank.
    """
    return [axis_of(int(axis), rank) for axis in axes]


def product(extents: Sequence[Extent]) -> Extent:
    """Return the product of sizes, which may be symbolic; 1 for an empty sequence."""
    total: Extent = 1
    for extent in extents:
        total = total * extent
    return total


def per_axis(values: Optional[Sequence[int]], rank: int, default: int) -> List[int]:
    """Return an attribute like `strides` as a list, with an entry for each of `rank` spatial axes.

    If `values` is None or empty, return [default] * rank. `default` is also the least value of an entry. Raises
    InvalidModelError if the number of entries is not `rank`, or if an entry is below `default`.
    """
    if values and (len(values) != rank or min(values) < default):
        raise InvalidModelError(
            "an attribute %s must have %d entries, each of them %d or more" % (list(values), rank, default),
            hint="strides, dilations and output_padding have an entry for each spatial axis",
        )
    return list(values) if values else [default] * rank


def split_pads(pads: Sequence[Any]) -> List[Any]:
    """Convert the padding [begin_1, begin_2, …, end_1, end_2, …] of ONNX to a list with a pair (begin, end) per axis.

    Raises InvalidModelError for an odd number of entries.
    """
    if len(pads) % 2:
        raise InvalidModelError("the padding %s has no pair of sizes for each axis" % list(pads))
    half = len(pads) // 2
    return list(zip(pads[:half], pads[half:]))


def align_to_axis(vector: Tensor, axis: int, rank: int) -> Tensor:
    """Reshape a vector to a tensor of rank `rank`, with the elements along `axis` and size 1 on every other axis.

    `axis` is from 0 to rank - 1. A scalar counts as a vector of one element.
    """
    vector = reshape(vector, vector.shape if vector.rank else (1,))
    return reshape(vector, tuple(vector.shape[0] if k == axis else 1 for k in range(rank)))


def take_slice(x: Tensor, n: Extent, axis: int = 0) -> Tensor:
    """Return slice `n` of an axis, without that axis: x[n] for axis 0. `n` may be symbolic, but not negative."""
    return squeeze(slice_axis(x, axis, n, n + 1), [axis])


def compute_dtype(x: Tensor, stash: int = 1) -> DType:
    """Return the dtype in which an operator computes: for a float x, the wider of the dtype of x and `stash`.

    If both are equally wide, return the dtype of x. If x is no float, return the dtype with the number `stash`. `stash`
    is a number of TensorProto, as in the attribute `stash_type`; 1 is float32.
    """
    wanted = DType.of(stash)
    return wanted if x.dtype.kind != "f" or x.dtype.bits < wanted.bits else x.dtype


def apply_in_float(function: Any, x: Tensor) -> Tensor:
    """Return function(x).

    If x holds neither floats nor complex numbers, x is cast to float32 first, and the result is cast back to the dtype
    of x.
    """
    return function(x) if x.dtype.kind in "fc" else cast(function(cast(x, float32)), x.dtype)
