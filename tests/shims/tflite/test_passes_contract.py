"""The contract of passes: each acts on its example alone, keeps the results, and edits graphs only through
GraphRewriter.
"""

import ast
import copy
from pathlib import Path
from typing import Any, Callable, Dict, List, Set

import numpy as np
import onnx_compat_tflite.passes as tflite_passes
import pytest
from onnx_compat_tflite import SHIM, features
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.emitter import TFLiteEmitter
from onnx_compat_tflite.graph_verifier import verify_graph
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.passes import GRAPH, PROGRAM, optimize
from onnx_compat_tflite.passes.contract import Context, ExampleGraph
from onnx_compat_tflite.passes.rewriter import GraphRewriter
from programs import run_model

from matrix.harness.edits import find_edits
from onnx_compat.errors import ConversionError, InputError
from onnx_compat.passes import CORE, EVERY, VARIABLE, Pass, Schedule, leaving_out, recording
from onnx_compat.reference import Reference
from onnx_compat.shim.emission import emit

FOLDER = Path(tflite_passes.__file__).parent
#: What a pass may not assign: the fields of a graph, its tensors and its operators, and of recorded programs.
FIELDS = {
    *("buffer", "builtin", "dtype", "inputs", "is_variable", "name", "operators", "options", "outputs", "quantization"),
    *("shape", "shape_signature", "tensors"),
    *("args", "node", "nodes", "params", "primitive", "regions", "spec"),
}


#: The results of examples that some runtime refuses or gets wrong before the pass.
LEGALIZED: Dict[str, Callable[[Any], Any]] = {
    "inplace_hazards": np.ones_like,
    "int8_casts": lambda x: x.astype(np.int8),
}


def wanted_of(pass_: Pass, before: fb.ModelSpec, feeds: List[Any]) -> List[Any]:
    return [LEGALIZED[pass_.name](feeds[0])] if pass_.legalizes else run_model(before, feeds)


def feeds_of(model: fb.ModelSpec) -> List[Any]:
    """Return inputs of a model: integers, or multiples of 1/16, whose small sums and products are exact in float32."""
    random = np.random.RandomState(0)
    tensors = [model.subgraphs[0].tensors[index] for index in model.subgraphs[0].inputs]
    divisors = [1 if "int" in tensor.dtype else 16 for tensor in tensors]
    return [
        (random.randint(-100, 100, tensor.shape) / by).astype(tensor.dtype) for tensor, by in zip(tensors, divisors)
    ]


@pytest.mark.parametrize("pass_", GRAPH.distinct, ids=lambda entry: entry.name)
def test_a_graph_pass_acts_on_its_example_alone_and_keeps_the_results(pass_: Pass) -> None:
    before = pass_.example()
    model = copy.deepcopy(before)
    context = Context(model, Kernels())
    assert context.apply(pass_) > 0
    assert [repr(graph.operators) for graph in model.subgraphs] != [repr(graph.operators) for graph in before.subgraphs]
    verify_graph(model, pass_.name)
    feeds = feeds_of(before)
    for result, wanted in zip(run_model(model, feeds), wanted_of(pass_, before, feeds)):
        assert result.dtype == wanted.dtype
        np.testing.assert_allclose(result, wanted, rtol=1e-6, atol=1e-6)
    assert context.apply(pass_) == 0


@pytest.mark.parametrize("pass_", [*CORE.distinct, *PROGRAM.distinct], ids=lambda entry: entry.name)
def test_a_program_pass_acts_on_its_example_alone_and_keeps_the_results(pass_: Pass) -> None:
    emitter = TFLiteEmitter(features.kernels())
    program = pass_.example(emitter)
    feeds = [np.random.RandomState(0).standard_normal(port.shape).astype(np.float32) for port in program.inputs]
    wanted = emit(pass_.example(Reference()).region, Reference(), feeds)
    region, count = pass_.apply(program.region, emitter)
    assert count > 0
    (actual,) = SHIM.compile(program._replace(region=region)).run(feeds)
    np.testing.assert_allclose(actual, wanted[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("pass_", GRAPH.distinct, ids=lambda entry: entry.name)
def test_an_order_that_breaks_a_constraint_is_refused(pass_: Pass) -> None:
    other_results = [other_pass for other_pass in GRAPH.passes if other_pass is not pass_]
    constraints = [name for name in (*pass_.after, *pass_.before) if name != EVERY]
    assert set(constraints) <= {other_pass.name for other_pass in GRAPH.passes}
    if pass_.after:
        with pytest.raises(ConversionError, match="'%s' without '" % pass_.name):
            Schedule([pass_, *other_results])
    if pass_.before:
        with pytest.raises(ConversionError, match="without '%s' before it" % pass_.name):
            Schedule([*other_results, pass_])
    for name in constraints:
        with pytest.raises(ConversionError):
            Schedule([other_pass for other_pass in GRAPH.passes if other_pass.name != name])


def test_a_shuffled_schedule_is_taken_only_if_it_keeps_the_constraints() -> None:
    random, refused = np.random.RandomState(0), 0
    for _ in range(50):
        shuffled = [GRAPH.passes[position] for position in random.permutation(len(GRAPH.passes))]
        first = {pass_.name: position for position, pass_ in reversed(list(enumerate(shuffled)))}
        keeps = all(first[name] < first[pass_.name] for pass_ in shuffled for name in pass_.after if name != EVERY)
        try:
            Schedule(shuffled)
            assert keeps
        except ConversionError:
            refused += 1
    assert refused > 40


def test_the_indices_of_a_rewriter_follow_every_edit() -> None:
    for pass_ in GRAPH.distinct:
        model = pass_.example()
        context = Context(model, Kernels())
        context.apply(pass_)
        for k, graph in enumerate(model.subgraphs):
            edited, new = context.subgraph(k), GraphRewriter(graph)
            for index in range(len(graph.tensors)):
                assert sorted(map(id, edited.readers(index))) == sorted(map(id, new.readers(index))), pass_.name
                every = [op.builtin for op in (*graph.operators, *pass_.example().subgraphs[k].operators)]
                assert edited.producer(index, *every) is new.producer(index, *every), pass_.name


def test_every_pass_has_a_summary_of_before_and_after() -> None:
    for pass_ in (*CORE.distinct, *PROGRAM.distinct, *GRAPH.distinct):
        assert "=>" in pass_.summary and len(pass_.summary) < 100, pass_
        module = Path(pass_.apply.__code__.co_filename).read_text(encoding="utf-8")
        assert "=>" in (ast.get_docstring(ast.parse(module)) or "").split("\n\n")[0] or pass_ in CORE.distinct, pass_


def test_no_pass_writes_fields_of_a_graph() -> None:
    modules = [path for path in FOLDER.rglob("*.py") if path.name not in ("rewriter.py", "contract.py")]
    assert len(modules) > 25
    assert [edit for path in modules for edit in find_edits(path, FIELDS)] == []


def test_the_verifier_runs_behind_every_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: List[str] = []
    monkeypatch.setattr(tflite_passes, "check_graph", lambda model, step: steps.append(step))
    graph = ExampleGraph((2, 3))
    optimize(graph.model(graph.op("ABS", [graph.inputs[0]], (2, 3))), Kernels())
    assert steps == ["the pass '%s'" % pass_.name for pass_ in GRAPH.passes]


def test_passes_of_all_examples_leave_valid_graphs() -> None:
    for pass_ in GRAPH.distinct:
        model = pass_.example()
        feeds, before = feeds_of(model), copy.deepcopy(model)
        optimize(model, Kernels())
        for result, wanted in zip(run_model(model, feeds), wanted_of(pass_, before, feeds)):
            np.testing.assert_allclose(result, wanted, rtol=1e-6, atol=1e-6)


def operators_of(model: fb.ModelSpec) -> Set[str]:
    optimize(model, Kernels())
    return {op.builtin for op in model.subgraphs[0].operators}


def test_the_environment_variable_leaves_passes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    (identities,) = [pass_ for pass_ in GRAPH.distinct if pass_.name == "identities"]
    assert operators_of(identities.example()) == {"ABS"}
    monkeypatch.setenv(VARIABLE, "-identities, -dead_code")
    with recording() as report:
        assert operators_of(identities.example()) == {"MUL", "ABS"}
    assert {entry.name for entry in report.entries if entry.left_out} == {"identities", "dead_code"}
    with leaving_out([]):
        assert operators_of(identities.example()) == {"ABS"}


@pytest.mark.parametrize(
    ("value", "words"), [("-identites", "which this shim does not have as a pass"), ("dead_code", "leaves no pass out")]
)
def test_a_name_that_is_no_pass_is_refused(monkeypatch: pytest.MonkeyPatch, value: str, words: str) -> None:
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(InputError, match=words) as caught:
        optimize(fb.ModelSpec([]), Kernels())
    assert "identities" in str(caught.value.hint)


def test_a_report_counts_the_rewrites_of_all_runs() -> None:
    graph = ExampleGraph((2, 3))
    products = [graph.op("MUL", [graph.inputs[0], graph.constant(1)], (2, 3)) for _ in range(2)]
    model = graph.model(graph.op("ADD", products, (2, 3)))
    with recording() as report:
        optimize(model, Kernels())
    counts = {entry.name: entry.rewrites for entry in report.entries}
    assert counts["identities"] == counts["dead_code"] == 2
    assert list(counts) == [pass_.name for pass_ in GRAPH.distinct]
