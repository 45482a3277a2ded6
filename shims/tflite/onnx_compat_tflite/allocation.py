"""Allocate the tensors of a model with open sizes (-1): try a few sizes until the kernels accept the shapes."""

from typing import Any, List, Optional

import numpy as np

__all__ = ["Interpreter", "TensorDetail", "allocate"]

Interpreter = Any  # TFLite runtimes ship no types for their interpreter.
TensorDetail = Any  # The runtime describes a tensor by a dictionary: "index", "shape", "shape_signature", ...

#: Sizes that replace an open size, in the order of the trials. The file itself stores 1. A network that halves its images five
#: times needs 32 or more; a network for audio reduces thousands of samples to one.
_TRIALS = (1, 8, 32, 128, 1024, 16384)
#: The most elements of an input in a trial of more than 128.
_MAX_ELEMENTS = 2**20


def allocate(interpreter: Interpreter) -> None:
    """Allocate the tensors of the interpreter's model; keep the first trial sizes that all kernels accept.

    The trials replace each open size (-1) of the inputs by 1, 8, 32, 128, 1024 and 16384, in this order. Above 128,
    an open batch (axis 0) becomes 1 if its input has several open axes. The trials end before a trial above 128 in
    which an input would have more than 2^20 elements. A model without open sizes gets a single trial.

    If no trial succeeds, raises the error of the first trial: a RuntimeError or ValueError of the runtime.
    """
    details = interpreter.get_input_details()
    inputs = [(detail["index"], [int(size) for size in detail["shape_signature"]]) for detail in details]
    refusal: Optional[Exception] = None
    for trial in _TRIALS:
        candidates = [(index, _replace_open_sizes(sizes, trial)) for index, sizes in inputs]
        if trial > 128 and any(np.prod(sizes) > _MAX_ELEMENTS for _, sizes in candidates):
            break
        for (index, sizes), (_, open_sizes) in zip(candidates, inputs):
            if -1 in open_sizes:
                interpreter.resize_tensor_input(index, sizes)
        try:
            interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            refusal = refusal or error
        else:
            return
        if all(-1 not in sizes for _, sizes in inputs):
            break
    assert refusal is not None
    raise refusal


def _replace_open_sizes(sizes: List[int], trial: int) -> List[int]:
    """Return the sizes with each open size (-1) replaced by `trial`.

    Exception: if `trial` is over 128 and several axes are open, an open axis 0 (the batch) becomes 1.
    """
    batch = trial if trial <= 128 or sizes.count(-1) < 2 else 1
    return [size if size != -1 else trial if axis else batch for axis, size in enumerate(sizes)]
