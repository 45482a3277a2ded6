"""Which values each tensor of a graph takes, over all samples."""

import warnings
from typing import Any, Dict, Iterable, List, Mapping, Tuple

import numpy as np

from onnx_compat.errors import UnsupportedError
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.features import Runtime
from onnx_compat_tflite.loading import ports
from onnx_compat_tflite.runtime import threads

__all__ = ["ranges"]

#: What is larger stands for an infinity: what fills the places that a mask leaves out, say.
_FINITE = 3e38

Range = Tuple[float, float]


def ranges(
    path: str, model: fb.ModelSpec, samples: Iterable[Mapping[str, np.ndarray]], runtime: Runtime
) -> Dict[int, Range]:
    """Tensor of the main graph -> its least and its largest value. It runs without the delegate, which keeps no tensor."""
    main = model.subgraphs[0]
    watched = [
        index for index, tensor in enumerate(main.tensors) if tensor.dtype == "float32" and tensor.buffer is None
    ]
    found: Dict[int, Range] = {}
    options = {"model_path": path, "num_threads": threads(), "experimental_preserve_all_tensors": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it takes memory
        interpreter = runtime.interpreter(plain=True, **options)
    inputs = [(port.name, index) for port, index in zip(ports(model)[0], main.inputs)]
    shapes: List[Tuple[int, ...]] = []
    for sample in samples:
        fed = [np.ascontiguousarray(sample[name]) for name, _ in inputs]
        try:
            shapes = _allocated(interpreter, inputs, fed, shapes)
            for (_, index), array in zip(inputs, fed):
                interpreter.set_tensor(index, array)
            interpreter.invoke()
        except (RuntimeError, ValueError) as error:
            raise UnsupportedError(
                "the float model does not run on a sample of the calibration data: %s" % _last_line(error),
                hint="try the sample with onnx_compat.run",
            ) from error
        for index in watched:
            _widen(found, index, _values(interpreter, index))
    return found


def _allocated(interpreter: Any, inputs: Any, fed: List[Any], shapes: List[Tuple[int, ...]]) -> List[Tuple[int, ...]]:
    wanted = [array.shape for array in fed]
    if wanted != shapes:
        for (_, index), shape in zip(inputs, wanted):
            interpreter.resize_tensor_input(index, shape)
        interpreter.allocate_tensors()
    return wanted


def _values(interpreter: Any, index: int) -> Any:
    try:
        values = np.asarray(interpreter.get_tensor(index))
    except ValueError:  # it was never computed: in what is not executed, or the result of nothing
        return np.zeros(0, np.float32)
    return values[np.abs(values) < _FINITE]


def _widen(found: Dict[int, Range], index: int, values: Any) -> None:
    if values.size:
        low, high = found.get(index, (np.inf, -np.inf))
        found[index] = min(low, float(values.min())), max(high, float(values.max()))


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
