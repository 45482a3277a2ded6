"""Scatter to known positions, as exporters write `x[1:3] = y`, compared with the reference."""

from typing import Any, List, Sequence

import numpy as np
import pytest
from onnx_compat_tflite import SHIM
from programs import names

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import float32, int64
from onnx_compat.reference import Reference
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program


def put(positions: Sequence[int], reduction: str = "none") -> Any:
    rows = np.asarray(positions, np.int64).reshape(-1, 1)
    return lambda x: p.scatter_nd(x, rows, p.tanh(p.take(x, np.arange(len(positions)), 0)), reduction)


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ([0, 1, 2], ["CONCATENATION"]),
        ([2], ["CONCATENATION"]),
        ([3, 4, 5], ["CONCATENATION"]),
        ([0, 1, 2, 3, 4, 5], []),
        ([1, 5, 3], ["CONCATENATION", "GATHER"]),
        ([2, 1], ["CONCATENATION", "GATHER"]),
    ],
)
def test_updates_at_known_positions_are_concatenated(positions: List[int], expected: List[str]) -> None:
    def assign(sizes: Sequence[Any], fed: Sequence[int]) -> List[str]:
        result = names(put(positions), sizes, fed=[fed])
        return [builtin for builtin in result[result.index("TANH") + 1 :] if builtin in ("CONCATENATION", "GATHER")]

    assert assign((6, 4), (6, 4)) == expected
    assert "SCATTER_ND" not in names(put(positions), (6, None), fed=[(6, 3)])
    names(put(positions), (None, 4), fed=[(6, 4)])


def test_overlapping_or_reduced_updates_are_scattered() -> None:
    for function in (put([1, 1]), put([1, 2], "add"), put([1, 2], "mul"), put([1, 2], "max")):
        assert "SCATTER_ND" in names(function, (6, 4))


def test_positions_along_several_axes() -> None:
    positions = np.asarray([[0, 1], [0, 2], [1, 0]], np.int64)
    assert "GATHER" in names(
        lambda x: p.scatter_nd(x, positions, p.reduce_mean(p.take(x, np.arange(3) % 2, 0), [1]), "none"), (2, 3, 4)
    )


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max"])
@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("lead", [("n",), (2, "n"), ("n", "m"), (None,)])
def test_coordinates_of_length_zero(lead: Sequence[Any], count: int, reduction: str) -> None:
    """Each of the coordinates selects the whole of x. Their number is known at run time only, or is 2."""
    sizes = tuple(count if not isinstance(size, int) else size for size in lead)
    if lead == (None,):
        lead, sizes = (2,), (2,)
    ports = [Port("x", float32, (2, "k")), Port("i", int64, (*lead, 0)), Port("u", float32, (*lead, 2, "k"))]
    program = record_program(lambda x, i, u: [p.scatter_nd(x, i, u, reduction)], ports, SHIM.emitter(), ["y"])
    x, u = (np.random.RandomState(0).standard_normal(shape).astype(np.float32) for shape in ((2, 3), (*sizes, 2, 3)))
    i = np.zeros((*sizes, 0), np.int64)
    np.testing.assert_allclose(
        SHIM.compile(program).run([x, i, u])[0], Reference().scatter_nd(x, i, u, reduction), rtol=1e-6
    )
