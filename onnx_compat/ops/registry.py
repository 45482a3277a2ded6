"""Register the meanings of operators, and look them up.

    @op("HardSwish", since=14)
    def hard_swish(x):
        return x * clip(x / 6 + 0.5, 0, 1)

The signature of the function is the schema of the operator:

- Positional parameters are inputs under ONNX's names. An input with a default is optional. `*xs` is a variadic input;
  none of its elements may be missing.
- Keyword-only parameters are attributes with ONNX's defaults, of the annotated type. An attribute without a default is
  required.
- A first parameter named `ctx` gets the node's `Context`.

`lookup` imports the meanings of ai.onnx on first use. Meanings of other domains come from entry points in the group
`onnx_compat.ops`, of this library and of other packages alike:

- An entry point named like a domain is loaded by the first lookup in that domain.
- All entry points are loaded by the first lookup of an operator that is still unknown.
"""

import difflib
import functools
import importlib
import inspect
import warnings
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple, TypeVar, Union

from onnx_compat.discovery import environment
from onnx_compat.errors import InvalidModelError, UnsupportedError
from onnx_compat.escaping import printable
from onnx_compat.ops import attribute_types
from onnx_compat.ops.attribute_types import is_own
from onnx_compat.tracing.trace import current_trace

__all__ = ["OPERATORS", "REQUIRED", "Operator", "all_meanings", "has_meaning", "lookup", "op"]

#: The default of a required input that comes after an optional input: Python requires a default there.
REQUIRED: Any = inspect.Parameter.empty

#: Domain -> the hint of the error for its operators. The library refuses these domains on purpose.
_REFUSED = {
    "com.microsoft.nchwc": "its operators run only on the processor that they were written for; write the model with"
    " ORT_ENABLE_EXTENDED of onnxruntime, not ORT_ENABLE_ALL (level 99)"
}

#: The group of entry points that name modules with meanings.
_GROUP = "onnx_compat.ops"

F = TypeVar("F", bound=Callable[..., Any])
EntryPoint = Any  # its class is in importlib.metadata, or on Python 3.7 in the package importlib_metadata


class Operator(NamedTuple):
    """A registered meaning of an operator: `function`.

    It holds from version `since` of the domain on, up to the next version with a meaning.

    - inputs: the positional parameters of `function`, without `ctx`.
    - attributes: a dict: name -> keyword-only parameter of `function`.
    - context: whether the first parameter of `function` is `ctx`, which gets the `Context`.
    """

    name: str
    domain: str
    since: int
    function: Callable[..., Any]
    inputs: Tuple[inspect.Parameter, ...]
    attributes: Dict[str, inspect.Parameter]
    context: bool

    def bind(self, inputs: Sequence[Any], attributes: Dict[str, Any]) -> Dict[str, Any]:
        """Check the inputs and attributes of a node against the signature. Return the attributes as keyword arguments.

        The attribute `consumed_inputs` has no effect, and is left out. So is an unknown attribute whose name is almost
        that of an attribute with a default: it is misspelt, and gives a warning. `inputs` has None for an absent input.

        Raises InvalidModelError if an input or an attribute is missing or unknown, or if an attribute has the wrong
        type. An operator of the library that begins with a variadic input needs at least one element of it.
        """
        if not inputs and is_own(self.function) and any(p.kind is p.VAR_POSITIONAL for p in self.inputs[:1]):
            raise InvalidModelError(
                "the input '%s' is missing: %s needs at least one" % (self.inputs[0].name, self.name)
            )
        variadic = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in self.inputs)
        if len(inputs) > len(self.inputs) and not variadic:
            raise InvalidModelError("%d inputs were given, %s takes %d" % (len(inputs), self.name, len(self.inputs)))
        for k, parameter in enumerate(self.inputs):
            if parameter.kind is parameter.VAR_POSITIONAL:
                _check_variadic(parameter.name, inputs, k)
            elif (k >= len(inputs) or inputs[k] is None) and parameter.default is parameter.empty:
                raise InvalidModelError("the input '%s' (number %d) is missing" % (parameter.name, k))
        attributes = {name: value for name, value in attributes.items() if name not in _IGNORED}
        for name in [name for name in attributes if name not in self.attributes]:
            self._report_unknown(name, attributes)
            del attributes[name]
        for name, value in attributes.items():
            attribute_types.check(self.name, self.function, name, value)
        for name, parameter in self.attributes.items():
            if parameter.default is parameter.empty and name not in attributes:
                raise InvalidModelError("the attribute '%s' is missing" % name)
        return attributes

    def _report_unknown(self, name: str, given: Dict[str, Any]) -> None:
        """Check an unknown attribute `name`: warn if it looks like a misspelt attribute that has a default, else raise.

        The warning is a RuntimeWarning. `name` is compared with the attributes of the operator that are not in `given`.

        Raises InvalidModelError if `name` resembles none of them, or if the nearest one has no default.
        """
        absent = [attribute for attribute in self.attributes if attribute not in given]
        nearest = difflib.get_close_matches(name, absent, 1, _MISSPELT)
        message = "%s has no attribute '%s' in this version" % (self.name, name)
        hints = ["did you mean '%s'?" % attribute for attribute in nearest]
        defaults = [self.attributes[attribute].default for attribute in nearest]
        if not nearest or defaults[0] is inspect.Parameter.empty:
            raise InvalidModelError(message, hint=hints[0] if hints else None)
        origin = current_trace().origin
        where = "" if origin is None else " (node '%s')" % origin.node
        text = "%s%s: %s It is ignored, and '%s' has its default, %r"
        text %= (message, where, hints[0], nearest[0], defaults[0])
        warnings.warn(printable(text), RuntimeWarning, stacklevel=2)


def _check_variadic(name: str, inputs: Sequence[Any], start: int) -> None:
    """Raise InvalidModelError if an element of a node's variadic input is missing (None). Otherwise do nothing.

    - name: the name of the variadic input, for the error.
    - inputs: all inputs of the node. The elements of the variadic input are those from position `start` on.

    The cause: onnxruntime crashes on a missing element.
    """
    for k, value in enumerate(inputs[start:]):
        if value is None:
            raise InvalidModelError(
                "the input '%s' (number %d) is missing: element %d of a variadic input" % (name, start + k, k),
                hint="give the input a value, or remove its empty name from the node",
            )


OPERATORS: Dict[Tuple[str, str], Dict[int, Operator]] = {}
#: Entry point -> the error of its import. The hint for an unknown operator names it.
_FAILED_ENTRY_POINTS: Dict[str, str] = {}
#: The least similarity (difflib's ratio) of an unknown attribute to the attribute that it misspells: "epsion" has 0.92.
_MISSPELT = 0.8
#: Attributes of version 1 of several operators: hints about buffers, without effect on results.
_IGNORED = frozenset(["consumed_inputs"])


def op(name: str, since: Union[int, Sequence[int]], domain: str = "") -> Callable[[F], F]:
    """Register a function over primitives as the meaning of an operator.

    Positional parameters of the function are inputs of the operator, keyword-only parameters are attributes. A
    first parameter named `ctx` gets the context of the node instead. The last registration for a version holds, but a
    meaning of the library never replaces a meaning from outside the library.

    Args:
        name: The name of the operator.
        since: The version of the operator set from which this meaning holds. A sequence lists each version whose
            schema has this meaning.
        domain: The domain of the operator; "" is ai.onnx.

    Returns:
        A decorator that returns the function unchanged.

    Examples:
        >>> @onnx_compat.op("Twice", since=1, domain="my.domain")
        ... def twice(x):
        ...     return x + x
    """

    def register(function: F) -> F:
        parameters = list(inspect.signature(function).parameters.values())
        context = bool(parameters) and parameters[0].name == "ctx"
        inputs = tuple(p for p in parameters[context:] if p.kind is not p.KEYWORD_ONLY)
        attributes = {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}
        versions = OPERATORS.setdefault((domain, name), {})
        for version in [since] if isinstance(since, int) else since:
            if is_own(function) and version in versions and not is_own(versions[version].function):
                continue  # modules of the library may load later than a meaning from outside
            versions[version] = Operator(name, domain, version, function, inputs, attributes, context)
        return function

    return register


def lookup(domain: str, name: str, opset: int) -> Operator:
    """Return the meaning of an operator for a model that uses version `opset`: the newest version up to `opset`.

    Raises UnsupportedError if the operator is unknown, or its first version is newer than `opset`.
    """
    if not has_meaning(domain, name):
        raise UnsupportedError(_unknown_operator_text(domain, name), hint=_unknown_operator_hint(domain))
    versions = OPERATORS[domain, name]
    if opset < min(versions):
        _load_all()  # com.microsoft registers LayerNormalization-1 of ai.onnx, which onnxruntime's optimiser writes
    candidates = [version for version in versions if version <= opset]
    if not candidates:
        first = min(versions)
        raise UnsupportedError(
            "%s is known from opset %d on, the model uses opset %d" % (name, first, opset),
            hint="export the model again with opset %d or newer" % first,
        )
    return versions[max(candidates)]


def has_meaning(domain: str, name: str) -> bool:
    """Return whether any version of an operator has a meaning.

    Imports the meanings of ai.onnx and the entry points named like the domain. Imports all entry points if the operator
    is still unknown.
    """
    _load_domain(domain)
    if (domain, name) not in OPERATORS:
        _load_all()
    return (domain, name) in OPERATORS


def all_meanings() -> List[Operator]:
    """Return every meaning of every version, of all domains whose entry points can be imported."""
    _load_domain("")
    _load_all()
    return [meaning for versions in OPERATORS.values() for meaning in versions.values()]


def _unknown_operator_text(domain: str, name: str) -> str:
    if domain:
        return "no meaning is known for the custom operator %s::%s" % (domain, name)
    return "there is no operator '%s'" % name


def _unknown_operator_hint(domain: str) -> str:
    if domain in _REFUSED:
        return _REFUSED[domain]
    if _FAILED_ENTRY_POINTS:
        failures = ["'%s' (%s)" % item for item in sorted(_FAILED_ENTRY_POINTS.items())]
        return "reinstall the packages whose entry points cannot be imported: %s" % ", ".join(failures)
    if domain and not any(_is_own_entry_point(point) for point in _entry_points()):
        return (
            "install onnx-compat with pip, also from a source checkout (pip install -e .):"
            " its metadata lacks the entry points '%s', which name the operators of other domains" % _GROUP
        )
    return "register a meaning for it: docs/howto/custom-operator.md"


@functools.lru_cache(maxsize=None)
def _load_domain(domain: str) -> None:
    """Import the meanings of ai.onnx, and of `domain` through its entry points. The cache makes later calls free.

    `import onnx_compat` alone imports no meanings. An entry point that fails is noted for error messages, and raises
    nothing.
    """
    importlib.import_module("onnx_compat.ops.families")
    if domain:
        for point in _entry_points():
            if point.name == domain:
                _load_entry_point(point)


@functools.lru_cache(maxsize=None)
def _load_all() -> None:
    """Import the modules of all entry points in the group `onnx_compat.ops`. The cache makes later calls free.

    An entry point that fails is noted for error messages, and raises nothing.
    """
    for point in _entry_points():
        _load_entry_point(point)


def _load_entry_point(point: EntryPoint) -> None:
    try:
        point.load()
    except Exception as error:  # noqa: BLE001 (a package may raise anything, and only its own operators need it)
        _FAILED_ENTRY_POINTS["%s = %s" % (point.name, point.value)] = "%s: %s" % (type(error).__name__, error)


def _entry_points() -> List[EntryPoint]:
    return environment.entry_points(_GROUP)


def _is_own_entry_point(point: EntryPoint) -> bool:
    return str(point.value).startswith("onnx_compat.ops.")
