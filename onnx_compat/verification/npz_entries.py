"""Names of the arrays of a .npz file, which hold values that are no arrays: sequences, maps and None.

| value | entries |
|---|---|
| a tensor `x` | `x` |
| a sequence `s`, also of sequences or maps | `s[0]`, `s[1]`, …; `s[0][0]`, … |
| an empty sequence `s` | `s[]`, an empty array |
| a map `m` | `m[keys]` and `m[values]` |
| None, as for an empty optional `o` | `o[none]`, an empty array |
"""

import re
from typing import Any, Dict, Iterator, List, Mapping, Tuple

import numpy as np

from onnx_compat.errors import InputError
from onnx_compat.ir.dtypes import from_public

__all__ = ["HINT", "flatten_values", "restore_values"]

HINT = "write it with numpy.savez(path, **{input_name: array}), of numbers, bools or text, without pickled objects"
#: A name with indices, such as "s[0][12]", or with a mark at its end, such as "s[0][none]".
_NAME = re.compile(r"^(?P<name>.+?)(?P<indices>(?:\[\d{1,18}\])*)(?P<mark>\[(?:none|keys|values)?\])?$")
#: The most indices of a name. Values are restored by recursion.
_DEEPEST = 64
_EMPTY, _NONE, _KEYS, _VALUES = "[]", "[none]", "[keys]", "[values]"


def flatten_values(values: Mapping[str, Any]) -> Iterator[Tuple[str, np.ndarray]]:
    """Yield (name of the entry, array) for each entry of a .npz file that holds these values, by name.

    The arrays are carrier arrays; strings have numpy's fixed-width text dtype. Raises UnsupportedError for an object
    that is no value of ONNX.
    """
    for name, value in values.items():
        if value is None:
            yield name + _NONE, np.zeros(0, np.bool_)
        elif isinstance(value, Mapping):
            yield from flatten_values(
                {name + _KEYS: _list_array(value.keys()), name + _VALUES: _list_array(value.values())}
            )
        elif isinstance(value, (list, tuple)):
            if not value:
                yield name + _EMPTY, np.zeros(0, np.bool_)
            yield from flatten_values({"%s[%d]" % (name, index): item for index, item in enumerate(value)})
        else:
            array, dtype = from_public(value)
            yield name, array.astype(str) if dtype.kind == "s" else array


def _list_array(items: Any) -> np.ndarray:
    """Return the keys or the values of a map as a vector: of text as objects, of numbers in numpy's default dtype."""
    listed = list(items)
    has_text = any(isinstance(item, (str, bytes)) for item in listed)
    return np.asarray(listed, object if has_text else None)


def restore_values(arrays: Mapping[str, np.ndarray]) -> Dict[str, Any]:
    """Return value name -> value for the entries of a .npz file: the inverse of `flatten_values`.

    `arrays`: entry name -> array, in any order.

    Raises InputError if an index of a sequence is missing, or if two entries contradict each other.
    """
    values: Dict[str, Any] = {}
    trees: Dict[str, Dict[Any, Any]] = {}
    for entry, array in arrays.items():
        match = _NAME.match(entry)
        if match is None or not (match.group("indices") or match.group("mark")):
            values[entry] = array
            continue
        if match.group("indices").count("[") > _DEEPEST:
            raise InputError("the sequences in '%s…' are nested more than %d deep" % (entry[:40], _DEEPEST), hint=HINT)
        steps: List[Any] = [int(index) for index in re.findall(r"\d+", match.group("indices"))]
        steps += [match.group("mark")] if match.group("mark") else []
        _insert(trees.setdefault(match.group("name"), {}), steps, array, entry)
    for name, tree in trees.items():
        if name in values:
            raise InputError("the file holds the array '%s' and parts of a value of this name" % name, hint=HINT)
        values[name] = _build(name, tree)
    return values


def _insert(tree: Dict[Any, Any], steps: List[Any], array: np.ndarray, entry: str) -> None:
    """Store an array in nested dicts, at the keys `steps`. Raise InputError if another entry has a value there."""
    branch: Any = tree
    for step in steps[:-1]:
        branch = branch.setdefault(step, {}) if isinstance(branch, dict) else branch
    if not isinstance(branch, dict) or steps[-1] in branch:
        raise InputError("the entry '%s' contradicts another entry of the file" % entry, hint=HINT)
    branch[steps[-1]] = array


def _build(name: str, tree: Dict[Any, Any]) -> Any:
    """Return the value that is stored as the nested dicts `tree`: a list for a sequence, a dict for a map, or None.

    The keys of `tree` are the indices of a sequence, or marks such as "[none]". `name`: the value's name, for errors.

    Raises InputError for marks beside indices, and for a gap in the indices. Raises InputError also for a map whose
    numbers of keys and of values differ.
    """
    keys = set(tree)
    if keys == {_NONE}:
        return None
    if keys == {_EMPTY}:
        return []
    if keys == {_KEYS, _VALUES}:
        pairs = [np.asarray(tree[key]).tolist() for key in (_KEYS, _VALUES)]
        if not all(isinstance(items, list) for items in pairs) or len(pairs[0]) != len(pairs[1]):
            raise InputError("the map '%s' has other keys than values" % name, hint=HINT)
        return dict(zip(*pairs))
    indices = sorted(key for key in keys if isinstance(key, int))
    if len(indices) != len(keys):
        raise InputError("the entries of '%s' contradict each other" % name, hint=HINT)
    if indices != list(range(len(indices))):
        raise InputError("the sequence '%s' has gaps: it has the elements %s" % (name, indices), hint=HINT)
    items = [(index, tree[index]) for index in indices]
    return [_build("%s[%d]" % (name, index), item) if isinstance(item, dict) else item for index, item in items]
