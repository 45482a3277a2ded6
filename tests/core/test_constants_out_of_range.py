"""Known indices, sizes and weights that contradict the shapes are errors of the model, in every operator that reads
them.

onnxruntime also refuses every case of `REFUSED`, and runs every case of `TAKEN` to the same result.
"""

from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np
import onnx
import pytest
from building import model, node, value
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

import onnx_compat
from onnx_compat.errors import InvalidModelError, OnnxCompatError


class Case(NamedTuple):
    """A node whose first input is fed and whose other inputs are initializers."""

    operator: str
    inputs: Tuple[Any, ...]
    attributes: Dict[str, Any]
    outputs: int
    opset: int


def case(operator: str, *inputs: Any, outputs: int = 1, opset: int = 18, **attributes: Any) -> Any:
    arrays = tuple(argument if argument is None else np.asarray(argument) for argument in inputs)
    texts = [str(array.tolist() if array.size < 9 else list(array.shape)) for array in arrays[1:] if array is not None]
    name = " ".join([operator, *texts, *("%s=%s" % item for item in attributes.items())])
    return pytest.param(Case(operator, arrays, attributes, outputs, opset), id=name)


def ints(*values: int) -> Any:
    return np.asarray(values, np.int64)


def ones_array(*shape: int) -> Any:
    return np.ones(shape, np.float32)


X = np.arange(4, dtype=np.float32)
ROW, MATRIX, IMAGE = X.reshape(1, 4), ones_array(2, 3), ones_array(1, 1, 2, 2)

INDICES = [
    case(operator, X, *rest)
    for index in (4, 9, -5, 2**40)
    for operator, *rest in [
        ("Gather", np.int64(index)),
        ("Gather", ints(index)),
        ("Gather", ints(0, index)),
        ("GatherElements", ints(index)),
        ("GatherND", ints(index).reshape(1, 1)),
        ("ScatterElements", ints(index), ones_array(1)),
        ("ScatterND", ints(index).reshape(1, 1), ones_array(1)),
    ]
]
SHAPES = [
    case("Gather", np.array(1, np.float32), ints(0)),
    case("GatherND", X, ints(0, 0).reshape(1, 2)),
    case("GatherND", MATRIX, np.zeros((3, 1), np.int64), batch_dims=1),
    case("GatherElements", MATRIX, ints(0)),
    case("ScatterND", X, ints(0).reshape(1, 1), ones_array(3)),
    case("ScatterElements", X, ints(0), ones_array(2)),
    *[case("Split", X, ints(*sizes), outputs=2) for sizes in ([-1, 5], [1, 1], [3, 3], [2, 2, 0])],
    case("Split", X, outputs=2, opset=11, split=[3, 3]),
    case("Split", X, outputs=1, num_outputs=0),
    *[case("Pad", X, ints(*pads)) for pads in ([-5, 0], [-3, -3], [1], [1, 1, 1])],
    case("Pad", MATRIX, ints(1, 1), None, ints(5)),
    *[case("TopK", X, ints(*k), outputs=2) for k in ([9], [-1], [1, 2])],
    *[case("OneHot", ints(0, 1), np.int64(depth), np.asarray([0, 1], np.float32)) for depth in (-3, 0)],
    case("OneHot", ints(0, 1), np.int64(3), np.asarray([0, 1, 2], np.float32)),
    case("Tile", X, ints(-1)),
    case("Tile", MATRIX, ints(2)),
    *[case("Expand", X, ints(size)) for size in (3, 0, -1)],
    case("Expand", X[:1], ints(-1)),
    *[case("Reshape", X, ints(*sizes)) for sizes in ([3], [-2, -2], [-1, -1], [3, -1])],
    *[case("Unsqueeze", X, ints(*axes)) for axes in ([0, 0], [0, -3], [5])],
    *[case("Squeeze", ROW, ints(axis)) for axis in (1, 5)],
    *[case("Transpose", MATRIX, perm=perm) for perm in ([0, 0], [0], [0, 1, 2], [1, 2])],
    case("Slice", MATRIX, ints(0, 1), ints(1, 2), ints(0, 0)),
    case("Slice", MATRIX, ints(0, 0), ints(1)),
    case("Slice", MATRIX, ints(0), ints(1), ints(5)),
    case("Slice", MATRIX, ints(0), ints(1), ints(0), ints(0)),
    *[case("Flatten", MATRIX, axis=axis) for axis in (3, -3, 7)],
    *[case("Softmax", MATRIX, axis=7, opset=opset) for opset in (11, 13)],
    case("ReduceSum", MATRIX, ints(7)),
    case("CumSum", MATRIX, ints(0, 1)),
    case("Concat", MATRIX, ones_array(3, 2), axis=0),
    case("Concat", MATRIX, X, axis=0),
    *[case("ReverseSequence", MATRIX, ints(*lengths)) for lengths in ([9, 9, 9], [-1, 1, 1], [1])],
    case("ReverseSequence", MATRIX, ints(1, 1), batch_axis=0, time_axis=0),
    case("SplitToSequence", X, ints(3, 3)),
    case("Clip", X, ones_array(4), ones_array(4)),
    case("BatchNormalization", IMAGE, *[ones_array(3)] * 4),
    case("InstanceNormalization", IMAGE, ones_array(3), ones_array(3)),
    case("Resize", IMAGE, None, None, ints(1, 1, -2, 2)),
    *[case("Resize", IMAGE, None, np.asarray([1, 1, scale, 2], np.float32)) for scale in (-2, 0)],
    case("MatMul", MATRIX, ones_array(4, 2)),
    case("Gemm", MATRIX, ones_array(4, 2)),
]
WINDOWS = [
    *[case(operator, IMAGE, kernel_shape=[5, 5]) for operator in ("MaxPool", "AveragePool", "LpPool")],
    *[case("MaxPool", IMAGE, kernel_shape=kernel) for kernel in ([0, 1], [1])],
    case("MaxPool", IMAGE, kernel_shape=[1, 1], strides=[0, 1]),
    *[case("MaxPool", IMAGE, kernel_shape=[1, 1], pads=pads) for pads in ([-1, -1, 0, 0], [1, 1])],
    *[case("Conv", IMAGE, ones_array(1, 1, size, size)) for size in (4, 5)],
    *[
        case("Conv", ones_array(1, 1, 5, 5), ones_array(1, 1, 3, 3), pads=pads)
        for pads in ([1, -4, 7, 0], [-1, -1, 0, 0])
    ],
    *[case("Conv", IMAGE, ones_array(3, 1, 1, 1), group=group) for group in (0, 3)],
    case("Conv", IMAGE, ones_array(1, 2, 1, 1)),
    case("Conv", IMAGE, ones_array(1, 1, 1, 1), kernel_shape=[2, 2]),
    case("Conv", IMAGE, ones_array(1, 1, 1, 1), ones_array(3)),
    case("Conv", ones_array(1, 2, 2, 2), ones_array(3, 1, 1, 1), group=2),
    *[case("Conv", IMAGE, ones_array(1, 1, 1, 1), **{name: [0, 0]}) for name in ("strides", "dilations")],
    case("ConvTranspose", IMAGE, ones_array(2, 1, 1, 1)),
    case("ConvTranspose", IMAGE, ones_array(1, 1, 1, 1), pads=[3, 3, 3, 3]),
]


def recurrent(operator: str, gates: int) -> List[Any]:
    """Return cases of a recurrent operator, each with one wrong argument.

    Sizes: 4 cells, 3 features, 5 steps, 2 samples.
    """
    X, W, R = ones_array(5, 2, 3), ones_array(1, 4 * gates, 3), ones_array(1, 4 * gates, 4)

    def wrong(*inputs: Any, **attributes: Any) -> Any:
        return case(operator, *inputs, opset=14, **{"hidden_size": 4, **attributes})

    lengths = [np.asarray(steps, np.int32) for steps in ([9, 1], [-1, 1], [1], [1, 1, 1])]
    return [
        *[wrong(X, W, R, hidden_size=size) for size in (5, 0)],
        wrong(X, W, R, direction="bidirectional"),
        wrong(X, W, R, direction="both"),
        wrong(X, ones_array(2, 4 * gates, 3), ones_array(2, 4 * gates, 4)),
        wrong(X, W, R, layout=5),
        *[wrong(X, W, R, None, steps) for steps in lengths],
        *[wrong(X, ones_array(1, *shape), R) for shape in ((4 * gates, 7), (4 * gates + 1, 3))],
        *[wrong(X, W, ones_array(1, *shape)) for shape in ((4 * gates, 5), (4 * gates + 2, 4))],
        *[wrong(X, W, R, ones_array(1, size)) for size in (8 * gates + 2, 2)],
        *[wrong(X, W, R, None, None, ones_array(*shape)) for shape in ((1, 2, 5), (1, 1, 4), (2, 2, 4))],
        wrong(ones_array(5, 3), W, R),
    ]


RECURRENT = [
    recurrent_case
    for operator, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))
    for recurrent_case in recurrent(operator, gates)
]
REFUSED = INDICES + SHAPES + WINDOWS + RECURRENT

TAKEN = [
    case("Gather", X, ints(-4, 3)),
    case("Gather", X[:0], ints()),
    *[case("Pad", X, ints(*pads)) for pads in ([-4, 0], [-2, -2], [-5, 5], [5, -5], [-5, 3], [6, -10])],
    *[case("TopK", X, ints(k), outputs=2) for k in (0, 4)],
    case("Tile", X, ints(0)),
    case("Squeeze", ROW, ints(0, 0)),
    case("ReduceSum", MATRIX, ints(0, -2)),
    case("Flatten", MATRIX, axis=2),
    case("OneHot", ints(0, 9, -9), np.int64(3), np.asarray([0, 1], np.float32)),
    case("Compress", X, np.asarray([True] * 6), axis=0),
    case("Compress", X, np.asarray([False, True] * 3)),
    case("MaxPool", IMAGE, kernel_shape=[3, 3]),
    case("EyeLike", MATRIX, k=9),
    case(
        "RNN",
        ones_array(5, 2, 3),
        ones_array(1, 4, 3),
        ones_array(1, 4, 4),
        None,
        np.asarray([0, 5], np.int32),
        opset=14,
        hidden_size=4,
    ),
]


def build_case(node_case: Case, fed: int = 1) -> Tuple[Any, Dict[str, Any]]:
    names = ["" if array is None else "x%d" % k for k, array in enumerate(node_case.inputs)]
    arrays = {name: array for name, array in zip(names, node_case.inputs) if name}
    feed = dict(list(arrays.items())[:fed])
    ports = [value(name, a.shape, numpy_helper.from_array(a).data_type) for name, a in feed.items()]
    outputs = ["y%d" % k for k in range(node_case.outputs)]
    constants = {name: array for name, array in arrays.items() if name not in feed}
    proto_node = node(node_case.operator, names, outputs, name="here", **node_case.attributes)
    return model(
        [proto_node], ports, [onnx.ValueInfoProto(name=name) for name in outputs], constants, node_case.opset
    ), feed


def theirs(proto: Any, feed: Dict[str, Any]) -> List[Any]:
    ort = pytest.importorskip("onnxruntime", minversion="1.23")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feed))


@pytest.mark.parametrize("node_case", REFUSED)
def test_a_contradiction_is_refused_by_the_name_of_its_node(node_case: Case) -> None:
    proto, feed = build_case(node_case)
    with pytest.raises(InvalidModelError) as caught:
        onnx_compat.prepare(proto, shim="reference").run(feed)
    assert (caught.value.node, caught.value.operator) == ("here", node_case.operator)


@pytest.mark.parametrize("node_case", REFUSED)
def test_onnxruntime_refuses_it_too(node_case: Case) -> None:
    with pytest.raises(Exception, match="ONNXRuntimeError"):
        theirs(*build_case(node_case))


@pytest.mark.parametrize("node_case", TAKEN)
def test_the_last_value_in_range_is_accepted(node_case: Case) -> None:
    proto, feed = build_case(node_case)
    ours = onnx_compat.prepare(proto, shim="reference", fallback=False).run(feed)
    for actual, expected in zip(ours, theirs(proto, feed)):
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize("node_case", INDICES + [case("TopK", X, ints(k), outputs=2) for k in (9, -1)])
def test_the_reference_refuses_at_run_time_what_onnxruntime_refuses(node_case: Case) -> None:
    proto, feed = build_case(node_case, fed=len(node_case.inputs))
    with pytest.raises(OnnxCompatError):
        onnx_compat.prepare(proto, shim="reference", fallback=False).run(feed)


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(1, 5),
    positions=st.lists(st.integers(-9, 9), min_size=1, max_size=4),
    fed=st.sampled_from([1, 2]),
)
def test_an_index_selects_its_element_or_is_refused(length: int, positions: List[int], fed: int) -> None:
    data, indices = np.arange(length, dtype=np.float32), ints(*positions)
    inside = all(-length <= position < length for position in positions)
    for operator, given_indices in (("Gather", indices), ("GatherElements", indices), ("GatherND", indices[:, None])):
        proto, feed = build_case(Case(operator, (data, given_indices), {}, 1, 18), fed)
        try:
            (result,) = onnx_compat.prepare(proto, shim="reference", fallback=False).run(feed)
        except OnnxCompatError:
            assert not inside
        else:
            assert inside
            np.testing.assert_array_equal(result, data[indices])
