"""Sessions of nox: every check and every environment of the project.

`nox -l` lists them; matrix/matrix.toml holds their data.

- nox                                the checks that a change needs first; `-t check` selects the same
- nox -s "cell(tf2-2.21.0-py313)"    the tests of a cell: the built wheels at exact pins
- nox -t gate                        a cell for each shim, which every change must pass; also `-t tf2`, `-t nightly`, `-t gpu`
- nox -t gate merge                  all cells that the CI service runs for a change
- nox -s e2e | release | bench       install as a user does; build the release; measure speed
- nox -s mutation -- MODULE …        mutants that no test of the core kills; without MODULE, of nine modules
- nox -s coverage                    the branches of the core that tests/core takes
- nox -s against -- REV              conversion, memory and import beside another revision
- nox -s real                        convert and measure trained networks from published packages
- nox -s simplify                    compare simplified models with those of onnxsim, onnxslim and onnxruntime
- nox -s retarget -- --row NAME      measure models at other opsets, beside other converters
- nox -s fuzz -- --minutes N         compare shims with onnxruntime on random graphs
- nox -s branches -- tf2-8           install a branch as a user does; without a name, all branches
- nox -s suites zoo                  fill the cache of cases; sessions that need the cases do it themselves
- nox -s "peer(onnxruntime)"         run another project on the same cases; `-t peer` selects all
- nox -s matrix                      run all cells that are not done, with a display of their progress
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))

from matrix import cells, devices, stamp
from matrix.cell_lock import CellBusy, CellLock, end_with_parent
from matrix.data import REFERENCE, Cell, Environment, Peer, load
from matrix.interpreters import find, folders
from matrix.links import set_uv_find_links
from matrix.revision import revision
from matrix.selection import Mixed, load_mixed

MATRIX = load()
CELLS = list(MATRIX.cells.values())

nox.needs_version = ">=2026.10"
nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "floor", "drift", "docs", "core"]
# A missing Python is a failure that names the Python, because a skipped cell would look like a passed one.
nox.options.error_on_missing_interpreters = True
nox.options.download_python = "never"

# matrix.run and .ci/run build the wheels once, before they start several nox at once.
PREPARED = "ONNX_COMPAT_PREPARED" in os.environ
if PREPARED:
    end_with_parent()
os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), *folders()])
set_uv_find_links()


@nox.session(tags=["check"])
def lint(session: nox.Session) -> None:
    """Run ruff (rules and format), the style check of names and docstrings, and the checks of the CI workflows."""
    session.install(*MATRIX.tools["lint"])
    session.run("ruff", "check", *session.posargs, ".")
    session.run("ruff", "format", "--check", ".")
    session.run("python", "-m", "matrix.style")
    workflows = sorted(map(str, Path(".github/workflows").glob("*.yml")))
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)
    session.run("zizmor", "--quiet", "--offline", ".github")


@nox.session(tags=["check"])
def types(session: nox.Session) -> None:
    """Run mypy in strict mode on every package, on matrix, on benchmarks and on noxfile.py."""
    session.install(*MATRIX.tools["types"], *MATRIX.tools["nox"], *MATRIX.tools["run"])
    packages = [f"--package={distribution.package}" for distribution in MATRIX.distributions.values()]
    session.run("mypy", *packages, "--package=matrix", "--package=benchmarks")
    session.run("mypy", "noxfile.py", "toxfile.py")


@nox.session(tags=["check"])
def floor(session: nox.Session) -> None:
    """Run vermin: no package may use a feature of Python that the oldest Python of its cells lacks."""
    session.install(*MATRIX.tools["floor"])
    for distribution in MATRIX.distributions.values():
        oldest = MATRIX.floor(distribution)
        package = distribution.root / distribution.package
        session.run("vermin", "--quiet", f"--target={oldest}-", "--violations", "--no-tips", str(package))


@nox.session(tags=["check"])
def drift(session: nox.Session) -> None:
    """Check that every rendered file and every lock file follows from matrix.toml."""
    session.install("packaging", "tomli", "numpy", "click")
    session.run("python", "-m", "matrix", "check")


@nox.session(tags=["check"])
def docs(session: nox.Session) -> None:
    """Build the site of the documentation into results/docs, and check its links.

    A dead link, a page without a link to it, and a resource of another host are failures.
    """
    session.install(*MATRIX.tools["docs"])
    session.run("mkdocs", "build", "--strict", "--clean", *session.posargs, env={"NO_MKDOCS_2_WARNING": "1"})
    session.run("python", "-m", "matrix.site", "results/docs")


@nox.session(requires=[] if PREPARED else ["wheels", "suites"], tags=["check"])
def core(session: nox.Session) -> None:
    """Test the core, the matrix and the benchmarks on the Python that runs nox."""
    groups = ("test", "oracle", "nox", "build", "pages")
    tools = [MATRIX.newest_onnx, "tomli", "pip", *(tool for group in groups for tool in MATRIX.tools[group])]
    session.install(*cells.wheels(MATRIX, REFERENCE), *tools)
    tests = ["tests/core", "tests/matrix", "tests/benchmarks", "tests/conformance", "tests/fuzz"]
    env = {"ONNX_COMPAT_SHIM": REFERENCE, "ONNX_COMPAT_SUITES": " ".join(MATRIX.suites)}
    # Never as `python -m pytest`, which imports the source tree instead of the wheels.
    session.run("pytest", *cells.pytest_arguments(tests, session.posargs), env=env)


@nox.session(requires=["wheels"], default=False, python=MATRIX.ci.python)
def mutation(session: nox.Session) -> None:
    """Mutation testing: change the code of core modules, one mutant at a time.

    Tests must fail for at least 85 % of them.
    """
    tools = [MATRIX.newest_onnx, "tomli", *MATRIX.tools["mutation"], *MATRIX.tools["oracle"]]
    session.install(*cells.wheels(MATRIX, REFERENCE), *tools)
    # As a module, which imports the source tree instead of the wheels: survivors are printed with the lines of the tree.
    session.run("python", "-m", "matrix.mutation", *session.posargs, env={"ONNX_COMPAT_SHIM": REFERENCE})


@nox.session(requires=["wheels"], default=False, python=MATRIX.ci.python)
def coverage(session: nox.Session) -> None:
    """Measure which branches of the core tests/core takes. Fail below 92 %, and print the modules that lack most."""
    groups = ("coverage", "oracle", "nox", "build", "pages")
    tools = [MATRIX.newest_onnx, "tomli", "pip", *(tool for group in groups for tool in MATRIX.tools[group])]
    session.install(*cells.wheels(MATRIX, REFERENCE), *tools)
    # As a module, which imports the source tree instead of the wheels: the report names its paths.
    arguments = ["-m", "matrix.branch_coverage", "--numprocesses=auto", *session.posargs]
    session.run("python", *arguments, env={"ONNX_COMPAT_SHIM": REFERENCE})


@nox.session(requires=[] if PREPARED else ["wheels"], default=False, venv_backend="venv", reuse_venv=False)
def e2e(session: nox.Session) -> None:
    """Install the wheels by name with pip into an empty environment.

    Then convert, run and verify a model, as a user does, and run the install commands of the documentation.
    """
    ours = f"onnx-compat[tflite,onnxruntime]=={MATRIX.version}"
    session.install("--find-links", str(cells.DIST), ours, *MATRIX.tools["test"], *MATRIX.tools["build"])
    session.run("pytest", "tests/e2e", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def branches(session: nox.Session) -> None:
    """Install branches by name as a user does, use each, and check that pip refuses it on other Pythons. Default: all."""
    session.install("packaging", "tomli")
    session.run("python", "-m", "matrix.trial", str(cells.DIST), *session.posargs)


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """Build the release into dist/release, twice; compare both builds, check and install the files, and write the notes."""
    session.install(*MATRIX.tools["build"], *MATRIX.tools["release"])
    session.run("python", "-m", "matrix.release", *session.posargs)


@nox.session(requires=["wheels"], default=False, venv_backend="uv")
def selection(session: nox.Session) -> None:
    """Test which shim is selected, and the report of `doctor`, with several frameworks, with none, and with broken ones."""
    session.install(*MATRIX.tools["test"])
    pythons = {environment.name: _make_mixed(session, environment) for environment in load_mixed(MATRIX)}
    tests = (
        [] if any(Path(argument.partition("::")[0]).exists() for argument in session.posargs) else ["tests/selection"]
    )
    # A test may wait for several imports of TensorFlow in sequence.
    session.run(
        "pytest", "--timeout=1200", *tests, *session.posargs, env={"ONNX_COMPAT_SELECTION": json.dumps(pythons)}
    )


def _make_mixed(session: nox.Session, environment: Mixed) -> str:
    """Create an environment with the pins of several cells. Return the path of its interpreter."""
    python = _venv(session, f"selection-{environment.name}", environment.python)
    into = ["uv", "pip", "install", "--quiet", f"--python={python}"]
    ours = [argument for shim in environment.shims or [REFERENCE] for argument in cells.wheels(MATRIX, shim)]
    session.run(*into, "--exact", *(f"--requirement={pins}" for pins in environment.pins), *dict.fromkeys(ours))
    if environment.over:
        session.run(*into, "--no-deps", *environment.over)
    return python


@nox.session(default=False)
def scoreboard(session: nox.Session) -> None:
    """Write the scoreboard into results/scoreboard, and test it in Chromium, which must be installed."""
    session.install(*MATRIX.tools["scoreboard"])
    session.run("python", "-m", "matrix", "scoreboard", *session.posargs)
    session.run("pytest", "--timeout=120", "tests/scoreboard")


@nox.session(requires=["wheels", "zoo", "zoo-full"], default=False)
def bench(session: nox.Session) -> None:
    """Measure conversion and latency of this project and of the peers, each in an environment of its own."""
    pythons = {cell.id: _environment(session, cell, *cells.wheels(MATRIX, cell.shim)) for cell in MATRIX.benched}
    pythons.update((peer.id, _environment(session, peer)) for peer in MATRIX.peers.values() if peer.bench)
    session.run(
        "python", "-m", "benchmarks", *(f"--python={id_}={path}" for id_, path in pythons.items()), *session.posargs
    )


@nox.session(requires=["wheels", "suites", "zoo"], default=False)
def against(session: nox.Session) -> None:
    """Measure conversion, memory and import beside another revision, in one run: `nox -s against -- REV`."""
    revision, *arguments = session.posargs or ["HEAD"]
    cell = next(cell for cell in MATRIX.benched if cell.shim == "tflite")
    folder = Path(session.create_tmp()).resolve()
    session.run("git", "worktree", "add", "--force", "--detach", str(folder / "tree"), revision, external=True)
    for distribution in MATRIX.closure(cell.shim):
        source = folder / "tree" / distribution.root.relative_to(ROOT)
        session.run("uv", "build", "--quiet", "--wheel", "--out-dir", str(folder / "wheels"), str(source))
    session.run("git", "worktree", "remove", "--force", str(folder / "tree"), external=True)
    ours = cells.wheels(MATRIX, cell.shim)
    replaced = [argument for argument in ours if argument.startswith("--reinstall-package")]
    base = [*replaced, *(str(wheel) for wheel in sorted((folder / "wheels").glob("*.whl")))]
    pythons = []
    for id_, wheels in ((cell.id, ours), ("base", base)):
        python = _venv(session, f"against-{id_}", cell.python)
        # Both environments link the same files of their packages: two copies of numpy differ by 6 % in resident memory.
        pins = ["--exact", f"--requirement={cell.constraints}"]
        session.run("uv", "pip", "install", "--quiet", f"--python={python}", *pins, *wheels)
        pythons.append(f"--python={id_}={python}")
    session.run("python", "-m", "benchmarks", "--bench", "revisions", *pythons, *arguments)


@nox.session(requires=["zoo", "suites"], default=False)
def simplify(session: nox.Session) -> None:
    """Compare nodes, outputs and latency of simplified models with onnxsim, onnxslim and onnxruntime's basic level.

    `-- --record` stores the result for docs/how/simplification.md. Fail if an aim is missed.
    """
    python = _environment(session, MATRIX.peers["simplifiers"])
    session.run(python, "-m", "matrix.simplified", *session.posargs, external=True)


@nox.session(requires=["wheels"], default=False)
def fuzz(session: nox.Session) -> None:
    """Compare shims with onnxruntime on random graphs: `-- --minutes N [--cell ID ...] [--form FORMAT]`.

    With `--damage KIND`, read damaged models and files instead. With `--report`, print the counts of all runs.
    """
    session.install("--exact", *cells.wheels(MATRIX, REFERENCE), MATRIX.newest_onnx, *MATRIX.tools["fuzz"])
    parser = argparse.ArgumentParser(prog="nox -s fuzz --", add_help=False)
    parser.add_argument("--cell", action="append", default=[], choices=[REFERENCE, *MATRIX.cells])
    chosen, arguments = parser.parse_known_args(session.posargs)
    default = [REFERENCE, *(cell.id for cell in MATRIX.fuzzed if cell.shim != REFERENCE)]
    ids = [] if "--report" in arguments else chosen.cell or default
    pythons = {id_: "" if id_ == REFERENCE else _cell_environment(session, MATRIX.cells[id_]) for id_ in ids}
    session.run("python", "-m", "matrix.fuzz", *(f"--python={id_}={path}" for id_, path in pythons.items()), *arguments)


def _cell_environment(session: nox.Session, cell: Cell) -> str:
    return _environment(session, cell, *cells.wheels(MATRIX, cell.shim))


@nox.session(requires=["wheels", "suites", "zoo"], default=False, python=MATRIX.peers["simplifiers"].python)
def retarget(session: nox.Session) -> None:
    """Measure models at other opsets, beside other converters: `-- --row nodes --opset 13`, `--record`.

    The rows: recorded cases, networks, test suites of other converters, from ONNX to ONNX, time and memory.
    """
    session.install("--exact", *cells.wheels(MATRIX, REFERENCE), MATRIX.newest_onnx, *MATRIX.tools["retarget"])
    session.run("python", "-m", "matrix.retarget", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def real(session: nox.Session) -> None:
    """Fetch trained networks from published packages.

    Convert, verify and measure them with the packages' own .tflite files.
    """
    session.install("pip", "packaging", "tomli")
    cell = next(cell for cell in MATRIX.benched if cell.shim == "tflite")
    python = _environment(session, cell, *cells.wheels(MATRIX, cell.shim))
    session.run("python", "-m", "matrix.real", f"--python={python}", *session.posargs)


def _environment(session: nox.Session, environment: Environment, *wheels: str) -> str:
    """Create an environment with the lock file of a cell or a peer, and these wheels.

    Return the path of its interpreter.
    """
    python = _venv(session, environment.id, environment.python)
    pins = f"--requirement={environment.constraints}"
    session.run("uv", "pip", "install", "--quiet", "--exact", f"--python={python}", pins, *wheels)
    return python


def _venv(session: nox.Session, name: str, version: str) -> str:
    """Create a virtual environment with a Python version, and return the path of its interpreter."""
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
    """Fetch the recorded cases into the cache, unless the cache is up to date."""
    cases = stamp.suites(MATRIX)
    if cases.fresh():
        session.log(f"fetched before; delete {cases.path} to fetch again")
        return
    session.install("pip", MATRIX.newest_onnx, *MATRIX.tools["oracle"])
    releases = [f"--onnx={release}={opset}" for release, opset in MATRIX.releases.items()]
    session.run("python", "-m", "matrix.suites", "fetch", *MATRIX.suites, *releases)
    cases.write()


@nox.session(default=False, python=MATRIX.suites_python, tags=["prepare"])
def zoo(session: nox.Session) -> None:
    """Export the small networks of the zoo with torch into the cache, unless the cache is up to date."""
    _zoo(session, "small")


@nox.session(default=False, python=MATRIX.suites_python, name="zoo-full", tags=["prepare"])
def zoo_full(session: nox.Session) -> None:
    """Export the large networks of the zoo, which only the benchmarks use, unless the cache is up to date."""
    _zoo(session, "full")


def _zoo(session: nox.Session, size: str) -> None:
    cases = stamp.zoo(MATRIX, session.name, size)
    if cases.fresh():
        session.log(f"exported before; delete {cases.path} to export again")
        return
    session.install(*MATRIX.tools["zoo"])
    session.run("python", "-m", "matrix.zoo", "generate", "--size", size)
    cases.write()


@nox.session(default=False)
def matrix(session: nox.Session) -> None:
    """Run all cells that are not done and that this machine can run (`-- --help`)."""
    session.install(*MATRIX.tools["run"])
    command = ["python", "-m", "matrix.run", f"--nox={sys.executable}", *session.posargs]
    # After an interrupt, matrix.run ends the running cells and reports the outcomes of the others.
    session.run(*command, interrupt_timeout=30, terminate_timeout=30)


def _cell(cell: Cell) -> None:
    """Declare the session of a cell. Its docstring is its description in `nox -l`."""

    def session_of_cell(session: nox.Session) -> None:
        if missing := cells.gpu_problem(cell):
            reason = devices.write_unready(cell, missing)
            session.skip(reason) if missing.state == devices.NO_GPU else session.error(reason)
        lock = CellLock(cell.id)
        try:
            lock.reserve()
        except CellBusy as busy:
            session.error(str(busy))
        session.install(*cells.install_arguments(MATRIX, cell))
        lock.share()
        session.run("python", "-m", "matrix.cells", cell.id, *session.posargs)
        lock.release()

    session_of_cell.__doc__ = cells.title(cell)
    # A cell that is skipped, because there is no GPU, needs none of these sessions.
    is_prepared = PREPARED or (cell.runner == "gpu" and not devices.load_driver())
    required_sessions = [] if is_prepared else ["wheels", "suites", "zoo"]
    declare = nox.session(
        python=cell.python, name=f"cell({cell.id})", tags=cell.tags, requires=required_sessions, default=False
    )
    declare(session_of_cell)


for _cell_entry in CELLS:
    _cell(_cell_entry)


def _peer(peer: Peer) -> None:
    """Declare the session of a peer, which runs another project on the recorded cases."""

    def session_of_peer(session: nox.Session) -> None:
        session.install("--exact", "--requirement", str(peer.constraints))
        arguments = [f"--project={peer.project}", f"--options={json.dumps(peer.options)}"]
        arguments += [f"--release={release}" for release in peer.releases]
        env = {"ONNX_COMPAT_REVISION": revision()}
        session.run("python", "-m", "matrix.peers", peer.id, *arguments, *session.posargs, env=env)

    session_of_peer.__doc__ = f"{peer.pins[0].replace('==', ' ')}, Python {peer.python}: its outcome on the same cases"
    name = f"peer({peer.id})"
    nox.session(python=peer.python, name=name, tags=["peer"], requires=["suites"], default=False)(session_of_peer)


for _peer_entry in MATRIX.peers.values():
    if _peer_entry.releases:
        _peer(_peer_entry)
