"""Operators on maps: from maps to rows of features, and from scores to maps.

The keys of a map ascend, as in std::map.
"""

from typing import Any, Callable, List

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, NeedsKnownError
from onnx_compat.ir.dims import is_static
from onnx_compat.ir.dtypes import DType, float32, int64, string
from onnx_compat.ops.arguments import Ints, Strings, take_slice
from onnx_compat.ops.ml.common import DOMAIN, label_tensor
from onnx_compat.ops.ml.lookup import first_indices
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import MapValue, SequenceValue, Tensor, known_array, lift

_CASTS = {"TO_FLOAT": float32, "TO_STRING": string, "TO_INT64": int64}


@op("CastMap", since=1, domain=DOMAIN)
def cast_map(X: MapValue, *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1) -> Tensor:
    """Return the values of a map as a row [1, count], cast to the dtype of `cast_to`.

    - map_form "DENSE": the values in the order of the keys.
    - map_form "SPARSE": each value at the index of its key, in a row of `max_map` values. Keys out of range are
      dropped. Other indices hold 0 (as text "0.f").

    Raises InvalidModelError for another `cast_to` or `map_form`, and for a text that is no number that the dtype
    holds. Raises NeedsKnownError for a cast from or to text of values that are not known.
    """
    if cast_to not in _CASTS or map_form not in ("DENSE", "SPARSE"):
        raise InvalidModelError(
            "a CastMap has cast_to=%r and map_form=%r; onnx defines TO_FLOAT, TO_STRING, TO_INT64 and DENSE, SPARSE"
            % (cast_to, map_form)
        )
    dtype = _CASTS[cast_to]
    values = _cast_values(X.values, dtype)
    if map_form == "SPARSE":
        empty = lift("0.f", string) if dtype is string else lift(0, dtype)  # the text that onnxruntime writes
        is_in_range = p.logical_and(p.greater_equal(X.keys, 0), p.less(X.keys, max_map))
        values = _scatter_row(p.where(is_in_range, X.keys, max_map), values, max_map, empty)
    return p.unsqueeze(values, [0])


def _scatter_row(indices: Tensor, values: Tensor, length: int, empty: Tensor) -> Tensor:
    """Return a vector of size `length` with each value at its index, and `empty` elsewhere.

    Indices are from 0 to `length`. A value at the index `length` is dropped.
    """
    row = p.broadcast_to(empty, (length + 1,))
    return p.slice_axis(p.scatter_nd(row, p.unsqueeze(indices, [1]), values), 0, 0, length)


def _cast_values(values: Tensor, dtype: DType) -> Tensor:
    """Return `values` cast to a dtype: numbers to text as C's %f does, and text to numbers.

    Values that have the dtype are returned unchanged. Only a cast from or to text raises an error:

    - NeedsKnownError if the values are not known
    - InvalidModelError if a text is no number, or a number that int64 cannot hold
    """
    if values.dtype == dtype:
        return values
    if "s" not in (values.dtype.kind, dtype.kind):
        return p.cast(values, dtype)
    array = known_array(values, "the values of a map that become, or are, text")
    convert: Callable[[Any], Any] = _format_number if dtype is string else float if dtype is float32 else _parse_integer
    try:
        return lift(np.asarray([convert(value) for value in array.tolist()], dtype.numpy), dtype)
    except ValueError as error:
        raise InvalidModelError("a value of the map is not a number: %s" % error) from error
    except OverflowError as error:
        raise InvalidModelError("a value of the map does not fit %s: %s" % (dtype.name, error)) from error


def _format_number(value: float) -> str:
    return "%f" % value


def _parse_integer(text: str) -> int:
    return int(float(text)) if "." in text or "e" in text.lower() else int(text)


@op("DictVectorizer", since=1, domain=DOMAIN)
def dict_vectorizer(X: MapValue, *, int64_vocabulary: Ints = None, string_vocabulary: Strings = None) -> Tensor:
    """Return a row [1, words] with the map's value for each key of the vocabulary; 0 or "" for an absent key.

    Keys outside the vocabulary are dropped. Raises InvalidModelError without a vocabulary, and if the dtypes of the
    vocabulary and of the keys differ.
    """
    words = label_tensor(int64_vocabulary, string_vocabulary)
    if words is None or words.value is None:
        raise InvalidModelError("a DictVectorizer needs its vocabulary")
    if words.dtype != X.keys.dtype:
        raise InvalidModelError("the vocabulary is of %s, the keys are %s" % (words.dtype.name, X.keys.dtype.name))
    vocabulary: List[Any] = words.value.tolist()
    first_index = {word: k for k, word in reversed(list(enumerate(vocabulary)))}
    empty = lift("", string) if X.values.dtype.kind == "s" else lift(0, X.values.dtype)
    row = _scatter_row(first_indices(X.keys, words.value), X.values, len(vocabulary), empty)
    if len(first_index) < len(vocabulary):  # a repeated key
        row = p.take(row, lift(np.asarray([first_index[word] for word in vocabulary], np.int64)), 0)
    return p.unsqueeze(row, [0])


@op("ZipMap", since=1, domain=DOMAIN)
def zip_map(X: Tensor, *, classlabels_int64s: Ints = None, classlabels_strings: Strings = None) -> SequenceValue:
    """Return a sequence with a map label -> score for each row of X. A vector X is one row.

    The labels of a map are in ascending order. If a label occurs twice, its last score is used.

    - Raises InvalidModelError without labels, or if the static number of scores is not that of the labels.
    - Raises NeedsKnownError if the number of rows is not known.
    """
    names: List[Any] = [*(classlabels_strings or classlabels_int64s or ())]
    scores = p.unsqueeze(X, [0]) if X.rank == 1 else X
    if is_static(scores.shape[1]) and scores.shape[1] != len(names):
        raise InvalidModelError("%s scores for %d labels" % (scores.shape[1], len(names)))
    count = scores.shape[0]
    if not is_static(count):
        raise NeedsKnownError("the number of maps depends on a size that is not known", lift([count]))
    last_index = {name: k for k, name in enumerate(names)}
    ascending = sorted(last_index)
    keys = label_tensor(None if classlabels_strings else ascending, ascending if classlabels_strings else None)
    if keys is None:
        raise InvalidModelError("a ZipMap needs the labels of its classes")
    score_indices = [last_index[name] for name in ascending]
    if score_indices != list(range(len(names))):
        scores = p.take(scores, lift(np.asarray(score_indices, np.int64)), 1)
    return SequenceValue(float32, tuple(MapValue(keys, take_slice(scores, k)) for k in range(int(count))))
