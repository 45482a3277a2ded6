"""`python -m matrix.release [--tag TAG]`: build the release of the commit, check it, and write it to dist/release.

packages/ gets sdists and wheels; constraints/ the exact versions of each cell; sbom/ a bill of materials for each
distribution and branch; notes.md the section of the changelog, and the commands that install exact versions.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from matrix.data import ROOT, Matrix, MatrixError, load
from matrix.release import build, constraints, contents, install, sbom
from matrix.release.notes import exact_versions, notes

FOLDER = ROOT / "dist" / "release"


def main(arguments: list[str] | None = None) -> int:
    """Build and check a release, and print its problems. Return 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m matrix.release", description=__doc__)
    parser.add_argument(
        "--tag",
        help="the tag of the release: it must equal the version, and the changelog may have no unreleased lines",
    )
    options = parser.parse_args(arguments)
    try:
        problems = _make_release(load(), options.tag)
    except MatrixError as error:
        problems = [str(error)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def _make_release(matrix: Matrix, tag: str | None) -> list[str]:
    """Build and check the release in FOLDER, which is emptied first. Return the problems.

    If tracked files differ from the commit, nothing is built. If the built files have problems, the later checks and
    files are left out. `tag`: the tag of the version; None: there is no tag yet.
    """
    if files := build.changed_files():
        return ["These files differ from the commit, which is what is built:", *files]
    shutil.rmtree(FOLDER, ignore_errors=True)
    packages = FOLDER / "packages"
    release_notes = notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), matrix.version, tag)
    print("building twice", flush=True)
    problems = build.build(packages)
    built = sorted(packages.iterdir())
    print(f"checking {len(built)} files", flush=True)
    packages_by_name = {distribution.name: distribution.package for distribution in matrix.distributions.values()}
    problems += [problem for path in built for problem in contents.problems(path, packages_by_name)]
    problems += _check_with_tools(built)
    if problems:
        return problems
    print("installing every sdist", flush=True)
    problems = install.problems(packages, *matrix.tools["build"])
    print("resolving every distribution", flush=True)
    bills = sbom.bills(matrix, packages, build.commit_time())
    (FOLDER / "sbom").mkdir()
    for name, bill in bills.items():
        (FOLDER / "sbom" / f"{name}-{matrix.version}.cdx.json").write_text(bill, encoding="utf-8")
    (FOLDER / "constraints").mkdir()
    locks = constraints.files(matrix)
    for name, lock in locks.items():
        shutil.copyfile(lock, FOLDER / "constraints" / name)
    (FOLDER / "notes.md").write_text(f"{release_notes}\n{exact_versions(matrix)}", encoding="utf-8")
    counts = f"{len(built)} files, {len(locks)} constraints, {len(bills)} bills of materials"
    print(f"{FOLDER.relative_to(ROOT)}: {counts}, notes.md")
    return problems


def _check_with_tools(built: list[Path]) -> list[str]:
    """Return the messages of twine and check-wheel-contents about the built files. Empty: both accept all files."""
    wheels = [str(path) for path in built if path.suffix == ".whl"]
    commands = [["twine", "check", "--strict", *map(str, built)], ["check-wheel-contents", *wheels]]
    problems = []
    for command in commands:
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode:
            output = f"{process.stdout}{process.stderr}".splitlines()
            problems += [f"{command[0]}: {line}" for line in output if not line.endswith(("PASSED", ": OK"))]
    return problems


if __name__ == "__main__":
    sys.exit(main())
