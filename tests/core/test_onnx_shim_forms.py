"""Forms of calls that older versions lack, and kernels that onnxruntime computes in another way."""

from typing import Any, Callable, List, Sequence

import numpy as np
import onnx
import pytest
from onnx import helper

import onnx_compat
from onnx_compat import primitives as p
from onnx_compat.ir import dtypes
from onnx_compat.ir.dtypes import DType
from onnx_compat.ir.window import Window
from onnx_compat.onnx_shim import behaviours, runtime
from onnx_compat.onnx_shim.emission import write_program
from onnx_compat.onnx_shim.emitter import OnnxEmitter
from onnx_compat.onnx_shim.graph_builder import Scope
from onnx_compat.onnx_shim.operator_sets import OperatorOffer
from onnx_compat.onnx_shim.shim import OnnxShim
from onnx_compat.onnx_shim.signatures import newest_opset
from onnx_compat.reference.shim import SHIM as REFERENCE
from onnx_compat.shim.interface import Port, Program
from onnx_compat.tracing.recording import record_program

pytest.importorskip("onnxruntime")

INF, NAN = np.inf, np.nan


def record(body: Callable[..., Any], arrays: Sequence[np.ndarray], opset: int, symbolic: bool = False) -> Program:
    ports = [
        Port("x%d" % k, DType.of(array.dtype), [None] * array.ndim if symbolic else array.shape)
        for k, array in enumerate(arrays)
    ]
    return record_program(lambda *xs: [body(*xs)], ports, OnnxEmitter(OperatorOffer(opset)))


def check(body: Callable[..., Any], arrays: Sequence[np.ndarray], opset: int, symbolic: bool = False) -> List[str]:
    """Compare the written program, on the reference and on onnxruntime, with the primitives. Return its operators."""
    names = ["x%d" % k for k in range(len(arrays))]
    ports = [Port(name, DType.of(array.dtype), array.shape) for name, array in zip(names, arrays)]
    program = record_program(lambda *xs: [body(*xs)], ports, REFERENCE.emitter())
    (expected,) = REFERENCE.compile(program).run(list(arrays))
    proto = write_program(record(body, arrays, opset, symbolic), opset)
    onnx.checker.check_model(proto, full_check=True)
    (result,) = onnx_compat.run(proto, dict(zip(names, arrays)), shim="reference")
    np.testing.assert_array_equal(result, expected)
    compiled = OnnxShim(opset).compile(record(body, arrays, opset, symbolic))
    np.testing.assert_array_equal(compiled.run(list(arrays))[0], expected)
    return [node.op_type for node in proto.graph.node]


# -- values of attributes ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("reduction", ["max", "min"])
@pytest.mark.parametrize("opset", [15, 16, 17, 18])
def test_an_extreme_is_scattered_by_the_operator_from_opset_18_on(reduction: str, opset: int) -> None:
    def body(x: Any, updates: Any) -> Any:
        return p.scatter_nd(x, np.asarray([[1], [1], [3]]), updates, reduction)

    arrays = [np.asarray([0, 5, 2, 3], np.float32), np.asarray([4, 7, 9], np.float32)]
    assert ("ScatterND" in check(body, arrays, opset)) is (opset >= 18)


# -- attributes of 32 bits ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("opset", [9, 10, 11])
@pytest.mark.parametrize("symbolic", [False, True])
def test_a_bound_that_no_float_of_32_bits_holds_is_kept(opset: int, symbolic: bool) -> None:
    check(lambda x: p.clip(x, 0.1, 1e300), [np.asarray([0.05, 0.1, 1, INF])], opset, symbolic)
    check(lambda x: p.clip(x, 0.25, 0.5), [np.asarray([0.05, 0.3, 1, INF])], opset, symbolic)


@pytest.mark.parametrize("opset", [9, 10, 11, 13])
@pytest.mark.parametrize("bounds", [(None, 2.0), (-2.0, None)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_missing_bound_keeps_infinities(opset: int, bounds: Any, dtype: Any) -> None:
    array = np.asarray([-INF, -3, 0, 3, INF], dtype)
    check(lambda x: p.clip(x, *bounds), [array], opset)


@pytest.mark.parametrize("opset", [9, 10, 11])
@pytest.mark.parametrize(
    ("value", "dtype"),
    [(16777217, np.int32), (2**53 + 1, np.int64), (1e300, np.float64), (0.1, np.float64), (NAN, np.float32)],
)
def test_a_padding_that_no_float_of_32_bits_holds_is_kept(opset: int, value: Any, dtype: Any) -> None:
    check(lambda x: p.pad(x, [1], [2], value=np.asarray(value, dtype)), [np.arange(3).astype(dtype)], opset)


# -- pools and texts ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("opset", [9, 10])
@pytest.mark.parametrize("symbolic", [False, True])
def test_a_pool_of_integers_with_strides_is_written_for_opset_9(opset: int, symbolic: bool) -> None:
    window = Window.of([3, 2], [2, 2], [1, 2], [(1, 0), (0, 0)])
    image = np.arange(2 * 6 * 7, dtype=np.int32).reshape(1, 2, 6, 7) * 7 % 31
    ports = [Port("x", dtypes.int32, (1, 2, None, None) if symbolic else image.shape)]
    program = record_program(lambda x: [p.max_pool(x, window)], ports, OnnxShim(opset).emitter())
    expected = REFERENCE.compile(
        record_program(lambda x: [p.max_pool(x, window)], [ports[0]._replace(shape=image.shape)], REFERENCE.emitter())
    )
    np.testing.assert_array_equal(OnnxShim(opset).compile(program).run([image])[0], expected.run([image])[0])


def test_a_text_is_added_where_there_may_be_none() -> None:
    """onnxruntime's StringNormalizer needs a locale that a machine may lack, so the graph is inspected."""

    def operators_for(shape: Any) -> List[str]:
        program = record_program(
            lambda x: [p.string_lower(x)], [Port("x", dtypes.string, shape)], OnnxEmitter(OperatorOffer(17))
        )
        return [node.op_type for node in write_program(program, 17).graph.node]

    assert "Concat" not in operators_for((2, 3)) and "StringNormalizer" in operators_for((2, 3))
    assert "StringNormalizer" not in operators_for((0, 3))
    names = operators_for(("n", 3))
    assert names.index("Concat") < names.index("StringNormalizer") < names.index("Gather")


# -- nested graphs -----------------------------------------------------------------------------------------------------
def test_a_nested_scope_is_searched_once_for_each_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: List[Scope] = []
    original = Scope.live
    monkeypatch.setattr(Scope, "live", lambda scope: searches.append(scope) or original(scope))

    def nest(x: Any, depth: int) -> Any:
        if not depth:
            return p.exp(x)
        test = p.greater(p.reduce_max(x), np.float32(depth))
        return p.cond(test, lambda: [nest(x + 1, depth - 1)], lambda: [x])[0]

    for depth in (4, 8):
        del searches[:]
        program = record(lambda x, depth=depth: nest(x, depth), [np.ones(2, np.float32)], 17)
        write_program(program, 17)
        assert len(searches) <= 6 * depth + 4


# -- behaviours --------------------------------------------------------------------------------------------------------
class _Recorder(OperatorOffer):
    """An offer that lacks some behaviours."""

    def __init__(self, *unreliable: Any) -> None:
        super().__init__(17)
        self.unreliable = unreliable

    def is_reliable(self, behaviour: str, dtype: Any = None) -> bool:
        return (behaviour, dtype) not in self.unreliable and behaviour not in self.unreliable


def operators_of(body: Callable[..., Any], dtype: DType, offer: OperatorOffer) -> List[str]:
    program = record_program(lambda x: [body(x)], [Port("x", dtype, (1, 2, 8))], OnnxEmitter(offer))
    return [node.op_type for node in write_program(program, offer=offer).graph.node]


@pytest.mark.parametrize(
    ("operator", "behaviour", "body"),
    [
        ("Max", "Max", lambda x: p.maximum(x, p.exp(x))),
        ("Relu", "Relu", lambda x: p.clip(x, 0, None)),
        ("Clip", "Clip", lambda x: p.clip(x, -1, 1)),
        ("MaxPool", "MaxPool of NaN and -inf", lambda x: p.max_pool(x, Window.of([2]))),
    ],
)
def test_a_kernel_is_avoided_in_the_dtype_in_which_it_is_wrong(operator: str, behaviour: str, body: Any) -> None:
    assert operator in operators_of(body, dtypes.float32, _Recorder((behaviour, dtypes.float64)))
    assert operator not in operators_of(body, dtypes.float32, _Recorder(behaviour))
    wider = operators_of(body, dtypes.float32, _Recorder((behaviour, dtypes.float32)))
    assert operator not in wider or "Cast" in wider


def examples() -> List[Any]:
    return [(name, example) for name, group in sorted(behaviours.BEHAVIOURS.items()) for example in group]


@pytest.mark.parametrize(("name", "example"), examples(), ids=[name for name, _ in examples()])
def test_an_example_of_a_behaviour_has_the_result_of_the_reference(name: str, example: behaviours.Example) -> None:
    """A wrong expectation would avoid a right kernel."""
    names = ["x%d" % k for k in range(len(example.inputs))]
    ports = [
        helper.make_tensor_value_info(x, DType.of(array).onnx, array.shape) for x, array in zip(names, example.inputs)
    ]
    outputs = ["y%d" % k for k in range(example.results)]
    node = helper.make_node(example.operator, names, outputs, **example.attributes)
    graph = helper.make_graph([node], "g", ports, [onnx.ValueInfoProto(name="y0")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", newest_opset())])
    result = onnx_compat.run(model, list(example.inputs), shim="reference")["y0"]
    np.testing.assert_array_equal(result, example.expected)


def test_a_behaviour_is_probed_for_each_dtype() -> None:
    offer = runtime.runtime_offer()
    assert offer.is_reliable("Max", dtypes.int64)
    assert {offer.is_reliable("Elu", kind) for kind in (dtypes.float32, dtypes.float64)} <= {True, False}
    keys = {key for key in offer._behaviours if key[0] == "Elu"}
    assert {("Elu", "float32"), ("Elu", "float64")} <= keys
