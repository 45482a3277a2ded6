"""Operators and shims from outside: what they may do wrong, and what is said of it."""

from contextlib import nullcontext
from typing import Any, Iterator

import numpy as np
import pytest
from building import INT64, model, node, value
from limited import LimitedShim, install
from onnx import helper

import onnx_compat
from onnx_compat.discovery import selection
from onnx_compat.errors import InvalidModelError, ShimError, UnsupportedError
from onnx_compat.ops import OPERATORS
from onnx_compat.reference import Reference
from onnx_compat.reference.shim import Replayed

X = np.array([[1.0, -2.0, 3.0], [0.0, 5.0, -6.0]], np.float32)


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    """Every test registers what it likes; none leaves it behind."""
    onnx_compat.run(mine("Neg", domain=""), [X], shim="reference")
    before = {key: dict(versions) for key, versions in OPERATORS.items()}
    yield
    OPERATORS.clear()
    OPERATORS.update(before)


def mine(operator: str, domain: str = "my.domain", **attributes: Any) -> Any:
    nodes = [node(operator, ["x"], ["y"], domain=domain, name="here", **attributes)]
    opsets = [helper.make_opsetid(domain, 1)] if domain else []
    return model(nodes, [value("x", ["n", 3])], [value("y")], extra_opsets=opsets)


def test_a_meaning_is_good_for_every_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    @onnx_compat.op("Half", since=1, domain="my.domain")
    def half(x: Any, *, by: float = 2.0) -> Any:
        return x / by

    install(monkeypatch)
    for shim in ("reference", "limited"):
        np.testing.assert_array_equal(onnx_compat.run(mine("Half", by=4.0), [X], shim=shim)[0], X / 4)


def test_a_meaning_from_outside_takes_the_place_of_ours() -> None:
    @onnx_compat.op("Neg", since=13)
    def neg(x: Any) -> Any:
        return x * 10

    np.testing.assert_array_equal(onnx_compat.run(mine("Neg", domain=""), [X], shim="reference")[0], X * 10)


@pytest.mark.parametrize(
    ("meaning", "message"),
    [
        (lambda x: 3, "gives int for 'y', not a Tensor"),
        (lambda x: (), "gives 0 outputs, the node names 1"),
        (lambda x: x.nothing, "has no attribute 'nothing'"),
        (lambda x, y: x, "the input 'y' .* is missing"),
    ],
)
def test_a_wrong_meaning_is_named_with_its_place(meaning: Any, message: str) -> None:
    onnx_compat.op("Wrong", since=1, domain="my.domain")(meaning)
    with pytest.raises((UnsupportedError, InvalidModelError), match=message) as caught:
        onnx_compat.prepare(mine("Wrong"), shim="reference", fallback=False)
    assert caught.value.node == "here"
    if isinstance(caught.value, UnsupportedError):
        assert "test_custom.py" in str(caught.value)


def test_an_attribute_that_the_meaning_does_not_have_is_named() -> None:
    onnx_compat.op("Plain", since=1, domain="my.domain")(lambda x: x)
    with pytest.raises(InvalidModelError, match="has no attribute 'colour'"):
        onnx_compat.run(mine("Plain", colour=1), [X], shim="reference")


def test_an_input_with_dots_in_its_name_is_specialised_on(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)  # a shim that cannot go step by step
    nodes = [node("ReduceSum", ["x", "/features.2/axes.1"], ["y"], keepdims=0)]
    proto = model(nodes, [value("x", ["n", 3]), value("/features.2/axes.1", [1], INT64)], [value("y")])
    np.testing.assert_array_equal(onnx_compat.run(proto, [X, np.array([1])], shim="limited")[0], X.sum(1))


def test_an_output_that_cannot_be_put_in_order_runs_in_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Emitter(Reference):
        @property
        def transpose(self) -> Any:
            raise AttributeError("transpose")

    shim = LimitedShim()
    monkeypatch.setattr(shim, "emitter", Emitter)
    monkeypatch.setattr(LimitedShim, "scratch", lambda self: nullcontext(Emitter()))
    monkeypatch.setitem(selection._LOADED, "limited", shim)
    proto = model([node("Transpose", ["x"], ["y"], name="turn", perm=[1, 0])], [value("x", ["n", 3])], [value("y")])
    np.testing.assert_array_equal(onnx_compat.run(proto, [X], shim="limited")[0], X.T)
    chain = [node("Neg", ["x"], ["a"]), node("Transpose", ["a"], ["y"], perm=[1, 0])]
    proto = model(chain, [value("x", ["n", 3])], [value("y")])
    np.testing.assert_array_equal(onnx_compat.run(proto, [X], shim="limited")[0], -X.T)


def test_a_shim_that_gives_another_dtype_or_shape_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sloppy(Replayed):
        def run(self, arrays: Any) -> Any:
            return [array.astype(np.float64) for array in super().run(arrays)]

    install(monkeypatch)
    monkeypatch.setattr(LimitedShim, "compile", lambda self, program, device=None: Sloppy(program))
    with pytest.raises(ShimError, match="its result for 'y' is float64"):
        onnx_compat.run(mine("Neg", domain=""), [X], shim="limited")


def test_a_broken_third_party_shim_does_not_break_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        def load(self) -> Any:
            return 3

    monkeypatch.setattr(selection, "installed", lambda: {"odd": Point()})
    found = {info.name: info for info in onnx_compat.shims()}
    assert not found["odd"].available
    assert "gives int, not a Shim" in found["odd"].reason
    assert found["reference"].selected


def test_why_a_node_is_in_the_fallback_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    runnable = onnx_compat.prepare(mine("Exp", domain=""), shim="limited")
    assert runnable.fallbacks == ["here"]
    assert "no exponential" in runnable.fallback_reasons["here"]
