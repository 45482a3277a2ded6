"""Feature detection: when a kernel is first needed, run it once in a tiny graph on the CPU.

A probe compares the numbers, since some releases ignore an option, such as a dilation, or lose NaN. The version is not used: a
kernel may not do what its release documents.
"""

import threading
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np

from onnx_compat.shim import DType, UnsupportedError
from onnx_compat_tensorflow.framework_types import Key, RawOps, TensorFlow, TfDType, TfTensor
from onnx_compat_tensorflow.kernels import ACCUMULATING, Route, call, kernel, routes, trial

__all__ = ["Features"]


class Features:
    """Probes of an imported module `tensorflow`. Each probe runs once; its answer is cached."""

    def __init__(self, tf: TensorFlow) -> None:
        self.tf = tf
        self._answers: Dict[Any, Any] = {}
        self._lock = threading.RLock()

    # -- kernels -------------------------------------------------------------------------------------------------------
    def has(self, op: str) -> bool:
        """Whether `tf.raw_ops` has an op of this name."""
        return hasattr(self.tf.raw_ops, op)

    def runs(self, op: str, dtype: str, operands: int) -> bool:
        """Whether TensorFlow has a CPU kernel of the raw op for this dtype: a probe runs the op once.

        float32 is not probed: the answer is whether the op exists. For another dtype, False if the op does not exist.
        `operands`: the number of the op's tensor arguments.
        """

        def probe_answer() -> bool:
            arrays = trial(op, operands, DType.of(dtype).numpy)
            return self.run(lambda *xs: call(self.tf.raw_ops, op, xs, kernel(op).attributes), *arrays) is not None

        return self.has(op) and (dtype == "float32" or bool(self._answer_once((op, dtype), probe_answer)))

    def route(self, op: str, dtype: str, operands: int) -> Optional[Route]:
        """Return None if the op has a kernel for this dtype, else a `Route` to a dtype that has a kernel.

        For float16, an op in `ACCUMULATING` gets a route even if it has a kernel. Raises UnsupportedError if no route
        leads to a kernel. `operands`: the number of the op's tensor arguments.
        """
        route: Optional[Route] = self._answer_once(("route", op, dtype), lambda: self._find_route(op, dtype, operands))
        return route

    def _find_route(self, op: str, dtype: str, operands: int) -> Optional[Route]:
        precise = not (dtype == "float16" and op in ACCUMULATING)
        if precise and self.runs(op, dtype, operands):
            return None
        for route in routes(op, dtype):
            if self.runs(op, route.dtype, operands):
                return route
        raise UnsupportedError("this TensorFlow has no kernel of %s for %s" % (op, dtype))

    def can_run(self, op: str, dtype: str, operands: int = 1) -> bool:
        """Whether the op has a kernel for the dtype, or a route to a dtype with a kernel: `route` does not raise.

        `operands`: the number of operands of the op.
        """
        try:
            self.route(op, dtype, operands)
        except UnsupportedError:
            return False
        return True

    # -- behaviours ----------------------------------------------------------------------------------------------------
    def holds(self, behaviour: str, dtype: str = "float32") -> bool:
        """Whether a test graph, run in `dtype`, returns the expected numbers and signs. The answer is cached.

        `behaviour`: the name of the test graph in `BEHAVIOURS`, such as "Maximum keeps NaN". Raises KeyError for any
        other name.

        Numbers are compared by np.allclose, signs only if no NaN is expected. Returns False if the graph cannot run
        (see `run`).
        """
        build, feeds, expected = BEHAVIOURS[behaviour]

        def probe_answer() -> bool:
            result = self.run(lambda *xs: build(self.tf.raw_ops, *xs), *[feed.astype(dtype) for feed in feeds])
            wanted = np.asarray(expected, np.float32)
            if result is None or result.shape != wanted.shape or not np.allclose(result, wanted, equal_nan=True):
                return False
            return bool(np.array_equal(np.signbit(result), np.signbit(wanted)) or np.isnan(wanted).any())

        return bool(self._answer_once((behaviour, dtype), probe_answer))

    def run(self, build: Callable[..., Any], *arrays: np.ndarray) -> Optional[np.ndarray]:
        """Build a graph by `build(*tensors)`, run it on the CPU with the values `arrays`, and return its first result.

        Returns None in these cases:

        - The graph raises an OpError, a TypeError or a ValueError while it is built or run.
        - The shape of the result contradicts the shape that TensorFlow inferred.

        Other errors are not caught.
        """
        tf = self.tf
        graph = tf.Graph()
        try:
            with graph.as_default(), tf.device("/CPU:0"):
                feeds = [tf.compat.v1.placeholder(_tf_dtype(tf, a), a.shape) for a in arrays]
                result = build(*feeds)
                result = result[0] if isinstance(result, (tuple, list)) else result
            with tf.compat.v1.Session(graph=graph) as session:
                value = np.asarray(session.run(result, dict(zip(feeds, arrays))))
            return value if result.shape.is_compatible_with(value.shape) else None  # an inferred shape has to be right
        except (tf.errors.OpError, TypeError, ValueError):
            return None

    def _answer_once(self, question: Key, answer: Callable[[], Any]) -> Any:
        """Return `answer()`, which is called only for a new `question` and cached.

        An UnsupportedError that it raises is cached too, and raised at each call. Other errors are not cached.
        """
        with self._lock:
            if question not in self._answers:
                try:
                    self._answers[question] = answer()
                except UnsupportedError as error:
                    self._answers[question] = error
            cached = self._answers[question]
        if isinstance(cached, UnsupportedError):
            raise UnsupportedError(cached.reason)
        return cached

    def report(self, behaviours: Sequence[str]) -> Dict[str, bool]:
        """Return {behaviour: whether it holds for float32}."""
        return {name: self.holds(name) for name in behaviours}


def _tf_dtype(tf: TensorFlow, array: np.ndarray) -> TfDType:
    return tf.string if array.dtype == object else tf.as_dtype(array.dtype)


def _image(*shape: int) -> np.ndarray:
    """Return the float32 numbers 1, 2, 3, ... in row-major order, as an array of this shape."""
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


def _nan_first(count: int) -> np.ndarray:
    array = np.ones(count, np.float32)
    array[0] = np.nan
    return array


_STEP = {"strides": [1, 1, 1, 1], "padding": "VALID"}
_SIDES = [0, 0, 1, 0, 0, 1, 0, 0]
_NANS = np.array([np.nan, 1] * 9, np.float32)
_ROOTS = np.array([-0.0, np.inf, 3.0] * 6)
_DIVISORS = [float(number) for number in range(1, 65)]
_ENDS = np.array([-np.inf, np.inf] * 9, np.float32)
_FOUR = np.array([4], np.int64)
_DILATED = np.array([1, 0, 1], np.float32)


def _explicit(op: str) -> Callable[..., Any]:
    def build(raw: RawOps, x: TfTensor, w: TfTensor) -> TfTensor:
        options = {"strides": [1, 1, 1, 1], "padding": "EXPLICIT", "explicit_paddings": _SIDES}
        return getattr(raw, op)(input=x, filter=w, **options)

    return build


def _explicit_pool(raw: RawOps, x: TfTensor) -> TfTensor:
    return raw.MaxPool(input=x, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="EXPLICIT", explicit_paddings=_SIDES)


def _dilated_transpose(raw: RawOps, x: TfTensor, w: TfTensor) -> TfTensor:
    return raw.Conv2DBackpropInput(
        input_sizes=[1, 1, 3, 1],
        filter=w,
        out_backprop=x,
        dilations=[1, 1, 2, 1],
        strides=[1, 1, 1, 1],
        padding="VALID",
    )


def _grouped_transpose(raw: RawOps, x: TfTensor, w: TfTensor) -> TfTensor:
    return raw.Conv2DBackpropInput(input_sizes=[1, 1, 1, 4], filter=w, out_backprop=x, **_STEP)


_X = _image(1, 2, 2, 1)
_TAPS = np.ones((1, 2, 1, 1), np.float32)

#: Behaviour -> (builder of a graph, its feeds, the expected result).
BEHAVIOURS: Dict[str, Any] = {
    "Maximum keeps NaN": (lambda raw, x, y: raw.Maximum(x=y, y=x), [_NANS, np.ones_like(_NANS)], _NANS),
    "Minimum keeps NaN": (lambda raw, x, y: raw.Minimum(x=y, y=x), [_NANS, np.ones_like(_NANS)], _NANS),
    "Max keeps NaN": (lambda raw, x: raw.Max(input=x, axis=[0]), [_nan_first(17)], np.nan),
    "Min keeps NaN": (lambda raw, x: raw.Min(input=x, axis=[0]), [_nan_first(17)], np.nan),
    "Sign keeps NaN": (lambda raw, x: raw.Sign(x=x), [_NANS], _NANS),
    "Neg keeps zeros": (lambda raw, x: raw.Neg(x=x), [np.zeros(18)], -np.zeros(18)),
    "Round keeps zeros": (lambda raw, x: raw.Round(x=x), [np.full(18, -0.25)], -np.zeros(18)),
    "RealDiv by a constant is exact": (
        lambda raw, x, quotients: raw.Sign(x=raw.Sub(x=raw.RealDiv(x=x, y=_DIVISORS), y=quotients)),
        [np.array(_DIVISORS), np.ones(len(_DIVISORS))],
        np.zeros(len(_DIVISORS)),
    ),
    "Sqrt is exact": (lambda raw, x: raw.Sqrt(x=x), [_ROOTS * np.abs(_ROOTS)], _ROOTS),
    "FloorDiv is exact": (lambda raw, x, y: raw.FloorDiv(x=x, y=y), [np.full(2, -128), np.array([3, 64])], [-43, -2]),
    "Erf is bounded": (lambda raw, x: raw.Erf(x=x), [_ENDS], np.sign(_ENDS)),
    "Sigmoid stays below one": (
        lambda raw, x, unit: raw.Sign(x=raw.Sub(x=unit, y=raw.Sigmoid(x=x))),
        [np.full(18, 16.0), np.ones(18)],
        np.ones(18),
    ),
    "SelectV2 takes six dimensions": (
        lambda raw, x: raw.SelectV2(condition=raw.Less(x=x, y=x), t=raw.Sum(input=x, axis=[0, 1, 2, 3, 4, 5]), e=x),
        [_image(2, 1, 1, 2, 1, 2)],
        _image(2, 1, 1, 2, 1, 2),
    ),
    "Reshape takes int64": (
        lambda raw, x: raw.Neg(x=raw.Reshape(tensor=raw.EnsureShape(input=x, shape=[2, 2]), shape=_FOUR)),
        [_image(2, 2)],
        -_image(4),
    ),
    "Relu keeps NaN": (lambda raw, x: raw.Relu(features=x), [_NANS], _NANS),
    "Relu6 keeps NaN": (lambda raw, x: raw.Relu6(features=x), [_NANS], _NANS),
    # With a bias and an activation: some releases fuse Conv2D, BiasAdd and Relu into a kernel that refuses groups.
    "grouped Conv2D": (
        lambda raw, x, w, b: raw.Relu(features=raw.BiasAdd(value=raw.Conv2D(input=x, filter=w, **_STEP), bias=b)),
        [_image(1, 1, 1, 4), _image(1, 1, 2, 2), np.zeros(2)],
        np.array([1 * 1 + 2 * 3, 3 * 2 + 4 * 4]).reshape(1, 1, 1, 2),
    ),
    "grouped Conv2DBackpropInput": (
        _grouped_transpose,
        [_image(1, 1, 1, 2), _image(1, 1, 2, 2)],
        np.array([1, 3, 4, 8]).reshape(1, 1, 1, 4),
    ),
    "empty Conv2D": (_explicit("Conv2D"), [_X[:0], _TAPS], np.zeros((0, 3, 2, 1))),
    "explicit Conv2D": (_explicit("Conv2D"), [_X, _TAPS], np.array([0, 0, 3, 2, 7, 4]).reshape(1, 3, 2, 1)),
    "explicit MaxPool": (_explicit_pool, [_X], np.array([2, 2, 4, 4]).reshape(1, 2, 2, 1)),
    "dilated DepthwiseConv2dNative": (
        lambda raw, x, w: raw.DepthwiseConv2dNative(input=x, filter=w, dilations=[1, 2, 2, 1], **_STEP),
        [_image(1, 3, 3, 1), _image(2, 2, 1, 1)],
        np.array([1 * 1 + 3 * 2 + 7 * 3 + 9 * 4]).reshape(1, 1, 1, 1),
    ),
    "unequal strides of DepthwiseConv2dNative": (
        lambda raw, x, w: raw.DepthwiseConv2dNative(input=x, filter=w, strides=[1, 1, 2, 1], padding="VALID"),
        [_image(1, 1, 3, 1), _image(1, 1, 1, 1)],
        np.array([1, 3]).reshape(1, 1, 2, 1),
    ),
    "Conv2D of a column": (
        lambda raw, x, w: raw.Conv2D(input=x, filter=w, strides=[1, 1, 3, 1], padding="VALID"),
        [_image(2, 2, 2, 1), _image(1, 2, 1, 1)],
        np.array([5, 11, 17, 23]).reshape(2, 2, 1, 1),
    ),
    "Conv3D of a column": (
        lambda raw, x, w: raw.Conv3D(input=x, filter=w, strides=[1, 1, 1, 3, 1], padding="VALID"),
        [_image(2, 1, 2, 2, 1), _image(1, 1, 2, 1, 1)],
        np.array([5, 11, 17, 23]).reshape(2, 1, 2, 1, 1),
    ),
    "dilated Conv3D": (
        lambda raw, x, w: raw.Conv3D(
            input=x, filter=w, strides=[1, 1, 1, 1, 1], padding="VALID", dilations=[1, 1, 2, 1, 1]
        ),
        [_image(1, 1, 3, 1, 1), _image(1, 2, 1, 1, 1)],
        np.array([1 * 1 + 3 * 2]).reshape(1, 1, 1, 1, 1),
    ),
    "dilated Conv2DBackpropInput": (
        _dilated_transpose,
        [_image(1, 1, 1, 1), _TAPS],
        _DILATED.reshape(1, 1, 3, 1),
    ),
}


def reported_behaviours() -> List[str]:
    """Return the names of the behaviours that `onnx_compat.shims()` and `onnx-compat doctor` show."""
    return ["grouped Conv2D", "explicit Conv2D", "dilated DepthwiseConv2dNative", "Maximum keeps NaN"]
