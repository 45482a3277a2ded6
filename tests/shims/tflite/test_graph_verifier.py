"""The verifier of TFLite graphs refuses every kind of defect, and names the operator or the tensor."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, List

import numpy as np
import pytest
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.build import build
from onnx_compat_tflite.emitter.registry import FUNCTIONS
from onnx_compat_tflite.graph_verifier import verify_graph
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.passes import optimize
from onnx_compat_tflite.shim import SHIM
from onnx_compat_tflite.signatures import join_models

from onnx_compat import primitives as p
from onnx_compat.errors import VerificationError
from onnx_compat.ir.dtypes import float32, int32
from onnx_compat.ir.window import Window
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program

WEIGHTS = np.random.RandomState(0).standard_normal((4, 3, 3, 3)).astype(np.float32)


def model() -> fb.ModelSpec:
    """Return a graph with a convolution, a matrix product, data movements, a branch and a loop."""

    def function(x: Any, n: Any) -> List[Any]:
        y = p.conv(x, WEIGHTS, window=Window.of(WEIGHTS.shape[2:], pads=[(1, 1), (1, 1)]))
        z = p.matmul(p.reshape(p.softmax(y, 3), (2, 4, 30)), np.ones((30, 7), np.float32))
        heads = p.concat([p.transpose(z, (2, 0, 1)), np.ones((1, 2, 4), np.float32)], 0)
        (branch,) = p.cond(p.less(n, 2), lambda: [p.neg(heads)], lambda: [p.exp(heads)])
        (count, sum_) = p.while_loop(
            lambda k, _: p.less(k, 3), lambda k, v: [p.add(k, 1), p.mul(v, 0.5)], [p.mul(n, 0), branch]
        )
        return [sum_, count, p.pad(p.reduce_sum(p.tanh(y), [1, 2]), [0, 1], [0, 0])]

    ports = [Port("x", float32, (2, 3, 5, 6)), Port("n", int32, ())]
    return build(record_program(function, ports, SHIM.emitter(), ["a", "b", "c"]), Kernels())


MODEL = model()


def main(model_spec: fb.ModelSpec) -> fb.SubGraph:
    return model_spec.subgraphs[0]


def first(model_spec: fb.ModelSpec, builtin: str) -> fb.OperatorSpec:
    return next(op for graph in model_spec.subgraphs for op in graph.operators if op.builtin == builtin)


def result(model_spec: fb.ModelSpec, builtin: str) -> fb.TensorSpec:
    return main(model_spec).tensors[first(model_spec, builtin).outputs[0]]


def constant(model_spec: fb.ModelSpec, builtin: str, position: int) -> fb.TensorSpec:
    index = first(model_spec, builtin).inputs[position]
    assert index is not None
    return main(model_spec).tensors[index]


def a_tensor_that_is_not_there(model_spec: fb.ModelSpec) -> None:
    first(model_spec, "CONV_2D").inputs = [99, *first(model_spec, "CONV_2D").inputs[1:]]


def a_use_before_definition(model_spec: fb.ModelSpec) -> None:
    main(model_spec).operators.reverse()


def a_tensor_that_is_written_twice(model_spec: fb.ModelSpec) -> None:
    main(model_spec).operators.append(first(model_spec, "CONV_2D"))


def a_constant_that_is_written(model_spec: fb.ModelSpec) -> None:
    first(model_spec, "CONV_2D").outputs = [first(model_spec, "CONV_2D").inputs[1]]  # type: ignore[list-item]


def an_input_that_is_written(model_spec: fb.ModelSpec) -> None:
    first(model_spec, "CONV_2D").outputs = [main(model_spec).inputs[0]]


def an_output_that_nothing_writes(model_spec: fb.ModelSpec) -> None:
    main(model_spec).outputs[0] = main(model_spec).add(fb.TensorSpec("lost", "float32", (1,)))


def a_constant_of_another_size(model_spec: fb.ModelSpec) -> None:
    constant(model_spec, "CONV_2D", 1).buffer = np.zeros((3, 3), np.float32)


def a_constant_of_another_dtype(model_spec: fb.ModelSpec) -> None:
    tensor = constant(model_spec, "CONV_2D", 1)
    tensor.buffer = np.asarray(tensor.buffer).astype(np.float64)


def a_filter_of_other_channels(model_spec: fb.ModelSpec) -> None:
    tensor = constant(model_spec, "CONV_2D", 1)
    tensor.shape, tensor.buffer = (4, 3, 3, 2), np.zeros((4, 3, 3, 2), np.float32)


def a_window_that_gives_another_size(model_spec: fb.ModelSpec) -> None:
    result(model_spec, "CONV_2D").shape = (2, 5, 5, 4)


def a_stride_of_nothing(model_spec: fb.ModelSpec) -> None:
    first(model_spec, "CONV_2D").options["stride_h"] = 0


def a_result_of_another_dtype(model_spec: fb.ModelSpec) -> None:
    result(model_spec, "SOFTMAX").dtype = "int8"


def a_result_of_another_rank(model_spec: fb.ModelSpec) -> None:
    result(model_spec, "SOFTMAX").shape = (2, 4, 30)


def a_reshape_to_other_elements(model_spec: fb.ModelSpec) -> None:
    result(model_spec, "RESHAPE").shape = (2, 4, 31)


def a_permutation_that_repeats_an_axis(model_spec: fb.ModelSpec) -> None:
    constant(model_spec, "TRANSPOSE", 1).buffer = np.zeros(len(constant(model_spec, "TRANSPOSE", 1).buffer), np.int32)  # type: ignore[arg-type]


def an_axis_out_of_range(model_spec: fb.ModelSpec) -> None:
    first(model_spec, "CONCATENATION").options["axis"] = 5


def parts_that_do_not_add_up(model_spec: fb.ModelSpec) -> None:
    result(model_spec, "CONCATENATION").shape = (9, 2, 4)


def paddings_of_another_rank(model_spec: fb.ModelSpec) -> None:
    tensor = constant(model_spec, "PAD", 1)
    tensor.shape, tensor.buffer = (3, 2), np.zeros((3, 2), np.int32)


def a_bias_of_another_length(model_spec: fb.ModelSpec) -> None:
    operator = first(model_spec, "CONV_2D")
    bias = main(model_spec).add(fb.TensorSpec("bias", "float32", (5,), np.zeros(5, np.float32)))
    operator.inputs = [*operator.inputs[:2], bias]


def a_subgraph_that_is_not_there(model_spec: fb.ModelSpec) -> None:
    first(model_spec, "IF").options["then_subgraph_index"] = 9


def a_branch_that_takes_another_number(model_spec: fb.ModelSpec) -> None:
    first(model_spec, "IF").inputs = first(model_spec, "IF").inputs[:1]


def a_branch_that_gives_another_type(model_spec: fb.ModelSpec) -> None:
    graph = model_spec.subgraphs[first(model_spec, "IF").options["else_subgraph_index"]]
    for index in graph.outputs:
        graph.tensors[index].dtype = "int32"
    graph.operators.clear()
    graph.inputs = list(graph.inputs)
    graph.outputs[0] = graph.inputs[0]
    graph.tensors[graph.inputs[0]].dtype = "float64"


def a_loop_whose_condition_is_a_number(model_spec: fb.ModelSpec) -> None:
    graph = model_spec.subgraphs[first(model_spec, "WHILE").options["cond_subgraph_index"]]
    graph.outputs = [graph.inputs[0]]


def a_loop_that_gives_too_little(model_spec: fb.ModelSpec) -> None:
    body = model_spec.subgraphs[first(model_spec, "WHILE").options["body_subgraph_index"]]
    body.outputs.pop()


def a_signature_of_other_tensors(model_spec: fb.ModelSpec) -> None:
    model_spec.signatures[0].outputs["a"] = main(model_spec).inputs[0]


def a_signature_of_no_subgraph(model_spec: fb.ModelSpec) -> None:
    model_spec.signatures[0].subgraph = 9


def two_signatures_of_one_key(model_spec: fb.ModelSpec) -> None:
    model_spec.signatures.append(replace(model_spec.signatures[0]))


def a_zero_point_that_the_dtype_cannot_hold(model_spec: fb.ModelSpec) -> None:
    tensor = result(model_spec, "CONV_2D")
    tensor.dtype, tensor.quantization = "int8", fb.Quantization([0.5], [128])


def scales_that_do_not_fit_the_axis(model_spec: fb.ModelSpec) -> None:
    constant(model_spec, "CONV_2D", 1).quantization = fb.Quantization([0.5, 0.5], [0, 0], 0)


def a_shape_that_is_not_that_of_the_signature(model_spec: fb.ModelSpec) -> None:
    result(model_spec, "SOFTMAX").shape_signature = (2, 4)


DEFECTS = [
    (a_tensor_that_is_not_there, r"operator \d+ \(CONV_2D\) of the subgraph 0 'model': there are no tensors \[99\]"),
    (a_use_before_definition, "before anything writes that"),
    (a_tensor_that_is_written_twice, "is written a second time"),
    (a_constant_that_is_written, "it writes the constant"),
    (an_input_that_is_written, "it writes the input 'x'"),
    (an_output_that_nothing_writes, r"nothing writes the outputs \['lost'\]"),
    (a_constant_of_another_size, r"is float32\[3, 3\], but the tensor is float32\[4, 3, 3, 3\]"),
    (a_constant_of_another_dtype, "is float64"),
    (a_filter_of_other_channels, "a filter of 2 channels for 3"),
    (a_window_that_gives_another_size, r"CONV_2D.*the shape \[2, 5, 5, 4\], not \[2, 5, 6, 4\]"),
    (a_stride_of_nothing, "its stride_h is 0"),
    (a_result_of_another_dtype, "its result is int8, not float32"),
    (a_result_of_another_rank, "SOFTMAX.*its result has the shape"),
    (a_reshape_to_other_elements, "elements become"),
    (a_permutation_that_repeats_an_axis, "is no permutation of"),
    (an_axis_out_of_range, "the axis 5 is out of range for the rank 3"),
    (parts_that_do_not_add_up, r"its result has the shape \[9, 2, 4\], not \[2, 4, 8\]"),
    (paddings_of_another_rank, "6 paddings for the rank"),
    (a_bias_of_another_length, r"a bias \[5\] for 4 channels"),
    (a_subgraph_that_is_not_there, "there is no subgraph 9"),
    (a_branch_that_takes_another_number, "takes 1 values, not 0"),
    (a_branch_that_gives_another_type, "float64"),
    (a_loop_whose_condition_is_a_number, "the condition 'main/test.*' is int32|the condition .* is int32"),
    (a_loop_that_gives_too_little, r"gives 1 values, not 2"),
    (a_signature_of_other_tensors, "the outputs of the signature 'serving_default'"),
    (a_signature_of_no_subgraph, "the signature 'serving_default' has no subgraph"),
    (two_signatures_of_one_key, "the keys of the signatures repeat"),
    (a_zero_point_that_the_dtype_cannot_hold, "the zero point 128 of .* is no int8"),
    (scales_that_do_not_fit_the_axis, "has 2 scales along an axis of 4"),
    (a_shape_that_is_not_that_of_the_signature, "and the signature"),
]


def test_a_sound_model_is_accepted() -> None:
    verify_graph(MODEL)


@pytest.mark.parametrize(("break_model", "defect"), DEFECTS, ids=[breaking.__name__ for breaking, _ in DEFECTS])
def test_a_defect_is_refused(break_model: Callable[[fb.ModelSpec], None], defect: str) -> None:
    broken = copy.deepcopy(MODEL)
    break_model(broken)
    with pytest.raises(VerificationError, match=defect):
        verify_graph(broken)


# -- where it runs -----------------------------------------------------------------------------------------------------
def test_a_pass_that_breaks_a_graph_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = copy.deepcopy(MODEL)
    result(broken, "SOFTMAX").dtype = "int8"
    with pytest.raises(VerificationError, match="after the pass 'loop_invariants'"):
        optimize(broken, Kernels())
    monkeypatch.setenv("ONNX_COMPAT_VERIFY", "0")
    optimize(broken, Kernels())


def test_emitted_graphs_are_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FUNCTIONS, "neg", lambda builder, x: builder.add_op("NEG", [x], "int32", x.dims))
    recorded_program = record_program(lambda x: [p.neg(x)], [Port("x", float32, (3,))], SHIM.emitter(), ["y"])
    with pytest.raises(VerificationError, match=r"after emission: operator 0 .NEG. of the subgraph 0 'model'"):
        build(recorded_program, Kernels())


def test_joined_graphs_are_verified(tmp_path: Path) -> None:
    broken = copy.deepcopy(MODEL)
    result(broken, "SOFTMAX").dtype = "int8"
    with pytest.raises(VerificationError, match="after joining: operator"):
        join_models({"one": broken})
