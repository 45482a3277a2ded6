"""Blocks of the documentation that install packages: pip fills a virtual environment with the built wheels and the index.

`<!-- run: e2e -->`            in a new environment of this Python
`<!-- run: e2e checkout -->`   in a copy of this repository, too
`<!-- run: e2e 3.10 -->`       in an environment of that Python, where pip resolves and downloads, and installs nothing: frameworks
                               are large. `nox -s branches` installs each of them.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Set, Tuple

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "pages"))

import pages as documentation

ROOT = Path(__file__).resolve().parents[2]
PLAIN, CHECKOUT = ("e2e",), ("e2e", "checkout")


def needs_of(page: Path) -> Set[Tuple[str, ...]]:
    return {block.needs for block in documentation.blocks(page) if block.runnable and block.needs[0] == "e2e"}


TRIALS = [(page, needs) for page in documentation.pages() for needs in sorted(needs_of(page))]


@pytest.mark.parametrize(
    ("page", "needs"), TRIALS, ids=["%s-%s" % (page.stem, "-".join(needs[1:])) for page, needs in TRIALS]
)
def test_the_commands_of_a_page_install(
    page: Path, needs: Tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "user"
    python = sys.executable
    if needs == CHECKOUT:
        copy_checkout(folder)
    else:
        folder.mkdir()
        (folder / "matrix").symlink_to(ROOT / "matrix")
    if needs not in (PLAIN, CHECKOUT):
        python = find_interpreter(needs[1])
        monkeypatch.setenv("PIP_DRY_RUN", "1")
    links = [os.environ.get("PIP_FIND_LINKS", ""), str(ROOT / "dist")]
    monkeypatch.setenv("PIP_FIND_LINKS", " ".join(filter(None, links)))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    subprocess.run([python, "-m", "venv", str(tmp_path / "venv")], check=True)
    assert documentation.run(page, folder, lambda block: block == needs, tmp_path / "venv" / "bin")


def find_interpreter(version: str) -> str:
    """Return the interpreter of a minor version, as the sessions of nox find it."""
    code = "import sys; from matrix.interpreters import find; print(find(sys.argv[1]))"
    command = [sys.executable, "-c", code, version]
    return subprocess.run(command, cwd=str(ROOT), check=True, capture_output=True, text=True).stdout.strip()


def copy_checkout(folder: Path) -> None:
    """Copy the files of this repository that git does not ignore, to a repository of their own."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=str(ROOT), check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():  # not if it is deleted and not committed
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(ROOT / name), str(folder / name))
    subprocess.run(["git", "init", "--quiet"], cwd=str(folder), check=True)
