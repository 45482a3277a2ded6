"""Every registered version is one that ONNX has; and what ONNX has beyond them is counted."""

import onnx.defs
import pytest

from onnx_compat.ops import registered

#: (operator, since_version) pairs of ai.onnx that have no meaning yet. It may only fall.
MISSING = 0

#: Versions that onnxruntime writes into models of older opsets than those that brought the operator.
ONNXRUNTIME = {("", "LayerNormalization", 1)}


def pairs():
    schemas = onnx.defs.get_all_schemas_with_history()
    return {
        (one.domain, one.name, one.since_version) for one in schemas if one.domain in ("", "ai.onnx.preview.training")
    }


def ours():
    return {(one.domain, one.name, one.since) for one in registered()}


def test_no_version_is_made_up():
    newest = onnx.defs.onnx_opset_version()
    known = {name for _, name, _ in pairs()}
    invented = {
        pair
        for pair in ours() - pairs() - ONNXRUNTIME
        if pair[0] in ("", "ai.onnx.preview.training") and pair[2] <= newest
    }
    assert not {pair for pair in invented if pair[1] in known}


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 28, reason="counts against the newest opset only")
def test_what_is_missing_is_counted():
    missing = sorted(pair for pair in pairs() - ours() if pair[0] == "")
    assert len(missing) <= MISSING, missing
    half = {name for _, name, _ in missing} & {one.name for one in registered() if one.domain == ""}
    assert not half, "some versions are registered and some are not: %s" % sorted(half)


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
