"""The fuzzer of damaged inputs: its changes keep what they promise, and a campaign counts and stores what fails."""

import contextlib
import json
import random
import sys
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_compat
from matrix.fuzz.damage import campaign
from matrix.fuzz.damage.campaign import has_failures, run_campaign
from matrix.fuzz.damage.corruption import corrupt, corrupt_archive
from matrix.fuzz.damage.coverage import Coverage
from matrix.fuzz.damage.kinds import KINDS
from matrix.fuzz.damage.model_changes import change_case, join_case, split_case
from matrix.fuzz.damage.open_values import has_open_values
from matrix.fuzz.damage.outcomes import BROKEN, RAN, UNFORESEEN, UNTYPED, Broken, judge
from matrix.fuzz.execution import DIED, HUNG, REFUSED
from matrix.fuzz.worker import Worker
from onnx_compat.errors import InvalidModelError, UnexpectedError

TARGET = (sys.executable, "reference", {})


def case(operator="Reshape"):
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])]
    ports.append(helper.make_tensor_value_info("s", TensorProto.INT64, [1]))
    node = helper.make_node(operator, ["x", "s"], ["y"])
    graph = helper.make_graph([node], "g", ports, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    inputs = [numpy_helper.from_array(array) for array in (np.ones((2, 3), np.float32), np.array([6]))]
    return join_case(model.SerializeToString(), [entry.SerializeToString() for entry in inputs])


def chance(seed):
    return random.Random(seed)  # noqa: S311 (no secret: a seed gives an input)


def test_changed_models_stay_readable_and_differ():
    cases = [case(), case("Expand")]
    changed = {change_case(chance(seed), cases[seed % 2], cases) for seed in range(300)}
    assert len(changed) > 150
    for entry in changed:
        model, _ = split_case(entry)
        assert onnx.ModelProto.FromString(model).graph.node
    assert change_case(chance(7), cases[0], cases) == change_case(chance(7), cases[0], cases)


def test_changed_bytes_and_archives(tmp_path):
    np.savez(str(tmp_path / "a.npz"), x=np.arange(3))
    data = (tmp_path / "a.npz").read_bytes()
    assert len({corrupt(chance(seed), data, [data]) for seed in range(100)}) > 80
    readable = 0
    for seed in range(100):
        (tmp_path / "b.npz").write_bytes(corrupt_archive(chance(seed), data, [data]))
        readable += zipfile.is_zipfile(str(tmp_path / "b.npz"))
    assert readable > 50


def raise_(error):
    raise error


def test_outcomes_of_errors():
    assert judge(lambda: None).kind == RAN
    assert judge(lambda: raise_(InvalidModelError("x"))).kind == REFUSED
    assert judge(lambda: raise_(UnexpectedError("x"))).kind == UNFORESEEN
    assert judge(lambda: raise_(ValueError("x"))).kind == UNTYPED
    assert judge(lambda: raise_(Broken(BROKEN, "x"))).kind == BROKEN


def test_a_line_counts_once():
    """On a Python without sys.monitoring, no line counts."""
    coverage = Coverage()
    coverage.restart()
    judge(lambda: None)
    coverage.take()
    judge(lambda: None)
    assert coverage.take() == 0


def test_a_campaign_counts(tmp_path):
    notes = {}
    counts = run_campaign(*TARGET, "arrays", 3, tmp_path, 60, note=notes.__setitem__)
    assert sum(counts.values()) == 100 and not has_failures(counts), counts
    assert sorted(notes) == [3, 4] and notes[3] + notes[4] == counts
    assert list(tmp_path.glob("current*")) == []


CHILD = """
import json, os, sys, time
print(json.dumps({"python": ""}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    plan = json.load(open(request["path"]))
    for batch in range(request["start"], 4):
        open(plan["folder"] + "/current.onnx", "w").write("input %d" % batch)
        print(json.dumps({"begin": batch}), flush=True)
        if batch == 1:
            os.abort()
        if batch == 2:
            time.sleep(60)
        counts = json.dumps({"ran": 3})
        print(json.dumps({"index": batch, "kind": "counts", "detail": counts, "output": ""}), flush=True)
    print(json.dumps({"end": True}), flush=True)
"""


def test_the_input_of_a_death_and_of_a_hang_is_stored(tmp_path, monkeypatch):
    (tmp_path / "child").mkdir()
    (tmp_path / "child" / "__main__.py").write_text(CHILD, encoding="utf-8")
    monkeypatch.setattr(campaign, "CHILD", tmp_path / "child")
    monkeypatch.setattr("matrix.fuzz.worker.FIRST_SECONDS", 3)
    monkeypatch.setattr("matrix.fuzz.worker.PATIENCE", 1)
    counts = run_campaign(*TARGET, "load", 0, tmp_path / "out", 200)
    assert has_failures(counts) and (counts[DIED], counts[HUNG]) == (1, 1)
    stored = sorted((tmp_path / "out").glob("*.onnx"))
    assert [path.read_text() for path in stored] == ["input 1", "input 2"]
    assert "SIGABRT" in stored[0].with_name(stored[0].name + ".txt").read_text()


def outcomes_of_plan(worker, folder, **changes):
    """Return the counts of each batch of a plan of the kind `arrays`, run by a worker of the child process."""
    plan = {"kind": "arrays", "count": 1, "batch": 5, "every": 1, "replay": [], **changes}
    plan.update(folder=str(folder), corpus=str(folder / "corpus.zip"))
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    return [json.loads(outcome.detail) for _, outcome in worker.run(folder / "plan.json", plan["count"])]


def test_a_process_reads_stored_inputs_and_damages_others(tmp_path):
    """A request without a corpus is no reason that a later request has none."""
    np.savez(str(tmp_path / "good.npz"), x=np.arange(3))
    (tmp_path / "bad.npz").write_bytes(b"PK")
    stored = [str(tmp_path / name) for name in ("good.npz", "bad.npz")]
    with contextlib.closing(Worker(*TARGET, None, campaign.CHILD)) as worker:
        assert outcomes_of_plan(worker, tmp_path, replay=stored, count=2) == [{RAN: 1}, {REFUSED: 1}]
        (counts,) = outcomes_of_plan(worker, tmp_path)
        assert sum(counts.values()) == 5
        assert outcomes_of_plan(worker, tmp_path, replay=stored[:1]) == [{RAN: 1}]


def test_every_nth_case_is_a_part_of_all_cases():
    for name in ("run", "load"):
        few, more = (list(KINDS[name].corpus("reference", every)) for every in (200, 100))
        assert 1 < len(few) < len(more)
        assert set(few) <= set(more)


@pytest.mark.parametrize(
    ("operator", "attributes", "numbers", "is_open"),
    [
        ("Cast", {"to": TensorProto.UINT8}, [0, 255.5, 3], False),
        ("Cast", {"to": TensorProto.UINT8}, [0, -9, 3], True),
        ("Cast", {"to": TensorProto.INT64}, [0, np.nan, 3], True),
        ("Sigmoid", {}, [-1e9, 0, 3], False),
        ("Sigmoid", {}, [-1e30, 0, 3], True),
        ("Neg", {}, [-np.inf, 0, 3], True),
        ("Log", {}, [0, 1, 2], True),
    ],
)
def test_a_result_that_is_uncertain_in_a_file_is_not_compared(operator, attributes, numbers, is_open):
    node = helper.make_node(operator, ["x"], ["y"], **attributes)
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])]
    graph = helper.make_graph([node], "g", ports, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    feeds = {"x": np.array(numbers, np.float32)}
    assert has_open_values(lambda: onnx_compat.run(model, feeds, shim="reference")) is is_open
