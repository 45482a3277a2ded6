"""The harness in a separate pytest run, on operators that abort the process or hang, as a framework may."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from matrix.cells import XDIST_OPTIONS
from matrix.data import ROOT
from matrix.run.progress import Progress
from matrix.suites import cache

# It takes half a minute on an idle machine.
pytestmark = pytest.mark.timeout(900)

GOOD = 8
LIMIT = 2
# More than 4, the default number of restarts of a worker.
BAD = {"hangs": "Hangs", "holds": "Holds", **{f"aborts_{k}": "Aborts" for k in range(3)}}
# Holds: it sleeps while it holds the interpreter's lock, as a kernel that never releases it.
PLUGIN = """
import ctypes, os, time
import onnx_compat, pytest

@onnx_compat.op("Aborts", since=1, domain="bad")
def aborts(x):
    os.abort()

@onnx_compat.op("Hangs", since=1, domain="bad")
def hangs(x):
    time.sleep(600)

@onnx_compat.op("Holds", since=1, domain="bad")
def holds(x):
    ctypes.PyDLL(None).sleep(600)

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    for item in items:
        if "good" not in item.nodeid:
            item.add_marker(pytest.mark.timeout(LIMIT))
    for plugin in config.pluginmanager.get_plugins():
        if hasattr(plugin, "GRACE"):
            plugin.GRACE = 1.0
"""


def _case(name: str, operator: str, number: float) -> cache.Case:
    infos = [helper.make_tensor_value_info(side, TensorProto.FLOAT, [1]) for side in "xy"]
    node = helper.make_node(operator, ["x"], ["y"], domain="bad" if operator in BAD.values() else "")
    graph = helper.make_graph([node], "g", infos[:1], infos[1:])
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("bad", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    data = numpy_helper.from_array(np.array([number], np.float32)).SerializeToString()
    return cache.write_case("node", "1", name, model, [([data], [data])], {})


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("harness")
    (folder / "bad_operators.py").write_text(PLUGIN.replace("LIMIT", str(LIMIT)), encoding="utf-8")
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("ONNX_COMPAT", "PYTEST"))},
        "ONNX_COMPAT_SHIM": "reference",
        "ONNX_COMPAT_CACHE": str(folder / "cache"),
        "ONNX_COMPAT_RESULTS": str(folder / "results.json"),
        "ONNX_COMPAT_PROGRESS": str(folder / "progress"),
        "PYTEST_XDIST_AUTO_NUM_WORKERS": "1",
        "PYTHONPATH": os.pathsep.join(paths),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONNX_COMPAT_CACHE", env["ONNX_COMPAT_CACHE"])
        good = [_case(f"good_{k}", "Abs", k + 1.0) for k in range(GOOD)]
        cache.write_index("node", [*good, *(_case(name, BAD[name], k) for k, name in enumerate(BAD))])
    command = [
        shutil.which("pytest", path=os.path.dirname(sys.executable)) or "pytest",
        "tests/conformance/test_suites.py",
    ]
    command += ["-p", "bad_operators", "-p", "no:cacheprovider", "--suite=node", "-k", "test_case", *XDIST_OPTIONS]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    tests = Progress(folder / "progress")
    tests.read()
    return {"tests": tests, "results": json.loads((folder / "results.json").read_text(encoding="utf-8"))}


def test_each_failure_has_a_name_and_a_reason(ran: dict[str, Any]) -> None:
    outcomes = {result["id"].rpartition("/")[2]: result for result in ran["results"]["results"]}
    for name in BAD:
        assert outcomes[name]["outcome"] == "fail"
        seconds = int(re.fullmatch(r"its process ended after (\d+) s: .*", outcomes[name]["detail"])[1])
        assert seconds >= LIMIT or name.startswith("aborts")


def test_the_other_tests_run_to_their_end(ran: dict[str, Any]) -> None:
    assert ran["results"]["counts"] == {"node/1": {"pass": GOOD, "fallback": 0, "gap": 0, "fail": len(BAD)}}
    assert ran["results"]["state"] == "ran"


def test_the_report_of_a_worker_equals_that_of_one_process(ran: dict[str, Any]) -> None:
    tests = ran["tests"]
    assert (tests.total, tests.cases, tests.missing) == (GOOD + len(BAD), GOOD + len(BAD), 0)
    assert sorted(id.partition("[")[2] for id in tests.failures) == [f"node/1/{name}]" for name in sorted(BAD)]
    assert all(reason.startswith("its process ended after") for reason in tests.failures.values())
