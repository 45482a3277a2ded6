"""Values of the graph under construction, in each world: what is known of their rounding, and which values are rejected.

A world is an assignment of the open sizes, with its feeds. Each value is computed twice in each world. The second time, every
result that may be rounded carries noise (stochastic arithmetic): a graph in which rounding changes a result is rejected.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

__all__ = ["LARGEST", "Rejected", "Sample", "Value", "check_range", "is_on_grid", "noise_level"]

LARGEST = 1e4
"""The largest magnitude of a float."""
LARGEST_INTEGER = 10**6
MOST_ELEMENTS = 3000
GRID = 16
"""Values on the grid are multiples of 1 / GRID up to GRID_END: sums of products of 64 of them are exact in float32."""
GRID_END = 32
NOISE = 2e-6
SENSITIVE = 2e-4
"""The largest difference that noise may cause, as a share of the largest magnitude."""


class Rejected(Exception):
    """A node cannot be added to the draft: no operand fits, or correct runtimes may disagree on its result."""


class Sample(NamedTuple):
    """A value in a world. `shaken` is the value computed with noise; the same object if the value is exact."""

    array: Any
    shaken: Any


class Value:
    """A value of the graph under construction, with its sample in each world.

    - exact: whether no operation on the way to it rounds, whatever the order of the operations.
    - container: "" for a tensor, or "sequence".
    - readers: the number of nodes that read it.
    """

    def __init__(self, name: str, samples: Sequence[Sample], exact: bool, container: str = "") -> None:
        self.name = name
        self.samples = tuple(samples)
        self.exact = exact
        self.container = container
        self.readers = 0

    @property
    def array(self) -> np.ndarray:
        """The array in the first world."""
        array: np.ndarray = self.samples[0].array
        return array

    @property
    def arrays(self) -> List[np.ndarray]:
        """The array in each world."""
        return [sample.array for sample in self.samples]

    @property
    def dtype(self) -> str:
        """The name of the dtype; for a sequence, of the dtype of its first item."""
        if self.container == "sequence":
            return str(self.samples[0].array[0].dtype.name)
        return str(self.array.dtype.name)

    @property
    def rank(self) -> int:
        """The number of axes; -1 for a sequence."""
        return self.array.ndim if not self.container else -1

    @property
    def shape(self) -> Tuple[int, ...]:
        """The shape in the first world."""
        return tuple(self.array.shape)

    @property
    def shapes(self) -> List[Tuple[int, ...]]:
        """The shape in each world."""
        return [tuple(array.shape) for array in self.arrays]

    @property
    def dims(self) -> Tuple[Optional[int], ...]:
        """The size of each axis; None where the worlds have different sizes."""
        return tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*self.shapes))

    @property
    def is_float(self) -> bool:
        return not self.container and self.dtype in ("float32", "float64")

    @property
    def is_integer(self) -> bool:
        return not self.container and self.array.dtype.kind in "iu"

    @property
    def is_on_grid(self) -> bool:
        """Whether the value is exact, and its elements are on the grid: then sums of their products are exact too."""
        return self.exact and all(is_on_grid(array) for array in self.arrays)


def is_on_grid(array: np.ndarray) -> bool:
    """Whether all elements are multiples of 1 / GRID, up to GRID_END in magnitude. True if the array has no floats."""
    if array.dtype.kind != "f":
        return True
    scaled = array.astype(np.float64) * GRID
    return bool((scaled == np.rint(scaled)).all() and (np.abs(array) <= GRID_END).all())


def check_range(array: Any, allow_empty: bool) -> None:
    """Raise Rejected for a value that is not finite, too large or too close to 0, or has too many elements or axes.

    Unless `allow_empty`, a value without elements is rejected too. None is accepted. Each item of a list is checked.
    """
    if isinstance(array, list):
        for item in array:
            check_range(item, allow_empty)
        return
    if array is None:
        return
    if array.size > MOST_ELEMENTS or array.ndim > 6 or (array.size == 0 and not allow_empty):
        raise Rejected("elements")
    if array.dtype.kind == "f" and array.size:
        magnitudes = np.abs(array.astype(np.float64))
        if not np.isfinite(magnitudes).all() or magnitudes.max() > LARGEST:
            raise Rejected("magnitude")
        if ((magnitudes > 0) & (magnitudes < 1e-20)).any():  # runtimes flush subnormal numbers and their products
            raise Rejected("tiny")
    if array.dtype.kind in "iu" and array.size and np.abs(array.astype(np.float64)).max() > LARGEST_INTEGER:
        raise Rejected("magnitude")


def noise_level(array: np.ndarray, shaken: np.ndarray) -> float:
    """Return the largest difference between `array` and `shaken`, which is the same value with noise.

    Returns 0.0 for an array that is empty or no float. Raises Rejected if the difference is large (see `SENSITIVE`), if
    the shapes differ, and for any difference between arrays that are no floats.
    """
    if array.shape != shaken.shape:
        raise Rejected("noise")
    if array.dtype.kind != "f":
        if not np.array_equal(array, shaken):
            raise Rejected("noise")
        return 0.0
    if not array.size:
        return 0.0
    difference = float(np.abs(array.astype(np.float64) - shaken.astype(np.float64)).max())
    if not difference <= SENSITIVE * float(np.abs(array).max()) + 1e-6:
        raise Rejected("noise")
    return difference
