"""What integers stand for: scales and zero points, and those of a constant that came from such integers."""

from typing import Any, Iterable, NamedTuple, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb

__all__ = ["Grid", "bytes_only", "centred", "grid_of_constant", "holds", "on_grid", "rows_of_steps", "sums"]

#: How far a float32 product of a step and a whole number may be from another one's.
_NEAR = 2.0**-21
#: So many elements of a row, of its largest, tell most of the wrong steps.
_FEW = 32


class Grid(NamedTuple):
    """real = scale * (stored - zero), for a whole tensor."""

    scale: float
    zero: int
    dtype: str

    @property
    def signed(self) -> "Grid":
        """The same numbers in the type that the kernels are made for: bytes of the other sign are shifted."""
        return Grid(self.scale, self.zero - 128, "int8") if self.dtype == "uint8" else self

    @property
    def unsigned(self) -> "Grid":
        return Grid(self.scale, self.zero + 128, "uint8") if self.dtype == "int8" else self

    def times(self, number: float) -> "Grid":
        """A number times what the same integers stand for."""
        return self._replace(scale=float(np.float32(self.scale * number)))

    @property
    def ends(self) -> Tuple[float, float]:
        """The least and the greatest number."""
        kind = np.iinfo(self.dtype)
        return self.scale * (int(kind.min) - self.zero), self.scale * (int(kind.max) - self.zero)

    @property
    def quantization(self) -> fb.Quantization:
        return fb.Quantization([self.scale], [self.zero])


def bytes_only(*grids: Grid) -> bool:
    return all(grid.dtype == "int8" for grid in grids)


def centred(*grids: Grid) -> bool:
    """Whether kernels take these together: of one type, and int16 without a zero point."""
    return len({grid.dtype for grid in grids}) == 1 and all(grid.dtype == "int8" or not grid.zero for grid in grids)


def sums(given: Grid) -> str:
    """The type of sums of products with such numbers, which is that of a bias."""
    return "int64" if given.dtype == "int16" else "int32"


def on_grid(array: Any, grid: Grid) -> Any:
    """The numbers as QuantizeLinear stores them."""
    kind = np.iinfo(grid.dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        stored = np.round(np.asarray(array, np.float32) / np.float32(grid.scale)) + grid.zero
    return np.clip(stored, kind.min, kind.max).astype(grid.dtype)


def holds(array: Any, grid: Grid) -> bool:
    """Whether a grid has the numbers of an array, neither rounded nor clipped."""
    exact = np.asarray(array, np.float32)
    stored = (on_grid(exact, grid).astype(np.float32) - grid.zero) * np.float32(grid.scale)
    return bool(np.isfinite(exact).all() and (np.abs(stored - exact) <= _NEAR * np.abs(exact)).all())


def grid_of_constant(array: Any, dtype: str) -> Optional[Grid]:
    """A grid of this type that has just these numbers."""
    flat = np.asarray(array, np.float32).reshape(1, -1)
    if not flat.size or not np.isfinite(flat).all():
        return None
    kind = np.iinfo(dtype)
    span = int(kind.max) - int(kind.min)
    if dtype == "int16":
        found = _steps(flat[0], (32767,))
        return None if found is None else Grid(found, 0, dtype)
    scale = _steps(flat[0], range(span, 0, -1))
    if scale is None:
        return None
    counts = np.rint(flat / np.float32(scale))
    low, high = int(min(counts.min(), 0)), int(max(counts.max(), 0))
    return Grid(scale, int(kind.min) - low, dtype) if high - low <= span else None


def rows_of_steps(rows: Any, whole: bool = True) -> Optional[Tuple[Any, Any]]:
    """Numbers of int8 and the step of each row (or one for all, if one serves) that give the rows of a float matrix
    again; None where there are none. Weights that were dequantized are such: the scale is found as it was.
    """
    rows = np.asarray(rows, np.float32)
    if not rows.size or not np.isfinite(rows).all() or not rows.any():
        return None
    one = _steps(rows.reshape(-1), range(127, 0, -1)) if whole else None
    if one is not None:
        return np.rint(rows / np.float32(one)).astype(np.int8), np.asarray([one], np.float32)
    steps = np.zeros(len(rows), np.float32)
    for k, row in enumerate(rows):
        found = _steps(row, range(127, 0, -1)) if row.any() else 0.0
        if found is None:
            return None
        steps[k] = found
    steps[steps == 0] = steps[steps != 0].min()  # a row of zeros has any
    return np.rint(rows / steps[:, None]).astype(np.int8), steps


def _steps(numbers: Any, counts: Iterable[int]) -> Optional[float]:
    """The step of which all of these are multiples, the largest of them one of these counts; the first that serves."""
    sizes = np.abs(numbers)
    largest = float(sizes.max())
    if not largest:
        return 1.0
    few = numbers if numbers.size <= _FEW else numbers[np.argpartition(sizes, -_FEW)[-_FEW:]]
    for count in counts:
        step = np.float32(largest / count)
        if step and _multiples(few, step) and _multiples(numbers, step):
            return _exact(numbers, step, count)
    return None


def _multiples(numbers: Any, step: Any) -> bool:
    again = np.rint(numbers / step) * step
    return bool((np.abs(again - numbers) <= _NEAR * np.abs(numbers)).all())


def _exact(numbers: Any, step: Any, count: int) -> float:
    """The step to its last digit; not a part of the real one, unless that cannot be told."""
    stored = np.rint(numbers / step).astype(np.int64)
    common = int(np.gcd.reduce(stored.reshape(-1)))
    if common > 1 and count not in (127, 255, 32767):
        stored, step = stored // common, np.float32(step * common)
    near = [step, np.nextafter(step, np.float32(0)), np.nextafter(step, np.float32(np.inf))]
    return float(next((one for one in near if np.array_equal(stored.astype(np.float32) * one, numbers)), step))
