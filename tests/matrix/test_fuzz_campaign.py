"""Campaigns of the fuzzer: chunk files, the worker that survives its child, the shrinker, and the record."""

import contextlib
import itertools
import json
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from matrix.fuzz.campaign import Counts, Target, code_without_docstrings, run_chunk, write_failure
from matrix.fuzz.chunks import read_chunk, write_chunk
from matrix.fuzz.document import dump_case, parse_case
from matrix.fuzz.execution import DIED, ERROR, HUNG, SAME, WRONG, Outcome, execute
from matrix.fuzz.graphs import Case, Graph, Node, Port, Run, to_model
from matrix.fuzz.shrink import shrink, signature
from matrix.fuzz.worker import Worker, _receive
from matrix.line_process import LineProcess, NoAnswer

pytest.importorskip("onnxruntime")
TARGET = Target("reference", "reference", sys.executable, {})


def chain(*operators: str, size: int = 4) -> Case:
    """Return a case of unary operators in sequence, with each result as an output."""
    nodes = [Node(operator, ("v%d" % k,), ("v%d" % (k + 1),), {}) for k, operator in enumerate(operators)]
    array = np.arange(size, dtype=np.float32).reshape(1, size)
    values = [array]
    for operator in operators:
        values.append({"Neg": np.negative, "Abs": np.abs, "Relu": lambda v: np.maximum(v, 0)}[operator](values[-1]))
    names = ["v%d" % (k + 1) for k in range(len(operators))]
    ports = tuple(Port(name, "float32", ("n", size)) for name in names)
    run = Run({"v0": array}, dict(zip(names, values[1:])), dict.fromkeys(names, 1e-4))
    return Case(1, 17, Graph((Port("v0", "float32", ("n", size)),), ports, tuple(nodes), {}), (run,))


def test_a_chunk_holds_its_cases(tmp_path):
    cases = [chain("Neg"), chain("Abs", "Relu")]
    write_chunk(tmp_path / "c.gz", cases)
    assert [dump_case(case) for case in read_chunk(tmp_path / "c.gz")] == [dump_case(case) for case in cases]


def test_a_wrong_result_and_an_error_have_their_kinds():
    case = chain("Neg", "Abs")
    assert execute(case, "reference") == Outcome(SAME)
    run = case.runs[0]
    wrong = case._replace(runs=(run._replace(expected={**run.expected, "v2": run.expected["v2"] + 1}),))
    assert execute(wrong, "reference")[::2] == (WRONG, "v2")
    assert execute(case._replace(runs=(run._replace(feeds={}),)), "reference").kind == ERROR


CHILD = """
import json, os, sys, time
print(json.dumps({"version": ""}), flush=True)
for line in sys.stdin:
    for index in range(json.loads(line)["start"], 6):
        print(json.dumps({"begin": index}), flush=True)
        if index == 1:
            sys.stderr.write("a last word")
            sys.stderr.flush()
            os.abort()
        time.sleep(60 if index == 4 else 0)
        print(json.dumps({"index": index, "kind": "same", "detail": "", "output": ""}), flush=True)
    print(json.dumps({"end": True}), flush=True)
"""


def test_the_run_goes_on_after_a_death_and_a_hang(tmp_path, monkeypatch):
    (tmp_path / "child.py").write_text(CHILD, encoding="utf-8")
    monkeypatch.setattr("matrix.fuzz.worker.CASE_SECONDS", 1.0)
    monkeypatch.setattr("matrix.fuzz.worker.PATIENCE", 1)
    with contextlib.closing(Worker(sys.executable, "reference", {}, child=tmp_path / "child.py")) as worker:
        outcomes = [outcome for _, outcome in worker.run(tmp_path / "c.gz", 6)]
    assert [outcome.kind for outcome in outcomes] == [SAME, DIED, SAME, SAME, HUNG, SAME]
    assert "SIGABRT" in outcomes[1].detail
    assert "a last word" in outcomes[1].detail


def test_the_shrinker_finds_the_node_that_fails():
    case = chain("Neg", "Abs", "Relu", "Neg", "Relu", "Abs", size=6)

    def run(candidate: Case) -> Outcome:
        operators = [node.operator for node in candidate.graph.nodes]
        return Outcome(WRONG, "Abs is wrong", "") if "Abs" in operators else Outcome(SAME)

    small = shrink(case, Outcome(WRONG), run)
    assert [node.operator for node in small.graph.nodes] == ["Abs"]
    (feed,) = small.runs[0].feeds.values()
    assert feed.size == 1
    assert execute(small, "reference").kind == SAME, "the oracle has computed the smaller case again"


def test_the_shrinker_keeps_nodes_that_fail_together():
    case = chain("Neg", "Relu", "Abs", "Neg", "Relu")

    def run(candidate: Case) -> Outcome:
        operators = [node.operator for node in candidate.graph.nodes]
        return Outcome(WRONG) if ("Relu", "Abs") in itertools.pairwise(operators) else Outcome(SAME)

    assert [node.operator for node in shrink(case, Outcome(WRONG), run).graph.nodes] == ["Relu", "Abs"]


def test_the_signature_of_an_error_has_its_position():
    errors = [Outcome(ERROR, f"ValueError: {text} (a.py:{line})") for text, line in [("x", 3), ("y", 3), ("x", 4)]]
    assert signature(errors[0]) == signature(errors[1]) != signature(errors[2])
    assert signature(Outcome(WRONG, "a")) == signature(Outcome(WRONG, "b"))


def test_a_failure_is_written_as_a_test_and_counted(tmp_path):
    case = chain("Neg", "Abs")
    write_chunk(tmp_path / "c.gz", [case, chain("Relu")._replace(runs=(case.runs[0]._replace(feeds={}),))])
    counts = Counts()
    with contextlib.closing(Worker(sys.executable, "reference", {})) as worker:
        result = run_chunk(tmp_path / "c.gz", worker, counts)
    assert dict(counts.outcomes) == dict(result.outcomes) == {SAME: 1, ERROR: 1}
    assert result.is_complete
    path = write_failure(TARGET, *result.failures[0], tmp_path / "cases", counts)
    assert path is not None and path.name.startswith("reference-error-")
    assert parse_case(json.loads(path.read_text(encoding="utf-8"))).graph.nodes
    again = write_failure(TARGET, *result.failures[0], tmp_path / "cases", counts)
    assert again is None, "an equal failure is written once"


def test_a_busy_machine_is_no_hang(monkeypatch):
    """A process that gets no processor time is waited for. A process that uses its time up is not."""
    monkeypatch.setattr("matrix.fuzz.worker.PATIENCE", 8)
    for code, is_late in [("import time; time.sleep(1.5); print(1)", False), ("while True: pass", True)]:
        process = LineProcess([sys.executable, "-c", code], dict(os.environ))
        with contextlib.closing(SimpleNamespace(close=process.end)):
            if process.processor_seconds() is None:
                pytest.skip("this system does not tell the processor time")
            with pytest.raises(NoAnswer) if is_late else contextlib.nullcontext():
                assert _receive(process, 0.5) == "1\n"


def test_a_model_declares_the_domains_of_its_nodes():
    graph = Graph((), (Port("y", "float32", None),), (Node("LabelEncoder", ("x",), ("y",), {}, "ai.onnx.ml"),), {})
    assert {(entry.domain, entry.version) for entry in to_model(graph, 20).opset_import} == {
        ("", 20),
        ("ai.onnx.ml", 3),
    }


def test_a_docstring_does_not_change_the_generator():
    codes = [code_without_docstrings(text) for text in (
        'def f():\n    """Say one thing."""\n    return 1  # why\n',
        'def f():\n    """Say another thing."""\n\n    return 1\n',
        "def f():\n    return 2\n",
    )]  # fmt: skip
    assert codes[0] == codes[1] != codes[2]
