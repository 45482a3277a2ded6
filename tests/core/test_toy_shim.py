"""The example shim `toy`, found through an entry point like an installed package."""

import sys
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest
from building import model, node, value

import onnx_compat
from onnx_compat.discovery import selection

EXAMPLE = Path(__file__).parents[2] / "examples" / "toy_shim"


class _Point:
    name = "toy"

    def load(self) -> Any:
        from onnx_compat_toy import SHIM

        return SHIM


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.setattr(selection, "installed_shims", lambda: {"toy": _Point()})
    monkeypatch.delenv("ONNX_COMPAT_SHIM", raising=False)
    yield
    selection._LOADED.pop("toy", None)
    selection._PROBED.pop("toy", None)
    sys.modules.pop("onnx_compat_toy", None)


def network() -> Any:
    random = np.random.RandomState(0)
    nodes = [
        node("Conv", ["image", "filters"], ["a"], name="conv"),
        node("Relu", ["a"], ["b"]),
        node("GlobalAveragePool", ["b"], ["c"]),
        node("Flatten", ["c"], ["d"]),
        node("Gemm", ["d", "w", "bias"], ["e"]),
        node("Erf", ["e"], ["f"], name="erf"),
        node("Softmax", ["f"], ["scores"]),
    ]
    weights = {"filters": (4, 3, 3, 3), "w": (4, 5), "bias": (5,)}
    constants = {name: random.standard_normal(shape).astype(np.float32) for name, shape in weights.items()}
    return model(nodes, [value("image", ["n", 3, 8, 8])], [value("scores")], constants)


def test_the_toy_shim_runs_its_nodes_and_the_fallback_the_others() -> None:
    image = np.random.RandomState(1).standard_normal((2, 3, 8, 8)).astype(np.float32)
    runnable = onnx_compat.prepare(network(), shim="toy")
    expected = onnx_compat.run(network(), [image], shim="reference")[0]
    np.testing.assert_allclose(runnable.run([image])[0], expected, rtol=1e-5, atol=1e-6)
    assert sorted(runnable.fallbacks) == ["conv", "erf"]
    assert "does not offer the primitive 'erf'" in runnable.fallback_reasons["erf"]


def test_support_predicts_the_fallback() -> None:
    statuses = {node_support.operator: node_support.status for node_support in onnx_compat.support(network(), "toy")}
    assert {operator for operator, status in statuses.items() if status == "fallback"} == {"Conv", "Erf"}


def test_the_toy_shim_is_selected_if_no_other_is_installed() -> None:
    (chosen,) = [info for info in onnx_compat.shims() if info.selected]
    assert (chosen.name, chosen.framework) == ("toy", "numpy")
