"""A model in a forked process: it runs, or raises an error that says what to do. It never waits for ever."""

import multiprocessing
import sys
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_compat
from onnx_compat.discovery import selection
from onnx_compat.shim import forks

SECONDS = 60
X = np.linspace(-1, 1, 4 * 8 * 32 * 32, dtype=np.float32).reshape(4, 8, 32, 32)
_PARENT: dict = {}  # what the children inherit


def convolution() -> Any:
    """Return a model whose convolutions use all threads of a framework."""
    weights = np.random.RandomState(0).standard_normal((16, 8, 3, 3)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4), helper.make_node("Relu", ["c"], ["y"])]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8, 32, 32])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 16, 32, 32])]
    graph = helper.make_graph(nodes, "convolution", ports, outputs, [numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


def _run_in_child(name: str, queue: Any) -> None:
    """Run in the child process: put the sum of the output, or the error, into the queue."""
    try:
        model = _PARENT.get(name) or onnx_compat.prepare(convolution(), shim=_PARENT["shim"])
        queue.put(float(np.abs(model.run(X)[0]).sum()))
    except onnx_compat.OnnxCompatError as error:
        queue.put(str(error))


def _fork(name: str) -> Any:
    """Return what `_run_in_child` answers from a forked process. Fail if it does not answer in time."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_run_in_child, args=(name, queue))
    process.start()
    try:
        return queue.get(timeout=SECONDS)
    except Exception:  # noqa: BLE001 (queue.Empty, which a module of another name defines on Python 3.7)
        return pytest.fail("the forked process waits for ever")
    finally:
        process.kill()
        process.join()


def _check(answer: Any, shim: Any, expected: float) -> None:
    if shim.threads_start is None:
        assert answer == pytest.approx(expected, rel=1e-3)
    else:
        assert "forked after the framework had started its threads" in str(answer)
        assert "get_context('spawn')" in str(answer)


@pytest.mark.filterwarnings("ignore:.*fork:Warning")
def test_a_forked_process(shim_name: str, tmp_path: Any) -> None:
    """Run in a child what the parent has run, and what the child prepares by itself, for each kind of object that runs models."""
    shim = selection.find(shim_name)
    runnable = onnx_compat.prepare(convolution(), shim=shim_name)
    expected = float(np.abs(runnable.run(X)[0]).sum())
    _PARENT.clear()
    _PARENT.update(shim=shim_name, runnable=runnable)
    for form, (suffix, _) in list(shim.formats.items())[:1]:
        path = onnx_compat.convert(convolution(), tmp_path / ("m" + suffix), to=form, shim=shim_name)
        _PARENT["file"] = onnx_compat.load_converted(path, shim_name)
        assert float(np.abs(_PARENT["file"].run(X)[0]).sum()) == pytest.approx(expected, rel=1e-3)
    for name in [*_PARENT, "prepared in the child"]:
        if name != "shim":
            _check(_fork(name), shim, expected)
    assert float(np.abs(runnable.run(X)[0]).sum()) == pytest.approx(expected, rel=1e-6), "the parent is as before"


def test_a_forked_child_does_not_start_what_its_parent_started(shim_name: str) -> None:
    assert selection.find(shim_name).threads_start in (None, *forks.STEPS)
    onnx_compat.prepare(convolution(), shim=shim_name).run(X)
    assert (shim_name in forks._STARTED) == (selection.find(shim_name).threads_start is not None)
    assert not forks._LOST, "this process was not forked"
    assert sys.modules["onnx_compat.shim.forks"] is forks
