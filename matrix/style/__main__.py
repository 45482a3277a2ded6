"""`python -m matrix.style [--commit-msg FILE] [PATH ...]`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from matrix.style.annotations import check_annotations
from matrix.style.classes import repeated_classes
from matrix.style.generators import shared_generators
from matrix.style.rules import check_source, check_subject

CORE = "onnx_compat"
#: The folders in which every public name needs a docstring. Tests and examples are not among them.
DOCUMENTED = ("onnx_compat/", "shims/", "matrix/", "benchmarks/")


def main(arguments: list[str] | None = None) -> int:
    """Print each violation as `path:line: rule: text`; return 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m matrix.style", description="Check names, docstrings and commits.")
    parser.add_argument("--commit-msg", type=Path, metavar="FILE", help="check the subject of this commit message")
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="files or folders; every tracked Python file by default"
    )
    options = parser.parse_args(arguments)
    if options.commit_msg is not None:
        problems = check_subject(options.commit_msg.read_text(encoding="utf-8"))
        lines = [problem.text for problem in problems]
    else:
        lines = _check(options.paths)
    print("\n".join(lines), file=sys.stderr)
    return 1 if lines else 0


def _check(paths: list[str]) -> list[str]:
    """Return a line for each violation in the tracked Python files among `paths`; in all tracked Python files without
    `paths`.
    """
    listed = subprocess.run(["git", "ls-files", "--", *(paths or ["*.py"])], capture_output=True, text=True, check=True)
    checked = [path for path in listed.stdout.split() if path.endswith(".py")]
    sources = [(path, Path(path).read_text(encoding="utf-8")) for path in checked]
    lines = [
        f"{path}:{problem.line}: {problem.rule}: {problem.text}"
        for path, source in sources
        for problem in check_source(source, path.startswith(DOCUMENTED))
    ]
    lines += check_annotations(sources)
    lines += shared_generators((path, source) for path, source in sources if path.startswith("tests/"))
    return lines + repeated_classes((path, source) for path, source in sources if path.startswith(CORE + "/"))


if __name__ == "__main__":
    sys.exit(main())
