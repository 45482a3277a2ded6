"""Allocating the tensors of a model that leaves sizes open."""

from typing import Any, List, Optional

import numpy as np

__all__ = ["allocate"]

#: What a size that the model leaves open is tried with: one is what the file says, but a network may halve its images
#: more often than that bears, and one of sounds cut thousands of samples down to nothing.
_TRIALS = (1, 8, 32, 128, 1024, 16384)
#: The most elements of an input that a large trial may have.
_MANY = 2**20


def allocate(interpreter: Any) -> None:
    """Allocate the tensors for the first sizes that the model takes; the first refusal is raised if it takes none."""
    inputs = [(one["index"], [int(size) for size in one["shape_signature"]]) for one in interpreter.get_input_details()]
    refusal: Optional[Exception] = None
    for trial in _TRIALS:
        tried = [(index, _filled(sizes, trial)) for index, sizes in inputs]
        if trial > 128 and any(np.prod(sizes) > _MANY for _, sizes in tried):
            break
        for (index, sizes), (_, before) in zip(tried, inputs):
            if -1 in before:
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


def _filled(sizes: List[int], trial: int) -> List[int]:
    """With the trial in the place of open sizes; a large one with a batch of one."""
    batch = trial if trial <= 128 or sizes.count(-1) < 2 else 1
    return [size if size != -1 else trial if axis else batch for axis, size in enumerate(sizes)]
