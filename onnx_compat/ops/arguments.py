"""Small things that the meanings of many operators share."""

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

#: The types of list attributes that may be absent; `registry` checks a model's attributes against them.
Floats = Optional[Sequence[float]]
Ints = Optional[Sequence[int]]
Strings = Optional[Sequence[str]]


def known_integers(tensor: Tensor, what: str) -> List[int]:
    """The elements of an integer tensor, now."""
    return [int(v) for v in known_array(tensor, what).reshape(-1)]


def known_number(tensor: Tensor, what: str) -> Any:
    """The only element of a tensor, now, as a Python number."""
    elements = known_array(tensor, what).reshape(-1)
    if len(elements) != 1:
        raise InvalidModelError("%s is one number, not %d" % (what, len(elements)))
    return elements[0].item()


def as_size(tensor: Tensor, what: str) -> Extent:
    """The only element of an integer tensor as a size: a number where known, a symbol where not."""
    sizes = as_sizes(tensor)
    if len(sizes) != 1:
        raise InvalidModelError("%s is one number, not %d" % (what, len(sizes)))
    return sizes[0]


def normalize_axes(axes: Sequence[int], rank: int) -> List[int]:
    """Logical axes counted from the front."""
    return [axis_of(int(axis), rank) for axis in axes]


def product(extents: Sequence[Extent]) -> Extent:
    total: Extent = 1
    for extent in extents:
        total = total * extent
    return total


def per_axis(values: Optional[Sequence[int]], count: int, default: int) -> List[int]:
    """An attribute with an entry for each spatial axis, or its default for each; no entry is below the default."""
    if values and (len(values) != count or min(values) < default):
        raise InvalidModelError(
            "an attribute %s must have %d entries, each %d at least" % (list(values), count, default),
            hint="strides, dilations and the like have one entry for each spatial axis",
        )
    return list(values) if values else [default] * count


def split_pads(pads: Sequence[Any]) -> List[Any]:
    """[x1_begin, x2_begin … x1_end, x2_end …] as (begin, end) for each axis."""
    if len(pads) % 2:
        raise InvalidModelError("the padding %s has no pair of sizes for each axis" % list(pads))
    half = len(pads) // 2
    return list(zip(pads[:half], pads[half:]))


def align_to_axis(vector: Any, axis: int, rank: int) -> Tensor:
    """A vector shaped to lie along one axis of something of this rank."""
    vector = reshape(vector, vector.shape if vector.rank else (1,))
    return reshape(vector, tuple(vector.shape[0] if k == axis else 1 for k in range(rank)))


def take_slice(x: Any, n: Any, axis: int = 0) -> Tensor:
    """One slice of an axis, which is gone from it; `n` counts from the front."""
    return squeeze(slice_axis(x, axis, n, n + 1), [axis])


def compute_dtype(x: Tensor, stash: int = 1) -> DType:
    """The dtype in which an operator with a `stash_type` computes: the stash where it is wider than x."""
    wanted = DType.of(stash)
    return wanted if x.dtype.kind != "f" or x.dtype.bits < wanted.bits else x.dtype


def apply_in_float(function: Any, x: Tensor) -> Tensor:
    """A function of floats applied to numbers of any type: integers go through float32 and come back."""
    return function(x) if x.dtype.kind in "fc" else cast(function(cast(x, float32)), x.dtype)
