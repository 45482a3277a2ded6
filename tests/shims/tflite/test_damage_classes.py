"""Files that an operator, an operand or a name was taken from: each is refused before the interpreter reads it.

Several such files ended the process: an operator without inputs, an omitted operand, and a name that is not UTF-8. The damage is
made at every place of files of several models.
"""

import copy
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import pytest
from onnx import TensorProto, helper
from onnx_compat_tflite import flatbuffer as fb

import onnx_compat
from onnx_compat.errors import InvalidModelError

FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL
#: The operators whose last operand, the bias, may be omitted.
_WITH_BIAS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def model(operator: str, inputs: Dict[str, List[int]], opset: int, dtype: int = FLOAT, **attributes: Any) -> Any:
    node = helper.make_node(operator, list(inputs), ["y"], **attributes)
    ports = [helper.make_tensor_value_info(name, dtype, shape) for name, shape in inputs.items()]
    graph = helper.make_graph([node], "g", ports, [helper.make_empty_tensor_value_info("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


MODELS = {
    "Shrink": model("Shrink", {"x": [5]}, 9, lambd=1.5),
    "LayerNormalization": model("LayerNormalization", {"x": [2, 3, 5], "w": [5], "b": [5]}, 17),
    "RNN": model("RNN", {"x": [3, 1, 2], "w": [1, 4, 2], "r": [1, 4, 4]}, 14, hidden_size=4),
    "Attention": model(
        "Attention", {"q": [2, 4, 24], "k": [2, 6, 24], "v": [2, 6, 30], "mask": [4, 6]}, 23, q_num_heads=3,
        kv_num_heads=3,
    ),
    "Or": model("Or", {"x": [3, 4, 5], "z": [4, 5]}, 7, BOOL),
}  # fmt: skip


def without_inputs(graph: Any) -> Iterator[Callable[[Any], None]]:
    """Yield functions that remove all inputs of an operator, for each operator."""
    for position in range(len(graph.operators)):
        yield lambda damaged, k=position: damaged.operators[k].inputs.clear()


def without_operand(graph: Any) -> Iterator[Callable[[Any], None]]:
    """Yield functions that omit an operand, for each operand that no operator can do without."""
    for position, operator in enumerate(graph.operators):
        operands = [k for k, tensor in enumerate(operator.inputs) if tensor is not None]
        for index in operands[: 2 if operator.builtin in _WITH_BIAS else None]:

            def change(damaged: Any, position: int = position, index: int = index) -> None:
                damaged.operators[position].inputs[index] = None

            yield change


def name_that_is_no_text(graph: Any) -> Iterator[Callable[[Any], None]]:
    """Yield functions that put a byte that is not UTF-8 into the name of a tensor, for each tensor."""
    for index, tensor in enumerate(graph.tensors):
        middle = len(tensor.name) // 2

        def change(damaged: Any, index: int = index, name: str = tensor.name, middle: int = middle) -> None:
            damaged.tensors[index].name = name[:middle] + "\udcc9" + name[middle:]

        yield change


DAMAGES: List[Tuple[Callable[[Any], Iterator[Callable[[Any], None]]], str]] = [
    (without_inputs, "inputs|input"),
    (without_operand, "has no input"),
    (name_that_is_no_text, "not UTF-8"),
]


@pytest.mark.parametrize(("damages", "reason"), DAMAGES, ids=[damages.__name__ for damages, _ in DAMAGES])
@pytest.mark.parametrize("name", MODELS)
def test_a_damaged_file_is_refused(name: str, damages: Any, reason: str, tmp_path: Path) -> None:
    spec = fb.read(onnx_compat.convert(MODELS[name], tmp_path / "m.tflite"))
    changes = list(damages(spec.subgraphs[0]))
    assert changes
    for change in changes:
        damaged = copy.deepcopy(spec)
        change(damaged.subgraphs[0])
        fb.write(damaged, tmp_path / "damaged.tflite")
        with pytest.raises(InvalidModelError, match=reason):
            onnx_compat.load_converted(tmp_path / "damaged.tflite")
