"""What follows from matrix.toml and is stored elsewhere: render it, or say where the stored text differs.

A pyproject.toml holds one rendered block between two marker lines; a package holds one `__version__` line; the licence
is one file in the root and a copy in each shim, because every wheel must carry it; docs/support.md is rendered whole.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from matrix.data import ROOT, Distribution, Matrix, MatrixError
from matrix.support import PAGE, page

__all__ = ["drifted", "render", "rendered"]

BEGIN = "# >>> rendered from matrix/matrix.toml by `python -m matrix render`: edit there"
END = "# <<< rendered"
_BLOCK = re.compile(f"^{re.escape(BEGIN)}$.*?^{re.escape(END)}$", re.DOTALL | re.MULTILINE)
_VERSION = re.compile(r'^__version__(?P<type>: \w+)? = ".*"$', re.MULTILINE)


def rendered(matrix: Matrix) -> dict[Path, str]:
    """Every file with rendered text in it, as it should be."""
    files: dict[Path, str] = {}
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    for distribution in matrix.distributions.values():
        project = distribution.root / "pyproject.toml"
        package = distribution.root / distribution.package / "__init__.py"
        files[project] = _replace(_BLOCK, _block(matrix, distribution), project)
        version = rf'__version__\g<type> = "{matrix.version}"'
        files[package] = _replace(_VERSION, version, package)
        files[distribution.root / "LICENSE"] = licence
    files[ROOT / PAGE] = page(matrix)
    return files


def drifted(matrix: Matrix) -> list[Path]:
    """The files whose stored text is not the rendered one."""
    return [path for path, text in rendered(matrix).items() if not path.exists() or _read(path) != text]


def render(matrix: Matrix) -> list[Path]:
    """Write what drifted; gives the files that were written."""
    changed = drifted(matrix)
    texts = rendered(matrix)
    for path in changed:
        path.write_text(texts[path], encoding="utf-8")
    return changed


def _replace(pattern: re.Pattern[str], text: str, path: Path) -> str:
    stored = _read(path)
    result, count = pattern.subn(text, stored)
    if count != 1:
        raise MatrixError(f"{path.relative_to(ROOT)}: expected one place to render into, found {count}")
    return result


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise MatrixError(f"{path.relative_to(ROOT)} is missing") from None


def _block(matrix: Matrix, distribution: Distribution) -> str:
    lines = [
        BEGIN,
        f'version = "{matrix.version}"',
        f'requires-python = "{matrix.requires_python(distribution)}"',
        *_array(matrix, "dependencies", distribution.requires),
    ]
    if distribution.extras:
        lines += ["", "[project.optional-dependencies]"]
        for name, requirements in distribution.extras.items():
            lines += _array(matrix, name, requirements)
    # The pattern's replacement gives backslashes a meaning; none may come from here.
    return "\n".join([*lines, END]).replace("\\", "\\\\")


def _array(matrix: Matrix, key: str, requirements: tuple[str, ...]) -> list[str]:
    """A TOML array; a JSON string is a TOML string."""
    items = [f"    {json.dumps(matrix.pinned(each))}," for each in requirements]
    return [f"{key} = [", *items, "]"]
