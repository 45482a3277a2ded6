"""The variants of a case: the arguments of `prepare` in each, and the shapes that remain after `loosen_shapes`."""

from pathlib import Path
from typing import Any, List, Optional

import onnx
import pytest
from onnx import TensorProto, helper

from matrix.harness.run import run_case
from matrix.harness.variants import VARIANTS, choose_variants, loosen_shapes
from onnx_compat.simplify import simplify


def test_variants_are_found_by_name() -> None:
    assert choose_variants("") == ["recorded"]
    assert choose_variants("composed, unknown-rank") == ["composed", "unknown-rank"]
    with pytest.raises(ValueError, match="no variant 'other'"):
        choose_variants("composed other")


def model_of_all_types() -> onnx.ModelProto:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 3])
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, "n"]),
        helper.make_value_info("s", helper.make_sequence_type_proto(tensor)),
        helper.make_tensor_value_info("w", TensorProto.FLOAT, [3]),
        helper.make_tensor_value_info("scalar", TensorProto.FLOAT, []),
        helper.make_tensor_value_info("open", TensorProto.FLOAT, None),
    ]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [3], [1, 2, 3])
    middle = helper.make_tensor_value_info("m", TensorProto.FLOAT, [2, 3])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    nodes = [helper.make_node("Add", ["x", "w"], ["m"]), helper.make_node("Abs", ["m"], ["y"])]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, [output], [weight], value_info=[middle]))


@pytest.mark.parametrize("ranks", [False, True])
def test_a_loosened_model_keeps_its_dtypes_and_names(ranks: bool, tmp_path: Path) -> None:
    onnx.save(model_of_all_types(), str(tmp_path / "model.onnx"))
    graph = onnx.load_from_string(loosen_shapes(str(tmp_path / "model.onnx"), ranks)).graph
    x, s, w, scalar, unknown = (value.type for value in graph.input)
    tensors = [x.tensor_type, s.sequence_type.elem_type.tensor_type]
    assert [tensor.HasField("shape") for tensor in tensors] == [not ranks] * 2
    if not ranks:
        names = [[(dim.dim_param, dim.dim_value) for dim in tensor.shape.dim] for tensor in tensors]
        assert names == [[("x_0_0", 0), ("x_0_1", 0)], [("s_0_0", 0), ("s_0_1", 0)]]
    assert w.tensor_type.shape.dim[0].dim_value == 3, "a weight has the size that it has"
    assert scalar.tensor_type.HasField("shape") == (not ranks)
    assert not unknown.tensor_type.HasField("shape")
    assert not graph.value_info
    assert not graph.output[0].type.tensor_type.HasField("shape")
    assert graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT


@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_a_variant_names_the_prepared_model(variant: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model_of_all_types(), str(path))
    seen: List[Any] = []

    class Case:
        model, tags, sets = path, (), 0

        def data_sets(self) -> Any:
            return iter(())

    def prepare(model: Any, shim: Optional[str], **options: Any) -> None:
        seen.append((model, shim, options))

    assert run_case(prepare, Case(), "some", variant) == []
    given = {
        "recorded": (str(path), {}),
        "composed": (str(path), {"natives": False}),
        "unknown-dims": (loosen_shapes(str(path), ranks=False), {}),
        "unknown-rank": (loosen_shapes(str(path), ranks=True), {}),
        "simplified": (simplify(onnx.load(str(path)))[0].SerializeToString(), {}),
    }
    assert seen == [(given[variant][0], "some", given[variant][1])]
