"""The writer of ONNX graphs: fragments, whole programs, forms of operators, natives, and what cannot be written."""

from typing import Any, Callable, List, Sequence, Tuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import onnx_compat
from onnx_compat import primitives as p
from onnx_compat.errors import UnsupportedError
from onnx_compat.ir import dtypes
from onnx_compat.model.names import Names
from onnx_compat.onnx_shim.emission import emit_fragment, write_program
from onnx_compat.onnx_shim.emitter import OnnxEmitter
from onnx_compat.onnx_shim.operator_sets import OperatorOffer
from onnx_compat.onnx_shim.shim import SHIM
from onnx_compat.shim.interface import Port, Program
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import Tensor

runtime = pytest.importorskip("onnxruntime")

ROWS = Port("x", dtypes.float32, ("n", 3))


def record(body: Callable[..., Sequence[Tensor]], *ports: Port, opset: int = 17) -> Program:
    return record_program(body, ports, OnnxEmitter(OperatorOffer(opset)))


def operators(proto: Any) -> List[str]:
    return [node.op_type for node in proto.graph.node]


def run(proto: Any, *arrays: Any) -> List[np.ndarray]:
    onnx.checker.check_model(proto, full_check=True)
    session = runtime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    results: List[np.ndarray] = session.run(None, dict(zip([port.name for port in session.get_inputs()], arrays)))
    return results


def test_axes_are_an_attribute_before_opset_13_and_an_input_from_then_on() -> None:
    program = record(lambda x: [p.reduce_sum(x, [1])], ROWS)
    older, newer = write_program(program, 11), write_program(program, 13)
    assert {attribute.name for attribute in older.graph.node[0].attribute} == {"axes", "keepdims"}
    assert len(older.graph.node[0].input) == 1
    assert len(newer.graph.node[0].input) == 2
    for proto in (older, newer):
        np.testing.assert_allclose(run(proto, np.ones((2, 3), np.float32))[0], [3, 3])


@pytest.mark.parametrize(("opset", "ir"), [(9, 4), (11, 6), (13, 7), (17, 8), (21, 10)])
def test_the_ir_version_follows_from_the_opset(opset: int, ir: int) -> None:
    assert write_program(record(lambda x: [p.exp(x)], ROWS), opset).ir_version == ir


def test_initializers_are_inputs_below_ir_4() -> None:
    proto = write_program(record(lambda x: [x * np.float32(2)], ROWS), 9, ir_version=3)
    assert [port.name for port in proto.graph.input] == ["x", proto.graph.initializer[0].name]


def test_an_ir_version_that_is_too_old_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="needs IR version 8, not 7"):
        write_program(record(lambda x: [p.exp(x)], ROWS), 17, ir_version=7)


@pytest.mark.parametrize("opset", [0, 8, 99])
def test_an_opset_without_a_writer_is_refused(opset: int) -> None:
    with pytest.raises(UnsupportedError, match="no writer for opset %d" % opset):
        OperatorOffer(opset)


def test_a_dtype_that_the_opset_lacks_is_refused() -> None:
    program = record(lambda x: [p.neg(x)], Port("x", dtypes.bfloat16, (2,)))
    with pytest.raises(UnsupportedError, match="opset 11 has no tensors for bfloat16"):
        write_program(program, 11)
    assert operators(write_program(program, 13))[0] == "Cast"


def test_names_of_a_fragment_differ_from_those_in_use() -> None:
    def body(x: Any) -> Tuple[Tensor, ...]:
        return p.tanh(x * 2) + 1, x

    program = record(body, ROWS)
    used = Names({"part_Mul", "part_constant"})
    fragment = emit_fragment(program, OperatorOffer(17), ["given"], ["y", "same"], "part_", used)
    names = [name for node in fragment.nodes for name in (*node.outputs, node.name)] + list(fragment.initializers)
    assert len(set(names)) == len(names)
    assert not {"part_Mul", "part_constant", "given"} & set(names)
    assert {"y", "same"} <= set(names) <= set(used.used)
    assert all(name.startswith("part_") for name in set(names) - {"y", "same"})
    assert fragment.opsets == {"": 17}


def test_repeated_calls_and_constants_are_written_once() -> None:
    program = record(lambda x: [p.exp(x) * 2, p.exp(x) + 2], ROWS)
    proto = write_program(program, 17)
    assert sorted(operators(proto)) == ["Add", "Exp", "Mul"]
    assert len(proto.graph.initializer) == 1


def test_an_output_that_is_an_input_or_a_constant_is_the_result_of_identity() -> None:
    proto = write_program(record(lambda x: [x, p.full([2], 1.0, dtypes.float32), x], ROWS), 17)
    assert operators(proto) == ["Identity"] * 3
    x = np.ones((1, 3), np.float32)
    for result, expected in zip(run(proto, x), (x, [1, 1], x)):
        np.testing.assert_array_equal(result, expected)


def gelu(opset: int = 20) -> Any:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Gelu", ["x"], ["y"])], "g", ports[:1], ports[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def test_an_operator_is_written_as_a_whole_where_the_target_has_it() -> None:
    statuses = [node.status for node in onnx_compat.support(gelu(), shim="onnx")]
    has_gelu = SHIM.emitter().offer.signature("Gelu") is not None  # type: ignore[attr-defined]  # an OnnxEmitter
    assert statuses == ["native" if has_gelu else "composed"]
    x = np.linspace(-3, 3, 8, dtype=np.float32).reshape(2, 4)
    expected = onnx_compat.run(gelu(), [x], shim="reference")["y"]
    np.testing.assert_allclose(onnx_compat.run(gelu(), [x], shim="onnx")["y"], expected, rtol=1e-5, atol=1e-6)


def test_an_exported_file_is_loaded_again(tmp_path: Any) -> None:
    program = record_program(lambda x: [p.tanh(x)], [ROWS], SHIM.emitter(), ["y"])
    path = str(tmp_path / "model.onnx")
    SHIM.export(program, path, "onnx")
    compiled, inputs, outputs = SHIM.load_converted(path, "onnx")
    assert [port.name for port in (*inputs, *outputs)] == ["x", "y"]
    np.testing.assert_allclose(compiled.run([np.ones((2, 3), np.float32)])[0], np.tanh(1), rtol=1e-6)


def test_seeded_random_numbers_are_the_same_in_each_run_and_others_are_not() -> None:
    def body() -> List[Tensor]:
        return [p.random_uniform([4], dtypes.float32, 1.0), p.random_uniform([4], dtypes.float32)]

    compiled = SHIM.compile(record_program(body, [], SHIM.emitter()))
    first, second = compiled.run([]), compiled.run([])
    np.testing.assert_array_equal(first[0], second[0])
    assert not np.array_equal(first[1], second[1])


def test_an_omitted_input_at_the_end_is_left_out() -> None:
    """onnxruntime ends the process for a LayerNormalization whose last input has an empty name."""
    node = helper.make_node("LayerNormalization", ["x", "w", ""], ["y"])
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("x", "w", "y")]
    graph = helper.make_graph([node], "g", ports[:2], ports[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.array([1, 2, 6], np.float32)
    result = onnx_compat.run(model, {"x": x, "w": np.ones(3, np.float32)}, shim="onnx")["y"]
    np.testing.assert_allclose(result, (x - 3) / np.sqrt(x.var()), rtol=1e-4)
