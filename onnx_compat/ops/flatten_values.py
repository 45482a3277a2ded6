"""Flatten nested values into a list of tensors, and rebuild them: only the trace knows sequences and optionals."""

from typing import Any, List, Sequence, Tuple

from onnx_compat.tracing.values import EMPTY_OPTIONAL, MapValue, SequenceValue, Tensor

__all__ = ["Form", "flatten_values", "rebuild_values"]

#: An entry for each value: 'tensor', 'map', 'nothing', or the dtype and the forms of the items of a sequence.
Form = List[Any]


def flatten_values(values: Sequence[Any]) -> Tuple[List[Tensor], Form]:
    """Return the tensors of values in depth-first order, and the structure that `rebuild_values` needs."""
    tensors: List[Tensor] = []
    form: Form = []
    for value in values:
        if isinstance(value, SequenceValue):
            items, inner = flatten_values(value.items)
            tensors += items
            form.append((value.dtype, inner))
        elif isinstance(value, MapValue):
            tensors += value
            form.append("map")
        elif value is EMPTY_OPTIONAL:
            form.append("nothing")
        else:
            tensors.append(value)
            form.append("tensor")
    return tensors, form


def rebuild_values(tensors: Sequence[Tensor], form: Form) -> List[Any]:
    """Return the values of this structure from their tensors."""
    remaining = iter(tensors)

    def build(entry: Any) -> Any:
        if entry == "tensor":
            return next(remaining)
        if entry == "map":
            return MapValue(next(remaining), next(remaining))
        return EMPTY_OPTIONAL if entry == "nothing" else SequenceValue(entry[0], tuple(map(build, entry[1])))

    return [build(entry) for entry in form]
