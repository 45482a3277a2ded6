"""Primitives on strings."""

from typing import Any

from onnx_compat.dtypes import string
from onnx_compat.primitives.base import primitive
from onnx_compat.primitives.elementwise import elementwise
from onnx_compat.value import Tensor, lift


@primitive("s")
def string_lower(x: Any) -> Tensor:
    """Every letter in lower case, by Unicode's rules."""
    return elementwise("string_lower", [lift(x)], string)


@primitive("s")
def string_upper(x: Any) -> Tensor:
    """Every letter in upper case, by Unicode's rules."""
    return elementwise("string_upper", [lift(x)], string)
