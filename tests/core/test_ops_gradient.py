"""Derivatives, compared with finite differences; and the operator Gradient."""

import importlib.util

import numpy as np
import pytest
from building import FLOAT, INT64, model, node, require_opset, value
from channels_last import ChannelsLast
from finite_differences import check, check_second_order, derivatives
from onnx import TensorProto, helper

import onnx_compat
from onnx_compat import autodiff, load
from onnx_compat import primitives as p
from onnx_compat.autodiff.elementwise import _BINARY, _UNARY
from onnx_compat.autodiff.reasons import REASONS
from onnx_compat.autodiff.rules import RULES
from onnx_compat.errors import InputError, InvalidModelError, UnsupportedError
from onnx_compat.ir import dtypes
from onnx_compat.ir.window import Window
from onnx_compat.reference import Reference
from onnx_compat.reference.shim import SHIM
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.interpreter import Interpreter
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import lift

#: The shims that can run here: some cells have no onnxruntime.
SHIMS = ["reference", "onnx"] if importlib.util.find_spec("onnxruntime") else ["reference"]


@pytest.mark.parametrize("name", sorted(_UNARY))
def test_unary_functions(name):
    check(getattr(p, name), (2, 3), offset=1.1 if name == "acosh" else 0.1)


@pytest.mark.parametrize("name", sorted(_BINARY))
def test_binary_functions(name):
    check(getattr(p, name), (2, 3), (3,))


MOVED = {
    "transpose": (lambda x: p.add(p.transpose(x, (1, 0)), lift(np.ones((3, 2)))), [(2, 3)]),
    "reshape": (lambda x: p.reshape(x, (3, 2)), [(2, 3)]),
    "broadcast": (lambda x: p.broadcast_to(x, (4, 2, 3)), [(2, 1)]),
    "concat": (lambda x, y: p.concat([x, y], 1), [(2, 3), (2, 2)]),
    "slice": (lambda x: p.slice(x, [0, 4], [2, None], [1, -2]), [(3, 5)]),
    "take": (lambda x: p.take(x, lift(np.array([2, 0, 2])), 1), [(2, 3)]),
    "pad": (lambda x: p.pad(x, [1, 0], [0, 2]), [(3, 2)]),
    "pad by a value": (lambda x, v: p.pad(x, [1, 0], [0, 2], "constant", p.reshape(v, ())), [(3, 2), (1,)]),
    "where": (lambda x, y: p.where(lift(np.array([True, False, True])), x, y), [(2, 3), (1,)]),
    "clip": (lambda x: p.clip(x, 0.3, 0.6), [(5,)]),
    "top_k": (lambda x: p.top_k(x, 2, 1)[0], [(3, 4)]),
    "softmax": (lambda x: p.softmax(x, 1), [(2, 3)]),
    "reduce_max": (lambda x: p.reduce_max(x, [1]), [(2, 3)]),
    "reduce_mean": (lambda x: p.reduce_mean(x, [0], keepdims=True), [(2, 3)]),
    "reduce_prod": (lambda x: p.reduce_prod(x, [1]), [(2, 3)]),
    "matmul": (lambda x, y, b: p.matmul(x, y, b, True, True), [(4, 3), (5, 4), (5,)]),
    "cumsum": (lambda x: p.cumsum(x, 1, True, True), [(2, 4)]),
    "tile": (lambda x: p.tile(x, [2, 3]), [(2, 2)]),
    "slice with gaps": (lambda x: p.slice(x, [1, 0], [None, None], [2, 1]), [(5, 2)]),
    "arange": (lambda x, y: p.arange(p.reshape(x, ()), lift(9.0), p.reshape(y, ())), [(1,), (1,)]),
    "take_along": (lambda x: p.take_along(x, lift(np.array([[2, 0, 2], [1, 1, 0]])), 1), [(3, 3)]),
    "gather_nd": (lambda x: p.gather_nd(x, lift(np.array([[1, 0], [1, 0]]))), [(2, 3, 2)]),
    "gather_nd of batches": (lambda x: p.gather_nd(x, lift(np.array([[[1], [1]], [[2], [0]]])), 1), [(2, 3, 2)]),
    **{
        "pad by %s" % mode: (lambda x, mode=mode: p.pad(x, [1, 2], [2, 1], mode), [(3, 4)])
        for mode in ("edge", "reflect", "wrap")
    },
    **{
        "scatter_nd by %s%s" % (reduction, " of equal places" * (rows[0] == rows[1])): (
            lambda x, u, reduction=reduction, rows=rows: p.scatter_nd(x, lift(np.array(rows)), u, reduction),
            [(3, 2), (3, 2)],
        )
        for reduction in ("none", "add", "mul", "max", "min")
        for rows in ([[2], [0], [1]], [[2], [2], [0]])
    },
}


WINDOW = Window.of((3, 2), strides=(2, 1), dilations=(1, 2))
PADDED = WINDOW._replace(pads=((1, 1), (1, 1)))
POOL = Window.of((2, 3), strides=(2, 1))
IMAGES = {
    "conv": (
        lambda x, w, b: p.conv(x, w, b, window=WINDOW._replace(pads=((1, 0), (0, 2)))),
        [(2, 2, 5, 5), (4, 2, 3, 2), (4,)],
    ),
    "grouped": (lambda x, w: p.conv(x, w, window=PADDED, groups=2), [(1, 4, 4, 5), (2, 2, 3, 2)]),
    "depthwise": (lambda x, w: p.conv(x, w, window=PADDED, groups=2), [(1, 2, 4, 5), (4, 1, 3, 2)]),
    "transposed": (lambda x, w: p.conv_transpose(x, w, window=WINDOW, groups=2), [(1, 2, 3, 3), (2, 2, 3, 2)]),
    "max_pool": (lambda x: p.max_pool(x, POOL._replace(pads=((0, 1), (1, 1)))), [(1, 2, 4, 5)]),
    "avg_pool": (lambda x: p.avg_pool(x, POOL), [(1, 2, 4, 5)]),
}


@pytest.mark.parametrize("layout", ["channels_first", "channels_last"])
@pytest.mark.parametrize("name", sorted(IMAGES))
def test_images_in_either_layout(name, layout):
    function, shapes = IMAGES[name]
    check(function, *shapes, emitter=ChannelsLast() if layout == "channels_last" else Reference())


@pytest.mark.parametrize("name", sorted(MOVED))
def test_primitives_that_move_or_combine_elements(name):
    function, shapes = MOVED[name]
    check(function, *shapes)


@pytest.mark.parametrize("name", sorted(set(_UNARY)))
def test_second_order_of_unary_functions(name):
    check_second_order(getattr(p, name), (2,), offset=1.1 if name == "acosh" else 0.1)


@pytest.mark.parametrize("name", sorted(_BINARY))
def test_second_order_of_binary_functions(name):
    check_second_order(getattr(p, name), (3,), (3,))


@pytest.mark.parametrize("name", sorted({**MOVED, **IMAGES}))
def test_second_order_of_other_primitives(name):
    function, shapes = {**MOVED, **IMAGES}[name]
    check_second_order(function, *shapes)


def test_each_primitive_has_a_rule_or_a_reason():
    """A primitive without a derivative rule has a declared reason, and no primitive has both."""
    assert sorted(set(RULES) - {"extents"} | set(REASONS)) == sorted(p.PRIMITIVES)
    assert not set(RULES) & set(REASONS)


@pytest.mark.parametrize("shim", SHIMS)
def test_a_derivative_that_does_not_exist_names_node_primitive_and_remedy(shim):
    proto = model(
        [
            node("BitCast", ["x"], ["bits"], to=TensorProto.INT32),
            node("BitCast", ["bits"], ["y"], to=FLOAT, name="numbers"),
            node("Gradient", ["x"], ["dx"], domain="ai.onnx.preview.training", xs=["x"], y="y"),
        ],
        [value("x", [2])],
        [value("dx", [2])],
        opset=26,
        extra_opsets=[helper.make_opsetid("ai.onnx.preview.training", 1)],
    )
    with pytest.raises(UnsupportedError) as caught:
        onnx_compat.run(proto, [np.ones(2, np.float32)], shim=shim)
    for part in ("numbers", "'bitcast'", "it reads the bits", "freeze the tensor", "replace the operator"):
        assert part in str(caught.value)


def test_the_number_of_channels_of_a_pool_must_be_known():
    window = Window.of((2, 2))
    ports = [Port("x", dtypes.float64, (1, None, 4, 4))]

    def derive(x):
        return autodiff.gradients(p.avg_pool(x, window), [x])

    with pytest.raises(UnsupportedError, match="number of channels"):
        record_program(derive, ports, Reference())


STRAIGHT = {
    "round": lambda x: p.round(p.mul(x, 3)),
    "cast": lambda x: p.mul(p.cast(p.cast(p.mul(x, 3), dtypes.int32), dtypes.float64), 1),
    "integers": lambda x: p.cast(p.mul(p.sub(p.cast(p.mul(x, 3), dtypes.int32), 7), 1), dtypes.float64),
}


@pytest.mark.parametrize("name", sorted(STRAIGHT))
def test_rounding_is_straight_through_by_choice(name):
    function = STRAIGHT[name]
    assert derivatives(function, [0.2, 0.9]) == [[0, 0]]
    with autodiff.choose(straight_through=True):
        assert derivatives(function, [0.2, 0.9]) == [[3, 3]]
    assert derivatives(function, [0.2, 0.9]) == [[0, 0]]


def quantized_model(kind):
    """A model of y = DequantizeLinear(QuantizeLinear(x)) in a quantised dtype, and the Gradient of y by x."""
    return model(
        [
            node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
            node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
            node("Gradient", ["x"], ["dx"], domain="ai.onnx.preview.training", xs=["x"], y="y"),
        ],
        [value("x", [4])],
        [value("dx", [4])],
        {"scale": np.float32(0.5)},
        opset=21,
        extra_opsets=[helper.make_opsetid("ai.onnx.preview.training", 1)],
    )


@pytest.mark.parametrize("kind", ["UINT8", "INT8", "UINT16", "INT16", "UINT4", "INT4", "FLOAT8E4M3FN", "FLOAT8E5M2"])
def test_quantised_numbers_are_straight_through_within_their_range(kind):
    require_opset(21)
    proto = quantized_model(kind)
    proto.graph.initializer.append(helper.make_tensor("zero", getattr(TensorProto, kind), [], [0]))
    x = np.array([0.3, 1.2, 1e9, 2.0], np.float32)
    with autodiff.choose(straight_through=True):
        (dx,) = onnx_compat.prepare(proto, shim="reference").run([x])
    assert dx.tolist() == [1, 1, 0, 1]


def test_the_choices_of_a_derivative_are_checked():
    with pytest.raises(InputError, match="kept_states is 1"), autodiff.choose(kept_states=1):
        pass


def test_the_derivative_of_a_product_is_the_product_of_the_others():
    rows = [[2, 0, 3], [0, 0, 5], [1, 2, 3]]
    assert derivatives(lambda x: p.reduce_prod(x, [1]), rows) == [[[0, 6, 0], [0, 0, 0], [6, 3, 2]]]


def test_the_derivative_of_a_power_is_finite_at_zero():
    assert derivatives(p.pow, [0, 0, 3], [0, 1, 0]) == [[0, 1, 0], [0, 0, pytest.approx(np.log(3))]]


def gradient_model(xs, zs):
    """A model of y = x * x * float(n) and the Gradient of y with respect to `xs`."""
    return model(
        [
            node("Mul", ["x", "x"], ["xx"]),
            node("Cast", ["n"], ["m"], to=FLOAT),
            node("Mul", ["xx", "m"], ["y"]),
            node(
                "Gradient",
                [*xs, *zs],
                ["d%s" % name for name in xs],
                domain="ai.onnx.preview.training",
                xs=xs,
                y="y",
                **({"zs": zs} if zs else {}),
            ),
        ],
        [value("x", [2]), value("n", [2], dtype=INT64)],
        [value("d%s" % name, dtype=FLOAT if name == "x" else INT64) for name in xs],
        extra_opsets=[helper.make_opsetid("ai.onnx.preview.training", 1)],
    )


def test_gradient_by_an_integer_is_zero():
    runnable = onnx_compat.prepare(gradient_model(["n", "x"], []))
    dn, dx = runnable.run({"x": np.array([1, 2], np.float32), "n": np.array([3, 4])})
    assert (dn.tolist(), dx.tolist()) == ([0, 0], [6, 16])


def test_gradient_without_an_input_of_the_model_is_refused():
    with pytest.raises(InvalidModelError, match="depends on the input 'n', which xs and zs do not name"):
        onnx_compat.prepare(gradient_model(["x"], [])).run({"x": np.ones(2, np.float32), "n": np.ones(2, np.int64)})


def test_gradient_by_a_known_weight():
    """Differentiate sum((x w)^2) by the initializer w, which must not be folded."""
    proto = model(
        [
            node("MatMul", ["x", "w"], ["h"]),
            node("Mul", ["h", "h"], ["hh"]),
            node("ReduceSum", ["hh"], ["y"], keepdims=0),
            node("Gradient", ["w", "x"], ["dw"], domain="ai.onnx.preview.training", xs=["w"], zs=["x"], y="y"),
        ],
        [value("x", [1, 2])],
        [value("dw", dtype=FLOAT)],
        {"w": np.array([[1.0], [2.0]], np.float32)},
        extra_opsets=[helper.make_opsetid("ai.onnx.preview.training", 1)],
    )
    graph = load(proto).graph
    program = record_program(
        lambda x: Interpreter().run(graph, [x]), [Port("x", dtypes.float32, (1, 2))], SHIM.emitter()
    )
    (dw,) = SHIM.compile(program).run([np.array([[3.0, 1.0]], np.float32)])
    assert dw.tolist() == [[30], [10]]


def test_a_gradient_of_a_gradient():
    """The second derivative of x * x * x, by two nodes of the operator."""
    gradient = {"domain": "ai.onnx.preview.training", "xs": ["x"]}
    proto = model(
        [
            node("Mul", ["x", "x"], ["xx"]),
            node("Mul", ["xx", "x"], ["y"]),
            node("Gradient", ["x"], ["dx"], y="y", **gradient),
            node("Gradient", ["x"], ["ddx"], y="dx", **gradient),
        ],
        [value("x", [2])],
        [value("ddx", [2])],
        extra_opsets=[helper.make_opsetid("ai.onnx.preview.training", 1)],
    )
    for shim in SHIMS:
        (ddx,) = onnx_compat.prepare(proto, shim=shim).run([np.array([1, 2], np.float32)])
        assert ddx.tolist() == [6, 12]
