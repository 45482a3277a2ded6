"""The data of a training: whole arrays that are cut into batches, or an iterable of batches."""

from typing import Any, Dict, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from onnx_compat.errors import InputError

__all__ = ["Batch", "Data", "iterate_batches", "size_of"]

#: The inputs of a step by name.
Batch = Mapping[str, Any]
#: Whole arrays by name, or an iterable of batches that can be iterated once per epoch.
Data = Union[Mapping[str, Any], Iterable[Batch]]


class _Shuffle(NamedTuple):
    """Shuffles whole arrays by `seed` and the number of the epoch. A seed of None keeps the order."""

    seed: Optional[int]
    epoch: int

    def order(self, count: int) -> np.ndarray:
        if self.seed is None:
            return np.arange(count)
        order: np.ndarray = np.random.RandomState([self.seed, self.epoch]).permutation(count)
        return order


def iterate_batches(
    data: Data, inputs: Sequence[str], batch_size: int, seed: Optional[int], epoch: int
) -> Iterator[Dict[str, Any]]:
    """Yield the batches of an epoch. The last batch of whole arrays may be smaller.

    - data: whole arrays by name, or an iterable of batches.
    - inputs: the names of the inputs of a step.
    - seed: shuffles whole arrays, in another order for each `epoch`. None: the order of the arrays.

    Raises InputError for whole arrays that are empty, of unequal lengths, or not one for each input. Raises it also for
    a batch that is no mapping, and for an iterable without batches.
    """
    if isinstance(data, Mapping):
        arrays = {name: np.asarray(array) for name, array in data.items()}
        count = _count_examples(arrays, inputs)
        order = _Shuffle(seed, epoch).order(count)
        for start in range(0, count, batch_size):
            chosen = order[start : start + batch_size]
            yield {name: array[chosen] for name, array in arrays.items()}
        return
    is_empty = True
    for batch in data:
        is_empty = False
        if not isinstance(batch, Mapping):
            raise InputError(
                "a batch is a %s, not a dict by name" % type(batch).__name__,
                hint="give dicts with the keys %s" % ", ".join(map(repr, inputs)),
            )
        yield dict(batch)
    if is_empty:
        raise InputError(
            "the data has no batches%s" % ("" if epoch == 0 else " in epoch %d" % (epoch + 1)),
            hint="give a list, or an object whose `__iter__` starts again for each epoch; a generator ends",
        )


def _count_examples(arrays: Dict[str, np.ndarray], inputs: Sequence[str]) -> int:
    """Return the number of examples of whole arrays. Raises InputError as `iterate_batches` does."""
    missing = [name for name in inputs if name not in arrays]
    if missing:
        raise InputError(
            "the data has no array for the input %s" % ", ".join(map(repr, missing)),
            hint="the data has: %s" % (", ".join(map(repr, arrays)) or "nothing"),
        )
    sizes = {name: array.shape[0] if array.ndim else None for name, array in arrays.items()}
    if len(set(sizes.values())) > 1 or None in sizes.values():
        raise InputError(
            "the arrays of the data have different numbers of examples: %s"
            % ", ".join("'%s' has %s" % (name, "no axis" if size is None else size) for name, size in sizes.items()),
            hint="the first axis of every array counts the examples",
        )
    count = next(iter(sizes.values()), 0)
    if not count:
        raise InputError("the data has no examples", hint="give arrays with a first axis of at least 1")
    return int(count)


def size_of(batch: Batch) -> int:
    """Return the number of examples of a batch: the first size of its first array with axes; 1 without such an array."""
    for value in batch.values():
        shape = np.shape(value)
        if shape:
            return int(shape[0])
    return 1
