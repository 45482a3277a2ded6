"""Casts that change nothing, and chains of casts.

    Cast(x, t)            =>  x, where x has the type t
    Cast(Cast(x, a), b)   =>  Cast(x, b), where the first cast keeps every value

The trace gives the type of x; where it fails, the operator that computes x may. In a chain, nothing else reads the
value in between.
"""

from typing import Any, Optional

from onnx_compat.errors import OnnxCompatError
from onnx_compat.ir.dtypes import DType, bool_, int64
from onnx_compat.simplify.contract import model_pass
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.node import DraftNode
from onnx_compat.simplify.rewrites.chains import inner_node
from onnx_compat.simplify.rewrites.examples import example

__all__ = ["keeps_values", "merged_casts", "same_type_casts"]

#: Operators whose result is a truth value; sizes; and a value of the type of the first input.
_TRUTH = frozenset(
    ["And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor"]
)
_SIZES = frozenset(["NonZero", "Shape", "Size"])
_SAME = frozenset(
    [
        "Concat",
        "Expand",
        "Flatten",
        "Gather",
        "Identity",
        "Reshape",
        "Slice",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    ]
)
#: The largest number of nodes between a value and the node that decides its type.
_DEPTH = 20


def _same_example() -> Any:
    """Return a model whose trace ends at the operator of an unknown domain."""
    import onnx

    model = example(
        ("Mystery", "x", "a"), ("Not", "a", "b"), ("Cast", "b", "c", {"to": 9}), ("Cast", "c", "y", {"to": 1})
    )
    model.graph.node[0].domain = "unknown"
    model.opset_import.append(onnx.helper.make_opsetid("unknown", 1))
    return model


@model_pass("same_type_casts", "Cast(x, t) => x, where x has the type t", _same_example)
def same_type_casts(draft: GraphDraft) -> int:
    """Remove each Cast to the type that its operand has. Return the number of removed nodes."""
    count = 0
    for node in list(draft.nodes):
        dtype = _cast_dtype(node) if node.operator == "Cast" else None
        if dtype is not None and _value_dtype(draft, node.input(0), _DEPTH) is dtype:
            count += draft.bypass(node, node.input(0))
    return count


def _value_dtype(draft: GraphDraft, name: str, depth: int) -> Optional[DType]:
    """Return the dtype of a value; None if neither the trace nor at most `depth` operators before it tell."""
    spec, node = draft.spec(name), draft.producer(name)
    if spec is not None:
        return spec.dtype
    if node is None or not depth:
        return None
    if node.operator in _TRUTH:
        return bool_
    if node.operator in _SIZES:
        return int64
    if node.operator == "Cast":
        return _cast_dtype(node)
    if node.operator == "If":
        port = node.attribute("then_branch").output[node.outputs.index(name)]
        number = port.type.tensor_type.elem_type
        return DType.of(number) if number else None
    return _value_dtype(draft, node.input(0), depth - 1) if node.operator in _SAME else None


def _casts_example() -> Any:
    return example(("Cast", "x", "a", {"to": 11}), ("Cast", "a", "b", {"to": 7}), ("Cast", "b", "y", {"to": 1}))


@model_pass("merged_casts", "Cast(Cast(x, a), b) => Cast(x, b), where the first cast keeps every value", _casts_example)
def merged_casts(draft: GraphDraft) -> int:
    """Merge each Cast of `draft` that keeps every value into the Cast that reads its result.

    Return the number of removed nodes.
    """
    count = 0
    for node in list(draft.nodes):
        first = inner_node(draft, node, "Cast")
        spec = None if first is None else draft.spec(first.input(0))
        if first is None or spec is None:
            continue
        middle, last = _cast_dtype(first), _cast_dtype(node)
        if middle is not None and last is not None and _can_merge(spec.dtype, middle, last):
            draft.set_inputs(node, first.inputs)
            draft.remove(first)
            count += 1
    return count


def _can_merge(source: DType, middle: DType, last: DType) -> bool:
    """Whether a cast to `last` gives the same as a cast to `middle` and then to `last`.

    Texts and types of less than 16 bits other than integers of 8 bits are left out: their casts depend on attributes.
    """
    if not keeps_values(source, middle) or last.kind == "s" or last.bits < 8 or (last.kind == "f" and last.bits < 16):
        return False
    # An integer out of range wraps around; a float out of range becomes any number.
    is_float_between = source.kind in "iu" and middle.kind == "f" and last.kind in "iu"
    return not is_float_between or keeps_values(source, last)


def _cast_dtype(node: DraftNode) -> Optional[DType]:
    """Return the type of a Cast's result. None for an unknown type, and before opset 6, where `to` is a text."""
    to = node.attribute("to")
    try:
        return DType.of(to) if isinstance(to, int) else None
    except OnnxCompatError:
        return None


#: Name of a float type -> the number of bits of an integer that it holds exactly, sign not counted.
_EXACT_BITS = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}


def keeps_values(source: DType, target: DType) -> bool:
    """Whether a cast to `target` keeps every value of the dtype `source`. False if that is not certain."""
    if source is target:
        return True
    if source.kind == "b":
        return target.kind in "iu" or target.name in _EXACT_BITS
    if source.kind in "iu" and target.kind in "iu":
        return (source.kind == "u" or target.kind == "i") and source.bits < target.bits
    if source.kind in "iu" and target.name in _EXACT_BITS:
        return source.bits - (source.kind == "i") <= _EXACT_BITS[target.name]
    wider = {"bfloat16": ("float32", "float64"), "float16": ("float32", "float64"), "float32": ("float64",)}
    return target.name in wider.get(source.name, ())
