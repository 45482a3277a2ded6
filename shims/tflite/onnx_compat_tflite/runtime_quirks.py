"""Measure the quirks of the installed TFLite runtime, its delegate and the processor, by running small models.

The quirks concern NaN and infinity, and how the delegate runs branches, int8 products and slices.
"""

from typing import Callable, List, NamedTuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.allocation import Interpreter

__all__ = ["OpenInterpreter", "RuntimeQuirks", "measure_quirks"]

#: Opens an interpreter of a model: `open_interpreter(model_content=data)`.
OpenInterpreter = Callable[..., Interpreter]


class RuntimeQuirks(NamedTuple):
    """The behaviour of a TFLite runtime where versions differ: True is correct. The defaults are the worst case."""

    #: ADD in the default delegate keeps NaN: the shim uses the delegate. XNNPACK of TFLite 2.11 turns NaN into -infinity.
    delegated: bool = False
    #: ADD and other arithmetic return infinity, and do not clip results to the finite numbers.
    keeps_infinity: bool = False
    #: MAXIMUM(scalar, NaN), in this order, is NaN.
    maximum_keeps_nan: bool = False
    #: MEAN of NaN is NaN.
    mean_keeps_nan: bool = False
    #: REDUCE_MAX of a tensor of -infinity is -infinity, not the least finite number.
    keeps_infinite_extremes: bool = False
    #: Delegated ops follow a change of sizes in a branch or a loop, or in a model with a string input. From 2.11 to 2.14 they
    #: keep their first sizes.
    delegate_resizes_branches: bool = False
    #: The delegate subtracts the zero point of the second factor of an int8 BATCH_MATMUL. LiteRT 2.0 and 2.1.0 ignore it.
    delegate_uses_zero_points: bool = False
    #: The delegate can slice an axis of open length to length zero. LiteRT 1.2 keeps the whole axis.
    delegate_slices_to_empty: bool = False
    #: CONCATENATION refuses tensors whose sizes differ on another axis. XNNPACK of LiteRT 1.0 to 2.1.3 joins them if the sizes
    #: are open.
    checks_joined_sizes: bool = False


#: Op, the indices of its two input tensors in `_run_arithmetic`, and the shape of its result.
_OPERATORS = (
    ("ADD", 0, 0, (2,)),
    ("ADD", 1, 1, (2,)),
    ("MAXIMUM", 2, 0, (2,)),
    ("MEAN", 0, 3, ()),
    ("REDUCE_MAX", 1, 3, ()),
)


#: The tensors of `_checks_joined_sizes`: name -> stored sizes.
_JOINED = {"x": (-1, 2), "y": (-1, 2), "z": (-1, 2), "joined": (-1, 4)}


def measure_quirks(open_interpreter: OpenInterpreter, open_plain: OpenInterpreter) -> RuntimeQuirks:
    """Run small models and return the quirks of the runtime.

    `open_interpreter` opens an interpreter with the delegate, and `open_plain` without it. If the delegate loses NaN
    (`delegated` is False), arithmetic is measured without the delegate. The quirks `delegate_...` are then False.
    Raises the runtime's error if a model does not load, or if the model of arithmetic does not run.
    """
    delegated = bool(np.isnan(_run_arithmetic(open_interpreter)[0][0]))
    _, infinite, larger, mean, largest = _run_arithmetic(open_interpreter if delegated else open_plain)
    return RuntimeQuirks(
        delegated,
        bool(np.isinf(infinite).all()),
        bool(np.isnan(larger[0])),
        bool(np.isnan(mean)),
        bool(np.isinf(largest)),
        delegated and _resizes_branches(open_interpreter),
        delegated and _uses_zero_points(open_interpreter),
        delegated and _slices_to_empty(open_interpreter),
        _checks_joined_sizes(open_interpreter if delegated else open_plain),
    )


def _resizes_branches(open_interpreter: OpenInterpreter) -> bool:
    """Whether the result of an IF has the shape [3, 2] after its input is resized from [1, 2] to [3, 2].

    False if the run fails.
    """
    main, *branches = (fb.SubGraph() for _ in range(3))
    for graph, builtin in zip(branches, ("NEG", "ABS")):
        graph.inputs = [graph.add(fb.TensorSpec("x", "float32", (-1, 2)))]
        graph.outputs = [graph.add(fb.TensorSpec("y", "float32", (-1, 2)))]
        graph.operators.append(fb.OperatorSpec(builtin, graph.inputs, graph.outputs))
    main.inputs = [main.add(fb.TensorSpec("x", "float32", (-1, 2)))]
    flag = main.add(fb.TensorSpec("flag", "bool", (), np.array(True)))
    main.outputs = [main.add(fb.TensorSpec("y", "float32", (-1, 2)))]
    options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    main.operators.append(fb.OperatorSpec("IF", [flag, *main.inputs], main.outputs, options))
    interpreter = open_interpreter(model_content=fb.to_bytes(fb.ModelSpec([main, *branches])))
    (source,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    try:
        for size in (1, 3):
            interpreter.resize_tensor_input(source["index"], (size, 2))
            interpreter.allocate_tensors()
            interpreter.set_tensor(source["index"], np.ones((size, 2), np.float32))
            interpreter.invoke()
    except (RuntimeError, ValueError):
        return False
    return tuple(interpreter.get_tensor(result["index"]).shape) == (3, 2)


def _uses_zero_points(open_interpreter: OpenInterpreter) -> bool:
    """Whether BATCH_MATMUL subtracts the zero point of its second operand; False if the run fails.

    The product of 2x2 ones and twos must be 4. The twos are stored as 12 with the zero point 10.
    """
    graph = fb.SubGraph(inputs=[0, 1], outputs=[2])
    for zero in (0, 10, 0):
        graph.add(fb.TensorSpec("x", "int8", (1, 2, 2), quantization=fb.Quantization([1.0], [zero])))
    graph.operators.append(fb.OperatorSpec("BATCH_MATMUL", [0, 1], [2]))
    interpreter = open_interpreter(model_content=fb.to_bytes(fb.ModelSpec([graph])))
    try:
        interpreter.allocate_tensors()
        for detail, value in zip(interpreter.get_input_details(), (1, 12)):
            interpreter.set_tensor(detail["index"], np.full((1, 2, 2), value, np.int8))
        interpreter.invoke()
    except (RuntimeError, ValueError):
        return False
    return bool((interpreter.get_tensor(interpreter.get_output_details()[0]["index"]) == 4).all())


def _slices_to_empty(open_interpreter: OpenInterpreter) -> bool:
    """Whether STRIDED_SLICE x[1:-1] of x with two rows, stored with the sizes [-1, 2], has the shape [0, 2].

    False if the run fails.
    """
    graph = fb.SubGraph()
    x, y, z = (graph.add(fb.TensorSpec(name, "float32", (-1, 2))) for name in "xyz")
    bounds = [
        graph.add(fb.TensorSpec("place", "int32", (2,), np.array(value, np.int32)))
        for value in ([1, 0], [-1, 2], [1, 1])
    ]
    graph.operators.append(fb.OperatorSpec("RELU", [x], [y]))
    graph.operators.append(fb.OperatorSpec("STRIDED_SLICE", [y, *bounds], [z]))
    graph.inputs, graph.outputs = [x], [z]
    interpreter = open_interpreter(model_content=fb.to_bytes(fb.ModelSpec([graph])))
    (source,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    try:
        interpreter.resize_tensor_input(source["index"], (2, 2))
        interpreter.allocate_tensors()
        interpreter.set_tensor(source["index"], np.ones((2, 2), np.float32))
        interpreter.invoke()
    except (RuntimeError, ValueError):
        return False
    details = interpreter.get_output_details()
    shape = next(detail["shape"] for detail in details if detail["index"] == result["index"])
    return tuple(shape) == (0, 2)


def _checks_joined_sizes(open_interpreter: OpenInterpreter) -> bool:
    """Whether CONCATENATION along axis 1 fails, as it must, for tensors [2, 2] and [3, 2] of stored sizes [-1, 2]."""
    graph = fb.SubGraph()
    x, y, z, joined = (graph.add(fb.TensorSpec(name, "float32", shape)) for name, shape in _JOINED.items())
    graph.operators.append(fb.OperatorSpec("RELU", [x], [z]))
    graph.operators.append(fb.OperatorSpec("CONCATENATION", [z, y], [joined], {"axis": 1}))
    graph.inputs, graph.outputs = [x, y], [joined]
    interpreter = open_interpreter(model_content=fb.to_bytes(fb.ModelSpec([graph])))
    details = interpreter.get_input_details()
    try:
        for detail, rows in zip(details, (2, 3)):
            interpreter.resize_tensor_input(detail["index"], (rows, 2))
        interpreter.allocate_tensors()
        for detail, rows in zip(details, (2, 3)):
            interpreter.set_tensor(detail["index"], np.ones((rows, 2), np.float32))
        interpreter.invoke()
    except (RuntimeError, ValueError):
        return True
    return False


def _run_arithmetic(open_interpreter: OpenInterpreter) -> List[np.ndarray]:
    """Run the ops of `_OPERATORS` in one model, and return their results in the order of `_OPERATORS`.

    The tensors are 0: [NaN, 1], 1: [-inf, -inf], 2: the scalar 0.5, 3: the axes [0]. Raises the runtime's error if the
    model does not run.
    """
    inputs = [np.array([np.nan, 1], np.float32), np.full(2, -np.inf, np.float32)]
    graph = fb.SubGraph(inputs=[0, 1])
    for value in inputs:
        graph.add(fb.TensorSpec("x", "float32", value.shape))
    graph.add(fb.TensorSpec("number", "float32", (), np.array(0.5, np.float32)))
    graph.add(fb.TensorSpec("axis", "int32", (1,), np.zeros(1, np.int32)))
    for builtin, first, second, shape in _OPERATORS:
        output = graph.add(fb.TensorSpec("y", "float32", shape))
        graph.operators.append(fb.OperatorSpec(builtin, [first, second], [output]))
        graph.outputs.append(output)
    interpreter = open_interpreter(model_content=fb.to_bytes(fb.ModelSpec([graph])))
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), inputs):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
