"""Every check and every environment of the project; `nox -l` is the menu, matrix/matrix.toml the data behind it.

nox -s core                        the core, on this Python: what a change needs first
nox -s "cell(tf2-2.21.0-py313)"    one real environment: the built wheels at exact pins
nox -t gate                        the cells that every change must pass; also `-t tf2`, `-t nightly`
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))

from matrix.data import REFERENCE, Cell, Environment, load
from matrix.interpreters import find, folders
from matrix.links import tell_uv
from matrix.results import fallen, stored
from matrix.revision import revision
from matrix.stamp import Stamp

MATRIX = load()
CELLS = list(MATRIX.cells.values())
DIST = ROOT / "dist"
TEST_SECONDS = 300
# A framework may abort the process, or hang where no signal arrives: in a worker, that is one failed test with a name.
APART = ["--numprocesses=auto", "--timeout-method=thread", "--tb=short"]

nox.needs_version = ">=2026.10"
nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "floor", "drift", "core"]
# A Python that is not there is a failure with its name: a skipped cell looks like a passed one.
nox.options.error_on_missing_interpreters = True
nox.options.download_python = "never"

os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), *folders()])
tell_uv()


def _wheels(shim: str) -> list[str]:
    """What to install for a shim: the built wheels, also where an older build of the same version is installed."""
    ours = MATRIX.closure(shim)
    again = [f"--reinstall-package={each.name}" for each in ours]
    return [*again, *(str(DIST / f"{each.package}-{MATRIX.version}-py3-none-any.whl") for each in ours)]


@nox.session(default=False)
def wheels(session: nox.Session) -> None:
    """Build the wheels of all distributions into dist/."""
    for distribution in MATRIX.distributions.values():
        session.run("uv", "build", "--quiet", "--wheel", "--out-dir", str(DIST), str(distribution.root))


@nox.session(default=False)
def suites(session: nox.Session) -> None:
    """Fetch the recorded test vectors into the cache that all cells read, once."""
    stamp = Stamp("suites", "suites", MATRIX.suites, MATRIX.releases)
    if stamp.fresh():
        session.log(f"fetched before; delete {stamp.path} to fetch again")
        return
    session.install("pip", MATRIX.newest_onnx, *MATRIX.tools["oracle"])
    releases = [f"--onnx={release}={opset}" for release, opset in MATRIX.releases.items()]
    session.run("python", "-m", "matrix.suites", "fetch", *MATRIX.suites, *releases)
    stamp.write()


@nox.session(default=False, python="3.11")
def zoo(session: nox.Session) -> None:
    """Export the zoo of models with torch into the cache that all cells read, once."""
    _zoo(session, "small")


@nox.session(default=False, python="3.11", name="zoo-full")
def zoo_full(session: nox.Session) -> None:
    """The large models too, which the benchmarks measure."""
    _zoo(session, "full")


def _zoo(session: nox.Session, size: str) -> None:
    stamp = Stamp(session.name, "zoo", size, MATRIX.tools["zoo"])
    if stamp.fresh():
        session.log(f"exported before; delete {stamp.path} to export again")
        return
    session.install(*MATRIX.tools["zoo"])
    session.run("python", "-m", "matrix.zoo", "generate", "--size", size)
    stamp.write()


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff: rules and format."""
    session.install(*MATRIX.tools["lint"])
    session.run("ruff", "check", *session.posargs, ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Mypy, strict, on every package."""
    session.install(*MATRIX.tools["types"])
    packages = [f"--package={each.package}" for each in MATRIX.distributions.values()]
    session.run("mypy", *packages, "--package=matrix", "--package=benchmarks")
    session.run("mypy", "noxfile.py")


@nox.session
def floor(session: nox.Session) -> None:
    """Vermin: no package needs a newer Python than its oldest cell has."""
    session.install(*MATRIX.tools["floor"])
    for distribution in MATRIX.distributions.values():
        oldest = MATRIX.floor(distribution)
        package = distribution.root / distribution.package
        session.run("vermin", "--quiet", f"--target={oldest}-", "--violations", "--no-tips", str(package))


@nox.session
def drift(session: nox.Session) -> None:
    """What follows from matrix.toml still follows from it."""
    session.install("packaging", "tomli", "numpy")
    session.run("python", "-m", "matrix", "check")


@nox.session(requires=["wheels", "suites"])
def core(session: nox.Session) -> None:
    """The core, the matrix and the benchmarks themselves, on the Python that runs nox."""
    session.install(*_wheels(REFERENCE), MATRIX.newest_onnx, *MATRIX.tools["test"], *MATRIX.tools["oracle"], "tomli")
    tests = ["tests/core", "tests/matrix", "tests/benchmarks", "tests/conformance"]
    _pytest(session, tests, REFERENCE, {"ONNX_COMPAT_SUITES": " ".join(MATRIX.suites)})


@nox.session(requires=["wheels", "suites", "zoo"], default=False)
@nox.parametrize(["python", "cell"], [nox.param(cell.python, cell, id=cell.id, tags=cell.tags) for cell in CELLS])
def cell(session: nox.Session, cell: Cell) -> None:
    """One real environment: the wheels, at exact pins, through the tests of their shim."""
    session.install("--exact", *_wheels(cell.shim), "--requirement", str(cell.constraints))
    tests = ["tests/shims", "tests/conformance", *(["tests/core"] if cell.shim == REFERENCE else [])]
    results = ROOT / "results" / f"{cell.id}.json"
    here = {
        "ONNX_COMPAT_CELL": cell.id,
        "ONNX_COMPAT_CONSTRAINTS": str(cell.constraints),
        # Named, so that one that is not in the cache is an error.
        "ONNX_COMPAT_SUITES": " ".join([*MATRIX.suites, *MATRIX.suites_generated]),
        "ONNX_COMPAT_RELEASES": cell.releases,
        "ONNX_COMPAT_VARIANTS": " ".join(cell.variants),
        "ONNX_COMPAT_RESULTS": str(results),
        "ONNX_COMPAT_REVISION": revision(),
    }
    _pytest(session, tests, cell.shim, {**cell.env, **here}, *APART)
    before = stored().get(cell.id)
    if before and not session.posargs:
        worse = fallen(json.loads(results.read_text(encoding="utf-8")), before)
        if worse:
            session.error("\n".join(["worse than matrix/results has it:", *worse]))


def _pytest(session: nox.Session, tests: list[str], shim: str, env: dict[str, str], *options: str) -> None:
    """Run these tests, or those that the command line names; never as `python -m pytest`, which imports the source tree."""
    named = any(Path(argument.partition("::")[0]).exists() for argument in session.posargs)
    told = [f"--timeout={TEST_SECONDS}", *options, *([] if named else tests), *session.posargs]
    session.run("pytest", *told, env={"ONNX_COMPAT_SHIM": shim, "TF_CPP_MIN_LOG_LEVEL": "2", **env})


@nox.session(default=False, venv_backend="none")
def matrix(session: nox.Session) -> None:
    """All cells of this machine's runner, one after the other; a failing cell does not stop the next."""
    for each in CELLS:
        if each.runner == "cpu":
            session.notify(f"cell({each.id})")


@nox.session(requires=["wheels"], default=False, venv_backend="venv", reuse_venv=False)
def e2e(session: nox.Session) -> None:
    """What a user does: install by name with pip into an empty environment, then convert, run and verify."""
    ours = f"onnx-compat[tflite,onnxruntime]=={MATRIX.version}"
    session.install("--find-links", str(DIST), ours, *MATRIX.tools["test"])
    session.run("pytest", "tests/e2e", *session.posargs)


@nox.session(requires=["wheels", "zoo", "zoo-full"], default=False)
def bench(session: nox.Session) -> None:
    """Measure conversion and latency beside the peers, each in an environment of its own."""
    pythons = {each.id: _environment(session, each, *_wheels(each.shim)) for each in MATRIX.benched}
    pythons.update((each.id, _environment(session, each)) for each in MATRIX.peers.values())
    session.run(
        "python", "-m", "benchmarks", *(f"--python={id_}={path}" for id_, path in pythons.items()), *session.posargs
    )


def _environment(session: nox.Session, environment: Environment, *wheels: str) -> str:
    """An environment beside the session's own, at its pins; gives its interpreter."""
    folder = Path(session.cache_dir).resolve() / "environments" / environment.id
    python = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    session.run("uv", "venv", "--quiet", "--allow-existing", f"--python={find(environment.python)}", str(folder))
    pins = f"--requirement={environment.constraints}"
    session.run("uv", "pip", "install", "--quiet", "--exact", f"--python={python}", pins, *wheels)
    return python
