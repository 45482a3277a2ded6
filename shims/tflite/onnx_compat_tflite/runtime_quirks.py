"""What the kernels here do to numbers that are not finite, and the delegate to branches, to products of integers and to cuts: it
depends on the runtime, its delegate and the processor.
"""

from typing import Any, List, NamedTuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb

__all__ = ["Manners", "observed"]


class Manners(NamedTuple):
    """The worst of all, unless seen otherwise."""

    #: Sums under the default delegate keep NaN, so that it may be used.
    delegated: bool = False
    #: Arithmetic gives infinity, and does not hold its results to the finite numbers.
    infinite: bool = False
    #: The larger of a lone number and NaN, in this order, is NaN.
    maximum: bool = False
    #: So is the mean of NaN.
    mean: bool = False
    #: The largest of nothing but -infinity is that.
    extremes: bool = False
    #: What the delegate took inside of a branch or a loop, or beside an input of text, follows when sizes change. (From 2.11
    #: to 2.14 it keeps those that it had first, and so has the result.)
    follows: bool = False
    #: The delegate minds the zero point of the second factor of a BATCH_MATMUL of int8. (In LiteRT 2.0 and 2.1.0 it takes
    #: any for zero.)
    zeros: bool = False
    #: The delegate cuts an axis of open length down to nothing. (In LiteRT 1.2 all of it is left.)
    nothing: bool = False


_OPERATORS = (
    ("ADD", 0, 0, (2,)),
    ("ADD", 1, 1, (2,)),
    ("MAXIMUM", 2, 0, (2,)),
    ("MEAN", 0, 3, ()),
    ("REDUCE_MAX", 1, 3, ()),
)


def observed(interpreter: Any, plain: Any) -> Manners:
    """By running a few operators. Both make an Interpreter of a model: as usual, and without the default delegate."""
    delegated = bool(np.isnan(_results(interpreter)[0][0]))
    _, infinite, larger, mean, largest = _results(interpreter if delegated else plain)
    return Manners(
        delegated,
        bool(np.isinf(infinite).all()),
        bool(np.isnan(larger[0])),
        bool(np.isnan(mean)),
        bool(np.isinf(largest)),
        delegated and _follows(interpreter),
        delegated and _minds_zeros(interpreter),
        delegated and _cuts_to_nothing(interpreter),
    )


def _follows(interpreter: Any) -> bool:
    """By a branch that is run for one size, and for another."""
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
    made = interpreter(model_content=fb.to_bytes(fb.ModelSpec([main, *branches])))
    (given,), (result,) = made.get_input_details(), made.get_output_details()
    try:
        for size in (1, 3):
            made.resize_tensor_input(given["index"], (size, 2))
            made.allocate_tensors()
            made.set_tensor(given["index"], np.ones((size, 2), np.float32))
            made.invoke()
    except (RuntimeError, ValueError):
        return False
    return tuple(made.get_tensor(result["index"]).shape) == (3, 2)


def _minds_zeros(interpreter: Any) -> bool:
    """By a product of ones and twos, the twos stored as 12."""
    graph = fb.SubGraph(inputs=[0, 1], outputs=[2])
    for zero in (0, 10, 0):
        graph.add(fb.TensorSpec("x", "int8", (1, 2, 2), quantization=fb.Quantization([1.0], [zero])))
    graph.operators.append(fb.OperatorSpec("BATCH_MATMUL", [0, 1], [2]))
    made = interpreter(model_content=fb.to_bytes(fb.ModelSpec([graph])))
    try:
        made.allocate_tensors()
        for detail, value in zip(made.get_input_details(), (1, 12)):
            made.set_tensor(detail["index"], np.full((1, 2, 2), value, np.int8))
        made.invoke()
    except (RuntimeError, ValueError):
        return False
    return bool((made.get_tensor(made.get_output_details()[0]["index"]) == 4).all())


def _cuts_to_nothing(interpreter: Any) -> bool:
    """By what is between the first and the last of two rows."""
    graph = fb.SubGraph()
    x, y, z = (graph.add(fb.TensorSpec(name, "float32", (-1, 2))) for name in "xyz")
    places = [
        graph.add(fb.TensorSpec("place", "int32", (2,), np.array(value, np.int32)))
        for value in ([1, 0], [-1, 2], [1, 1])
    ]
    graph.operators.append(fb.OperatorSpec("RELU", [x], [y]))
    graph.operators.append(fb.OperatorSpec("STRIDED_SLICE", [y, *places], [z]))
    graph.inputs, graph.outputs = [x], [z]
    made = interpreter(model_content=fb.to_bytes(fb.ModelSpec([graph])))
    (given,), (result,) = made.get_input_details(), made.get_output_details()
    try:
        made.resize_tensor_input(given["index"], (2, 2))
        made.allocate_tensors()
        made.set_tensor(given["index"], np.ones((2, 2), np.float32))
        made.invoke()
    except (RuntimeError, ValueError):
        return False
    shape = next(one["shape"] for one in made.get_output_details() if one["index"] == result["index"])
    return tuple(shape) == (0, 2)


def _results(interpreter: Any) -> List[Any]:
    given = [np.array([np.nan, 1], np.float32), np.full(2, -np.inf, np.float32)]
    graph = fb.SubGraph(inputs=[0, 1])
    for value in given:
        graph.add(fb.TensorSpec("x", "float32", value.shape))
    graph.add(fb.TensorSpec("number", "float32", (), np.array(0.5, np.float32)))
    graph.add(fb.TensorSpec("axis", "int32", (1,), np.zeros(1, np.int32)))
    for builtin, first, second, shape in _OPERATORS:
        place = graph.add(fb.TensorSpec("y", "float32", shape))
        graph.operators.append(fb.OperatorSpec(builtin, [first, second], [place]))
        graph.outputs.append(place)
    made = interpreter(model_content=fb.to_bytes(fb.ModelSpec([graph])))
    made.allocate_tensors()
    for detail, value in zip(made.get_input_details(), given):
        made.set_tensor(detail["index"], value)
    made.invoke()
    return [made.get_tensor(detail["index"]) for detail in made.get_output_details()]
