"""Compare two outputs element by element: measure the error, and check it against the tolerance.

An element matches if |got - want| <= atol + rtol * |want|. NaN matches NaN, and an infinity matches itself. Integers,
bools and strings match if they are equal. Different dtypes, shapes, lengths and kinds of value have verdicts of their
own.
"""

from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

__all__ = ["MATCH", "WRONG_TYPE", "Comparison", "OutputValue", "compare", "format_verdict"]

MATCH = "match"
MISMATCH = "mismatch"
WRONG_DTYPE = "dtype"
WRONG_SHAPE = "shape"
WRONG_KIND = "kind"  # a tensor, a sequence or no value, where another of these was expected
#: The verdicts on a value whose elements cannot be compared.
WRONG_TYPE = (WRONG_DTYPE, WRONG_SHAPE, WRONG_KIND)

#: An output: a tensor, a sequence, or None for an optional without a value.
OutputValue = Union[None, np.ndarray, np.generic, Sequence[Any]]


class Comparison(NamedTuple):
    """The comparison of an output with the expected output: the verdict, the types, and figures of the error.

    A figure that is not defined has the value `None`. `verdict` is "match", "mismatch", "dtype", "shape" or "kind".

    `size` is the number of elements, and `mismatched` the number of elements that differ. Both are 0 if no elements
    were compared. `first_bad_index` is the index of the first element that differs, in row-major order.
    """

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
    got: Optional[str] = None  # the values at `first_bad_index`, as text
    expected: Optional[str] = None
    accuracy: Any = None  # an `accuracy.Accuracy` for a quantised file

    @property
    def ok(self) -> bool:
        """Return whether the output matches the expected output."""
        return self.verdict == MATCH


def format_verdict(comparison: Comparison) -> str:
    """Return the verdict as text: "match", "mismatch", "wrong dtype", "wrong shape" or "wrong kind"."""
    return ("wrong %s" if comparison.verdict in WRONG_TYPE else "%s") % comparison.verdict


def compare(name: str, got: OutputValue, want: OutputValue, rtol: float, atol: float) -> Iterator[Comparison]:
    """Compare the output `got` with the expected output `want`. Yield comparisons:

    - Two sequences of one length, not empty: the comparisons of each pair of elements, named `name[i]`.
    - Any other two values: one comparison, named `name`. Its verdict is "shape" for sequences of different lengths. It
      is "kind" for values of different kinds; the kinds are tensor, sequence and None.

    `rtol` and `atol` are the tolerance.
    """
    if isinstance(got, (list, tuple)) and isinstance(want, (list, tuple)):
        if len(got) != len(want):
            yield _comparison_without_figures(name, WRONG_SHAPE, got, want)
        else:
            for index, pair in enumerate(zip(got, want)):
                yield from compare("%s[%d]" % (name, index), pair[0], pair[1], rtol, atol)
            if not got:
                yield _comparison_without_figures(name, MATCH, got, want)
    elif got is None and want is None:
        yield _comparison_without_figures(name, MATCH, got, want)
    elif any(value is None or isinstance(value, (list, tuple)) for value in (got, want)):
        yield _comparison_without_figures(name, WRONG_KIND, got, want)
    else:
        yield _compare_tensors(name, np.asarray(got), np.asarray(want), rtol, atol)


def _compare_tensors(name: str, got: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> Comparison:
    """Return the comparison of two tensors: of dtypes, shapes, then elements. The first difference decides the verdict.

    Float and complex elements are compared with the tolerance; other elements must be equal. All dtypes of strings
    count as equal.
    """
    if _is_text(got) and _is_text(want):
        got, want = _to_text(got), _to_text(want)
    elif got.dtype != want.dtype:
        return _comparison_without_figures(name, WRONG_DTYPE, got, want)
    if got.shape != want.shape:
        return _comparison_without_figures(name, WRONG_SHAPE, got, want)
    if _is_inexact(want):
        return _compare_inexact(name, got, want, rtol, atol)
    return _compare_elements(name, got, want, got != want)


def _compare_inexact(name: str, got: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> Comparison:
    """Return the comparison of two floating point or complex tensors of one shape, with the errors.

    Elements are equal within the tolerance. Two NaN are equal, and so are two equal infinities.
    """
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    a, b = got.astype(wide), want.astype(wide)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        error = np.where(same, 0.0, np.abs(a - b))
        # A NaN or an infinity in only one of the tensors counts as an infinite error.
        error = np.where(np.isnan(error), np.inf, error)
        size = np.abs(b)
        bad = ~(same | (np.isfinite(size) & (error <= atol + rtol * size)))
        scaled = np.isfinite(size) & (size > 0)
        relative = error[scaled] / size[scaled]
    return _compare_elements(name, got, want, bad)._replace(
        max_abs_error=float(error.max()) if error.size else 0.0,
        max_rel_error=float(relative.max()) if relative.size else 0.0,
        mean_abs_error=float(error.mean()) if error.size else 0.0,
    )


def _compare_elements(name: str, got: np.ndarray, want: np.ndarray, bad: np.ndarray) -> Comparison:
    """Return the comparison of two tensors of one shape that differ where `bad` is True. All False gives a match.

    The comparison has the number of elements that differ, and the first of them in row-major order. Errors are not
    measured.
    """
    wrong = int(np.count_nonzero(bad))
    result = _comparison_without_figures(name, MISMATCH if wrong else MATCH, got, want)._replace(
        size=want.size, mismatched=wrong
    )
    if not wrong:
        return result
    index = tuple(int(axis) for axis in np.unravel_index(int(np.argmax(bad)), want.shape))
    return result._replace(first_bad_index=index, got=str(got[index]), expected=str(want[index]))


def _comparison_without_figures(name: str, verdict: str, got: OutputValue, want: OutputValue) -> Comparison:
    """Return a comparison with the verdict `verdict`, and the dtypes and shapes of both values. It has no figures."""
    (dtype, shape), (expected_dtype, expected_shape) = _describe_value(got), _describe_value(want)
    return Comparison(name, verdict, dtype, shape, expected_dtype, expected_shape)


def _describe_value(value: OutputValue) -> Tuple[str, Tuple[int, ...]]:
    """Return the dtype and the shape of an output: ("sequence", (length,)) for a sequence, ("none", ()) for None."""
    if value is None:
        return "none", ()
    if isinstance(value, (list, tuple)):
        return "sequence", (len(value),)
    array = np.asarray(value)
    return "string" if _is_text(array) else str(array.dtype), tuple(array.shape)


def _is_inexact(array: np.ndarray) -> bool:
    """Return whether an array is floating point or complex."""
    # The numpy kind of bfloat16, float8 and float4 of ml_dtypes is "V".
    return array.dtype.kind in "fc" or "float" in array.dtype.name


def _is_text(array: np.ndarray) -> bool:
    return array.dtype.kind in "OSU" or array.dtype.kind == "T"


def _to_text(array: np.ndarray) -> np.ndarray:
    """Return a new array of `str` objects. Bytes are decoded as UTF-8.

    A replacement character stands for invalid bytes.
    """
    texts: List[str] = [
        item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item) for item in array.ravel()
    ]
    result = np.empty(array.shape, dtype=object)
    result.ravel()[:] = texts
    return result
