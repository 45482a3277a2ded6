"""Allocating the tensors of a model that leaves sizes open."""

from typing import Any, Optional

__all__ = ["allocate"]

#: What a size that the model leaves open is tried with: one is what the file says, but a network may halve its images
#: more often than that bears.
_TRIALS = (1, 8, 32, 128)


def allocate(interpreter: Any) -> None:
    """Allocate the tensors for the first sizes that the model takes; the first refusal is raised if it takes none."""
    inputs = [(one["index"], [int(size) for size in one["shape_signature"]]) for one in interpreter.get_input_details()]
    refusal: Optional[Exception] = None
    for trial in _TRIALS:
        for index, sizes in inputs:
            if -1 in sizes:
                interpreter.resize_tensor_input(index, [trial if size == -1 else size for size in sizes])
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
