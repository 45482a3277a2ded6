"""Native methods of a shim: when they are used in place of the composed meaning."""

from onnx import TensorProto, helper

import onnx_compat
from onnx_compat.discovery.selection import find
from onnx_compat.execution.plan import Specialisation, trace_model
from onnx_compat.execution.support import declared_structures
from onnx_compat.shim.natives import Native
from onnx_compat.tracing.interpreter import Interpreter


def outcome(size):
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"], name="n")], "g", infos[:1], infos[1:])
    model = onnx_compat.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]).SerializeToString())
    ours = Native(lambda node, inputs, attributes: inputs[0].shape[0] == 1, "abs", False)
    interpreter = Interpreter({("", "Abs"): ours})
    trace_model(model, find("reference").emitter(), declared_structures(model.graph), Specialisation(), interpreter)
    return interpreter.done.get("n", "composed")


def test_a_native_computes_the_cases_that_it_accepts():
    assert outcome(1) == "native"
    assert outcome(2) == "composed"


def test_a_native_that_needs_an_unknown_size_declines_the_case():
    assert outcome("n") == "composed"


def test_a_native_gives_only_results_that_are_read():
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in (("x", [4]), ("a", [2]))]
    node = helper.make_node("Split", ["x"], ["a", "nobody reads this"], name="n", num_outputs=2)
    graph = helper.make_graph([node], "g", infos[:1], infos[1:])
    model = onnx_compat.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString())
    ours = Interpreter({("", "Split"): Native(lambda *_: True, "Split", False)})
    trace = trace_model(model, find("reference").emitter(), declared_structures(model.graph), Specialisation(), ours)
    (native,) = trace.program.region.live()
    assert native.primitive == "Split" and len(native.outputs) == 1
