"""`python -m matrix.release [--tag TAG]`: build what the commit publishes, check it, and leave it in dist/release.

packages/: sdists and wheels; sbom/: a bill of materials for each distribution; notes.md: the changelog's section.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from matrix.data import ROOT, Matrix, MatrixError, load
from matrix.release import build, contents, install, sbom
from matrix.release.notes import notes

FOLDER = ROOT / "dist" / "release"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m matrix.release", description=__doc__)
    parser.add_argument(
        "--tag", help="what it is published as: it must be the version, and nothing may be left unreleased"
    )
    options = parser.parse_args(arguments)
    try:
        wrong = _release(load(), options.tag)
    except MatrixError as error:
        wrong = [str(error)]
    for each in wrong:
        print(each, file=sys.stderr)
    return 1 if wrong else 0


def _release(matrix: Matrix, tag: str | None) -> list[str]:
    """What is wrong with it, all of one step."""
    if files := build.changed():
        return ["not as the commit, which is what is built, has them:", *files]
    shutil.rmtree(FOLDER, ignore_errors=True)
    packages = FOLDER / "packages"
    told = notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), matrix.version, tag)
    print("building twice", flush=True)
    wrong = build.build(packages)
    built = sorted(packages.iterdir())
    print(f"checking {len(built)} files", flush=True)
    named = {each.name: each.package for each in matrix.distributions.values()}
    wrong += [problem for path in built for problem in contents.problems(path, named)]
    wrong += _checked(built, named)
    if wrong:
        return wrong
    print("installing every sdist", flush=True)
    wrong = install.problems(packages, *matrix.tools["build"])
    print("resolving every distribution", flush=True)
    bills = sbom.bills(matrix, packages, build.time_of_commit())
    (FOLDER / "sbom").mkdir()
    for name, bill in bills.items():
        (FOLDER / "sbom" / f"{name}-{matrix.version}.cdx.json").write_text(bill, encoding="utf-8")
    (FOLDER / "notes.md").write_text(told, encoding="utf-8")
    print(f"{FOLDER.relative_to(ROOT)}: {len(built)} files, {len(bills)} bills of materials, notes.md")
    return wrong


def _checked(built: list[Path], packages: dict[str, str]) -> list[str]:
    """By the tools that everybody has."""
    full = [str(path) for path in built if path.suffix == ".whl" and path.name.partition("-")[0] in packages.values()]
    empty = [str(path) for path in built if path.suffix == ".whl" and str(path) not in full]
    commands = [
        ["twine", "check", "--strict", *map(str, built)],
        ["check-wheel-contents", *full],
        # W007 and W008, nothing in it: a branch is what it depends on (see matrix/branches.py).
        ["check-wheel-contents", "--ignore=W007,W008", *empty],
    ]
    wrong = []
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = f"{done.stdout}{done.stderr}".splitlines()
            wrong += [f"{command[0]}: {line}" for line in said if not line.endswith(("PASSED", ": OK"))]
    return wrong


if __name__ == "__main__":
    sys.exit(main())
