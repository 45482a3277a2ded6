# mypy: disable-error-code="misc"
"""Cases for the operators that reduce, search or accumulate along axes."""

from typing import Any, Callable, Dict, Tuple

import numpy as np

from matrix.probes.tflite_cases import NUMBERS, add, case, ints, known, sample

Array = Any  # an array of any dtype


def _mean(x: Array, axis: Any, keepdims: bool) -> Array:
    return np.asarray(np.mean(x.astype("float64"), axis=axis, keepdims=keepdims)).astype(x.dtype)


REDUCTIONS: Dict[str, Tuple[Callable[..., Array], Any, bool]] = {
    "SUM": (
        lambda x, axis, keepdims: np.asarray(np.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype)),
        NUMBERS,
        False,
    ),
    "MEAN": (_mean, NUMBERS, True),
    "REDUCE_MAX": (np.max, NUMBERS, False),
    "REDUCE_MIN": (np.min, NUMBERS, False),
    "REDUCE_PROD": (
        lambda x, axis, keepdims: np.asarray(np.prod(x, axis=axis, keepdims=keepdims, dtype=x.dtype)),
        NUMBERS,
        True,
    ),
    "REDUCE_ANY": (np.any, ["bool"], False),
    "REDUCE_ALL": (np.all, ["bool"], False),
}
for _name, (_f, _dtypes, _small) in REDUCTIONS.items():
    for _feature, _shape, _axes, _keep in (
        ("", (2, 3, 4), (1,), True),
        ("no keep_dims", (2, 3, 4), (0, 2), False),
        ("all axes", (3, 5), (0, 1), False),
        ("rank 5", (1, 2, 3, 2, 2), (1, 3), True),
        ("rank 6", (1, 2, 3, 2, 2, 2), (1, 3), True),
    ):

        def _make(d: str, f: Any = _f, s: Any = _shape, a: Any = _axes, k: bool = _keep, small: bool = _small) -> Any:
            x = sample(d, s, small)
            return case([x, ints(*a)], np.asarray(f(x, axis=a, keepdims=k)), keep_dims=k)

        add(_name, _feature, _dtypes, _make)
for _name, _end in (("REDUCE_MAX", -np.inf), ("REDUCE_MIN", np.inf)):
    add(_name, "none", ["float32"], lambda d, end=_end: case([sample(d, (0,)), ints(0)], np.asarray(end, d)))

for _name, _f in (("ARG_MAX", np.argmax), ("ARG_MIN", np.argmin)):
    for _out in ("int32", "int64"):

        def _arg(d: str, f: Any = _f, out: str = _out) -> Any:
            x = sample(d, (2, 5))
            return case([x, ints(1)], f(x, axis=1).astype(out), output_type=out)

        add(_name, "" if _out == "int32" else "int64 output", [*NUMBERS, "bool"], _arg)
for _flags in ({}, {"exclusive": True}, {"reverse": True}):

    def _cumsum(d: str, flags: Any = _flags) -> Any:
        x = sample(d, (2, 4), True)
        y = x[:, ::-1] if flags.get("reverse") else x
        y = np.cumsum(y, axis=1, dtype=x.dtype)
        if flags.get("exclusive"):
            y = y - x
        return case([x, known(np.int32(1))], y[:, ::-1].copy() if flags.get("reverse") else y, **flags)

    add("CUMSUM", " ".join(_flags), NUMBERS, _cumsum)
