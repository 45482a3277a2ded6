"""Asks the TFLite runtime that is installed here which kernels it has: operator by operator, type by type.

    python -m matrix.probes.tflite_kernels probe > seen.json        in each environment
    python -m matrix.probes.tflite_kernels table oldest.json … newest.json > kernel_facts.py

A use counts as working when the runtime loads it, runs it, and gives numpy's numbers, with its default delegate and
without. Kernels may end the process, so each operator is asked in a child of its own, in a new one after each crash.
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

from matrix.probes import tflite_cases, tflite_cases_nn, tflite_cases_shape

CASES = tflite_cases.CASES
_ = tflite_cases_nn, tflite_cases_shape


def runtime() -> Any:
    for name in ("ai_edge_litert.interpreter", "tflite_runtime.interpreter"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise SystemExit("no TFLite runtime is installed here")


def attempt(module: Any, operator: str, made: Any, resolver: str) -> str:
    """`ok`, `ok below the version` (with a lower operator version than the rules ask for), `wrong …` or `refused: …`."""
    note = "ok"
    for version in [None, *range(7, 0, -1)]:
        try:
            return run(module, tflite_cases.build(operator, made, version), made, resolver, note)
        except (RuntimeError, ValueError, TypeError, SystemError) as error:
            message = " ".join(str(error).split())
            if "Didn't find op" not in message:
                return "refused: " + message[:160]
            note = "ok below the version"
    return "refused: the operator is not known"


def run(module: Any, data: bytes, made: Any, resolver: str, note: str) -> str:
    how = {"experimental_op_resolver_type": getattr(module.OpResolverType, resolver)}
    interpreter = module.Interpreter(model_content=data, **how)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), made.inputs):
        if np.size(value):
            interpreter.set_tensor(detail["index"], np.asarray(value))
    interpreter.invoke()
    found = [result(interpreter, detail) for detail in interpreter.get_output_details()]
    return note if all(same(a, np.asarray(b)) for a, b in zip(found, made.outputs)) else "wrong"


def result(interpreter: Any, detail: Any) -> Any:
    """An output's array. Old runtimes neither take nor give an array without elements."""
    shape = tuple(detail["shape"])
    return np.empty(shape, detail["dtype"]) if 0 in shape else interpreter.get_tensor(detail["index"])


def same(found: Any, expected: Any) -> bool:
    if found.shape != expected.shape:
        return False
    if expected.dtype == object:
        return [bytes(a) for a in found.reshape(-1)] == [str(b).encode() for b in expected.reshape(-1)]
    if found.dtype != expected.dtype:
        return False
    if expected.dtype.kind not in "fc":
        return bool(np.array_equal(found, expected))
    slack = 1e-2 if expected.dtype == np.float16 else 1e-5
    return bool(np.allclose(found, expected, rtol=slack, atol=slack, equal_nan=True))


Use = Tuple[str, str, str]


def ask(uses: List[Use], resolver: str) -> Dict[Use, str]:
    """Answers of one child process after the other: what ends one is a crash, and the next goes on after it."""
    answers: Dict[Use, str] = {}
    while len(answers) < len(uses):
        left = uses[len(answers) :]
        answers.update(zip(left, _child(left, resolver)))
        if len(answers) < len(uses):
            answers[uses[len(answers)]] = "crash"
    return answers


def _child(uses: List[Use], resolver: str) -> List[str]:
    """The answers that a child lives to give."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        for operator, feature, dtype in uses:
            try:
                with np.errstate(all="ignore"):
                    answer = attempt(runtime(), operator, CASES[operator, feature][1](dtype), resolver)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is this use's answer
                answer = "probe error: %r" % error
            os.write(writing, answer.replace("\n", " ").encode("utf-8", "replace")[:400] + b"\n")
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        lines = pipe.read().decode("utf-8", "replace").split("\n")[:-1]
    os.waitpid(child, 0)
    return lines


def probe() -> Dict[str, Dict[str, str]]:
    """Answers by use and type; the worse one of the two ways to run. A use is written `operator|feature`."""
    runtime()
    seen: Dict[str, Dict[str, str]] = {}
    for operator, group in itertools.groupby(sorted(CASES), key=lambda use: use[0]):
        uses = [(operator, feature, dtype) for _, feature in group for dtype in CASES[operator, feature][0]]
        plain = ask(uses, "BUILTIN_WITHOUT_DEFAULT_DELEGATES")
        delegated = ask([use for use in uses if plain[use].startswith("ok")], "AUTO")
        for use in uses:
            answer = delegated.get(use, plain[use])
            kept = plain[use] if answer == plain[use] else "with the delegate " + answer
            seen.setdefault("%s|%s" % use[:2], {})[use[2]] = kept
    return seen


def versions() -> Dict[str, Tuple[int, int]]:
    """The lowest and highest version of each operator that this runtime loads."""
    module, result = runtime(), {}
    for name in OPERATORS.names:
        accepted = [version for version in range(1, 16) if _loads(module, name, version)]
        if accepted:
            result[name] = (min(accepted), max(accepted))
    return result


def _loads(module: Any, name: str, version: int) -> bool:
    from onnx_compat_tflite import flatbuffer as fb

    tensor = fb.TensorSpec("t", "float32", (1,))
    graph = fb.SubGraph([tensor], [fb.OperatorSpec(name, [0], [0], version=version)], [0], [0])
    try:
        module.Interpreter(model_content=fb.to_bytes(fb.ModelSpec([graph])))
    except (RuntimeError, ValueError) as error:
        return not any(sign in str(error) for sign in ("Didn't find op", "out of range", "nresolved"))
    return True


HEADER = '''"""What TFLite runtimes were seen to do. Printed by `python -m matrix.probes.tflite_kernels table`: do not edit.

VERSIONS: the highest version of each operator that runtimes load, the oldest first (0: none): each column is a step.
USES: an operator, the features that behave alike, the types that work; with a number: from that step on.
"""

__all__ = ["USES", "VERSIONS"]

VERSIONS = """'''


def table(paths: List[str]) -> Iterator[str]:
    """The lines of `kernel_facts`, from what was seen on each runtime, the oldest first."""
    groups = _told_apart([json.loads(pathlib.Path(path).read_text()) for path in paths])
    yield HEADER
    for name in OPERATORS.names:
        highest = [group[0]["versions"].get(name, (0, 0))[1] for group in groups]
        if any(highest) and name != "CUSTOM":
            yield " ".join([name, *map(str, highest)])
    yield from ('"""', "", 'USES = """')
    for operator, uses in itertools.groupby(sorted(CASES), key=lambda use: use[0]):
        alike: Dict[str, List[str]] = {}
        for use in uses:
            types = [_type(groups, use, dtype) for dtype in tflite_cases.EVERY]
            alike.setdefault(" ".join(filter(None, types)), []).append(use[1])
        for answer, features in alike.items():
            if answer:
                yield "%s: %s: %s" % (operator, ", ".join(feature or "plain" for feature in features), answer)
    yield '"""'


def _told_apart(seen: List[Any]) -> List[List[Any]]:
    """Runtimes that load the same versions are one step: a process cannot tell them apart."""
    groups: List[List[Any]] = []
    for runtime in seen:
        if groups and groups[-1][0]["versions"] == runtime["versions"]:
            groups[-1].append(runtime)
        else:
            groups.append([runtime])
    return groups


def _type(groups: List[List[Any]], use: Tuple[str, str], dtype: str) -> str:
    """A type and the step from which on it works; nothing where the newest runtime does not take it."""
    works = [all(dtype in _accepted(runtime["uses"], *use) for runtime in group) for group in groups]
    first = max([step for step, good in enumerate(works) if not good], default=-1) + 1
    return "" if first == len(works) else "%s:%d" % (dtype, first) if first else dtype


def _accepted(uses: Any, operator: str, feature: str) -> Set[str]:
    """The types that work; what the plain use gets wrong is not made right by a feature, only hidden (no element, one)."""
    answers = uses["%s|%s" % (operator, feature)]
    plain = uses.get("%s|" % operator, {})
    return {dtype for dtype, answer in answers.items() if answer == "ok" and plain.get(dtype, "ok") == "ok"}


def main(arguments: List[str]) -> None:
    if arguments == ["probe"]:
        json.dump({"versions": versions(), "uses": probe()}, sys.stdout, indent=1)
    elif arguments[:1] == ["table"]:
        sys.stdout.write("\n".join(table(arguments[1:])) + "\n")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
