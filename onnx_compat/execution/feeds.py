"""Feeds: validate the inputs of a run against the model, and convert them to the tensors that a program takes.

A program takes tensors only. A sequence is fed as its items, a map as its keys and its values, an empty optional as no
tensor. So a program is recorded for one structure of its inputs (`InputStructure`).
"""

import difflib
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from onnx_compat.errors import InputError, OnnxCompatError, UnsupportedError
from onnx_compat.execution.declared_sizes import DeclaredSizes
from onnx_compat.ir.dtypes import DType, float32, from_public, int64, string, text_carrier, to_public
from onnx_compat.model import MapType, OptionalType, SequenceType, TensorType, Type, ValueInfo
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.values import EMPTY_OPTIONAL, OMITTED, MapValue, SequenceValue, Tensor

__all__ = [
    "CheckedValue",
    "Feed",
    "InputStructure",
    "MapItems",
    "TracedValue",
    "check_feed",
    "flatten_value",
    "only_array",
    "rebuild_value",
    "structure_of",
    "structure_ports",
    "to_public_value",
]

#: A value as the caller passes it: an array or a number, a list for a sequence, a dict for a map, None for an optional.
FedValue = Any
#: A value after validation: (array, dtype) for a tensor, a list of these for a sequence, `MapItems` for a map,
#: EMPTY_OPTIONAL or OMITTED. The type is recursive, and its cases are distinguished at run time.
CheckedValue = Any
#: A value while the model is traced: Tensor, SequenceValue, MapValue, EMPTY_OPTIONAL, OMITTED, or None for an input
#: that takes its initializer.
TracedValue = Any
#: The checked inputs by name.
Feed = Dict[str, CheckedValue]


class InputStructure(NamedTuple):
    """The structure of an input value: everything but its elements and sizes.

    `kind` is 'tensor' (with `dtype` and `rank`), 'sequence' (`items`: a structure for each item), 'map' (`items`: the
    structures of the keys and of the values), 'nothing' (an empty optional), or 'omitted' (an input without a value).
    """

    kind: str
    dtype: Optional[DType] = None
    rank: int = 0
    items: Tuple[Any, ...] = ()


class MapItems:
    """The keys and the values of one map, in equal order.

    Both are checked tensors, or objects that stand for checked tensors, such as the indices of program outputs.
    """

    __slots__ = ("keys", "values")

    def __init__(self, keys: CheckedValue, values: CheckedValue) -> None:
        self.keys = keys
        self.values = values

    def map(self, function: Callable[[CheckedValue], CheckedValue]) -> "MapItems":
        """Return a `MapItems` with `function` applied to the keys and to the values."""
        return MapItems(function(self.keys), function(self.values))

    def __repr__(self) -> str:
        return "MapItems(%r, %r)" % (self.keys, self.values)

    @staticmethod
    def from_mapping(
        value: Mapping[Any, Any], name: str, key_dtype: Optional[DType] = None, dtype: Optional[DType] = None
    ) -> "MapItems":
        """Convert a dict to a `MapItems` of two checked tensors: the sorted keys, and the values in the same order.

        - name: the name of the input, for errors.
        - key_dtype: the dtype of the keys; None: string if any key is a str, else int64.
        - dtype: the dtype of the values; None: string for text and objects, int64 for integers, float32 for all other
          values.

        Raises InputError in these cases:

        - `value` is no dict (Mapping).
        - The keys do not fit `key_dtype`, or are neither all str nor all integers. A bool is no integer here.
        - The values are no numbers and no text, or do not fit `dtype`. Integers fit a float dtype.
        """
        if not isinstance(value, Mapping):
            raise InputError("the input '%s' is a map: give a dict, not %s" % (name, type(value).__name__))
        has_text_keys = key_dtype.kind == "s" if key_dtype is not None else any(isinstance(key, str) for key in value)
        key_type: Any = str if has_text_keys else (int, np.integer)
        if not all(isinstance(key, key_type) and not isinstance(key, bool) for key in value):
            raise InputError(
                "the keys of the map '%s' are not all %s" % (name, "strings" if has_text_keys else "integers")
            )
        values = _vector([value[key] for key in sorted(value)], "the values of the map '%s'" % name)
        implied = string if values.dtype.kind == "O" else int64 if values.dtype.kind in "iu" else float32
        dtype = dtype or implied
        if values.size and implied.kind != dtype.kind and (implied.kind, dtype.kind) != ("i", "f"):
            raise InputError("the values of the map '%s' are %s, not %s" % (name, implied.name, dtype.name))
        key_dtype = string if has_text_keys else key_dtype or int64
        keys = _keys(sorted(value), name, key_dtype)
        rounded = dtype.round(values, saturate=False)
        _check_integers(rounded, values, "the map '%s'" % name, dtype)
        return MapItems((keys, key_dtype), (rounded, dtype))


def _keys(keys: Sequence[Any], name: str, dtype: DType) -> np.ndarray:
    """Return the keys of the map `name` as a carrier array.

    Raises InputError for an integer that does not fit `dtype`.
    """
    try:
        converted = np.asarray(keys, (string if dtype.kind == "s" else int64).numpy)
    except OverflowError as error:
        raise InputError("a key of the map '%s' does not fit %s" % (name, dtype.name)) from error
    _check_integers(dtype.round(converted, saturate=False), converted, "the keys of the map '%s'" % name, dtype)
    return converted


def _vector(values: Sequence[Any], description: str) -> np.ndarray:
    """Return the values of a map as a vector: of numbers, or of str as objects. Bytes are decoded as UTF-8.

    Raises InputError, with `description`, unless all values are single numbers of at most 64 bits, or all are text.
    """
    has_text = any(isinstance(value, (str, bytes)) for value in values)
    try:
        array = np.asarray(values, object if has_text else None)
        array = from_public(array)[0] if array.dtype == object else array
    except (ValueError, UnsupportedError):  # lists of several lengths; objects
        array = None
    if array is None or array.ndim != 1:
        raise InputError("%s are neither single numbers of at most 64 bits, nor all text" % description)
    return array


def check_feed(
    inputs: Union[Mapping[str, Any], Sequence[Any]],
    declared: Sequence[ValueInfo],
    needed: Sequence[str],
    contradictions: Optional[List[str]] = None,
) -> Feed:
    """Check the inputs of a run. Return input name -> checked value for the given inputs, in the order of `declared`.

    - inputs: a dict by name, a list or tuple of values, or the array of the only input.
    - declared: all inputs of the model.
    - needed: the names of the inputs without a default. A list as long as `needed` gives the values of these inputs. A
      longer list gives the values of the first inputs in `declared`.
    - contradictions: None, or a list that receives the declarations which the feed contradicts and which onnxruntime
      does not enforce, as text. With a list, a value of None stands for the default of the input; without a default,
      the checked value is OMITTED.

    Raises InputError in these cases:

    - `inputs` is no dict, list or tuple, and no array, or the model takes several inputs.
    - An input in `needed` is missing, or an input is unknown.
    - A list is shorter than `needed` or longer than `declared`.
    - A value does not fit its declared type, or two sizes of one name differ.

    Raises UnsupportedError for an array of a dtype that ONNX lacks.
    """
    names = [port.name for port in declared]
    if not isinstance(inputs, Mapping):
        if not isinstance(inputs, (list, tuple)):
            inputs = [only_array(inputs, list(needed) or names)]
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
    declarations = DeclaredSizes(contradictions)
    feed: Feed = {}
    for port in declared:
        if port.name not in inputs:
            continue
        value = inputs[port.name]
        if value is not None or contradictions is None or isinstance(port.type, OptionalType):
            feed[port.name] = _check_input(value, port.name, port.type, declarations)
        elif port.name in needed:
            feed[port.name] = OMITTED
    return feed


def only_array(value: object, names: Sequence[str]) -> object:
    """Return `value`, the array of the only input. `names`: the inputs to give.

    Raise InputError for an object that numpy does not convert (no `__array__`), and if there are several inputs.
    """
    if not hasattr(value, "__array__") or len(names) != 1:
        raise InputError(
            "inputs are a dict by name or a sequence in the model's order, not %s" % type(value).__name__,
            hint="the model's inputs are %s; an array alone is for a model of one input" % (list(names),),
        )
    return value


def _check_input(value: FedValue, name: str, declared: Optional[Type], declarations: DeclaredSizes) -> CheckedValue:
    """Convert an input to a `CheckedValue` by `_check_value`, which has the same arguments.

    Raises the OnnxCompatError of `_check_value` unchanged. Raises InputError in place of any other exception, of numpy
    or of an object that is no array.
    """
    try:
        return _check_value(value, name, declared, declarations)
    except OnnxCompatError:
        raise
    except Exception as error:  # the object is the caller's: `__array__`, for example, may raise anything
        reason = "the input '%s' cannot be read: %s: %s" % (name, type(error).__name__, error)
        raise InputError(reason, hint="give a numpy array") from error


def _check_value(
    value: FedValue, name: str, declared: Optional[Type], declarations: DeclaredSizes, is_item: bool = False
) -> CheckedValue:
    """Convert an input to a `CheckedValue` of its declared type.

    None fits an optional only. Without a declared type, a dict is a map, a list or tuple is a sequence, and any other
    object is a tensor. `is_item`: the value is an item of a sequence.

    Raises InputError for a value of another type, and for sizes that contradict the declared shape.
    """
    if isinstance(declared, OptionalType):
        return EMPTY_OPTIONAL if value is None else _check_value(value, name, declared.element, declarations, is_item)
    if isinstance(declared, SequenceType):
        if not isinstance(value, (list, tuple)):
            raise InputError("the input '%s' is a sequence: give a list, not %s" % (name, type(value).__name__))
        return [
            _check_value(item, "%s[%d]" % (name, k), declared.element, declarations.item(), True)
            for k, item in enumerate(value)
        ]
    if isinstance(declared, MapType) or (declared is None and isinstance(value, Mapping)):
        key, element = (declared.key, declared.value) if declared is not None else (None, None)
        return MapItems.from_mapping(value, name, key, getattr(element, "dtype", None))
    if isinstance(value, (list, tuple)) and not isinstance(declared, TensorType):
        return [
            _check_value(item, "%s[%d]" % (name, k), None, declarations.item(), True) for k, item in enumerate(value)
        ]
    if value is None:
        raise InputError("the input '%s' is None" % name, hint="give an array of type %s" % (declared,))
    expected = declared.dtype if isinstance(declared, TensorType) else None
    array, dtype = _to_carrier(value, name, expected)
    if isinstance(declared, TensorType) and declared.shape is not None:
        declarations.check(array.shape, declared, name, is_item)
    return array, dtype


def _to_carrier(value: FedValue, name: str, expected: Optional[DType]) -> Tuple[np.ndarray, DType]:
    """Convert a tensor input to (carrier array, dtype). `name`: the input's name, for errors.

    - A value without a dtype, such as a list or a number, is converted to the dtype `expected`.
    - An array must have the dtype `expected`, or its carrier dtype. Numbers in a carrier array are rounded to
      `expected`.
    - If `expected` is string, an element of an array of objects that is no text becomes the text `str(element)`, as in
      onnxruntime: "nan", "None". The same holds for a list.
    - If `expected` is None, an array of any dtype of ONNX is accepted; a list or a number gets numpy's
      default dtype.

    Raises InputError for an array of another dtype, and for a value that cannot be converted. That includes a number
    that an integer dtype cannot hold. Raises UnsupportedError for a dtype that ONNX lacks.
    """
    if not isinstance(value, (np.ndarray, np.generic)) and expected is not None and not hasattr(value, "dtype"):
        return _convert_list(value, name, expected), expected  # a list or a number has no dtype that could disagree
    if expected is not None and expected.kind == "s" and np.asarray(value).dtype == object:
        return text_carrier(np.asarray(value)), expected
    array, dtype = from_public(np.asarray(value))
    if expected is None or dtype == expected:
        return array, dtype
    if not expected.native and dtype == DType.of(expected.numpy):
        # A carrier array: the form of outputs where ml_dtypes is not installed.
        rounded = expected.round(array, saturate=False)  # a carried infinity stays an infinity
        _check_integers(rounded, array, "the input '%s'" % name, expected)
        return rounded, expected
    target = expected.name if expected.native else str(expected.numpy)
    raise InputError(
        "the input '%s' is %s, the model takes %s" % (name, dtype.name, expected.name),
        # Texts may not be numbers, and numpy converts numbers to texts of no use.
        hint="convert it: array.astype(%r)" % target if "s" not in (dtype.kind, expected.kind) else None,
    )


def _convert_list(value: FedValue, name: str, expected: DType) -> np.ndarray:
    """Convert a list or a number to a carrier array of the dtype `expected`. Bytes are decoded as UTF-8.

    Raises InputError for a value that cannot be converted. `name`: the input's name, for errors.
    """
    array: np.ndarray
    try:
        if expected.kind == "s":
            array = text_carrier(np.asarray(value, object))
            return array
        array, numbers = expected.round(np.asarray(value, expected.numpy), saturate=False), np.asarray(value)
    except (TypeError, ValueError, OverflowError, UnsupportedError) as error:
        reason = error.reason if isinstance(error, UnsupportedError) else error
        raise InputError("the input '%s' cannot be read as %s: %s" % (name, expected.name, reason)) from error
    _check_integers(array, numbers, "the input '%s'" % name, expected)
    return array


def _check_integers(converted: np.ndarray, numbers: np.ndarray, description: str, dtype: DType) -> None:
    """Raise InputError if the conversion of `numbers` to an integer dtype changed a number. Otherwise do nothing.

    Numbers that are out of range or no integers change; numpy wraps them around, or truncates them, without an error.
    """
    if dtype.kind in "iu" and numbers.dtype.kind in "iuf" and not np.array_equal(converted, numbers):
        wrong = numbers[converted != numbers][0]
        raise InputError("the number %s in %s does not fit %s" % (wrong, description, dtype.name))


def to_public_value(value: CheckedValue) -> FedValue:
    """Convert a checked value for the caller: to an array, a list for a sequence, a dict for a map, or None.

    None stands for an empty optional and for OMITTED. The keys and values of a dict are Python numbers or str.
    """
    if value is EMPTY_OPTIONAL or value is OMITTED:
        return None
    if isinstance(value, list):
        return [to_public_value(item) for item in value]
    if isinstance(value, MapItems):
        keys, values = to_public_value(value.keys), to_public_value(value.values)
        return dict(zip(keys.tolist(), values.tolist()))
    return to_public(*value)


def structure_of(value: CheckedValue) -> InputStructure:
    """Return the `InputStructure` of a checked value: its kind, the structures of items, a tensor's dtype and rank."""
    if value is EMPTY_OPTIONAL or value is OMITTED:
        return InputStructure("nothing" if value is EMPTY_OPTIONAL else "omitted")
    if isinstance(value, list):
        return InputStructure("sequence", items=tuple(structure_of(item) for item in value))
    if isinstance(value, MapItems):
        return InputStructure("map", items=(structure_of(value.keys), structure_of(value.values)))
    array, dtype = value
    return InputStructure("tensor", dtype, array.ndim)


def structure_ports(name: str, structure: InputStructure, declared: Optional[Type]) -> List[Port]:
    """Return a list of the program's ports for an input of the model: one port for each tensor in the input.

    - A tensor "x": the port "x", with the sizes of `declared`; with open sizes if `declared` has no rank or another
      rank.
    - A sequence: "x.0", "x.1", …, with open sizes.
    - A map: "x.keys" and "x.values", which share one named size.
    - An empty optional, an empty sequence or an omitted input: no port.

    `declared`: the type of the input in the model, or None.
    """
    if structure.kind in ("nothing", "omitted"):
        return []
    if structure.kind == "sequence":
        return [
            port
            for index, item in enumerate(structure.items)
            for port in structure_ports("%s.%d" % (name, index), item, None)
        ]
    if structure.kind == "map":  # keys and values share a size
        size: Tuple[Any, ...] = (name + ".size",)
        return [
            Port("%s.%s" % (name, suffix), item.dtype, size)
            for suffix, item in zip(("keys", "values"), structure.items)
            if item.dtype is not None
        ]
    while isinstance(declared, OptionalType):
        declared = declared.element
    shape = declared.shape if isinstance(declared, TensorType) else None
    assert structure.dtype is not None
    is_open = shape is None or len(shape) != structure.rank
    return [Port(name, structure.dtype, (None,) * structure.rank if is_open else tuple(shape or ()))]


def flatten_value(value: CheckedValue) -> List[np.ndarray]:
    """Return the arrays of a checked value as a list, in the order of its ports (see `structure_ports`).

    The list is empty for an empty optional, an empty sequence and OMITTED.
    """
    if value is EMPTY_OPTIONAL or value is OMITTED:
        return []
    if isinstance(value, list):
        return [array for item in value for array in flatten_value(item)]
    if isinstance(value, MapItems):
        return [value.keys[0], value.values[0]]
    return [value[0]]


def rebuild_value(structure: InputStructure, tensors: "List[Tensor]", element: Optional[DType] = None) -> TracedValue:
    """Build the traced value of an input from the first items of `tensors`, which are removed from the list.

    Return a Tensor, SequenceValue, MapValue, EMPTY_OPTIONAL or OMITTED, by the kind of `structure`. `element`: the
    declared dtype of a sequence's items; None means float32. `element` is used only if the sequence is empty, or its
    first item is no tensor.
    """
    if structure.kind in ("nothing", "omitted"):
        return EMPTY_OPTIONAL if structure.kind == "nothing" else OMITTED
    if structure.kind == "sequence":
        items = tuple(rebuild_value(item, tensors) for item in structure.items)
        dtype = items[0].dtype if items and isinstance(items[0], Tensor) else element or DType.of("float32")
        return SequenceValue(dtype, items)
    if structure.kind == "map":
        return MapValue(tensors.pop(0), tensors.pop(0))
    return tensors.pop(0)
