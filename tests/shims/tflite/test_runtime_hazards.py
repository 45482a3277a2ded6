"""Files in a plain interpreter, as other programs run them.

They run with and without the default delegate, at their own sizes and resized, with one item and with several. The
hazards are a resize that the delegate does not follow, and a constant that no operator reads or writes.
"""

from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_compat_tflite import features
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.file_ports import resizes_inside_branches
from zoo_cases import case

import onnx_compat
from matrix.harness.conditions import holds

Values = Dict[str, Any]
DYNAMIC = (
    "audio bert efficientnet gpt gpt_masked grouped gru gru_batch_first lstm lstm_batch_first mobilenet_v2".split()
)
DYNAMIC += "mobilenet_v3 residual resnet50 rnn_relu rnn_tanh unet_bilinear unet_nearest unet_transpose vit".split()


class Alone:
    """A .tflite file in a plain interpreter, fed by the names of its signature."""

    def __init__(self, path: Path, plain: bool) -> None:
        runtime, reason = features.find_runtime()
        assert runtime is not None, reason
        self.native = runtime.interpreter(plain, model_path=str(path))
        model = fb.read(path)
        (signature,) = model.signatures
        main = model.subgraphs[0]
        self._inputs = _name_tensors(signature.inputs, main.inputs, self.native.get_input_details())
        self._outputs = _name_tensors(signature.outputs, main.outputs, self.native.get_output_details())

    def run(self, feed: Values) -> Values:
        for name, detail in self._inputs.items():
            now = {detail["index"]: tuple(detail["shape"]) for detail in self.native.get_input_details()}
            if now[detail["index"]] != feed[name].shape:
                self.native.resize_tensor_input(detail["index"], feed[name].shape)
        self.native.allocate_tensors()
        for name, detail in self._inputs.items():
            self.native.set_tensor(detail["index"], np.array(feed[name], order="C"))
        self.native.invoke()
        return {name: self.native.get_tensor(detail["index"]) for name, detail in self._outputs.items()}


def _name_tensors(signature: Dict[str, int], order: List[int], details: List[Any]) -> Dict[str, Any]:
    names = {position: name for name, position in signature.items()}
    return {names[position]: detail for position, detail in zip(order, details)}


def _agree(path: Path, pairs: List[Tuple[Values, Values]]) -> None:
    """Assert that each feed gives its expected outputs, with and without the delegate.

    Each feed runs in an interpreter of its own, and all feeds run one after another in a common interpreter.
    """
    for plain in (False, True):
        reused = None if _forgets(path, plain) else Alone(path, plain)
        for feed, expected in pairs:
            for got in [alone.run(feed) for alone in (Alone(path, plain), reused) if alone is not None]:
                assert set(got) == set(expected)
                for name, array in expected.items():
                    assert got[name].shape == array.shape and got[name].dtype == array.dtype
                    np.testing.assert_allclose(got[name], array, rtol=2e-3, atol=2e-4, err_msg="plain: %s" % plain)


def _forgets(path: Path, plain: bool) -> bool:
    """Return whether the file resizes tensors inside branches, and the delegate of this runtime (2.11 to 2.14) does not
    follow.

    The shim works around it (`RuntimeQuirks.delegate_resizes_branches`); a file alone cannot.
    """
    return (
        not plain and resizes_inside_branches(fb.read(path)) and not features.kernels().quirks.delegate_resizes_branches
    )


def _single(model: Any, small: Values, large: Values) -> Values:
    """Return the feed with only the first item of the batch. The batch is the symbolic size that is 3 in `large`."""
    batch = {
        size
        for array in model.inputs
        for size, a, b in zip(array.type.shape, small[array.name].shape, large[array.name].shape)
        if isinstance(size, str) and a < b == 3
    }
    assert batch
    return {
        array.name: small[array.name][tuple(slice(0, 1) if size in batch else slice(None) for size in array.type.shape)]
        for array in model.inputs
    }


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
@pytest.mark.parametrize("name", DYNAMIC)
def test_a_network_of_any_batch(name: str, exporter: str, tmp_path: Path) -> None:
    zoo_case = case("%s-%s-dynamic" % (name, exporter))
    model = onnx_compat.load(str(zoo_case.model))
    path = onnx_compat.convert(model, tmp_path / "m.tflite", shim="tflite")
    recorded = [(data.inputs, data.outputs) for data in zoo_case.data_sets()]
    single = _single(model, recorded[0][0], recorded[-1][0])
    expected = onnx_compat.run(model, single, shim="reference").as_dict()
    _agree(path, [recorded[0], (single, expected), *recorded[1:], recorded[0]])


@pytest.mark.parametrize("name", DYNAMIC)
def test_a_network_of_one_size(name: str, tmp_path: Path) -> None:
    zoo_case = case(name + "-script-fixed")
    path = onnx_compat.convert(str(zoo_case.model), tmp_path / "m.tflite", shim="tflite")
    _agree(path, [(data.inputs, data.outputs) for data in zoo_case.data_sets()])


# -- constants that stand alone ----------------------------------------------------------------------------------------
FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL
TWO = np.float32([[1, 2, 3]])
node = helper.make_node


def value(name: str, shape: Any = None, dtype: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def branch(*nodes: Any) -> Any:
    return helper.make_graph(list(nodes), nodes[-1].op_type, [], [value("b")])


def constant(name: str, array: Any) -> Any:
    return node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(array)))


def constants() -> Iterator[Tuple[str, List[Any], List[str]]]:
    """Yield (description, nodes, outputs) of models of x [n, 3] and a flag."""
    yield "an output", [constant("y", TWO), node("Relu", ["x"], ["z"])], ["y", "z"]
    yield "two outputs", [constant("y", TWO), node("Neg", ["y"], ["z"])], ["y", "z"]
    yield "one output twice", [node("Identity", ["x"], ["y"]), node("Identity", ["x"], ["z"])], ["x", "y", "z"]
    then = branch(constant("b", TWO))
    yield (
        "a branch",
        [node("If", ["flag"], ["y"], then_branch=then, else_branch=branch(node("Neg", ["x"], ["b"])))],
        ["y"],
    )
    both = node("If", ["flag"], ["y"], then_branch=then, else_branch=branch(constant("b", -TWO)))
    yield "both branches", [both], ["y"]
    yield "both branches, used", [both, node("Add", ["x", "y"], ["z"])], ["z"]
    sizes = [node("Shape", ["x"], ["s"]), constant("c", TWO)]
    yield "a constant of the size of x", [*sizes, node("Expand", ["c", "s"], ["y"])], ["y"]
    yield "one as every element", [*sizes[:1], node("ConstantOfShape", ["s"], ["y"])], ["y"]
    yield "rows before x", [constant("c", TWO), node("Concat", ["c", "x"], ["y"], axis=0)], ["y"]
    body = helper.make_graph(
        [node("Identity", ["go"], ["go_on"]), constant("next", TWO), constant("scan", TWO)],
        "body",
        [value("i", [], TensorProto.INT64), value("go", [], BOOL), value("carried")],
        [value("go_on", [], BOOL), value("next"), value("scan")],
    )
    loop = node("Loop", ["count", "", "x"], ["y", "z"], body=body)
    yield "all that a loop carries", [constant("count", np.int64(3)), loop], ["y", "z"]


CONSTANTS = {name: (nodes, outputs) for name, nodes, outputs in constants()}


#: The delegate of LiteRT 1.0 and 1.2 gives up where these are resized. It says so, and the shim goes on without it.
GIVES_UP = ("two outputs", "all that a loop carries")
OLD_DELEGATE = ("ai-edge-litert<1.4",)


@pytest.mark.parametrize("name", list(CONSTANTS))
@pytest.mark.parametrize("rows", ["n", 1, 2])
def test_a_constant_that_stands_alone(name: str, rows: Any, tmp_path: Path) -> None:
    nodes, outputs = CONSTANTS[name]
    graph = helper.make_graph(
        nodes, "graph", [value("x", [rows, 3]), value("flag", [], BOOL)], [value(array) for array in outputs]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = onnx_compat.convert(proto, tmp_path / "m.tflite", shim="tflite")
    pairs = []
    for count in (1, 3, 2) if rows == "n" else (rows,):
        for flag in (True, False):
            feed = {"x": np.random.RandomState(count).randn(count, 3).astype(np.float32), "flag": np.array(flag)}
            pairs.append((feed, onnx_compat.run(proto, feed, shim="reference").as_dict()))
    if rows == "n" and name in GIVES_UP and holds(OLD_DELEGATE):
        with pytest.raises(RuntimeError, match="XNNPACK"):
            _agree(path, pairs)
    else:
        _agree(path, pairs)
    runnable = onnx_compat.prepare(proto, shim="tflite", fallback=False)
    for feed, expected in pairs:
        for key, array in runnable.run(feed).as_dict().items():
            np.testing.assert_array_equal(array, expected[key])


@pytest.mark.parametrize(("dtype", "element"), [("float32", FLOAT), ("int32", TensorProto.INT32), ("bool", BOOL)])
@pytest.mark.parametrize("both", [True, False])
def test_constants_of_branches_are_not_mixed_up(both: bool, dtype: str, element: int, tmp_path: Path) -> None:
    """Run, resize, and run again: a runtime may free or overwrite a copy of a constant that it makes before the first
    run.
    """
    arrays = [np.array([[1, 0, 3], [0, 2, 0]]).astype(dtype), np.array([[0, 5, 0], [6, 0, 7]]).astype(dtype)]
    other_array = constant("c", arrays[1]) if both else node("Identity", ["x"], ["c"])
    branches = [
        helper.make_graph([array], array.output[0], [], [value(array.output[0], None, element)])
        for array in (constant("b", arrays[0]), other_array)
    ]
    graph = helper.make_graph(
        [node("If", ["flag"], ["y"], then_branch=branches[0], else_branch=branches[1])],
        "graph", [value("x", ["n", 3], element), value("flag", [], BOOL)], [value("y", None, element)],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = onnx_compat.convert(proto, tmp_path / "m.tflite", shim="tflite")
    pairs = []
    for rows, flag in [(1, True), (1, False), (4, True), (4, True), (4, False), (2, False), (2, True), (2, False)]:
        x = np.full((rows, 3), rows % 2).astype(dtype)
        pairs.append(({"x": x, "flag": np.array(flag)}, {"y": arrays[0] if flag else arrays[1] if both else x}))
    _agree(path, pairs + pairs[::-1])
