"""Cases of random numbers: a program draws thousands of numbers, and runs twice with one seed."""

from typing import Any, List

import numpy as np

from cases.making import Making, case
from onnx_compat import primitives


@case("random_uniform random_normal")
def random(make: Making) -> Any:
    seed = make.choose([None, 3.0, 0.25])
    rows = 0 if make.flavour.shape == "empty" else 40
    make.note(seed=seed)
    make.feed(np.zeros((rows, 50), make.dtype.numpy))

    def draw_twice(x: Any) -> Any:
        return [getattr(primitives, make.name)(x.shape, make.dtype, seed) for _ in range(2)]

    def check(results: List[Any]) -> None:
        for result in results:
            assert result.shape == (rows, 50)
            assert result.dtype == make.dtype.numpy
            numbers = result.astype(np.float64)
            if make.name == "random_uniform" and rows:
                assert numbers.min() >= 0 and numbers.max() < 1
                assert abs(numbers.mean() - 0.5) < 0.05 and abs(numbers.var() - 1 / 12) < 0.02
            elif rows:
                assert abs(numbers.mean()) < 0.15 and abs(numbers.var() - 1) < 0.2
        if rows:
            assert np.array_equal(*results) == (seed is not None)

    make.check = check
    return draw_twice
