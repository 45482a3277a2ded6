"""Forms of a node: keep a node for another version of its operator, or change its form by the rules."""

import functools
from typing import TYPE_CHECKING, Callable, Optional

from onnx_compat.errors import UnsupportedError
from onnx_compat.onnx_shim.signatures import find_schema
from onnx_compat.ops import lookup
from onnx_compat.retarget.edited_node import EditedNode, Inexpressible
from onnx_compat.retarget.inferred_facts import NodeFacts
from onnx_compat.retarget.schemas import first_version, form_problem, is_narrower, type_problem
from onnx_compat.retarget.steps import VersionStep, step_at

if TYPE_CHECKING:
    import onnx

__all__ = ["has_same_meaning", "is_untouched", "rewrite_node"]


def rewrite_node(
    node: "onnx.NodeProto", domain: str, source: int, target: int, facts: Callable[[], NodeFacts]
) -> Optional[EditedNode]:
    """Rewrite a node for another version of its domain. Return an EditedNode, or None if the node stays as it is.

    `node` itself is not changed. If the proto of the result equals `node`, the result only adds caveats.

    - domain: the domain of the operator; "" for ai.onnx.
    - source, target: the version that the node has, and the version to write. 0 as `target`: the domain does not exist.
    - facts: returns the facts of the node. It is called only if a rule or the types need them.

    Raises Inexpressible if the target has no form of the operator with this meaning and these types.
    Raises UnknownValue, a subclass, if a rule needs the elements of an input that are not known.
    """
    if target == 0:
        raise Inexpressible("there is no domain %s" % domain)
    edited_node = EditedNode(node, facts)
    versions = range(source + 1, target + 1) if target >= source else range(source, target, -1)
    for version in versions:
        step = _step(domain, edited_node.proto.op_type, version)
        if step is not None:
            (step.up if target >= source else step.down)(edited_node)
        elif not has_same_meaning(domain, edited_node.proto.op_type, version):
            raise Inexpressible("%s has another meaning before version %d" % (edited_node.proto.op_type, version))
    operator = edited_node.proto.op_type
    schema = find_schema(domain, operator, target)
    if schema is None:
        first = first_version(domain, operator)
        is_later = first is not None and first > target
        raise Inexpressible(
            "%s %s" % (operator, "begins with version %d" % (first or 0) if is_later else "is not there")
        )
    is_changed = edited_node.proto != node
    problem = form_problem(edited_node.proto, schema) if is_changed or source != target else None
    if problem is None and source != target and is_narrower(domain, operator, source, target):
        inputs = [edited_node.fact(index) for index in range(len(edited_node.proto.input))]
        problem = type_problem(schema, inputs, facts().outputs)
    if problem is not None:
        raise Inexpressible(problem)
    return edited_node if is_changed or edited_node.caveats else None


@functools.lru_cache(maxsize=None)
def is_untouched(domain: str, operator: str, source: int, target: int) -> bool:
    """Whether every node with this operator stays as it is between two versions of its domain.

    True if the operator is in `target`, no version between has a rule or another meaning, and the target takes all
    types of the source.
    """
    low, high = min(source, target), max(source, target)
    return (
        find_schema(domain, operator, target) is not None
        and not any(_step(domain, operator, version) for version in range(low + 1, high + 1))
        and all(has_same_meaning(domain, operator, version) for version in range(low + 1, high + 1))
        and not is_narrower(domain, operator, source, target)
    )


def _step(domain: str, operator: str, version: int) -> Optional[VersionStep]:
    """Return the step to a version from the version before. None: no rule. Only ai.onnx, the domain "", has rules."""
    return None if domain else step_at(operator, version)


@functools.lru_cache(maxsize=None)
def has_same_meaning(domain: str, operator: str, version: int) -> bool:
    """Whether an operator has the same meaning in a version and in the version before.

    True also if only one of the two versions has the operator.
    """
    if find_schema(domain, operator, version - 1) is None and find_schema(domain, operator, version) is not None:
        return True  # the schema of the target tells whether it is there
    try:
        return lookup(domain, operator, version - 1).function is lookup(domain, operator, version).function
    except UnsupportedError:
        return True
