"""Comparison of intermediate values, and the search for the first node that departs by itself."""

import itertools
import json
from functools import partial
from typing import Any, Dict, Iterator, Tuple

import numpy as np
import pytest
from building import model, node, value

import onnx_compat
from onnx_compat import primitives as p
from onnx_compat.errors import UnsupportedError
from onnx_compat.ops import OPERATORS
from onnx_compat.reference.shim import SHIM
from onnx_compat.verification.compare import compare
from onnx_compat.verification.layers import Layers, examine_layers

X = np.float32([[1, -2, 3]])


def chain() -> Any:
    """Return the model x -> neg -> double -> exp -> add -> y, with one more node whose result no node reads."""
    nodes = [
        node("Neg", ["x"], ["n"], name="neg"),
        node("Mul", ["n", "two"], ["d"], name="double"),
        node("Exp", ["d"], ["e"], name="exp"),
        node("Abs", ["x"], ["side"], name="side"),
        node("Add", ["e", "half"], ["y"], name="add"),
    ]
    constants = {"two": np.float32(2), "half": np.float32(0.5)}
    return model(nodes, [value("x", ["n", 3])], [value("y", ["n", 3])], constants)


class Fake:
    """A fake subject of verification. `whole`: value -> its error when the model runs; `alone`: node -> its error alone."""

    notes = ()
    emitted: Dict[str, Tuple[str, ...]] = {"y": ("EXP", "ADD")}

    def __init__(self, whole: Dict[str, Any], alone: Dict[str, Any], held: Any = ("n", "d", "e", "side", "y")) -> None:
        self.whole, self.by_itself, self.held = whole, alone, held

    def values(self, inputs: Any, expected: Any) -> Any:
        return {name: expected[name] + self.whole.get(name, 0) for name in self.held}

    def alone(self, node: Any, expected: Any) -> Any:
        error = self.by_itself.get(node.name, 0)
        if isinstance(error, Exception):
            raise error
        return {name: expected[name] + error for name in node.outputs}

    def align(self, name: str, got: Any, want: Any) -> Any:
        return got


def examine(*subject: Any) -> Layers:
    loaded = onnx_compat.load(chain())
    fake: Any = Fake(*subject)
    return examine_layers(loaded, {"x": X}, fake, "reference", partial(compare, rtol=1e-3, atol=1e-3))


def test_all_agree() -> None:
    layers = examine({}, {})
    assert layers.ok
    assert layers.culprit is None
    assert [layer.value for layer in layers.layers] == ["n", "d", "e", "side", "y"]
    assert layers.layers[0].snr == np.inf
    assert "all 5 values" in layers.verdict


def test_a_file_that_names_only_its_outputs() -> None:
    layers = examine({}, {}, ("y",))
    assert layers.verdict == "the only value that could be compared agrees"
    note = "only the outputs could be compared: the file names no other tensor of the model"
    assert note in layers.notes
    assert note not in examine({}, {}).notes


def test_the_first_that_departs_by_itself_is_named() -> None:
    error = np.float32(1)
    layers = examine({"d": error, "e": error, "y": error}, {"exp": error, "add": error})
    assert layers.culprit == "exp"
    by_value = {layer.value: layer for layer in layers.layers}
    assert [name for name, layer in by_value.items() if not layer.ok] == ["d", "e", "y"]
    assert by_value["d"].alone is not None and by_value["d"].alone.ok
    assert by_value["e"].alone is not None and not by_value["e"].alone.ok
    assert by_value["y"].alone is None  # it comes after the culprit
    assert by_value["d"].snr == pytest.approx(10 * np.log10((4 + 16 + 36) / 3))
    assert layers.verdict.startswith("the first node that departs by itself, from exact inputs, is 'exp', Exp: ")
    assert "(before it 'double' departs, but not by itself)" in layers.verdict
    assert layers.verdict.endswith("later nodes may depart only because 'exp' does: mend it, and run again")
    last = examine({"y": error}, {"add": error}).verdict
    assert (
        last
        == "the first node that departs by itself, from exact inputs, is 'add', Add: its value 'y', max abs error 1"
    )


def test_errors_that_add_up_name_no_node() -> None:
    layers = examine({"e": np.float32(0.1), "y": np.float32(0.1)}, {})
    assert layers.culprit is None
    assert "none of the 2 that depart does so by itself" in layers.verdict
    assert "it does not depart by itself" in examine({"e": np.float32(0.1)}, {}).verdict


def test_a_node_that_does_not_run_by_itself_is_named() -> None:
    layers = examine({"d": np.float32(9)}, {"double": UnsupportedError("it is shy")})
    assert layers.culprit == "double"
    assert "the first node that departs and cannot run by itself is 'double', Mul: " in layers.verdict
    assert "; the reason: it is shy; later nodes" not in layers.verdict
    assert layers.verdict.endswith("; the reason: it is shy")


def test_a_wrong_shape_is_printed() -> None:
    layers = examine({"d": np.zeros((2, 1), np.float32)}, {"double": np.zeros((2, 1), np.float32)})
    assert layers.verdict.endswith("its value 'd', wrong shape float32[2, 3], expected float32[1, 3]")


def test_values_that_the_file_does_not_hold() -> None:
    layers = examine({}, {}, ("d", "y"))
    assert {gone.value: gone.why for gone in layers.gone} == {
        "n": "fused into 'double'",
        "e": "fused into 'add'",
        "side": "not needed",
    }
    assert [layer.nodes for layer in layers.layers] == [("double", "neg"), ("add", "exp")]
    assert layers.layers[1].emitted == ("EXP", "ADD")
    assert "no intermediate value" in examine({}, {}, ()).verdict


@pytest.fixture
def wrong() -> Iterator[None]:
    """Register an operator Square with a wrong meaning: it computes the cube."""

    @onnx_compat.op("Square", since=1, domain="my.domain")
    def square(x: Any) -> Any:
        return p.mul(p.mul(x, x), x)

    yield
    OPERATORS.pop(("my.domain", "Square"))


def test_a_custom_operator_that_is_wrong_is_named(wrong: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from onnx import helper

    from onnx_compat.verification import intermediate_values

    nodes = [
        node("Relu", ["x"], ["a"], name="relu"),
        node("Square", ["a"], ["b"], name="square", domain="my.domain"),
        node("Neg", ["b"], ["y"], name="neg"),
    ]
    opsets = [helper.make_opsetid("my.domain", 1)]
    proto = model(nodes, [value("x", ["n", 3])], [value("y", ["n", 3])], extra_opsets=opsets)
    ask = intermediate_values.run_oracle

    def right(submodel: Any, inputs: Any, oracle: Any, **_: Any) -> Any:
        a = np.maximum(inputs["x"], 0)
        values = {"a": a, "b": a * a, "y": -a * a}
        return ask(submodel, inputs, "reference")._replace(outputs=[values[port.name] for port in submodel.outputs])

    monkeypatch.setattr(intermediate_values, "run_oracle", right)
    report = onnx_compat.verify(proto, {"x": X}, shim="reference", oracle="reference", layers=True)
    assert report.layers is not None
    assert report.layers.culprit == "square"
    assert [layer.ok for layer in report.layers.layers] == [True, False, False]
    assert "'square'" in str(report)
    document = json.loads(report.to_json(), parse_constant=pytest.fail)
    assert document["layers"]["culprit"] == "square"
    assert document["layers"]["layers"][1]["alone"]["ok"] is False


def test_nodes_run_one_by_one_where_the_whole_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")  # the oracle must not be the reference, which refuses the whole model here
    loaded = onnx_compat.load(chain())
    compile_ = SHIM.compile

    def refuse(program: Any, device: Any = None) -> Any:
        if len(program.outputs) > 1:
            raise UnsupportedError("one output is enough")
        return compile_(program, device)

    monkeypatch.setattr(type(SHIM), "compile", lambda self, *rest: refuse(*rest))
    monkeypatch.setattr(type(SHIM), "executor", lambda self, device=None: None)
    from onnx_compat.verification import intermediate_values

    monkeypatch.setattr(intermediate_values.OnShim, "values", _without_fallback(intermediate_values.OnShim.values))
    report = onnx_compat.verify(loaded, {"x": X}, shim="reference", layers=True)
    assert report.layers is not None and report.layers.ok
    assert len(report.layers.layers) == 5


def _without_fallback(values: Any) -> Any:
    """Return `values` wrapped so that it runs without the fallback, which would run the whole model."""
    import functools

    prepare = functools.partial(onnx_compat.prepare, fallback=False)

    def run(self: Any, inputs: Any, expected: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(vars(onnx_compat), "prepare", prepare)
            results = values(self, inputs, expected)
        assert any("each node ran by itself" in note for note in self.notes)
        return results

    return run


def test_sequences_and_captures() -> None:
    """A sequence is compared element by element. A branch reads a value of the outer graph."""
    from onnx import helper

    branch = [helper.make_graph([node(kind, ["x"], [kind])], kind, [], [value(kind, None)]) for kind in ("Neg", "Abs")]
    nodes = [
        node("SequenceConstruct", ["x", "x"], ["s"], name="both"),
        node("SequenceAt", ["s", "one"], ["t"], name="second"),
        node("If", ["yes"], ["i"], name="if", then_branch=branch[0], else_branch=branch[1]),
        node("Add", ["t", "i"], ["y"], name="add"),
    ]
    constants = {"one": np.int64(1), "yes": np.bool_(True)}
    proto = model(nodes, [value("x", ["n", 3])], [value("y", ["n", 3])], constants)
    report = onnx_compat.verify(proto, {"x": X}, shim="reference", layers=True)
    assert report.ok
    assert report.layers is not None and report.layers.ok
    assert [layer.value for layer in report.layers.layers] == ["s", "t", "i", "y"]
    assert report.layers.layers[0].snr is None
    assert [note for note in report.layers.notes if "only the results of 'if' (If)" in note]
    assert not any("bodies" in note for note in examine({}, {}).notes)


@pytest.mark.parametrize("shape", [(3, 4), (4, 4), (2, 3, 3), (2, 3, 3, 4), (1, 3, 3, 3)])
def test_a_value_with_a_pending_transposition_is_aligned(shape: Any) -> None:
    from onnx_compat.verification.intermediate_values import _find_axis_order

    want = np.random.RandomState(0).standard_normal(shape).astype(np.float32)
    for perm in itertools.permutations(range(len(shape))):
        got = want.transpose(perm)
        np.testing.assert_array_equal(got.transpose(_find_axis_order(got, want)), want)
        np.testing.assert_array_equal(
            (got + np.float32(1e-7)).transpose(_find_axis_order(got, want)), want + np.float32(1e-7)
        )


def test_a_value_that_departs_keeps_its_axis_order() -> None:
    from onnx_compat.verification.intermediate_values import _find_axis_order

    want, got = np.random.RandomState(0).standard_normal((2, 2, 3, 3)).astype(np.float32)
    assert _find_axis_order(got, want) == (0, 1, 2)
    assert _find_axis_order(got[:, :2], want) == (0, 1, 2)


def test_the_largest_number_counts_as_an_expected_infinity() -> None:
    from onnx_compat.verification.intermediate_values import _restore_infinities

    most = np.finfo(np.float32).max
    got = np.array([most, -most, -most, 1, most, np.inf], np.float32)
    want = np.array([np.inf, -np.inf, np.inf, 1, 2, np.inf], np.float32)
    assert _restore_infinities(got, want).tolist() == [np.inf, -np.inf, -most, 1, most, np.inf]
