"""Probe the kernels of the installed TFLite runtime: which operators and types work.

    python -m matrix.probes.tflite_kernels probe > seen.json        in each environment
    python -m matrix.probes.tflite_kernels table oldest.json … newest.json > kernel_facts.py

A use (operator, feature, type) works if the runtime loads and runs it and returns numpy's numbers, with its default
delegate and without. A kernel may end the process. So each operator is probed in a forked process, and in another one
after each crash.
"""

import importlib
import itertools
import json
import os
import pathlib
import sys
from typing import Any, Dict, Iterator, List, Set, Tuple

import numpy as np
from onnx_compat_tflite.flatbuffer.names import OPERATORS

from matrix.probes import tflite_cases, tflite_cases_nn, tflite_cases_reduce, tflite_cases_shape

CASES = tflite_cases.CASES
_ = tflite_cases_nn, tflite_cases_reduce, tflite_cases_shape


def import_runtime() -> Any:
    """Return the interpreter module of ai-edge-litert, or else of tflite-runtime.

    Raises SystemExit if neither is installed.
    """
    for name in ("ai_edge_litert.interpreter", "tflite_runtime.interpreter"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise SystemExit("No TFLite runtime is installed here. Install ai-edge-litert or tflite-runtime.")


def try_case(module: Any, operator: str, case: Any, resolver: str) -> str:
    """Run a case, and return the answer as text: `ok`, `ok below the version`, `wrong` or `refused: <message>`.

    The operator has the version that its types require; if the runtime does not load it, the highest from 7 to 1 that
    it loads. The answer is then `ok below the version` in place of `ok`.

    - module: the interpreter module of the runtime.
    - resolver: the name of a member of OpResolverType, which decides whether the default delegate is used.
    """
    note = "ok"
    for version in [None, *range(7, 0, -1)]:
        try:
            return run_model(module, tflite_cases.build(operator, case, version), case, resolver, note)
        except (RuntimeError, ValueError, TypeError, SystemError) as error:
            message = " ".join(str(error).split())
            if "Didn't find op" not in message:
                return "refused: " + message[:160]
            note = "ok below the version"
    return "refused: the operator is not known"


def run_model(module: Any, data: bytes, case: Any, resolver: str, note: str) -> str:
    """Run the .tflite file `data` on the inputs of a case. Return `note` if it has the expected outputs, else `wrong`.

    The errors of the runtime are not caught.
    """
    options = {"experimental_op_resolver_type": getattr(module.OpResolverType, resolver)}
    interpreter = module.Interpreter(model_content=data, **options)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), case.inputs):
        if np.size(value):
            interpreter.set_tensor(detail["index"], np.asarray(value))
    interpreter.invoke()
    results = [read_output(interpreter, detail) for detail in interpreter.get_output_details()]
    return note if all(is_close(a, np.asarray(b)) for a, b in zip(results, case.outputs)) else "wrong"


def read_output(interpreter: Any, detail: Any) -> Any:
    """Return the array of an output. Old runtimes cannot return an array without elements, so it is created here."""
    shape = tuple(detail["shape"])
    return np.empty(shape, detail["dtype"]) if 0 in shape else interpreter.get_tensor(detail["index"])


def is_close(actual: Any, expected: Any) -> bool:
    """Whether two arrays have the same dtype and shape and agree: floats within 1e-5 (float16: 1e-2), else exactly."""
    if actual.shape != expected.shape:
        return False
    if expected.dtype == object:
        return [bytes(a) for a in actual.reshape(-1)] == [str(b).encode() for b in expected.reshape(-1)]
    if actual.dtype != expected.dtype:
        return False
    if expected.dtype.kind not in "fc":
        return bool(np.array_equal(actual, expected))
    slack = 1e-2 if expected.dtype == np.float16 else 1e-5
    return bool(np.allclose(actual, expected, rtol=slack, atol=slack, equal_nan=True))


Use = Tuple[str, str, str]


def probe_uses(uses: List[Use], resolver: str) -> Dict[Use, str]:
    """Return use -> answer of `try_case`, from a forked process.

    A use that ends the process has the answer `crash`; a new process continues after it.
    """
    answers: Dict[Use, str] = {}
    while len(answers) < len(uses):
        unanswered = uses[len(answers) :]
        answers.update(zip(unanswered, _probe_in_child(unanswered, resolver)))
        if len(answers) < len(uses):
            answers[uses[len(answers)]] = "crash"
    return answers


def _probe_in_child(uses: List[Use], resolver: str) -> List[str]:
    """Probe uses in a forked process. Return their answers in order, up to the use that ended the process.

    The answer of an unexpected exception is `probe error: <exception>`.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        for operator, feature, dtype in uses:
            try:
                with np.errstate(all="ignore"):
                    answer = try_case(import_runtime(), operator, CASES[operator, feature][1](dtype), resolver)
            except BaseException as error:  # noqa: BLE001 - any exception is the answer of this use
                answer = "probe error: %r" % error
            os.write(writing, answer.replace("\n", " ").encode("utf-8", "replace")[:400] + b"\n")
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        lines = pipe.read().decode("utf-8", "replace").split("\n")[:-1]
    os.waitpid(child, 0)
    return lines


def probe() -> Dict[str, Dict[str, str]]:
    """Return `operator|feature` -> dtype -> answer, of all cases in this runtime.

    A use that works without a delegate is also tried with the default delegate. If that answer differs, it is returned
    with the prefix `with the delegate `.
    """
    import_runtime()
    answers: Dict[str, Dict[str, str]] = {}
    for operator, group in itertools.groupby(sorted(CASES), key=lambda use: use[0]):
        uses = [(operator, feature, dtype) for _, feature in group for dtype in CASES[operator, feature][0]]
        plain = probe_uses(uses, "BUILTIN_WITHOUT_DEFAULT_DELEGATES")
        delegated = probe_uses([use for use in uses if plain[use].startswith("ok")], "AUTO")
        for use in uses:
            answer = delegated.get(use, plain[use])
            summary = plain[use] if answer == plain[use] else "with the delegate " + answer
            answers.setdefault("%s|%s" % use[:2], {})[use[2]] = summary
    return answers


def probe_versions() -> Dict[str, Tuple[int, int]]:
    """Return operator -> (lowest version, highest version) that this runtime loads, of the versions 1 to 15.

    Operators that it does not load in any version are absent.
    """
    module, result = import_runtime(), {}
    for name in OPERATORS.names:
        accepted = [version for version in range(1, 16) if _loads(module, name, version)]
        if accepted:
            result[name] = (min(accepted), max(accepted))
    return result


def _loads(module: Any, name: str, version: int) -> bool:
    """Whether the runtime loads a file with an operator in this version. An error of another kind counts as loaded."""
    from onnx_compat_tflite import flatbuffer as fb

    tensor = fb.TensorSpec("t", "float32", (1,))
    graph = fb.SubGraph([tensor], [fb.OperatorSpec(name, [0], [0], version=version)], [0], [0])
    try:
        module.Interpreter(model_content=fb.to_bytes(fb.ModelSpec([graph])))
    except (RuntimeError, ValueError) as error:
        return not any(sign in str(error) for sign in ("Didn't find op", "out of range", "nresolved"))
    return True


HEADER = '''"""Kernels of the TFLite runtimes, as probed. Printed by `python -m matrix.probes.tflite_kernels table`: do not edit.

VERSIONS: the highest version of each op that the runtimes load; 0: none. Runtimes of equal versions share a column; the oldest
are in column 0.
USES: an op, its uses that give the same answer, and the dtypes that work. "dtype:3" works from column 3 of VERSIONS on.
"""

__all__ = ["USES", "VERSIONS"]

VERSIONS = """'''


def table(paths: List[str]) -> Iterator[str]:
    """Yield the source text of the module `kernel_facts`, in pieces that newlines join.

    `paths`: the files that the command `probe` wrote, one for each runtime, the oldest runtime first. The module has
    the texts VERSIONS and USES, which its docstring explains (see `HEADER`).

    - VERSIONS: a line for each operator, with its highest version in each column. A column is a group of runtimes.
    - USES: a line for each operator and its features with equal dtypes: "ADD: plain, rank 5: float32 int8:2". The
      dtypes are those that work in the newest runtimes; `int8:2` works from column 2 on.
    """
    groups = _group_by_versions([json.loads(pathlib.Path(path).read_text()) for path in paths])
    yield HEADER
    for name in OPERATORS.names:
        highest = [group[0]["versions"].get(name, (0, 0))[1] for group in groups]
        if any(highest) and name != "CUSTOM":
            yield " ".join([name, *map(str, highest)])
    yield from ('"""', "", 'USES = """')
    for operator, uses in itertools.groupby(sorted(CASES), key=lambda use: use[0]):
        alike: Dict[str, List[str]] = {}
        for use in uses:
            types = [_format_type(groups, use, dtype) for dtype in tflite_cases.EVERY]
            alike.setdefault(" ".join(filter(None, types)), []).append(use[1])
        for answer, features in alike.items():
            if answer:
                yield "%s: %s: %s" % (operator, ", ".join(feature or "plain" for feature in features), answer)
    yield '"""'


def _group_by_versions(runtimes: List[Any]) -> List[List[Any]]:
    """Return groups of consecutive runtimes that load the same versions of all operators: the columns of the table.

    `runtimes`: the JSON contents of the files of `probe`. The versions identify the group of a process, not its
    runtime.
    """
    groups: List[List[Any]] = []
    for runtime in runtimes:
        if groups and groups[-1][0]["versions"] == runtime["versions"]:
            groups[-1].append(runtime)
        else:
            groups.append([runtime])
    return groups


def _format_type(groups: List[List[Any]], use: Tuple[str, str], dtype: str) -> str:
    """Return a dtype with the first column from which on a use works, `int8:2`; without a number for column 0.

    Returns "" if the use does not work in all runtimes of the last column.
    """
    works = [all(dtype in _accepted_types(runtime["uses"], *use) for runtime in group) for group in groups]
    first = max([step for step, good in enumerate(works) if not good], default=-1) + 1
    return "" if first == len(works) else "%s:%d" % (dtype, first) if first else dtype


def _accepted_types(uses: Any, operator: str, feature: str) -> Set[str]:
    """Return the dtypes for which a use works. `uses`: the result of `probe` in one runtime.

    A dtype that fails in the plain use of the operator is left out of every use. A feature may hide an error of the
    kernel: an array without elements has no wrong element.
    """
    answers = uses["%s|%s" % (operator, feature)]
    plain = uses.get("%s|" % operator, {})
    return {dtype for dtype, answer in answers.items() if answer == "ok" and plain.get(dtype, "ok") == "ok"}


def main(arguments: List[str]) -> None:
    """Write the probe of this runtime as JSON, or the module `kernel_facts` from several probes, to standard output.

    Raises SystemExit with the usage for other arguments.
    """
    if arguments == ["probe"]:
        json.dump({"versions": probe_versions(), "uses": probe()}, sys.stdout, indent=1)
    elif arguments[:1] == ["table"]:
        sys.stdout.write("\n".join(table(arguments[1:])) + "\n")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
