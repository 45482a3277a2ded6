"""Remove nodes whose result equals an earlier value.

    Identity(x)                  =>  x; also Dropout, a Cast to the same type, a Reshape to the same shape
    Transpose(Transpose(x))      =>  x, where the permutations cancel out
    Gather(Shape(y), axis)       =>  an earlier vector with the same sizes

The trace of the model decides that two values are equal: both are the same recorded value with the same pending
permutation, or vectors of equal symbolic sizes. An output of the graph keeps its name: the earlier value takes the name
over. A node that computes an output from an input directly stays.
"""

from typing import Any, Dict

from onnx_compat.simplify.contract import model_pass
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.rewrites.examples import example

__all__ = ["equal_values"]


def _example() -> Any:
    return example(("Relu", "x", "a"), ("Identity", "a", "b"), ("Cast", "b", "c", {"to": 1}), ("Neg", "c", "y"))


@model_pass("equal_values", "node whose result equals an earlier value => the earlier value", _example)
def equal_values(draft: GraphDraft) -> int:
    """Remove nodes whose only result that is read equals an earlier value. Return their number."""
    count = 0
    first: Dict[Any, str] = {}
    for port in draft.graph.input:
        _note(draft, first, port.name)
    for node in list(draft.nodes):
        source = node.input(0) if node.operator == "Identity" else None
        names = [name for name in node.outputs if name]
        read = [name for name in names if draft.is_read(name)]
        if source is None and len(read) == 1:
            source = _note(draft, first, read[0])
            source = None if source == read[0] else source
        if source and draft.bypass(node, source):
            count += 1
            if read[0] in draft.outputs:  # the earlier value has this name now
                first[draft.identity(read[0])] = read[0]
        else:
            for name in names:
                _note(draft, first, name)
    return count


def _note(draft: GraphDraft, first: Dict[Any, str], name: str) -> str:
    """Return the name of the first noted value that equals the value `name`. Without such a value, return `name`.

    `first`: identity -> name of the first noted value. `name` is added, in place, if it has a new identity.
    """
    key = draft.identity(name)
    return name if key is None else first.setdefault(key, name)
