"""The schema of the .tflite format, parsed from the text of `tables`, and the options table of each op."""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from onnx_compat_tflite.flatbuffer.names import ENUMS, OPERATORS
from onnx_compat_tflite.flatbuffer.tables import BUILTIN_OPTIONS, BUILTIN_OPTIONS_2, CORE, UNIONS

__all__ = ["SCALARS", "TABLES", "UNION_MEMBERS", "Field", "Table", "complete", "options_of", "options_table"]

SCALARS = {
    "bool": "?",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
}
"""Scalar type -> its format character in `struct`, little-endian."""


class Field(NamedTuple):
    """A field of a table. `slot`: its index in the vtable. `default`: the value of a scalar that is left out.

    `kind` tells what `type` names:

    - "scalar", or "vector" (of scalars): a scalar type or an enumeration
    - "table", or "tables" (a vector of tables): a table
    - "string": the word "string"
    - "union": a union. It has two slots: `slot` for the number of the member, `slot` + 1 for the table.

    The default of an enumeration is a name. Fields that are no scalar have the default None.
    """

    name: str
    slot: int
    kind: str
    type: str
    default: Any


class Table(NamedTuple):
    """A table type of the .tflite format: its name, and its fields without deprecated fields.

    `by_name`: a dict name -> field.
    """

    name: str
    fields: Tuple[Field, ...]
    by_name: Dict[str, Field]


def _field(word: str, slot: int) -> Field:
    name, _, rest = word.partition(":")
    kind, _, default = rest.partition("=")
    inner = kind.strip("[]<>")
    is_scalar = inner in SCALARS or inner in ENUMS
    if kind.startswith("<"):
        return Field(name, slot, "union", inner, None)
    if kind.startswith("["):
        return Field(name, slot, "vector" if is_scalar else "tables", inner, None)
    if not is_scalar:
        return Field(name, slot, "string" if inner == "string" else "table", inner, None)
    if inner in ENUMS:
        return Field(name, slot, "scalar", inner, default or ENUMS[inner].name(0))
    value = float(default or 0) if inner.startswith("float") else int(default or 0)
    return Field(name, slot, "scalar", inner, bool(value) if inner == "bool" else value)


def _parse(text: str) -> Dict[str, Table]:
    tables = {}
    for line in text.replace("\n    ", " ").strip().splitlines():
        name, *words = line.split()
        fields, slot = [], 0
        for word in words:
            field = _field(word, slot)
            slot += 2 if field.kind == "union" else 1
            if field.name != "_":
                fields.append(field)
        tables[name] = Table(name, tuple(fields), {field.name: field for field in fields})
    return tables


_FIRST, _SECOND = _parse(BUILTIN_OPTIONS), _parse(BUILTIN_OPTIONS_2)
TABLES: Dict[str, Table] = dict(_parse(CORE), **_FIRST, **_SECOND)
UNION_MEMBERS: Dict[str, List[str]] = {
    union: [line.split()[0] for line in text.strip().splitlines() if not line.startswith(" ")]
    for union, text in UNIONS.items()
}

_SHARED = {
    "Pool2DOptions": "AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D",
    "L2NormOptions": "L2_NORMALIZATION",
    "ReducerOptions": "MEAN SUM REDUCE_PROD REDUCE_MAX REDUCE_MIN REDUCE_ANY REDUCE_ALL",
    "MaximumMinimumOptions": "MAXIMUM MINIMUM",
    "SequenceRNNOptions": "UNIDIRECTIONAL_SEQUENCE_RNN",
    "Conv3DOptions": "CONV_3D CONV_3D_TRANSPOSE",
    "RandomOptions": "RANDOM_STANDARD_NORMAL RANDOM_UNIFORM MULTINOMIAL",
}


def _options_by_operator() -> Dict[str, str]:
    """Return {op: name of its options table}: the table with the op's name, or the table of `_SHARED`.

    Example: Conv2DOptions is the table with the name of CONV_2D. Ops without an options table are left out. A table may
    have no fields.
    """
    by_key = {name.lower(): name for name in list(_FIRST) + list(_SECOND)}
    own = {name: by_key.get(name.replace("_", "").lower() + "options") for name in OPERATORS.names}
    tables = {name: table for name, table in own.items() if table}
    tables.update({name: table for table, names in _SHARED.items() for name in names.split()})
    return tables


_OPTIONS = _options_by_operator()


def options_table(operator: str) -> Optional[str]:
    """Return the name of an op's options table, which may have no fields.

    Returns None for an op without options, such as RELU, and for an unknown op.
    """
    return _OPTIONS.get(operator)


def options_of(operator: str) -> Dict[str, Any]:
    """Return the options of an op as a dict {name: default}: {"beta": 0.0} for SOFTMAX.

    Returns {} for an op without options and for an unknown op.
    """
    table = options_table(operator)
    return complete(table, {}) if table else {}


def complete(table: str, values: Dict[str, Any]) -> Dict[str, Any]:
    """Return a dict {field name: value} with all fields of a table. Fields that `values` lacks have their defaults.

    Names in `values` that are not fields of the table are left out. Raises KeyError for an unknown table.
    """
    return {field.name: values.get(field.name, field.default) for field in TABLES[table].fields}
