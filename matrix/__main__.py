"""Command line: `python -m matrix check | render | add | lock | list | outdated | record | scoreboard`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from matrix.add import LINES, add
from matrix.data import ROOT, Matrix, MatrixError, load
from matrix.lock import lock, unknown_index, unmet_requirements
from matrix.outdated import find_outdated, format_proposals, read_releases
from matrix.render import find_drift, render
from matrix.results import PEER, STORED, NotStored, record
from matrix.scoreboard.command import add_arguments, scoreboard

NEEDED = ("packaging", "tomli", "numpy", "click")
"""The packages that the renderers import, besides this repository's own. The session `drift` installs them."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command of `python -m matrix`, and print errors. Return 0, or 1 if it fails or reports problems.

    A command fails if it raises MatrixError, or needs a package in `NEEDED` that is not installed.
    """
    options = make_parser().parse_args(arguments)
    try:
        matrix = load()
        if options.command == "check":
            return _check_drift(matrix)
        if options.command == "lock":
            return _lock(matrix, options.ids)
        if options.command == "add":
            print("\n".join(add(options.framework, options.version, options.backend or "tensorflow", options.python)))
            return 0
        if options.command == "outdated":
            print(format_proposals(find_outdated(matrix, read_releases), options.markdown), end="")
            return 0
        if options.command == "list":
            return _list(matrix)
        if options.command == "scoreboard":
            return scoreboard(matrix, options)
        if options.command == "record":
            _record(options.files)
        for path in render(matrix):
            print("wrote", path.relative_to(ROOT))
    except MatrixError as error:
        print(error, file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:
            raise
        print(f"`python -m matrix {options.command}` needs: pip install {' '.join(NEEDED)}", file=sys.stderr)
        return 1
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the commands."""
    parser = argparse.ArgumentParser(prog="python -m matrix", description="Work on matrix/matrix.toml.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="fail if a rendered file or a lock file differs from matrix.toml")
    commands.add_parser("render", help="write the files that are rendered from matrix.toml")
    locking = commands.add_parser("lock", help="resolve the pins of cells and peers (of all, without an ID)")
    locking.add_argument("ids", nargs="*", metavar="ID")
    adding = commands.add_parser("add", help="add a cell for another version, resolve its pins, and render")
    adding.add_argument("framework", choices=sorted(LINES))
    adding.add_argument("version")
    adding.add_argument("--backend", choices=["tensorflow", "jax", "torch"], help="back end of Keras (tensorflow)")
    adding.add_argument("--python", default="", metavar="3.N", help="the Python of the cell (the newest that fits)")
    listing = commands.add_parser(
        "outdated", help="list versions of frameworks that the package index has and no cell pins"
    )
    listing.add_argument("--markdown", action="store_true", help="as a list for an issue; nothing if there are none")
    commands.add_parser("list", help="list the cells and the peers")
    recording = commands.add_parser("record", help="store the results of cells, and render")
    recording.add_argument("files", nargs="+", type=Path, metavar="results/CELL.json")
    add_arguments(commands.add_parser("scoreboard", help="write the page of all results, and the badges"))
    return parser


def _check_drift(matrix: Matrix) -> int:
    """Print each stored file that does not follow from matrix.toml: rendered files, lock files and results files.

    Return 1 if there are any, else 0.
    """
    wrong = [f"{path.relative_to(ROOT)}: run `python -m matrix render`" for path in find_drift(matrix)]
    environments = matrix.environments.values()
    for environment in environments:
        wrong += [
            f"{environment.id}: {problem}: run `python -m matrix lock {environment.id}`"
            for problem in unmet_requirements(matrix, environment)
        ]
    known = {environment.constraints for environment in environments}
    stored = (ROOT / "matrix" / "constraints").glob("*.txt")
    wrong += [
        f"{path.relative_to(ROOT)}: belongs to no cell or peer: delete it" for path in stored if path not in known
    ]
    names = {*matrix.cells, *(PEER + id_ for id_ in matrix.peers)}
    orphans = [path for path in STORED.glob("*.json") if path.stem not in names]
    wrong += [f"{path.relative_to(ROOT)}: belongs to no cell or peer: delete it" for path in orphans]
    print("\n".join(wrong) or f"{len(matrix.cells)} cells, {len(matrix.distributions)} distributions: no drift")
    return 1 if wrong else 0


def _record(files: list[Path]) -> None:
    """Store the results in each file, and print the path of the stored file, or the reason why it is not stored."""
    for file in files:
        try:
            print("wrote", record(file).relative_to(ROOT))
        except NotStored as reason:
            print(reason)


def _lock(matrix: Matrix, names: list[str]) -> int:
    """Lock the cells and peers `names`; without names, all whose package index is configured. Return 0.

    Raise MatrixError for an unknown name.
    """
    for name in names or matrix.environments:
        if name not in matrix.environments:
            raise MatrixError(f"There is no cell or peer {name}. `python -m matrix list` lists all.")
        reason = unknown_index(matrix.environments[name])
        if reason and not names:
            print("not locked:", reason, flush=True)
            continue
        lock(matrix, matrix.environments[name])
        print("locked", name, flush=True)
    return 0


def _list(matrix: Matrix) -> int:
    """Print the cells and the peers. Return 0."""
    for cell in matrix.cells.values():
        print(f"{cell.id:36} {cell.tier:8} {cell.runner:4} {' '.join(cell.pins)}")
    for peer in matrix.peers.values():
        print(f"{peer.id:36} {'peer':13} {' '.join(peer.pins)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
