"""The pass weight_folding: a scale or shift after a layer folds into its weights, and the results stay equal."""

from typing import Any, Callable, List

import numpy as np
import pytest

from matrix.harness.generators import per_test
from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import float32
from onnx_compat.ir.window import Window
from onnx_compat.passes.weight_folding import weight_folding
from onnx_compat.reference import Reference
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program

RANDOM = per_test(np.random.RandomState(0))
FACTOR, SUMMAND = (RANDOM.standard_normal((1, 3, 1, 1)).astype(np.float32) for _ in range(2))
SHAPE = (2, 4, 7, 6)


def primitives(function: Callable[[Any], List[Any]], *sizes: Any) -> List[str]:
    """Run the pass, and return the primitives. Assert that the results equal those of the original program."""

    def program() -> Any:
        names = ["y%d" % k for k in range(len(function(RANDOM.standard_normal(SHAPE).astype(np.float32))))]
        return record_program(function, [Port("x", float32, sizes or SHAPE)], Reference(), names)

    emitter, fused = Reference(), program()
    weight_folding.apply(fused.region, emitter)
    feeds = [RANDOM.standard_normal(SHAPE).astype(np.float32)]
    wanted, folded = (emit(region, Reference(), feeds) for region in (program().region, fused.region))
    for before, after in zip(wanted, folded):
        np.testing.assert_allclose(before, after, rtol=1e-5, atol=1e-5)
    return [node.primitive for node in fused.region.live()]


def layer(x: Any, transposed: bool) -> Any:
    filters = np.random.RandomState(1).standard_normal((4, 3, 3, 2) if transposed else (3, 4, 3, 2)).astype(np.float32)
    if transposed:
        return p.conv_transpose(x, filters, window=Window.of((3, 2)))
    return p.conv(x, filters, window=Window.of((3, 2), pads=[(1, 1), (0, 0)]))


def cut(x: Any, *, channels: int = 3, step: int = 1) -> Any:
    return p.slice(x, [0, 0, 1, 0], [None, channels, -1, 4], [1, step, 1, 2])


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("sizes", [(), (None, 4, None, None)])
def test_scale_and_shift_fold_into_a_sliced_layer(transposed: bool, sizes: Any) -> None:
    kinds = primitives(lambda x: [p.add(p.mul(cut(layer(x, transposed)), FACTOR), SUMMAND)], *sizes)
    assert kinds == ["conv_transpose" if transposed else "conv", "slice"]


def test_a_scale_for_all_channels_stays_behind_a_slice_of_them() -> None:
    assert primitives(lambda x: [p.mul(cut(layer(x, False), channels=1), FACTOR)])[-1] == "mul"


def test_a_scale_stays_behind_channels_in_reverse() -> None:
    def transpose_first(x: Any) -> List[Any]:
        return [p.mul(p.slice(layer(x, False), [0, -1, 0, 0], [None] * 4, [1, -1, 1, 1]), FACTOR)]

    assert primitives(transpose_first) == ["conv", "slice", "mul"]


@pytest.mark.parametrize("before_the_cut", [True, False])
def test_a_scale_stays_if_another_node_reads_its_input(before_the_cut: bool) -> None:
    def twice(x: Any) -> List[Any]:
        whole = layer(x, False)
        part = cut(whole)
        return [p.mul(part, FACTOR), p.relu(whole if before_the_cut else part)]

    assert "mul" in primitives(twice)


def test_a_division_by_zero_stays() -> None:
    """The quotient is infinite; weights that are infinite would give NaN."""
    factor = np.where(np.arange(3) == 1, 0, FACTOR.reshape(-1)).astype(np.float32).reshape(FACTOR.shape)
    with np.errstate(divide="ignore"):
        assert primitives(lambda x: [p.div(layer(x, False), factor)]) == ["conv", "div"]
