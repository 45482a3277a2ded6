"""Values of any make as a flat list of tensors, and back: sequences and optionals are only seen by the trace."""

from typing import Any, List, Sequence, Tuple

from onnx_compat.tracing.values import EMPTY_OPTIONAL, MapValue, SequenceValue, Tensor

__all__ = ["Form", "flatten_values", "rebuild_values"]

#: For each value 'tensor', 'map', 'nothing', or the dtype and the forms of a sequence's items.
Form = List[Any]


def flatten_values(values: Sequence[Any]) -> Tuple[List[Tensor], Form]:
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
    left = iter(tensors)

    def build(one: Any) -> Any:
        if one == "tensor":
            return next(left)
        if one == "map":
            return MapValue(next(left), next(left))
        return EMPTY_OPTIONAL if one == "nothing" else SequenceValue(one[0], tuple(map(build, one[1])))

    return [build(one) for one in form]
