"""The key of a plan: the properties of a feed that a program cannot leave open."""

from typing import Any, Collection, Dict, Optional, Tuple

from onnx_compat.execution.declarations import SharedSizes, contradicted_sizes
from onnx_compat.execution.feeds import CheckedValue, Feed, InputStructure, MapItems

__all__ = ["PlanKey", "can_specialise_on", "is_flag", "plan_key", "shapes_to_fix", "values_to_fix"]

#: The structures of the inputs, the declared sizes that the plan ignores, and the values and shapes that it is
#: specialised on.
PlanKey = Tuple[Any, ...]
#: No plan is specialised on an input of more elements: it is data, which differs at each run.
_SPECIALISE_UP_TO = 4096


def plan_key(
    feed: Feed,
    structures: Dict[str, InputStructure],
    by_value: Collection[str],
    shapes: Dict[str, Tuple[int, ...]],
    shared: SharedSizes,
) -> PlanKey:
    """Return the cache key of the plan for a feed.

    - structures: the structures of the inputs, by name.
    - by_value: the names of the inputs on whose values the plan is specialised. An input for which `can_specialise_on`
      is False is left out.
    - shapes: the shapes that the plan is specialised on (see `shapes_to_fix`).
    - shared: the sizes that inputs declare more than once (see `shared_sizes`).
    """
    values = tuple((name, _value_key(value)) for name, value in sorted(values_to_fix(feed, by_value).items()))
    return tuple(sorted(structures.items())), contradicted_sizes(feed, shared), values, tuple(sorted(shapes.items()))


def values_to_fix(feed: Feed, by_value: Collection[str]) -> Feed:
    """Return the inputs of a feed that become constants of its plan.

    These are the inputs in `by_value` for which `can_specialise_on` is True.
    """
    return {name: feed[name] for name in by_value if name in feed and can_specialise_on(feed[name])}


def shapes_to_fix(feed: Feed, by_shape: Collection[str], by_empty: Collection[str]) -> Dict[str, Tuple[int, ...]]:
    """Return input name -> shape for the tensors of a feed whose shapes a plan is specialised on.

    These are the tensors named in `by_shape`, and the tensors without elements named in `by_empty`.
    """
    shapes = {name: _shape_of(feed[name]) for name in {*by_shape, *by_empty} if name in feed}
    return {name: shape for name, shape in shapes.items() if shape is not None and (name in by_shape or 0 in shape)}


def can_specialise_on(value: CheckedValue) -> bool:
    """Whether a value is a tensor or a map (not a sequence or optional) with at most `_SPECIALISE_UP_TO` elements."""
    if isinstance(value, MapItems):
        return can_specialise_on(value.keys)
    return isinstance(value, tuple) and value[0].size <= _SPECIALISE_UP_TO


def is_flag(value: CheckedValue) -> bool:
    """Whether a value is a tensor of one element: a flag, a rate or a mode, of which a caller uses few values."""
    return isinstance(value, tuple) and value[0].size == 1


def _value_key(value: CheckedValue) -> Any:
    """Return a hashable key of a checked value: the shape and the elements of each tensor, without the dtype."""
    if isinstance(value, MapItems):
        return _value_key(value.keys), _value_key(value.values)
    if not isinstance(value, tuple):
        return repr(value)
    array = value[0]
    return array.shape, array.tobytes() if array.dtype != object else tuple(array.reshape(-1))


def _shape_of(value: CheckedValue) -> Optional[Tuple[int, ...]]:
    """Return the shape of a checked tensor; None for a sequence, a map, an empty optional or an omitted input."""
    return tuple(value[0].shape) if isinstance(value, tuple) else None
