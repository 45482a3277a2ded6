"""Every primitive is written for every operator set from 9 on, and onnxruntime then gives the result of the reference."""

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

OPSETS = (9, 11, 13, 15, 17, 18, 21, 23, 25)
#: Each primitive is written with the first of these dtypes that it takes: the other dtypes are cast to them.
DTYPES = ("float32", "int64", "uint32", "bool", "string", "uint8")

#: Primitive -> the first operator set that can express it, and why no older one can. None: no kernel of onnxruntime.
GAPS = {
    "image_decode": (99, "onnxruntime has no kernel for ImageDecoder"),
    "string_concat": (20, "StringConcat is an operator of opset 20"),
    "string_lower": (99, "StringNormalizer needs the locale en_US.UTF-8 on the machine"),
    "string_match": (20, "RegexFullMatch is an operator of opset 20"),
    "string_rank": (11, "Unique is an operator of opset 11"),
    "string_split": (99, "StringSplit is an operator of opset 20, and onnxruntime splits at blanks only"),
    "string_upper": (99, "StringNormalizer needs the locale en_US.UTF-8 on the machine"),
    "to_text": (99, "the digits of a float are not defined"),
    "top_k": (
        10,
        "the number of elements is an attribute of TopK before opset 10, and is computed in one of the cases",
    ),
}


def dtype_of(name: str) -> DType:
    names = [dtype.name for dtype in dtypes_of(name)]
    return DType.of(next(candidate for candidate in DTYPES if candidate in names))


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_every_primitive_is_written_for_an_opset(name: str, opset: int) -> None:
    shim = OnnxShim(opset)

    @settings(
        max_examples=1,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(batches(name, dtype_of(name)))
    def agrees(cases: List[Case]) -> None:
        compare(shim, cases)

    if opset < GAPS.get(name, (0, ""))[0]:
        with pytest.raises(UnsupportedError):
            agrees()
    else:
        agrees()
