"""Derivatives, compared with finite differences; and the operator Gradient."""

import itertools

import numpy as np
import pytest
from building import FLOAT, INT64, model, node, value
from channels_last import ChannelsLast
from onnx import helper

import onnx_compat
from onnx_compat import autodiff, load
from onnx_compat import primitives as p
from onnx_compat.autodiff.elementwise import _BINARY, _UNARY
from onnx_compat.errors import InvalidModelError, UnsupportedError
from onnx_compat.ir import dtypes
from onnx_compat.ir.window import Window
from onnx_compat.reference import Reference
from onnx_compat.reference.shim import SHIM
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.interpreter import Interpreter
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import lift


def evaluate(function, arrays, emitter=None):
    ports = [Port("x%d" % k, dtypes.float64, array.shape) for k, array in enumerate(arrays)]
    emitter = emitter or Reference()
    return emit(record_program(function, ports, emitter).region, emitter, arrays)


def check(function, *shapes, offset=0.1, emitter=None):
    """Assert that each derivative of a weighted sum of the results is close to a central finite difference."""
    random = np.random.RandomState(7)
    arrays = [random.rand(*shape) * 0.8 + offset for shape in shapes]
    weights = random.rand(*evaluate(lambda *xs: [function(*xs)], arrays)[0].shape)

    def derive(*xs):
        variables = [autodiff.variable(x) for x in xs]
        return autodiff.gradients(p.mul(function(*variables), lift(weights)), variables)

    def total():
        return (evaluate(lambda *xs: [function(*xs)], arrays)[0] * weights).sum()

    for array, derivative in zip(arrays, evaluate(derive, arrays, emitter)):
        for index in list(itertools.islice(np.ndindex(*array.shape), 0, None, 3)):
            kept = array[index]
            array[index] = kept + 1e-5
            above = total()
            array[index] = kept - 1e-5
            assert derivative[index] == pytest.approx((above - total()) / 2e-5, rel=1e-4, abs=1e-5)
            array[index] = kept


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


def test_a_primitive_without_derivative_is_refused():
    with pytest.raises(UnsupportedError, match="derivative of the primitive"):
        check(lambda x: p.take_along(x, lift(np.array([[0]])), 0), (2, 2))


def derivatives(function, *arrays):
    """Return the derivatives of the sum of the results with respect to each array, as nested lists."""

    def derive(*xs):
        variables = [autodiff.variable(x) for x in xs]
        return autodiff.gradients(function(*variables), variables)

    return [result.tolist() for result in evaluate(derive, [np.array(array, np.float64) for array in arrays])]


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
