"""The device of a model: its name is checked before anything is recorded, and the shim gets it for every part."""

from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Optional, Sequence

import numpy as np
import pytest
from building import model, node, value
from limited import LimitedShim

import onnx_compat
from onnx_compat import backend
from onnx_compat.discovery import selection
from onnx_compat.errors import OnnxCompatError, ShimError
from onnx_compat.execution.plan import ImmediatePlan
from onnx_compat.reference import Reference
from onnx_compat.reference.shim import SHIM as REFERENCE
from onnx_compat.shim import devices

HERE = ("cpu:0", "cpu:1", "gpu:0", "gpu:1", "tpu")
X = np.arange(6, dtype=np.float32).reshape(2, 3) / 6


class ManyDevices(LimitedShim):
    """A fake shim with several devices. It keeps the devices that it was called with."""

    name = "many"

    def __init__(self) -> None:
        self.recorded = 0
        self.compiled: List[Optional[str]] = []
        self.executed: List[Optional[str]] = []

    def devices(self) -> Sequence[str]:
        return HERE

    def emitter(self) -> Any:
        self.recorded += 1
        return super().emitter()

    def compile(self, program: Any, device: Optional[str] = None) -> Any:
        self.compiled.append(device)
        return super().compile(program, device)

    def executor(self, device: Optional[str] = None) -> Any:
        self.executed.append(device)
        return super().executor(device)


@pytest.fixture(name="many")
def _many(monkeypatch: pytest.MonkeyPatch) -> ManyDevices:
    shim = ManyDevices()
    monkeypatch.setitem(selection._LOADED, "many", shim)
    return shim


NAMES = {
    "cpu": "cpu:0", "CPU": "cpu:0", "cpu:1": "cpu:1", "gpu": "gpu:0", "GPU:1": "gpu:1", "cuda": "gpu:0", "CUDA:1": "gpu:1",
    "rocm:1": "gpu:1", "/GPU:1": "gpu:1", "/device:CPU:1": "cpu:1", " cpu:01 ": "cpu:1", "tpu": "tpu", "TPU:0": "tpu",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_resolves_to_an_available_device(name: str) -> None:
    assert devices.resolve(name, HERE, "many") == NAMES[name]


@pytest.mark.parametrize("name", ["gpu:2", "cpu:7", "nonsense", "", "cpu:", "cpu:-1", "cpu:x", "cpu 1", "1", "tpu:1"])
def test_an_absent_device_is_an_error_that_lists_the_others(many: ManyDevices, name: str) -> None:
    proto = model([node("Relu", ["x"], ["y"])], [value("x", ["n", 3])], [value("y")])
    for call in (
        lambda: onnx_compat.prepare(proto, "many", name),
        lambda: onnx_compat.run(proto, [X], "many", name),
        lambda: backend.prepare(proto, name, shim="many"),
    ):
        with pytest.raises(ShimError) as caught:
            call()
        assert "'%s'" % name in caught.value.reason
        assert ", ".join(HERE) in caught.value.reason
        assert caught.value.shim == "many"
        assert caught.value.hint
    assert many.recorded == 0
    assert not backend.OnnxCompatBackend.supports_device(name, "many")


def test_a_hint_says_what_a_gpu_needs() -> None:
    for name in ("gpu", "cuda:1"):
        with pytest.raises(ShimError) as caught:
            devices.resolve(name, ("cpu",), "reference")
        assert "driver" in str(caught.value.hint)


def test_no_device_leaves_the_choice_to_the_framework(many: ManyDevices) -> None:
    proto = model([node("Relu", ["x"], ["y"])], [value("x", ["n", 3])], [value("y")])
    runnable = onnx_compat.prepare(proto, "many")
    assert runnable.device is None
    assert many.compiled == [None]


def test_a_shim_has_a_cpu_by_default() -> None:
    proto = model([node("Relu", ["x"], ["y"])], [value("x", ["n", 3])], [value("y")])
    for name in ("cpu", "CPU:0"):
        runnable = onnx_compat.prepare(proto, "reference", name)
        assert runnable.device == "cpu"
        np.testing.assert_array_equal(runnable.run([X])[0], X)
    with pytest.raises(ShimError, match=r"available are: cpu\n"):
        onnx_compat.prepare(proto, "reference", "cpu:1")
    program: Any = None
    with pytest.raises(ShimError, match=r"available are: cpu\n"):  # before it looks at the program
        REFERENCE.compile(program, "gpu")


def test_the_parts_of_the_shim_are_on_the_device_and_the_fallback_is_not(many: ManyDevices) -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("Exp", ["a"], ["b"], name="the_exp"), node("Neg", ["b"], ["y"])]
    runnable = onnx_compat.prepare(model(nodes, [value("x", ["n", 3])], [value("y")]), "many", "cuda:1")
    many.compiled.clear()
    np.testing.assert_allclose(runnable.run([X])[0], -np.exp(X), rtol=1e-6)
    assert runnable.fallbacks == ["the_exp"]
    assert many.compiled == ["gpu:1", "gpu:1"]
    parts: Any = runnable._latest._runnables
    assert [getattr(part, "device", None) for part in parts] == ["gpu:1", None, "gpu:1"]


def test_immediate_execution_is_on_the_device(many: ManyDevices, monkeypatch: pytest.MonkeyPatch) -> None:
    entered: Dict[str, List[Any]] = {"within": [], "outside": []}

    class Placed(Reference):
        inside = False

        @contextmanager
        def device_context(self) -> Iterator[None]:
            self.inside = True
            yield
            self.inside = False

        def reduce_sum(self, x: Any, *args: Any, **params: Any) -> Any:
            entered["within" if self.inside else "outside"].append(self.node.primitive)
            return super().reduce_sum(x, *args, **params)

    monkeypatch.setattr(LimitedShim, "executor", lambda self, device=None: Placed())
    proto = model(
        [
            node("ReduceMax", ["x"], ["m"], keepdims=0),
            node("Cast", ["m"], ["k"], to=7),
            node("Unsqueeze", ["k", "zero"], ["axes"]),
            node("ReduceSum", ["x", "axes"], ["y"], keepdims=0),
        ],
        [value("x")], [value("y")], {"zero": np.array([0])},
    )  # fmt: skip
    runnable = onnx_compat.prepare(proto, "many", "gpu:1")
    x = np.zeros((200, 50), np.float32)
    np.testing.assert_array_equal(runnable.run([x])[0], x.sum(0))
    assert isinstance(runnable._latest, ImmediatePlan)
    assert set(many.executed) == {"gpu:1"}
    assert entered == {"within": ["reduce_sum"], "outside": []}


def test_the_backend_api_resolves_devices_as_prepare_does(many: ManyDevices, monkeypatch: pytest.MonkeyPatch) -> None:
    proto = model([node("Relu", ["x"], ["y"])], [value("x", ["n", 3])], [value("y")])
    api = backend.OnnxCompatBackend
    assert api.prepare(proto, "CUDA:1", shim="many").runnable.device == "gpu:1"
    assert api.prepare(proto, shim="many").runnable.device == "cpu:0"
    assert api.supports_device("CUDA:1", "many") and not api.supports_device("CUDA:2", "many")
    assert api.is_compatible(proto, "CUDA", shim="many") and not api.is_compatible(proto, "CUDA", shim="reference")
    with pytest.raises(OnnxCompatError):
        api.run_model(proto, [X], "CUDA", shim="reference")
    monkeypatch.setenv("ONNX_COMPAT_SHIM", "many")
    assert backend.supports_device("CUDA")
    monkeypatch.setenv("ONNX_COMPAT_SHIM", "nowhere")
    assert not backend.supports_device("CPU")
