"""The outputs of a run: a list that is also indexed by name, of arrays that belong to the caller."""

from typing import Any, Dict, Iterable, Iterator, List, Mapping, Sequence, Set

import numpy as np

__all__ = ["Outputs", "own_arrays"]

#: An index, a slice or the name of an output. typing.SupportsIndex, which list takes, is newer than Python 3.7.
OutputKey = Any


class Outputs(List[Any]):
    """A list of outputs in the order of the graph, which is also indexed by name. An unknown name raises KeyError.

    Attributes:
        names: The names of the outputs.

    Examples:
        >>> outputs = onnx_compat.run("digits.onnx", [np.zeros((1, 1, 28, 28), np.float32)], shim="reference")
        >>> outputs["scores"] is outputs[0], outputs.names
        (True, ('scores',))
    """

    def __init__(self, values: Sequence[Any], names: Sequence[str]) -> None:
        super().__init__(values)
        self.names = tuple(names)

    def __getitem__(self, key: OutputKey) -> Any:
        if isinstance(key, str):
            if key not in self.names:
                raise KeyError("there is no output '%s'; the outputs are %s" % (key, list(self.names)))
            return super().__getitem__(self.names.index(key))
        return super().__getitem__(key)

    def as_dict(self) -> Dict[str, Any]:
        """Return output name -> value as a dict."""
        return dict(zip(self.names, self))


def own_arrays(outputs: Iterable[Any], feed: Mapping[str, Any]) -> List[Any]:
    """Return the outputs with every array writable, and in memory of its own: the caller may change it in place.

    An array is copied if it is read-only, or if its memory belongs to an array in `feed` or to an earlier output. The
    items of lists (sequences) are copied likewise. Other values are returned as they are.

    `feed`: the checked inputs of the run (`check_feed`).
    """
    used_ids = {id(_memory_owner(array)) for array in _arrays(feed)}
    return [_own(output, used_ids) for output in outputs]


def _own(value: Any, used_ids: Set[int]) -> Any:
    """Return a value as `own_arrays` does.

    `used_ids`: the ids of the objects that own memory in use. The owners of the returned arrays are added, in place.
    """
    if isinstance(value, list):
        return [_own(item, used_ids) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    if not value.flags.writeable or id(_memory_owner(value)) in used_ids:
        value = value.copy()
    used_ids.add(id(_memory_owner(value)))
    return value


def _memory_owner(array: Any) -> Any:
    """Return the object that owns the memory of an array: the end of the chain of `base`, or the array itself."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


def _arrays(values: Any) -> Iterator[Any]:
    """Yield the arrays of checked inputs, at any depth.

    The keys and values of a map are left out: no output has their memory.
    """
    if isinstance(values, np.ndarray):
        yield values
    elif isinstance(values, (Mapping, list, tuple)):
        for item in values.values() if isinstance(values, Mapping) else values:
            yield from _arrays(item)
