"""The core says what every operator of every version of ONNX means, and makes no version up."""

from pathlib import Path

import onnx.defs
import pytest
from building import model, node, value

import onnx_compat
import onnx_compat.ops
from onnx_compat.errors import InvalidModelError
from onnx_compat.ops import registered

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
    """Every (domain, operator, since_version) that the onnx here knows."""
    return {(one.domain, one.name, one.since_version) for one in onnx.defs.get_all_schemas_with_history()}


def ours():
    return {(one.domain, one.name, one.since) for one in registered()}


def test_every_version_of_every_operator_has_a_meaning():
    missing = pairs() - ours()
    assert not missing, sorted(missing)


def test_the_newest_onnx_has_as_many_as_are_counted():
    """So that the test above cannot pass on an empty list."""
    if onnx.defs.onnx_opset_version() >= 28:
        assert len(pairs()) >= 659
    else:
        assert len(pairs()) > 300


def test_an_operator_is_found_by_its_name():
    """As a string in the code, where CONTRIBUTING says to look."""
    text = "".join(path.read_text(encoding="utf-8") for path in Path(onnx_compat.ops.__file__).parent.glob("**/*.py"))
    hidden = [one.name for one in registered() if '"%s"' % one.name not in text]
    assert not hidden


def test_no_version_is_made_up():
    newest = {"": onnx.defs.onnx_opset_version()}
    for domain, _, since in pairs():
        newest[domain] = max(since, newest.get(domain, 0))
    known = {(domain, name) for domain, name, _ in pairs()}
    invented = {one for one in ours() - pairs() - BEYOND if one[:2] in known and one[2] <= newest[one[0]]}
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


def _option(one, place):
    """How the meaning takes the input at this place, in the words of the schemas."""
    parameter = one.inputs[min(place, len(one.inputs) - 1)]
    if parameter.kind is parameter.VAR_POSITIONAL:
        return "Variadic"
    return "Single" if parameter.default is parameter.empty else "Optional"


def test_inputs_are_required_where_the_schema_says_so():
    schemas = {(one.domain, one.name, one.since_version): one for one in onnx.defs.get_all_schemas_with_history()}
    differing = set()
    for one in registered():
        schema = schemas.get((one.domain, one.name, one.since))
        if schema is None:
            continue
        assert len(one.inputs) == len(schema.inputs), one.name
        for place, formal in enumerate(schema.inputs):
            if _option(one, place) != formal.option.name:
                differing.add((one.name, one.since, formal.name))
    assert differing == {pair for pair in OPTIONAL_LATER if ("", *pair[:2]) in schemas}


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_left_out_input_is_named_in_the_error(place):
    """Of every meaning: a required input, and an element of a variadic one."""
    tried = 0
    for one in registered():
        if not one.inputs or _option(one, place) == "Optional":
            continue
        if place >= len(one.inputs) and _option(one, place) != "Variadic":
            continue
        name = one.inputs[min(place, len(one.inputs) - 1)].name
        inputs = [object()] * 4
        inputs[place] = None
        required = {key: 1 for key, parameter in one.attributes.items() if parameter.default is parameter.empty}
        with pytest.raises(InvalidModelError, match="the input '%s' \\(number %d\\) is missing" % (name, place)):
            one.bind(inputs[: max(len(one.inputs), place + 1)], required)
        tried += 1
    assert tried > 50


VARIADIC = {
    "Max": {}, "Min": {}, "Sum": {}, "Mean": {}, "Concat": {"axis": 0}, "SequenceConstruct": {},
    "Einsum": {"equation": "i,i,i->i"},
}  # fmt: skip


@pytest.mark.parametrize("operator", sorted(VARIADIC))
@pytest.mark.parametrize("names", [["x", "", "z"], ["", "x"], ["x", ""]])
def test_a_variadic_operator_with_a_left_out_input_is_refused(operator, names):
    """They gave NaN, or all inputs but this one; onnxruntime ends the process."""
    inputs = [value("x", [3]), value("z", [3])]
    proto = model([node(operator, names, ["y"], name="op", **VARIADIC[operator])], inputs, [value("y")])
    with pytest.raises(InvalidModelError, match="is missing") as caught:
        onnx_compat.prepare(proto, shim="reference")
    assert caught.value.node == "op" and "number %d" % names.index("") in str(caught.value)


def test_attributes_are_those_of_the_schema():
    """The same names, required in the same places, where onnx here knows the version."""
    schemas = {(one.domain, one.name, one.since_version): one for one in onnx.defs.get_all_schemas_with_history()}
    wrong = []
    for one in registered():
        schema = schemas.get((one.domain, one.name, one.since))
        if schema is None:
            continue
        theirs = {
            name: attribute.required for name, attribute in schema.attributes.items() if name != "consumed_inputs"
        }
        mine = {name: parameter.default is parameter.empty for name, parameter in one.attributes.items()}
        if set(theirs) - set(mine) or any(required and not theirs.get(name, True) for name, required in mine.items()):
            wrong.append((one.name, one.since, theirs, mine))
    assert not wrong
