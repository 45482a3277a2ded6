"""Schemas: which operators a target has, and with which attributes, inputs and types, by the installed onnx."""

import functools
from typing import TYPE_CHECKING, Dict, FrozenSet, Optional, Sequence

from onnx_compat.model.versions import normalise
from onnx_compat.onnx_shim.signatures import Schema, allowed_types, find_schema, is_variadic, variable_of
from onnx_compat.retarget.inferred_facts import Fact

if TYPE_CHECKING:
    import onnx

__all__ = ["first_version", "form_problem", "is_narrower", "type_problem"]


@functools.lru_cache(maxsize=None)
def first_version(domain: str, operator: str) -> Optional[int]:
    """Return the first version of a domain that has an operator; None if the installed onnx does not know it."""
    from onnx import defs

    versions = [
        schema.since_version
        for schema in defs.get_all_schemas_with_history()
        if schema.name == operator and normalise(schema.domain) == domain
    ]
    return min(versions) if versions else None


@functools.lru_cache(maxsize=None)
def is_narrower(domain: str, operator: str, source: int, target: int) -> bool:
    """Whether an operator may take fewer types in the version `target` than in the version `source`.

    If so, the types of a node must be known to write it. True also if `target` demands equal types where `source` does
    not, and if the installed onnx lacks the operator in one of the two versions.
    """
    before, after = find_schema(domain, operator, source), find_schema(domain, operator, target)
    if before is None or after is None:
        return True
    #: Type variable of the target -> that of the source.
    variables: Dict[str, Optional[str]] = {}
    for kind in ("inputs", "outputs"):
        for position, port in enumerate(getattr(before, kind)):
            target_port = _port_at(after, kind, position)
            if target_port is None or not allowed_types(before, port) <= allowed_types(after, target_port):
                return True
            variable = variable_of(target_port)
            if variable is not None and variables.setdefault(variable, variable_of(port)) != variable_of(port):
                return True
    return False


def _types(schema: Schema, kind: str, position: int) -> FrozenSet[str]:
    """Return the types that a schema allows for an input or output, such as "tensor(float)". Empty if it has none."""
    port = _port_at(schema, kind, position)
    return frozenset() if port is None else allowed_types(schema, port)


def _port_at(schema: Schema, kind: str, position: int) -> Optional[Schema]:
    """Return the declaration of input or output number `position` of a schema. None: the schema has fewer.

    `kind`: "inputs" or "outputs". A variadic last declaration stands for all further positions.
    """
    ports = getattr(schema, kind)
    if position < len(ports):
        return ports[position]
    return ports[-1] if ports and is_variadic(ports[-1]) else None


def form_problem(node: "onnx.NodeProto", schema: Schema) -> Optional[str]:
    """Return the reason why a node does not have the form that a schema demands; None if it has.

    The form is the names of the attributes, and the numbers of inputs and outputs. Types are not checked.
    """
    known = schema.attributes
    for attribute in node.attribute:
        if attribute.name not in known:
            return "it has no attribute '%s' there" % attribute.name
    attribute_names = {attribute.name for attribute in node.attribute}
    missing = [name for name, attribute in known.items() if attribute.required and name not in attribute_names]
    if missing:
        return "it needs an attribute '%s' there" % missing[0]
    for kind, names, ports in (("input", node.input, schema.inputs), ("output", node.output, schema.outputs)):
        if len(names) > len(ports) and not (ports and is_variadic(ports[-1])):
            return "it has no %s number %d there" % (kind, len(ports))
        for position, port in enumerate(ports):
            is_single = str(port.option).endswith("Single")
            if kind == "input" and is_single and not (position < len(names) and names[position]):
                return "its input '%s' is not optional there" % port.name
    return None


def type_problem(schema: Schema, inputs: Sequence[Fact], outputs: Sequence[Fact]) -> Optional[str]:
    """Return a text for the first type that a schema does not allow for an input or output; None if it allows all.

    Values with one type variable must have one type. Unknown types are not checked.
    """
    bound: Dict[str, str] = {}
    for kind, facts in (("inputs", inputs), ("outputs", outputs)):
        for position, fact in enumerate(facts):
            if fact.type is None:
                continue
            if fact.type not in _types(schema, kind, position):
                verb = "takes" if kind == "inputs" else "gives"
                return "%s %s no %s there" % (schema.name, verb, fact.type)
            variable = variable_of(_port_at(schema, kind, position))
            first = fact.type if variable is None else bound.setdefault(variable, fact.type)
            if first != fact.type:
                return "%s has one type for values of %s and %s there" % (schema.name, first, fact.type)
    return None
