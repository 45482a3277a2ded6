"""Inputs for a model that nobody gave inputs for: repeatable, and harmless to most models.

Unknown sizes become small numbers, the same for the same dimension name. Integers are mostly indices of some
kind (token ids, positions), so they stay in [0, 2), which every table of two rows can answer; what a name says (a mask,
a length, a shape) is believed.
"""

import re
from typing import Any, Callable, Dict, Iterable, Iterator, Mapping, Optional, Tuple

import numpy as np

from onnx_compat.errors import InputError, UnsupportedError
from onnx_compat.ir.dtypes import DType, to_public
from onnx_compat.model.graph import ValueInfo
from onnx_compat.model.types import OptionalType, SequenceType, TensorType, Type

__all__ = ["generate"]

_WORDS = ("a", "onnx", "Tensor", "äöü", "", "zz 9")

_Draw = Callable[[np.random.RandomState, Tuple[int, ...]], Any]


def generate(inputs: Iterable[ValueInfo], seed: int = 0, dims: Optional[Mapping[str, int]] = None) -> Dict[str, Any]:
    """A value for each input. `dims` gives the sizes of named dimensions; the others get small ones."""
    inputs = list(inputs)
    sizes: Dict[str, int] = dict(dims or {})
    _check(sizes, {name for one in inputs for name in _dimensions(one.type)})
    # RandomState, not default_rng: its stream is frozen, so that a seed means the same numbers under every numpy.
    random = np.random.RandomState(seed)
    return {one.name: _value(one.name, one.type, sizes, random) for one in inputs}


def _check(sizes: Mapping[str, int], names: Iterable[str]) -> None:
    unknown = sorted(set(sizes) - set(names))
    if unknown:
        raise InputError(
            "the model's inputs have no dimension named %s" % ", ".join(map(repr, unknown)),
            hint="it has %s" % (", ".join(map(repr, sorted(names))) or "no named dimension at all"),
        )
    negative = sorted(name for name, size in sizes.items() if size < 0)
    if negative:
        raise InputError("the size of %s is negative" % ", ".join(map(repr, negative)))


def _dimensions(kind: Optional[Type]) -> Iterator[str]:
    if isinstance(kind, (SequenceType, OptionalType)):
        yield from _dimensions(kind.element)
    elif isinstance(kind, TensorType):
        for dim in kind.shape or ():
            if isinstance(dim, str):
                yield dim


def _value(name: str, kind: Optional[Type], sizes: Dict[str, int], random: np.random.RandomState) -> Any:
    if isinstance(kind, TensorType) and kind.dtype is not None:
        return _tensor(name, kind.dtype, _shape(kind, sizes), random)
    if isinstance(kind, OptionalType):
        return _value(name, kind.element, sizes, random)
    if isinstance(kind, SequenceType):
        return [_value(name, kind.element, sizes, random) for _ in range(2)]
    raise UnsupportedError(
        "no value can be made up for the input '%s' of type %s" % (name, kind or "unknown"),
        hint="give the inputs yourself",
    )


def _shape(kind: TensorType, sizes: Dict[str, int]) -> Tuple[int, ...]:
    rank = len(kind.shape or ())
    result = []
    for axis, dim in enumerate(kind.shape or ()):
        if isinstance(dim, str):
            result.append(sizes.setdefault(dim, _default(axis, rank)))
        else:
            result.append(_default(axis, rank) if dim is None else dim)
    return tuple(result)


def _default(axis: int, rank: int) -> int:
    """A batch of 2 shows what holds for one sample only; images are large enough to survive five halvings."""
    if axis == 0:
        return 2
    return 32 if rank >= 4 and axis >= 2 else 3


def _tensor(name: str, dtype: DType, shape: Tuple[int, ...], random: np.random.RandomState) -> Any:
    return (
        to_public(dtype.round(_numbers(name, dtype, shape, random)), dtype)
        if dtype.kind != "s"
        else _text(shape, random)
    )


def _numbers(name: str, dtype: DType, shape: Tuple[int, ...], random: np.random.RandomState) -> Any:
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


def _text(shape: Tuple[int, ...], random: np.random.RandomState) -> Any:
    words = np.empty(shape, dtype=object)
    for index in np.ndindex(*shape):
        words[index] = _WORDS[random.randint(len(_WORDS))]
    return words


def _prefix_of_ones(random: np.random.RandomState, shape: Tuple[int, ...]) -> Any:
    """A mask as a tokenizer makes it: each row begins with at least one 1; a row of zeros would attend to nothing."""
    if not shape:
        return np.ones(shape)
    lengths = random.randint(1, max(shape[-1], 1) + 1, size=(*shape[:-1], 1))
    return np.arange(shape[-1]) < lengths


def _ones(_: np.random.RandomState, shape: Tuple[int, ...]) -> Any:
    return np.ones(shape)


_BY_NAME: Tuple[Tuple["re.Pattern[str]", _Draw], ...] = (
    (re.compile(r"mask", re.IGNORECASE), _prefix_of_ones),
    (re.compile(r"len(s|gths?)?$|shape$|sizes?$|repeats?$", re.IGNORECASE), _ones),
)
