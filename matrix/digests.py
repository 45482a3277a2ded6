"""SHA-256 of the .tflite file of each case of the suites, to show that a refactoring changes no byte of any file.

Run `python -m matrix.digests write FILE` in a tflite cell before and after the change, then `compare BEFORE AFTER`.
A case that is refused has the text of its error in place of a digest. Equal cases of several releases are converted once.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import onnx_compat
from matrix.harness.select import choose, distinct
from matrix.harness.variants import RECORDED, VARIANTS
from matrix.suites.cache import read_index

__all__ = ["differences", "digest", "main", "read"]

#: The variants that differ in their model. The others differ in an option that a conversion does not have.
_VARIANTS = [name for name, variant in VARIANTS.items() if not variant.options]


def digest(model: Any) -> str:
    """Convert a model to .tflite. Return the SHA-256 of the file, or the text of the error if the model is refused.

    `model`: its path, or its serialised bytes.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        try:
            onnx_compat.convert(model, path, shim="tflite")
        except onnx_compat.OnnxCompatError as error:
            return " ".join(str(error).split())
        return hashlib.sha256(path.read_bytes()).hexdigest()


def _digests(variants: List[str], every: int) -> Iterator[Tuple[str, str]]:
    """Yield (name, result of `digest`) of every `every`-th case of all suites, in each of these variants.

    Equal cases count once.
    """
    cases = distinct(choose("", read_index), variants)
    for chosen in cases[::every]:
        yield chosen.names[0], digest(VARIANTS[chosen.variant].model(str(chosen.case.model)))


def read(path: Path) -> Dict[str, str]:
    """Return case name -> digest, from a file that the command `write` wrote."""
    rows = [line.partition("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return {name: value for name, _, value in rows}


def differences(before: Dict[str, str], after: Dict[str, str]) -> List[str]:
    """Return a line for each case of `after` that differs from `before`, or is missing there.

    Cases of `before` that `after` lacks are ignored.
    """
    return [
        "%s: %s => %s" % (name, before.get(name, "missing"), value)
        for name, value in after.items()
        if before.get(name) != value
    ]


def main(arguments: Optional[List[str]] = None) -> int:
    """Write or compare digests. Return 1 if a compared case differs, else 0."""
    parser = argparse.ArgumentParser(prog="python -m matrix.digests", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="convert the cases and write their digests")
    writing.add_argument("file", type=Path)
    writing.add_argument("--every", type=int, default=1, metavar="N", help="convert only every N-th case")
    writing.add_argument("--variants", nargs="+", choices=_VARIANTS, default=[RECORDED])
    comparing = commands.add_parser("compare", help="print the cases of AFTER that differ from BEFORE")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args(arguments)
    if options.command == "write":
        with options.file.open("w", encoding="utf-8") as file:
            for name, value in _digests(options.variants, options.every):
                file.write("%s\t%s\n" % (name, value))
        return 0
    before, after = read(options.before), read(options.after)
    changed = differences(before, after)
    for line in changed:
        print(line)
    print("%d of %d cases differ" % (len(changed), len(after)))
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
