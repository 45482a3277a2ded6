"""`python -m matrix add tf2 2.22.0`: add the cell of another version of a framework, its lock file and its rendered
files.

uv resolves which Pythons the version has wheels for, and the versions of the other packages. The cell runs on the
newest of these Pythons that this machine has, or on `--python`. Caps and environment variables are copied from the cell
of the nearest version. Nothing is written before everything is resolved and rendered.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from matrix.branches import branches, minor, minors
from matrix.data import ROOT, Cell, Matrix, MatrixError, load
from matrix.interpreters import find
from matrix.links import set_uv_find_links
from matrix.lock import NO_UV, list_requirements, lock
from matrix.render import render, render_texts

__all__ = ["LINES", "Addition", "Unresolvable", "add", "plan"]

BESIDE = ("onnx", "onnxruntime")
"""Packages that every cell pins together with its framework: onnx, and onnxruntime as the oracle of the tests."""
WIDTH = 120


class Unresolvable(MatrixError):
    """No set of versions meets the requirements on the requested Python. The text is the message of uv."""


Resolver = Callable[[Sequence[str], str, Sequence[str], str], "dict[str, str]"]
"""Function (requirements, Python, packages that must have wheels, last day of publication) -> version by package name.

It raises Unresolvable. `resolve` is the function for real runs; tests pass another."""


@dataclass(frozen=True)
class Line:
    """A framework, as `python -m matrix add` names it.

    - shim, package: the shim of its cells, and the package that they pin
    - cell, branch: the patterns of its cell ids and of its branches, with the marks `{version}`, `{minor}` and
      `{backend}`; "" for a framework without branches
    """

    shim: str
    package: str
    cell: str
    branch: str = ""

    def cells(self, matrix: Matrix, backend: str) -> list[Cell]:
        """Return the cells of this framework, the oldest version first. Cells with a variant, such as `-gpu`, are left
        out.

        `backend`: only the cells of Keras depend on it.
        """
        pattern = self.cell.format(version="(.+)", backend=backend)
        cells = [cell for cell in matrix.cells.values() if re.fullmatch(rf"{pattern}-py\d+", cell.id)]
        plain = [cell for cell in cells if cell.id == self.id(_find_version(cell, self.package), backend, cell.python)]
        return sorted(plain, key=lambda cell: Version(_find_version(cell, self.package)))

    def id(self, version: str, backend: str, python: str) -> str:
        """Return the id of the cell for a version and a Python: `tf2-2.22.0-py313`."""
        return f"{self.cell.format(version=version, backend=backend)}-py{python.replace('.', '')}"


LINES = {
    "tf1": Line("tf1", "tensorflow", "tf1-{version}", "tf{minor}"),
    "tf2": Line("tf2", "tensorflow-cpu", "tf2-{version}", "tf{minor}"),
    "tflite-runtime": Line("tflite", "tflite-runtime", "tflite-runtime-{version}", "tflite{minor}"),
    "litert": Line("tflite", "ai-edge-litert", "tflite-litert-{version}", "litert{minor}"),
    "keras": Line("keras", "keras", "keras-{version}-{backend}", "keras{minor}-{backend}"),
    "onnx": Line("reference", "onnx", "reference-onnx{version}"),
}


@dataclass(frozen=True)
class Addition:
    """A cell to add. `text`: the content of matrix.toml with the new entry. `notes`: lines to print for the user."""

    cell: Cell
    text: str
    notes: list[str]


def add(name: str, version: str, backend: str = "tensorflow", python: str = "") -> list[str]:
    """Add a cell: write its entry in matrix.toml, its lock file and the rendered files.

    `name`: the framework, a key of `LINES` such as "tf2". `backend`: the back end of a cell of Keras. `python`: the
    Python of the cell; "": the newest that fits. Return lines to print: the notes, then `wrote <path>` for each file.

    The files are rendered once before anything is written, so that a failure of the renderers leaves no file behind.
    Raise a MatrixError as `plan` does, or if a version is not resolved.
    """
    path = ROOT / "matrix" / "matrix.toml"
    today = dt.datetime.now(tz=dt.timezone.utc).date().isoformat()
    addition = plan(load(path), path.read_text(encoding="utf-8"), name, version, backend, today, resolve, python)
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, path.name)
        draft.write_text(addition.text, encoding="utf-8")
        matrix = load(draft)
    render_texts(matrix)
    lock(matrix, matrix.cells[addition.cell.id])
    path.write_text(addition.text, encoding="utf-8")
    written = [path, matrix.cells[addition.cell.id].constraints, *render(matrix)]
    return [*addition.notes, *(f"wrote {path.relative_to(ROOT)}" for path in written)]


def plan(
    matrix: Matrix,
    text: str,
    name: str,
    version: str,
    backend: str,
    today: str,
    resolver: Resolver,
    python: str = "",
) -> Addition:
    """Return the cell to add, and the content of matrix.toml with its entry. Nothing is written.

    `text`: the present content of matrix.toml. `today`: the last day of publication of the packages to resolve.
    `python`: the Python of the cell; "": the newest that fits. A version that has cells may get a cell on another
    Python, if `python` names it.

    Raise a MatrixError for a framework that is unknown or has no cell to copy from. It is also raised for a version
    that is malformed, has a cell or has no wheels. The last causes are pins that uv cannot resolve, and a Python that
    this machine lacks.
    """
    if name not in LINES:
        raise MatrixError(f"no framework {name!r}: there are {', '.join(LINES)}")
    line = LINES[name]
    try:
        Version(version)
    except InvalidVersion:
        raise MatrixError(f"{version!r} is no version") from None
    cells = line.cells(matrix, backend)
    if not cells:
        raise MatrixError(f"no cell of {name} to start from" + (f" with the back end {backend}" if backend else ""))
    there = [
        cell.id
        for cell in cells
        if Version(_find_version(cell, line.package)) == Version(version) and python in ("", cell.python)
    ]
    if there:
        raise MatrixError(f"{line.package} {version} is there: {', '.join(there)}")
    older = [cell for cell in cells if Version(_find_version(cell, line.package)) <= Version(version)]
    like = older[-1] if older else cells[0]
    until = max(matrix.until, today)
    companions = [pin.name for pin in matrix.frameworks(like) if canonicalize_name(pin.name) != line.package]
    requirements = [f"{line.package}=={version}", *companions]
    pythons = _find_pythons(matrix, requirements, until, resolver)
    python = _choose_python(pythons, python)
    draft = Cell(
        id=line.id(version, backend, python), shim=line.shim, python=python, pins=tuple(requirements), env=like.env
    )
    resolved, notes = _resolve_cell(matrix, draft, like.caps, until, resolver)
    pins = [
        line.package,
        *companions,
        *(package for package in BESIDE if package != line.package and package in resolved),
    ]
    cell = replace(draft, pins=tuple(f"{package}=={resolved[canonicalize_name(package)]}" for package in pins))
    cell, of_branch = _add_branch(matrix, line, cell, like, backend, pythons)
    head = f"{cell.id}: wheels for {', '.join(pythons)}; tested on {python}"
    beside = ", ".join(
        f"{package} {resolved[package]}" for package in ("numpy", "protobuf", *BESIDE) if package in resolved
    )
    entry = _insert(text, _format_entry(cell), like.id, after=bool(older))
    new = re.sub(r'^until = ".*"$', f'until = "{until}"', entry, count=1, flags=re.MULTILINE)
    return Addition(cell, new, [head, f"resolved beside it: {beside}", *notes, *of_branch])


def resolve(requirements: Sequence[str], python: str, wheels: Sequence[str], until: str) -> dict[str, str]:
    """Return package -> version that uv resolves for a Python, which need not be installed.

    `wheels`: the packages of which only versions with wheels count. `until`: the last day of publication. The versions
    have no local label such as `+cpu`. Raises Unresolvable if no versions fit the requirements, and MatrixError if uv
    is not installed.
    """
    set_uv_find_links()
    command = ["uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", f"--exclude-newer={until}"]
    command += [f"--python-version={python}", *(f"--only-binary={name}" for name in wheels), "-"]
    try:
        process = subprocess.run(
            command,
            input="\n".join(requirements),
            text=True,
            capture_output=True,
            check=False,
            env={**os.environ, "UV_PYTHON_DOWNLOADS": "never"},
        )
    except FileNotFoundError as error:
        raise MatrixError(NO_UV) from error
    if process.returncode != 0:
        raise Unresolvable(process.stderr.strip())
    pins = map(Requirement, process.stdout.splitlines())
    return {canonicalize_name(pin.name): next(iter(pin.specifier)).version.partition("+")[0] for pin in pins}


def _find_pythons(matrix: Matrix, requirements: list[str], until: str, resolver: Resolver) -> list[str]:
    """Return the consecutive Pythons for which all requirements have wheels, the oldest first.

    The search goes down from one Python after the newest of any branch to the oldest of the core. Raise a MatrixError
    if no Python has all wheels.
    """
    known = {python for cell in branches(matrix).values() for python in minors(cell.pythons or "")}
    newest = max(int(python.partition(".")[2]) for python in known)
    oldest = int(matrix.floor(matrix.distributions["core"]).partition(".")[2])
    accepted: list[str] = []
    reason: Unresolvable | None = None
    for number in range(newest + 1, oldest - 1, -1):
        try:
            names = [Requirement(requirement).name for requirement in requirements]
            resolver([*requirements, "onnx"], f"3.{number}", names, until)
        except Unresolvable as error:
            if accepted:
                break
            reason = reason or error
        else:
            accepted.insert(0, f"3.{number}")
    if not accepted:
        raise MatrixError(
            f"{requirements[0]} resolves for no Python from 3.{oldest} to 3.{newest + 1}; for the newest:\n{reason}"
        )
    return accepted


def _choose_python(pythons: list[str], wanted: str) -> str:
    """Return the Python `wanted`; if it is "", the newest of `pythons` that this machine has.

    Raise a MatrixError if `pythons` lacks the wanted Python, or if this machine has none that fits.
    """
    if wanted:
        if wanted not in pythons:
            raise MatrixError(f"There are no wheels for Python {wanted}, only for {', '.join(pythons)}.")
        find(wanted)
        return wanted
    for python in reversed(pythons):
        try:
            find(python)
        except MatrixError:
            continue
        return python
    raise MatrixError(f"There are wheels for {', '.join(pythons)}, but this machine has none of these Pythons.")


def _resolve_cell(
    matrix: Matrix, draft: Cell, caps: tuple[str, ...], until: str, resolver: Resolver
) -> tuple[dict[str, str], list[str]]:
    """Return (package -> version for the whole cell, notes).

    `caps`: upper bounds to add to the requirements. The cell has onnxruntime if it resolves; else a note says why not.
    The Unresolvable of the resolver is raised if nothing resolves without it either.
    """
    wheels = [Requirement(pin).name for pin in draft.pins]
    requirements = [*list_requirements(matrix, draft), *caps, "onnx"]
    try:
        return resolver([*requirements, "onnxruntime"], draft.python, wheels, until), []
    except Unresolvable as error:
        last = str(error).splitlines()[-1]
        return resolver(requirements, draft.python, wheels, until), [f"without onnxruntime, which does not fit: {last}"]


def _add_branch(
    matrix: Matrix, line: Line, cell: Cell, like: Cell, backend: str, pythons: list[str]
) -> tuple[Cell, list[str]]:
    """Return (the cell with the fields of the branch of its minor version, notes on the branch).

    `like`: the cell whose caps are copied. `pythons`: the Pythons that the branch accepts, the oldest first. The cell
    is returned unchanged, with a note, if its framework has no branches or another cell proves that branch.
    """
    if not line.branch:
        return cell, ["its recorded cases: add the release to [suites.releases], if it has a new opset"]
    version = minor(Requirement(cell.pins[0]))
    for proving in line.cells(matrix, backend):
        if proving.branch and minor(_find_pin(proving, line.package)) == version:
            return cell, [f"branch {proving.branch} is proved by {proving.id}: it may move to this cell"]
    name = line.branch.format(minor=version.replace(".", "-"), backend=backend)
    last = int(pythons[-1].partition(".")[2])
    branch_cell = replace(cell, branch=name, pythons=f">={pythons[0]},<3.{last + 1}", caps=like.caps)
    notes = [f"branch onnx-compat[{name}], caps of {like.id}: {', '.join(like.caps) or 'none'}"]
    if like.probability:
        notes.append(f"not known: which tensorflow-probability pairs with it; {like.id} has {like.probability[0]}")
    return branch_cell, notes


def _find_pin(cell: Cell, package: str) -> Requirement:
    """Return the cell's pin of the package, or its first pin if it lacks the package: early versions have another name."""
    pins = [Requirement(pin) for pin in cell.pins]
    return next((pin for pin in pins if canonicalize_name(pin.name) == package), pins[0])


def _find_version(cell: Cell, package: str) -> str:
    """Return the version in the cell's pin of the package; see `_find_pin`."""
    return next(iter(_find_pin(cell, package).specifier)).version


def _format_entry(cell: Cell) -> str:
    """Return the text of the entry of a cell in matrix.toml. Fields that `plan` does not set, such as the tier, are
    left out.
    """
    lines = [f'[cells."{cell.id}"]', f'shim = "{cell.shim}"', f'python = "{cell.python}"']
    lines += [f'{key} = "{value}"' for key in ("branch", "pythons") if (value := getattr(cell, key))]
    lines += [_format_array("caps", cell.caps)] if cell.caps else []
    lines += [_format_array("pins", cell.pins)]
    if cell.env:
        lines.append(f"env = {{ {', '.join(f'{key} = {json.dumps(value)}' for key, value in cell.env.items())} }}")
    return "".join(f"{line}\n" for line in lines)


def _format_array(key: str, values: tuple[str, ...]) -> str:
    """Return `key = [...]` in TOML: a single line if it fits in `WIDTH` characters, else a line for each value.

    A JSON string is a TOML string.
    """
    items = [json.dumps(value) for value in values]
    line = f"{key} = [{', '.join(items)}]"
    return line if len(line) <= WIDTH else "\n".join([f"{key} = [", *(f"    {item}," for item in items), "]"])


def _insert(text: str, entry: str, nearest: str, *, after: bool) -> str:
    """Return the text of matrix.toml with a new entry beside the entry of the cell `nearest`.

    With `after`, the new entry follows that entry; else it precedes that entry and its comment.
    """
    lines = text.splitlines(keepends=True)
    line_index = lines.index(f'[cells."{nearest}"]\n')
    if after:
        while line_index < len(lines) and lines[line_index].strip():
            line_index += 1
        return "".join([*lines[:line_index], "\n", entry, *lines[line_index:]])
    while lines[line_index - 1].startswith("#") and not lines[line_index - 1].startswith("# --"):
        line_index -= 1
    return "".join([*lines[:line_index], entry, "\n", *lines[line_index:]])
