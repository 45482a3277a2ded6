"""A Runnable in several threads: each run returns the results of its own inputs."""

import os
import sys
import threading
from typing import Any, Callable, List

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_compat
from onnx_compat.discovery.selection import find
from onnx_compat.execution.feeds import check_feed
from onnx_compat.execution.plan import CompiledPlan, ImmediatePlan
from onnx_compat.ir import Node

#: The files between whose lines another thread runs.
FILES = ("runnable.py", "plan.py", "partition.py", "emission.py", "emitted_program.py")
LONG = 120.0


def _model(nodes: Any, inputs: Any, constants: Any = ()) -> Any:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(*value_info) for value_info in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


def by_value() -> Any:
    """Return a model whose reduction axes are an input. It has a plan for each value of the axes."""
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)]
    return _model(nodes, [("x", TensorProto.FLOAT, [3, 3]), ("axes", TensorProto.INT64, [1])])


def by_data() -> Any:
    """Return a model whose axes depend on data that is too large to specialise on. It runs eagerly, or in parts.

    The rank of its input is unknown, because a model with declared ranks is specialised on them before its sizes are
    known.
    """
    nodes = [
        helper.make_node("Mul", ["x", "one"], ["m"]),
        helper.make_node("ReduceMax", ["m"], ["most"], keepdims=0),
        helper.make_node("Cast", ["most"], ["axis"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["axis", "vector"], ["axes"]),
        helper.make_node("ReduceSum", ["m", "axes"], ["s"], keepdims=0),
        helper.make_node("Add", ["s", "one"], ["y"]),
    ]
    constants = [("one", np.ones(1, np.float32)), ("vector", np.array([1], np.int64))]
    return _model(nodes, [("x", TensorProto.FLOAT, None)], constants)


def cases(name: str) -> List[Any]:
    """Return the inputs and the results of two runs that differ in axes and values."""
    if name == "by_value":
        x = np.arange(9, dtype=np.float32).reshape(3, 3)
        return [([x, np.array([axis])], x.sum(axis)) for axis in (0, 1)]
    runs = []
    for axis in (0, 1):
        x = -np.random.RandomState(axis).randint(0, 9, (70, 70)).astype(np.float32)
        x[3, 5] = axis
        runs.append(([x], x.sum(axis) + 1))
    return runs


def _check(runnable: Any, case: Any) -> None:
    inputs, want = case
    (got,) = runnable.run(inputs)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


class Intruder:
    """Runs a function again and again in other threads, and keeps the errors."""

    def __init__(self, function: Callable[[], None], patience: float = LONG) -> None:
        self.function = function
        self.patience = patience
        self.errors: List[BaseException] = []
        self.threads: List[threading.Thread] = []

    def _run(self) -> None:
        try:
            self.function()
        except Exception as error:  # noqa: BLE001 (the test raises it in its own thread)
            self.errors.append(error)

    def intrude(self) -> None:
        """Run the function in another thread until it ends, or until it waits for a lock of the interrupted thread."""
        thread = threading.Thread(target=self._run)
        self.threads.append(thread)
        thread.start()
        thread.join(self.patience)

    def interrupt(self, function: Callable[[], None], files: Any = FILES) -> None:
        """Call a function, and run the intruder before each line of these files that the call executes."""

        def local(frame: Any, event: str, arg: Any) -> Any:
            if event == "line":
                self.intrude()
            return local

        def trace_calls(frame: Any, event: str, arg: Any) -> Any:
            folder, name = os.path.split(frame.f_code.co_filename)
            packages = folder.split(os.sep)[-2:]
            return local if name in files and any(part.startswith("onnx_compat") for part in packages) else None

        def run_traced() -> None:
            sys.settrace(trace_calls)
            try:
                function()
            except Exception as error:  # noqa: BLE001 (the test raises it in its own thread)
                self.errors.append(error)
            finally:
                sys.settrace(None)

        thread = threading.Thread(target=run_traced)
        thread.start()
        thread.join(LONG)
        for joined_thread in [thread, *self.threads]:
            joined_thread.join(LONG)
            assert not joined_thread.is_alive(), "a thread waits for ever"
        assert self.threads, "no line was interrupted"
        if self.errors:
            raise self.errors[0]


@pytest.mark.parametrize("executes", [True, False])
@pytest.mark.parametrize("name", ["by_value", "by_data"])
def test_a_run_that_is_interrupted_at_each_line(name: str, executes: bool, shim_name: str, monkeypatch: Any) -> None:
    if not executes:  # then the model runs in parts
        monkeypatch.setattr(type(find(shim_name)), "executor", lambda self, device=None: None)
    runnable = onnx_compat.prepare(globals()[name](), shim=shim_name)
    first, second = cases(name)
    for case in (first, second):
        _check(runnable, case)
    for mine, theirs in ((first, second), (second, first)):
        Intruder(lambda case=theirs: _check(runnable, case)).interrupt(lambda case=mine: _check(runnable, case))


def test_threads_that_all_run_first(shim_name: str) -> None:
    """All threads start at once, so that plans and their parts are prepared by several threads at a time."""
    for name in ("by_value", "by_data"):
        runnable = onnx_compat.prepare(globals()[name](), shim=shim_name)
        barrier, errors = threading.Barrier(4), []

        def run(case: Any, runnable: Any = runnable, barrier: Any = barrier, errors: Any = errors) -> None:
            barrier.wait()
            try:
                for _ in range(3):
                    _check(runnable, case)
            except Exception as error:  # noqa: BLE001 (the test raises it in its own thread)
                errors.append(error)

        threads = [threading.Thread(target=run, args=(case,)) for case in cases(name) * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        assert not errors, errors
        assert not any(thread.is_alive() for thread in threads)


def test_the_first_run_is_interrupted_at_each_line() -> None:
    """While a thread makes a plan, another thread runs the same model before each line of the first."""
    for name in ("by_value", "by_data"):
        first, second = cases(name)
        runnable = onnx_compat.prepare(globals()[name](), shim="reference")
        intruder = Intruder(lambda case=second, runnable=runnable: _check(runnable, case), patience=0.02)
        intruder.interrupt(
            lambda case=first, runnable=runnable: _check(runnable, case), ("runnable.py", "partition.py")
        )


class _Watchful:
    """A mixin for an emitter: its methods assert that the current node is the one that they were called for."""

    node: Node

    def reduce_sum(self, x: Any, **params: Any) -> Any:
        assert self.node.primitive == "reduce_sum", self.node
        return super().reduce_sum(x, **params)  # type: ignore[misc]  # the base class is an emitter of the shim

    def reduce_max(self, x: Any, **params: Any) -> Any:
        assert self.node.primitive == "reduce_max", self.node
        return super().reduce_max(x, **params)  # type: ignore[misc]  # the base class is an emitter of the shim


def test_an_execution_has_an_emitter_of_its_own(shim_name: str) -> None:
    """An emitter holds the current node, which a run in another thread would change."""
    executor = find(shim_name).executor()
    if executor is None:
        assert shim_name in ("tf1", "tflite", "onnx")
        return
    watchful_class = type("Watchful", (_Watchful, type(executor)), {})

    def watchful() -> Any:
        emitter: Any = find(shim_name).executor()
        emitter.__class__ = watchful_class
        return emitter

    model = onnx_compat.load(by_data())
    plan = ImmediatePlan(model, watchful)
    feeds = [(check_feed(inputs, model.graph.inputs, ["x"]), want) for inputs, want in cases("by_data")]

    def run(feed: Any, want: Any) -> None:
        ((got, _),) = plan.run(feed)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)

    Intruder(lambda: run(*feeds[1])).interrupt(lambda: run(*feeds[0]))


def test_a_compiled_program_has_an_emitter_for_each_run(shim_name: str) -> None:
    """A compiled program that executes its nodes one by one needs an emitter for each run, because an emitter holds the
    node.
    """
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], axes=[0], keepdims=0),
        helper.make_node("ReduceSum", ["m", "axes"], ["y"], keepdims=0),
    ]
    proto = _model(nodes, [("x", TensorProto.FLOAT, [3, 3])], [("axes", np.array([0], np.int64))])
    runnable = onnx_compat.prepare(proto, shim=shim_name)
    (plan,) = runnable._plans.values()
    assert isinstance(plan, CompiledPlan)
    held: Any = getattr(getattr(plan.compiled, "body", None), "_emitter", None)
    if held is not None and held.concrete:  # Keras on torch
        held.__class__ = type("Watchful", (_Watchful, type(held)), {})
    cases = [([x], x.max(0).sum()) for x in np.arange(18, dtype=np.float32).reshape(2, 3, 3)]
    Intruder(lambda: _check(runnable, cases[0])).interrupt(lambda: _check(runnable, cases[1]))
    assert list(runnable._plans.values()) == [plan], "it failed, and runs in another way since"
