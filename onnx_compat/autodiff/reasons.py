"""The primitives without a derivative, and the reason for each. A primitive has a rule or a reason, and never both."""

from typing import Dict

__all__ = ["REASONS"]

_INTEGERS = "its results are integers"
_TEXT = "its arguments or its results are text"
_DRAWN = "it draws its result, and has no argument to differentiate by"

#: Primitive -> why it has no derivative.
REASONS: Dict[str, str] = {
    "bitcast": "it reads the bits of a number, which do not change continuously",
    "bitwise_and": _INTEGERS,
    "bitwise_not": _INTEGERS,
    "bitwise_or": _INTEGERS,
    "bitwise_xor": _INTEGERS,
    "from_text": _TEXT,
    "image_decode": "it decodes the bytes of a file",
    "random_normal": _DRAWN,
    "random_uniform": _DRAWN,
    "shift_left": _INTEGERS,
    "shift_right": _INTEGERS,
    "string_concat": _TEXT,
    "string_lower": _TEXT,
    "string_match": _TEXT,
    "string_rank": _TEXT,
    "string_split": _TEXT,
    "string_upper": _TEXT,
    "to_text": _TEXT,
}
