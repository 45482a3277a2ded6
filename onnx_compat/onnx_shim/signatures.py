"""The signatures of operators, as the installed onnx knows them: their inputs, outputs, dtypes and attributes."""

import functools
import re
from typing import Any, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from onnx_compat.ir.dtypes import DType

__all__ = [
    "Attribute",
    "Parameter",
    "Schema",
    "Signature",
    "allowed_types",
    "find_schema",
    "is_variadic",
    "newest_opset",
    "signature_of",
    "variable_of",
]

#: onnx.defs.OpSchema, or an input or output of it. They are made in C++.
Schema = Any


_TENSOR = re.compile(r"tensor\(([a-z0-9]+)\)$")


class Parameter(NamedTuple):
    """An input or an output of an operator.

    - dtypes: the spellings of the dtypes that its tensors can have.
    - variable: its type variable, such as "T". Values of one type variable have one dtype. None: the parameter is
      variadic, and its values may differ in dtype.
    - is_variadic: whether it stands for any number of values; then it is the last one.
    - is_required: whether a call must have the value.
    """

    name: str
    dtypes: FrozenSet[str]
    variable: Optional[str]
    is_variadic: bool
    is_required: bool


class Attribute(NamedTuple):
    """An attribute of an operator: whether it is a list, whether it holds floats of 32 bits, its default or None."""

    is_list: bool
    is_float: bool
    default: Any


class Signature(NamedTuple):
    """A version of an operator.

    - since: the operator set in which this version begins.
    - is_function: whether the schema has a function that computes the operator.
    """

    since: int
    inputs: Tuple[Parameter, ...]
    outputs: Tuple[Parameter, ...]
    attributes: Mapping[str, Attribute]
    is_function: bool

    def input_at(self, position: int) -> Optional[Parameter]:
        """Return the parameter for the input at a position of a call. None: the operator has fewer inputs.

        A last parameter that is variadic takes all further positions.
        """
        return _at(self.inputs, position)

    def can_take(self, inputs: Sequence[Optional[DType]], outputs: Sequence[Optional[DType]]) -> bool:
        """Whether a call can have inputs and outputs of these dtypes.

        None stands for an omitted input, and for an output of any dtype.
        """
        if any(self._is_missing(position, inputs) for position in range(len(self.inputs))):
            return False
        bound: Dict[str, DType] = {}
        return _fit(self.inputs, inputs, bound) and _fit(self.outputs, outputs, bound)

    def _is_missing(self, position: int, inputs: Sequence[Any]) -> bool:
        """Whether the operator requires the input at `position`, and `inputs` omits it: too short, or None there."""
        return self.inputs[position].is_required and (position >= len(inputs) or inputs[position] is None)


def newest_opset() -> int:
    """Return the newest operator set of ai.onnx that the installed onnx knows."""
    import onnx

    return int(onnx.defs.onnx_opset_version())


@functools.lru_cache(maxsize=None)
def find_schema(domain: str, operator: str, opset: int) -> Optional[Schema]:
    """Return the schema of an operator that holds in an operator set.

    None: the set lacks or deprecates the operator, or the installed onnx does not know it.
    """
    from onnx import defs

    try:
        schema = defs.get_schema(operator, opset, domain)
    except Exception:  # noqa: BLE001 (SchemaError is another class in each release of onnx)
        return None
    return None if schema.deprecated else schema


@functools.lru_cache(maxsize=None)
def signature_of(domain: str, operator: str, opset: int) -> Optional[Signature]:
    """Return the signature of an operator in an operator set.

    None: the set lacks or deprecates the operator, or the installed onnx does not know it.
    """
    schema = find_schema(domain, operator, opset)
    if schema is None:
        return None
    attributes = {
        name: Attribute(_is_list(item), _is_float(item), _default(item)) for name, item in schema.attributes.items()
    }
    inputs, outputs = (
        tuple(_parameter(schema, formal) for formal in ports) for ports in (schema.inputs, schema.outputs)
    )
    is_function = any(getattr(schema, name) for name in ("has_function", "has_context_dependent_function"))
    return Signature(schema.since_version, inputs, outputs, attributes, is_function)


def allowed_types(schema: Schema, formal: Schema) -> FrozenSet[str]:
    """Return the types that a schema allows for one of its inputs or outputs, such as "tensor(float)".

    They come from the type constraints of the schema: `formal.types` raises TypeError in onnx 1.20.
    """
    variable = _type_text(formal)
    for constraint in schema.type_constraints:
        if constraint.type_param_str == variable:
            return frozenset(map(str, constraint.allowed_type_strs))
    return frozenset([variable])


def _type_text(formal: Schema) -> str:
    """Return the type variable of an input or output, or its only type. Releases of onnx differ in the name."""
    return str(getattr(formal, "type_str", None) or getattr(formal, "typeStr", ""))


def _parameter(schema: Schema, formal: Schema) -> Parameter:
    """Return an input or output of an onnx schema as a `Parameter`."""
    matches = [_TENSOR.match(spelled) for spelled in allowed_types(schema, formal)]
    return Parameter(
        str(formal.name),
        frozenset(match.group(1) for match in matches if match),
        variable_of(formal),
        is_variadic(formal),
        "Single" in str(formal.option),
    )


def variable_of(formal: Schema) -> Optional[str]:
    """Return the type variable of an input or output, such as "T". None: variadic values that may differ in type.

    Releases of onnx differ in the names of the fields.
    """
    is_uniform = getattr(formal, "is_homogeneous", None)
    is_uniform = getattr(formal, "isHomogeneous", True) if is_uniform is None else is_uniform
    if is_variadic(formal) and not is_uniform:
        return None
    return _type_text(formal)


def is_variadic(formal: Schema) -> bool:
    """Whether an input or output stands for any number of values."""
    return str(formal.option).endswith("Variadic")


def _is_list(attribute: Any) -> bool:
    return str(attribute.type).endswith("S")


def _is_float(attribute: Any) -> bool:
    return str(attribute.type).rpartition(".")[2] in ("FLOAT", "FLOATS")


def _default(attribute: Any) -> Any:
    import onnx

    if not attribute.default_value.type:
        return None
    value = onnx.helper.get_attribute_value(attribute.default_value)
    return value.decode() if isinstance(value, bytes) else value


def _at(parameters: Sequence[Parameter], position: int) -> Optional[Parameter]:
    if position < len(parameters):
        return parameters[position]
    return parameters[-1] if parameters and parameters[-1].is_variadic else None


def _fit(parameters: Sequence[Parameter], dtypes: Sequence[Optional[DType]], bound: Dict[str, DType]) -> bool:
    """Whether values of these dtypes fit the parameters; None fits each.

    `bound`: type variable -> dtype, of the values that were checked before. It is extended in place.
    """
    matches: List[Optional[Parameter]] = [_at(parameters, position) for position in range(len(dtypes))]
    for parameter, dtype in zip(matches, dtypes):
        if parameter is None:
            return False
        if dtype is None:
            continue
        if dtype.spelling not in parameter.dtypes:
            return False
        if parameter.variable is not None and bound.setdefault(parameter.variable, dtype) != dtype:
            return False
    return True
