"""Hints for a converted file that refuses the inputs of a verification, or that its runtime refuses to run."""

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.discovery import selection
from onnx_compat.errors import OnnxCompatError
from onnx_compat.model import TensorType, ValueInfo
from onnx_compat.model.loading import StrPath
from onnx_compat.verification.converted_file import match_format

__all__ = ["add_refused_operator", "input_hint"]

_OTHER_FILE = (
    "check that the file was converted from this model, and give the channels_last (--channels-last) of the conversion"
)
_CONVERT_AGAIN = "convert the model again: if the new file runs, this file was changed"
#: The end of LiteRT's message for an operator that it cannot prepare or run: "Node number 5 (ADD) failed to prepare."
_REFUSED = re.compile(r"Node number (\d+) \((\w+)\)")

Shape = Tuple[Any, ...]


def add_refused_operator(error: OnnxCompatError, path: StrPath, shim: str) -> None:
    """Append the operator that the runtime refused to the reason of `error`, in place, and replace the hint.

    The names of the operator's output tensors are appended too, if they are found in the file. LiteRT's message, in the
    error or its cause, names the operator. Without such a message the error stays unchanged. `path`: the file that ran.
    `shim`: the name of the shim that ran it.
    """
    match = _REFUSED.search("%s\n%s" % (error.reason, error.__cause__))
    if match is None:
        return
    number, operator = int(match.group(1)), match.group(2)
    text = "operator %d (%s)" % (number, operator)
    outputs = _outputs_of(path, shim, number, operator)
    if outputs:
        text += ", which computes %s" % ", ".join("'%s'" % name for name in outputs)
    error.reason = "%s\nthe runtime refuses the %s" % (error.reason, text)
    try_other_sizes = "; if it does not run either, try other sizes (--dim, --inputs)" if error.hint else ""
    error.hint = _CONVERT_AGAIN + try_other_sizes


def _outputs_of(path: StrPath, shim: str, number: int, operator: str) -> Sequence[str]:
    """Return the names of the output tensors of an operator of a file. `number`: its position, from 0.

    Return no names if that operator is not named `operator`, or if the shim does not read the format.
    """
    reader = selection.find(shim)
    form = match_format(reader, path)
    steps = reader.look_inside(str(path), form).steps if form is not None else ()
    is_there = number < len(steps) and steps[number].operator.split(" ")[0] == operator
    return steps[number].outputs if is_there else ()


def input_hint(
    declared: Sequence[ValueInfo],
    inputs: Sequence[ValueInfo],
    values: Mapping[str, Any],
    channels_last: Sequence[str],
    generated: bool,
) -> Optional[str]:
    """Return a hint for a file that refuses the shapes of its inputs. Return None if there is no hint.

    The hint says which sizes to give, or says to check the file's model and `channels_last`. Return None if the file
    accepts every shape, or if an input that the file refuses does not fit the model either.

    - declared: the inputs of the model.
    - inputs: the inputs of the file.
    - values: the inputs of the verification, in the layout of the model.
    - channels_last: the names of the inputs that the file has as [N, H, W, C].
    - generated: whether the values were generated: --dim can change their sizes.
    """
    shapes = _static_shapes(declared)
    given: Dict[str, Shape] = {name: np.shape(value) for name, value in values.items() if name in shapes}
    fixed: Dict[str, int] = {}
    wrong: List[str] = []
    for port in inputs:
        expected = _static_shapes([port]).get(port.name)
        if expected is None or port.name not in given:
            continue
        in_file = _reorder(given[port.name], port.name in channels_last)
        if _fits(in_file, expected):
            continue
        wrong.append("'%s' %s" % (port.name, [size if isinstance(size, int) else "?" for size in expected]))
        of_model = _reorder(shapes[port.name], port.name in channels_last)
        if not _fits(in_file, of_model) or len(of_model) != len(expected):
            return None if not _fits(given[port.name], shapes[port.name]) else _OTHER_FILE
        for size, expected_size, name in zip(in_file, expected, of_model):
            if isinstance(expected_size, int) and size != expected_size:
                if isinstance(name, str) and generated:
                    fixed[name] = expected_size
                elif isinstance(name, int):
                    return _OTHER_FILE
    if not wrong:
        return None
    if not fixed:
        return "the file has fixed sizes: give inputs (--inputs) of these shapes: %s" % ", ".join(wrong)
    dims = " ".join("--dim %s=%d" % item for item in fixed.items())
    return "the file has fixed sizes: generate inputs of these sizes with %s" % dims


def _static_shapes(ports: Sequence[ValueInfo]) -> Dict[str, Shape]:
    """Return input name -> declared shape, for the tensors of known rank. An open size is its name, or None."""
    return {
        port.name: tuple(port.type.shape)
        for port in ports
        if isinstance(port.type, TensorType) and port.type.shape is not None
    }


def _reorder(shape: Shape, last: bool) -> Shape:
    """Return a shape with axis 1 moved to the end if `last` is True and the rank is above 2."""
    return (shape[0], *shape[2:], shape[1]) if last and len(shape) > 2 else shape


def _fits(shape: Shape, expected: Shape) -> bool:
    """Return whether `shape` has the rank of `expected`, and equals it wherever the size in `expected` is an int."""
    return len(shape) == len(expected) and all(
        size == wanted for size, wanted in zip(shape, expected) if isinstance(wanted, int)
    )
