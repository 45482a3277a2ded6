"""Every primitive is written for the oldest operator set in dtypes that few of its kernels take."""

from pathlib import Path
from typing import List

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from matrix.by_path import import_package
from onnx_compat.errors import UnsupportedError
from onnx_compat.ir.dtypes import DType
from onnx_compat.onnx_shim.shim import OnnxShim
from onnx_compat.primitives import PRIMITIVES

pytest.importorskip("onnxruntime")
import_package(Path(__file__).parents[1] / "shims" / "primitives" / "cases")

from cases import Case, batches, dtypes_of  # noqa: E402
from cases.comparison import compare  # noqa: E402

OPSET = 9
#: These dtypes are cast to wider ones, or computed in parts. test_onnx_shim_opsets.py has the first dtype of a primitive.
DTYPES = ("float64", "uint64", "int8", "float16")

#: (primitive, dtype) -> the operator that no composition replaces in opset 9, or for a dtype in onnxruntime.
GAPS = {
    **{(name, "float64"): "no Conv" for name in ("conv", "conv_transpose", "depthwise_conv")},
    **{("top_k", dtype): "no TopK" for dtype in ("float64", "float16")},
    **{("to_text", dtype): "no Cast to texts" for dtype in ("float64", "float16")},
}
PAIRS = [(name, dtype.name) for name in sorted(PRIMITIVES) for dtype in dtypes_of(name) if dtype.name in DTYPES]


@pytest.mark.parametrize(("name", "dtype"), PAIRS)
def test_a_primitive_is_written_for_other_dtypes(name: str, dtype: str) -> None:
    shim = OnnxShim(OPSET)

    @settings(
        max_examples=1,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(batches(name, DType.of(dtype)))
    def agrees(cases: List[Case]) -> None:
        compare(shim, cases)

    if (name, dtype) in GAPS:
        with pytest.raises(UnsupportedError, match=GAPS[name, dtype]):
            agrees()
    else:
        agrees()


def test_every_gap_is_of_a_pair_that_is_tested() -> None:
    assert set(GAPS) <= set(PAIRS)
