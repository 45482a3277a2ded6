"""Results that every shim must share with the reference, for sizes, pads and integers at their limits."""

import itertools
import os
from typing import Any, Dict, List, Sequence

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_compat

INT64 = np.iinfo(np.int64)
FAR = (2**31 - 1, 2**31, 2**32, -(2**31), INT64.max, INT64.max - 2, INT64.min, INT64.min + 2)


def model(
    nodes: Sequence[Any], inputs: Dict[str, Any], outputs: Dict[str, int], constants: Any = None, opset: int = 14
) -> Any:
    """Return a model. `inputs`: name -> (type, shape). `outputs`: name -> type."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)


def run(proto: Any, feeds: Dict[str, np.ndarray], shim: str) -> List[Any]:
    runnable = onnx_compat.prepare(proto, shim=shim, fallback=False)
    return list(runnable.run(feeds))


# -- sizes of an image -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("policy", "size"), [("stretch", (4, 6)), ("not_larger", (2, 2))])
def test_a_policy_changes_the_size_of_a_resized_image(policy: str, size: Any, shim_name: str) -> None:
    """Without `axes`, the policy takes the least factor of all axes: 1 for the batch."""
    attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    nodes = [helper.make_node("Resize", ["x", "", "", "s"], ["y"], keep_aspect_ratio_policy=policy, **attributes)]
    inputs = {"x": (TensorProto.FLOAT, [1, 1, 2, 2])}
    proto = model(nodes, inputs, {"y": TensorProto.FLOAT}, {"s": np.array([1, 1, 4, 6])}, opset=18)
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
    (got,) = run(proto, {"x": x}, shim_name)
    np.testing.assert_array_equal(got, x.repeat(size[0] // 2, axis=2).repeat(size[1] // 2, axis=3))


# -- sizes and pending orders ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("operator", ["Add", "Mul", "Max", "Less"])
@pytest.mark.parametrize("first", [True, False])
def test_a_transposed_input_meets_run_time_sizes(operator: str, first: bool, shim_name: str) -> None:
    names = ["t", "k"] if first else ["k", "t"]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Shape", ["d"], ["k"]),
        helper.make_node(operator, names, ["y"]),
    ]
    kind = TensorProto.BOOL if operator == "Less" else TensorProto.INT64
    inputs = {"x": (TensorProto.INT64, [None, None]), "d": (TensorProto.FLOAT, [None, None])}
    proto = model(nodes, inputs, {"y": kind})
    function = {"Add": np.add, "Mul": np.multiply, "Max": np.maximum, "Less": np.less}[operator]
    for rows, columns in ((2, 2), (2, 3), (2, 1)):
        x = np.arange(rows * columns, dtype=np.int64).reshape(rows, columns) + 1
        sizes = np.array([1, 5])
        want = function(x.T, sizes) if first else function(sizes, x.T)
        (got,) = run(proto, {"x": x, "d": np.zeros(sizes, np.float32)}, shim_name)
        np.testing.assert_array_equal(got, want)


def test_a_boolean_mask_of_open_sizes(shim_name: str) -> None:
    """Exporters write x[x != 0] as NonZero, Transpose, GatherND."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["n"]),
        helper.make_node("Transpose", ["n"], ["t"], perm=[1, 0]),
        helper.make_node("GatherND", ["x", "t"], ["y"]),
    ]
    proto = model(nodes, {"x": (TensorProto.FLOAT, ["a", "b"])}, {"y": TensorProto.FLOAT})
    for shape in ((2, 3), (2, 2), (3, 1)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 4
        (got,) = run(proto, {"x": x}, shim_name)
        np.testing.assert_array_equal(got, x[x != 0])


@pytest.mark.parametrize("source", ["input", "count"])
@pytest.mark.parametrize(
    ("sizes", "target", "shapes"),
    [
        ((6, 3), ["m", 3], {6: (6, 3), 0: (6, 3)}),
        ((6, 3), ["m", -1], {2: (2, 9), 0: (6, 3)}),
        ((6, 3), [-1, "m"], {9: (2, 9), 0: (6, 3)}),
        ((6, 3), [2, "m", -1], {1: (2, 1, 9), 0: (2, 3, 3)}),
        ((6, 3), ["m", "m"], {0: (6, 3)}),
        ((6, 0), ["m", 0], {2: (2, 0), 0: (6, 0)}),
        ((6, 0, 3), ["m", "m", 3], {0: (6, 0, 3)}),
    ],
)
def test_a_reshape_to_a_size_that_is_0_at_run_time(
    sizes: Any, target: Any, shapes: Any, source: str, shim_name: str
) -> None:
    """Without `allowzero`, the size 0 keeps the input's size, also if it is the length of an axis or a count."""
    nodes = [
        helper.make_node("NonZero", ["d"], ["indices"]),
        helper.make_node("Squeeze", ["indices", "zero"], ["count"]),
        helper.make_node("Shape", ["d" if source == "input" else "count"], ["m"]),
        helper.make_node("Concat", [str(size) for size in target], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    constants = {str(size): np.array([size]) for size in target if size != "m"}
    inputs = {"x": (TensorProto.FLOAT, sizes), "d": (TensorProto.FLOAT, ["m"])}
    used = nodes if source == "count" else nodes[2:]
    proto = model(used, inputs, {"y": TensorProto.FLOAT}, {"zero": np.array([0]), **constants})
    runnable = onnx_compat.prepare(proto, shim=shim_name, fallback=False)
    x = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    for count, shape in shapes.items():
        (got,) = runnable.run({"x": x, "d": np.ones(count, np.float32)})
        np.testing.assert_array_equal(got, x.reshape(shape))


# -- windows ---------------------------------------------------------------------------------------------------------
def _same(size: int, kernel: int, stride: int, dilation: int) -> Any:
    """Return the pads (before, after) of TensorFlow's padding SAME for one axis."""
    total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def _convolve(x: np.ndarray, w: np.ndarray, strides: Any, dilations: Any, pads: Any, group: int) -> np.ndarray:
    """Return the cross-correlation, computed with a loop over the kernel elements."""
    x = np.pad(x, [(0, 0), (0, 0), *pads], "constant")
    sizes = [
        (size - (kernel - 1) * step - 1) // stride + 1
        for size, kernel, step, stride in zip(x.shape[2:], w.shape[2:], dilations, strides)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *sizes), np.float64)
    per, channels_in = w.shape[0] // group, w.shape[1]
    for tap in itertools.product(*map(range, w.shape[2:])):
        cut = [
            slice(t * step, t * step + (n - 1) * stride + 1, stride)
            for t, step, n, stride in zip(tap, dilations, sizes, strides)
        ]
        seen = x[(slice(None), slice(None), *cut)]
        for m in range(w.shape[0]):
            channels = seen[:, m // per * channels_in : m // per * channels_in + channels_in]
            weights = w[(m, slice(None), *tap)].reshape((1, -1) + (1,) * len(sizes))
            out[:, m] += (channels * weights).sum(1)
    return out


@pytest.mark.parametrize("size", [7, 8])
@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_dilated_and_strided_convolution(rank: int, group: int, size: int, shim_name: str) -> None:
    """The pads are those of SAME for the strides, those of SAME for stride 1, none, and unequal ones."""
    steps = [((2,) * rank, (2,) * rank), ((2,) * rank, (3,) * rank), ((1, 2, 1)[:rank], (2, 1, 1)[:rank])]
    for strides, dilations in steps:
        w = np.random.RandomState(rank).uniform(-1, 1, (4, 4 // group, *(3,) * rank)).astype(np.float32)
        x = np.random.RandomState(size).uniform(-1, 1, (1, 4, *(size,) * rank)).astype(np.float32)
        strided = [_same(size, 3, *pair) for pair in zip(strides, dilations)]
        dense = [_same(size, 3, 1, dilation) for dilation in dilations]
        for pads in (strided, dense, [(0, 0)] * rank, [(1, 2)] * rank):
            attributes = {
                "strides": strides,
                "dilations": dilations,
                "pads": [low for low, _ in pads] + [high for _, high in pads],
                "group": group,
            }
            nodes = [helper.make_node("Conv", ["x", "w"], ["y"], **attributes)]
            proto = model(nodes, {"x": (TensorProto.FLOAT, x.shape)}, {"y": TensorProto.FLOAT}, {"w": w})
            want = _convolve(x, w, strides, dilations, pads, group)
            (got,) = run(proto, {"x": x}, shim_name)
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4, err_msg=str(attributes))


@pytest.mark.parametrize(
    ("target", "shape", "wanted"),
    [
        ([-1, 6, "d"], (1, 6, 1, 0), (0, 6, 1)),
        ([0, -1, "d"], (2, 3, 1, 0), (2, 0, 1)),
        (["a", "c", -1], (2, 3, 0, 4), (2, 3, 0)),
        (["b", "c", "a"], (2, 0, 0, 4), (2, 0, 2)),
    ],
)
def test_a_reshape_of_an_empty_input(target: Any, shape: Any, wanted: Any, shim_name: str) -> None:
    """A size that is 0 only if the input is empty. The model is traced again for an empty input."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Split", ["sizes"], list("abcd"), axis=0),
        helper.make_node("Concat", [str(size) for size in target], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    constants = {str(size): np.array([size]) for size in target if not isinstance(size, str)}
    proto = model(nodes, {"x": (TensorProto.FLOAT, list("nmkl"))}, {"y": TensorProto.FLOAT}, constants, opset=14)
    runnable = onnx_compat.prepare(proto, shim=shim_name, fallback=False)
    for _ in range(2):
        (got,) = runnable.run({"x": np.zeros(shape, np.float32)})
        assert got.shape == wanted
    sizes = [size if isinstance(size, int) else (2, 3, 1, 4)["abcd".index(size)] for size in target]
    sizes = [size or 2 for size in sizes]
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 1, 4)
    if np.prod(sizes) < 0 or np.prod(sizes) == 24:
        (got,) = runnable.run({"x": x})
        np.testing.assert_array_equal(got, x.reshape(sizes))


# -- sizes that do not fit ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.INT64, TensorProto.UINT8])
def test_a_concatenation_of_sizes_that_do_not_match(kind: int, axis: int, shim_name: str) -> None:
    """XNNPACK of LiteRT 1.0 to 2.1.3 joined them."""
    nodes = [helper.make_node("Concat", ["a", "b"], ["y"], axis=axis)]
    proto = model(nodes, {"a": (kind, ["n", "k"]), "b": (kind, ["m", "l"])}, {"y": kind})
    dtype: Any = {TensorProto.FLOAT: np.float32, TensorProto.INT64: np.int64, TensorProto.UINT8: np.uint8}[kind]
    runnable = onnx_compat.prepare(proto, shim=shim_name, fallback=False)
    a = np.ones((2, 3), dtype)
    for shape in ((3, 2), (4, 4), (1, 1)):
        with pytest.raises(onnx_compat.OnnxCompatError):
            runnable.run({"a": a, "b": np.ones(shape, dtype)})
    (got,) = runnable.run({"a": a, "b": 2 * a})
    np.testing.assert_array_equal(got, np.concatenate([a, 2 * a], axis))


@pytest.mark.parametrize("sizes", [["n", "k"], [2, 3], [1, "k"]])
@pytest.mark.parametrize("source", ["values", "shape"])
def test_an_expand_to_a_shape_of_the_run(source: str, sizes: Any, shim_name: str) -> None:
    """A size of 1 broadcasts to any size, also to 0. Any other size must be that of the input."""
    nodes = [helper.make_node("Expand", ["x", "s"], ["y"])]
    inputs: Dict[str, Any] = {"x": (TensorProto.FLOAT, sizes), "s": (TensorProto.INT64, [2])}
    if source == "shape":
        nodes = [helper.make_node("Shape", ["d"], ["s"]), *nodes]
        inputs = {"x": inputs["x"], "d": (TensorProto.FLOAT, ["p", "q"])}
    runnable = onnx_compat.prepare(model(nodes, inputs, {"y": TensorProto.FLOAT}), shim=shim_name, fallback=False)
    for shape in ((2, 3), (1, 3), (0, 3), (1, 1)):
        x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
        if any(isinstance(size, int) and size != given for size, given in zip(sizes, shape)):
            continue
        for target in ((2, 3), (1, 3), (2, 1), (1, 1), (0, 3), (2, 0), (4, 3), (3, 3), (2, 5)):
            given = np.array(target) if source == "values" else np.zeros(target, np.float32)
            feeds = {"x": x, "s" if source == "values" else "d": given}
            try:
                wanted = np.broadcast(np.empty(shape), np.empty(target)).shape
            except ValueError:
                # TensorFlow's optimizer drops a BroadcastTo between equal shapes; 1.15 does not check an empty result.
                on_tensorflow = shim_name in ("tf1", "tf2") or os.environ.get("KERAS_BACKEND") == "tensorflow"
                if not on_tensorflow or (sizes != [2, 3] and 0 not in target):
                    with pytest.raises(onnx_compat.OnnxCompatError):
                        runnable.run(feeds)
                continue
            (got,) = runnable.run(feeds)
            np.testing.assert_array_equal(got, np.broadcast_to(x, wanted), err_msg="%s to %s" % (shape, target))


# -- empty slices ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("sizes", ["known", "open"])
@pytest.mark.parametrize(
    ("shape", "indices", "batch_dims"),
    [
        ((2, 0), [[0], [1]], 0),
        ((2, 0), [0], 0),
        ((2, 3, 0), [[[1, 2]], [[0, 0]]], 0),
        ((2, 3, 0), [[2], [0]], 1),
        ((0, 3), np.zeros((0, 1)), 0),
        ((0, 3), np.zeros((0, 2)), 0),
        ((3, 0, 2), np.zeros((0, 2)), 0),
    ],
)
def test_a_gather_of_empty_slices(shape: Any, indices: Any, batch_dims: int, sizes: str, shim_name: str) -> None:
    indices = np.array(indices, np.int64)
    nodes = [helper.make_node("GatherND", ["x", "i"], ["y"], batch_dims=batch_dims)]
    lead = ["i%d" % axis for axis in range(indices.ndim - 1)] if sizes == "open" else indices.shape[:-1]
    inputs = {
        "x": (TensorProto.FLOAT, [*"abc"[: len(shape)]] if sizes == "open" else shape),
        "i": (TensorProto.INT64, [*lead, indices.shape[-1]]),
    }
    proto = model(nodes, inputs, {"y": TensorProto.FLOAT})
    (got,) = run(proto, {"x": np.zeros(shape, np.float32), "i": indices}, shim_name)
    assert got.shape == indices.shape[:-1] + shape[batch_dims + indices.shape[-1] :]


# -- sums with a bias --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_constant_is_added_to_a_biased_convolution(rank: int, shim_name: str) -> None:
    """TensorFlow's graph optimizer reorders the two sums, also where the constant does not have the bias' shape."""
    spatial = (2, 3, 5)[:rank]
    w = np.random.RandomState(0).uniform(-1, 1, (4, 2, *(1,) * rank)).astype(np.float32)
    bias = np.arange(4, dtype=np.float32)
    x = np.random.RandomState(1).uniform(-1, 1, (1, 2, *spatial)).astype(np.float32)
    column = (slice(None),) + (None,) * rank
    biased = np.einsum("mc...,nc...->nm...", w, x) + bias[column]
    shapes = [(1,) * (rank + 2), (4,) + (1,) * rank, *(spatial[axis:] for axis in range(rank)), (4, *spatial)]
    for shape in shapes:
        k = np.random.RandomState(2).uniform(-1, 1, shape).astype(np.float32)
        for operands in (["c", "k"], ["k", "c"]):
            nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"]), helper.make_node("Add", operands, ["y"])]
            proto = model(
                nodes, {"x": (TensorProto.FLOAT, x.shape)}, {"y": TensorProto.FLOAT}, {"w": w, "b": bias, "k": k}
            )
            (got,) = run(proto, {"x": x}, shim_name)
            np.testing.assert_allclose(got, biased + k, rtol=1e-4, atol=1e-5, err_msg=str(shape))


# -- integers --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("given", ["known", "run time"])
def test_a_diagonal_far_from_the_matrix(given: str, upper: int, shim_name: str) -> None:
    nodes = [helper.make_node("Trilu", ["x", "k"], ["y"], upper=upper)]
    x = np.arange(1, 10, dtype=np.float32).reshape(3, 3)
    diagonals = (0, 1, -2, 5, -5, *FAR)
    inputs: Dict[str, Any] = {"x": (TensorProto.FLOAT, ["n", "m"]), "k": (TensorProto.INT64, [])}
    protos = {k: model(nodes, {"x": inputs["x"]}, {"y": TensorProto.FLOAT}, {"k": np.int64(k)}) for k in diagonals}
    open_ = model(nodes, inputs, {"y": TensorProto.FLOAT})
    for k in diagonals:
        near = max(min(k, 3), -3)
        want = np.triu(x, near) if upper else np.tril(x, near)
        feeds = {"x": x} if given == "known" else {"x": x, "k": np.array(k, np.int64)}
        (got,) = run(protos[k] if given == "known" else open_, feeds, shim_name)
        np.testing.assert_array_equal(got, want, err_msg="k = %d" % k)


# -- exact quotients ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "divisors",
    [
        np.arange(1, 33, dtype=np.float32),
        np.tile(np.array([0.5, -2, 0.125, 1], np.float32), 8),
        np.tile(np.array([0, -0.0, 0.3, np.nan], np.float32), 8),
        np.float32(0.3),
        np.float32(0.5),
    ],
    ids=["integers", "powers of two", "zeros", "scalar", "scalar power of two"],
)
def test_a_quotient_by_a_constant_is_exact(divisors: Any, shim_name: str) -> None:
    """An optimizer that multiplies by an approximate reciprocal changes ties: 1.75 / 0.5 must be 3.5."""
    proto = model(
        [helper.make_node("Div", ["x", "d"], ["y"])],
        {"x": (TensorProto.FLOAT, ["n", 32])},
        {"y": TensorProto.FLOAT},
        {"d": divisors},
    )
    x = np.random.RandomState(0).uniform(-8, 8, (64, 32)).astype(np.float32).round(2)
    (got,) = run(proto, {"x": x}, shim_name)
    with np.errstate(all="ignore"):
        expected = x / divisors
    # XLA's algebraic simplifier multiplies by the rounded reciprocal of a constant.
    is_rounded_twice = shim_name == "keras" and os.environ["KERAS_BACKEND"] == "jax"
    finite = np.isfinite(expected)
    np.testing.assert_array_max_ulp(got[finite], expected[finite], maxulp=1 if is_rounded_twice else 0)
    # The kernels of tflite-runtime 2.7 give the largest float32 in place of infinity.
    np.testing.assert_array_max_ulp(got[~finite], expected[~finite], maxulp=1)


@pytest.mark.parametrize("divisor", [0.3, 0.5, -0.0])
def test_a_quotient_of_scalars_is_a_scalar(divisor: float, shim_name: str) -> None:
    proto = model(
        [helper.make_node("Div", ["x", "d"], ["y"])],
        {"x": (TensorProto.FLOAT, [])},
        {"y": TensorProto.FLOAT},
        {"d": np.array(divisor, np.float32)},
    )
    (got,) = run(proto, {"x": np.array(1.75, np.float32)}, shim_name)
    with np.errstate(divide="ignore"):
        expected = np.float32(1.75) / np.float32(divisor)
    assert got.shape == ()
    np.testing.assert_array_max_ulp(np.nan_to_num(got), np.nan_to_num(expected), maxulp=1)


def test_a_tie_of_a_rescaled_value_rounds_to_even(shim_name: str) -> None:
    scales = np.tile(np.array([0.5, 1, 3, 0.25], np.float32), 4)
    proto = model(
        [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], axis=1)],
        {"x": (TensorProto.FLOAT, ["n", 16])},
        {"y": TensorProto.UINT8},
        {"s": scales, "z": np.zeros(16, np.uint8)},
    )
    halves = np.arange(8, dtype=np.float32)[:, np.newaxis] + np.float32(0.5)
    (got,) = run(proto, {"x": halves * scales}, shim_name)
    np.testing.assert_array_equal(got, np.broadcast_to(np.rint(halves), (8, 16)))


# -- strides -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("sizes", [(2, 2), (3, 3), (3, 5), ("h", "w")])
@pytest.mark.parametrize("strides", [(1, 3), (3, 1)])
def test_unequal_strides_over_a_single_channel(strides: Any, sizes: Any, shim_name: str) -> None:
    """The result has one column or several. Kernels of some frameworks differ for a single column."""
    random = np.random.RandomState(0)
    proto = model(
        [helper.make_node("Conv", ["x", "w"], ["y"], strides=strides, pads=[1, 0, 0, 0])],
        {"x": (TensorProto.FLOAT, ["n", 1, *sizes])},
        {"y": TensorProto.FLOAT},
        {"w": random.randint(-3, 4, (2, 1, 2, 2)).astype(np.float32)},
    )
    shape = [size if isinstance(size, int) else 3 for size in sizes]
    x = random.randint(-3, 4, (2, 1, *shape)).astype(np.float32)
    np.testing.assert_array_equal(run(proto, {"x": x}, shim_name)[0], run(proto, {"x": x}, "reference")[0])


# -- products of a matrix with itself ----------------------------------------------------------------------------------
@pytest.mark.parametrize("operands", ["tt", "tu", "ut", "uu"])
@pytest.mark.parametrize("perm", [[0, 1, 2, 3], [0, 2, 3, 1], [2, 1, 3, 0]])
def test_a_matrix_times_itself(perm: Any, operands: str, shim_name: str) -> None:
    """Also behind a transpose (t), and with one or both operands transposed (u)."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=perm),
        helper.make_node("Transpose", ["t"], ["u"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", list(operands), ["y"]),
    ]
    proto = model(nodes, {"x": (TensorProto.FLOAT, [2] * 4)}, {"y": TensorProto.FLOAT})
    x = np.arange(16, dtype=np.float32).reshape([2] * 4)
    t = x.transpose(perm)
    values = {"t": t, "u": t.swapaxes(2, 3)}
    expected = values[operands[0]] @ values[operands[1]]
    np.testing.assert_array_equal(run(proto, {"x": x}, shim_name)[0], expected)


# -- ties --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("function", ["Relu", "Sign", "Floor", "Ceil"])
def test_the_first_of_equal_extremes(function: str, shim_name: str) -> None:
    """An optimizer that leaves a monotonic function out of ArgMax or ArgMin sees no ties."""
    x = np.array([[-80.3, -80.5, -80.7], [80.1, 80.3, 80.5], [-0.3, -0.1, -0.7]], np.float32)
    for kind in ("Max", "Min"):
        nodes = [
            helper.make_node(function, ["x"], ["f"]),
            helper.make_node("Arg" + kind, ["f"], [kind], axis=1, keepdims=0),
        ]
        proto = model(nodes, {"x": (TensorProto.FLOAT, ["n", 3])}, {kind: TensorProto.INT64})
        np.testing.assert_array_equal(run(proto, {"x": x}, shim_name)[0], run(proto, {"x": x}, "reference")[0])


@pytest.mark.parametrize("function", ["ArgMax", "ArgMin"])
def test_the_position_of_an_extreme_beside_nan(function: str, shim_name: str, request: Any) -> None:
    """A declared gap. onnxruntime 1.31 gives 2, 0, 2 for ArgMax of these rows, and other positions for longer rows."""
    if shim_name in ("onnx", "tf1", "tf2", "tflite") or os.environ.get("KERAS_BACKEND") == "tensorflow":
        reason = "the kernels of onnxruntime, TensorFlow and TFLite compare with > or <, which is false for NaN"
        request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError))
    proto = model(
        [helper.make_node(function, ["x"], ["y"], axis=1, keepdims=0)],
        {"x": (TensorProto.FLOAT, ["n", 4])},
        {"y": TensorProto.INT64},
    )
    x = np.array([[1, np.nan, 3, 2], [np.nan, 1, 2, 3], [1, 2, 3, np.nan]], np.float32)
    (got,) = run(proto, {"x": x}, shim_name)
    np.testing.assert_array_equal(got, [1, 0, 3])


@pytest.mark.parametrize("sizes", [["n", "k"], [0, 0], ["n", 0]])
@pytest.mark.parametrize("function", ["ArgMax", "ArgMin"])
def test_the_position_of_an_extreme_of_nothing(function: str, sizes: Any, shim_name: str) -> None:
    """The result is empty too. Where it is not, there is no extreme: onnxruntime refuses the model."""
    nodes = [helper.make_node(function, ["x"], ["y"], axis=1, keepdims=0)]
    proto = model(nodes, {"x": (TensorProto.FLOAT, sizes)}, {"y": TensorProto.INT64})
    try:
        (got,) = run(proto, {"x": np.zeros((0, 0), np.float32)}, shim_name)
    except onnx_compat.UnsupportedError:  # ARG_MAX of LiteRT refuses an open axis that is empty
        assert shim_name == "tflite" and sizes != [0, 0]
        return
    assert got.shape == (0,) and got.dtype == np.int64


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([6, 1, 8, 4], [1, 1, 4, 2]),
        ([6, 1, 8, 1], [1, 1, 1]),
        ([6, 1, 3, 8, 4], [6, 1, 1, 4, 2]),
        ([1, 1, 8, 4], [6, 1, 4, 2]),
        ([1, 8, 4], [1, 1, 4, 2]),
    ],
)
def test_products_of_stacks_with_axes_of_size_1(left: Any, right: Any, shim_name: str) -> None:
    """BatchMatMulV2 of TensorFlow 2.21 writes beyond the product if such an axis meets a broadcast one."""
    inputs = {"a": (TensorProto.FLOAT, ["n", *left[1:]]), "b": (TensorProto.FLOAT, right)}
    proto = model([helper.make_node("MatMul", ["a", "b"], ["y"])], inputs, {"y": TensorProto.FLOAT})
    rng = np.random.RandomState(0)
    a, b = (rng.randn(*shape).astype(np.float32) for shape in (left, right))
    for _ in range(3):
        (got,) = run(proto, {"a": a, "b": b}, shim_name)
        np.testing.assert_allclose(got, a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(
    ("kernel", "strides"), [([2, 3], [1, 2]), ([3, 3], [1, 2]), ([2, 3, 3], [3, 1, 2]), ([1, 2, 3], [1, 1, 3])]
)
def test_a_convolution_whose_result_may_be_one_column(
    kernel: Any, strides: Any, batch: int, group: int, shim_name: str
) -> None:
    """oneDNN in TensorFlow 2.21 advances by the horizontal stride from row to row."""
    rank = len(kernel)
    inputs = {"x": (TensorProto.FLOAT, [batch, group, *[5] * (rank - 1), "w"])}
    rng = np.random.RandomState(0)
    weights = {"f": rng.randn(2 * group, 1, *kernel).astype(np.float32)}
    nodes = [helper.make_node("Conv", ["x", "f"], ["y"], strides=strides, group=group)]
    proto = model(nodes, inputs, {"y": TensorProto.FLOAT}, weights)
    for width in (7, 3):
        x = rng.randn(batch, group, *[5] * (rank - 1), width).astype(np.float32)
        (wanted,) = run(proto, {"x": x}, "reference")
        (got,) = run(proto, {"x": x}, shim_name)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
