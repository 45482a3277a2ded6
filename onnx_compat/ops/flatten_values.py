"""Flatten sequences, maps and optionals into a list of tensors, and rebuild them. Primitives take tensors only."""

from typing import Any, List, Sequence, Tuple

from onnx_compat.tracing.values import EMPTY_OPTIONAL, MapValue, SequenceValue, Tensor

__all__ = ["Form", "flatten_values", "rebuild_values"]

#: An entry for each value: 'tensor', 'map', 'nothing' (an empty optional), or (dtype, form of the items) of a sequence.
Form = List[Any]


def flatten_values(values: Sequence[Any]) -> Tuple[List[Tensor], Form]:
    """Return the tensors inside the values, in depth-first order, and the `Form` for `rebuild_values`.

    A map gives two tensors, its keys and its values; an empty optional gives none.
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
    """Nest tensors again into the values that `form` describes: the inverse of `flatten_values`.

    The tensors are taken in order; the form says how many each value takes.
    """
    remaining = iter(tensors)

    def build(entry: Any) -> Any:
        if entry == "tensor":
            return next(remaining)
        if entry == "map":
            return MapValue(next(remaining), next(remaining))
        return EMPTY_OPTIONAL if entry == "nothing" else SequenceValue(entry[0], tuple(map(build, entry[1])))

    return [build(entry) for entry in form]
