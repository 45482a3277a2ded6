"""Steps: how a node is rewritten from one version of its operator to the next, or back.

Every version of an operator whose meaning or signature differs from the version before has a step, or is in `COMPOSED`.
A step is two functions that edit an `EditedNode`: `up` from the version before, `down` to it. They raise
`Inexpressible` where the other version has no such form; the node is composed then.
"""

from typing import Callable, Dict, Iterable, NamedTuple, Optional, Sequence, Tuple, Union

from onnx_compat.retarget.edited_node import AttributeValue, EditedNode, Inexpressible

__all__ = ["STEPS", "VersionStep", "keep", "register", "register_added", "step_at"]

Edit = Callable[[EditedNode], None]


class VersionStep(NamedTuple):
    """Two functions that edit a node: `up` from the version before to this version, `down` from this version back."""

    up: Edit
    down: Edit


#: (operator, version) -> the step from the version before.
STEPS: Dict[Tuple[str, int], VersionStep] = {}


def keep(node: EditedNode) -> None:
    """Change nothing: the other version reads the same form in the same way."""


def _no_rule(_: EditedNode) -> None:
    """Raise Inexpressible: the step has no rule in this direction."""
    raise Inexpressible("the other version has another meaning")


def register(operators: Union[str, Iterable[str]], version: int, up: Edit = _no_rule, down: Edit = _no_rule) -> None:
    """Register the step to `version` from the version before, for one or several operators of ai.onnx.

    `up` and `down` edit a node in the two directions. By default, a direction raises Inexpressible. If there is a step
    already, both are done: the later registration last on the way up, first on the way down.
    """
    for operator in [operators] if isinstance(operators, str) else operators:
        earlier = STEPS.get((operator, version))
        STEPS[operator, version] = VersionStep(up, down) if earlier is None else _chain(earlier, VersionStep(up, down))


def _chain(first: VersionStep, second: VersionStep) -> VersionStep:
    """Return a step that does two steps: `first`, then `second` on the way up; in reverse on the way down."""

    def up(node: EditedNode) -> None:
        first.up(node)
        second.up(node)

    def down(node: EditedNode) -> None:
        second.down(node)
        first.down(node)

    return VersionStep(up, down)


def register_added(
    operators: Union[str, Iterable[str]],
    version: int,
    attributes: Dict[str, AttributeValue],
    also: Optional[Dict[str, Sequence[AttributeValue]]] = None,
    outputs: Optional[int] = None,
    inputs: Optional[int] = None,
) -> None:
    """Register the step to a version that adds attributes, inputs or outputs without an effect by default.

    - attributes: name -> the value without effect. () stands for a list of ones.
    - also: name -> further values without effect.
    - outputs, inputs: how many the version before can have; None: as many as the later version.

    On the way down, a node that uses an addition with an effect raises Inexpressible.
    """

    def down(node: EditedNode) -> None:
        for name, default in attributes.items():
            node.drop_default(name, default, (also or {}).get(name, ()))
        for kind, count, names in (("output", outputs, node.proto.output), ("input", inputs, node.proto.input)):
            if count is not None and any(names[count:]):
                raise Inexpressible("the other version has no %s number %d" % (kind, count))
        if outputs is not None:
            del node.proto.output[outputs:]
        if inputs is not None:
            del node.proto.input[inputs:]

    register(operators, version, keep, down)


def step_at(operator: str, version: int) -> Optional[VersionStep]:
    """Return the step to a version from the version before. None: no step is needed, or none is known."""
    from onnx_compat.retarget import rules

    rules.import_all()
    return STEPS.get((operator, version))
