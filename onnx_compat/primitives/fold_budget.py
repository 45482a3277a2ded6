"""The budget of constant folding: estimate what a primitive computes before it is folded.

A model of a few bytes can describe a constant of terabytes: by Expand, by a chain in which each Concat doubles its
input, by a convolution with a large padding. Such a value is recorded, and computed at run time if an output needs it.
"""

from typing import TYPE_CHECKING, Any, Callable, Iterable, Sequence

import numpy as np

from onnx_compat.limits import limit
from onnx_compat.tracing.trace import current_trace

if TYPE_CHECKING:
    from onnx_compat.ir import Spec
    from onnx_compat.primitives.base import Application

__all__ = ["is_affordable"]

Array = Any  # a numpy array: the stubs of numpy 1.16 to 2.x differ
#: Primitives whose result can be larger than the product of their arguments' sizes.
_GROWING = frozenset(["arange", "avg_pool", "broadcast_to", "conv", "conv_transpose", "max_pool", "pad", "tile"])
#: A trace may fold this many times the limit, in results of more than `_SMALL` elements.
_REPEATED, _SMALL = 32, 2**20


def is_affordable(
    name: str,
    arrays: Sequence[Array],
    apply: "Callable[[], Application]",
    infer: "Callable[[Application], Sequence[Spec]]",
) -> bool:
    """Return whether the limits `folded_elements` and `folded_products` allow to fold a primitive.

    - name: the primitive.
    - arrays: the values of the tensor arguments, also of those in lists.
    - apply: a function that returns the application of the primitive, with these tensors as constants.
    - infer: the inference rule of the primitive. An error of the rule is raised.

    A result of more than 2^20 elements that is within the limits is added to `Trace.folded_elements`. Returns False
    also if this total is then above 32 times the limit of elements.
    """
    largest = limit("folded_elements")
    if name == "string_concat":
        return _product(max(array.size, 1) for array in arrays) * sum(map(_longest_text, arrays)) <= largest
    if name == "arange":
        return _arange_length(*arrays) <= largest
    sizes = [array.size or 1 for array in arrays]
    if name not in _GROWING and _is_small(sizes, min(largest, _SMALL, limit("folded_products"))):
        return True
    trace, at = current_trace(), apply()
    allowed = max([largest, trace.stored_elements, *map(_count_stored, arrays)])
    count = max([0, *(_count_elements(spec.shape) for spec in infer(at))])
    if max([count, *sizes]) > allowed or _count_products(arrays, at, count) > limit("folded_products"):
        return False
    if count > _SMALL:
        trace.folded_elements += count
    return trace.folded_elements <= _REPEATED * allowed


def _is_small(sizes: Sequence[int], largest: int) -> bool:
    """Return whether both the product and the sum of the sizes are at most `largest`.

    If so, no primitive on arguments of these sizes has a larger result, except primitives such as `pad` and `conv`.
    """
    product = 1
    for size in sizes:
        product *= size
        if product > largest:
            return False
    return sum(sizes) <= largest


def _product(numbers: Iterable[Any]) -> int:
    total = 1
    for number in numbers:
        total *= int(number)
    return total


def _count_elements(shape: Sequence[Any]) -> int:
    """Return the product of the static sizes of a shape."""
    return _product(size for size in shape if isinstance(size, (int, np.integer)))


def _count_stored(array: Array) -> int:
    """Return the number of elements that an array stores; the elements of a broadcast view count once."""
    return _product(size for size, stride in zip(array.shape, array.strides) if stride)


def _count_products(arrays: Sequence[Array], at: "Application", count: int) -> int:
    """Return the number of multiplications of a matrix product or convolution with `count` results; else 0."""
    if at.primitive == "matmul":
        return count * int(arrays[0].shape[-2 if at.params.get("transpose_x") else -1])
    if at.primitive in ("conv", "conv_transpose"):
        per_element = arrays[1].size // max(arrays[1].shape[0], 1)
        return int(per_element) * (count if at.primitive == "conv" else int(arrays[0].size))
    return 0


def _arange_length(start: Array, stop: Array, step: Array) -> float:
    if any(array.dtype == object for array in (start, stop, step)) or not step.reshape(()):
        return 0
    with np.errstate(all="ignore"):
        length = float((float(stop.reshape(())) - float(start.reshape(()))) / float(step.reshape(())))
    return 0 if np.isnan(length) else length


def _longest_text(array: Array) -> int:
    return max(map(len, array.reshape(-1)), default=0)
