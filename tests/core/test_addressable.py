"""Tensors beyond the address space are refused by the trace: TensorFlow ends the process for their number of elements."""

from typing import Any, Dict, List

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_compat
from onnx_compat import limits

FILTER = numpy_helper.from_array(np.zeros((1, 1, 3, 3), np.float32), "w")


def build(operator: str, inputs: List[str], sizes: List[Any], attributes: Dict[str, Any], *constants: Any) -> Any:
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, *sizes])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(
        [helper.make_node(operator, inputs, ["y"], "n", **attributes)], "g", ports, outputs, constants
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def vector(*values: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values), "s")


GIANTS = {
    "conv": ("Conv", ["x", "w"], {"pads": [2**30] * 4}, FILTER),
    "strided conv": ("Conv", ["x", "w"], {"pads": [2**30] * 4, "strides": [2**30] * 2}, FILTER),
    "padded floats": ("Conv", ["x", "w"], {"pads": [2**22] * 4, "strides": [2**22] * 2}, FILTER),
    "transposed conv": (
        "ConvTranspose",
        ["x", "w"],
        {"strides": [2**31, 2**31], "output_padding": [2**30] * 2},
        FILTER,
    ),
    "max pool": ("MaxPool", ["x"], {"kernel_shape": [2**30, 2**30], "pads": [2**29] * 4}),
    "pad": ("Pad", ["x", "s"], {}, vector(*[2**40] * 8)),
    "tile": ("Tile", ["x", "s"], {}, vector(*[2**40] * 4)),
    "expand": ("Expand", ["x", "s"], {}, vector(2**40, 2**40, 4, 4)),
}


#: The least result of an open size is small for the others.
OPEN = ("conv", "strided conv", "padded floats", "max pool", "pad")


@pytest.mark.parametrize(
    ("name", "sizes"), [(name, [4, 4]) for name in GIANTS] + [(name, ["h", "w"]) for name in OPEN], ids=str
)
def test_a_giant_is_an_error_of_its_node(name: str, sizes: List[Any]) -> None:
    operator, inputs, attributes, *constants = GIANTS[name]
    model = build(operator, inputs, sizes, attributes, *constants)
    with pytest.raises(onnx_compat.OnnxCompatError) as raised:
        onnx_compat.prepare(model, shim="reference", fallback=False)
    assert raised.value.node == "n"
    assert "more than a process can address" in raised.value.reason


def test_large_tensors_that_can_be_addressed() -> None:
    model = build("Pad", ["x", "s"], [4, 4], {}, vector(0, 0, 0, 0, 0, 0, 2**20, 2**20))
    with limits.override(tensor_elements=2**45):
        assert onnx_compat.support(model, shim="reference")[0].status == "composed"
