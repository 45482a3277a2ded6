"""Register an older version of an operator with the function of a newer version that has more attributes."""

import inspect
from typing import Any, Callable, Sequence, Tuple

__all__ = ["ignored_attributes", "newer_function", "older_version"]


def older_version(
    function: Callable[..., Any], without: Sequence[str] = (), ignored: Sequence[str] = ()
) -> Callable[..., Any]:
    """Return a function that calls `function`, and has the signature of an older version of the operator.

    `without` names parameters that the older version lacks; they keep their defaults. `ignored` names integer
    attributes of the older version that do not change the result.
    """

    def meaning(*inputs: Any, **attributes: Any) -> Any:
        return function(*inputs, **{name: value for name, value in attributes.items() if name not in ignored})

    signature = inspect.signature(function)
    parameters = [parameter for parameter in signature.parameters.values() if parameter.name not in without]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=int) for name in ignored
    ]
    meaning.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # typeshed has no __signature__ on functions
    meaning.__doc__ = function.__doc__
    meaning.newer_function = function  # type: ignore[attr-defined]  # an attribute of this module
    meaning.ignored = tuple(ignored)  # type: ignore[attr-defined]  # an attribute of this module
    return meaning


def newer_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that computes the results of a meaning: the newest function that `older_version` wraps.

    A meaning that is no result of `older_version` is returned itself.
    """
    while hasattr(function, "newer_function"):
        function = function.newer_function
    return function


def ignored_attributes(function: Callable[..., Any]) -> Tuple[str, ...]:
    """Return the names of the attributes that do not change the result of a meaning: `ignored` of `older_version`.

    Return () for a meaning that is no result of `older_version`.
    """
    return getattr(function, "ignored", ())
