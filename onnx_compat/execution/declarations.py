"""Declared sizes that a feed contradicts: the plan for such a feed is recorded without them, and the caller is warned.

A size name of a model stands for one size, and a program is recorded with it as one symbolic size. onnxruntime does not
enforce this: models give one name to sizes that differ, such as those of the past and of the present of a decoder.
"""

import warnings
from typing import Dict, FrozenSet, List, Optional, Sequence, Tuple

from onnx_compat.errors import InputError, InvalidModelError, OnnxCompatError
from onnx_compat.escaping import printable
from onnx_compat.execution.feeds import Feed
from onnx_compat.model import Graph, OptionalType, TensorType, ValueInfo
from onnx_compat.tracing.values import OMITTED

__all__ = ["contradicted_sizes", "omitted_input_error", "shared_sizes", "warn_of_contradictions"]

#: Name of a size -> (input, axis) for each axis of tensor inputs that has the name.
SharedSizes = Dict[str, List[Tuple[str, int]]]


def shared_sizes(inputs: Sequence[ValueInfo]) -> SharedSizes:
    """Return the names of sizes that tensor inputs declare more than once: name -> [(input, axis), ...].

    Example: `x: [n, 2], y: [n, m]` -> {"n": [("x", 0), ("y", 0)]}. An optional tensor counts as a tensor.
    """
    axes_by_name: SharedSizes = {}
    for port in inputs:
        declared = port.type.element if isinstance(port.type, OptionalType) else port.type
        for axis, size in enumerate((declared.shape or ()) if isinstance(declared, TensorType) else ()):
            if isinstance(size, str):
                axes_by_name.setdefault(size, []).append((port.name, axis))
    return {size: axes for size, axes in axes_by_name.items() if len(axes) > 1}


def contradicted_sizes(feed: Feed, shared: SharedSizes) -> FrozenSet[str]:
    """Return the names in `shared` that stand for more than one size in a feed.

    Inputs that are no tensors are ignored. An input of a lower rank than its type declares is ignored on the axes that
    it lacks.
    """
    names = set()
    for name, axes in shared.items():
        values = [(feed.get(port), axis) for port, axis in axes]
        sizes = {value[0].shape[axis] for value, axis in values if isinstance(value, tuple) and axis < value[0].ndim}
        if len(sizes) > 1:
            names.add(name)
    return frozenset(names)


def warn_of_contradictions(contradictions: Sequence[str]) -> None:
    """Warn of declarations that a feed contradicts, at the line that called `run`."""
    text = (
        "the inputs contradict the declarations of the model: %s\n"
        "  hint: the model runs without these declarations, as in onnxruntime; this is said once"
    )
    warnings.warn(printable(text % "; ".join(contradictions)), RuntimeWarning, stacklevel=3)


def omitted_input_error(error: OnnxCompatError, feed: Feed, graph: Graph) -> Optional[InputError]:
    """Return an InputError for a node of `graph` that cannot do without an omitted input of the feed.

    Return None if `error` is no InvalidModelError, or if its node reads no omitted input.
    """
    omitted = {name for name, value in feed.items() if value is OMITTED}
    if not omitted or not isinstance(error, InvalidModelError):
        return None
    read = {name for node in graph.walk() if node.name == error.node for name in node.inputs}
    if not omitted & read:
        return None
    return InputError(
        "the input '%s' is None, and a node needs it: %s" % (min(omitted & read), error.reason),
        hint="give an array",
        node=error.node,
        operator=error.operator,
        opset=error.opset,
    )
