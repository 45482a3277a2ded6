"""Attributes: the meanings declare the types of onnx's schemas, and an attribute of another type is refused."""

import numpy as np
import onnx
import pytest
from building import model, node, value
from onnx import AttributeProto, helper

import onnx_compat
from onnx_compat.errors import InvalidModelError
from onnx_compat.model import Empty
from onnx_compat.ops.attribute_types import attribute_type, declared_types, is_own
from onnx_compat.ops.registry import OPERATORS, Operator, all_meanings, op

#: A value of each attribute type, as a meaning is given it.
VALUES = {"FLOAT": 1.0, "INT": 1, "STRING": "x", "FLOATS": (1.0,), "INTS": (1,), "STRINGS": ("x",)}


def _own():
    """Return every meaning that this library defines, except Constant: the type of its attribute is the type of its
    value.
    """
    meanings = [meaning for meaning in all_meanings() if is_own(meaning.function)]
    return [m for m in meanings if (m.domain, m.name) != ("", "Constant")]


@pytest.fixture(scope="module")
def schemas():
    types_by_name = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        types_by_name.setdefault((schema.domain, schema.name), {})[schema.since_version] = schema
    return types_by_name


def test_every_attribute_declares_the_type_of_the_schema(schemas):
    compared = 0
    for meaning in _own():
        versions = schemas.get((meaning.domain, meaning.name), {})
        schema = versions.get(max([v for v in versions if v <= meaning.since], default=0))
        for name, parameter in meaning.attributes.items():
            declared = declared_types(parameter.annotation)
            assert declared, "%s-%d does not declare the type of %s" % (meaning.name, meaning.since, name)
            if schema is not None and name in schema.attributes:
                compared += 1
                assert schema.attributes[name].type.name.replace("SPARSE_", "") in declared, (meaning.name, name)
                # the exponent of a norm is a FLOAT in version 1 and an INT since, with one meaning
                assert len(declared) == 1 or meaning.name in ("LpPool", "GlobalLpPool")
    assert compared > 800


@pytest.mark.parametrize("meaning", _own(), ids=lambda m: "%s-%s-%d" % (m.domain, m.name, m.since))
def test_an_attribute_of_every_other_type_is_refused(meaning):
    for name, parameter in meaning.attributes.items():
        for kind, wrong in {**VALUES, "GRAPHS": Empty(10)}.items():
            if kind in declared_types(parameter.annotation):
                continue
            with pytest.raises(InvalidModelError, match="'%s' has the type %s" % (name, kind)):
                meaning._replace(inputs=()).bind([], {name: wrong})


def _elu(attribute):
    elu_node = node("Elu", ["x"], ["y"], name="here")
    elu_node.attribute.append(attribute)
    return model([elu_node], [value("x", [2])], [value("y", [2])])


@pytest.mark.parametrize(
    ("attribute", "kind"),
    [
        (AttributeProto(name="alpha", s=b"2", type=AttributeProto.STRING), "STRING"),
        (AttributeProto(name="alpha", i=2, type=AttributeProto.INT), "INT"),
        (AttributeProto(name="alpha", floats=[2.0], type=AttributeProto.FLOATS), "FLOATS"),
        (AttributeProto(name="alpha", type=AttributeProto.INTS), "INTS"),
        (AttributeProto(name="alpha", t=helper.make_tensor("t", 1, [], [2.0]), type=AttributeProto.TENSOR), "TENSOR"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_error_names_node_attribute_and_both_types(attribute, kind):
    with pytest.raises(InvalidModelError) as caught:
        onnx_compat.prepare(_elu(attribute), shim="reference")
    assert caught.value.reason == "the attribute 'alpha' has the type %s, Elu expects FLOAT" % kind
    assert (caught.value.node, caught.value.operator) == ("here", "Elu")


@pytest.mark.parametrize(
    ("stored", "dtype"), [(1.5, "float32"), ([1, 2], "int64"), (["a"], "object")], ids=["float", "ints", "strings"]
)
def test_a_constant_takes_the_type_of_its_attribute(stored, dtype):
    proto = model([node("Constant", [], ["y"], value=stored)], [], [onnx.ValueInfoProto(name="y")])
    (result,) = onnx_compat.prepare(proto, shim="reference").run({})
    assert result.dtype == dtype
    assert result.tolist() == stored


def test_a_users_meaning_takes_an_integer_for_a_float_and_any_value_where_it_declares_none():
    def scale(x, *, alpha: float = 1.0, mode=None):
        return x

    try:
        op("Scaled", since=1, domain="my.own")(scale)
        meaning: Operator = OPERATORS["my.own", "Scaled"][1]
        given = {"alpha": 2, "mode": ("x",)}
        assert meaning._replace(inputs=()).bind([], given) == given
        with pytest.raises(InvalidModelError, match="STRING"):
            meaning._replace(inputs=()).bind([], {"alpha": "2"})
    finally:
        OPERATORS.pop(("my.own", "Scaled"), None)


def test_an_empty_list_has_the_type_that_it_was_read_with():
    assert attribute_type(Empty(AttributeProto.FLOATS)) == "FLOATS"
    assert attribute_type(Empty(AttributeProto.TYPE_PROTOS)) == "TYPE_PROTOS"


def _norm(**attributes):
    nodes = [node("LayerNormalization", ["x", "s"], ["y"], name="here", **attributes)]
    return model(nodes, [value("x", ["n", 3]), value("s", [3])], [value("y")], opset=17)


def test_a_misspelt_attribute_with_a_default_warns_and_the_default_holds():
    x, s = np.array([[1, 2, 4]], np.float32), np.ones(3, np.float32)
    (expected,) = onnx_compat.run(_norm(), [x, s], shim="reference")
    with pytest.warns(RuntimeWarning, match="'epsion'.*node 'here'.*did you mean 'epsilon'"):
        runnable = onnx_compat.prepare(_norm(epsion=3.0), shim="reference")
    np.testing.assert_array_equal(runnable.run([x, s])[0], expected)


@pytest.mark.parametrize(
    ("attributes", "hint"),
    [
        ({"colour": 1}, None),
        ({"epsilon": 1e-5, "epsion": 1e-5}, None),  # the attribute that it resembles is given
    ],
)
def test_any_other_unknown_attribute_is_refused(attributes, hint):
    with pytest.raises(InvalidModelError, match=r"LayerNormalization has no attribute '(colour|epsion)'") as caught:
        onnx_compat.prepare(_norm(**attributes), shim="reference")
    assert caught.value.hint == hint


def test_a_misspelt_attribute_without_a_default_is_refused_with_its_name():
    proto = model([node("Concat", ["x", "x"], ["y"], axiss=0)], [value("x", ["n"])], [value("y")])
    with pytest.raises(InvalidModelError, match="Concat has no attribute 'axiss'") as caught:
        onnx_compat.prepare(proto, shim="reference")
    assert caught.value.hint == "did you mean 'axis'?"


@pytest.mark.parametrize("name", ["Max", "Min", "Sum", "Mean", "Concat", "SequenceConstruct", "Einsum"])
def test_an_operator_of_variadic_inputs_without_any(name: str) -> None:
    attributes = {"Concat": {"axis": 0}, "Einsum": {"equation": "->"}}.get(name, {})
    proto = model([node(name, [], ["y"], **attributes)], [], [value("y")])
    with pytest.raises(InvalidModelError, match="%s needs at least one" % name):
        onnx_compat.prepare(proto, shim="reference")


@pytest.mark.parametrize(
    ("operator", "name"), [("Einsum", "equation"), ("DepthToSpace", "mode"), ("MaxPool", "auto_pad")]
)
def test_a_text_that_is_no_utf_8_is_refused(operator, name):
    attributes = {"DepthToSpace": {"blocksize": 1}, "MaxPool": {"kernel_shape": [1, 1]}}.get(operator, {})
    nodes = [node(operator, ["x"], ["y"], **attributes, **{name: b"\xff"})]
    data = model(nodes, [value("x", [1, 1, 2, 2])], [value("y")])
    with pytest.raises(InvalidModelError, match="'%s' is no UTF-8 text" % name):
        onnx_compat.run(data, {"x": np.zeros((1, 1, 2, 2), np.float32)}, shim="reference")
