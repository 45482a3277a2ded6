"""Collect from onnx's schemas which dtypes each input of an operator may have, over all versions that the installed
onnx has.
"""

from typing import Any, Dict, FrozenSet, List, NamedTuple, Tuple

import onnx

from onnx_compat.ir.dtypes import DType

#: Element types that mark an input as data that is only moved: such an input takes everything here.
MOVED = {"bool", "string"}


class Row(NamedTuple):
    """The dtypes of the inputs of an operator.

    `allowed`: the dtypes of each input; empty: every dtype. `groups`: the name of the group whose inputs have one
    dtype; "": no group. `repeated`: whether the last input is variadic.
    """

    allowed: Tuple[FrozenSet[str], ...]
    groups: Tuple[str, ...]
    repeated: bool


def type_of(formal: Any) -> str:
    """Return the type of a formal parameter of a schema. Old releases of onnx call the attribute `typeStr`."""
    return str(formal.type_str if hasattr(formal, "type_str") else formal.typeStr)


def is_homogeneous(formal: Any) -> bool:
    """Return whether the values of a variadic parameter have one dtype. Old releases of onnx call it `isHomogeneous`."""
    return bool(formal.is_homogeneous if hasattr(formal, "is_homogeneous") else formal.isHomogeneous)


def rows() -> Dict[Tuple[str, str], Row]:
    schemas: Dict[Tuple[str, str], List[Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.inputs and not schema.deprecated:
            schemas.setdefault((schema.domain, schema.name), []).append(schema)
    table = {key: _row(versions) for key, versions in sorted(schemas.items())}
    return {key: row for key, row in table.items() if any(row.allowed) or any(row.groups)}


def _row(versions: List[Any]) -> Row:
    count = max(len(schema.inputs) for schema in versions)
    allowed = []
    for k in range(count):
        names = {name for schema in versions if k < len(schema.inputs) for name in _tensors(schema, schema.inputs[k])}
        allowed.append(frozenset() if names >= MOVED else frozenset(names))
    groups: List[int] = list(range(count))
    for k in range(count):
        groups[k] = next(first for first in range(k + 1) if first == k or _always_bound(versions, first, k))
    repeated = any(schema.inputs[-1].option.name == "Variadic" for schema in versions)
    homogeneous = all(is_homogeneous(schema.inputs[-1]) for schema in versions)
    shared = [
        groups.count(group) > 1 or (repeated and homogeneous and k == count - 1) for k, group in enumerate(groups)
    ]
    letters = sorted({group for group, is_shared in zip(groups, shared) if is_shared})
    labels = ["TUVW"[letters.index(group)] if is_shared else "" for group, is_shared in zip(groups, shared)]
    return Row(tuple(allowed), tuple(labels), repeated)


def _always_bound(versions: List[Any], first: int, second: int) -> bool:
    """Return whether two inputs have the same type parameter in every version that has both inputs."""
    both = [schema.inputs for schema in versions if len(schema.inputs) > second]
    return all(
        type_of(inputs[first]) == type_of(inputs[second])
        and "(" not in type_of(inputs[first])
        and is_homogeneous(inputs[second])
        for inputs in both
    )


def _tensors(schema: Any, formal: Any) -> List[str]:
    constraints = {constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints}
    names = constraints.get(type_of(formal), [type_of(formal)])
    inner = [name[9:-1] if name.startswith("optional(") else name for name in names]
    return [DType.of(name).name for name in inner if name.startswith("tensor(")]
