"""Run a TFLite model on the installed runtime.

An interpreter uses as many threads as the process has processors, at most four, and the default delegate (XNNPACK).
XNNPACK fails after some changes of a tensor's shape. Then an interpreter without XNNPACK runs this and all later inputs.
A lock serialises runs from several threads.
"""

import os
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Compiled, Port, UnsupportedError
from onnx_compat_tflite.features import Runtime

__all__ = ["InterpretedModel", "Precautions", "decode_strings", "encode_input", "thread_count"]

_ERRORS = (RuntimeError, ValueError)

#: A scalar b"" of dtype S0. np.array(b"") has dtype S1, and the runtime would store its zero byte. Only a field can be S0.
_EMPTY_STRING = np.zeros((), [("text", "S0")])["text"]


def thread_count() -> int:
    """Return the number of processors of this process, but at most 4: small kernels gain nothing from more threads."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, min(len(os.sched_getaffinity(0)), 4))
    return max(1, min(os.cpu_count() or 1, 4))


class Precautions(NamedTuple):
    """Workarounds for defects of the installed runtime that would affect this model."""

    #: Use no delegate from the start.
    without_delegate: bool = False
    #: Refuse empty inputs: a kernel of the model would end the process if an open size were zero.
    rejects_empty_inputs: bool = False
    #: Tensors of open size that must not become empty, or the process ends. They are checked before each run of new sizes.
    window_outputs: Sequence[int] = ()
    #: A convolution or pool has open sizes. XNNPACK returns stale sizes for an empty input: an interpreter without it runs.
    has_open_windows: bool = False
    #: The model draws random numbers from a seed. An interpreter continues its sequence, so each run gets a new interpreter.
    draws_from_seed: bool = False


class InterpretedModel(Compiled):
    """Run a TFLite model in an interpreter of the runtime. `native` is the interpreter; `run` may replace it.

    `source` is {"model_content": bytes} or {"model_path": path}. `inputs` and `outputs` are the ports of the model, in
    its order. If the runtime cannot load the model with the delegate, the model runs without the delegate. Raises
    UnsupportedError if the runtime cannot load the model without the delegate.
    """

    def __init__(
        self,
        runtime: Runtime,
        source: Dict[str, Any],
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        precautions: Precautions,
    ) -> None:
        self._runtime = runtime
        self._source = source
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._precautions = precautions
        self._has_no_delegate = precautions.without_delegate
        self._lock = threading.Lock()
        self._fallback: Optional[InterpretedModel] = None
        self._shapes: Optional[List[Tuple[int, ...]]] = None
        self._open()

    def _open(self) -> None:
        """Open a new interpreter as `native`. If the runtime refuses the model with the delegate, open it without.

        Raises UnsupportedError if the runtime refuses the model without the delegate.
        """
        try:
            self.native = self._runtime.interpreter(self._has_no_delegate, num_threads=thread_count(), **self._source)
        except _ERRORS as error:
            if not self._has_no_delegate:
                self._has_no_delegate = True
                self._open()
                return
            raise _runtime_error("does not load the model", error) from error
        self._input_indices = [detail["index"] for detail in self.native.get_input_details()]
        self._output_indices = [detail["index"] for detail in self.native.get_output_details()]
        self._shapes = None

    def run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        """Run the model and return its outputs. Inputs and outputs are in the order of the ports.

        Raises UnsupportedError if

        - the runtime fails without the delegate,
        - an input is empty, and a kernel of the model does not support it,
        - an input is smaller than a window, and the kernels do not support it.

        If a run with the delegate fails, the run is repeated without the delegate, as are all later runs. Some models
        run empty inputs in a second interpreter without the delegate. If the model draws from a seed, each run has a
        new interpreter. See `Precautions`.
        """
        with self._lock:
            is_empty = any(array.size == 0 for array in arrays)
            if self._precautions.has_open_windows and not self._has_no_delegate and is_empty:
                return self._without_delegate().run(arrays)
            if self._precautions.draws_from_seed and self._shapes is not None:
                self._open()
            try:
                return self._run(arrays)
            except _ERRORS as error:
                if self._has_no_delegate:
                    raise self._run_error(error) from error
            self._has_no_delegate = True
            self._open()
            try:
                return self._run(arrays)
            except _ERRORS as error:
                raise self._run_error(error) from error

    def _without_delegate(self) -> "InterpretedModel":
        """Return this model as a second `InterpretedModel`, without XNNPACK. The first call opens its interpreter."""
        if self._fallback is None:
            precautions = self._precautions._replace(without_delegate=True)
            self._fallback = InterpretedModel(self._runtime, self._source, self._inputs, self._outputs, precautions)
        return self._fallback

    def _run_error(self, error: BaseException) -> UnsupportedError:
        has_open_sizes = any(None in port.sizes for port in self._inputs)
        hint = "sizes may not fit together, or be smaller than a window: try larger inputs" if has_open_sizes else None
        return _runtime_error("could not run the model", error, hint)

    def _run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        """Run the current interpreter once, after an allocation if the input shapes have changed; return the outputs.

        Raises UnsupportedError for an input that a kernel of the model does not support. Runtime errors propagate.
        """
        shapes = [tuple(array.shape) for array in arrays]
        if self._precautions.rejects_empty_inputs and any(0 in shape for shape in shapes):
            raise UnsupportedError(
                "an input is empty; a softmax, convolution, pool or matrix product of this model does not support that",
                hint="prepare the model with fixed sizes, or use another shim for empty inputs",
                shim="tflite",
            )
        if shapes != self._shapes:
            self._allocate(shapes)
        for index, array in zip(self._input_indices, arrays):
            if array.size:  # tflite-runtime 2.7 refuses an array without elements
                self.native.set_tensor(index, encode_input(array))
        self.native.invoke()
        return [self._read_output(index, port) for index, port in zip(self._output_indices, self._outputs)]

    def _check_window_outputs(self, shapes: List[Tuple[int, ...]]) -> None:
        """Raise UnsupportedError if the result of a convolution or pool would be empty for inputs of these shapes.

        The checked results are the tensors in `Precautions.window_outputs`. Their sizes come from a new interpreter
        without XNNPACK. This interpreter allocates its tensors and does not run.
        """
        interpreter = self._runtime.interpreter(True, **self._source)
        for index, shape in zip(self._input_indices, shapes):
            interpreter.resize_tensor_input(index, shape)
        interpreter.allocate_tensors()
        sizes = {detail["index"]: detail["shape"] for detail in interpreter.get_tensor_details()}
        if any(0 in sizes[index] for index in self._precautions.window_outputs):
            raise UnsupportedError(
                "an input is smaller than a window that goes over it; the kernels of this TFLite do not support that",
                hint="give larger inputs",
                shim="tflite",
            )

    def _allocate(self, shapes: List[Tuple[int, ...]]) -> None:
        """Resize the inputs to `shapes`, and allocate the tensors of the interpreter.

        Raises UnsupportedError if a result of a convolution or pool would be empty. Errors of the runtime propagate.
        """
        if self._precautions.window_outputs:
            self._check_window_outputs(shapes)
        for index, shape, detail in zip(self._input_indices, shapes, self.native.get_input_details()):
            if tuple(detail["shape"]) != shape:
                self.native.resize_tensor_input(index, shape)
        self._shapes = None
        self.native.allocate_tensors()
        self._shapes = shapes

    def _read_output(self, index: int, port: Port) -> np.ndarray:
        """Return the output with the tensor index `index` as an array; strings are an object array of `str`."""
        shape: Any = port.sizes
        if None in shape or 0 in shape:
            details = self.native.get_output_details()
            shape = tuple(next(detail["shape"] for detail in details if detail["index"] == index))
        if 0 in shape:
            return np.zeros(shape, port.dtype.numpy)
        array = self.native.get_tensor(index)
        if port.dtype.kind == "s":
            return decode_strings(array, shape)
        return np.asarray(array)


def encode_input(array: np.ndarray) -> np.ndarray:
    """Return an array that `set_tensor` accepts: contiguous, and with strings as UTF-8 bytes.

    - An array of objects holds strings; an element of another type is converted by `str`. The result is an array of
      `bytes` objects or, for an array of rank 0, an array of dtype S.
    - Any other array keeps its dtype.
    """
    if array.dtype != object:
        return np.ascontiguousarray(array).reshape(array.shape)
    if array.ndim == 0:
        text = str(array).encode("utf-8", "surrogateescape")
        return np.array(text) if text else _EMPTY_STRING
    encoded = np.empty(array.shape, object)
    for position in np.ndindex(*array.shape):
        encoded[position] = str(array[position]).encode("utf-8", "surrogateescape")
    return encoded


def decode_strings(array: np.ndarray, shape: Tuple[int, ...]) -> np.ndarray:
    """Return the elements of a string tensor, bytes in UTF-8, as an object array of str with this shape.

    An element that is not bytes is converted by `str`.
    """
    decoded = np.empty(shape, object)
    items: Any = np.asarray(array, object).reshape(shape)
    for position in np.ndindex(*shape):
        item = items[position]
        decoded[position] = item.decode("utf-8", "surrogateescape") if isinstance(item, bytes) else str(item)
    return decoded


def _runtime_error(problem: str, error: BaseException, hint: Optional[str] = None) -> UnsupportedError:
    lines = [line for line in str(error).strip().splitlines() if line.strip()] or [type(error).__name__]
    return UnsupportedError("the TFLite runtime %s: %s" % (problem, lines[0]), hint=hint, shim="tflite")
