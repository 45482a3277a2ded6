"""Spell a call of an operator for another version of it, if only its form differs.

Between versions, attributes became inputs, such as the axes of Squeeze. Attributes were added, whose default has the
older meaning, such as `allowzero` of Reshape. The signatures of both versions tell what is possible.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from onnx_compat.onnx_shim.signatures import Attribute, Signature

__all__ = ["Spelling", "respell"]

#: The name of an input -> the name of the attribute that it was in older versions, where the two differ.
_OLDER_NAMES = {"constant_value": "value", "K": "k"}
_NEWER_NAMES = {older: newer for newer, older in _OLDER_NAMES.items()}

#: A value of the graph that is built: `known` gives its elements, or None.
Value = Any


class Spelling(NamedTuple):
    """The inputs and attributes of a call, in the form of one version of the operator."""

    inputs: Tuple[Value, ...]
    attributes: Dict[str, Any]


def respell(
    call: Spelling,
    source: Signature,
    target: Signature,
    known: Callable[[Value], Optional[np.ndarray]],
    constant: Callable[[np.ndarray], Value],
) -> Optional[Spelling]:
    """Return a call in the form of the signature `target`. The call has the form of the signature `source`.

    known: returns the elements of a value, or None if they are not known.
    constant: returns a value with these elements; integers are int64.

    None is returned if the version of `target` cannot express the call: an input that must become an attribute is not
    known, or an attribute has no counterpart and another value than its default.
    """
    if source is target or source.since == target.since:
        return call
    inputs = list(call.inputs)
    attributes = dict(call.attributes)
    if not _inputs_to_attributes(inputs, attributes, source, target, known):
        return None
    for name in list(attributes):
        if name in target.attributes:
            continue
        position = _input_named(target, _NEWER_NAMES.get(name, name))
        if position is not None:
            inputs += [None] * (position + 1 - len(inputs))
            inputs[position] = constant(_as_input(attributes.pop(name)))
        elif _is_default(attributes[name], source, name):
            del attributes[name]
        else:
            return None
    return Spelling(tuple(inputs), attributes)


def _inputs_to_attributes(
    inputs: List[Value],
    attributes: Dict[str, Any],
    source: Signature,
    target: Signature,
    known: Callable[[Value], Optional[np.ndarray]],
) -> bool:
    """Move the inputs that `target` has as attributes from `inputs` to `attributes`. Return whether all fit."""
    for position in range(len(inputs) - 1, -1, -1):
        name = _name_of(source, position)
        if name is None or _name_of(target, position) is not None:
            continue
        value = inputs.pop()
        if value is None:
            continue
        array = known(value)
        older = _OLDER_NAMES.get(name, name)
        if array is None:
            return False
        if older in target.attributes:
            attributes[older] = _as_attribute(array, target.attributes[older])
        elif not (name == "steps" and np.all(array == 1)):  # Slice of version 1 has no steps
            return False
    while inputs and inputs[-1] is None:
        inputs.pop()
    return True


def _name_of(signature: Signature, position: int) -> Optional[str]:
    """Return the name of the input at a position; None: the operator has no such input. A variadic input has one name."""
    parameter = signature.input_at(position)
    return None if parameter is None else parameter.name


def _input_named(signature: Signature, name: str) -> Optional[int]:
    return next((k for k, parameter in enumerate(signature.inputs) if parameter.name == name), None)


def _as_attribute(array: np.ndarray, declared: Attribute) -> Any:
    """Return the elements of an input as the value of an attribute: a list if the attribute is declared as one."""
    values = array.reshape(-1).tolist()
    return values if declared.is_list else values[0]


def _as_input(value: Any) -> np.ndarray:
    array = np.asarray(value)
    return array.astype(np.float32 if array.dtype.kind == "f" else np.int64)


def _is_default(value: Any, signature: Signature, name: str) -> bool:
    """Whether the signature declares this value as the default of an attribute."""
    return name in signature.attributes and bool(signature.attributes[name].default == value)
