"""Cases of the primitives on strings."""

from typing import Any

import numpy as np

from cases.making import Making, case
from onnx_compat import primitives
from onnx_compat.ir.dtypes import float32, float64, int32, int64

_SENTENCES = ["", " ", "a", "b,c", ",", " x  y\tz ", "a,,b,", "one two three four", "Grüße, 日本, ÉTÉ", "--a--b"]
_PATTERNS = ["", "a", "[a-z]+", "(\\w|,)*", "(?i)\\x{c9}.É|x.y", "\\D+$", "^[[:alpha:]]?$", "Gr..e|日{1}本"]


def _texts(make: Making, shape: Any) -> Any:
    texts = np.empty(shape, object)
    for index in np.ndindex(*shape):
        texts[index] = _SENTENCES[make.order(len(_SENTENCES))[0]]
    return texts


@case("string_concat")
def string_concat(make: Making) -> Any:
    full = make.shape()
    x = make.feed_or_fix(_texts(make, make.narrow(full)))
    y = make.feed(_texts(make, full))
    if make.yes():
        return lambda *tensors: primitives.string_concat(tensors[y], x(tensors))
    return lambda *tensors: primitives.string_concat(x(tensors), tensors[y])


@case("string_match")
def string_match(make: Making) -> Any:
    pattern = make.choose(_PATTERNS)
    make.note(pattern=pattern)
    make.feed(make.values(make.shape()) if make.yes() else _texts(make, make.shape()))
    return lambda x: primitives.string_match(x, pattern)


@case("string_split")
def string_split(make: Making) -> Any:
    params = make.note(delimiter=make.choose([None, "", ",", "--", " "]), limit=make.choose([None, None, 1, 2]))
    make.feed(_texts(make, make.shape()))
    return lambda x: primitives.string_split(x, **params)


@case("string_rank")
def string_rank(make: Making) -> Any:
    make.feed(_texts(make, make.shape()))
    return primitives.string_rank


@case("to_text")
def to_text(make: Making) -> Any:
    make.feed(make.values(make.shape()))
    make.exact = True
    return primitives.to_text


_NUMBERS = ["0", "-1", "17", "3.5", "-0.25", "1e-05", "2.5E+2", "0.1", "100"]
_BEYOND = ["NaN", "INF", "+INF", "-INF", "nan", "inf"]


@case("from_text")
def from_text(make: Making) -> Any:
    """Parse strings into any dtype that the shim may have; `make.dtype` is the dtype of the text."""
    dtype = make.choose([float32, float64, int32, int64])
    make.note(dtype=dtype)
    texts = np.empty(make.shape(), object)
    for index in np.ndindex(*texts.shape):
        texts[index] = make.choose(_NUMBERS + (_BEYOND if dtype.kind == "f" else []))
    make.feed(texts)
    return lambda x: primitives.from_text(x, dtype)
