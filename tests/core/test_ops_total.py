"""The core says what every operator of every version of ONNX means, and makes no version up."""

from pathlib import Path

import onnx.defs

import onnx_compat.ops
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
