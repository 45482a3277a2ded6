"""Every primitive as a functional Keras model, for every dtype: it equals the reference, or is refused with its name."""

from pathlib import Path
from typing import Any, Callable, List, Sequence, Tuple

import numpy as np
import pytest
from cases import CASES, Case, draw_cases, dtypes_of
from cases.making import as_list
from onnx_compat_keras import SHIM
from onnx_compat_keras.functional import functional
from onnx_compat_keras.saving import load, save

from onnx_compat import primitives
from onnx_compat.errors import UnsupportedError
from onnx_compat.ir.dtypes import DType
from onnx_compat.primitives import PRIMITIVES
from onnx_compat.reference.shim import SHIM as REFERENCE
from onnx_compat.shim.interface import Port, Program
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import Tensor

PAIRS = [(name, dtype) for name in sorted(PRIMITIVES) if name in CASES for dtype in dtypes_of(name)]
#: What a functional model must be able to say, at least in one case, of float32.
EXPECTED = (
    "abs add avg_pool broadcast_to cast ceil clip concat conv conv_transpose cos cumsum depthwise_conv div equal erf exp "
    "floor less log log_softmax matmul max_pool maximum minimum mul neg pad pow reduce_max reduce_mean reduce_min "
    "reduce_sum reshape sigmoid sin slice softmax sqrt sub take tanh tile transpose where"
).split()


@pytest.mark.parametrize(("name", "dtype"), PAIRS, ids=["%s-%s" % (name, dtype.name) for name, dtype in PAIRS])
def test_equals_the_reference_or_is_refused(name: str, dtype: DType, call_model: Any) -> None:
    cases = [
        case
        for case in draw_cases(name, dtype, 2)
        if case.inputs and case.check is None and all(case_input.array.size for case_input in case.inputs)
    ]
    outcomes = _compare_with_reference(cases, call_model) if cases else []
    if dtype.name == "float32" and name in EXPECTED:
        assert "equal" in outcomes, outcomes


@pytest.mark.parametrize("number", [2**53 - 1, 2**53 + 1, 2**63 - 1, -(2**53) - 1, -(2**63)])
def test_pads_with_every_integer_exactly(number: int, call_model: Any, tmp_path: Path) -> None:
    x = np.array([[number, 0, -1], [1, 2, 2**53 + 1]], np.int64)
    constant = np.array(number, np.int64)
    program = _record_int64(lambda x: primitives.pad(x, (1, 0), (0, 2), value=constant))
    expected = np.pad(x, [(1, 0), (0, 2)], constant_values=number)
    np.testing.assert_array_equal(call_model(functional(program), [x])[0], expected)
    np.testing.assert_array_equal(_save_and_run(program, x, tmp_path), expected)


def test_a_file_keeps_the_dtype_of_integer_arithmetic(tmp_path: Path) -> None:
    x = np.array([[2**40, 0, -(2**62)], [1, 2, 3]], np.int64)
    program = _record_int64(lambda x: primitives.add(x, np.array(2**41, np.int64)))
    np.testing.assert_array_equal(_save_and_run(program, x, tmp_path), x + 2**41)


def test_a_file_holds_an_empty_slice(tmp_path: Path) -> None:
    x = np.arange(6).reshape(2, 3)
    program = _record_int64(lambda x: primitives.concat([primitives.slice_axis(x, 1, 2, 2), x], 1))
    np.testing.assert_array_equal(_save_and_run(program, x, tmp_path), x)


def _record_int64(apply: Callable[[Tensor], Tensor]) -> Program:
    return record_program(lambda x: [apply(x)], [Port("x", DType.of("int64"), (None, 3))], SHIM.emitter())


def _save_and_run(program: Program, x: np.ndarray, folder: Path) -> np.ndarray:
    path = str(folder / "model.keras")
    save(program, path)
    compiled, _, (output,) = load(path)
    (result,) = compiled.run([x])
    assert output.dtype.name == result.dtype.name == "int64"
    return result


def _compare_with_reference(cases: Sequence[Case], call_model: Any) -> List[str]:
    """Return "equal" or the reason of the refusal for each case. Raise AssertionError for a case that is not equal.

    One model has all cases, unless Keras refuses one of them: Keras takes longer to build and to call many models.
    """
    try:
        model = functional(_record(SHIM, cases, symbolic=True)[0])
    except UnsupportedError as error:
        if len(cases) == 1:
            return [error.reason]
        return [outcome for case in cases for outcome in _compare_with_reference([case], call_model)]
    arrays = [case_input.array for case in cases for case_input in case.inputs]
    program, owners = _record(REFERENCE, cases, symbolic=False)
    expected = REFERENCE.compile(program).run([np.array(array) for array in arrays])
    got = call_model(model, arrays)
    assert len(got) == len(expected) == len(owners)
    for (case, k), actual, want in zip(owners, got, expected):
        _assert_equal(case, k, actual, want)
    return ["equal"] * len(cases)


def _assert_equal(case: Case, k: int, got: np.ndarray, want: np.ndarray) -> None:
    """Compare the result `k` of a case, without the elements that the primitive leaves open."""
    kept = np.ones(want.shape, bool) if k or case.ignored is None else ~np.asarray(case.ignored)
    assert got.dtype == want.dtype, case.description
    assert got.shape == want.shape, case.description
    if want.size and want.dtype.kind in "fc":
        close = {"float16": 4e-3, "float64": 1e-9}.get(want.dtype.name, 4e-5)
        np.testing.assert_allclose(got[kept], want[kept], close, close, err_msg=case.description)
    else:
        np.testing.assert_array_equal(got[kept], want[kept], case.description)


def _record(shim: Any, cases: Sequence[Case], symbolic: bool) -> Tuple[Program, List[Tuple[Case, int]]]:
    """Return the program of all cases, and for each of its results (case, number of the result in the case)."""
    ports = []
    for number, case in enumerate(cases):
        for position, case_input in enumerate(case.inputs):
            sizes: List[Any] = list(case_input.array.shape)
            for axis, size in enumerate(sizes):
                if symbolic and case.flavour.sizes != "fixed" and axis not in case_input.known and size != 1:
                    sizes[axis] = "c%d_n%d" % (number, size) if case.flavour.sizes == "named" else None
            ports.append(Port("i%d_%d" % (number, position), case_input.dtype, tuple(sizes)))
    owners: List[Tuple[Case, int]] = []

    def body(*tensors: Tensor) -> List[Tensor]:
        waiting, results = iter(tensors), []
        for case in cases:
            mine = as_list(case.apply(*(next(waiting) for _ in case.inputs)))
            owners.extend((case, k) for k in range(len(mine)))
            results += mine
        return results

    return record_program(body, ports, shim.emitter()), owners
