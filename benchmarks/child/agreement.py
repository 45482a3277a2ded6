"""Whether a .tflite file gives the model's numbers, also in the second run of the same interpreter."""

from itertools import permutations
from typing import Any, Dict, List, Sequence, Tuple

from runners import opened, values  # type: ignore[import-not-found]

_TYPES = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(int32)": "int32"}


def errors(model: str, path: str) -> List[float]:
    """Of each run, the largest difference from onnxruntime, as a share of the output's largest value."""
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    feeds = {each.name: values(each.shape, _TYPES[each.type]) for each in session.get_inputs()}
    wanted = dict(zip((each.name for each in session.get_outputs()), session.run(None, feeds)))
    interpreter, _ = opened(path, 1)
    inputs = _paired(interpreter.get_input_details(), list(feeds))
    outputs = _paired(interpreter.get_output_details(), list(wanted))
    found = []
    for _ in range(2):
        for name, detail in inputs.items():
            turned = feeds[name].transpose(_orders(feeds[name].shape, tuple(detail["shape"]))[0])
            interpreter.set_tensor(detail["index"], np.ascontiguousarray(turned).astype(detail["dtype"]))
        interpreter.invoke()
        made = {name: interpreter.get_tensor(detail["index"]) for name, detail in outputs.items()}
        found.append(max(_error(made[name], wanted[name]) for name in wanted))
    return found


def _paired(details: Sequence[Dict[str, Any]], names: List[str]) -> Dict[str, Dict[str, Any]]:
    """The tensors of the file by their names in the model, where it has these; else by place."""
    if len(details) != len(names):
        raise ValueError("the file has %d of the %d tensors %s" % (len(details), len(names), ", ".join(names)))
    named = {str(detail["name"]): detail for detail in details}
    return named if set(named) == set(names) else dict(zip(names, details))


def _error(got: Any, wanted: Any) -> float:
    """A converter may have turned an output: of the orders that fit, the one with the least error counts."""
    import numpy as np

    scale = max(float(np.abs(wanted).max()), 1e-30)
    orders = _orders(wanted.shape, got.shape)
    return min(float(np.abs(got.astype(np.float64) - wanted.transpose(order)).max()) for order in orders) / scale


def _orders(shape: Tuple[int, ...], other: Tuple[int, ...]) -> List[Tuple[int, ...]]:
    """The permutations that make one shape of another: as it is, or the channels last, before all others."""
    rank = len(shape)
    last = (0, *range(2, rank), 1) if rank > 2 else tuple(range(rank))
    every = [tuple(range(rank)), last, *permutations(range(rank))]
    fit = [order for order in dict.fromkeys(every) if tuple(shape[axis] for axis in order) == tuple(other)]
    if not fit:
        raise ValueError("the file has %s where the model has %s" % (list(other), list(shape)))
    return fit
