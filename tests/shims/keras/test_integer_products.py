"""Products of integer matrices as `.keras` files: factors that wrap, and factors whose numbers are known to be small."""

from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_compat_keras.features import back_end

import onnx_compat
from onnx_compat.errors import OnnxCompatError

DEPTH = 300  # 300 products of 2^16 and 2^32 exceed the 53 bits of a float64
WIDE = {"uint32": TensorProto.UINT32, "int32": TensorProto.INT32}
node = helper.make_node


def factor(kind: str, wide: int) -> List[Any]:
    """Return nodes that compute a factor `f` of the type `wide` from `a` and `b`. Their types are narrow."""
    casts = [node("Cast", [name], ["wide_" + name], to=wide) for name in "ab"]
    return {
        "cast": [node("Cast", ["a"], ["f"], to=wide)],
        "difference": [*casts, node("Sub", ["wide_a", "wide_b"], ["f"])],
        "sum": [*casts, node("Add", ["wide_a", "wide_b"], ["f"])],
        "sum with the largest": [casts[0], node("Add", ["wide_a", "largest"], ["f"])],
        "moved difference": [
            *casts,
            node("Sub", ["wide_b", "wide_a"], ["d"]),
            node("Reshape", ["d", "shape"], ["r"]),
            node("Transpose", ["r"], ["f"], perm=[0, 1]),
        ],
    }[kind]


@pytest.mark.parametrize("narrow", ["uint8", "int8"])
@pytest.mark.parametrize("wide", sorted(WIDE))
@pytest.mark.parametrize("kind", ["cast", "difference", "sum", "sum with the largest", "moved difference"])
def test_a_product_of_integers_is_exact(kind: str, wide: str, narrow: str, tmp_path: Path) -> None:
    """A factor of uint32 wraps below 0: its numbers are not small, although they are differences of small numbers."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(narrow))
    ports = [helper.make_tensor_value_info(name, element, [4, DEPTH]) for name in "ab"]
    ports.append(helper.make_tensor_value_info("w", WIDE[wide], [DEPTH, 5]))
    weights = {"largest": np.array(np.iinfo(wide).max, wide), "shape": np.array([4, DEPTH])}
    graph = helper.make_graph(
        [*factor(kind, WIDE[wide]), node("MatMul", ["f", "w"], ["y"])], "product", ports,
        [helper.make_tensor_value_info("y", WIDE[wide], [4, 5])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    random = np.random.RandomState(0)
    ends, all_numbers = np.iinfo(narrow), np.iinfo(wide)
    feed = {name: random.randint(ends.min, ends.max + 1, (4, DEPTH)).astype(narrow) for name in "ab"}
    feed["w"] = random.randint(all_numbers.min, all_numbers.max, (DEPTH, 5), np.int64).astype(wide)
    expected = onnx_compat.run(model, feed, shim="reference")["y"]
    try:
        path = onnx_compat.convert(model, tmp_path / "model.keras", shim="keras")
    except OnnxCompatError:
        assert back_end() != "tensorflow", "TensorFlow composes the product of exact products"
        return
    np.testing.assert_array_equal(onnx_compat.load_converted(path, "keras").run(feed)[0], expected)
