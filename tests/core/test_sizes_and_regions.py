"""Sizes while a program is emitted, regions, constant folding of sizes, and text primitives of unknown values."""

import re
from typing import Any, List, Optional, Tuple

import numpy as np
import pytest
from building import model, node, value
from meanings import meaning, primitives, record_function

import onnx_compat
from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, UnsupportedError
from onnx_compat.ir import Extents
from onnx_compat.ir.dtypes import bool_, float32, int32
from onnx_compat.ops import lookup, registry
from onnx_compat.primitives.base import Application, spec_of
from onnx_compat.reference import Reference
from onnx_compat.reference.regex import translate
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Port, Program
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import Tensor, lift


# -- sizes -------------------------------------------------------------------------------------------------------------
class _Symbolic(Reference):
    """An emitter whose sizes are only known at run time. It notes the sizes of each reshape, with one -1 for a symbol."""

    concrete = False

    def __init__(self) -> None:
        super().__init__()
        self.seen: List[Tuple[Optional[Tuple[int, ...]], Optional[Tuple[int, ...]]]] = []

    def reshape(self, x: Any, shape: Any) -> Any:
        self.seen.append((shape.known, shape.with_wildcard))
        return np.reshape(x, [int(size) for size in shape.scalars])


@pytest.mark.parametrize(
    ("shape", "known", "wildcard"),
    [
        (lambda n, m: (6, 1), (6, 1), (6, 1)),
        (lambda n, m: (1, n * m), None, (1, -1)),
        (lambda n, m: (m, n), None, None),
        (lambda n, m: (n * m, 0 + 1), None, (-1, 1)),
    ],
)
def test_the_sizes_of_a_reshape(shape: Any, known: Any, wildcard: Any) -> None:
    ports = [Port("x", float32, ("n", "m"))]
    program = record_program(lambda x: [p.reshape(x, shape(*x.shape))], ports, _Symbolic())
    emitter = _Symbolic()
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (y,) = emit(program.region, emitter, [x])
    assert y.shape == shape(2, 3) and y.reshape(-1).tolist() == x.reshape(-1).tolist()
    assert emitter.seen == [(known, wildcard)]


def test_a_size_of_zero_has_no_wildcard() -> None:
    """A -1 beside a 0 is no size: any number times zero is zero."""
    program = record_program(lambda x: [p.reshape(x, (0, x.shape[0]))], [Port("x", float32, ("n", 0))], _Symbolic())
    emitter = _Symbolic()
    (y,) = emit(program.region, emitter, [np.zeros((2, 0), np.float32)])
    assert y.shape == (0, 2) and emitter.seen == [(None, None)]


class _Short(Reference):
    """An emitter with indices of 32 bits."""

    index_dtype = int32


@pytest.mark.parametrize(("size", "dims"), [(2**31 - 1, [3, 2**31 - 1]), (2**31, None)])
def test_a_size_that_exceeds_the_index_dtype_is_refused(size: int, dims: Optional[List[int]]) -> None:
    record = record_function(lambda x: lift([x.shape[0], size]), ["n"], emitter=_Short())
    x = np.zeros(3, np.float32)
    if dims is not None:
        assert record(x).tolist() == dims
    else:
        with pytest.raises(UnsupportedError, match="the size 2147483648 exceeds the range of int32"):
            record(x)


@pytest.mark.parametrize(("name", "divisor"), [("Div", 0), ("Mod", 0), ("Div", -2)])
def test_a_division_of_a_size_that_is_not_decided_is_left_to_the_framework(name: str, divisor: int) -> None:
    """A size divided by zero has no value: it is recorded, and not folded to a size."""

    def body(x: Tensor) -> Tensor:
        shape = meaning("Shape", 13)(x)
        quotient = meaning(name, 14 if name == "Div" else 13)(shape, np.array([divisor]))
        assert quotient.value is None
        return quotient

    record = record_function(body, ["n"])
    assert name.lower() in primitives(record)
    if divisor:
        assert record(np.zeros(7, np.float32)).tolist() == [-3]


@pytest.mark.parametrize(("name", "expected"), [("Div", [3]), ("Mod", [1])])
def test_a_division_of_a_size_is_a_size(name: str, expected: List[int]) -> None:
    def body(x: Tensor) -> Tensor:
        quotient = meaning(name, 14 if name == "Div" else 13)(meaning("Shape", 13)(x), np.array([2]))
        assert quotient.value is not None
        return quotient

    assert record_function(body, ["n"])(np.zeros(7, np.float32)).tolist() == expected


def test_shapes_that_do_not_broadcast_are_named() -> None:
    with pytest.raises(InvalidModelError, match=r"the shapes \[2, 3\] and \[4, 3\] do not broadcast together"):
        record_function(p.add, [2, 3], [4, 3])


# -- regions -----------------------------------------------------------------------------------------------------------
def branching() -> Program:
    """Return a program whose branches return a value of the program itself, without a node of their own."""
    ports = [Port("c", bool_, ()), Port("x", float32, (2,))]

    def function(c: Tensor, x: Tensor) -> List[Tensor]:
        doubled = p.add(x, x)
        return p.cond(c, lambda: [doubled], lambda: [x])

    return record_program(function, ports, Reference())


def test_a_region_captures_an_outer_value_that_it_only_returns() -> None:
    region = branching().region
    (cond,) = [item for item in region.live() if item.primitive == "cond"]
    (add,) = [item for item in region.live() if item.primitive == "add"]
    then_region, else_region = cond.regions
    assert then_region.captures() == list(add.outputs)
    assert else_region.captures() == [region.inputs[1]]


def test_a_released_region_holds_no_weights() -> None:
    weights = np.ones((2, 2), np.float32)
    ports = [Port("c", bool_, ()), Port("x", float32, (2, 2))]
    program = record_program(
        lambda c, x: p.cond(c, lambda: [p.matmul(x, weights)], lambda: [p.neg(x)]), ports, Reference()
    )
    region = program.region
    (cond,) = region.live()
    inner = [item for branch in cond.regions for item in branch.nodes]
    assert any(item.args for item in inner)
    region.release()
    assert [item.args for item in [cond, *inner]] == [()] * (1 + len(inner))


@pytest.mark.parametrize("arg", [3, None, "x", Extents([1])])
def test_an_argument_that_is_no_tensor_has_no_type(arg: Any) -> None:
    with pytest.raises(InvalidModelError, match="is not a tensor"):
        spec_of(arg)


def test_an_argument_that_is_no_list_of_sizes() -> None:
    region = branching().region
    node = region.live()[0]
    at = Application(node.primitive, [*node.args, Extents([4, 5])], node.params, (), region.target)
    assert at.sizes(len(node.args)) == (4, 5)
    with pytest.raises(InvalidModelError, match="argument 0 is not a list of sizes"):
        at.sizes(0)


# -- texts -------------------------------------------------------------------------------------------------------------
TEXTS = np.array(["b a", "c", "a"], object)


def record_text(function: Any) -> Any:
    return record_function(function, [None], dtype="string")(TEXTS)


def test_texts_are_split_alike_whether_they_are_known() -> None:
    known = [tensor.value for tensor in p.string_split(lift(TEXTS))]
    for result, expected in zip(record_text(p.string_split), known):
        assert expected is not None and result.tolist() == expected.tolist()
    assert known[1].tolist() == [2, 1, 1]


def test_texts_are_ranked_alike_whether_they_are_known() -> None:
    known = p.string_rank(lift(TEXTS)).value
    assert known is not None and known.tolist() == [1, 2, 0]
    assert record_text(p.string_rank).tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("a{2}", "aa", True),
        ("a{2}", "a{2}", False),
        ("a{,2}", "a{,2}", True),
        ("{", "{", True),
        (r"a\tb", "a\tb", True),
        (r"[\n\x41]", "A", True),
        (r"\.", ".", True),
        (r"\.", "a", False),
        ("[a-c]", "b", True),
    ],
)
def test_a_regular_expression_of_re2(pattern: str, text: str, matches: bool) -> None:
    assert bool(re.fullmatch(translate(pattern), text)) is matches


@pytest.mark.parametrize(
    ("pattern", "words"), [(r"\y", r"\\y"), ("[c-a]", "end is before its start"), ("[a", "missing")]
)
def test_a_regular_expression_that_re2_refuses(pattern: str, words: str) -> None:
    with pytest.raises(InvalidModelError, match=words):
        translate(pattern)


# -- operators ---------------------------------------------------------------------------------------------------------
def run_node(item: Any, opset: int = 13, domains: Any = ()) -> Any:
    proto = model([item], [value("x", [2])], [value("y")], None, opset, domains)
    return onnx_compat.prepare(proto, shim="reference").run([np.ones(2, np.float32)])


def test_an_operator_that_is_newer_than_the_opset() -> None:
    with pytest.raises(UnsupportedError, match="Gelu"):
        lookup("", "Gelu", 19)
    assert lookup("", "Gelu", 20).name == "Gelu"


def test_a_missing_attribute_is_named() -> None:
    with pytest.raises(InvalidModelError, match="the attribute 'to' is missing") as error:
        run_node(node("Cast", ["x"], ["y"], name="cast"))
    assert error.value.node == "cast"


@pytest.mark.parametrize(
    ("domain", "text"),
    [("", "there is no operator 'Nosuch'"), ("own", "no meaning is known for the custom operator own::Nosuch")],
)
def test_an_unknown_operator_is_named_with_its_domain(domain: str, text: str) -> None:
    with pytest.raises(UnsupportedError, match=text) as error:
        lookup(domain, "Nosuch", 13)
    if not domain:  # for another domain, the hint depends on how onnx-compat is installed
        assert error.value.hint == "register a meaning for it: docs/howto/custom-operator.md"


def test_without_entry_points_the_installation_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_entry_points", list)
    with pytest.raises(UnsupportedError, match="own::Nosuch") as error:
        lookup("own", "Nosuch", 13)
    assert "its metadata lacks the entry points" in str(error.value.hint)


def test_a_users_meaning_is_not_replaced_by_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the library may be loaded after a meaning from outside was registered."""
    monkeypatch.setitem(registry.OPERATORS, ("", "Neg"), dict(registry.OPERATORS["", "Neg"]))
    own = lookup("", "Neg", 13).function

    @onnx_compat.op("Neg", since=13)
    def outside(X: Tensor) -> Tensor:
        return p.add(X, X)

    onnx_compat.op("Neg", since=13)(own)
    assert lookup("", "Neg", 13).function is outside
