"""Which values each tensor of a graph takes, over all samples."""

import warnings
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Set, Tuple

import numpy as np

from onnx_compat.shim import UnsupportedError
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.features import Runtime
from onnx_compat_tflite.file_ports import ports
from onnx_compat_tflite.runtime import threads

__all__ = ["HUGE", "Ranges", "ranges"]

#: What is larger stands for an infinity, as in the places that a mask leaves out: a scale that holds it holds nothing else.
HUGE = 5000

Range = Tuple[float, float]


class Ranges(NamedTuple):
    """Tensor of the main graph -> its least and its largest value, and the tensors that have no range."""

    found: Dict[int, Range]
    boundless: Set[int]


def ranges(path: str, model: fb.ModelSpec, samples: Iterable[Mapping[str, np.ndarray]], runtime: Runtime) -> Ranges:
    """Of all samples. The float model runs without the delegate, which keeps no tensor."""
    main = model.subgraphs[0]
    watched = [
        index for index, tensor in enumerate(main.tensors) if tensor.dtype == "float32" and tensor.buffer is None
    ]
    learnt = Ranges({}, {index for index, tensor in enumerate(main.tensors) if _is_boundless(tensor.buffer)})
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
            _widen(learnt, index, _values(interpreter, index))
    return learnt


def _allocated(interpreter: Any, inputs: Any, fed: List[Any], shapes: List[Tuple[int, ...]]) -> List[Tuple[int, ...]]:
    wanted = [array.shape for array in fed]
    if wanted != shapes:
        for (_, index), shape in zip(inputs, wanted):
            interpreter.resize_tensor_input(index, shape)
        interpreter.allocate_tensors()
    return wanted


def _values(interpreter: Any, index: int) -> Any:
    try:
        return np.asarray(interpreter.get_tensor(index))
    except ValueError:  # it was never computed: in what is not executed, or the result of nothing
        return np.zeros(0, np.float32)


def _widen(learnt: Ranges, index: int, values: Any) -> None:
    if _is_boundless(values):
        learnt.boundless.add(index)
    elif values.size:
        low, high = learnt.found.get(index, (np.inf, -np.inf))
        learnt.found[index] = min(low, float(values.min())), max(high, float(values.max()))


def _is_boundless(values: Any) -> bool:
    floats = values is not None and np.asarray(values).dtype == np.float32 and np.size(values) > 0
    return floats and not bool(np.abs(values).max() < HUGE)  # a NaN is not less, either


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
