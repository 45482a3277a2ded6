"""Look up losses, metrics, optimizers and schedules by name, and check their options."""

import difflib
import inspect
import math
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, TypeVar

from onnx_compat.errors import InputError

__all__ = ["check_options", "find", "keyword_defaults", "number"]

T = TypeVar("T")


def _normalize(name: str) -> str:
    """Return a name in lower case without separators: MeanSquaredError and mean_squared_error are equal then."""
    return name.replace("_", "").replace("-", "").replace(" ", "").lower()


def find(kind: str, name: object, table: Mapping[str, T], aliases: Optional[Mapping[str, str]] = None) -> T:
    """Return the entry of `table` for a name in any spelling: the key, the class name of Keras, or one of `aliases`.

    - kind: what the entries are, for the error: "loss".
    - aliases: alias in lower case -> key of `table`.

    Raises InputError for another name. The error suggests the nearest key.
    """
    if not isinstance(name, str):
        raise InputError("a %s is given by its name, not as %s" % (kind, type(name).__name__))
    keys = {_normalize(key): key for key in table}
    wanted = _normalize(name)
    key = keys.get(wanted, (aliases or {}).get(wanted))
    if key is not None:
        return table[key]
    close = difflib.get_close_matches(wanted, keys, 1)
    hint = "did you mean '%s'?" % keys[close[0]] if close else "use one of %s" % ", ".join(sorted(table))
    raise InputError("there is no %s '%s'" % (kind, name), hint=hint)


def keyword_defaults(function: Callable[..., Any]) -> Dict[str, Any]:
    """Return the keyword-only parameters of a function: name -> default value."""
    parameters = inspect.signature(function).parameters.values()
    return {item.name: item.default for item in parameters if item.kind is inspect.Parameter.KEYWORD_ONLY}


def check_options(subject: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Raise InputError if a name in `options` is not in `known`. The error suggests the nearest name.

    `subject` names the owner of the options in the error: "the loss 'huber'".
    """
    known = sorted(known)
    for option in options:
        if option in known:
            continue
        close = difflib.get_close_matches(option, known, 1)
        hint = "did you mean '%s'?" % close[0] if close else "its options are: %s" % (", ".join(known) or "none")
        raise InputError("%s has no option '%s'" % (subject, option), hint=hint)


def number(name: str, value: Any, interval: str = "(-inf, inf)") -> float:
    """Return an option that must be a finite number in an interval such as "[0, 1)": from 0 to 1, without 1.

    `name` is the option in the error. Raises InputError for another value.
    """
    low, high = (float(end) for end in interval[1:-1].split(","))
    try:
        is_inside = not isinstance(value, bool) and math.isfinite(value)
    except TypeError:
        is_inside = False
    if is_inside:
        number: float = value
        above = number > low if interval[0] == "(" else number >= low
        if above and (number < high if interval[-1] == ")" else number <= high):
            return number
    raise InputError("%s must be a number in %s, not %r" % (name, interval, value))
