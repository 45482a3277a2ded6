"""Every primitive as a functional Keras model, for every dtype: it equals the reference, or is refused with its name."""

from pathlib import Path
from typing import Any, Callable, List

import numpy as np
import pytest
from cases import CASES, Case, batches, dtypes_of
from cases.making import as_list
from hypothesis import HealthCheck, Phase, given, settings
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
    description: List[str] = []

    @settings(
        max_examples=2, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(batches(name, dtype))
    def agrees(cases: List[Case]) -> None:
        for case in cases:
            if case.inputs and case.check is None and all(case_input.array.size for case_input in case.inputs):
                description.append(_compare_with_reference(case, call_model))

    agrees()
    if dtype.name == "float32" and name in EXPECTED:
        assert "equal" in description, description


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


def _compare_with_reference(case: Case, call_model: Any) -> str:
    try:
        model = functional(_record(SHIM, case, symbolic=True))
    except UnsupportedError as error:
        return error.reason
    arrays = [case_input.array for case_input in case.inputs]
    expected = REFERENCE.compile(_record(REFERENCE, case, symbolic=False)).run([np.array(a) for a in arrays])
    for k, (got, want) in enumerate(zip(call_model(model, arrays), expected)):
        kept = np.ones(want.shape, bool) if k or case.ignored is None else ~np.asarray(case.ignored)
        assert got.dtype == want.dtype, case.description
        assert got.shape == want.shape, case.description
        if want.size and want.dtype.kind in "fc":
            close = {"float16": 4e-3, "float64": 1e-9}.get(want.dtype.name, 4e-5)
            np.testing.assert_allclose(got[kept], want[kept], close, close, err_msg=case.description)
        else:
            np.testing.assert_array_equal(got[kept], want[kept], case.description)
    return "equal"


def _record(shim: Any, case: Case, symbolic: bool) -> Program:
    ports = []
    for position, case_input in enumerate(case.inputs):
        sizes: List[Any] = list(case_input.array.shape)
        for axis, size in enumerate(sizes):
            if symbolic and case.flavour.sizes != "fixed" and axis not in case_input.known and size != 1:
                sizes[axis] = "n%d" % size if case.flavour.sizes == "named" else None
        ports.append(Port("i%d" % position, case_input.dtype, tuple(sizes)))
    return record_program(lambda *tensors: as_list(case.apply(*tensors)), ports, shim.emitter())
