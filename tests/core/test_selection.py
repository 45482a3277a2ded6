"""Selection of a shim, and the reason that is returned with it."""

import sys
import types
from typing import Any, Dict

import pytest

from onnx_compat.discovery import selection
from onnx_compat.discovery.selection import Probe, decide, shims
from onnx_compat.errors import ShimError
from onnx_compat.reference.shim import ReferenceShim


class Fake(ReferenceShim):
    """A fake shim whose probe imports its framework, or fails."""

    def __init__(self, name: str, works: bool = True) -> None:
        self.name = name
        self.modules = ("framework_" + name,)
        self.works = works

    def probe(self) -> Probe:
        if not self.works:
            raise OSError("libframework.so: cannot open shared object file")
        sys.modules[self.modules[0]] = types.ModuleType(self.modules[0])
        return Probe(True, "it is installed", "framework", "1")


@pytest.fixture(name="environment")
def _environment(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that installs these fake shims, in this order."""
    fakes_by_name: Dict[str, Fake] = {}

    def environment(*fakes: Fake) -> None:
        fakes_by_name.update((fake.name, fake) for fake in fakes)
        monkeypatch.delenv("ONNX_COMPAT_SHIM", raising=False)
        for cache in ("_PROBED", "_HINTS", "_DEADLY"):
            monkeypatch.setattr(selection, cache, {})
        monkeypatch.setattr(selection, "_WARNED", set())
        monkeypatch.setattr(selection, "_OURS", set())
        monkeypatch.setattr(selection, "_LOADED", dict(selection._LOADED, **fakes_by_name))
        core = [name for name in fakes_by_name if name == "onnx"]
        monkeypatch.setattr(selection, "core_shims", lambda: [*core, "reference"])
        frameworks = [name for name in fakes_by_name if name != "onnx"]
        monkeypatch.setattr(selection, "installed_shims", lambda: dict.fromkeys(frameworks))

    yield environment
    for fake in fakes_by_name.values():
        sys.modules.pop(fake.modules[0], None)


def test_without_shims_the_reference_is_selected(environment: Any) -> None:
    environment()
    assert decide() == ("reference", "no installed shim works here", {})


def test_onnxruntime_comes_after_the_frameworks_and_before_the_reference(environment: Any) -> None:
    environment(Fake("onnx"), Fake("one"))
    assert decide()[0] == "one"
    environment(Fake("one", works=False))
    assert decide()[:2] == ("onnx", "no installed shim works here, and onnxruntime does")
    environment(Fake("onnx", works=False))
    assert decide()[0] == "reference"
    assert [info.name for info in shims()] == ["one", "onnx", "reference"]


def test_an_imported_onnxruntime_does_not_come_before_a_framework(environment: Any) -> None:
    environment(Fake("onnx"), Fake("one"))
    sys.modules["framework_onnx"] = types.ModuleType("framework_onnx")
    assert decide()[0] == "one"


def test_the_first_shim_that_works_is_used_each_time(environment: Any) -> None:
    environment(Fake("broken", works=False), Fake("one"), Fake("two"))
    for _ in range(2):
        decision = decide()
        assert decision[:2] == ("one", "the first installed shim that works")
        assert list(decision.passed) == ["broken"]
        assert "cannot open shared object file" in decision.passed["broken"]


def test_an_imported_framework_comes_first(environment: Any) -> None:
    environment(Fake("one"), Fake("two"))
    sys.modules["framework_two"] = types.ModuleType("framework_two")
    assert decide() == ("two", "framework_two is imported already", {})


def test_of_several_imported_frameworks_the_first_is_used(environment: Any) -> None:
    environment(Fake("one"), Fake("two"))
    for name in ("framework_two", "framework_one"):
        sys.modules[name] = types.ModuleType(name)
    assert decide() == ("two", "framework_two is imported already", {})


def test_a_name_comes_before_the_variable_and_both_before_imports(
    environment: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment(Fake("one"), Fake("two"))
    sys.modules["framework_two"] = types.ModuleType("framework_two")
    monkeypatch.setenv("ONNX_COMPAT_SHIM", "one")
    assert decide() == ("one", "ONNX_COMPAT_SHIM is set", {})
    assert decide("reference") == ("reference", "asked for by name", {})


def test_a_requested_shim_that_does_not_work_is_never_replaced(environment: Any) -> None:
    environment(Fake("broken", works=False), Fake("one"))
    with pytest.raises(ShimError, match=r"libframework\.so") as caught:
        decide("broken")
    assert caught.value.shim == "broken"
    assert "hint: install the system's package that has libframework.so in it" in str(caught.value)


def test_a_framework_that_asks_the_process_to_end_is_broken(environment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    environment(Fake("one"))
    monkeypatch.setattr(Fake, "probe", lambda self: sys.exit("no licence"))
    assert decide() == (
        "reference",
        "no installed shim works here",
        {"one": "the probe failed: SystemExit: no licence"},
    )


def test_every_shim_is_listed_with_the_reason(environment: Any) -> None:
    environment(Fake("broken", works=False), Fake("one"))
    infos = {info.name: info for info in shims()}
    assert list(infos) == ["broken", "one", "reference"]
    assert "cannot open shared object file" in infos["broken"].reason
    assert [name for name, info in infos.items() if info.selected] == ["one"]
