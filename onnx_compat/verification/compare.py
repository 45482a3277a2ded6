"""Two values, element by element: how far apart they are, and whether that is within the tolerance.

An element matches when |got - want| <= atol + rtol * |want|. NaN matches NaN and an infinity matches itself. Integers,
bools and strings match when they are equal. Another dtype, shape, length or kind of value is a failure of its own.
"""

from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

__all__ = ["MATCH", "Comparison", "compare"]

MATCH = "match"
MISMATCH = "mismatch"
WRONG_DTYPE = "dtype"
WRONG_SHAPE = "shape"
WRONG_KIND = "kind"  # a tensor where a sequence or nothing was expected, or the other way round


class Comparison(NamedTuple):
    """One tensor beside the one that was expected. The errors are absent where they have no meaning."""

    name: str
    verdict: str
    dtype: str
    shape: Tuple[int, ...]
    expected_dtype: str
    expected_shape: Tuple[int, ...]
    size: int = 0
    mismatched: int = 0
    max_abs_error: Optional[float] = None
    max_rel_error: Optional[float] = None  # over the elements whose expected value is neither zero nor infinite
    mean_abs_error: Optional[float] = None
    first_bad_index: Optional[Tuple[int, ...]] = None
    got: Optional[str] = None  # the values at that index
    expected: Optional[str] = None
    accuracy: Any = None  # of a quantised file: see `accuracy.Accuracy`

    @property
    def ok(self) -> bool:
        return self.verdict == MATCH


def compare(name: str, got: Any, want: Any, rtol: float, atol: float) -> Iterator[Comparison]:
    """Compare a tensor, an absent optional (None), or a sequence (one comparison per element, `name[i]`)."""
    if isinstance(got, (list, tuple)) and isinstance(want, (list, tuple)):
        if len(got) != len(want):
            yield _failure(name, WRONG_SHAPE, got, want)
        else:
            for index, pair in enumerate(zip(got, want)):
                yield from compare("%s[%d]" % (name, index), pair[0], pair[1], rtol, atol)
            if not got:
                yield _failure(name, MATCH, got, want)
    elif got is None and want is None:
        yield _failure(name, MATCH, got, want)
    elif any(value is None or isinstance(value, (list, tuple)) for value in (got, want)):
        yield _failure(name, WRONG_KIND, got, want)
    else:
        yield _tensors(name, np.asarray(got), np.asarray(want), rtol, atol)


def _tensors(name: str, got: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> Comparison:
    if _is_text(got) and _is_text(want):
        got, want = _text(got), _text(want)
    elif got.dtype != want.dtype:
        return _failure(name, WRONG_DTYPE, got, want)
    if got.shape != want.shape:
        return _failure(name, WRONG_SHAPE, got, want)
    if _is_inexact(want):
        return _inexact(name, got, want, rtol, atol)
    return _result(name, got, want, got != want)


def _inexact(name: str, got: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> Comparison:
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    a, b = got.astype(wide), want.astype(wide)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        error = np.where(same, 0.0, np.abs(a - b))
        # A NaN or an infinity where the other side has none is infinitely wrong, not "unknown".
        error = np.where(np.isnan(error), np.inf, error)
        size = np.abs(b)
        bad = ~(same | (np.isfinite(size) & (error <= atol + rtol * size)))
        scaled = np.isfinite(size) & (size > 0)
        relative = error[scaled] / size[scaled]
    return _result(name, got, want, bad)._replace(
        max_abs_error=float(error.max()) if error.size else 0.0,
        max_rel_error=float(relative.max()) if relative.size else 0.0,
        mean_abs_error=float(error.mean()) if error.size else 0.0,
    )


def _result(name: str, got: np.ndarray, want: np.ndarray, bad: Any) -> Comparison:
    wrong = int(np.count_nonzero(bad))
    result = _failure(name, MISMATCH if wrong else MATCH, got, want)._replace(size=want.size, mismatched=wrong)
    if not wrong:
        return result
    index = tuple(int(axis) for axis in np.unravel_index(int(np.argmax(bad)), want.shape))
    return result._replace(first_bad_index=index, got=str(got[index]), expected=str(want[index]))


def _failure(name: str, verdict: str, got: Any, want: Any) -> Comparison:
    (dtype, shape), (expected_dtype, expected_shape) = _described(got), _described(want)
    return Comparison(name, verdict, dtype, shape, expected_dtype, expected_shape)


def _described(value: Any) -> Tuple[str, Tuple[int, ...]]:
    if value is None:
        return "none", ()
    if isinstance(value, (list, tuple)):
        return "sequence", (len(value),)
    array = np.asarray(value)
    return "string" if _is_text(array) else str(array.dtype), tuple(array.shape)


def _is_inexact(array: np.ndarray) -> bool:
    """Floating point or complex; bfloat16, float8 and float4 of ml_dtypes are of no numpy kind and go by their name."""
    return array.dtype.kind in "fc" or "float" in array.dtype.name


def _is_text(array: np.ndarray) -> bool:
    return array.dtype.kind in "OSU" or array.dtype.kind == "T"


def _text(array: np.ndarray) -> np.ndarray:
    texts: List[str] = [t.decode("utf-8", "replace") if isinstance(t, bytes) else str(t) for t in array.ravel()]
    result = np.empty(array.shape, dtype=object)
    result.ravel()[:] = texts
    return result
