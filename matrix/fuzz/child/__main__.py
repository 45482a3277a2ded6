"""Child process in the environment of a cell: it runs cases of chunk files, and writes a line before and after each case.

A request is a line {"path", "start", "shim", "form"}. Answers: {"begin": index}, {"index", "kind", "detail", "output"}, and
{"end": true} after the last case.
"""

import json
import runpy
import sys
from pathlib import Path

_MATRIX = Path(__file__).resolve().parents[2]
runpy.run_path(str(_MATRIX / "by_path.py"))["import_package"](_MATRIX)

from matrix.fuzz.answers import open_answers  # noqa: E402 (found once `matrix` is)
from matrix.fuzz.chunks import read_chunk  # noqa: E402 (found once `matrix` is)
from matrix.fuzz.execution import execute  # noqa: E402 (found once `matrix` is)


def main() -> None:
    """Read requests from the standard input, run their cases and answer with lines of JSON, until the input ends.

    The first line answers no request: it has the versions of the library and of Python.
    """
    answer = open_answers()
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
