"""The table of primitives and natives: the function that emits each, by its name.

A function takes the builder of the node, the arguments by position, and the parameters by name. `TFLiteEmitter` calls it.
"""

from typing import Any, Callable, Dict, Optional, Tuple, TypeVar

from onnx_compat.shim import native as declare_native

__all__ = ["FUNCTIONS", "native", "primitive", "register"]

F = TypeVar("F", bound=Callable[..., Any])
FUNCTIONS: Dict[str, Callable[..., Any]] = {}


def register(name: str, function: F) -> F:
    """Enter a function under a name, and return it. Raises ValueError if the name has a function."""
    if name in FUNCTIONS:
        raise ValueError("'%s' is emitted by %s already" % (name, FUNCTIONS[name].__module__))
    FUNCTIONS[name] = function
    return function


def primitive(function: F) -> F:
    """Register a function as the emitter of the primitive of its name, and return it.

    Raises ValueError if the name is registered already.
    """
    return register(function.__name__, function)


def native(
    operator: str,
    accepts: Optional[Callable[..., bool]] = None,
    domain: str = "",
    spatial: bool = False,
    stored: Optional[Tuple[int, ...]] = None,
) -> Callable[[F], F]:
    """Return a decorator that registers a function as the emitter of a whole ONNX operator.

    The arguments are those of `onnx_compat.shim.native`. The decorator raises ValueError if the function's name is
    taken.
    """

    def decorate(function: F) -> F:
        declared: F = declare_native(operator, accepts, domain, spatial, stored=stored)(function)
        return primitive(declared)

    return decorate
