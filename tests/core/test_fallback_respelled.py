"""The fallback on an onnxruntime that lacks something of a part: the shim `onnx` writes the part for it."""

import pickle
from pathlib import Path
from typing import Any, List

import numpy as np
import onnx
import pytest
from building import model, node, value
from bundles import Keeper
from forked import SECONDS
from limited import X, install, mish
from old_runtime import REFUSALS, age
from registered import register

import onnx_compat
from onnx_compat.discovery.child_process import call_in_child
from onnx_compat.errors import OnnxCompatError, UnsupportedError
from onnx_compat.execution import fallback
from onnx_compat.execution.fallback import fallback_runnable
from onnx_compat.execution.onnxruntime_child import LoadRefused
from onnx_compat.ir.dtypes import DType
from onnx_compat.onnx_shim import guarded
from onnx_compat.onnx_shim.signatures import newest_opset

pytest.importorskip("onnxruntime")

HALF, DOUBLE = onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE


def reference_result(proto: Any, *arrays: Any) -> Any:
    return onnx_compat.run(proto, arrays, shim="reference")[0]


@pytest.mark.parametrize("lacking", REFUSALS)
def test_a_part_is_respelled_for_what_onnxruntime_has(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    proto = mish(HALF, min(newest_opset(), 21)) if lacking == "type" else mish(opset=min(newest_opset(), 21))
    x = X.astype(np.float16) if lacking == "type" else X
    age(monkeypatch, REFUSALS[lacking])
    runnable = onnx_compat.prepare(proto, shim="limited")
    np.testing.assert_allclose(
        runnable.run([x])[0], reference_result(proto, x), rtol=2e-3 if lacking == "type" else 1e-5
    )
    assert runnable.fallback_runtimes == {"mish": "onnx"}
    assert "no exponential" in runnable.fallback_reasons["mish"]


def test_a_part_runs_as_it_is_where_onnxruntime_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    proto = model([node("Exp", ["x"], ["y"], name="exp")], [value("x", ["n", 3])], [value("y")])
    monkeypatch.setattr(guarded.GuardedShim, "compile", None)
    runnable = onnx_compat.prepare(proto, shim="limited")
    assert runnable.fallback_runtimes == {}
    np.testing.assert_allclose(runnable.run([X])[0], np.exp(X), rtol=1e-5)
    assert runnable.fallback_runtimes == {"exp": "onnxruntime"}


def test_the_reference_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    age(monkeypatch, lambda proto: True)
    runnable = onnx_compat.prepare(mish(), shim="limited")
    np.testing.assert_array_equal(runnable.run([X])[0], reference_result(mish(), X))
    assert runnable.fallback_runtimes == {"mish": "reference"}


def double_convolution() -> Any:
    """Return a model of two nodes; onnxruntime convolves no float64, and the shim `onnx` does not compose it."""
    nodes = [node("Exp", ["x"], ["e"], name="exp"), node("Conv", ["e", "w"], ["y"], name="conv")]
    return model(nodes, [value("x", [1, 1, 3], DOUBLE)], [value("y", None, DOUBLE)], {"w": np.ones((1, 1, 2))})


def test_each_node_of_a_part_gets_the_first_runtime_that_has_it() -> None:
    part = fallback_runnable(onnx_compat.load(double_convolution()))
    x = np.linspace(-1, 1, 3).reshape(1, 1, 3)
    ((result, _),) = part.run_checked({"x": (x, DType.of("float64"))})
    np.testing.assert_allclose(result, reference_result(double_convolution(), x), rtol=1e-6)
    assert part.fallback_runtimes == {"exp": "onnx", "conv": "reference"}


class Children:
    """The child processes of a test: they refuse parts as they are, and run those of the shim `onnx`, or end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ends: bool = False) -> None:
        self.count = 0
        self._ends = ends
        self._run = guarded.run_in_child
        monkeypatch.setattr(fallback, "run_in_child", self._refuse)
        monkeypatch.setattr(guarded, "run_in_child", self._answer)

    def _refuse(self, *_: Any) -> None:
        raise LoadRefused("onnxruntime could not run it: it is newer than this onnxruntime")

    def _answer(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        if self._ends:
            raise UnsupportedError("onnxruntime ends its process")
        return self._run(*args, **kwargs)


@pytest.mark.parametrize("result", [RuntimeError("its kernel fails"), [np.full((1, 1), 7, np.float64)]])
def test_a_failure_or_a_wrong_type_of_the_respelled_part_is_no_result(
    result: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session of the shim `onnx` that fails, or gives what the program does not say, is replaced by the reference."""
    from onnx_compat.onnx_shim.shim import SessionProgram

    def run(*_: Any) -> Any:
        if isinstance(result, Exception):
            raise UnsupportedError(str(result)) from result
        return result

    install(monkeypatch)
    age(monkeypatch, REFUSALS["opset"])
    monkeypatch.setattr(SessionProgram, "run", run)
    Children(monkeypatch)  # their onnxruntime would be the installed one
    runnable = onnx_compat.prepare(mish(), shim="limited")
    for _ in range(2):
        np.testing.assert_array_equal(runnable.run([X])[0], reference_result(mish(), X))
    assert runnable.fallback_runtimes == {"mish": "reference"}


def test_what_no_runtime_has_is_a_typed_error_that_names_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    nodes = [node("Exp", ["x"], ["e"], name="exp"), node("Odd", ["e"], ["y"], name="odd", domain="com.microsoft")]
    proto = model(nodes, [value("x", [2])], [value("y")], extra_opsets=[onnx.helper.make_opsetid("com.microsoft", 1)])
    with pytest.raises(OnnxCompatError) as caught:
        onnx_compat.run(proto, [np.ones(2, np.float32)], shim="limited")
    assert (caught.value.node, caught.value.operator) == ("odd", "com.microsoft::Odd")
    with pytest.raises(OnnxCompatError, match="no exponential"):
        onnx_compat.prepare(mish(), shim="limited", fallback=False)


def run_part(part: Any, x: np.ndarray) -> np.ndarray:
    ((result, _),) = part.run_checked({"x": (x, DType.of("float32"))})
    array: np.ndarray = result
    return array


def test_a_part_that_is_not_trusted_runs_in_a_child_process_first(monkeypatch: pytest.MonkeyPatch) -> None:
    children = Children(monkeypatch)
    age(monkeypatch, REFUSALS["opset"])
    part = fallback_runnable(onnx_compat.load(mish()), trusted=False)
    for _ in range(3):
        np.testing.assert_allclose(run_part(part, X), reference_result(mish(), X), rtol=1e-5)
    assert children.count == 1 and part.fallback_runtimes["mish"] == "onnx"


def test_a_feed_with_an_empty_tensor_runs_in_a_child_process_first(monkeypatch: pytest.MonkeyPatch) -> None:
    children = Children(monkeypatch)
    age(monkeypatch, REFUSALS["opset"])
    part = fallback_runnable(onnx_compat.load(mish()))
    counts = []
    for x in (X, X[:0], X[:0], X):
        assert run_part(part, x).shape == x.shape
        counts.append(children.count)
    assert counts == [0, 1, 1, 1] and part.fallback_runtimes["mish"] == "onnx"


def test_a_respelled_part_that_ends_its_process_goes_to_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    children = Children(monkeypatch, ends=True)
    age(monkeypatch, REFUSALS["opset"])
    part = fallback_runnable(onnx_compat.load(mish()), trusted=False)
    for _ in range(2):
        np.testing.assert_array_equal(run_part(part, X), reference_result(mish(), X))
    assert children.count == 1 and part.fallback_runtimes["mish"] == "reference"


def test_a_respelled_part_is_pickled_and_bundled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    age(monkeypatch, REFUSALS["opset"])
    register(monkeypatch, Keeper())
    runnable = onnx_compat.prepare(mish(), shim="keeper")
    path = onnx_compat.convert(mish(), tmp_path / "m.tflite", allow_fallback=True)
    again = pickle.loads(pickle.dumps(runnable))  # noqa: S301 (our own object)
    objects: List[Any] = [runnable, again, onnx_compat.load_converted(path)]
    for loaded in objects:
        np.testing.assert_allclose(loaded.run({"x": X})[0], reference_result(mish(), X), rtol=1e-5)
        assert loaded.fallback_runtimes == {"mish": "onnx"}


@pytest.mark.parametrize("lacking", ["nothing", "opset"])
def test_a_part_runs_in_a_forked_process(lacking: str) -> None:
    """Fork a new process, not this one: other tests have left sessions here that a forked process cannot delete."""
    answer = call_in_child("forked", "run_in_fork", lacking, seconds=4 * SECONDS)
    assert answer.status == "returned", answer.last_line or answer.status
    result, runtimes = answer.value["child"]
    assert answer.value["child"] == answer.value["parent"]
    np.testing.assert_allclose(result, reference_result(mish(), X), rtol=1e-5)
    assert lacking == "nothing" or runtimes == {"mish": "onnx"}
