"""Steps: how a node is re-spelled from one version of its operator to the next, or back.

Every version of an operator whose meaning or signature differs from the version before has a step, or is in `COMPOSED`.
A step is two functions that edit a `Draft`: `up` from the version before, `down` to it. They raise `Inexpressible`
where the other version has no such form; the node is composed then.
"""

from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

from onnx_compat.retarget.draft import AttributeValue, Draft, Inexpressible

__all__ = ["STEPS", "Respelling", "keep", "register", "register_added", "step_at"]

Edit = Callable[[Draft], None]


class Respelling(NamedTuple):
    """The two directions of a step."""

    up: Edit
    down: Edit


#: (operator, version) -> the step from the version before.
STEPS: Dict[Tuple[str, int], Respelling] = {}


def keep(draft: Draft) -> None:
    """Change nothing: the other version reads the same form in the same way."""


def _no_rule(_: Draft) -> None:
    raise Inexpressible("the other version has another meaning")


def register(operators: Union[str, Iterable[str]], version: int, up: Edit = _no_rule, down: Edit = _no_rule) -> None:
    """Register a step for one or several operators. A direction without a function raises Inexpressible.

    If there is a step already, both are done: the later registration last on the way up, first on the way down.
    """
    for operator in [operators] if isinstance(operators, str) else operators:
        earlier = STEPS.get((operator, version))
        STEPS[operator, version] = Respelling(up, down) if earlier is None else _chain(earlier, Respelling(up, down))


def _chain(first: Respelling, second: Respelling) -> Respelling:
    def up(draft: Draft) -> None:
        first.up(draft)
        second.up(draft)

    def down(draft: Draft) -> None:
        second.down(draft)
        first.down(draft)

    return Respelling(up, down)


def register_added(
    operators: Union[str, Iterable[str]],
    version: int,
    attributes: Dict[str, AttributeValue],
    also: Optional[Dict[str, Sequence[AttributeValue]]] = None,
    outputs: Optional[int] = None,
    inputs: Optional[int] = None,
) -> None:
    """Register a step to a version that has more attributes, inputs or outputs, which by default have no effect.

    - attributes: name -> the value without effect; () is a list of ones.
    - also: name -> further values without effect.
    - outputs, inputs: how many the version before can have; None: as many as the later version.
    """

    def down(draft: Draft) -> None:
        for name, default in attributes.items():
            draft.drop_default(name, default, (also or {}).get(name, ()))
        for kind, count, names in (("output", outputs, draft.node.output), ("input", inputs, draft.node.input)):
            if count is not None and any(names[count:]):
                raise Inexpressible("the other version has no %s number %d" % (kind, count))
        if outputs is not None:
            del draft.node.output[outputs:]
        if inputs is not None:
            del draft.node.input[inputs:]

    register(operators, version, keep, down)


def step_at(operator: str, version: int) -> Optional[Respelling]:
    """Return the step to a version from the version before. None: no step is needed, or none is known."""
    from onnx_compat.retarget import rules

    rules.import_all()
    return STEPS.get((operator, version))


def names_of(versions: Sequence[int], source: int, target: int) -> List[int]:
    """Return the versions whose steps lead from `source` to `target`, in order: ascending, or descending if it is older."""
    low, high = min(source, target), max(source, target)
    between = sorted(version for version in versions if low < version <= high)
    return between if target >= source else between[::-1]
