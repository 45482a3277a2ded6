"""Child process in the environment of a cell: it runs cases of chunk files, and writes a line before and after each case.

A request is a line {"path", "start", "shim", "form"}. Answers: {"begin": index}, {"index", "kind", "detail", "output"}, and
{"end": true} after the last case.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any, Dict

_ROOT = Path(__file__).resolve().parents[3]
if "matrix" not in sys.modules:  # without its parent on the path: `onnx_compat` must come from its wheel
    _spec = importlib.util.spec_from_file_location(
        "matrix", str(_ROOT / "matrix" / "__init__.py"), submodule_search_locations=[str(_ROOT / "matrix")]
    )
    assert _spec is not None and _spec.loader is not None
    sys.modules["matrix"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["matrix"])

from matrix.fuzz.chunks import read_chunk  # noqa: E402 (found once `matrix` is)
from matrix.fuzz.execution import execute  # noqa: E402 (found once `matrix` is)


def main() -> None:
    """Answer requests until standard input ends."""
    # Frameworks print to standard output; it is redirected to standard error, so that each line here is an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr

    def answer(content: Dict[str, Any]) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    import onnx_compat

    answer({"version": onnx_compat.__version__, "python": "%d.%d" % sys.version_info[:2]})
    for line in sys.stdin:
        request = json.loads(line)
        cases = read_chunk(Path(request["path"]))
        for index in range(request["start"], len(cases)):
            answer({"begin": index})
            outcome = execute(cases[index], request["shim"], request["form"])
            answer({"index": index, **outcome._asdict()})
        answer({"end": True})


if __name__ == "__main__":
    main()
