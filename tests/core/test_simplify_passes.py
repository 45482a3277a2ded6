"""Each pass that simplifies a model: it acts on its example, alone, and keeps the results."""

import sys
from typing import Any, Dict, List

import numpy as np
import pytest
from onnx import helper, numpy_helper
from simplifying import outputs_of, run_pass

from onnx_compat.passes import EVERY, leaving_out
from onnx_compat.simplify import SCHEDULE, ModelPass, simplify
from onnx_compat.simplify.rewrites.examples import example

NAMES = [pass_.name for pass_ in SCHEDULE.distinct]
PASSES: Dict[str, ModelPass] = {pass_.name: pass_ for pass_ in SCHEDULE.distinct}  # type: ignore[misc]


@pytest.mark.parametrize("name", NAMES)
def test_a_pass_acts_on_its_example_alone_and_keeps_the_results(name: str) -> None:
    model = PASSES[name].example()
    simplified, rewrites = run_pass(PASSES[name], model)
    assert rewrites > 0
    if not any(node.domain for node in model.graph.node):  # no shim runs an unknown domain
        for got, wanted in zip(outputs_of(simplified), outputs_of(model)):
            np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_example_needs_the_pass(name: str) -> None:
    model = PASSES[name].example()
    with leaving_out([name]):
        size = simplify(model)[0].ByteSize()
    assert simplify(model)[0].ByteSize() < size


@pytest.mark.parametrize("name", NAMES)
def test_a_pass_leaves_its_own_result_alone(name: str) -> None:
    simplified, _ = run_pass(PASSES[name], PASSES[name].example())
    assert run_pass(PASSES[name], simplified)[1] == 0


@pytest.mark.parametrize("name", NAMES)
def test_the_docstring_of_the_module_shows_before_and_after(name: str) -> None:
    assert "=>" in str(sys.modules[PASSES[name].apply.__module__].__doc__)
    assert " => " in PASSES[name].summary
    assert {*PASSES[name].after, *PASSES[name].before} - {EVERY} <= PASSES.keys()


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


FLOAT, DOUBLE, INT32, INT64, BOOL, FLOAT16, INT8 = 1, 11, 6, 7, 9, 10, 3
RANGE = np.arange(1.0, 5.0).reshape(2, 2)
STATISTICS = {"s": [1.0, 2.0], "b": [0.5, 1.5], "m": [0.0, 1.0], "v": [1.0, 4.0]}
NORM = ("BatchNormalization", "a s b m v", "y")


def branch_of(*nodes: Any) -> Any:
    """Return a branch that computes `r`."""
    output = helper.make_tensor_value_info("r", FLOAT, None)
    protos = [helper.make_node(operator, inputs.split(), outputs.split()) for operator, inputs, outputs in nodes]
    return helper.make_graph(protos, "branch", [], [output])


def build_pad(layer: Any, p: Any = None, fill: Any = None, mode: str = "constant") -> Any:
    """Return a model of a Pad and a layer that reads its result `a`."""
    constants = {"p": ints(0, 0, 1, 0, 0, 2) if p is None else p}
    if fill is not None:
        constants["f"] = fill
    if layer[0] == "Conv":
        constants["w"] = np.ones((2, 2, 2))
    pad = ("Pad", "x p f" if fill is not None else "x p", "a", {"mode": mode})
    return example(pad, layer, shape=(1, 2, 3), **constants)


#: name -> (the only pass that could act, a model on which it must not act)
REFUSED = {
    "the identity from an input to an output": ("equal_values", example(("Identity", "x", "y"))),
    "a transpose that does not cancel out": (
        "equal_values",
        example(
            ("Transpose", "x", "a", {"perm": [1, 2, 0]}), ("Transpose", "a", "y", {"perm": [1, 2, 0]}), shape=(2, 3, 4)
        ),
    ),
    "two different attributes": (
        "common_subexpressions",
        example(("Elu", "x", "a", {"alpha": 1.0}), ("Elu", "x", "b", {"alpha": 2.0}), ("Add", "a b", "y")),
    ),
    "two random numbers": (
        "common_subexpressions",
        example(("RandomNormalLike", "x", "a"), ("RandomNormalLike", "x", "b"), ("Sub", "a b", "y")),
    ),
    "initializers with another type": (
        "shared_initializers",
        example(("Reshape", "x v", "a"), ("Cast", "w", "c", {"to": FLOAT}), ("Mul", "a c", "y"), v=ints(-1, 2), w=np.array([-1, 2], np.int32)),
    ),
    "initializers with other numbers": (
        "shared_initializers",
        example(("Add", "x v", "a"), ("Mul", "a w", "y"), v=[1.0, 2.0], w=[1.0, 3.0]),
    ),
    "weights that are dequantized": (
        "constant_folding",
        example(("DequantizeLinear", "q s z", "w"), ("Neg", "w", "n"), ("Mul", "x n", "y"), q=np.array([1, 2], np.int8), s=0.5, z=np.int8(0)),
    ),
    "an output of the graph": ("constant_folding", example(("Add", "v v", "y"), v=[1.0, 2.0])),
    "a factor that is not neutral": ("neutral_elements", example(("Relu", "x", "a"), ("Mul", "a w", "y"), w=[1.0, 1.5])),
    "a neutral factor that broadcasts": (
        "neutral_elements",
        example(("Relu", "x", "a"), ("Mul", "a w", "y"), w=np.ones((3, 1, 2)), shape=(1, 2)),
    ),
    "one minus the operand": ("neutral_elements", example(("Relu", "x", "a"), ("Sub", "w a", "y"), w=[0.0, 0.0])),
    "a mean over several elements": (
        "single_elements",
        example(("Relu", "x", "a"), ("ReduceMean", "a", "y", {"axes": [1]}), opset=13),
    ),
    "a mean over an axis of unknown size": (
        "single_elements",
        example(("Relu", "x", "a"), ("ReduceMean", "a", "y", {"axes": [0]}), opset=13),
    ),
    "a state that is not zero": (
        "zero_states",
        example(("RNN", "x w w - - h", "y", {"hidden_size": 2}), shape=(3, 1, 2), w=np.ones((1, 2, 2)), h=np.ones((1, 1, 2))),
    ),
    "two open sizes": (
        "reshape_sizes",
        example(("Shape", "x", "s"), ("Gather", "s k", "n"), ("Reshape", "x n", "y"), shape=("N", "M"), k=ints(1, 0)),
    ),
    "an open size beside a copied size": (
        "reshape_sizes",
        example(
            ("Shape", "x", "s"), ("Gather", "s k", "n"), ("Concat", "n v", "m", {"axis": 0}), ("Reshape", "x m", "y"),
            shape=("N", "M", 2), k=ints(0), v=ints(-1),
        ),
    ),
    "a reshape that another node reads": (
        "merged_reshapes",
        example(("Flatten", "x", "a"), ("Reshape", "a v", "b"), ("Relu", "a", "c"), ("Sub", "b c", "y"), v=ints(2, 2), shape=(2, 2)),
    ),
    "a transpose that another node reads": (
        "merged_transposes",
        example(
            ("Transpose", "x", "a", {"perm": [1, 2, 0]}), ("Transpose", "a", "b", {"perm": [1, 2, 0]}),
            ("ReduceSum", "a", "c"), ("Add", "b c", "y"), shape=(2, 3, 4),
        ),
    ),
    "a cast that loses bits": (
        "merged_casts",
        example(("Cast", "x", "a", {"to": INT64}), ("Cast", "a", "y", {"to": FLOAT})),
    ),
    "a cast to a text": (
        "merged_casts",
        example(
            ("Less", "x w", "l"), ("Cast", "l", "a", {"to": INT32}), ("Cast", "a", "b", {"to": 8}),
            ("Cast", "b", "y", {"to": FLOAT}), w=[0.0, 0.0],
        ),
    ),
    "a concatenation along another axis": (
        "merged_concats",
        example(("Concat", "x x", "a", {"axis": 0}), ("Concat", "a a", "b", {"axis": 1}), ("Concat", "b b", "y", {"axis": 0})),
    ),
    "a concatenation that another node reads": (
        "merged_concats",
        example(("Concat", "x x", "a", {"axis": 0}), ("Concat", "a a", "y", {"axis": 0})),
    ),
    "two slices of one axis": (
        "merged_slices",
        example(
            ("Slice", "x one three zero", "a"), ("Slice", "a one three last", "y"),
            shape=(5,), one=ints(1), three=ints(3), zero=ints(0), last=ints(-1),
        ),
    ),
    "a slice with bounds of run time": (
        "merged_slices",
        example(
            ("ReduceSum", "x", "s"), ("Reshape", "s last", "v"), ("Cast", "v", "n", {"to": INT64}),
            ("Slice", "x n three one", "a"), ("Slice", "a one three", "y"),
            shape=(5, 5), one=ints(1), three=ints(3), last=ints(-1),
        ),
    ),
    "a slice that another node reads": (
        "merged_slices",
        example(
            ("Slice", "x one three one", "a"), ("Slice", "a one three", "b"), ("ReduceSum", "a", "c"), ("Add", "b c", "y"),
            shape=(5, 5), one=ints(1), three=ints(3),
        ),
    ),
    "a layer that another node reads": (
        "layer_scales",
        example(("Conv", "x w", "a"), ("Mul", "a f", "b"), ("Sub", "a b", "y"), shape=("N", 2, 3), w=RANGE[..., None], f=2.0),
    ),
    "a factor for each pixel": (
        "layer_scales",
        example(("Conv", "x w", "a"), ("Mul", "a f", "y"), shape=("N", 2, 2), w=RANGE[..., None], f=[1.0, 2.0]),
    ),
    "a normalization in training": (
        "layer_scales",
        example(
            ("Conv", "x w", "a"), ("BatchNormalization", "a s b m v", "y r t", {"training_mode": 1}),
            shape=("N", 2, 3), w=RANGE[..., None], **STATISTICS,
        ),
    ),
    "a division by zero": (
        "layer_scales",
        example(("Conv", "x w", "a"), ("Div", "a f", "y"), shape=("N", 2, 3), w=RANGE[..., None], f=0.0),
    ),
    "a shift of a product": ("layer_scales", example(("MatMul", "x w", "a"), ("Add", "a f", "y"), w=RANGE, f=1.0)),
    "a scaled input that another node reads": (
        "input_scales",
        example(("Mul", "x f", "a"), ("Conv", "a w", "b"), ("Sub", "a b", "y"), shape=("N", 2, 3), w=RANGE[..., None], f=2.0),
    ),
    "a scaled input of another rank": (
        "input_scales",
        example(("Mul", "x f", "a"), ("Conv", "a w", "y"), shape=(2, 3), w=RANGE[..., None], f=[[[2.0]]]),
    ),
    "a factor for each channel of the input": (
        "input_scales",
        example(("Mul", "x f", "a"), ("Conv", "a w", "y"), shape=("N", 2, 3), w=RANGE[..., None], f=[[2.0], [3.0]]),
    ),
    "a quotient of a constant": (
        "input_scales", example(("Div", "f x", "a"), ("Conv", "a w", "y"), shape=("N", 2, 3), w=RANGE[..., None], f=2.0)
    ),
    "an input divided by zero": (
        "input_scales", example(("Div", "x f", "a"), ("Conv", "a w", "y"), shape=("N", 2, 3), w=RANGE[..., None], f=0.0)
    ),
    "a factor of the input that underflows": (
        "input_scales",
        example(("Mul", "x f", "a"), ("Conv", "a w", "y"), shape=("N", 2, 3), w=1e-30 * RANGE[..., None], f=1e-14),
    ),
    "a bias that is computed": (
        "layer_scales",
        example(
            ("ReduceSum", "x", "r", {"keepdims": 0}), ("Expand", "r k", "c"), ("Conv", "x w c", "a"), NORM,
            shape=("N", 2, 3), w=RANGE[..., None], k=ints(2), **STATISTICS,
        ),
    ),
    "a product of another rank": (
        "gemm_bias",
        example(("MatMul", "x w", "a"), ("Add", "a c", "y"), shape=("N", 3, 2), w=RANGE, c=[1.0, 2.0]),
    ),
    "an addend that broadcasts the product": (
        "gemm_bias",
        example(("MatMul", "x w", "a"), ("Add", "a c", "y"), shape=(1, 2), w=RANGE, c=np.ones((3, 2))),
    ),
    "a transpose for two products": (
        "gemm_transposes",
        example(
            ("Transpose", "x", "a"), ("Gemm", "a w", "b"), ("Neg", "a", "c"), ("Add", "b c", "y"), w=RANGE, shape=(2, 2)
        ),
    ),
    "a branch whose condition is computed": (
        "known_branches",
        example(
            ("ReduceSum", "x", "s", {"keepdims": 0}), ("Cast", "s", "c", {"to": BOOL}),
            ("If", "c", "y", {name: branch_of(("Neg", "x", "r")) for name in ("then_branch", "else_branch")}),
        ),
    ),
    "padding with another number": ("layer_padding", build_pad(("Conv", "a w", "y"), fill=np.float32(1))),
    "padding that reflects": ("layer_padding", build_pad(("Conv", "a w", "y"), mode="reflect")),
    "padding that crops": ("layer_padding", build_pad(("Conv", "a w", "y"), p=ints(0, 0, -1, 0, 0, 1))),
    "padding of channels": ("layer_padding", build_pad(("AveragePool", "a", "y", {"kernel_shape": [2]}), p=ints(0, 1, 0, 0, 0, 1))),
    "padding of a convolution that pads by itself": (
        "layer_padding", build_pad(("Conv", "a w", "y", {"auto_pad": "SAME_UPPER"}))
    ),
    "padding as wide as the windows": ("layer_padding", build_pad(("AveragePool", "a", "y", {"kernel_shape": [2]}))),
    "padding of a pool with pads": (
        "layer_padding", build_pad(("AveragePool", "a", "y", {"kernel_shape": [3], "pads": [1, 0]}))
    ),
    "padding of a pool with open windows": (
        "layer_padding", build_pad(("AveragePool", "a", "y", {"kernel_shape": [3], "ceil_mode": 1}))
    ),
    "padding that another node reads": (
        "layer_padding",
        example(
            ("Pad", "x p", "a"), ("Conv", "a w", "b"), ("ReduceSum", "a", "c"), ("Add", "b c", "y"), shape=(1, 2, 3),
            p=ints(0, 0, 1, 0, 0, 2), w=np.ones((2, 2, 2)),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_a_pass_leaves_a_model_alone(case: str) -> None:
    name, model = REFUSED[case]
    simplified, rewrites = run_pass(PASSES[name], model)
    assert (rewrites, simplified.SerializeToString()) == (0, model.SerializeToString())


CONV = np.arange(1.0, 19.0).reshape(2, 3, 3) / 7
#: name -> a model of a layer and the scale or shift behind it, of which one node remains
FOLDED: Dict[str, Any] = {
    "Mul with one number": example(("Conv", "x w", "a"), ("Mul", "a f", "y"), shape=(1, 3, 5), w=CONV, f=2.0),
    "Mul from the left": example(("Conv", "x w", "a"), ("Mul", "f a", "y"), shape=(1, 3, 5), w=CONV, f=[[1.0], [3.0]]),
    "Div": example(("Conv", "x w c", "a"), ("Div", "a f", "y"), shape=(1, 3, 5), w=CONV, c=[1.0, 2.0], f=[[[4.0], [3.0]]]),
    "Add": example(("Conv", "x w", "a"), ("Add", "f a", "y"), shape=(1, 3, 5), w=CONV, f=[[1.0], [3.0]]),
    "Sub": example(("Conv", "x w c", "a"), ("Sub", "a f", "y"), shape=(1, 3, 5), w=CONV, c=[1.0, 2.0], f=0.5),
    "several": example(
        ("Conv", "x w", "a"), ("BatchNormalization", "a s b m v", "n"), ("Mul", "n f", "p"), ("Add", "p f", "y"),
        shape=(1, 3, 5), w=CONV, f=[[2.0], [3.0]], **STATISTICS,
    ),
    "ConvTranspose": example(
        ("ConvTranspose", "x w", "a"), NORM, shape=(1, 3, 5), w=CONV.transpose(1, 0, 2), **STATISTICS
    ),
    "ConvTranspose with groups": example(
        ("ConvTranspose", "x w", "a", {"group": 2}), ("Mul", "a f", "y"),
        shape=(1, 4, 3), w=np.arange(16.0).reshape(4, 2, 2), f=[[1.0], [2.0], [3.0], [4.0]],
    ),
    "Mul of the input": example(
        ("Mul", "f x", "a"), ("Conv", "a w c", "y", {"pads": [1, 2]}), shape=(1, 3, 5), w=CONV, c=[1.0, 2.0], f=[[0.5]]
    ),
    "Div of the input": example(
        ("Div", "x f", "a"), ("Conv", "a w", "y", {"group": 3}), shape=(1, 3, 5), w=CONV[0].reshape(3, 1, 3), f=3.0
    ),
    "Gemm": example(("Gemm", "x w c", "a"), NORM, w=RANGE, c=[[5.0, 6.0]], **STATISTICS),
    "Gemm with attributes": example(
        ("Gemm", "x w c", "a", {"transB": 1, "alpha": 0.5, "beta": 2.0}), ("Mul", "a f", "b"), ("Add", "b f", "y"),
        w=RANGE, c=7.0 * np.ones(1), f=[2.0, 3.0],
    ),
    "MatMul": example(("MatMul", "x w", "a"), ("Mul", "a f", "y"), shape=(2, 3, 2), w=RANGE, f=[2.0, 3.0]),
    "BatchNormalization": example(
        ("BatchNormalization", "x s b m v", "a"), ("Mul", "a f", "c"), ("Add", "c f", "y"),
        shape=(1, 2, 3), f=[[2.0], [3.0]], **STATISTICS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(FOLDED))
def test_scales_and_shifts_are_folded(case: str) -> None:
    model = FOLDED[case]
    simplified, report = simplify(model)
    assert report.nodes == (len(model.graph.node), 1)
    np.testing.assert_allclose(outputs_of(simplified)[0], outputs_of(model)[0], rtol=1e-5)


def test_weights_that_two_layers_share_stay_for_the_other() -> None:
    nodes: List[Any] = [
        ("Conv", "x w", "a"),
        ("Mul", "a f", "b"),
        ("Conv", "x w", "c"),
        ("Relu", "c", "d"),
        ("Add", "b d", "y"),
    ]
    model = example(*nodes, shape=(1, 3, 5), w=CONV, f=2.0)
    model.graph.node[2].attribute.append(helper.make_attribute("dilations", [2]))
    model.graph.node[0].attribute.append(helper.make_attribute("pads", [0, 0]))
    model.graph.node[2].attribute.append(helper.make_attribute("pads", [1, 1]))
    simplified, report = simplify(model)
    assert report.nodes == (5, 4)
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in simplified.graph.initializer}
    np.testing.assert_array_equal(weights["w"], CONV.astype(np.float32))
    np.testing.assert_array_equal(weights["w_1"], 2 * CONV.astype(np.float32))
    np.testing.assert_allclose(outputs_of(simplified)[0], outputs_of(model)[0], rtol=1e-5)


def test_a_scale_beyond_the_range_of_the_type_stays() -> None:
    model = example(("Conv", "x w", "a"), ("Mul", "a f", "y"), shape=(1, 3, 5), w=1e30 * CONV, f=1e30)
    assert simplify(model)[1].nodes == (2, 2)


@pytest.mark.parametrize(
    ("shape", "nodes", "constants", "target"),
    [
        (("N", 4), [("Reshape", "x v", "a"), ("Reshape", "a w", "y")], {"v": ints(0, 2, 2), "w": ints(0, 2, 2, 1)}, [0, 2, 2, 1]),
        (("N", 4), [("Flatten", "x", "a", {"axis": 0}), ("Reshape", "a w", "y")], {"w": ints(-1, 2)}, [-1, 2]),
        ((2, 3), [("Unsqueeze", "x v", "a"), ("Squeeze", "a w", "b"), ("Unsqueeze", "b w", "y")], {"v": ints(0), "w": ints(0)}, [1, 2, 3]),
        ((1, 2, 3), [("Squeeze", "x v", "a"), ("Flatten", "a", "b", {"axis": 0}), ("Unsqueeze", "b v", "y")], {"v": ints(0)}, [1, 1, 6]),
    ],
)  # fmt: skip
def test_reshapes_are_merged(shape: Any, nodes: List[Any], constants: Dict[str, Any], target: List[int]) -> None:
    model = example(*nodes, shape=shape, **constants)
    simplified, _report = simplify(model)
    (only,) = simplified.graph.node
    stored = {tensor.name: numpy_helper.to_array(tensor).tolist() for tensor in simplified.graph.initializer}
    assert stored.get(only.input[1]) == (target if only.op_type == "Reshape" else [0])
    np.testing.assert_array_equal(outputs_of(simplified)[0], outputs_of(model)[0])


@pytest.mark.parametrize("to", [FLOAT16, DOUBLE, INT64])
def test_casts_of_truth_values_are_merged(to: int) -> None:
    nodes = [("Less", "x w", "l"), ("Cast", "l", "a", {"to": to}), ("Cast", "a", "y", {"to": FLOAT})]
    model = example(*nodes, w=[0.0, 0.0])
    simplified, report = simplify(model)
    assert report.nodes == (3, 2)
    np.testing.assert_array_equal(outputs_of(simplified)[0], outputs_of(model)[0])


def test_padding_is_added_to_the_pads_of_a_convolution() -> None:
    model = build_pad(("Conv", "a w", "y", {"pads": [2, 1]}), fill=np.float32(0))
    simplified, _report = simplify(model)
    (only,) = simplified.graph.node
    assert [list(attribute.ints) for attribute in only.attribute if attribute.name == "pads"] == [[3, 3]]
    np.testing.assert_allclose(outputs_of(simplified)[0], outputs_of(model)[0], rtol=1e-6)


def test_padding_counts_in_the_mean_of_a_pool() -> None:
    model = build_pad(("AveragePool", "a", "y", {"kernel_shape": [3]}))
    simplified, report = simplify(model)
    assert report.nodes == (2, 1)
    np.testing.assert_allclose(outputs_of(simplified)[0], outputs_of(model)[0], rtol=1e-6)


def test_padding_of_old_opsets_is_an_attribute() -> None:
    nodes = (("Pad", "x", "a", {"pads": [0, 0, 1, 0, 0, 2]}), ("Conv", "a w", "y"))
    model = example(*nodes, shape=(1, 2, 3), opset=9, w=np.ones((2, 2, 2)))
    simplified, report = simplify(model)
    assert report.nodes == (2, 1)
    np.testing.assert_allclose(outputs_of(simplified)[0], outputs_of(model)[0], rtol=1e-6)


@pytest.mark.parametrize("condition", [True, False])
def test_a_known_branch_replaces_its_if_although_names_occur_twice(condition: bool) -> None:
    then = branch_of(("Exp", "x", "i"), ("Neg", "i", "r"))
    otherwise = branch_of(("Abs", "x", "i"), ("Sqrt", "i", "r"))
    tensor = numpy_helper.from_array(np.float32([2, 3]), "k")
    then.initializer.append(tensor)
    then.node[0].CopyFrom(helper.make_node("Mul", ["x", "k"], ["i"]))
    branches = {"then_branch": then, "else_branch": otherwise}
    nodes = [("If", "c", "a", branches), ("If", "c", "b", branches), ("Exp", "x", "i"), ("Sum", "a b i", "y")]
    model = example(*nodes, c=condition)
    simplified, report = simplify(model)
    assert "If" not in [node.op_type for node in simplified.graph.node]
    assert report.nodes == (12, 4), "the second branch computes the same as the first"
    np.testing.assert_allclose(outputs_of(simplified)[0], outputs_of(model)[0], rtol=1e-6)


def test_a_known_branch_may_return_an_outer_value() -> None:
    output = helper.make_tensor_value_info("x", FLOAT, None)
    branch = helper.make_graph([], "branch", [], [output])
    model = example(
        ("If", "c", "a", {"then_branch": branch, "else_branch": branch_of(("Neg", "x", "r"))}),
        ("Exp", "a", "y"),
        c=True,
    )
    simplified, _report = simplify(model)
    assert [list(node.input) for node in simplified.graph.node] == [["x"]]


@pytest.mark.parametrize(
    ("nodes", "to"),
    [
        ([("Shape", "a", "b"), ("Squeeze", "b", "c")], INT64),
        ([("Cast", "a", "b", {"to": INT32}), ("Transpose", "b", "c")], INT32),
        (
            [
                ("Greater", "a a", "b"),
                (
                    "If",
                    "b",
                    "c",
                    {"then_branch": branch_of(("Exp", "x", "r")), "else_branch": branch_of(("Neg", "x", "r"))},
                ),
            ],
            FLOAT,
        ),
    ],
)
def test_the_type_of_a_value_that_is_not_traced_follows_from_operators(nodes: List[Any], to: int) -> None:
    model = example(("Mystery", "x", "a"), *nodes, ("Cast", "c", "d", {"to": to}), ("Cast", "d", "y", {"to": BOOL}))
    model.graph.node[0].domain = "unknown"
    model.opset_import.append(helper.make_opsetid("unknown", 1))
    simplified, rewrites = run_pass(PASSES["same_type_casts"], model)
    assert rewrites == 1
    assert [attribute.i for attribute in simplified.graph.node[-1].attribute] == [BOOL]
