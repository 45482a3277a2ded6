"""Operators and shims from packages outside of the library: how they load, and the errors about their defects."""

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Iterator, List

import numpy as np
import pytest
from building import INT64, model, node, value
from limited import LimitedShim, install
from onnx import helper

import onnx_compat
from onnx_compat.discovery import selection
from onnx_compat.errors import InvalidModelError, ShimError, UnsupportedError
from onnx_compat.ops import OPERATORS, all_meanings, registry
from onnx_compat.reference import Reference
from onnx_compat.reference.shim import Replayed

X = np.array([[1.0, -2.0, 3.0], [0.0, 5.0, -6.0]], np.float32)


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    """Restore the registry of operators after each test. All operators load first, because a module registers only once."""
    all_meanings()
    before = {key: dict(versions) for key, versions in OPERATORS.items()}
    yield
    OPERATORS.clear()
    OPERATORS.update(before)


def mine(operator: str, domain: str = "my.domain", **attributes: Any) -> Any:
    nodes = [node(operator, ["x"], ["y"], domain=domain, name="here", **attributes)]
    opsets = [helper.make_opsetid(domain, 1)] if domain else []
    return model(nodes, [value("x", ["n", 3])], [value("y")], extra_opsets=opsets)


def test_a_meaning_runs_on_every_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    @onnx_compat.op("Half", since=1, domain="my.domain")
    def half(x: Any, *, by: float = 2.0) -> Any:
        return x / by

    install(monkeypatch)
    for shim in ("reference", "limited"):
        np.testing.assert_array_equal(onnx_compat.run(mine("Half", by=4.0), [X], shim=shim)[0], X / 4)


def test_a_users_meaning_replaces_that_of_the_library() -> None:
    @onnx_compat.op("Neg", since=13)
    def neg(x: Any) -> Any:
        return x * 10

    np.testing.assert_array_equal(onnx_compat.run(mine("Neg", domain=""), [X], shim="reference")[0], X * 10)


PREPARE = """
import sys
import numpy as np
from onnx import helper
import onnx_compat
{before}
ports = [helper.make_tensor_value_info(name, 1, [2, 3]) for name in "xy"]
nodes = [helper.make_node("{operator}", ["x"], ["y"], domain="{domain}")]
opsets = [helper.make_opsetid("", 17)] + [helper.make_opsetid("{domain}", 1)] * bool("{domain}")
proto = helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:]), opset_imports=opsets, ir_version=8)
runnable = onnx_compat.prepare(proto, shim="reference", fallback=False)
print(*(name in sys.modules for name in ("onnx_compat.ops.ml", "onnx_compat.ops.microsoft")))
print(runnable.run([np.ones((2, 3), np.float32)])[0].tolist()[0])
"""


def run_in_child(operator: str, domain: str, before: str = "") -> "subprocess.CompletedProcess[str]":
    """Prepare and run a model of one node in a new Python process. Return the finished process with its output."""
    program = PREPARE.format(operator=operator, domain=domain, before=before)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)


def test_an_old_version_of_an_operator_of_onnxruntime_is_found() -> None:
    """LayerNormalization-1 of ai.onnx runs as the operator of com.microsoft, as ONNX has it only from opset 17 on."""
    program = """
import numpy as np
from onnx import helper
import onnx_compat
ports = [helper.make_tensor_value_info(name, 1, [3]) for name in "xsby"]
node = helper.make_node("LayerNormalization", ["x", "s", "b"], ["y"])
graph = helper.make_graph([node], "g", ports[:3], ports[3:])
proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
print(onnx_compat.run(proto, [np.ones(3, np.float32)] * 3, shim="reference")[0].tolist())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "[1.0, 1.0, 1.0]", done.stderr


@pytest.mark.parametrize(
    ("operator", "domain", "imported"),
    [
        ("Neg", "", "False False"),
        ("Normalizer", "ai.onnx.ml", "True False"),
        ("Gelu", "com.microsoft", "False True"),
    ],
)
def test_the_meanings_of_a_domain_load_when_a_model_uses_it(operator: str, domain: str, imported: str) -> None:
    child = run_in_child(operator, domain)
    assert child.returncode == 0, child.stderr
    assert child.stdout.splitlines()[0] == imported


@pytest.mark.parametrize(("operator", "domain"), [("Neg", ""), ("Normalizer", "ai.onnx.ml"), ("Gelu", "com.microsoft")])
def test_a_users_meaning_stays_when_the_domain_loads_later(operator: str, domain: str) -> None:
    before = "onnx_compat.op(%r, since=1, domain=%r)(lambda X: X * 7)" % (operator, domain)
    if not domain:
        before = before.replace("since=1", "since=13")
    child = run_in_child(operator, domain, before)
    assert child.returncode == 0, child.stderr
    assert child.stdout.splitlines()[1] == "[7.0, 7.0, 7.0]"


def test_without_metadata_the_error_names_the_installation() -> None:
    before = "from onnx_compat.discovery import environment\nclass NoMetadata:\n    entry_points = dict\n"
    child = run_in_child("Normalizer", "ai.onnx.ml", before + "environment.metadata = NoMetadata")
    assert "UnsupportedError" in child.stderr
    assert "no meaning is known for the custom operator ai.onnx.ml::Normalizer" in child.stderr
    assert "pip install -e ." in child.stderr


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder on `sys.path` in which a test can write packages with entry points."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_FAILED_ENTRY_POINTS", {})
    yield tmp_path
    registry._load_domain.cache_clear()
    registry._load_all.cache_clear()


def install_operators(folder: Path, module: str, lines: List[str], entry: str) -> None:
    """Write a module, and the metadata of a package whose entry point is the module."""
    (folder / (module + ".py")).write_text("\n".join(lines), encoding="ascii")
    metadata = folder / (module + "-1.0.dist-info")
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n" % module, encoding="ascii")
    (metadata / "entry_points.txt").write_text("[onnx_compat.ops]\n%s\n" % entry, encoding="ascii")
    registry._load_domain.cache_clear()
    registry._load_all.cache_clear()


@pytest.mark.parametrize("name", ["my.domain", "anything"])
def test_an_entry_point_registers_operators(packages: Path, name: str) -> None:
    module = "operators_of_" + name.replace(".", "_")
    lines = ["import onnx_compat", "@onnx_compat.op('Half', since=1, domain='my.domain')", "def half(x): return x / 2"]
    install_operators(packages, module, lines, "%s = %s" % (name, module))
    np.testing.assert_array_equal(onnx_compat.run(mine("Half"), [X], shim="reference")[0], X / 2)


def test_an_entry_point_named_like_another_domain_is_not_imported(packages: Path) -> None:
    install_operators(packages, "operators_unused", ["raise RuntimeError"], "other.domain = operators_unused")
    onnx_compat.run(mine("Normalizer", domain="ai.onnx.ml"), [X], shim="reference")
    assert not registry._FAILED_ENTRY_POINTS


def test_the_error_about_an_unknown_operator_names_the_entry_point_that_fails(packages: Path) -> None:
    install_operators(packages, "operators_broken", ["raise RuntimeError('no luck')"], "bad = operators_broken")
    with pytest.raises(UnsupportedError, match="no meaning is known") as caught:
        onnx_compat.prepare(mine("Half"), shim="reference", fallback=False)
    assert "'bad = operators_broken' (RuntimeError: no luck)" in str(caught.value)
    assert onnx_compat.support(mine("Half"), shim="reference")[0].status == "unsupported"


@pytest.mark.parametrize(
    ("meaning", "message"),
    [
        (lambda x: 3, "gives int for 'y', not a Tensor"),
        (lambda x: (), "gives 0 outputs, the node names 1"),
        (lambda x: x.nothing, "has no attribute 'nothing'"),
        (lambda x, y: x, "the input 'y' .* is missing"),
    ],
)
def test_a_wrong_meaning_is_named_with_its_file(meaning: Any, message: str) -> None:
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


def test_a_shim_with_results_of_another_dtype_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
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

    monkeypatch.setattr(selection, "installed_shims", lambda: {"odd": Point()})
    infos = {info.name: info for info in onnx_compat.shims()}
    assert not infos["odd"].available
    assert "gives int, not a Shim" in infos["odd"].reason
    assert infos["reference"].selected


def test_the_reason_of_a_fallback_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    runnable = onnx_compat.prepare(mine("Exp", domain=""), shim="limited")
    assert runnable.fallbacks == ["here"]
    assert "no exponential" in runnable.fallback_reasons["here"]
