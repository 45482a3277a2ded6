"""`python -m matrix add tf2 2.22.0`: the entry of a cell for another version of a framework, and all that follows from it.

Found out: the Pythons that the version has wheels for, the newest of them on this machine, and what is resolved beside it.
Taken from the nearest version that there is: caps and variables. Nothing is written before all of it is known.
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
from matrix.links import tell_uv
from matrix.lock import lock, wanted
from matrix.render import render

__all__ = ["LINES", "Found", "Unresolvable", "add", "plan"]

BESIDE = ("onnx", "onnxruntime")
"""Pinned beside every framework: what a cell says about itself, and the independent oracle of its tests."""
WIDTH = 120


class Unresolvable(MatrixError):
    """No versions fit together for that Python; the text is what the resolver says."""


Resolver = Callable[[Sequence[str], str, Sequence[str], str], "dict[str, str]"]
"""Of requirements, a Python, the names that must come as wheels, and the last day of publication: versions by name."""


@dataclass(frozen=True)
class Line:
    """A framework through its versions: what its cells and branches are called, and the package that they pin."""

    shim: str
    package: str
    cell: str
    branch: str = ""

    def cells(self, matrix: Matrix, backend: str) -> list[Cell]:
        """Those of this line alone, the oldest version first."""
        pattern = self.cell.format(version="(.+)", backend=backend)
        found = [cell for cell in matrix.cells.values() if re.fullmatch(rf"{pattern}-py\d+", cell.id)]
        plain = [cell for cell in found if cell.id == self.id(_version(cell, self.package), backend, cell.python)]
        return sorted(plain, key=lambda cell: Version(_version(cell, self.package)))

    def id(self, version: str, backend: str, python: str) -> str:
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
class Found:
    """What is to be written, and what there is to say about it."""

    cell: Cell
    text: str
    said: list[str]


def add(name: str, version: str, backend: str = "tensorflow") -> list[str]:
    """Write the entry, its constraints and what is rendered; gives what was found."""
    path = ROOT / "matrix" / "matrix.toml"
    today = dt.datetime.now(tz=dt.timezone.utc).date().isoformat()
    found = plan(load(path), path.read_text(encoding="utf-8"), name, version, backend, today, resolve)
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, path.name)
        draft.write_text(found.text, encoding="utf-8")
        matrix = load(draft)
    lock(matrix, matrix.cells[found.cell.id])
    path.write_text(found.text, encoding="utf-8")
    written = [path, matrix.cells[found.cell.id].constraints, *render(matrix)]
    return [*found.said, *(f"wrote {each.relative_to(ROOT)}" for each in written)]


def plan(matrix: Matrix, text: str, name: str, version: str, backend: str, today: str, resolver: Resolver) -> Found:
    """The entry and matrix.toml with it, without writing anything."""
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
    there = [cell.id for cell in cells if Version(_version(cell, line.package)) == Version(version)]
    if there:
        raise MatrixError(f"{line.package} {version} is there: {', '.join(there)}")
    older = [cell for cell in cells if Version(_version(cell, line.package)) < Version(version)]
    like = older[-1] if older else cells[0]
    until = max(matrix.until, today)
    others = [pin.name for pin in matrix.frameworks(like) if canonicalize_name(pin.name) != line.package]
    asked = [f"{line.package}=={version}", *others]
    pythons = _pythons(matrix, asked, until, resolver)
    python = _here(pythons)
    draft = Cell(id=line.id(version, backend, python), shim=line.shim, python=python, pins=tuple(asked), env=like.env)
    resolved, said = _resolved(matrix, draft, like.caps, until, resolver)
    pins = [line.package, *others, *(each for each in BESIDE if each != line.package and each in resolved)]
    cell = replace(draft, pins=tuple(f"{each}=={resolved[canonicalize_name(each)]}" for each in pins))
    cell, of_branch = _branch(matrix, line, cell, like, backend, pythons)
    head = f"{cell.id}: wheels for {', '.join(pythons)}; tested on {python}, the newest of them on this machine"
    beside = ", ".join(f"{each} {resolved[each]}" for each in ("numpy", "protobuf", *BESIDE) if each in resolved)
    entry = _insert(text, _entry(cell), like.id, after=bool(older))
    new = re.sub(r'^until = ".*"$', f'until = "{until}"', entry, count=1, flags=re.MULTILINE)
    return Found(cell, new, [head, f"resolved beside it: {beside}", *said, *of_branch])


def resolve(requirements: Sequence[str], python: str, wheels: Sequence[str], until: str) -> dict[str, str]:
    """By uv, without an interpreter of that version."""
    tell_uv()
    command = ["uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", f"--exclude-newer={until}"]
    command += [f"--python-version={python}", *(f"--only-binary={name}" for name in wheels), "-"]
    done = subprocess.run(
        command,
        input="\n".join(requirements),
        text=True,
        capture_output=True,
        check=False,
        env={**os.environ, "UV_PYTHON_DOWNLOADS": "never"},
    )
    if done.returncode != 0:
        raise Unresolvable(done.stderr.strip())
    pins = map(Requirement, done.stdout.splitlines())
    return {canonicalize_name(pin.name): next(iter(pin.specifier)).version.partition("+")[0] for pin in pins}


def _pythons(matrix: Matrix, asked: list[str], until: str, resolver: Resolver) -> list[str]:
    """The Pythons in a row, up to the newest, for which there is all of that; as far as one beyond those of any branch."""
    known = {python for cell in branches(matrix).values() for python in minors(cell.pythons or "")}
    newest = max(int(python.partition(".")[2]) for python in known)
    oldest = int(matrix.floor(matrix.distributions["core"]).partition(".")[2])
    found: list[str] = []
    reason: Unresolvable | None = None
    for number in range(newest + 1, oldest - 1, -1):
        try:
            names = [Requirement(each).name for each in asked]
            resolver([*asked, "onnx"], f"3.{number}", names, until)
        except Unresolvable as error:
            if found:
                break
            reason = reason or error
        else:
            found.insert(0, f"3.{number}")
    if not found:
        raise MatrixError(
            f"{asked[0]} resolves for no Python from 3.{oldest} to 3.{newest + 1}; for the newest:\n{reason}"
        )
    return found


def _here(pythons: list[str]) -> str:
    for python in reversed(pythons):
        try:
            find(python)
        except MatrixError:
            continue
        return python
    raise MatrixError(f"there are wheels for {', '.join(pythons)}, and this machine has none of these Pythons")


def _resolved(
    matrix: Matrix, draft: Cell, caps: tuple[str, ...], until: str, resolver: Resolver
) -> tuple[dict[str, str], list[str]]:
    """All versions of the cell, with the oracle where that fits, and what did not."""
    wheels = [Requirement(pin).name for pin in draft.pins]
    asked = [*wanted(matrix, draft), *caps, "onnx"]
    try:
        return resolver([*asked, "onnxruntime"], draft.python, wheels, until), []
    except Unresolvable as error:
        last = str(error).splitlines()[-1]
        return resolver(asked, draft.python, wheels, until), [f"without onnxruntime, which does not fit: {last}"]


def _branch(
    matrix: Matrix, line: Line, cell: Cell, like: Cell, backend: str, pythons: list[str]
) -> tuple[Cell, list[str]]:
    """The cell with the branch that it proves, if its minor version has none yet, and what there is to do about it."""
    if not line.branch:
        return cell, ["its recorded cases: add the release to [suites.releases], if it has a new opset"]
    version = minor(Requirement(cell.pins[0]))
    for proving in line.cells(matrix, backend):
        if proving.branch and minor(_pin(proving, line.package)) == version:
            return cell, [f"branch {proving.branch} is proved by {proving.id}: it may move to this cell"]
    name = line.branch.format(minor=version.replace(".", "-"), backend=backend)
    last = int(pythons[-1].partition(".")[2])
    proved = replace(cell, branch=name, pythons=f">={pythons[0]},<3.{last + 1}", caps=like.caps)
    said = [f"branch onnx-compat[{name}], caps of {like.id}: {', '.join(like.caps) or 'none'}"]
    if like.probability:
        said.append(f"not known: which tensorflow-probability pairs with it; {like.id} has {like.probability[0]}")
    return proved, said


def _pin(cell: Cell, package: str) -> Requirement:
    """The one of the package; of a first version, the one that was there before there was a build of that name."""
    pins = [Requirement(pin) for pin in cell.pins]
    return next((pin for pin in pins if canonicalize_name(pin.name) == package), pins[0])


def _version(cell: Cell, package: str) -> str:
    return next(iter(_pin(cell, package).specifier)).version


def _entry(cell: Cell) -> str:
    """As the others are written."""
    lines = [f'[cells."{cell.id}"]', f'shim = "{cell.shim}"', f'python = "{cell.python}"']
    lines += [f'{key} = "{value}"' for key in ("branch", "pythons") if (value := getattr(cell, key))]
    lines += [_array("caps", cell.caps)] if cell.caps else []
    lines += [_array("pins", cell.pins)]
    if cell.env:
        lines.append(f"env = {{ {', '.join(f'{key} = {json.dumps(value)}' for key, value in cell.env.items())} }}")
    return "".join(f"{line}\n" for line in lines)


def _array(key: str, values: tuple[str, ...]) -> str:
    """A JSON string is a TOML string."""
    items = [json.dumps(value) for value in values]
    line = f"{key} = [{', '.join(items)}]"
    return line if len(line) <= WIDTH else "\n".join([f"{key} = [", *(f"    {item}," for item in items), "]"])


def _insert(text: str, entry: str, neighbour: str, *, after: bool) -> str:
    """Behind the entry of the neighbour; or before it, and the comment that belongs to it."""
    lines = text.splitlines(keepends=True)
    at = lines.index(f'[cells."{neighbour}"]\n')
    if after:
        while at < len(lines) and lines[at].strip():
            at += 1
        return "".join([*lines[:at], "\n", entry, *lines[at:]])
    while lines[at - 1].startswith("#") and not lines[at - 1].startswith("# --"):
        at -= 1
    return "".join([*lines[:at], entry, "\n", *lines[at:]])
