"""Feeds the cases of the cache to the tests and tallies what becomes of them.

--suite or ONNX_COMPAT_SUITES: which suites; ONNX_COMPAT_SHIM: on which shim; ONNX_COMPAT_CELL: in which cell of the
matrix, for the gaps; ONNX_COMPAT_RESULTS: a file for the results.
"""

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

ROOT = Path(__file__).parents[2]


def _expose(name: str, folder: Path) -> None:
    """Make a package importable without its parent on the path: `onnx_compat` must come from its wheel."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            name, str(folder / "__init__.py"), submodule_search_locations=[str(folder)]
        )
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])


_expose("matrix", ROOT / "matrix")
_expose("harness", Path(__file__).parent / "harness")

from harness import gaps, select, tally  # noqa: E402
from harness.run import FAIL  # noqa: E402

from matrix.suites.cache import read_index  # noqa: E402

_RESULTS: List[tally.Result] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--suite", action="append", default=[], help="a suite of the cache; may be repeated")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every distinct case becomes a test under its exact id."""
    if "chosen" in metafunc.fixturenames:
        try:
            found = select.distinct(_rows(metafunc.config))
        except select.NotFetched as error:
            raise pytest.UsageError(str(error)) from None
        metafunc.parametrize("chosen", found, ids=[chosen.case.id for chosen in found])


@pytest.fixture(scope="session")
def shim() -> str:
    """The name of the shim under test, as the user of a cell would choose it."""
    return os.environ.get("ONNX_COMPAT_SHIM", "reference")


@pytest.fixture(scope="session")
def declared(shim: str) -> List[gaps.Gap]:
    return gaps.load_gaps(ROOT / "tests" / "gaps" / (shim + ".toml"))


@pytest.fixture(scope="session")
def rows(request: pytest.FixtureRequest) -> List[Any]:
    """All rows of the chosen suites, whichever of their tests run."""
    return _rows(request.config)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Of every worker, where there are several: what a test found travels with its report."""
    if report.when == "call":
        _RESULTS.extend(tally.Result(*value) for name, value in report.user_properties if name == "conformance")
    elif report.when == "???" and "test_suites.py::test_case[" in report.nodeid:  # what its worker ran when it died
        case = report.nodeid.partition("[")[2][:-1]
        _RESULTS.append(tally.Result(case, FAIL, str(report.longrepr).splitlines()[0], 0.0))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _RESULTS:
        terminalreporter.section("conformance: %s" % _about()["shim"])
        for line in tally.table(_RESULTS):
            terminalreporter.line(line)


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = os.environ.get("ONNX_COMPAT_RESULTS")
    if path and _RESULTS and not hasattr(session.config, "workerinput"):
        tally.write(Path(path), _RESULTS, _about())


def _rows(config: pytest.Config) -> List[Any]:
    told = config.getoption("suite", [])  # the option is known when this folder was named on the command line
    return select.choose(" ".join(told) or os.environ.get("ONNX_COMPAT_SUITES", ""), read_index)


def _about() -> Dict[str, str]:
    return {
        "shim": os.environ.get("ONNX_COMPAT_SHIM", "reference"),
        "cell": os.environ.get("ONNX_COMPAT_CELL", ""),
        "python": "%d.%d" % sys.version_info[:2],
    }
