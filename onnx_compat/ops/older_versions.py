"""An older version of an operator that differs from a younger one only in attributes that it does not have yet."""

import inspect
from typing import Any, Callable, Sequence

__all__ = ["older_version"]


def older_version(
    function: Callable[..., Any], without: Sequence[str] = (), ignored: Sequence[str] = ()
) -> Callable[..., Any]:
    """The function with a signature that lacks some parameters (they keep their defaults), and has some attributes of
    its own time that change nothing about what is computed (integers, all of them).
    """

    def meaning(*inputs: Any, **attributes: Any) -> Any:
        return function(*inputs, **{name: value for name, value in attributes.items() if name not in ignored})

    signature = inspect.signature(function)
    kept = [parameter for parameter in signature.parameters.values() if parameter.name not in without]
    kept += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=int) for name in ignored]
    meaning.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    meaning.__doc__ = function.__doc__
    return meaning
