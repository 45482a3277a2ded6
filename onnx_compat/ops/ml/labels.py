"""Operators that map values to other values by a table: CategoryMapper and LabelEncoder."""

from typing import Any, Optional

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import DType, float32, int64, string
from onnx_compat.ops.arguments import Floats, Ints, Strings, product
from onnx_compat.ops.ml.common import DOMAIN
from onnx_compat.ops.ml.lookup import first_indices
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, known_array, lift


def _map_values(
    x: Tensor, keys: np.ndarray, values: np.ndarray, default: Any, dtype: DType, nan: bool = False
) -> Tensor:
    """Return, for each element of x, values[k], where keys[k] is the first key that equals the element.

    An element without an equal key becomes `default`. The result has the shape of x and the dtype `dtype`. With `nan`,
    NaN equals NaN. Raises InvalidModelError if `keys` and `values` differ in length.
    """
    if len(keys) != len(values):
        raise InvalidModelError(
            "a LabelEncoder has %d keys and %d values; their numbers must be equal" % (len(keys), len(values))
        )
    table = np.empty(len(values) + 1, dtype.numpy)
    table[:-1], table[-1] = values, default
    flat = p.reshape(x, (product(x.shape),))
    mapped = p.take(lift(table, dtype), first_indices(flat, keys, nan), 0)
    return p.reshape(mapped, x.shape)


def _as_array(values: Any, dtype: DType) -> np.ndarray:
    return np.asarray(list(values), dtype.numpy)


@op("CategoryMapper", since=1, domain=DOMAIN)
def category_mapper(
    X: Tensor,
    *,
    cats_int64s: Ints = (),
    cats_strings: Strings = (),
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Tensor:
    """Map strings to integers, or integers to strings. A value that is not listed becomes the default.

    cats_strings[k] and cats_int64s[k] are mapped to each other. If a value is listed twice, its last position is used.
    Raises InvalidModelError if the two lists differ in length.
    """
    numbers, names = _as_array(cats_int64s or (), int64)[::-1], _as_array(cats_strings or (), string)[::-1]
    if X.dtype.kind == "s":
        return _map_values(X, names, numbers, default_int64, int64)
    return _map_values(X, numbers, names, default_string, string)


@op("LabelEncoder", since=1, domain=DOMAIN)
def label_encoder_1(
    X: Tensor, *, classes_strings: Strings = (), default_int64: int = -1, default_string: str = "_Unused"
) -> Tensor:
    """Map strings to their index in `classes_strings`, or indices to strings. Any other value becomes the default.

    If a string is listed twice, its last index is used.
    """
    names, indices = _as_array(classes_strings or (), string), np.arange(len(classes_strings or ()))
    if X.dtype.kind == "s":
        return _map_values(X, names[::-1], indices[::-1], default_int64, int64)
    return _map_values(X, indices, names, default_string, string)


@op("LabelEncoder", since=2, domain=DOMAIN)
def label_encoder_2(
    X: Tensor,
    *,
    keys_floats: Floats = None,
    keys_int64s: Ints = None,
    keys_strings: Strings = None,
    values_floats: Floats = None,
    values_int64s: Ints = None,
    values_strings: Strings = None,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Tensor:
    """Map each element of X that equals a key to the value of that key. Any other element becomes the default.

    The keys are the first list that is given of keys_floats, keys_int64s and keys_strings; likewise the values. The
    default is that for the dtype of the values. If a key occurs twice, its first value is used. A NaN key never
    matches. Raises InvalidModelError in these cases:

    - there are no keys or no values
    - the keys are of another kind (float, integer, string) than X
    - the numbers of keys and values differ
    """
    keys = _keys_of_dtype("keys", X.dtype, keys_floats, keys_int64s, keys_strings, None)
    values, dtype = _values(values_floats, values_int64s, values_strings, None)
    default = {"f": default_float, "i": default_int64, "s": default_string}[dtype.kind]
    return _map_values(X, keys, values, default, dtype)


@op("LabelEncoder", since=4, domain=DOMAIN)
def label_encoder(
    X: Tensor,
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: Optional[Tensor] = None,
    keys_floats: Floats = None,
    keys_int64s: Ints = None,
    keys_strings: Strings = None,
    keys_tensor: Optional[Tensor] = None,
    values_floats: Floats = None,
    values_int64s: Ints = None,
    values_strings: Strings = None,
    values_tensor: Optional[Tensor] = None,
) -> Tensor:
    """Map each element of X that equals a key to the value of that key. Any other element becomes the default.

    The keys are the first that is given of keys_tensor, keys_floats, keys_int64s and keys_strings; likewise the values.
    The default is default_tensor, or else the default for the dtype of the values. If a key occurs twice, its first
    value is used. A NaN key matches NaN. Raises InvalidModelError in these cases:

    - there are no keys or no values
    - the keys are of another kind (float, integer, string) than X
    - the numbers of keys and values differ
    """
    keys = _keys_of_dtype("keys", X.dtype, keys_floats, keys_int64s, keys_strings, keys_tensor)
    values, dtype = _values(values_floats, values_int64s, values_strings, values_tensor)
    if default_tensor is not None:
        default = known_array(default_tensor, "the default").reshape(-1)[0]
    else:
        default = {"f": default_float, "i": default_int64, "s": default_string}[dtype.kind]
    return _map_values(X, keys, values, default, dtype, nan=True)


def _keys_of_dtype(
    description: str, dtype: DType, floats: Any, ints: Any, strings: Any, tensor: Optional[Tensor]
) -> Any:
    """Return the keys as an array of `dtype`: the first that is given of the tensor, floats, ints and strings.

    `description` names the keys in the error. Raises InvalidModelError without keys, and for keys of another kind
    (float, integer, string) than `dtype`. Raises NeedsKnownError if the tensor is not known.
    """
    values, key_dtype = _values(floats, ints, strings, tensor)
    if key_dtype.kind != dtype.kind:
        raise InvalidModelError("the %s are %s, not %s" % (description, key_dtype.name, dtype.name))
    return values.astype(dtype.numpy, copy=False)


def _values(floats: Any, ints: Any, strings: Any, tensor: Optional[Tensor]) -> Any:
    """Return (array, dtype) of the first that is given: the tensor, floats, ints, strings. A tensor is flattened.

    Raises InvalidModelError without any, and NeedsKnownError if the tensor is not known.
    """
    if tensor is not None:
        return known_array(tensor, "the labels").reshape(-1), tensor.dtype
    for values, dtype in ((floats, float32), (ints, int64), (strings, string)):
        if values is not None:
            return _as_array(values, dtype), dtype
    raise InvalidModelError("a LabelEncoder needs its keys and its values")
