"""Quantization parameters (scale, zero point, dtype), and their recovery from float constants that were dequantized."""

from typing import Any, Iterable, NamedTuple, Optional, Tuple, Type

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.rewriter import ArrayLike

__all__ = [
    "QuantParams",
    "are_exact",
    "are_int8",
    "bias_type",
    "has_ties",
    "have_common_type",
    "parameters_of_constant",
    "quantize",
    "quantize_rows",
]

#: The relative error up to which a float counts as the product of a scale and an integer.
_TOLERANCE = 2.0**-21
#: A scale is tested on this many of the largest elements first: they reject most wrong scales.
_SAMPLE = 32


class QuantParams(NamedTuple):
    """Per-tensor quantization parameters: real = scale * (integer - zero). `dtype`: the type of the integers."""

    scale: float
    zero: int
    dtype: str

    @property
    def signed(self) -> "QuantParams":
        """The parameters of the same real numbers stored as int8 instead of uint8: the zero point is less by 128.

        Parameters of int8 and int16 are returned unchanged. Most integer kernels accept int8 and no uint8.
        """
        return QuantParams(self.scale, self.zero - 128, "int8") if self.dtype == "uint8" else self

    @property
    def unsigned(self) -> "QuantParams":
        return QuantParams(self.scale, self.zero + 128, "uint8") if self.dtype == "int8" else self

    def times(self, number: float) -> "QuantParams":
        """Return the parameters under which the same integers stand for `number` times the real values.

        Only the scale changes; it is rounded to float32.
        """
        return self._replace(scale=float(np.float32(self.scale * number)))

    @property
    def limits(self) -> Tuple[float, float]:
        """(least, greatest) real number that the dtype can store with these parameters."""
        kind = np.iinfo(self.dtype)
        return self.scale * (int(kind.min) - self.zero), self.scale * (int(kind.max) - self.zero)

    @property
    def quantization(self) -> fb.Quantization:
        return fb.Quantization([self.scale], [self.zero])


def are_int8(*all_parameters: QuantParams) -> bool:
    """Whether each of the parameters has the dtype int8."""
    return all(parameters.dtype == "int8" for parameters in all_parameters)


def have_common_type(*all_parameters: QuantParams) -> bool:
    """Whether integer kernels accept tensors of these parameters together.

    The dtypes must be equal, and the zero points 0 unless the dtype is int8.
    """
    return len({parameters.dtype for parameters in all_parameters}) == 1 and all(
        parameters.dtype == "int8" or not parameters.zero for parameters in all_parameters
    )


def has_ties(source: QuantParams, result: QuantParams) -> bool:
    """Whether an integer of `source` stands for a real number midway between two adjacent integers of `result`.

    Numbers beyond the limits of `result` are not counted: they are clipped. 16-bit integers are divided in float64:
    many of their quotients lie midway in float32, which has too few digits for them.
    """
    kind, limits = np.iinfo(source.dtype), np.iinfo(result.dtype)
    digits: Type[Any] = np.float64 if kind.bits == 16 else np.float32
    integers = np.arange(int(kind.min) - source.zero, int(kind.max) + 1 - source.zero).astype(digits)
    quotients = integers * digits(source.scale) / digits(result.scale)
    inside = quotients[(quotients > int(limits.min) - result.zero) & (quotients < int(limits.max) - result.zero)]
    return bool((inside - np.floor(inside) == 0.5).any())


def bias_type(data: QuantParams) -> str:
    """Return the dtype of the bias and of the accumulator for data of these parameters: int64 for int16, else int32."""
    return "int64" if data.dtype == "int16" else "int32"


def quantize(array: ArrayLike, parameters: QuantParams) -> np.ndarray:
    """Return round(array / scale) + zero, clipped to the dtype, as QuantizeLinear computes it.

    Halves are rounded to even. NaN gives an undefined number.
    """
    kind = np.iinfo(parameters.dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        stored = np.round(np.asarray(array, np.float32) / np.float32(parameters.scale)) + parameters.zero
    integers: np.ndarray = np.clip(stored, kind.min, kind.max).astype(parameters.dtype)
    return integers


def are_exact(array: ArrayLike, parameters: QuantParams) -> bool:
    """Whether the parameters store all elements of `array` exactly (within a relative 2**-21).

    False for NaN and infinity.
    """
    exact = np.asarray(array, np.float32)
    stored = (quantize(exact, parameters).astype(np.float32) - parameters.zero) * np.float32(parameters.scale)
    return bool(np.isfinite(exact).all() and (np.abs(stored - exact) <= _TOLERANCE * np.abs(exact)).all())


def parameters_of_constant(array: ArrayLike, dtype: str) -> Optional[QuantParams]:
    """Return parameters of this dtype with which a float constant is stored exactly (within a relative 2**-21).

    `_find_scale` gives the scale. For int16, the zero point is 0 and the largest magnitude is stored as 32767. For
    another dtype, the least element, or 0 if no element is negative, is stored as the least integer. A constant of
    zeros has the scale 1.

    Returns None if no such parameters exist, if the constant is empty, or if it has NaN or infinity.
    """
    flat = np.asarray(array, np.float32).reshape(1, -1)
    if not flat.size or not np.isfinite(flat).all():
        return None
    kind = np.iinfo(dtype)
    span = int(kind.max) - int(kind.min)
    if dtype == "int16":
        step = _find_scale(flat[0], (32767,))
        return None if step is None else QuantParams(step, 0, dtype)
    scale = _find_scale(flat[0], range(span, 0, -1))
    if scale is None:
        return None
    counts = np.rint(flat / np.float32(scale))
    low, high = int(min(counts.min(), 0)), int(max(counts.max(), 0))
    return QuantParams(scale, int(kind.min) - low, dtype) if high - low <= span else None


def quantize_rows(rows: ArrayLike, whole: bool = True) -> Optional[Tuple[np.ndarray, np.ndarray]]:
    """Return (int8 integers, scales) with integers * scales[:, None] == rows, to recover weights that were dequantized.

    `rows` is a float matrix; the integers have its shape. The scales are a vector with one scale for each row. With
    `whole`, they are a vector of a single scale, if a single scale is possible. Returns None if

    - no scales reproduce the rows (within a relative 2**-21),
    - the rows have no elements, have NaN or infinity, or are all zeros.
    """
    rows = np.asarray(rows, np.float32)
    if not rows.size or not np.isfinite(rows).all() or not rows.any():
        return None
    single = _find_scale(rows.reshape(-1), range(127, 0, -1)) if whole else None
    if single is not None:
        return np.rint(rows / np.float32(single)).astype(np.int8), np.asarray([single], np.float32)
    steps = np.zeros(len(rows), np.float32)
    for k, row in enumerate(rows):
        step = _find_scale(row, range(127, 0, -1)) if row.any() else 0.0
        if step is None:
            return None
        steps[k] = step
    steps[steps == 0] = steps[steps != 0].min()  # any scale gives a row of zeros
    return np.rint(rows / steps[:, None]).astype(np.int8), steps


def _find_scale(numbers: np.ndarray, counts: Iterable[int]) -> Optional[float]:
    """Return a scale of which all elements of the vector `numbers` are integer multiples (within a relative 2**-21).

    The candidates are (largest absolute number) / count, for each of `counts` in order. The first candidate that fits
    is refined by `_exact_scale`. Returns None if no candidate fits. Returns 1 if all numbers are 0. The vector must not
    be empty.
    """
    sizes = np.abs(numbers)
    largest = float(sizes.max())
    if not largest:
        return 1.0
    few = numbers if numbers.size <= _SAMPLE else numbers[np.argpartition(sizes, -_SAMPLE)[-_SAMPLE:]]
    for count in counts:
        step = np.float32(largest / count)
        if step and _are_multiples(few, step) and _are_multiples(numbers, step):
            return _exact_scale(numbers, step, count)
    return None


def _are_multiples(numbers: np.ndarray, step: np.float32) -> bool:
    again = np.rint(numbers / step) * step
    return bool((np.abs(again - numbers) <= _TOLERANCE * np.abs(numbers)).all())


def _exact_scale(numbers: np.ndarray, step: np.float32, count: int) -> float:
    """Refine the scale `step`: multiply it by the common factor of the integers, and return a float32 near the product.

    The scale and the two adjacent float32 numbers are tried: the first that reproduces all numbers is returned. If none
    does, the scale itself is returned. For a `count` of 127, 255 or 32767, the common factor stays in the integers.
    """
    stored = np.rint(numbers / step).astype(np.int64)
    common = int(np.gcd.reduce(stored.reshape(-1)))
    if common > 1 and count not in (127, 255, 32767):
        stored, step = stored // common, np.float32(step * common)
    candidates = [step, np.nextafter(step, np.float32(0)), np.nextafter(step, np.float32(np.inf))]
    return float(next((near for near in candidates if np.array_equal(stored.astype(np.float32) * near, numbers)), step))
