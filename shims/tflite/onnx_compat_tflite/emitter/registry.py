"""The table of primitives and natives: the function that emits each, by its name.

A function takes the builder of the node, the arguments by position, and the parameters by name. `TFLiteEmitter` calls it.
"""

from typing import Any, Callable, Dict, Optional, Tuple, TypeVar

from onnx_compat.shim import native as declare_native

__all__ = ["FUNCTIONS", "native", "primitive", "register"]

F = TypeVar("F", bound=Callable[..., Any])
FUNCTIONS: Dict[str, Callable[..., Any]] = {}


def register(name: str, function: F) -> F:
    """Enter a function in `FUNCTIONS` under a name, and return the function. Raises ValueError if the name is taken."""
    if name in FUNCTIONS:
        raise ValueError("'%s' is emitted by %s already" % (name, FUNCTIONS[name].__module__))
    FUNCTIONS[name] = function
    return function


def primitive(function: F) -> F:
    """Register a function as the emitter of the primitive that has the function's name, and return the function.

    Raises ValueError if the name is taken.
    """
    return register(function.__name__, function)


def native(
    operator: str,
    accepts: Optional[Callable[..., bool]] = None,
    domain: str = "",
    spatial: bool = False,
    stored: Optional[Tuple[int, ...]] = None,
) -> Callable[[F], F]:
    """Return a decorator that registers a function as the emitter of a whole ONNX operator, under the function's name.

    operator, domain: the ONNX operator.
    accepts: `accepts(node, inputs, attributes)` says whether the function can compute a node; by default it can.
    spatial: whether the first input, and a first output of rank 3 or more, are channels last.
    stored: the order of axes of the first output, if `spatial` does not apply. None is the logical order.

    The decorator returns the function. It raises ValueError if a function of this name is already registered.
    """

    def decorate(function: F) -> F:
        declared: F = declare_native(operator, accepts, domain, spatial, stored=stored)(function)
        return primitive(declared)

    return decorate
