"""Programs on TensorFlow: symbolic sizes, strings, threads, errors, and two models in a process."""

import threading
from typing import Any, List, Sequence

import numpy as np
import pytest

from onnx_compat import primitives
from onnx_compat.discovery import selection
from onnx_compat.errors import OnnxCompatError, ShimError, UnsupportedError
from onnx_compat.ir import dtypes
from onnx_compat.ir.window import Window
from onnx_compat.ops import lookup
from onnx_compat.primitives import cond, conv, reduce_sum, relu, scan, while_loop
from onnx_compat.reference.shim import SHIM as REFERENCE
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program

FLOAT = dtypes.float32


@pytest.fixture(scope="module")
def shim(request: Any) -> Any:
    return selection.find(request.getfixturevalue("shim_name"))


def same(shim: Any, function: Any, ports: Sequence[Port], *feeds: Sequence[np.ndarray]) -> Any:
    """Compile a program and return it. Assert that it gives the results of the reference for each feed."""
    compiled = shim.compile(record_program(function, ports, shim.emitter()))
    expected = REFERENCE.compile(record_program(function, ports, REFERENCE.emitter()))
    for feed in feeds:
        for ours, theirs in zip(compiled.run(feed), expected.run(feed)):
            assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
            if ours.dtype.kind == "f":
                np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
            else:
                np.testing.assert_array_equal(ours, theirs)
    return compiled


def image(*shape: int) -> np.ndarray:
    return np.random.RandomState(len(shape)).randn(*shape).astype(np.float32)


def classify(x: Any) -> List[Any]:
    weights = image(8, 3, 3, 3)
    y = conv(x, weights, image(8), window=Window.of((3, 3), (2, 2), pads=[(1, 1)] * 2))
    return [reduce_sum(relu(y), [2, 3])]


def test_every_batch_size_runs_with_one_trace(shim: Any) -> None:
    compiled = same(shim, classify, [Port("x", FLOAT, ("n", 3, 9, 9))], [image(1, 3, 9, 9)], [image(4, 3, 9, 9)])
    assert compiled.traces == 1


@pytest.mark.parametrize("divisor", [0.0, 0.5, 2.0, 3.0])
def test_a_scalar_divided_by_a_constant_stays_a_scalar(shim: Any, divisor: float) -> None:
    same(shim, lambda x: [primitives.div(x, divisor)], [Port("x", FLOAT, ())], [np.array(1.5, np.float32)])


def test_comparisons_with_nan(shim: Any) -> None:
    def negate(x: Any) -> List[Any]:
        compared = [primitives.less(x, 1.0), primitives.less_equal(x, 1.0), primitives.equal(x, 1.0)]
        return [primitives.logical_not(result) for result in compared]

    same(shim, negate, [Port("x", FLOAT, (None,))], [np.array([np.nan, 0, 1, 2] * 5, np.float32)])


def test_a_convolution_of_an_image_needs_no_transpose_but_at_the_input(shim: Any) -> None:
    compiled = same(shim, classify, [Port("x", FLOAT, (None, 3, 9, 9))], [image(2, 3, 9, 9)])
    kinds = [operation.type for operation in graph_of(compiled).get_operations()]
    assert kinds.count("Transpose") == 1 and kinds.count("Conv2D") == 1


def test_a_depthwise_convolution_is_one(shim: Any) -> None:
    def depthwise(x: Any) -> List[Any]:
        return [conv(x, image(12, 1, 3, 3), window=Window.of((3, 3), pads=[(1, 1)] * 2), groups=6)]

    compiled = same(shim, depthwise, [Port("x", FLOAT, (None, 6, 5, 5))], [image(2, 6, 5, 5)])
    assert "DepthwiseConv2dNative" in [operation.type for operation in graph_of(compiled).get_operations()]


def graph_of(compiled: Any) -> Any:
    function = getattr(compiled.native, "function", None)
    return compiled.native if function is None else function.graph


def test_an_empty_batch_has_the_shape_of_one(shim: Any) -> None:
    compiled = same(shim, classify, [Port("x", FLOAT, ("n", 3, 9, 9))], [image(2, 3, 9, 9)], [image(0, 3, 9, 9)])
    assert compiled.run([image(3, 3, 9, 9)])[0].shape == (3, 8)


def test_a_batch_that_becomes_empty_inside(shim: Any) -> None:
    def boxes(x: Any, keep: Any) -> List[Any]:
        rows = primitives.squeeze(primitives.nonzero(keep), [0])
        return classify(primitives.take(x, rows, 0))

    ports = [Port("x", FLOAT, (3, 3, 9, 9)), Port("keep", dtypes.bool_, (3,))]
    x = image(3, 3, 9, 9)
    same(shim, boxes, ports, [x, np.array([True, False, True])], [x, np.zeros(3, bool)])


def test_strings_go_in_and_come_out_as_text(shim: Any) -> None:
    words = np.array([["Straße", "ÄÖ"], ["日本", ""]], object)
    ports = [Port("x", dtypes.string, (None, 2))]
    same(shim, lambda x: [primitives.string_upper(x), primitives.equal(x, "ÄÖ")], ports, [words])
    result = np.array("Ab", object)
    same(shim, lambda x: [primitives.string_lower(x)], [Port("x", dtypes.string, ())], [result])


def test_a_branch_is_taken_by_a_value(shim: Any) -> None:
    def either(flag: Any, x: Any) -> List[Any]:
        return cond(flag, lambda: [x + 1.0, x], lambda: [reduce_sum(x, [0], True), x * 2.0])

    ports = [Port("flag", dtypes.bool_, ()), Port("x", FLOAT, ("n",))]
    same(shim, either, ports, [np.array(True), image(3)], [np.array(False), image(5)])


def test_a_loop_whose_state_grows(shim: Any) -> None:
    def growing(x: Any) -> List[Any]:
        return while_loop(
            lambda n, y: primitives.less(n, 3), lambda n, y: [n + 1, primitives.concat([y, y], 0)], [np.array(0), x]
        )

    same(shim, growing, [Port("x", FLOAT, ("n", 2))], [image(1, 2)], [image(3, 2)])


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_of_any_length_also_none(shim: Any, reverse: bool) -> None:
    def running(state: Any, xs: Any) -> List[Any]:
        body = lambda total, x: [total + x, total * 2.0]  # noqa: E731
        return scan(body, [state], [xs], xs.shape[0], reverse)

    ports = [Port("state", FLOAT, ("n", 2)), Port("xs", FLOAT, ("length", "n", 2))]
    feeds = [[image(3, 2), image(length, 3, 2)] for length in (1, 4)]
    compiled = same(shim, running, ports, *feeds)
    final, collected = compiled.run([image(3, 2), image(0, 3, 2)])
    assert final.shape == (3, 2) and collected.shape[0] == 0


def test_two_models_live_beside_each_other(shim: Any) -> None:
    ports = [Port("x", FLOAT, (None,))]
    first = shim.compile(record_program(lambda x: [x + 1.0], ports, shim.emitter()))
    second = shim.compile(record_program(lambda x: [x * 3.0], ports, shim.emitter()))
    x = image(4)
    np.testing.assert_allclose(first.run([x])[0], x + 1)
    np.testing.assert_allclose(second.run([x])[0], x * 3)
    np.testing.assert_allclose(first.run([x])[0], x + 1)


def test_threads_share_a_model(shim: Any) -> None:
    compiled = shim.compile(record_program(lambda x: [x * 2.0], [Port("x", FLOAT, (None,))], shim.emitter()))
    wrong: List[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            x = np.full(number + 1, number, np.float32)
            if not np.array_equal(compiled.run([x])[0], x * 2):
                wrong.append(number)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@pytest.mark.parametrize("is_open", [False, True], ids=["static", "open"])
@pytest.mark.parametrize("transposed", [False, True], ids=["conv", "conv_transpose"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_convolution_without_input_channels_is_its_bias(
    shim: Any, axes: int, transposed: bool, is_open: bool
) -> None:
    """TensorFlow 1.15 divides by the number of channels, which ended the process."""

    def convolve(x: Any, w: Any) -> List[Any]:
        window = Window.of((2,) * axes)
        apply = primitives.conv_transpose if transposed else conv
        return [apply(x, w, np.array([1, -2], np.float32), window=window)]

    filters = image(0, 2, *[2] * axes) if transposed else image(2, 0, *[2] * axes)
    channels = "c" if is_open else 0
    wide = [channels if size == 0 else size for size in filters.shape]
    ports = [Port("x", FLOAT, ("n", channels, *[4] * axes)), Port("w", FLOAT, tuple(wide))]
    same(shim, convolve, ports, [image(3, 0, *[4] * axes), filters])


@pytest.mark.parametrize("sizes", [(0,), ("n",), ("n", 3)])
def test_hardmax_of_no_element_is_empty(shim: Any, sizes: Any) -> None:
    function = lambda x: [lookup("", "Hardmax", 13).function(x, axis=0)]  # noqa: E731
    empty = np.zeros([size if isinstance(size, int) else 0 for size in sizes], np.float32)
    feeds = [[empty]] if 0 in sizes else [[empty], [image(4, *sizes[1:])]]
    same(shim, function, [Port("x", FLOAT, sizes)], *feeds)


def test_errors_of_tensorflow_are_typed_errors(shim: Any) -> None:
    ports = [Port("x", FLOAT, (None,)), Port("at", dtypes.int64, (None,))]
    compiled = shim.compile(record_program(lambda x, at: [primitives.take(x, at, 0)], ports, shim.emitter()))
    with pytest.raises(OnnxCompatError, match="TensorFlow stopped"):
        compiled.run([image(2), np.array([7])])


def test_a_device_that_is_not_there_is_refused(shim: Any) -> None:
    program = record_program(lambda x: [x + 1.0], [Port("x", FLOAT, (None,))], shim.emitter())
    np.testing.assert_allclose(shim.compile(program, "cpu").run([image(2)])[0], image(2) + 1)
    for device in ("gpu:99", "tpu"):
        with pytest.raises(ShimError, match="available are: cpu:0"):
            shim.compile(program, device)


def test_a_rank_that_tensorflow_does_not_know_is_refused_by_name(shim: Any) -> None:
    def four(x: Any) -> List[Any]:
        return [conv(x, image(1, 1, 1, 1, 1, 1), window=Window.of((1, 1, 1, 1)))]

    program = record_program(four, [Port("x", FLOAT, (1, 1, 2, 2, 2, 2))], shim.emitter())
    with pytest.raises(UnsupportedError, match="4 spatial axes"):
        shim.compile(program)


def test_a_trial_builds_nothing(shim: Any) -> None:
    from onnx_compat.ir import Spec

    with shim.scratch() as emitter:
        handle = emitter.placeholder(Spec(FLOAT, (2, 3)))
        assert handle.shape.as_list() == [2, 3]
