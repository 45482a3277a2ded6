"""Inputs of a dtype that ONNX's schemas forbid are refused; the library's table allows each dtype that a schema allows."""

import numpy as np
import onnx
import pytest
from building import model, node, value
from dtype_rows import rows
from onnx import TensorProto, helper

import onnx_compat
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import ALL, DType
from onnx_compat.ops.dtype_constraints import TABLE, check, constraints
from onnx_compat.ops.registry import OPERATORS, all_meanings
from onnx_compat.tracing.values import Tensor

ROWS = rows()
#: onnx 1.16 and older let GridSample-16 take every type; later releases corrected the schema to floats.
CORRECTED = {("", "GridSample")}


def of(name, rank=1):
    return Tensor(DType.of(name), (2,) * rank)


@pytest.mark.parametrize("key", ROWS, ids="::".join)
def test_the_table_allows_what_the_schemas_allow(key):
    schema, ours = ROWS[key], constraints(*key)
    if ours is None:
        pytest.fail("onnx_compat/ops/dtype_constraints.py lacks a row for %s: %s" % ("::".join(key), schema))
    newest = onnx.defs.onnx_opset_version() >= 28
    for k, theirs in enumerate(schema.allowed):
        allowed = ours.allowed[k] if k < len(ours.allowed) else frozenset()
        if newest:
            assert allowed == theirs
        elif allowed:  # the table knows the versions of a later onnx too
            assert (theirs or key in CORRECTED) and allowed >= theirs
    assert not newest or (ours.groups[: len(schema.groups)], ours.repeated) == (
        schema.groups[: len(ours.groups)],
        schema.repeated,
    )


def test_the_table_has_operators_that_exist():
    named = {"%s::%s" % key if key[0] else key[1] for key in OPERATORS} if all_meanings() else set()
    assert set(TABLE) <= named


def _inputs(key, wrong, name):
    """Return inputs that each have the first allowed dtype. Input `wrong` has the dtype `name` instead."""
    row = constraints(*key)
    chosen = {group: min(allowed or {"float32"}) for allowed, group in zip(row.allowed, row.groups) if group}
    tensors = [of(chosen.get(group) or min(allowed or {"float32"})) for allowed, group in zip(row.allowed, row.groups)]
    tensors[wrong] = of(name)
    return tensors


@pytest.mark.parametrize("key", ROWS, ids="::".join)
def test_every_other_dtype_is_refused(key):
    row = constraints(*key)
    if row is None:
        pytest.fail("onnx_compat/ops/dtype_constraints.py lacks a row for %s" % "::".join(key))
    for k, allowed in enumerate(row.allowed):
        for dtype in ALL:
            if allowed and dtype.name not in allowed:
                with pytest.raises(
                    InvalidModelError, match=r"input number %d is %s, %s takes " % (k, dtype.name, key[1])
                ):
                    check(*key, _inputs(key, k, dtype.name))
            elif not row.groups[k]:
                check(*key, _inputs(key, k, dtype.name))


@pytest.mark.parametrize(
    ("operator", "first", "second"),
    [("Add", "float32", "int64"), ("Conv", "float32", "float64"), ("ScatterND", "float32", "string")],
)
def test_inputs_of_one_type_have_one_dtype(operator, first, second):
    inputs = [of(first), of("int64") if operator == "ScatterND" else of(second), of(second)]
    with pytest.raises(InvalidModelError, match="are %s and %s, %s takes one type" % (first, second, operator)):
        check("", operator, inputs)


def test_each_element_of_a_variadic_input_is_checked():
    check("", "Concat", [of("int8")] * 5)
    with pytest.raises(InvalidModelError, match="0 and 4 are int8 and int16"):
        check("", "Concat", [of("int8")] * 4 + [of("int16")])


def _elu(dtype, domain="", opset=13):
    elu_node = node("Elu", ["x"], ["y"], name="here", domain=domain)
    extra = [helper.make_opsetid(domain, 1)] if domain else []
    return model([elu_node], [value("x", [2], dtype)], [onnx.ValueInfoProto(name="y")], None, opset, extra)


def test_the_error_names_the_node():
    with pytest.raises(InvalidModelError) as caught:
        onnx_compat.prepare(_elu(TensorProto.INT64), shim="reference")
    assert caught.value.reason == "the input number 0 is int64, Elu takes bfloat16, float16, float32, float64"
    assert (caught.value.node, caught.value.operator) == ("here", "Elu")


def test_a_users_meaning_takes_every_dtype():
    try:
        onnx_compat.op("Elu", since=28)(lambda X, *, alpha=1.0: X)
        x = np.asarray([1, 2], np.int64)
        (y,) = onnx_compat.prepare(_elu(TensorProto.INT64, opset=28), shim="reference").run({"x": x})
        assert y.tolist() == [1, 2]
    finally:
        OPERATORS["", "Elu"].pop(28)
