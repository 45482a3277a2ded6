"""String primitives in numpy, on object arrays of str."""

import re
from typing import Any, Optional, Tuple

import numpy as np

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import DType
from onnx_compat.reference.arrays import Array
from onnx_compat.reference.automaton import Automaton

__all__ = ["Text"]

_LOWER = np.frompyfunc(str.lower, 1, 1)
_UPPER = np.frompyfunc(str.upper, 1, 1)
_BLANK = " \t\n\v\f\r"
_BLANKS = re.compile("[%s]+" % _BLANK)
_CONCAT = np.frompyfunc(lambda x, y: x + y, 2, 1)


class Text:
    """The primitives of `onnx_compat.primitives.text` in numpy."""

    def string_lower(self, x: Array) -> Any:
        return np.asarray(_LOWER(x), object)

    def string_upper(self, x: Array) -> Any:
        return np.asarray(_UPPER(x), object)

    def string_concat(self, x: Array, y: Array) -> Any:
        return np.asarray(_CONCAT(x, y), object)

    def string_match(self, x: Array, pattern: str) -> Any:
        return np.asarray(np.frompyfunc(Automaton(pattern).fullmatch, 1, 1)(x)).astype(bool)

    def string_split(self, x: Array, delimiter: Optional[str], limit: Optional[int]) -> Tuple[Any, Any]:
        most = -1 if limit is None else limit
        if delimiter is None:
            rows = [
                _BLANKS.split(text.strip(_BLANK), max(most, 0)) if most else [text.strip(_BLANK)] for text in x.flat
            ]
            rows = [row if row[0] else [] for row in rows]
        else:
            rows = [text.split(delimiter, most) for text in x.flat]
        longest = max(map(len, rows), default=0)
        pieces = np.full((len(rows), longest), "", object)
        for k, row in enumerate(rows):
            pieces[k, : len(row)] = row
        counts = np.asarray([len(row) for row in rows], np.int64)
        return pieces.reshape((*x.shape, longest)), counts.reshape(x.shape)

    def string_rank(self, x: Array) -> Any:
        ranks = {text: k for k, text in enumerate(sorted(set(x.reshape(-1))))}
        return np.asarray([ranks[text] for text in x.reshape(-1)], np.int64).reshape(x.shape)

    def to_text(self, x: Array, dtype: DType) -> Any:
        if dtype.format is not None:
            x = np.asarray(x, np.float32)
        texts = np.empty(x.shape, object)
        for index in np.ndindex(
            *x.shape
        ):  # str of a numpy scalar has the digits of its dtype; str of a Python float has those of float64
            texts[index] = str(x[index])
        return texts

    def from_text(self, x: Array, dtype: DType) -> Any:
        numbers = [_parse_number(text, dtype) for text in x.reshape(-1)]
        values = np.asarray(numbers, np.float64 if dtype.kind == "f" else object).astype(dtype.numpy)
        return values.reshape(x.shape)


def _parse_number(text: str, dtype: DType) -> Any:
    """Return the number in a text, an int unless `dtype` is a float dtype. Raises InvalidModelError for another text.

    For an integer dtype, an integer out of its range raises InvalidModelError as well.
    """
    try:
        if "_" in text:
            raise ValueError("an underscore, which Python allows between digits")
        if dtype.kind == "f":
            return float(text)
        number = _parse_integer(text)
    except (ValueError, OverflowError) as error:  # OverflowError: the integer of infinity
        raise InvalidModelError("the text %r is no number of the type %s" % (text[:40], dtype.name)) from error
    if dtype.kind != "b" and not dtype.min <= number <= dtype.max:
        raise InvalidModelError("the number %s does not fit the type %s" % (text[:40], dtype.name))
    return number


def _parse_integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(float(text))
