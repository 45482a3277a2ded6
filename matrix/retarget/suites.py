"""The row `suites`: the test suites of the version converters of onnx and onnxscript, with ours in their place.

The tests come from the sdist of the installed release, or from a source tree. None of them is stored in the repository.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple
from xml.etree import ElementTree as ET

from matrix.data import ROOT
from matrix.retarget.exceptions import MORE, Exceptions, load_exceptions
from matrix.retarget.outcomes import SHARE_AIM
from matrix.retarget.result import Entry, Result

__all__ = ["SUITES", "Outcome", "judge", "measure", "read_report", "run_suite"]

SECONDS = 900
#: The message and the type that pytest writes for a test that should fail: it passed, or it failed.
_STRICT, _EXPECTED = "[XPASS(strict)]", "pytest.xfail"


class Suite(NamedTuple):
    """A file of tests in a source tree of a project."""

    project: str
    path: str


SUITES = (
    Suite("onnx", "tests/python/version_converter_test.py"),
    Suite("onnx", "tests/python/version_converter/automatic_upgrade_test.py"),
    Suite("onnx", "tests/python/version_converter/automatic_downgrade_test.py"),
    Suite("onnxscript", "onnxscript/version_converter/_version_converter_test.py"),
)


class Outcome(NamedTuple):
    """The outcome of a test: whether it passed, and the first line of the failure."""

    passed: bool
    detail: str = ""


class SourceError(Exception):
    """A suite could not be run: its source tree or file is missing, or pytest wrote no valid report.

    The text says why.
    """


def measure(options: argparse.Namespace) -> Result:
    """Run the suites, and compare the tests that fail with the declared exceptions. Return the counts of the suites.

    A suite that could not be run is a miss.
    """
    result = Result()
    exceptions = load_exceptions()
    with tempfile.TemporaryDirectory() as folder:
        for suite in SUITES:
            name = Path(suite.path).name
            try:
                tree = getattr(options, suite.project) or fetch_sdist(suite.project, Path(folder))
                outcomes = run_suite(tree, suite.path)
            except SourceError as error:
                result.misses.append("%s: not measured: %s" % (name, error))
                continue
            entry, misses = judge(name, outcomes, exceptions)
            result.entries[name] = {"project": suite.project, **entry}
            result.misses += misses
            result.details += [
                {"suite": name, "test": test, "detail": outcome.detail}
                for test, outcome in outcomes.items()
                if not outcome.passed
            ]
            print(
                "%-32s %d of %d pass, %d convert more" % (name, entry["passed"], entry["tests"], entry["more"]),
                flush=True,
            )
    return result


def judge(suite: str, outcomes: Dict[str, Outcome], exceptions: Exceptions) -> Tuple[Entry, List[str]]:
    """Compare the outcomes of a suite with its exceptions. Return its counts of tests, and a text for each miss.

    The misses:

    - a test that fails without an exception
    - an exception whose test does not fail
    - too low a share of tests that pass, or that fail because ours converts more than the suite expects
    """
    declared = exceptions.get(suite, {})
    failed = [test for test, outcome in outcomes.items() if not outcome.passed]
    misses = ["%s: %s fails: %s" % (suite, test, outcomes[test].detail) for test in failed if test not in declared]
    misses += [
        "%s: %s is declared as an exception, and does not fail" % (suite, test)
        for test in declared
        if test not in failed
    ]
    passed = len(outcomes) - len(failed)
    more = sum(test in failed and reason.kind == MORE for test, reason in declared.items())
    if passed + more < SHARE_AIM * len(outcomes) or not outcomes:
        misses.append("%s: %d of %d tests pass, %d convert more" % (suite, passed, len(outcomes), more))
    return {"tests": len(outcomes), "passed": passed, "more": more}, misses


def run_suite(tree: Path, path: str) -> Dict[str, Outcome]:
    """Run a file of tests, with this project in place of the converters. Return `class::test` -> outcome.

    `path`: the path of the file in the source tree `tree`. Raise SourceError if there is no such file, if pytest writes
    no valid report, and if it does not end in `SECONDS`.
    """
    if not (tree / path).exists():
        raise SourceError("there is no %s" % path)
    with tempfile.TemporaryDirectory() as folder:
        # A copy outside of the tree: its packages would replace the installed ones.
        for file in (tree / path).parent.glob("*.py"):
            (Path(folder) / file.name).write_bytes(file.read_bytes())
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "matrix.retarget.suite_plugin", "-p", "no:cacheprovider"]
        command += ["--rootdir=%s" % folder, "--junitxml=%s" % report, str(Path(folder) / Path(path).name)]
        try:
            done = subprocess.run(command, cwd=str(ROOT), capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise SourceError("pytest did not end in %d seconds" % SECONDS) from error
        if not report.exists():
            raise SourceError("pytest ended with exit code %d: %s" % (done.returncode, done.stderr.strip()[-300:]))
        return read_report(report.read_text(encoding="utf-8"))


def read_report(text: str) -> Dict[str, Outcome]:
    """Return `class::test` -> outcome, from the text of a JUnit report.

    A test that the suite marks as an expected failure counts as passed, whether it fails or not. Raise SourceError for
    a text that is no XML: pytest was killed while it wrote.
    """
    outcomes = {}
    try:
        report = ET.fromstring(text)  # noqa: S314 - pytest wrote it
    except ET.ParseError as error:
        raise SourceError("the report of pytest is damaged: %s" % error) from error
    for case in report.iter("testcase"):
        name = "%s::%s" % (str(case.get("classname")).rpartition(".")[2], case.get("name"))
        problems = {kind: case.find(kind) for kind in ("failure", "error", "skipped")}
        texts = [
            "%s: %s" % (kind, node.get("message"))
            for kind, node in problems.items()
            if node is not None and node.get("type") != _EXPECTED
        ]
        text = " ".join(" ".join(texts).split())
        passed = not texts or text.startswith("failure: " + _STRICT)
        outcomes[name] = Outcome(passed, "" if passed else text[:300])
    return outcomes


def fetch_sdist(project: str, folder: Path) -> Path:
    """Download the sdist of the installed release of a project with pip into `folder`, and unpack it there.

    Return the path of the source tree. Raise SourceError if the project is not installed, if pip fails or gives no
    archive, and if the archive cannot be unpacked.
    """
    try:
        version = metadata.version(project)
    except metadata.PackageNotFoundError as error:
        raise SourceError("%s is not installed here; --%s names a source tree" % (project, project)) from error
    tree = folder / ("%s-%s" % (project, version))
    if tree.exists():
        return tree
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:"]
    command += ["--dest=%s" % folder, "%s==%s" % (project, version)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    archives = list(folder.glob("%s-*.tar.gz" % project))
    if done.returncode or not archives:
        lines = (done.stderr.strip() or "no sdist came").splitlines()
        raise SourceError("%s %s could not be downloaded: %s" % (project, version, lines[-1]))
    try:
        with tarfile.open(archives[0]) as archive:
            archive.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise SourceError("%s cannot be unpacked: %s" % (archives[0].name, error)) from error
    return tree
