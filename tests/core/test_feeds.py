"""Checks of fed values: name, dtype and shape must fit the declared inputs. Structures become tensors and back."""

from typing import Any, List, Optional, Sequence

import numpy as np
import pytest

from onnx_compat.errors import InputError, UnsupportedError
from onnx_compat.execution.feeds import (
    InputStructure,
    MapItems,
    check_feed,
    flatten_value,
    rebuild_value,
    structure_of,
    structure_ports,
    to_public_value,
)
from onnx_compat.ir.dtypes import DType, bool_, float32, int32, int64, string
from onnx_compat.model import MapType, OptionalType, SequenceType, TensorType, ValueInfo
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.values import EMPTY_OPTIONAL, OMITTED, MapValue, SequenceValue, Tensor, lift

FLOATS = TensorType(float32, (None,))
BFLOAT16 = DType.of("bfloat16")
ONE = np.ones(1, np.float32)


def declare(*types: Any) -> List[ValueInfo]:
    """Return inputs named a, b, c… of these types."""
    return [ValueInfo("abcdef"[k], input_type) for k, input_type in enumerate(types)]


def feed(value: Any, declared: Any = None) -> Any:
    """Return the checked form of a value for an input of this type."""
    return check_feed({"a": value}, declare(declared), ["a"])["a"]


def assert_pair(checked_value: Any, array: Any, dtype: DType) -> None:
    """Assert that a checked tensor is the pair of its array and its dtype."""
    assert checked_value[1] == dtype
    assert checked_value[0].dtype == dtype.numpy
    np.testing.assert_array_equal(checked_value[0], array)


# -- names -------------------------------------------------------------------------------------------------------------
def test_a_sequence_is_in_the_order_of_the_model() -> None:
    first, second = check_feed([ONE, 2 * ONE], declare(FLOATS, FLOATS), ["a", "b"]).values()
    assert (first[0][0], second[0][0]) == (1, 2)


def test_a_short_sequence_leaves_out_the_inputs_with_defaults() -> None:
    """Input a has a default. One value is for b; two values are for a and b, in the order of the declaration."""
    declared = declare(FLOATS, FLOATS)
    assert list(check_feed([ONE], declared, ["b"])) == ["b"]
    both = check_feed((ONE, 2 * ONE), declared, ["b"])
    assert both["a"][0][0] == 1 and both["b"][0][0] == 2


@pytest.mark.parametrize("count", [0, 3])
def test_a_sequence_of_a_wrong_length_is_refused(count: int) -> None:
    with pytest.raises(InputError, match="%d inputs were given, the model takes 1" % count):
        check_feed([ONE] * count, declare(FLOATS, FLOATS), ["a"])


@pytest.mark.parametrize("inputs", ["text", b"bytes", 3, {1, 2}])
def test_other_containers_are_refused(inputs: Any) -> None:
    with pytest.raises(InputError, match="dict by name or a sequence.*not %s" % type(inputs).__name__):
        check_feed(inputs, declare(FLOATS), ["a"])


def test_an_unknown_name_is_refused_with_the_nearest_name() -> None:
    declared = [ValueInfo("pixels", FLOATS), ValueInfo("mask", FLOATS)]
    with pytest.raises(InputError, match="no input named 'pixel'") as near:
        check_feed({"pixel": ONE}, declared, [])
    assert "did you mean 'pixels'?" in str(near.value)
    with pytest.raises(InputError, match="no input named 'zzz'") as far:
        check_feed({"zzz": ONE}, declared, [])
    assert "did you mean" not in str(far.value) and "mask" in str(far.value)


def test_a_missing_input_is_refused_unless_it_has_a_default() -> None:
    declared = declare(FLOATS, FLOATS, FLOATS)
    with pytest.raises(InputError, match="the input 'a', 'c' is not given"):
        check_feed({"b": ONE}, declared, ["a", "b", "c"])
    assert list(check_feed({"b": ONE}, declared, ["b"])) == ["b"]


# -- tensors -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("value", [[1, 2], (1.0, 2.0), np.array([1, 2], np.float32)])
def test_a_list_of_numbers_takes_the_declared_dtype(value: Any) -> None:
    assert_pair(feed(value, FLOATS), [1, 2], float32)


def test_a_number_takes_the_declared_dtype() -> None:
    assert_pair(feed(3, TensorType(float32, ())), 3, float32)


@pytest.mark.parametrize("value", [np.ones(1), np.float64(1), np.ones(1, np.int64)])
def test_an_array_of_another_dtype_is_refused_and_not_converted(value: Any) -> None:
    with pytest.raises(InputError, match="the input 'a' is %s, the model takes float32" % value.dtype) as error:
        feed(value, FLOATS)
    assert "array.astype('float32')" in str(error.value)


def test_text_for_a_number_is_refused() -> None:
    with pytest.raises(InputError, match="the input 'a' cannot be read as float32"):
        feed(["x"], FLOATS)


def test_an_array_that_carries_a_type_without_a_numpy_dtype_is_taken() -> None:
    """numpy has no bfloat16. An input takes the same carrier array that an output of that type is returned as."""
    declared = TensorType(BFLOAT16, (None,))
    array = np.ones(2, BFLOAT16.numpy)
    assert_pair(feed(array, declared), array, BFLOAT16)
    integers = np.ones(2, np.int32)
    with pytest.raises(InputError, match="is int32, the model takes bfloat16") as error:
        feed(integers, declared)
    assert "array.astype(%r)" % str(BFLOAT16.numpy) in str(error.value)


def test_without_a_declared_type_an_array_has_its_own() -> None:
    assert_pair(feed(np.array([True])), [True], bool_)
    assert_pair(feed(np.ones((2, 2), np.int32)), np.ones((2, 2)), int32)


def test_none_is_refused_for_a_tensor() -> None:
    with pytest.raises(InputError, match="the input 'a' is None"):
        feed(None, FLOATS)


# -- shapes ------------------------------------------------------------------------------------------------------------
def test_the_rank_must_agree() -> None:
    with pytest.raises(InputError, match=r"'a' has rank 2 \(shape \[1, 1\]\), the model takes rank 1"):
        feed(np.ones((1, 1), np.float32), FLOATS)
    feed(np.ones((1, 1), np.float32), TensorType(float32, None))


def test_declared_sizes_must_agree() -> None:
    declared = TensorType(float32, (None, 3))
    feed(np.ones((7, 3), np.float32), declared)
    with pytest.raises(InputError, match=r"'a' has size 2 on axis 1 \(shape \[7, 2\]\)"):
        feed(np.ones((7, 2), np.float32), declared)


def test_a_named_size_is_the_same_everywhere() -> None:
    declared = declare(TensorType(float32, ("n",)), TensorType(float32, ("m", "n")))
    good = {"a": np.ones(2, np.float32), "b": np.ones((5, 2), np.float32)}
    assert list(check_feed(good, declared, [])) == ["a", "b"]
    with pytest.raises(InputError, match="the size 'n' is 2 in the input 'a' and 3 in 'b'"):
        check_feed({**good, "b": np.ones((5, 3), np.float32)}, declared, [])


@pytest.mark.parametrize(
    ("declared", "value", "noted"),
    [
        (TensorType(float32, ()), np.ones((2, 3), np.float32), "'a' has rank 2"),
        (TensorType(float32, ("n", "n")), np.ones((2, 3), np.float32), "the size 'n' is 2 in the input 'a' and 3"),
        (SequenceType(TensorType(float32, (2,))), [np.ones(3, np.float32)], r"'a[0]' has size 3 on axis 0"),
        (SequenceType(TensorType(float32, (2,))), [np.ones((2, 1), np.float32)], r"'a[0]' has rank 2"),
    ],
)
def test_a_declaration_that_onnxruntime_does_not_enforce_is_noted(declared: Any, value: Any, noted: str) -> None:
    contradictions: List[str] = []
    checked = check_feed({"a": value}, declare(declared), ["a"], contradictions)
    (array,) = flatten_value(checked["a"])
    assert array.shape == np.shape(value[0] if isinstance(value, list) else value)
    assert len(contradictions) == 1 and noted in contradictions[0]
    with pytest.raises(InputError):
        check_feed({"a": value}, declare(declared), ["a"])


@pytest.mark.parametrize(("declared", "size"), [((None,), (1, 1)), ((1,), ()), ((2,), (3,))])
@pytest.mark.parametrize("optional", [False, True])
def test_a_declaration_that_onnxruntime_enforces_is_refused(declared: Any, size: Any, optional: bool) -> None:
    kind: Any = OptionalType(TensorType(float32, declared)) if optional else TensorType(float32, declared)
    with pytest.raises(InputError):
        check_feed({"a": np.ones(size, np.float32)}, declare(kind), ["a"], [])


def test_a_port_of_another_rank_has_open_sizes() -> None:
    for rank, shape in ((0, ()), (2, (None, None))):
        ports = structure_ports("x", InputStructure("tensor", float32, rank), TensorType(float32, ()))
        assert ports == [Port("x", float32, shape)]


def test_none_is_the_default_or_an_omitted_input_where_allowed() -> None:
    declared = declare(FLOATS, FLOATS, OptionalType(FLOATS))
    checked = check_feed({"a": None, "b": None, "c": None}, declared, ["a", "c"], [])
    assert checked == {"a": OMITTED, "c": EMPTY_OPTIONAL}
    assert to_public_value(OMITTED) is None
    assert structure_ports("a", structure_of(OMITTED), FLOATS) == []


# -- text ----------------------------------------------------------------------------------------------------------------
def test_objects_become_text_only_where_text_is_declared() -> None:
    items = np.empty(3, object)
    items[:] = [None, float("nan"), b"\xff"]
    assert_pair(feed(items, TensorType(string, (None,))), ["None", "nan", "\udcff"], string)
    assert_pair(feed(items.tolist(), TensorType(string, (None,))), ["None", "nan", "\udcff"], string)
    with pytest.raises(UnsupportedError, match="holds a NoneType, not text"):
        feed(items)
    with pytest.raises(InputError, match="is float32, the model takes string"):
        feed(ONE, TensorType(string, (None,)))


# -- optionals, sequences, maps ----------------------------------------------------------------------------------------
def test_an_optional_is_its_element_or_empty() -> None:
    declared = OptionalType(FLOATS)
    assert feed(None, declared) is EMPTY_OPTIONAL
    assert_pair(feed(ONE, declared), [1], float32)
    with pytest.raises(InputError, match="has rank 0"):
        feed(np.float32(1), declared)


def test_each_item_of_a_sequence_is_checked() -> None:
    declared = SequenceType(TensorType(float32, ("n",)))
    first, second = feed([np.ones(1, np.float32), np.ones(2, np.float32)], declared)
    assert (first[0].shape, second[0].shape) == ((1,), (2,)), "a named size is the size of an item"
    assert feed([], declared) == []
    with pytest.raises(InputError, match=r"'a\[1\]' is float64"):
        feed([ONE, np.ones(1)], declared)
    with pytest.raises(InputError, match="'a' is a sequence: give a list, not ndarray"):
        feed(ONE, declared)


def test_a_list_without_a_declared_type_is_a_sequence() -> None:
    first, second = feed([ONE, np.ones(2, np.int64)])
    assert_pair(first, [1], float32)
    assert_pair(second, [1, 1], int64)


def test_a_dict_without_a_declared_type_is_a_map() -> None:
    map_items = feed({"b": 2.0, "a": 1.0})
    assert_pair(map_items.keys, ["a", "b"], string)
    assert_pair(map_items.values, [1, 2], float32)
    with pytest.raises(InputError, match="the keys of the map 'a' are not all strings"):
        feed({"b": 2.0, 3: 1.0})
    with pytest.raises(InputError):
        feed({"b": 2.0}, FLOATS)


@pytest.mark.parametrize(
    ("values", "dtype"), [([1, 2], int64), ([1.5, 2], float32), (["x", "y"], string), ([], float32)]
)
def test_the_dtype_of_a_map_without_a_declared_type_is_that_of_its_values(values: Sequence[Any], dtype: DType) -> None:
    map_items = feed(dict(enumerate(values)))
    assert_pair(map_items.keys, list(range(len(values))), int64)
    assert_pair(map_items.values, values, dtype)


def test_a_map_takes_the_declared_types() -> None:
    map_items = feed({3: 1, 1: 2}, MapType(int64, FLOATS))
    assert_pair(map_items.keys, [1, 3], int64)
    assert_pair(map_items.values, [2, 1], float32)
    assert_pair(feed({}, MapType(string, FLOATS)).keys, [], string)
    assert_pair(feed({}, MapType(string, TensorType(int64, ()))).values, [], int64)


@pytest.mark.parametrize(
    ("value", "key", "message"),
    [
        ([1], int64, "'a' is a map: give a dict, not list"),
        ({"x": 1.0}, int64, "the keys of the map 'a' are not all integers"),
        ({1: 1.0}, string, "the keys of the map 'a' are not all strings"),
        ({True: 1.0}, int64, "the keys of the map 'a' are not all integers"),
        ({1: "text"}, int64, "the values of the map 'a' are string, not float32"),
    ],
)
def test_a_map_of_other_types_is_refused(value: Any, key: DType, message: str) -> None:
    with pytest.raises(InputError, match=message):
        feed(value, MapType(key, FLOATS))


@pytest.mark.parametrize("declared", [None, MapType(int64, TensorType(string, ()))])
def test_the_texts_of_a_map_are_decoded(declared: Any) -> None:
    assert_pair(feed({2: b"\xc3\xa9", 1: "a"}, declared).values, ["a", "é"], string)


@pytest.mark.parametrize(
    "value",
    [{1: "a", 2: None}, {1: "a", 2: 5}, {1: b"a", 2: 1.5}, {1: None}, {1: [1, 2]}, {1: [1], 2: [1, 2]}, {1: 2**70}],
)
def test_values_of_a_map_that_are_no_numbers_and_no_texts_are_refused(value: Any) -> None:
    for declared in (None, MapType(int64, TensorType(string, ())), MapType(int64, FLOATS)):
        with pytest.raises(InputError, match="the values of the map 'a' are neither"):
            feed(value, declared)


def test_a_map_refuses_an_integer_that_its_type_cannot_hold() -> None:
    with pytest.raises(InputError, match="the number 1099511627776 in the map 'a' does not fit int32"):
        feed({1: 2**40}, MapType(int64, TensorType(int32, ())))


def test_fractions_are_not_rounded_to_a_map_of_integers() -> None:
    with pytest.raises(InputError, match="the values of the map 'a' are float32, not int64"):
        feed({1: 1.5}, MapType(int64, TensorType(int64, ())))


def test_a_function_is_applied_to_the_keys_and_the_values_of_a_map() -> None:
    doubled_map = MapItems([1], [2]).map(lambda items: items * 2)
    assert (doubled_map.keys, doubled_map.values) == ([1, 1], [2, 2])


# -- forms and ports ---------------------------------------------------------------------------------------------------
TENSOR = (np.ones((2, 3), np.float32), float32)
MAP = MapItems((np.array([1, 2]), int64), (np.ones(2, np.float32), float32))
TENSOR_STRUCTURE = InputStructure("tensor", float32, 2)
MAP_STRUCTURE = InputStructure("map", items=(InputStructure("tensor", int64, 1), InputStructure("tensor", float32, 1)))


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (TENSOR, TENSOR_STRUCTURE),
        (EMPTY_OPTIONAL, InputStructure("nothing")),
        ([], InputStructure("sequence")),
        (
            [TENSOR, [TENSOR]],
            InputStructure("sequence", items=(TENSOR_STRUCTURE, InputStructure("sequence", items=(TENSOR_STRUCTURE,)))),
        ),
        (MAP, MAP_STRUCTURE),
        ([MAP, EMPTY_OPTIONAL], InputStructure("sequence", items=(MAP_STRUCTURE, InputStructure("nothing")))),
    ],
)
def test_a_value_is_split_into_ports_and_rebuilt_from_tensors(value: Any, form: InputStructure) -> None:
    assert structure_of(value) == form
    arrays, ports = flatten_value(value), structure_ports("a", form, None)
    assert len(arrays) == len(ports)
    assert [(port.dtype.numpy, len(port.shape)) for port in ports] == [(array.dtype, array.ndim) for array in arrays]
    assert len({port.name for port in ports}) == len(ports)
    rest = lift(np.zeros(1, np.float32))
    tensors = [*map(lift, arrays), rest]
    assert_same(rebuild_value(form, tensors), value)
    assert tensors == [rest], "the tensors of other inputs stay in the list"


def assert_same(traced: Any, value: Any) -> None:
    """Assert that a traced value has the structure and the numbers of a checked value."""
    if value is EMPTY_OPTIONAL:
        assert traced is EMPTY_OPTIONAL
    elif isinstance(value, list):
        assert isinstance(traced, SequenceValue) and len(traced.items) == len(value)
        for item, expected in zip(traced.items, value):
            assert_same(item, expected)
    elif isinstance(value, MapItems):
        assert isinstance(traced, MapValue)
        assert_same(traced.keys, value.keys)
        assert_same(traced.values, value.values)
    else:
        assert isinstance(traced, Tensor)
        assert_pair((traced.value, traced.dtype), *value)


def test_the_dtype_of_a_sequence_is_that_of_its_items_or_the_declared_one() -> None:
    empty = InputStructure("sequence")
    assert rebuild_value(empty, []).dtype == float32
    assert rebuild_value(empty, [], int64).dtype == int64
    full = InputStructure("sequence", items=(InputStructure("tensor", int32, 1),))
    assert rebuild_value(full, [lift(np.ones(1, np.int32))], int64).dtype == int32


@pytest.mark.parametrize(
    ("declared", "shape"),
    [
        (None, (None, None)),
        (TensorType(float32, None), (None, None)),
        (TensorType(float32, ("n", 3)), ("n", 3)),
        (OptionalType(OptionalType(TensorType(float32, ("n", 3)))), ("n", 3)),
    ],
)
def test_a_port_has_the_declared_shape(declared: Optional[Any], shape: Any) -> None:
    assert structure_ports("a", TENSOR_STRUCTURE, declared) == [Port("a", float32, shape)]


def test_a_map_has_as_many_values_as_keys() -> None:
    keys, values = structure_ports("a", MAP_STRUCTURE, None)
    assert (keys.name, values.name) == ("a.keys", "a.values")
    assert keys.shape == values.shape == ("a.size",)


def test_checked_values_convert_back_to_the_fed_values() -> None:
    assert to_public_value(EMPTY_OPTIONAL) is None
    assert to_public_value(MAP) == {1: 1.0, 2: 1.0}
    (first, second) = to_public_value([TENSOR, EMPTY_OPTIONAL])
    np.testing.assert_array_equal(first, TENSOR[0])
    assert second is None


@pytest.mark.parametrize(
    ("shape", "declared", "hint"),
    [
        ((3, 8, 8), (None, 3, 8, 8), "add an axis: array[None]"),
        ((8, 8), (None, 3, 8, 8), None),
        ((1, 8, 8, 3), ("n", 3, 8, 8), "move the channels to axis 1: np.moveaxis(array, -1, 1)"),
        ((1, 3, 8, 8), ("n", 8, 8, 3), "move the channels to the end: np.moveaxis(array, 1, -1)"),
        ((1, 4, 8, 8), ("n", 3, 8, 8), None),
        ((8, 3), (8, 4), None),
    ],
)
def test_a_wrong_shape_has_a_hint(shape: Any, declared: Any, hint: Optional[str]) -> None:
    with pytest.raises(InputError) as caught:
        feed(np.zeros(shape, np.float32), TensorType(float32, declared))
    assert caught.value.hint == hint


def test_a_text_is_not_converted_to_a_number() -> None:
    with pytest.raises(InputError, match="is string, the model takes float32") as caught:
        feed(np.array(["a"]), FLOATS)
    assert caught.value.hint is None
