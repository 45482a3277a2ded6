"""ONNX models as `.keras` files that Keras alone loads: values that decide shapes, branches, loops, names and bundles."""

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence

import keras
import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx_compat_keras.features import back_end

import onnx_compat
from onnx_compat.conversion.convert import load_bundle

FLOAT, INT64, INT32, BOOL, UINT8 = (
    TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.UINT8,
)  # fmt: skip
Feeds = Mapping[str, np.ndarray]


class Sample(NamedTuple):
    """A model, two feeds of different sizes, and the back ends on which a file can hold the model."""

    model: ModelProto
    feeds: Sequence[Feeds]
    back_ends: Sequence[str] = ("tensorflow", "jax", "torch")


#: Back ends on which a shape may depend on values, and on which the body of a loop may be a model.
VALUES = ("tensorflow", "torch")


def port(name: str, dtype: int, shape: Any) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    weights: Mapping[str, Any] = {},
    opset: int = 20,
) -> ModelProto:
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "model", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def numbers(*shape: int) -> np.ndarray:
    return np.random.RandomState(sum(shape)).standard_normal(shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    names = [part.replace("_", "") for part in inputs.split()]
    return helper.make_node(operator, names, outputs.split(), name="a/" + operator, **attributes)


def arg_max() -> Sample:
    nodes = [node("ArgMax", "x", "y", axis=1), helper.make_node("ArgMin", ["x"], ["z"], axis=-1, keepdims=0)]
    outputs = [port("y", INT64, None), port("z", INT64, None)]
    feeds = [{"x": numbers(2, 3, 4, 5)}, {"x": numbers(1, 7, 2, 2)}]
    return Sample(model(nodes, [port("x", FLOAT, ["n", "c", "h", "w"])], outputs), feeds)


def gather_nd(batch_dims: int) -> Sample:
    graph = [node("GatherND", "x i", "y", batch_dims=batch_dims)]
    inputs = [port("x", FLOAT, ["n", "s", "d"]), port("i", INT64, ["n", "k", 1 if batch_dims else 2])]
    first = ints(2, 0, 1, 1) if batch_dims else ints(1, 2, 0, 0, 1, 1, 0, 2)
    feeds = [{"x": numbers(2, 3, 4), "i": first.reshape(2, 2, -1)}]
    return Sample(model(graph, inputs, [port("y", FLOAT, None)]), [*feeds, {"x": numbers(2, 5, 2), "i": feeds[0]["i"]}])


def class_token() -> Sample:
    """Return the pooling of BERT's classifiers: the row of each text at its end, by an arange and a GatherND."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Range", ["zero", "n", "one"], ["rows"]),
        helper.make_node("Unsqueeze", ["rows", "last"], ["r"]),
        helper.make_node("Unsqueeze", ["at", "last"], ["c"]),
        helper.make_node("Concat", ["r", "c"], ["i"], axis=-1),
        helper.make_node("GatherND", ["x", "i"], ["y"]),
    ]
    weights = {"zero": np.int64(0), "one": np.int64(1), "last": ints(-1)}
    inputs = [port("x", FLOAT, ["n", "s", 8]), port("at", INT64, ["n"])]
    feeds = [{"x": numbers(2, 4, 8), "at": ints(3, 0)}, {"x": numbers(3, 2, 8), "at": ints(1, 0, 1)}]
    return Sample(model(nodes, inputs, [port("y", FLOAT, None)], weights), feeds)


def non_zero() -> Sample:
    nodes = [helper.make_node("NonZero", ["x"], ["i"]), helper.make_node("Transpose", ["i"], ["t"], perm=[1, 0])]
    nodes.append(helper.make_node("GatherND", ["x", "t"], ["y"]))
    feeds = [{"x": np.array([[0, 1, 0], [2, 0, 3]], np.float32)}, {"x": np.zeros((1, 4), np.float32)}]
    outputs = [port("y", FLOAT, None), port("t", INT64, None)]
    return Sample(model(nodes, [port("x", FLOAT, ["n", "m"])], outputs), feeds, VALUES)


def suppression() -> Sample:
    graph = [node("NonMaxSuppression", "boxes scores most iou score", "y")]
    weights = {"most": ints(3), "iou": np.array([0.5], np.float32), "score": np.array([0.1], np.float32)}
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11], [0, 20, 1, 21]]], np.float32)
    scores = np.array([[[0.9, 0.75, 0.6, 0.05]]], np.float32)
    inputs = [port("boxes", FLOAT, [1, "n", 4]), port("scores", FLOAT, [1, 1, "n"])]
    feeds = [{"boxes": boxes, "scores": scores}, {"boxes": boxes[:, 2:], "scores": scores[..., 2:]}]
    # Keras on torch infers the shapes of a loop by a run on ones, which this loop does not fit.
    return Sample(model(graph, inputs, [port("y", INT64, None)], weights), feeds, ("tensorflow",))


def computed_sizes() -> Sample:
    """Return slices, pads, repeats and a range whose bounds are values of an input."""
    nodes = [
        helper.make_node("Slice", ["x", "k", "far", "axis"], ["a"]),
        helper.make_node("Slice", ["x", "far", "back", "axis", "down"], ["b"]),
        helper.make_node("Pad", ["x", "pads"], ["c"], mode="reflect"),
        helper.make_node("Concat", ["k", "k"], ["kk"], axis=0),
        helper.make_node("Pad", ["x", "kk", "seven", "axis"], ["d"]),
        helper.make_node("Concat", ["k", "one"], ["counts"], axis=0),
        helper.make_node("Tile", ["x", "counts"], ["e"]),
        helper.make_node("Squeeze", ["k"], ["end"]),
        helper.make_node("Range", ["zero", "end", "two"], ["f"]),
    ]
    weights = {
        "far": ints(2**63 - 1), "back": ints(-(2**62)), "axis": ints(0), "down": ints(-2), "pads": ints(1, 0, 1, 0),
        "seven": np.float32(7), "one": ints(1), "zero": np.int64(-3), "two": np.int64(2),
    }  # fmt: skip
    feeds = [{"x": numbers(5, 2), "k": ints(2)}, {"x": numbers(3, 2), "k": ints(1)}]
    # Keras on torch divides no int64 exactly, as Range does.
    outputs = [port(name, FLOAT, None) for name in "abcde"] + [port("f", INT64, None)]
    return Sample(
        model(nodes, [port("x", FLOAT, ["n", 2]), port("k", INT64, [1])], outputs, weights), feeds, ("tensorflow",)
    )


def branches(same: bool) -> Sample:
    then = helper.make_node(
        "Mul" if same else "Concat", ["x", "x" if not same else "w"], ["t"], **({} if same else {"axis": 0})
    )
    orelse = [helper.make_node("MatMul", ["x", "m"], ["e"])]
    graphs = [
        helper.make_graph([then], "then", [], [port("t", FLOAT, None)]),
        helper.make_graph(orelse, "else", [], [port("e", FLOAT, None)]),
    ]
    outer = helper.make_node("If", ["c"], ["y"], then_branch=graphs[0], else_branch=graphs[1])
    weights = {"w": numbers(1, 40), "m": numbers(40, 40)}
    feeds = [{"x": numbers(2, 40), "c": np.array(flag)} for flag in (True, False)]
    inputs = [port("x", FLOAT, [2, 40]), port("c", BOOL, [])]
    return Sample(
        model([outer], inputs, [port("y", FLOAT, None)], weights),
        feeds,
        VALUES if not same else Sample.__new__.__defaults__[0],
    )


def loop(grows: bool) -> Sample:
    """Return a Loop that ends by a condition on its state. If `grows`, the state gets longer in each round."""
    step = (
        helper.make_node("Concat", ["v", "x"], ["w"], axis=0) if grows else helper.make_node("Add", ["v", "x"], ["w"])
    )
    body_nodes = [
        step,
        helper.make_node("ReduceSum", ["w"], ["total"], keepdims=0),
        helper.make_node("Less", ["total", "limit"], ["again"]),
        helper.make_node("Mul", ["w", "half"], ["scan"])
        if not grows
        else helper.make_node("Identity", ["total"], ["scan"]),
    ]
    inputs = [port("i", INT64, []), port("c", BOOL, []), port("v", FLOAT, ["k" if grows else 3])]
    outputs = [port("again", BOOL, []), port("w", FLOAT, ["k" if grows else 3]), port("scan", FLOAT, None)]
    body = helper.make_graph(body_nodes, "body", inputs, outputs)
    outer = helper.make_node("Loop", ["", "yes", "x"], ["y", "s"], body=body)
    weights = {"yes": np.array(True), "limit": np.float32(50), "half": np.full(3, 0.5, np.float32)}
    feeds = [{"x": np.array([1, 2, 3], np.float32)}, {"x": np.array([30, 30, 30], np.float32)}]
    return Sample(
        model([outer], [port("x", FLOAT, [3])], [port("y", FLOAT, None), port("s", FLOAT, None)], weights),
        feeds,
        VALUES,
    )


def scan(reverse: bool) -> Sample:
    nodes = [
        helper.make_node("MatMul", ["h", "m"], ["p"]),
        helper.make_node("Add", ["p", "x"], ["k"]),
        helper.make_node("Tanh", ["k"], ["y"]),
    ]
    body = helper.make_graph(
        [*nodes, helper.make_node("Identity", ["y"], ["z"])], "body",
        [port("h", FLOAT, [1, 20]), port("x", FLOAT, [1, 20])], [port("y", FLOAT, [1, 20]), port("z", FLOAT, [1, 20])],
    )  # fmt: skip
    directions = [int(reverse)]
    outer = helper.make_node(
        "Scan", ["start", "xs"], ["last", "all"], body=body, num_scan_inputs=1, scan_input_directions=directions,
        scan_output_directions=directions,
    )  # fmt: skip
    feeds = [{"start": numbers(1, 20), "xs": numbers(count, 1, 20)} for count in (3, 5)]
    inputs = [port("start", FLOAT, [1, 20]), port("xs", FLOAT, ["t", 1, 20])]
    return Sample(
        model([outer], inputs, [port("last", FLOAT, None), port("all", FLOAT, None)], {"m": numbers(20, 20)}),
        feeds,
        VALUES,
    )


def integers() -> Sample:
    nodes = [
        helper.make_node("Div", ["a", "b"], ["q"]),
        helper.make_node("Mod", ["a", "b"], ["m"]),
        helper.make_node("Mod", ["a", "b"], ["f"], fmod=1),
        helper.make_node("BitShift", ["u", "v"], ["l"], direction="LEFT"),
        helper.make_node("BitShift", ["u", "v"], ["r"], direction="RIGHT"),
    ]
    inputs = [port("a", INT32, ["n"]), port("b", INT32, ["n"]), port("u", UINT8, ["k", 2]), port("v", UINT8, ["k", 2])]
    outputs = [port(name, INT32, None) for name in "qmf"] + [port(name, UINT8, None) for name in "lr"]
    a, b = np.array([7, -7, 7, -7, 9], np.int32), np.array([2, 2, -2, -2, 3], np.int32)
    u, v = np.array([[255, 3], [1, 128]], np.uint8), np.array([[1, 7], [8, 0]], np.uint8)
    feeds = [{"a": a, "b": b, "u": u, "v": v}, {"a": a[:2], "b": b[:2], "u": u[:1], "v": v[:1]}]
    return Sample(model(nodes, inputs, outputs), feeds)


def best() -> Sample:
    nodes = [
        helper.make_node("TopK", ["x", "two"], ["a", "i"], axis=0),
        helper.make_node("TopK", ["x", "two"], ["b", "j"], axis=1, largest=0),
    ]
    feeds = [{"x": np.array([[1, 5, 5], [5, 1, 0], [2, 2, 2]], np.float32)}, {"x": numbers(2, 4)}]
    outputs = [port("a", FLOAT, None), port("i", INT64, None), port("b", FLOAT, None), port("j", INT64, None)]
    return Sample(model(nodes, [port("x", FLOAT, ["n", "m"])], outputs, {"two": ints(2)}), feeds)


def scatter() -> Sample:
    nodes = [helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="add")]
    inputs = [port("x", FLOAT, ["n", 3]), port("i", INT64, ["k", 1]), port("u", FLOAT, ["k", 3])]
    feeds = [
        {"x": numbers(4, 3), "i": ints(1, 1, 3).reshape(3, 1), "u": numbers(3, 3)},
        {"x": numbers(2, 3), "i": ints(0).reshape(1, 1), "u": numbers(1, 3)},
    ]
    return Sample(model(nodes, inputs, [port("y", FLOAT, None)]), feeds)


SAMPLES: Dict[str, Callable[[], Sample]] = {
    "ArgMax": arg_max,
    "GatherND": lambda: gather_nd(0),
    "GatherND with a batch": lambda: gather_nd(1),
    "class token": class_token,
    "NonZero": non_zero,
    "NonMaxSuppression": suppression,
    "computed sizes": computed_sizes,
    "If": lambda: branches(same=True),
    "If of different sizes": lambda: branches(same=False),
    "Loop": lambda: loop(grows=False),
    "Loop that grows": lambda: loop(grows=True),
    "Scan": lambda: scan(reverse=False),
    "Scan in reverse": lambda: scan(reverse=True),
    "integers": integers,
    "TopK": best,
    "ScatterND": scatter,
}

_CLEAN = """
import sys
import numpy as np
import keras
for path in sys.argv[1:]:
    model = keras.saving.load_model(path, safe_mode=True)
    data = np.load(path + ".npz")
    for k in range(2):
        feeds = [data[name] for name in sorted(data.files) if name.startswith("in%d" % k)]
        wanted = [data[name] for name in sorted(data.files) if name.startswith("out%d" % k)]
        outputs = keras.tree.flatten(model(feeds[0] if len(feeds) == 1 else feeds, training=False))
        for got, want in zip(outputs, wanted):
            np.testing.assert_allclose(keras.ops.convert_to_numpy(got), want, 1e-4, 1e-4, err_msg=path)
assert not any(name.split(".")[0].startswith("onnx") for name in sys.modules)
"""


def test_keras_alone_loads_and_runs_the_file(tmp_path: Path) -> None:
    """Load all files in one child process: to import Keras takes most of the time."""
    paths: List[str] = []
    for number, (name, build) in enumerate(SAMPLES.items()):
        sample = build()
        path = tmp_path / ("%d.keras" % number)
        if back_end() not in sample.back_ends:
            with pytest.raises(onnx_compat.UnsupportedError):
                onnx_compat.convert(sample.model, path)
            continue
        onnx_compat.convert(sample.model, path)
        arrays: Dict[str, np.ndarray] = {}
        converted, reference = onnx_compat.load_converted(path), onnx_compat.prepare(sample.model, shim="reference")
        for k, feeds in enumerate(sample.feeds):
            wanted = reference.run(dict(feeds)).as_dict()
            for output, array in converted.run(dict(feeds)).as_dict().items():
                assert array.dtype == wanted[output].dtype, (name, output)
                np.testing.assert_allclose(array, wanted[output], 1e-4, 1e-4, err_msg="%s: %s" % (name, output))
            arrays.update({"in%d %02d" % (k, at): array for at, array in enumerate(feeds.values())})
            arrays.update({"out%d %02d" % (k, at): array for at, array in enumerate(wanted.values())})
        np.savez(str(path) + ".npz", **arrays)
        paths.append(str(path))
    done = subprocess.run(
        [sys.executable, "-c", _CLEAN, *paths], capture_output=True, text=True, check=False,
        env=dict(os.environ, JAX_ENABLE_X64="1", TF_CPP_MIN_LOG_LEVEL="3"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def operations(source: ModelProto, folder: Path) -> Dict[str, Any]:
    """Convert a model and load the file with Keras. Return name -> layer or operation."""
    path = folder / "model.keras"
    onnx_compat.convert(source, path)
    loaded: Any = keras.saving.load_model(path)
    return {operation.name: operation for operation in loaded.operations}


CONV = {"w": numbers(4, 3, 3, 3), "b": numbers(4), "s": np.abs(numbers(4)), "v": np.abs(numbers(4)) + 1}
IMAGE = [port("x", FLOAT, ["n", 3, 8, 8])]


def test_a_name_belongs_to_the_layer_that_does_the_work(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="c1/Conv", pads=[0, 1, 2, 1]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "b", "v"], ["n"], name="c1/BN"),
        helper.make_node("MaxPool", ["n"], ["p"], name="c1/Pool", kernel_shape=[2, 2], pads=[1, 1, 0, 0]),
        helper.make_node("ArgMax", ["p"], ["y"], name="head/ArgMax", axis=1),
    ]
    kinds = {
        name: type(layer).__name__
        for name, layer in operations(model(nodes, IMAGE, [port("y", INT64, None)], CONV), tmp_path).items()
    }
    assert kinds["c1_Conv"] == "Conv2D"
    assert kinds["c1_Conv_permute"] == "Permute"
    assert kinds["c1_BN"] == "BatchNormalization"
    assert kinds["c1_Pool"] == "MaxPooling2D"
    assert kinds["head_ArgMax"] == "Argmax"


@pytest.mark.parametrize(
    ("rank", "opset", "dtype"),
    [(2, 20, FLOAT), (3, 9, FLOAT), (4, 7, FLOAT), (5, 15, FLOAT), (4, 20, TensorProto.FLOAT16)],
)
def test_a_batch_normalization_stays_a_layer(rank: int, opset: int, dtype: int, tmp_path: Path) -> None:
    names = ["x", *(name + "h" if dtype != FLOAT else name for name in "sbbv")]
    weights = {name + "h": array.astype(np.float16) for name, array in CONV.items()} if dtype != FLOAT else CONV
    nodes = [helper.make_node("BatchNormalization", names, ["y"], name="bn")]
    shape = ["n", 4, 5, 6, 7][:rank]
    layers = operations(model(nodes, [port("x", dtype, shape)], [port("y", dtype, shape)], weights, opset), tmp_path)
    assert type(layers["bn"]).__name__ == "BatchNormalization"


CHAINS = {
    "gelu": [("Div", "x r d"), ("Erf", "d e"), ("Add", "e one a"), ("Mul", "x a m"), ("Mul", "m half y")],
    "silu": [("Sigmoid", "x s"), ("Mul", "x s y")],
    "hard_silu": [("Add", "x three a"), ("Clip", "a zero six c"), ("Mul", "x c m"), ("Div", "m six y")],
    "hard_sigmoid": [("Add", "x three a"), ("Clip", "a zero six c"), ("Div", "c six y")],
}
OPERATORS = {
    "Gelu": "gelu", "HardSwish": "hard_silu", "Mish": "mish", "Softplus": "softplus", "Softsign": "softsign",
    "Elu": "elu", "Sigmoid": "sigmoid", "Tanh": "tanh",
}  # fmt: skip


@pytest.mark.parametrize("name", [*CHAINS, *OPERATORS])
def test_an_activation_is_one_layer_of_its_name(name: str, tmp_path: Path) -> None:
    if not hasattr(keras.activations, OPERATORS.get(name, name)):
        pytest.skip("this Keras has no such activation")
    weights = {"r": 2**0.5, "one": 1, "half": 0.5, "three": 3, "zero": 0, "six": 6}
    nodes = [helper.make_node(name, ["x"], ["y"], name="act")]
    if name in CHAINS:
        nodes = [
            helper.make_node(operator, values.split()[:-1], values.split()[-1:]) for operator, values in CHAINS[name]
        ]
    source = model(
        nodes, [port("x", FLOAT, ["n", 5])], [port("y", FLOAT, ["n", 5])],
        {key: np.float32(value) for key, value in weights.items()},
    )  # fmt: skip
    layers = operations(source, tmp_path)
    kinds = [type(layer).__name__ for layer in layers.values()]
    assert kinds == ["InputLayer", "Activation", "Identity"], kinds
    assert keras.saving.serialize_keras_object(list(layers.values())[1])["config"]["activation"] == OPERATORS.get(
        name, name
    )
    x = np.linspace(-8, 8, 50, dtype=np.float32).reshape(10, 5)
    wanted = onnx_compat.prepare(source, shim="reference").run([x])[0]
    got = onnx_compat.load_converted(tmp_path / "model.keras").run([x])[0]
    np.testing.assert_allclose(got, wanted, 1e-5, 1e-5)


def test_names_of_ports_survive_and_keras_warns_of_nothing(tmp_path: Path) -> None:
    nodes = [helper.make_node("Neg", ["img/x:0"], ["out/y:0"], name="_neg:0")]
    source = model(nodes, [port("img/x:0", FLOAT, ["n", 3])], [port("out/y:0", FLOAT, ["n", 3])])
    path = tmp_path / "m.keras"
    x = numbers(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)  # of numpy, in Keras
        onnx_compat.convert(source, path)
        loaded: Any = keras.saving.load_model(path)
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(loaded(x)), -x)
        np.testing.assert_array_equal(loaded.predict(x, verbose=0), -x)
    converted = onnx_compat.load_converted(path)
    np.testing.assert_array_equal(converted.run({"img/x:0": x})["out/y:0"], -x)


def texts(inner: bool) -> ModelProto:
    """Return a model that casts to strings, which no Keras file holds, twice; if `inner`, once in a branch of an If."""

    def write_and_read(name: str, source: str, target: str) -> List[Any]:
        text = name.replace("/", "")
        return [
            helper.make_node("Cast", [source], [text], name=name, to=TensorProto.STRING),
            helper.make_node("Cast", [text], [target], name=name + "/back", to=FLOAT),
        ]

    nodes = write_and_read("p/1", "r", "p")
    if inner:
        half = [helper.make_node("Mul", ["r", "half"], ["q"], name="cut")]
        graphs = [helper.make_graph(n, n[0].name, [], [port(n[-1].output[0], FLOAT, None)]) for n in (nodes, half)]
        nodes = [helper.make_node("If", ["c"], ["out"], name="if", then_branch=graphs[0], else_branch=graphs[1])]
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="first"),
        *nodes,
        *write_and_read("p/2", nodes[-1].output[0], "s"),
        helper.make_node("Neg", ["s"], ["y"], name="last"),
    ]
    inputs = [port("x", FLOAT, [1, 2, 8, 8])] + [port("c", BOOL, [])] * inner
    return model(nodes, inputs, [port("y", FLOAT, None)], {"half": np.float32(0.5)})


@pytest.mark.parametrize("inner", [False, True])
def test_a_bundle_holds_what_a_file_cannot(inner: bool, tmp_path: Path) -> None:
    source = texts(inner)
    with pytest.raises(onnx_compat.UnsupportedError, match=r"cannot hold \d other nodes?") as info:
        onnx_compat.convert(source, tmp_path / "m.keras")
    assert info.value.other_errors and info.value.node not in info.value.other_errors
    assert "--allow-fallback" in str(info.value)
    assert not list(tmp_path.iterdir())
    path = onnx_compat.convert(source, tmp_path / "m.keras", allow_fallback=True)
    assert path.name == "m.keras.zip"
    feeds: Dict[str, np.ndarray] = {"x": np.rint(8 * numbers(1, 2, 8, 8)), **({"c": np.array(True)} if inner else {})}
    wanted = onnx_compat.prepare(source, shim="reference").run(feeds)
    np.testing.assert_array_equal(load_bundle(path).run(feeds)[0], wanted[0])
