"""Detect whether TensorFlow Probability, an extra, is installed, works, and is faster than the composed meaning.

Its functions compose kernels of TensorFlow, and are faster in some releases only: this is measured. The import takes seconds.
So it happens when a model has a GridSample, or when the entry of `WithProbability` is read.
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
from onnx_compat_tensorflow.framework_types import TfTensor
from onnx_compat_tensorflow.importing import import_tensorflow, silence_stderr

__all__ = ["Interpolation", "WithProbability", "interpolation", "is_installed"]

_MODULE = "tensorflow_probability"
_LOCK = threading.RLock()
_SLOW = 4.0  # time of SelectV2 / time of Mul: 10 to 20 up to TensorFlow 2.4, 1 to 2 later


class Interpolation(NamedTuple):
    """The function `batch_interp_regular_nd_grid` of TensorFlow Probability, or None if it is not used.

    `reason` is text for the user: why the function is not used, or its version and its use.
    """

    function: Optional[Callable[..., Any]]
    reason: str


_CACHE: List[Interpolation] = []  # at most one entry: a process has one TensorFlow


def is_installed() -> bool:
    """Whether the package tensorflow_probability is installed. It is not imported."""
    try:
        return importlib.util.find_spec(_MODULE) is not None
    except ValueError:  # sys.modules holds an object without a spec under this name
        return False


def interpolation() -> Interpolation:
    """Return the `Interpolation` of this process, which is detected at the first call and cached.

    `function` is batch_interp_regular_nd_grid of TensorFlow Probability, if it works and is faster on this TensorFlow.
    Otherwise it has the value None, and `reason` says why.
    """
    with _LOCK:
        if not _CACHE:
            _CACHE.append(_detect())
        return _CACHE[0]


def _detect() -> Interpolation:
    if not is_installed():
        return Interpolation(None, "not installed")
    features = Features(import_tensorflow())
    try:
        # init_scope: the import creates tensors, which must outlive a graph that the caller is building.
        with silence_stderr(), warnings.catch_warnings(), features.tf.init_scope():
            warnings.simplefilter("ignore")
            library = importlib.import_module(_MODULE)
            function = library.math.batch_interp_regular_nd_grid
        is_right = _interpolates(features, function)
    except Exception as error:  # noqa: BLE001  (of the wrong version, or without what it needs, it may raise anything)
        first = (str(error).strip().splitlines() or [""])[0]
        return Interpolation(None, "not used, it fails: %s: %s" % (type(error).__name__, first))
    version = getattr(library, "__version__", "of no version")
    if not is_right:
        return Interpolation(None, "%s, not used: it interpolates wrongly" % version)
    if not _selects_slowly(features):
        return Interpolation(None, "%s, not used: this TensorFlow is as fast without" % version)
    return Interpolation(function, "%s, for GridSample" % version)


def _interpolates(features: Features, function: Callable[..., Any]) -> bool:
    """Whether `function` interpolates correctly between the pixels of a 2x2 image, and repeats the border outside.

    Returns False if TensorFlow cannot run the test graph (see `Features.run`).
    """

    def build(points: TfTensor, image: TfTensor) -> TfTensor:
        return function(points, [0.0, 0.0], [1.0, 1.0], image, axis=-3, fill_value="constant_extension")

    points = np.array([[[0.5, 0.5], [0.0, 0.25], [7.0, -7.0]]], np.float32)
    sampled = features.run(build, points, np.array([[[[1], [2]], [[3], [6]]]], np.float32))
    return sampled is not None and np.allclose(sampled, [[[3.0], [1.25], [3.0]]])


def _selects_slowly(features: Features) -> bool:
    """Whether a SelectV2 with a broadcast condition takes over four times as long as a Mul of the same size.

    TensorFlow up to 2.4 broadcasts the condition element by element. The composed GridSample masks outer pixels by
    SelectV2, which then takes most of its time.
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
    """Return the least CPU time in seconds of five calls of `action`, after an unmeasured first call.

    CPU time excludes waits for other processes.
    """
    action()
    times = []
    for _ in range(5):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times)


class WithProbability(Mapping[str, Any]):
    """A read-only mapping of features, plus the entry "tensorflow-probability", the text `interpolation().reason`.

    The text is computed when the entry is read.
    """

    _KEY = "tensorflow-probability"

    def __init__(self, features: Mapping[str, Any]) -> None:
        self._features = features

    def __getitem__(self, name: str) -> Any:
        return interpolation().reason if name == self._KEY else self._features[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._features, self._KEY])

    def __len__(self) -> int:
        return len(self._features) + 1
