"""Spell a call of an operator for another version of it, if only its form differs.

Between versions, attributes became inputs, such as the axes of Squeeze. Attributes were added, whose default has the
older meaning, such as `allowzero` of Reshape. Inputs became optional, such as C of Gemm. The signatures of both
versions tell what is possible.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from onnx_compat.onnx_shim.signatures import Attribute, Signature

__all__ = ["Spelling", "respell"]

#: The name of an input -> the name of the attribute that it was in older versions, where the two differ.
_OLDER_NAMES = {"constant_value": "value", "K": "k"}
_NEWER_NAMES = {older: newer for newer, older in _OLDER_NAMES.items()}
#: The name of an input that older versions require -> the shape and the dtype of what an omitted input means, with the
#: dtype of the first input for None: C of Gemm, roi and scales of Resize.
_OMITTED: Dict[str, Tuple[Tuple[int, ...], Optional[str]]] = {
    "C": ((), None),
    "roi": ((0,), "float32"),
    "scales": ((0,), "float32"),
}

#: A value of the graph that is built: `known` gives its elements, or None. It has a `dtype`.
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
    constant: returns a value with these elements and their dtype.

    None is returned if the version of `target` cannot express the call, in these cases:

    - An input must become an attribute, and is not known, or a float of 32 bits does not hold it.
    - An attribute has no counterpart, and another value than its default.
    - An input has no counterpart. Steps of 1 of a Slice need none.
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
    _add_required_inputs(inputs, source, target, constant)
    return Spelling(tuple(inputs), attributes)


def _inputs_to_attributes(
    inputs: List[Value],
    attributes: Dict[str, Any],
    source: Signature,
    target: Signature,
    known: Callable[[Value], Optional[np.ndarray]],
) -> bool:
    """Move the inputs that `target` has as attributes from `inputs` to `attributes`, in place.

    Return False if an input has no known elements, no counterpart, or elements that the attribute cannot hold.
    """
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
            if not _can_hold(target.attributes[older], array):
                return False
            attributes[older] = _as_attribute(array, target.attributes[older])
        elif not (name == "steps" and np.all(array == 1)):  # Slice of version 1 has no steps
            return False
    while inputs and inputs[-1] is None:
        inputs.pop()
    return True


def _add_required_inputs(
    inputs: List[Value], source: Signature, target: Signature, constant: Callable[[np.ndarray], Value]
) -> None:
    """Put a constant in place of each omitted input that `target` requires, in the list `inputs`.

    The constant has the meaning that the omitted input has in `source`: see `_OMITTED`.
    """
    for position, parameter in enumerate(target.inputs):
        is_missing = position >= len(inputs) or inputs[position] is None
        if not (parameter.is_required and is_missing and parameter.name in _OMITTED):
            continue
        if _input_named(source, parameter.name) is not None:
            shape, dtype = _OMITTED[parameter.name]
            inputs += [None] * (position + 1 - len(inputs))
            inputs[position] = constant(np.zeros(shape, dtype or inputs[0].dtype.numpy))


def _name_of(signature: Signature, position: int) -> Optional[str]:
    """Return the name of the input at a position; None: the operator has no such input.

    All values of a variadic input have one name.
    """
    parameter = signature.input_at(position)
    return None if parameter is None else parameter.name


def _input_named(signature: Signature, name: str) -> Optional[int]:
    return next((k for k, parameter in enumerate(signature.inputs) if parameter.name == name), None)


def _can_hold(declared: Attribute, array: np.ndarray) -> bool:
    """Whether an attribute holds these elements exactly. Floats of an attribute have 32 bits."""
    if not declared.is_float:
        return True
    with np.errstate(all="ignore"):
        held = array.astype(np.float32).astype(np.float64).astype(array.dtype)
    return bool(np.all((held == array) | (np.isnan(held) & np.isnan(array))))


def _as_attribute(array: np.ndarray, declared: Attribute) -> Any:
    """Return the elements of an input as the value of an attribute: a list if the attribute is declared as one."""
    values = array.reshape(-1).tolist()
    values = [float(value) for value in values] if declared.is_float else values
    return values if declared.is_list else values[0]


def _as_input(value: Any) -> np.ndarray:
    array = np.asarray(value)
    return array.astype(np.float32 if array.dtype.kind == "f" and array.size else np.int64)


def _is_default(value: Any, signature: Signature, name: str) -> bool:
    """Whether the signature declares this value as the default of an attribute."""
    return name in signature.attributes and bool(signature.attributes[name].default == value)
