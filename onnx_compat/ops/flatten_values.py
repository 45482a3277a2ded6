"""Flatten sequences, maps and optionals into a list of tensors, and rebuild them. Primitives take tensors only."""

from typing import Any, List, Sequence, Tuple

from onnx_compat.tracing.values import EMPTY_OPTIONAL, MapValue, SequenceValue, Tensor

__all__ = ["Form", "flatten_values", "rebuild_values"]

#: An entry for each value: 'tensor', 'map', 'nothing' (an empty optional), or (dtype, form of the items) of a sequence.
Form = List[Any]


def flatten_values(values: Sequence[Any]) -> Tuple[List[Tensor], Form]:
    """Return (list of the tensors inside the values, `Form` for `rebuild_values`).

    The tensors are in the order of the values. A sequence gives the tensors of its items, and a map its keys and its
    values. An empty optional gives no tensor.
    """
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
    """Return the list of values that `form` describes, built from `tensors`: the inverse of `flatten_values`.

    `tensors` has exactly the tensors of all values, in the order in which `flatten_values` returns them.
    """
    remaining = iter(tensors)

    def build(entry: Any) -> Any:
        if entry == "tensor":
            return next(remaining)
        if entry == "map":
            return MapValue(next(remaining), next(remaining))
        return EMPTY_OPTIONAL if entry == "nothing" else SequenceValue(entry[0], tuple(map(build, entry[1])))

    return [build(entry) for entry in form]
