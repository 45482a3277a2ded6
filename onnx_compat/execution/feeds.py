"""What a caller feeds, checked against what the model declares, and brought into the form that programs take.

A program takes tensors only. A sequence is fed as its items, a map as its keys and its values, an empty optional as
nothing: so the structure of the inputs (`Form`) is part of what a program was recorded for.
"""

import difflib
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from onnx_compat.errors import InputError
from onnx_compat.ir.dtypes import DType, float32, from_public, int64, string, to_public
from onnx_compat.model import MapType, OptionalType, SequenceType, TensorType, ValueInfo
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.values import EMPTY_OPTIONAL, MapValue, SequenceValue, Tensor

__all__ = [
    "Feed",
    "InputForm",
    "MapItems",
    "check_feed",
    "flatten_value",
    "form_ports",
    "input_form",
    "rebuild_value",
    "to_public_value",
]

Feed = Dict[str, Any]


class InputForm(NamedTuple):
    """The structure of one fed value: 'tensor' with its dtype and rank, 'sequence' with its items, 'map' with its keys
    and values, or 'nothing'.
    """

    kind: str
    dtype: Optional[DType] = None
    rank: int = 0
    items: Tuple[Any, ...] = ()


class MapItems:
    """A map on its way through the plans: its keys and its values, each in the form that a tensor has there."""

    __slots__ = ("keys", "values")

    def __init__(self, keys: Any, values: Any) -> None:
        self.keys = keys
        self.values = values

    def each(self, function: Callable[[Any], Any]) -> "MapItems":
        return MapItems(function(self.keys), function(self.values))

    def __repr__(self) -> str:
        return "Pairs(%r, %r)" % (self.keys, self.values)

    @staticmethod
    def of(
        value: Mapping[Any, Any], name: str, key: Optional[DType] = None, dtype: Optional[DType] = None
    ) -> "MapItems":
        """A dict with the keys in order, checked; without given types in those that its keys and values say."""
        if not isinstance(value, Mapping):
            raise InputError("the input '%s' is a map: give a dict, not %s" % (name, type(value).__name__))
        text = key.kind == "s" if key is not None else any(isinstance(one, str) for one in value)
        wanted: Any = str if text else (int, np.integer)
        if not all(isinstance(one, wanted) and not isinstance(one, bool) for one in value):
            raise InputError("the keys of the map '%s' are not all %s" % (name, "strings" if text else "integers"))
        found = np.asarray([value[one] for one in sorted(value)])
        implied = string if found.dtype.kind in "OUS" else int64 if found.dtype.kind in "iu" else float32
        dtype = dtype or implied
        if found.size and implied.kind != dtype.kind and (implied.kind, dtype.kind) != ("i", "f"):
            raise InputError("the values of the map '%s' are %s, not %s" % (name, implied.name, dtype.name))
        keys = np.asarray(sorted(value), (string if text else int64).numpy)
        return MapItems((keys, string if text else key or int64), (found.astype(dtype.numpy), dtype))


def check_feed(
    inputs: Union[Mapping[str, Any], Sequence[Any]], declared: Sequence[ValueInfo], needed: Sequence[str]
) -> Feed:
    """The inputs by name, each checked against its declared type."""
    names = [one.name for one in declared]
    if not isinstance(inputs, Mapping):
        if isinstance(inputs, (str, bytes)) or not isinstance(inputs, (list, tuple)):
            raise InputError(
                "inputs are a dict by name or a sequence in the model's order, not %s" % type(inputs).__name__,
                hint="the model's inputs are %s" % (names,),
            )
        if not len(needed) <= len(inputs) <= len(names):
            raise InputError("%d inputs were given, the model takes %d: %s" % (len(inputs), len(needed), list(needed)))
        inputs = dict(zip(needed if len(inputs) == len(needed) else names, inputs))
    for name in inputs:
        if name not in names:
            close = difflib.get_close_matches(str(name), names, 1)
            hint = "did you mean '%s'?" % close[0] if close else "the model's inputs are %s" % (names,)
            raise InputError("the model has no input named '%s'" % (name,), hint=hint)
    missing = [name for name in needed if name not in inputs]
    if missing:
        raise InputError("the input %s is not given" % ", ".join("'%s'" % name for name in missing))
    sizes: Dict[str, Tuple[int, str]] = {}
    return {one.name: _checked(inputs[one.name], one.name, one.type, sizes) for one in declared if one.name in inputs}


def _checked(value: Any, name: str, declared: Any, sizes: Dict[str, Tuple[int, str]]) -> Any:
    """The value as a carrier array with its dtype (a pair), a list of such, or NOTHING."""
    if isinstance(declared, OptionalType):
        return EMPTY_OPTIONAL if value is None else _checked(value, name, declared.element, sizes)
    if isinstance(declared, SequenceType):
        if not isinstance(value, (list, tuple)):
            raise InputError("the input '%s' is a sequence: give a list, not %s" % (name, type(value).__name__))
        return [_checked(item, "%s[%d]" % (name, k), declared.element, {}) for k, item in enumerate(value)]
    if isinstance(declared, MapType) or (declared is None and isinstance(value, Mapping)):
        key, element = (declared.key, declared.value) if declared is not None else (None, None)
        return MapItems.of(value, name, key, getattr(element, "dtype", None))
    if isinstance(value, (list, tuple)) and not isinstance(declared, TensorType):
        return [_checked(item, "%s[%d]" % (name, k), None, {}) for k, item in enumerate(value)]
    if value is None:
        raise InputError("the input '%s' is None" % name, hint="give an array of type %s" % (declared,))
    wanted = declared.dtype if isinstance(declared, TensorType) else None
    array, dtype = _array(value, name, wanted)
    if isinstance(declared, TensorType) and declared.shape is not None:
        _check_shape(array.shape, declared, name, sizes)
    return array, dtype


def _array(value: Any, name: str, wanted: Optional[DType]) -> Tuple[np.ndarray, DType]:
    if not isinstance(value, (np.ndarray, np.generic)) and wanted is not None and not hasattr(value, "dtype"):
        try:
            return np.asarray(value, wanted.numpy), wanted  # a plain list or number has no dtype of its own to respect
        except (TypeError, ValueError) as error:
            raise InputError("the input '%s' cannot be read as %s: %s" % (name, wanted.name, error)) from error
    array, dtype = from_public(np.asarray(value))
    if wanted is None or dtype == wanted:
        return array, dtype
    if not wanted.native and array.dtype == wanted.numpy:
        return array, wanted  # a carrier array, as outputs are given where ml_dtypes is not installed
    raise InputError(
        "the input '%s' is %s, the model takes %s" % (name, dtype.name, wanted.name),
        hint="convert it: array.astype(%r)" % (wanted.name if wanted.native else str(wanted.numpy)),
    )


def _check_shape(shape: Sequence[int], declared: TensorType, name: str, sizes: Dict[str, Tuple[int, str]]) -> None:
    assert declared.shape is not None
    if len(shape) != len(declared.shape):
        raise InputError(
            "the input '%s' has rank %d (shape %s), the model takes rank %d: %s"
            % (name, len(shape), list(shape), len(declared.shape), declared)
        )
    for axis, (size, expected) in enumerate(zip(shape, declared.shape)):
        if isinstance(expected, str):
            known, where = sizes.setdefault(expected, (size, name))
            if known != size:
                raise InputError(
                    "the size '%s' is %d in the input '%s' and %d in '%s'" % (expected, known, where, size, name),
                    hint="both inputs must agree on it",
                )
        elif expected is not None and size != expected:
            raise InputError(
                "the input '%s' has size %d on axis %d (shape %s), the model takes %s"
                % (name, size, axis, list(shape), declared)
            )


def to_public_value(value: Any) -> Any:
    """A value in this form (of an output) as the caller gets it."""
    if value is EMPTY_OPTIONAL:
        return None
    if isinstance(value, list):
        return [to_public_value(item) for item in value]
    if isinstance(value, MapItems):
        keys, values = to_public_value(value.keys), to_public_value(value.values)
        return dict(zip(keys.tolist(), values.tolist()))
    return to_public(*value)


def input_form(value: Any) -> InputForm:
    if value is EMPTY_OPTIONAL:
        return InputForm("nothing")
    if isinstance(value, list):
        return InputForm("sequence", items=tuple(input_form(item) for item in value))
    if isinstance(value, MapItems):
        return InputForm("map", items=(input_form(value.keys), input_form(value.values)))
    array, dtype = value
    return InputForm("tensor", dtype, array.ndim)


def form_ports(name: str, form: InputForm, declared: Any) -> List[Port]:
    """The tensors that a value of this form is fed as."""
    if form.kind == "nothing":
        return []
    if form.kind == "sequence":
        return [port for k, item in enumerate(form.items) for port in form_ports("%s.%d" % (name, k), item, None)]
    if form.kind == "map":  # as many values as keys
        size: Tuple[Any, ...] = (name + ".size",)
        return [
            Port("%s.%s" % (name, part), item.dtype, size)
            for part, item in zip(("keys", "values"), form.items)
            if item.dtype is not None
        ]
    while isinstance(declared, OptionalType):
        declared = declared.element
    shape = declared.shape if isinstance(declared, TensorType) else None
    assert form.dtype is not None
    return [Port(name, form.dtype, tuple(shape) if shape is not None else (None,) * form.rank)]


def flatten_value(value: Any) -> List[np.ndarray]:
    """The arrays of a checked value, in the order of its ports."""
    if value is EMPTY_OPTIONAL:
        return []
    if isinstance(value, list):
        return [array for item in value for array in flatten_value(item)]
    if isinstance(value, MapItems):
        return [value.keys[0], value.values[0]]
    return [value[0]]


def rebuild_value(form: InputForm, tensors: "List[Tensor]", element: Optional[DType] = None) -> Any:
    """A traced value of this form from (the front of) a list of tensors, which it consumes."""
    if form.kind == "nothing":
        return EMPTY_OPTIONAL
    if form.kind == "sequence":
        items = tuple(rebuild_value(item, tensors) for item in form.items)
        dtype = items[0].dtype if items and isinstance(items[0], Tensor) else element or DType.of("float32")
        return SequenceValue(dtype, items)
    if form.kind == "map":
        return MapValue(tensors.pop(0), tensors.pop(0))
    return tensors.pop(0)
