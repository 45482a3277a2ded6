"""Running a flatbuffer.

An interpreter runs on as many threads as the process may use processors, and under the default delegate (XNNPACK).
That delegate cannot always follow when a tensor changes its shape: then an interpreter without it takes over, for good.
Calls from several threads take turns.
"""

import os
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Compiled, Port, UnsupportedError
from onnx_compat_tflite.features import Runtime

__all__ = ["Handling", "Interpreted", "as_given", "as_text", "threads"]

_ERRORS = (RuntimeError, ValueError)

#: b"" without bytes. The runtime takes all bytes of a scalar, and numpy gives b"" one zero byte, but for a field.
_EMPTY_TEXT = np.zeros((), [("text", "S0")])["text"]


def threads() -> int:
    """The processors that this process may use, of which small kernels use no more than a few well."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, min(len(os.sched_getaffinity(0)), 4))
    return max(1, min(os.cpu_count() or 1, 4))


class Handling(NamedTuple):
    """What has to be minded where a model runs; `shim.py` finds it out for the model and for the runtime that is here."""

    #: Do without the delegate from the start.
    plain: bool = False
    #: A kernel of it would end the process if a size that is not known were zero: empty inputs are refused.
    nonempty: bool = False
    #: Tensors whose sizes are not known, and that must not become empty, or the process ends: looked at before each run of
    #: other sizes.
    windows: Sequence[int] = ()
    #: A window goes over sizes that are not known. Over nothing, XNNPACK gives sizes that were in the memory before: an empty
    #: input goes to an interpreter without it.
    slides: bool = False
    #: It draws random numbers from a seed, and an interpreter goes on where it was: each run takes a new one.
    seeded: bool = False


class Interpreted(Compiled):
    """One interpreter, which `native` is. `source` says where the model is: `model_content` or `model_path`."""

    def __init__(
        self,
        runtime: Runtime,
        source: Dict[str, Any],
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        handling: Handling,
    ) -> None:
        self._runtime = runtime
        self._source = source
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._handling = handling
        self._plain = handling.plain
        self._lock = threading.Lock()
        self._bare: Optional[Interpreted] = None
        self._shapes: Optional[List[Tuple[int, ...]]] = None
        self._open()

    def _open(self) -> None:
        try:
            self.native = self._runtime.interpreter(self._plain, num_threads=threads(), **self._source)
        except _ERRORS as error:
            if not self._plain:
                self._plain = True
                self._open()
                return
            raise _refused("does not load the model", error) from error
        self._places = [detail["index"] for detail in self.native.get_input_details()]
        self._results = [detail["index"] for detail in self.native.get_output_details()]
        self._shapes = None

    def run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        with self._lock:
            if self._handling.slides and not self._plain and any(array.size == 0 for array in arrays):
                return self._without_delegate().run(arrays)
            if self._handling.seeded and self._shapes is not None:
                self._open()
            try:
                return self._run(arrays)
            except _ERRORS as error:
                if self._plain:
                    raise self._unrun(error) from error
            self._plain = True
            self._open()
            try:
                return self._run(arrays)
            except _ERRORS as error:
                raise self._unrun(error) from error

    def _without_delegate(self) -> "Interpreted":
        if self._bare is None:
            handling = self._handling._replace(plain=True)
            self._bare = Interpreted(self._runtime, self._source, self._inputs, self._outputs, handling)
        return self._bare

    def _unrun(self, error: BaseException) -> UnsupportedError:
        sizes = any(None in port.sizes for port in self._inputs)
        hint = "sizes may not fit together, or be smaller than a window: try larger inputs" if sizes else None
        return _refused("could not run the model", error, hint)

    def _run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        shapes = [tuple(array.shape) for array in arrays]
        if self._handling.nonempty and any(0 in shape for shape in shapes):
            raise UnsupportedError(
                "an input is empty, and this model has a kernel (of a softmax, a convolution, a pool, a product of matrices)"
                " that cannot bear that",
                hint="prepare the model with fixed sizes, or use another shim for empty inputs",
                shim="tflite",
            )
        if shapes != self._shapes:
            self._allocate(shapes)
        for place, array in zip(self._places, arrays):
            if array.size:  # there is nothing to give otherwise, and old runtimes take it amiss
                self.native.set_tensor(place, as_given(array))
        self.native.invoke()
        return [self._taken(place, port) for place, port in zip(self._results, self._outputs)]

    def _look_ahead(self, shapes: List[Tuple[int, ...]]) -> None:
        """Allocate, without the delegate and without running, to see which sizes come of these."""
        scout = self._runtime.interpreter(True, **self._source)
        for place, shape in zip(self._places, shapes):
            scout.resize_tensor_input(place, shape)
        scout.allocate_tensors()
        sizes = {detail["index"]: detail["shape"] for detail in scout.get_tensor_details()}
        if any(0 in sizes[index] for index in self._handling.windows):
            raise UnsupportedError(
                "an input is smaller than a window that goes over it, and the kernels of this TFLite cannot bear that",
                hint="give larger inputs",
                shim="tflite",
            )

    def _allocate(self, shapes: List[Tuple[int, ...]]) -> None:
        if self._handling.windows:
            self._look_ahead(shapes)
        for place, shape, detail in zip(self._places, shapes, self.native.get_input_details()):
            if tuple(detail["shape"]) != shape:
                self.native.resize_tensor_input(place, shape)
        self._shapes = None
        self.native.allocate_tensors()
        self._shapes = shapes

    def _taken(self, place: int, port: Port) -> np.ndarray:
        shape: Any = port.sizes
        if None in shape or 0 in shape:
            shape = tuple(next(d["shape"] for d in self.native.get_output_details() if d["index"] == place))
        if 0 in shape:
            return np.zeros(shape, port.dtype.numpy)
        array = self.native.get_tensor(place)
        if port.dtype.kind == "s":
            return as_text(array, shape)
        return np.asarray(array)


def as_given(array: np.ndarray) -> np.ndarray:
    """As the runtime takes it: strings as bytes, and one alone not as an object."""
    if array.dtype != object:
        return np.ascontiguousarray(array).reshape(array.shape)
    if array.ndim == 0:
        text = str(array).encode("utf-8", "surrogateescape")
        return np.array(text) if text else _EMPTY_TEXT
    encoded = np.empty(array.shape, object)
    for place in np.ndindex(*array.shape):
        encoded[place] = str(array[place]).encode("utf-8", "surrogateescape")
    return encoded


def as_text(array: np.ndarray, shape: Tuple[int, ...]) -> np.ndarray:
    out = np.empty(shape, object)
    items: Any = np.asarray(array, object).reshape(shape)
    for place in np.ndindex(*shape):
        item = items[place]
        out[place] = item.decode("utf-8", "surrogateescape") if isinstance(item, bytes) else str(item)
    return out


def _refused(what: str, error: BaseException, hint: Optional[str] = None) -> UnsupportedError:
    lines = [line for line in str(error).strip().splitlines() if line.strip()] or [type(error).__name__]
    return UnsupportedError("the TFLite runtime %s: %s" % (what, lines[0]), hint=hint, shim="tflite")
