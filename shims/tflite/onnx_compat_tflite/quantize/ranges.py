"""Calibration: measure the least and the largest value of each float tensor over all samples."""

import warnings
from typing import Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from onnx_compat.shim import UnsupportedError
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.allocation import Interpreter
from onnx_compat_tflite.features import Runtime
from onnx_compat_tflite.file_ports import read_ports
from onnx_compat_tflite.runtime import thread_count

__all__ = ["HUGE", "Ranges", "measure_ranges"]

#: A tensor with a larger absolute value, such as the -10000 of an attention mask, is not quantised: a scale for this range
#: would round its small values to 0.
HUGE = 5000

Range = Tuple[float, float]


class Ranges(NamedTuple):
    """Calibration results for the float32 tensors of the first subgraph, by tensor index.

    limits: a dict tensor -> (least, largest value).
    unbounded: the tensors with an absolute value of HUGE or more, or with NaN; constants are included.

    If a tensor is unbounded in some samples only, its limits are those of the other samples.
    """

    limits: Dict[int, Range]
    unbounded: Set[int]


def measure_ranges(
    path: str, model: fb.ModelSpec, samples: Iterable[Mapping[str, np.ndarray]], runtime: Runtime
) -> Ranges:
    """Run the float model in the file `path` on all samples; return the ranges of the float32 tensors of subgraph 0.

    `model` is the content of the file. A sample is a dict {name of an input: array}. The model runs without the
    delegate, because the delegate does not keep intermediate tensors. Constants have no limits. Another tensor has no
    limits if, for every sample, it is not computed, empty, or unbounded.

    Raises UnsupportedError if the model does not run on a sample. Raises KeyError if a sample lacks an input.
    """
    main = model.subgraphs[0]
    observed = [
        index for index, tensor in enumerate(main.tensors) if tensor.dtype == "float32" and tensor.buffer is None
    ]
    ranges = Ranges({}, {index for index, tensor in enumerate(main.tensors) if _is_unbounded(tensor.buffer)})
    options = {"model_path": path, "num_threads": thread_count(), "experimental_preserve_all_tensors": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LiteRT warns that preserving tensors takes memory
        interpreter = runtime.interpreter(plain=True, **options)
    inputs = [(port.name, index) for port, index in zip(read_ports(model)[0], main.inputs)]
    shapes: Optional[List[Tuple[int, ...]]] = None
    for sample in samples:
        arrays = [np.ascontiguousarray(sample[name]) for name, _ in inputs]
        try:
            shapes = _allocate(interpreter, [index for _, index in inputs], arrays, shapes)
            for (_, index), array in zip(inputs, arrays):
                interpreter.set_tensor(index, array)
            interpreter.invoke()
        except (RuntimeError, ValueError) as error:
            raise UnsupportedError(
                "the float model does not run on a sample of the calibration data: %s" % _last_line(error),
                hint="try the sample with onnx_compat.run",
            ) from error
        for index in observed:
            _extend_range(ranges, index, _read_tensor(interpreter, index))
    return ranges


def _allocate(
    interpreter: Interpreter,
    indices: Sequence[int],
    arrays: Sequence[np.ndarray],
    shapes: Optional[List[Tuple[int, ...]]],
) -> List[Tuple[int, ...]]:
    """Resize the inputs with the tensor indices `indices` to the shapes of `arrays`, and allocate all tensors.

    `shapes` are the shapes of the previous sample, or None for the first sample. If the shapes of `arrays` are equal to
    `shapes`, no tensor is resized or allocated. Returns the shapes of `arrays`.
    """
    new_shapes = [array.shape for array in arrays]
    if new_shapes != shapes:
        for index, shape in zip(indices, new_shapes):
            interpreter.resize_tensor_input(index, shape)
        interpreter.allocate_tensors()
    return new_shapes


def _read_tensor(interpreter: Interpreter, index: int) -> np.ndarray:
    try:
        return np.asarray(interpreter.get_tensor(index))
    except ValueError:  # the tensor was not computed: its operator did not run, or it has no elements
        return np.zeros(0, np.float32)


def _extend_range(ranges: Ranges, index: int, values: np.ndarray) -> None:
    if _is_unbounded(values):
        ranges.unbounded.add(index)
    elif values.size:
        low, high = ranges.limits.get(index, (np.inf, -np.inf))
        ranges.limits[index] = min(low, float(values.min())), max(high, float(values.max()))


def _is_unbounded(values: Optional[np.ndarray]) -> bool:
    if values is None or np.asarray(values).dtype != np.float32 or np.size(values) == 0:
        return False
    return not bool(np.abs(values).max() < HUGE)  # written so that NaN is unbounded too


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
