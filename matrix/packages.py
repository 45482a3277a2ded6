"""Build the wheels of metadata only, one for each branch, in one process (see matrix/branches.py).

    python -m matrix.packages FOLDER     write the wheels into FOLDER, for `pip install --find-links FOLDER`

Their projects are written into build/ and not committed, because everything in them comes from matrix.toml.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from matrix.branches import Project, projects
from matrix.data import ROOT, Matrix, load
from matrix.render.projects import array

__all__ = ["build", "write"]

BUILD = ROOT / "build" / "branches"


def write(matrix: Matrix, folder: Path = BUILD) -> list[Path]:
    """Write a project folder (pyproject.toml and LICENSE) for each distribution of metadata only. Return the folders.

    The folders of an earlier run are deleted first.
    """
    shutil.rmtree(folder, ignore_errors=True)
    roots = []
    for project in projects(matrix):
        root = folder / f"{project.name}-{project.version}"
        root.mkdir(parents=True)
        (root / "pyproject.toml").write_text(_format_project(project), encoding="utf-8")
        shutil.copy(ROOT / "LICENSE", root)
        roots.append(root)
    return roots


def build(roots: list[Path], folder: Path) -> list[Path]:
    """Build the wheel of each project folder into `folder`. Return the paths of the wheels."""
    from hatchling.builders.wheel import WheelBuilder

    return [Path(wheel) for root in roots for wheel in WheelBuilder(str(root)).build(directory=str(folder))]


def main(arguments: list[str]) -> int:
    """Build the wheels of all branches into the folder `arguments[0]`."""
    if len(arguments) != 1:
        sys.exit(__doc__)
    built = build(write(load()), Path(arguments[0]).resolve())
    print(f"{len(built)} wheels of branches in {arguments[0]}")
    return 0


def _format_project(project: Project) -> str:
    return "\n".join(
        [
            "[build-system]",
            'requires = ["hatchling"]',
            'build-backend = "hatchling.build"',
            "",
            "[project]",
            f"name = {json.dumps(project.name)}",
            f"version = {json.dumps(project.version)}",
            f"description = {json.dumps(project.description)}",
            f'readme = {{ text = {json.dumps(project.description)}, content-type = "text/markdown" }}',
            'license = "Apache-2.0"',
            'license-files = ["LICENSE"]',
            f"requires-python = {json.dumps(project.pythons)}",
            *array("dependencies", project.requires),
            "",
            "[project.optional-dependencies]",
            *(line for extra, requirements in project.extras.items() for line in array(extra, requirements)),
            "",
            "[tool.hatch.build.targets.wheel]",
            "bypass-selection = true",
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
