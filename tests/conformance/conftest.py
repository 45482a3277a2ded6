"""Run the cases of the cache as tests, and count their outcomes.

- --suite or ONNX_COMPAT_SUITES: the suites
- --releases or ONNX_COMPAT_RELEASES: `all`, or `newest` of each suite
- --sample: fewer cases of older releases, networks and variants (matrix/harness/select.py), as the gate runs them
- --variant or ONNX_COMPAT_VARIANTS: the variants (matrix/harness/variants.py)
- ONNX_COMPAT_SHIM: the shim under test
- ONNX_COMPAT_CELL: the cell of the matrix, for the results
- ONNX_COMPAT_RESULTS: the file for the results
"""

import os
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

import pytest

from matrix.harness import gaps, select, tally, variants
from matrix.suites.cache import read_index
from onnx_compat.discovery.selection import find
from onnx_compat.errors import UnsupportedError
from onnx_compat.ops.registry import lookup

ROOT = Path(__file__).parents[2]
CASE_SECONDS = 120
# The derivatives by the rules of the core are compared on the reference only.
collect_ignore = [] if os.environ.get("ONNX_COMPAT_SHIM", "reference") == "reference" else ["test_derivatives.py"]

_START = time.time()
_RESULTS: List[tally.Result] = []
_DIED: Dict[str, str] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--suite", action="append", default=[], help="a suite of the cache; may be repeated")
    parser.addoption("--releases", choices=("all", "newest"), help="the cases of all releases, or of the newest one")
    parser.addoption("--sample", action="store_true", help="fewer older releases, networks and variants")
    parser.addoption("--variant", action="append", default=[], help="a way to run the cases; may be repeated")


def pytest_collection_modifyitems(config: pytest.Config, items: List[Any]) -> None:
    """Give each case a time limit of CASE_SECONDS.

    A case that hangs then fails by name, and pytest-xdist starts a new worker.
    """
    if config.pluginmanager.hasplugin("timeout"):
        for item in items:
            if "chosen" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.timeout(CASE_SECONDS))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise the test with every distinct case; its id is the id of the case."""
    if "chosen" in metafunc.fixturenames:
        try:
            cases = _chosen(metafunc.config)
        except (select.NotFetched, ValueError) as error:
            raise pytest.UsageError(str(error)) from None
        metafunc.parametrize("chosen", cases, ids=[chosen.names[0] for chosen in cases])


@pytest.fixture(scope="session")
def shim() -> str:
    """Return the name of the shim under test."""
    return os.environ.get("ONNX_COMPAT_SHIM", "reference")


@pytest.fixture(scope="session")
def declared_gaps(shim: str) -> List[gaps.Gap]:
    folder = ROOT / "tests" / "gaps"
    declared = gaps.load_gaps(folder / "recorded.toml") + gaps.load_gaps(folder / (shim + ".toml"))
    return [gap for gap in declared if shim not in gap.except_on]


@pytest.fixture(scope="session")
def rows(request: pytest.FixtureRequest) -> List[Any]:
    """Return the rows of the chosen suites, of all releases."""
    return select.choose(_suites(request.config), read_index)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect the results in the main process. With pytest-xdist, the result of a test is sent with its report."""
    if report.when == "call":
        _RESULTS.extend(tally.Result(*value) for name, value in report.user_properties if name == "conformance")
    elif report.when == "???" and "test_suites.py::test_case[" in report.nodeid:  # the case that ended its worker
        _DIED[report.nodeid.partition("[")[2][:-1]] = str(report.longrepr).splitlines()[0]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _RESULTS:
        terminalreporter.section("conformance: %s" % _about()["shim"])
        for line in tally.table(_RESULTS):
            terminalreporter.line(line)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _DIED:  # a case that ended its worker has reported no result
        _RESULTS.extend(tally.make_crash_results(_DIED, _chosen(session.config)))
    path = os.environ.get("ONNX_COMPAT_RESULTS")
    if path and _RESULTS and not hasattr(session.config, "workerinput"):
        about = {**_about(), **_state(session.config), "seconds": round(time.time() - _START)}
        tally.write(Path(path), _RESULTS, {**about, "natives": _natives(about["shim"])})


def _state(config: pytest.Config) -> Dict[str, Any]:
    """Return the state of the run for the results file: whether all tests ran.

    pytest-xdist stops early if its workers crash again and again.
    """
    watch: Any = config.pluginmanager.get_plugin("watch")
    if not watch.missing:
        return {"state": "ran"}
    return {"state": "broken", "reason": "%d of %d tests did not run" % (watch.missing, watch.total)}


def _chosen(config: pytest.Config) -> List[select.Chosen]:
    names = config.getoption("variant", []) or [os.environ.get("ONNX_COMPAT_VARIANTS", "")]
    chosen = select.distinct(_rows(config), variants.choose_variants(" ".join(names)))
    if not config.getoption("sample", False):
        return chosen
    return select.sample(chosen, _operator_versions, lambda: set(_natives(_about()["shim"])))


def _operator_versions(case: Any) -> List[str]:
    """Return the operators of a case, each with the opset in which its meaning begins: `Conv-11`."""
    versions = []
    for operator in case.operators:
        domain, _, name = operator.rpartition("::")
        opset = case.opset.get(domain, 1)
        try:
            versions.append("%s-%d" % (operator, lookup(domain, name, opset).since))
        except UnsupportedError:  # a function of the model, or an operator without a meaning
            versions.append("%s-%d" % (operator, opset))
    return versions


def _rows(config: pytest.Config) -> List[Any]:
    releases = config.getoption("releases", None) or os.environ.get("ONNX_COMPAT_RELEASES", "all")
    return select.choose(_suites(config), read_index, releases == "newest")


def _suites(config: pytest.Config) -> str:
    names = config.getoption("suite", [])  # the option is known when this folder was named on the command line
    return " ".join(names) or os.environ.get("ONNX_COMPAT_SUITES", "")


def _natives(shim: str) -> List[str]:
    """Return the operators for which the shim has a native method, as `domain::name`."""
    with find(shim).scratch() as emitter:
        return sorted("%s::%s" % key if key[0] else key[1] for key in emitter.natives())


def _about() -> Dict[str, str]:
    return {
        "shim": os.environ.get("ONNX_COMPAT_SHIM", "reference"),
        "cell": os.environ.get("ONNX_COMPAT_CELL", ""),
        "python": "%d.%d" % sys.version_info[:2],
        "revision": os.environ.get("ONNX_COMPAT_REVISION", ""),
    }
