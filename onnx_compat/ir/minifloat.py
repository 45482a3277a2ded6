"""The small floating-point formats that numpy lacks: decode their bits, and round numbers to them correctly.

The magnitudes of a format are a sorted table, indexed by code. A number is rounded by a binary search among the
thresholds between consecutive magnitudes. The rounding mode and the tie rule only move these thresholds. So a number
of any width is rounded once, without an intermediate type.
"""

from typing import Any, Dict, Optional, Tuple

import numpy as np

__all__ = ["FORMATS", "Format"]

Array = Any  # numpy's stubs lose the dtype in most arithmetic


class Format:
    """A small floating-point format: decode its codes, and round numbers to its values.

    A format is defined by the widths of exponent and mantissa, the exponent bias, and the use of the highest codes.

    A code is the integer whose bits encode a number. `special` says which codes do not encode a finite number:

    - ieee: the codes with the largest exponent are infinity and NaN (bfloat16, float8e5m2).
    - fn: the last code of each sign is NaN, and there is no infinity (float8e4m3fn).
    - fnuz: the code of negative zero is NaN, and there is no infinity (float8e4m3fnuz, float8e5m2fnuz).
    - finite: no infinity and no NaN (float4e2m1, float6*); a NaN becomes negative zero, as ml_dtypes does.
    - scale: unsigned powers of two without zero; the last code is NaN (float8e8m0).
    """

    def __init__(self, exponent: int, mantissa: int, bias: int, special: str) -> None:
        self.special = special
        self.signed = special != "scale"
        self.mantissa = mantissa
        self.bits = exponent + mantissa + self.signed
        self.bias = bias
        codes = 1 << (exponent + mantissa)
        reserved = {"ieee": 1 << mantissa, "fn": 1, "fnuz": 0, "finite": 0, "scale": 1}[special]
        self.top = codes - reserved - 1  # the code of the largest finite magnitude
        self.code_type = np.dtype(np.uint16 if self.bits > 8 else np.uint8)
        self.saturates = self.bits <= 8  # bfloat16 overflows to infinity, like wide floats
        self._thresholds: Dict[str, Array] = {}
        self._values: Optional[Array] = None

    def magnitude(self, code: Array) -> Array:
        """Return the float64 magnitudes (absolute values) of codes that have no sign bit, up to `top + 1`.

        `top` is the code of the largest finite magnitude. The code `top + 1` gives the magnitude that would follow it.
        """
        code = np.asarray(code, np.int64)
        power, fraction = code >> self.mantissa, code & ((1 << self.mantissa) - 1)
        if self.special == "scale":
            return np.ldexp(1.0, (power - self.bias).astype(np.int32))
        whole = fraction + np.where(power > 0, 1 << self.mantissa, 0)
        scale = np.maximum(power, 1) - self.bias - self.mantissa
        return np.ldexp(whole.astype(np.float64), scale.astype(np.int32))

    @property
    def max(self) -> float:
        """The largest finite value."""
        return float(self.magnitude(self.top))

    @property
    def min(self) -> float:
        """The most negative finite value; for `special` "scale", the smallest positive value."""
        return -self.max if self.signed else float(self.magnitude(0))

    @property
    def nan(self) -> int:
        """The code (bit pattern) of NaN. If both signs have a NaN, it is the code without the sign bit.

        A "fnuz" format has its NaN in the code of negative zero. A "finite" format has no NaN: the code of negative
        zero is returned.
        """
        if self.special == "ieee":
            return self.top + 1 + (1 << max(self.mantissa - 1, 0))
        return self.top + 1 if self.special in ("fn", "scale") else 1 << (self.bits - 1)

    def decode(self, codes: Array) -> Array:
        """Return the float32 values of an array of codes. The conversion is exact, and NaN and infinity stay.

        Bits above the width of the format are ignored.
        """
        codes = np.asarray(codes, self.code_type)
        if self.bits == 16:
            return np.asarray(codes.astype(np.uint32) << np.uint32(16)).view(np.float32)
        if self._values is None:
            self._values = self._table()
        return np.asarray(self._values[codes & ((1 << self.bits) - 1)])

    def _table(self) -> Array:
        plain = np.full(1 << (self.bits - self.signed), np.nan, np.float32)
        plain[: self.top + 1] = self.magnitude(np.arange(self.top + 1))
        if self.special == "ieee":
            plain[self.top + 1] = np.inf
        if not self.signed:
            return plain
        table = np.concatenate([plain, -plain])
        if self.special == "fnuz":
            table[len(plain)] = np.nan
        return table

    def encode(self, values: Array, saturate: bool = True, mode: str = "nearest") -> Array:
        """Round numbers to values of the format. Return an array of their codes: uint16 for bfloat16, else uint8.

        - mode: "nearest" (ties to even; in a scale, ties upwards), "up" (away from zero) or "down" (towards zero).
        - saturate: what a magnitude becomes that rounds to more than the largest value, also infinity. True: the
          largest value. False: infinity, or NaN if the format has no infinity. The sign stays. "finite" formats always
          saturate, bfloat16 never does.

        NaN becomes the code `nan`, with its sign. In bfloat16, a float32 NaN keeps its upper bits in the mode
        "nearest".

        In a scale, a negative number becomes NaN. A number below the smallest value becomes the smallest value with
        `saturate`, and NaN without.

        Raises ValueError for another mode.
        """
        values = np.asarray(values)
        if self.bits == 16 and mode == "nearest" and values.dtype == np.float32:
            return _bfloat16_bits(values)
        values = values.astype(np.float64, copy=False)
        size = np.abs(values)
        code: Array = np.searchsorted(self._rounding_thresholds(mode), size, side="right")
        code = np.where(code > self.top, self._too_large(saturate), code).astype(self.code_type)
        if not self.signed:
            with np.errstate(invalid="ignore"):  # old numpy warns when it compares NaN
                unfit: Array = np.isnan(values) | (values < 0) | (size < (0 if saturate else self.magnitude(0)))
            return np.where(unfit, self.code_type.type(self.nan), code)
        code = np.where(np.isnan(values), self.code_type.type(self.nan), code)
        negative: Array = np.signbit(values)
        if self.special == "fnuz":  # the code of negative zero is NaN
            negative &= code != 0
        return code | (negative.astype(self.code_type) << self.code_type.type(self.bits - 1))

    def round(self, values: Array, saturate: bool = True, mode: str = "nearest") -> Array:
        """Round numbers to values of the format. Return them as float32.

        `saturate` and `mode` are those of `encode`, which makes codes that `decode` converts back.
        """
        return self.decode(self.encode(values, saturate, mode))

    def _too_large(self, saturate: bool) -> int:
        """Return the code that replaces a magnitude above the largest value. `saturate`: as in `encode`."""
        if self.special == "finite" or (saturate and self.saturates):
            return self.top
        return self.top + 1 if self.special == "ieee" else self.nan

    def _rounding_thresholds(self, mode: str) -> Array:
        """Return for each code the smallest magnitude that rounds to a higher code, under a rounding mode of `encode`.

        The array is computed once for a mode. Raises ValueError for an unknown mode.
        """
        if mode not in self._thresholds:
            values = self.magnitude(np.arange(self.top + 2))
            low, high = values[:-1], values[1:]
            if mode == "nearest":
                steps = low + (high - low) / 2
                if self.special != "scale":
                    steps[::2] = np.nextafter(steps[::2], np.inf)  # a tie above an even code rounds down
            elif mode == "up":
                steps = np.nextafter(low, np.inf)
            elif mode == "down":
                steps = high
            else:
                raise ValueError("unknown rounding mode %r" % mode)
            self._thresholds[mode] = steps
        return self._thresholds[mode]


def _bfloat16_bits(values: Array) -> Array:
    """Return the bfloat16 codes (uint16) of float32 numbers, rounded half to even by integer arithmetic."""
    bits = np.ascontiguousarray(values).view(np.uint32).reshape(values.shape)
    rounded = bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))
    return (np.where(np.isnan(values), bits | np.uint32(0x400000), rounded) >> 16).astype(np.uint16)


def _formats(**table: Tuple[int, int, int, str]) -> Dict[str, Format]:
    return {name: Format(*row) for name, row in table.items()}


#: Name -> (exponent bits, mantissa bits, exponent bias, use of the top codes).
FORMATS = _formats(
    bfloat16=(8, 7, 127, "ieee"),
    float8e4m3fn=(4, 3, 7, "fn"),
    float8e4m3fnuz=(4, 3, 8, "fnuz"),
    float8e5m2=(5, 2, 15, "ieee"),
    float8e5m2fnuz=(5, 2, 16, "fnuz"),
    float8e8m0=(8, 0, 127, "scale"),
    float4e2m1=(2, 1, 1, "finite"),
    float6e2m3=(2, 3, 1, "finite"),
    float6e3m2=(3, 2, 3, "finite"),
)
