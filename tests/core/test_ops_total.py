"""The core defines every version of every operator of ONNX, and no other version."""

from pathlib import Path

import onnx.defs
import pytest
from building import model, node, value

import onnx_compat
import onnx_compat.ops
from onnx_compat.errors import InvalidModelError
from onnx_compat.ops import all_meanings
from onnx_compat.ops.attribute_types import is_own

#: Versions of operators that ONNX's schemas do not have, and models do: what onnxruntime writes into models of older
#: opsets than those that brought the operator; and experiments, which were recorded before they had a version.
#: And one that onnx 1.23 added to opset 25, which was out.
BEYOND = {
    ("", "LayerNormalization", 1),
    ("", "MeanVarianceNormalization", 1),
    ("", "ThresholdedRelu", 1),
    ("", "Attention", 25),
}


def pairs():
    """Return (domain, operator, since_version) of every operator version of the installed onnx."""
    return {(entry.domain, entry.name, entry.since_version) for entry in onnx.defs.get_all_schemas_with_history()}


def ours():
    return {(entry.domain, entry.name, entry.since) for entry in all_meanings()}


def test_every_version_of_every_operator_has_a_meaning():
    missing = pairs() - ours()
    assert not missing, sorted(missing)


def test_the_newest_onnx_has_as_many_as_are_counted():
    """The count guards the previous test, which would pass on an empty list."""
    if onnx.defs.onnx_opset_version() >= 28:
        assert len(pairs()) >= 659
    else:
        assert len(pairs()) > 300


def test_an_operator_is_found_by_its_name():
    """The name of each operator is a string in the code, so that the grep in CONTRIBUTING.md finds it."""
    text = "".join(path.read_text(encoding="utf-8") for path in Path(onnx_compat.ops.__file__).parent.glob("**/*.py"))
    hidden = [entry.name for entry in all_meanings() if is_own(entry.function) and '"%s"' % entry.name not in text]
    assert not hidden


def test_no_version_is_invented():
    newest = {"": onnx.defs.onnx_opset_version()}
    for domain, _, since in pairs():
        newest[domain] = max(since, newest.get(domain, 0))
    known = {(domain, name) for domain, name, _ in pairs()}
    invented = {entry for entry in ours() - pairs() - BEYOND if entry[:2] in known and entry[2] <= newest[entry[0]]}
    assert not invented


#: Required inputs of older versions that a younger version makes optional, with the same results where they are given.
OPTIONAL_LATER = {
    ("Gemm", 1, "C"),
    ("Gemm", 6, "C"),
    ("Gemm", 7, "C"),
    ("Gemm", 9, "C"),
    ("OptionalHasElement", 15, "input"),
    ("Resize", 11, "roi"),
    ("Resize", 11, "scales"),
}


def _option(entry, index):
    """Return whether the meaning takes the input at this index as single, optional or variadic, as a schema states it."""
    parameter = entry.inputs[min(index, len(entry.inputs) - 1)]
    if parameter.kind is parameter.VAR_POSITIONAL:
        return "Variadic"
    return "Single" if parameter.default is parameter.empty else "Optional"


def test_inputs_are_required_where_the_schema_says_so():
    schemas = {
        (entry.domain, entry.name, entry.since_version): entry for entry in onnx.defs.get_all_schemas_with_history()
    }
    differing = set()
    for entry in all_meanings():
        schema = schemas.get((entry.domain, entry.name, entry.since))
        if schema is None:
            continue
        assert len(entry.inputs) == len(schema.inputs), entry.name
        for index, formal in enumerate(schema.inputs):
            if _option(entry, index) != formal.option.name:
                differing.add((entry.name, entry.since, formal.name))
    assert differing == {pair for pair in OPTIONAL_LATER if ("", *pair[:2]) in schemas}


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_left_out_input_is_named_in_the_error(index):
    """Every meaning refuses an absent required input and an absent element of a variadic input."""
    tried = 0
    for entry in all_meanings():
        if not entry.inputs or _option(entry, index) == "Optional":
            continue
        if index >= len(entry.inputs) and _option(entry, index) != "Variadic":
            continue
        name = entry.inputs[min(index, len(entry.inputs) - 1)].name
        inputs = [object()] * 4
        inputs[index] = None
        required = {key: 1 for key, parameter in entry.attributes.items() if parameter.default is parameter.empty}
        with pytest.raises(InvalidModelError, match="the input '%s' \\(number %d\\) is missing" % (name, index)):
            entry.bind(inputs[: max(len(entry.inputs), index + 1)], required)
        tried += 1
    assert tried > 50


VARIADIC = {
    "Max": {}, "Min": {}, "Sum": {}, "Mean": {}, "Concat": {"axis": 0}, "SequenceConstruct": {},
    "Einsum": {"equation": "i,i,i->i"},
}  # fmt: skip


@pytest.mark.parametrize("operator", sorted(VARIADIC))
@pytest.mark.parametrize("names", [["x", "", "z"], ["", "x"], ["x", ""]])
def test_a_variadic_operator_with_a_left_out_input_is_refused(operator, names):
    """An absent element of a variadic input is refused; onnxruntime ends the process."""
    inputs = [value("x", [3]), value("z", [3])]
    proto = model([node(operator, names, ["y"], name="op", **VARIADIC[operator])], inputs, [value("y")])
    with pytest.raises(InvalidModelError, match="is missing") as caught:
        onnx_compat.prepare(proto, shim="reference")
    assert caught.value.node == "op" and "number %d" % names.index("") in str(caught.value)


def test_attributes_are_those_of_the_schema():
    """The attributes have the same names, and the same are required, as in the schemas."""
    schemas = {
        (entry.domain, entry.name, entry.since_version): entry for entry in onnx.defs.get_all_schemas_with_history()
    }
    wrong = []
    for entry in all_meanings():
        schema = schemas.get((entry.domain, entry.name, entry.since))
        if schema is None:
            continue
        theirs = {
            name: attribute.required for name, attribute in schema.attributes.items() if name != "consumed_inputs"
        }
        mine = {name: parameter.default is parameter.empty for name, parameter in entry.attributes.items()}
        if set(theirs) - set(mine) or any(required and not theirs.get(name, True) for name, required in mine.items()):
            wrong.append((entry.name, entry.since, theirs, mine))
    assert not wrong
