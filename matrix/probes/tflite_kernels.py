"""Asks the TFLite runtime that is installed here which kernels it has: operator by operator, type by type.

    python -m matrix.probes.tflite_kernels probe > seen.json        in each environment
    python -m matrix.probes.tflite_kernels table oldest.json … newest.json > kernel_facts.py

A use counts as working when the runtime loads it, runs it, and gives numpy's numbers, with its default delegate and
without. Kernels may end the process, so each operator is asked in a child of its own.
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


def ask(operator: str, feature: str, dtype: str, resolver: str) -> str:
    """One use in a child process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            with np.errstate(all="ignore"):
                answer = attempt(runtime(), operator, CASES[operator, feature][1](dtype), resolver)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is this use's answer
            answer = "probe error: %r" % error
        os.write(writing, answer.encode("utf-8", "replace")[:400])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    return answer or "crash"


def probe() -> Dict[str, Dict[str, str]]:
    """Answers by use and type; the worse one of the two ways to run. A use is written `operator|feature`."""
    runtime()
    seen: Dict[str, Dict[str, str]] = {}
    for (operator, feature), (dtypes, _make) in CASES.items():
        answers = seen.setdefault("%s|%s" % (operator, feature), {})
        for dtype in dtypes:
            plain = ask(operator, feature, dtype, "BUILTIN_WITHOUT_DEFAULT_DELEGATES")
            delegated = ask(operator, feature, dtype, "AUTO") if plain.startswith("ok") else plain
            answers[dtype] = plain if delegated == plain else "with the delegate " + delegated
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

VERSIONS: the highest version of each operator that the oldest runtime loads (0: none), and the newest.
USES: an operator, the features that behave alike, the types that work on every runtime | those that newer ones add.
"""

__all__ = ["USES", "VERSIONS"]

VERSIONS = """'''


def table(paths: List[str]) -> Iterator[str]:
    """The lines of `kernel_facts`, from what was seen on each runtime, the oldest first."""
    seen = [json.loads(pathlib.Path(path).read_text()) for path in paths]
    yield HEADER
    for name in OPERATORS.names:
        highest = [runtime["versions"].get(name, (0, 0))[1] for runtime in seen]
        if any(highest) and name != "CUSTOM":
            yield "%s %d %d" % (name, min(highest), highest[-1])
    yield from ('"""', "", 'USES = """')
    for operator, uses in itertools.groupby(sorted(CASES), key=lambda use: use[0]):
        groups: Dict[str, List[str]] = {}
        for use in uses:
            accepted = [_accepted(runtime["uses"], *use) for runtime in seen]
            common = set.intersection(*accepted)
            newer = {dtype for dtype in accepted[-1] - common if not _lied(seen, "%s|%s" % use, dtype)}
            if common or newer:
                groups.setdefault(("%s | %s" % (_listed(common), _listed(newer))).strip(), []).append(use[1])
        for answer, features in groups.items():
            yield "%s: %s: %s" % (operator, ", ".join(feature or "plain" for feature in features), answer)
    yield '"""'


def _accepted(uses: Any, operator: str, feature: str) -> Set[str]:
    """The types that work; what the plain use gets wrong is not made right by a feature, only hidden (no element, one)."""
    answers = uses["%s|%s" % (operator, feature)]
    plain = uses.get("%s|" % operator, {})
    return {dtype for dtype, answer in answers.items() if answer == "ok" and plain.get(dtype, "ok") == "ok"}


def _lied(seen: List[Any], use: str, dtype: str) -> bool:
    """Whether a runtime takes this use and gives wrong numbers, so that trying it there tells nothing."""
    return any(runtime["uses"][use][dtype] == "wrong" for runtime in seen[:-1])


def _listed(dtypes: Set[str]) -> str:
    return " ".join(dtype for dtype in tflite_cases.EVERY if dtype in dtypes)


def main(arguments: List[str]) -> None:
    if arguments == ["probe"]:
        json.dump({"versions": versions(), "uses": probe()}, sys.stdout, indent=1)
    elif arguments[:1] == ["table"]:
        sys.stdout.write("\n".join(table(arguments[1:])) + "\n")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
