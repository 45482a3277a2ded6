"""Where the meanings of operators are registered and found.

    @op("HardSwish", since=14)
    def hard_swish(x):
        return x * clip(x / 6 + 0.5, 0, 1)

The function's signature is the operator's schema: positional parameters are inputs under ONNX's names (one with a
default may be left out and is then None or the default; `*xs` takes any number, none of them left out), keyword-only
parameters are attributes with ONNX's defaults (one without a default is required), of the type that the annotation says.
A first parameter named `ctx` gets the node's `Context`.
"""

import functools
import importlib
import inspect
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple, TypeVar, Union

from onnx_compat.errors import InvalidModelError, UnsupportedError
from onnx_compat.ops import attribute_types

__all__ = ["OPERATORS", "REQUIRED", "Operator", "lookup", "op", "registered"]

#: The default of a required input that comes after an optional one: Python asks for a default there.
REQUIRED: Any = inspect.Parameter.empty

#: What to do about the operators of a domain that has no meanings by intent.
_REFUSED = {
    "com.microsoft.nchwc": "they fit only the processor they were written for: let onnxruntime write the model with"
    " ORT_ENABLE_EXTENDED, not ORT_ENABLE_ALL (level 99)"
}

F = TypeVar("F", bound=Callable[..., Any])


class Operator(NamedTuple):
    """One meaning: what an operator does from one version of its domain on."""

    name: str
    domain: str
    since: int
    function: Callable[..., Any]
    inputs: Tuple[inspect.Parameter, ...]
    attributes: Dict[str, inspect.Parameter]
    context: bool

    def bind(self, inputs: Sequence[Any], attributes: Dict[str, Any]) -> Dict[str, Any]:
        """Check a call against the signature; gives the keyword arguments."""
        variadic = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in self.inputs)
        if len(inputs) > len(self.inputs) and not variadic:
            raise InvalidModelError("%d inputs were given, %s takes %d" % (len(inputs), self.name, len(self.inputs)))
        for k, parameter in enumerate(self.inputs):
            if parameter.kind is parameter.VAR_POSITIONAL:
                _check_variadic(parameter.name, inputs, k)
            elif (k >= len(inputs) or inputs[k] is None) and parameter.default is parameter.empty:
                raise InvalidModelError("the input '%s' (number %d) is missing" % (parameter.name, k))
        attributes = {name: value for name, value in attributes.items() if name not in _IGNORED}
        for name, value in attributes.items():
            if name not in self.attributes:
                raise InvalidModelError("%s has no attribute '%s' in this version" % (self.name, name))
            attribute_types.check(self.name, self.function, name, value)
        for name, parameter in self.attributes.items():
            if parameter.default is parameter.empty and name not in attributes:
                raise InvalidModelError("the attribute '%s' is missing" % name)
        return attributes


def _check_variadic(name: str, inputs: Sequence[Any], start: int) -> None:
    """Refuse an empty name among the inputs that a variadic parameter takes: onnxruntime crashes on it."""
    for k, value in enumerate(inputs[start:]):
        if value is None:
            raise InvalidModelError(
                "the input '%s' (number %d) is missing: element %d of a variadic input" % (name, start + k, k),
                hint="give the input a value, or remove its empty name from the node",
            )


OPERATORS: Dict[Tuple[str, str], Dict[int, Operator]] = {}
#: Attributes of the first versions that never meant anything to an execution.
_IGNORED = frozenset(["consumed_inputs"])


def op(name: str, since: Union[int, Sequence[int]], domain: str = "") -> Callable[[F], F]:
    """Register a function over primitives as the meaning of an operator.

    Positional parameters of the function are inputs of the operator, keyword-only parameters are attributes. A meaning
    that is registered outside of the library replaces a meaning of the library for the same version.

    Args:
        name: The name of the operator.
        since: The version of the operator set in which this meaning begins; several if later versions confirm it.
        domain: The domain of the operator; "" is ai.onnx.

    Returns:
        A decorator, which returns the function as it is.

    Examples:
        >>> @onnx_compat.op("Twice", since=1, domain="my.domain")
        ... def twice(x):
        ...     return x + x
    """

    def register(function: F) -> F:
        if not str(function.__module__).startswith(__package__):
            _load()  # a meaning from outside comes after our own, and takes its place
        parameters = list(inspect.signature(function).parameters.values())
        context = bool(parameters) and parameters[0].name == "ctx"
        inputs = tuple(p for p in parameters[context:] if p.kind is not p.KEYWORD_ONLY)
        attributes = {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}
        for version in [since] if isinstance(since, int) else since:
            meaning = Operator(name, domain, version, function, inputs, attributes, context)
            OPERATORS.setdefault((domain, name), {})[version] = meaning
        return function

    return register


def lookup(domain: str, name: str, opset: int) -> Operator:
    """The meaning of an operator under an opset: its latest version that is not newer."""
    _load()
    versions = OPERATORS.get((domain, name))
    if versions is None:
        _load_installed()
        versions = OPERATORS.get((domain, name))
    if versions is None:
        raise UnsupportedError(
            _unknown(domain, name),
            hint=_REFUSED.get(domain, "register a meaning for it: docs/howto/custom-operator.md"),
        )
    fitting = [version for version in versions if version <= opset]
    if not fitting:
        first = min(versions)
        raise UnsupportedError(
            "%s is known from opset %d on, the model uses opset %d" % (name, first, opset),
            hint="export the model again with opset %d or newer" % first,
        )
    return versions[max(fitting)]


def registered() -> List[Operator]:
    """Every meaning that there is."""
    _load()
    return [meaning for versions in OPERATORS.values() for meaning in versions.values()]


def _unknown(domain: str, name: str) -> str:
    if domain:
        return "no meaning is known for the custom operator %s::%s" % (domain, name)
    return "there is no operator '%s'" % name


def _load() -> None:
    """Import the families on first use: `import onnx_compat` alone does not pay for them."""
    importlib.import_module("onnx_compat.ops.families")


@functools.lru_cache(maxsize=None)
def _load_installed() -> None:
    """Import the operators of other packages, which name their modules in the entry point group `onnx_compat.ops`."""
    from onnx_compat.discovery.selection import entry_points

    for point in entry_points("onnx_compat.ops").values():
        point.load()
