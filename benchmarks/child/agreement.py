"""Compare a .tflite file with onnxruntime, in the first and in the second run of one interpreter."""

from itertools import permutations
from typing import Any, Dict, List, Sequence, Tuple

from runners import open_interpreter, values  # type: ignore[import-not-found]  # a module beside this file

_TYPES = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(int32)": "int32"}


def errors(model: str, path: str) -> List[float]:
    """Run the .tflite file at `path` twice, and return the error of each run.

    The error of a run is the largest relative error of an output: its largest difference from the output of
    onnxruntime, divided by the largest absolute value of that output. `model`: the path of the ONNX model.

    Raise a ValueError if the inputs or outputs of the file do not match those of the model.
    """
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    feeds = {port.name: values(port.shape, _TYPES[port.type]) for port in session.get_inputs()}
    wanted = dict(zip((port.name for port in session.get_outputs()), session.run(None, feeds)))
    interpreter, _ = open_interpreter(path, 1)
    inputs = _match_tensors(interpreter.get_input_details(), list(feeds))
    outputs = _match_tensors(interpreter.get_output_details(), list(wanted))
    shares = []
    for _ in range(2):
        for name, detail in inputs.items():
            permuted_input = feeds[name].transpose(_orders(feeds[name].shape, tuple(detail["shape"]))[0])
            interpreter.set_tensor(detail["index"], np.ascontiguousarray(permuted_input).astype(detail["dtype"]))
        interpreter.invoke()
        results = {name: interpreter.get_tensor(detail["index"]) for name, detail in outputs.items()}
        shares.append(max(_error(results[name], wanted[name]) for name in wanted))
    return shares


def _match_tensors(details: Sequence[Dict[str, Any]], names: List[str]) -> Dict[str, Dict[str, Any]]:
    """Return name in the model -> tensor of the file: by name if the file has all these names, else by position.

    Raise a ValueError if the counts differ.
    """
    if len(details) != len(names):
        raise ValueError("the file has %d of the %d tensors %s" % (len(details), len(names), ", ".join(names)))
    named = {str(detail["name"]): detail for detail in details}
    return named if set(named) == set(names) else dict(zip(names, details))


def _error(actual: Any, wanted: Any) -> float:
    """Return the relative error of an output.

    If several axis orders fit its shape, the order with the smallest error counts.
    """
    import numpy as np

    scale = max(float(np.abs(wanted).max()), 1e-30)
    orders = _orders(wanted.shape, actual.shape)
    return min(float(np.abs(actual.astype(np.float64) - wanted.transpose(order)).max()) for order in orders) / scale


def _orders(shape: Tuple[int, ...], file_shape: Tuple[int, ...]) -> List[Tuple[int, ...]]:
    """Return the axis permutations that turn `shape` into `file_shape`: the identity first, then channels-last, then
    others.

    Raise a ValueError if no permutation fits.
    """
    rank = len(shape)
    last = (0, *range(2, rank), 1) if rank > 2 else tuple(range(rank))
    candidates = [tuple(range(rank)), last, *permutations(range(rank))]
    matches = [
        order for order in dict.fromkeys(candidates) if tuple(shape[axis] for axis in order) == tuple(file_shape)
    ]
    if not matches:
        raise ValueError("the file has %s where the model has %s" % (list(file_shape), list(shape)))
    return matches
