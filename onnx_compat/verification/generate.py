"""Generate inputs for a model from a seed.

Open sizes become small numbers; a dimension name has the same size in all inputs. Integers are mostly indices (token
ids, positions), so they are 0 or 1, which are valid for every table of two rows. 8-bit integers of rank 3 or more are
images, and take every value. An input whose name says length, shape, size or repeats is ones. An input named mask has
rows of ones and then zeros.
"""

import re
from typing import Any, Callable, Dict, Iterable, Iterator, Mapping, Optional, Tuple

import numpy as np

from onnx_compat.discovery.memory import check_memory
from onnx_compat.errors import InputError, UnsupportedError
from onnx_compat.ir.dtypes import DType, to_public
from onnx_compat.model.graph import ValueInfo
from onnx_compat.model.types import OptionalType, SequenceType, TensorType, Type

__all__ = ["generate"]

_WORDS = ("a", "onnx", "Tensor", "äöü", "", "zz 9")

_Draw = Callable[[np.random.RandomState, Tuple[int, ...]], Any]


def generate(inputs: Iterable[ValueInfo], seed: int = 0, dims: Optional[Mapping[str, int]] = None) -> Dict[str, Any]:
    """Generate a value for each input from the seed. Return input name -> value.

    `dims`: sizes of named dimensions. Other open sizes are chosen, and small.

    - Raises `InputError` for an unknown name in `dims`, a negative size, and an input larger than the memory.
    - Raises `UnsupportedError` for an input of unknown type, or of another type than tensor, sequence or optional.
    """
    inputs = list(inputs)
    sizes: Dict[str, int] = dict(dims or {})
    _check_sizes(sizes, {name for info in inputs for name in _dimension_names(info.type)})
    # RandomState, not default_rng: NumPy keeps its stream, so a seed gives the same numbers with every version.
    random = np.random.RandomState(seed)
    return {info.name: _generate_value(info.name, info.type, sizes, random) for info in inputs}


def _check_sizes(sizes: Mapping[str, int], names: Iterable[str]) -> None:
    """Raise `InputError` if a size is negative, or if its name is not in `names`, the names of the open dimensions."""
    unknown = sorted(set(sizes) - set(names))
    if unknown:
        raise InputError(
            "the model's inputs have no dimension named %s" % ", ".join(map(repr, unknown)),
            hint="the named dimensions are: %s" % (", ".join(map(repr, sorted(names))) or "none"),
        )
    negative = sorted(name for name, size in sizes.items() if size < 0)
    if negative:
        raise InputError("the size of %s is negative" % ", ".join(map(repr, negative)), hint="give sizes from 0 on")


def _dimension_names(kind: Optional[Type]) -> Iterator[str]:
    """Yield the names of the open dimensions of a type, in a sequence or an optional too. A name may come twice.

    Open dimensions without a name yield nothing, and so does a `kind` of None.
    """
    if isinstance(kind, (SequenceType, OptionalType)):
        yield from _dimension_names(kind.element)
    elif isinstance(kind, TensorType):
        for dim in kind.shape or ():
            if isinstance(dim, str):
                yield dim


def _generate_value(name: str, kind: Optional[Type], sizes: Dict[str, int], random: np.random.RandomState) -> Any:
    """Generate a value of a type: a tensor; for a sequence a list of two elements; for an optional its element.

    `sizes` maps names of dimensions to sizes; newly chosen sizes are added, in place. Raises `UnsupportedError` for
    another type, for the `kind` None, and for a tensor of unknown dtype.
    """
    if isinstance(kind, TensorType) and kind.dtype is not None:
        return _generate_tensor(name, kind.dtype, _choose_shape(kind, sizes), random)
    if isinstance(kind, OptionalType):
        return _generate_value(name, kind.element, sizes, random)
    if isinstance(kind, SequenceType):
        return [_generate_value(name, kind.element, sizes, random) for _ in range(2)]
    raise UnsupportedError(
        "no value can be generated for the input '%s' of type %s" % (name, kind or "unknown"),
        hint="give the inputs yourself",
    )


def _choose_shape(kind: TensorType, sizes: Dict[str, int]) -> Tuple[int, ...]:
    """Return a static shape for a tensor type; () for an unknown rank.

    Store the sizes of named dimensions in `sizes`, and reuse them.
    """
    rank = len(kind.shape or ())
    result = []
    for axis, dim in enumerate(kind.shape or ()):
        if isinstance(dim, str):
            result.append(sizes.setdefault(dim, _default_size(axis, rank)))
        else:
            result.append(_default_size(axis, rank) if dim is None else dim)
    return tuple(result)


def _default_size(axis: int, rank: int) -> int:
    """Return the size of an open axis: 2 for axis 0; 32 from axis 2 on if the rank is 4 or more (images); else 3."""
    if axis == 0:
        return 2  # a batch of 2 shows results that are right for a single sample only
    return 32 if rank >= 4 and axis >= 2 else 3  # 32: an image that can be halved five times


def _generate_tensor(name: str, dtype: DType, shape: Tuple[int, ...], random: np.random.RandomState) -> Any:
    """Generate an array for the input `name`. Raises `InputError` for an array that is larger than the memory."""
    check_memory("the input '%s' of shape %s" % (name, list(shape)), shape, 8)  # numbers are drawn as float64
    return (
        to_public(dtype.round(_generate_numbers(name, dtype, shape, random)), dtype)
        if dtype.kind != "s"
        else _generate_text(shape, random)
    )


def _generate_numbers(name: str, dtype: DType, shape: Tuple[int, ...], random: np.random.RandomState) -> Any:
    """Generate numbers for an input, not yet cast to its dtype. The first rule that holds decides:

    - The dtype is complex: normally distributed.
    - A pattern of `_BY_NAME` matches the name: a mask or ones.
    - The dtype is a float: normally distributed.
    - An integer of 8 bits and rank 3 or more: the whole range.
    - Any other integer, or a bool: 0 or 1.
    """
    if dtype.kind == "c":
        return np.asarray(random.standard_normal(shape)) + 1j * np.asarray(random.standard_normal(shape))
    for pattern, draw in _BY_NAME:
        if pattern.search(name):
            return draw(random, shape)
    if dtype.kind == "f":
        return random.standard_normal(shape)
    if dtype.bits == 8 and len(shape) >= 3:  # an image
        return random.randint(dtype.min, dtype.max + 1, size=shape)
    return random.randint(0, 2, size=shape)


def _generate_text(shape: Tuple[int, ...], random: np.random.RandomState) -> Any:
    words = np.empty(shape, dtype=object)
    for index in np.ndindex(*shape):
        words[index] = _WORDS[random.randint(len(_WORDS))]
    return words


def _generate_mask(random: np.random.RandomState, shape: Tuple[int, ...]) -> Any:
    """Generate a mask like that of a tokenizer: along the last axis at least one 1, then 0. A scalar mask is 1."""
    # The softmax of an attention over a row of zeros is not defined.
    if not shape:
        return np.ones(shape)
    lengths = random.randint(1, max(shape[-1], 1) + 1, size=(*shape[:-1], 1))
    return np.arange(shape[-1]) < lengths


def _generate_ones(_: np.random.RandomState, shape: Tuple[int, ...]) -> Any:
    return np.ones(shape)


_BY_NAME: Tuple[Tuple["re.Pattern[str]", _Draw], ...] = (
    (re.compile(r"mask", re.IGNORECASE), _generate_mask),
    (re.compile(r"len(s|gths?)?$|shape$|sizes?$|repeats?$", re.IGNORECASE), _generate_ones),
)
