"""TensorFlow Probability, an extra: whether it is here, whether it works beside this TensorFlow, and where it is faster.

It has no kernels of its own, and what it draws from a seed are the numbers of TensorFlow's stateless kernels, which this
shim calls itself. So it is used where its way to put kernels together is the faster one, which is measured. It is
imported when such an operator occurs, or when somebody asks: that takes seconds.
"""

import importlib
import importlib.util
import threading
import time
import warnings
from functools import partial
from typing import Any, Callable, Iterator, List, Mapping, NamedTuple, Optional

import numpy as np

from onnx_compat_tensorflow.features import Features
from onnx_compat_tensorflow.importing import quiet, tensorflow

__all__ = ["Interpolation", "WithProbability", "installed", "interpolation"]

_MODULE = "tensorflow_probability"
_LOCK = threading.RLock()
_SLOW = 4.0  # times as much: a TensorFlow that is slow at it needs 10 to 20 times as much, one that is not 1 to 2


class Interpolation(NamedTuple):
    """`function` is None where it is not used; `reason` says why, or for what it is."""

    function: Optional[Callable[..., Any]]
    reason: str


_FOUND: List[Interpolation] = []  # at most one: there is one TensorFlow in a process


def installed() -> bool:
    """Whether it can be looked for at all; costs nothing."""
    try:
        return importlib.util.find_spec(_MODULE) is not None
    except ValueError:  # somebody has put something else in its place
        return False


def interpolation() -> Interpolation:
    """Its interpolation between the points of a regular grid, if that works here and is faster; found out once."""
    with _LOCK:
        if not _FOUND:
            _FOUND.append(_find())
        return _FOUND[0]


def _find() -> Interpolation:
    if not installed():
        return Interpolation(None, "not installed")
    features = Features(tensorflow())
    try:
        # Not in the graph that may be under construction: what an import leaves behind has to outlive it.
        with quiet(), warnings.catch_warnings(), features.tf.init_scope():
            warnings.simplefilter("ignore")
            library = importlib.import_module(_MODULE)
            function = library.math.batch_interp_regular_nd_grid
        works = _works(features, function)
    except Exception as error:  # noqa: BLE001  (of the wrong version, or without what it needs, it may raise anything)
        first = (str(error).strip().splitlines() or [""])[0]
        return Interpolation(None, "not used, it fails: %s: %s" % (type(error).__name__, first))
    version = getattr(library, "__version__", "of no version")
    if not works:
        return Interpolation(None, "%s, not used: it interpolates wrongly" % version)
    if not _selects_slowly(features):
        return Interpolation(None, "%s, not used: this TensorFlow is as fast without" % version)
    return Interpolation(function, "%s, for GridSample" % version)


def _works(features: Features, function: Callable[..., Any]) -> bool:
    """Between the four corners of a picture, and beyond them."""

    def build(points: Any, image: Any) -> Any:
        return function(points, [0.0, 0.0], [1.0, 1.0], image, axis=-3, fill_value="constant_extension")

    points = np.array([[[0.5, 0.5], [0.0, 0.25], [7.0, -7.0]]], np.float32)
    got = features.run(build, points, np.array([[[[1], [2]], [[3], [6]]]], np.float32))
    return got is not None and np.allclose(got, [[[3.0], [1.25], [3.0]]])


def _selects_slowly(features: Features) -> bool:
    """Whether picking rows costs many times what multiplying them does: releases up to 2.4 at least broadcast the
    condition of a SelectV2 element by element. That is what leaving out the pixels beyond an edge costs most.
    """
    tf = features.tf
    with tf.Graph().as_default(), tf.device("/CPU:0"):
        kept = tf.compat.v1.placeholder(tf.bool, [16384, 1])
        rows = tf.compat.v1.placeholder(tf.float32, [16384, 64])
        picked = tf.raw_ops.SelectV2(condition=kept, t=rows, e=tf.zeros([]))
        scaled = tf.raw_ops.Mul(x=rows, y=tf.cast(kept, tf.float32))
        feeds = {kept: np.arange(16384).reshape(-1, 1) % 3 > 0, rows: np.ones([16384, 64], np.float32)}
        with tf.compat.v1.Session() as session:
            slow, quick = (_seconds(partial(session.run, way.op, feeds)) for way in (picked, scaled))
    return slow > _SLOW * quick


def _seconds(action: Callable[[], Any]) -> float:
    """The least that a few took of the processor: a machine that is busy with something else changes nothing."""
    action()
    taken = []
    for _ in range(5):
        start = time.process_time()
        action()
        taken.append(time.process_time() - start)
    return min(taken)


class WithProbability(Mapping[str, Any]):
    """What a probe tells of TensorFlow, and of TensorFlow Probability beside it: that is found out when it is read."""

    _KEY = "tensorflow-probability"

    def __init__(self, told: Mapping[str, Any]) -> None:
        self._told = told

    def __getitem__(self, name: str) -> Any:
        return interpolation().reason if name == self._KEY else self._told[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._told, self._KEY])

    def __len__(self) -> int:
        return len(self._told) + 1
