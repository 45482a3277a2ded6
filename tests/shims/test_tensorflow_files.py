"""Exported files load again: in the shim with every name and dtype, and in TensorFlow alone."""

import os
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
from onnx import helper

import onnx_compat
from onnx_compat import primitives
from onnx_compat.conversion import folder_replacement
from onnx_compat.discovery import selection
from onnx_compat.errors import ConversionError, InputError
from onnx_compat.ir import dtypes
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program

PORTS = [
    Port("input.1", dtypes.float32, ("batch", 3)),
    Port("input_1", dtypes.float32, ("batch", 3)),
    Port("words", dtypes.string, (None,)),
    Port("half", dtypes.bfloat16, (2,)),
]
NAMES = ["sum", "sum:0", "loud", "half/out"]


@pytest.fixture(scope="module")
def shim(request: Any) -> Any:
    return selection.find(request.getfixturevalue("shim_name"))


def model(x: Any, y: Any, words: Any, half: Any) -> List[Any]:
    return [x + y, x - y, primitives.string_upper(words), half * half]


def feeds(batch: int) -> List[np.ndarray]:
    rng = np.random.RandomState(0)
    numbers = [rng.rand(batch, 3).astype(np.float32) for _ in range(2)]
    return [*numbers, np.array(["a", "ß"], object), np.array([1.5, 1.0078125], np.float32)]


def path_of(tmp_path: Path, form: str) -> str:
    return str(tmp_path / ("model.pb" if form == "graphdef" else "model"))


def forms(shim: Any) -> List[str]:
    return sorted(shim.formats)


def test_a_file_gives_the_results_of_the_model(shim: Any, tmp_path: Path) -> None:
    program = record_program(model, PORTS, shim.emitter(), NAMES)
    expected = shim.compile(program)
    for form in forms(shim):
        path = path_of(tmp_path, form)
        shim.export(program, path, form)
        compiled, inputs, outputs = shim.load_converted(path, form)
        assert list(inputs) == PORTS
        assert [(port.name, port.dtype) for port in outputs] == [(p.name, p.dtype) for p in program.outputs]
        for batch in (1, 4):
            for ours, theirs in zip(compiled.run(feeds(batch)), expected.run(feeds(batch))):
                np.testing.assert_array_equal(ours, theirs)


def test_a_saved_model_keeps_the_names_for_a_server(shim: Any, tmp_path: Path) -> None:
    path = path_of(tmp_path, "saved_model")
    shim.export(record_program(model, PORTS, shim.emitter(), NAMES), path, "saved_model")
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString(Path(path, "saved_model.pb").read_bytes())
    signature = saved.meta_graphs[0].signature_def["serving_default"]
    assert set(signature.inputs) == {port.name for port in PORTS}
    assert set(signature.outputs) == set(NAMES)


def test_a_graph_names_placeholders_and_outputs_as_the_model(shim: Any, tmp_path: Path) -> None:
    if "graphdef" not in shim.formats:
        pytest.skip("this shim writes no GraphDef")
    import tensorflow as tf

    path = path_of(tmp_path, "graphdef")
    shim.export(
        record_program(lambda x: [x + 1.0], [Port("x", dtypes.float32, (None,))], shim.emitter(), ["y"]),
        path,
        "graphdef",
    )
    frozen = tf.compat.v1.GraphDef()
    frozen.ParseFromString(Path(path).read_bytes())
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        tf.import_graph_def(frozen, name="")
        result = session.run("y:0", {"x:0": np.ones(2, np.float32)})
        assert graph.get_operation_by_name("x").type == "Placeholder"
    np.testing.assert_array_equal(result, [2, 2])


def relu() -> Any:
    ends = [helper.make_tensor_value_info(name, 1, ["n", 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


def saved_by_tensorflow(path: Path, assets: Path) -> None:
    """Write a SavedModel with a variable and an asset, by TensorFlow itself."""
    import tensorflow as tf

    assets.write_text("words")
    if hasattr(tf, "Module") and tf.executing_eagerly():
        module = tf.Module()
        module.variable, module.asset = tf.Variable([1.0, 2.0]), tf.saved_model.Asset(str(assets))
        tf.saved_model.save(module, str(path))
        return
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.get_variable("variable", initializer=[1.0, 2.0])
        asset = tf.constant(str(assets))
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.ASSET_FILEPATHS, asset)
        session.run(tf.compat.v1.global_variables_initializer())
        builder = tf.compat.v1.saved_model.Builder(str(path))
        builder.add_meta_graph_and_variables(session, ["serve"], assets_collection=[asset])
        builder.save(as_text=True)


def test_a_saved_model_is_replaced_and_no_other_folder(shim: Any, tmp_path: Path) -> None:
    target = tmp_path / "out"
    saved_by_tensorflow(target, tmp_path / "words.txt")
    assert {"assets", "variables"} <= set(os.listdir(str(target)))
    for _ in range(2):  # what TensorFlow wrote, then what we did
        assert onnx_compat.convert(relu(), target, shim=shim.name) == target
        x = np.array([[-1, 2, -3]], np.float32)
        np.testing.assert_array_equal(onnx_compat.load_converted(target, shim=shim.name).run([x])[0], np.maximum(x, 0))
    (target / "variables" / "notes.txt").write_text("the only copy")
    with pytest.raises(InputError, match=r"no SavedModel: replacing it would delete 'variables.notes\.txt'"):
        onnx_compat.convert(relu(), target, shim=shim.name)
    assert (target / "variables" / "notes.txt").read_text() == "the only copy"
    assert onnx_compat.convert(relu(), target, shim=shim.name, force=True) == target
    assert not (target / "variables" / "notes.txt").exists()
    assert sorted(os.listdir(str(tmp_path))) == ["out", "words.txt"]


def interrupted_at(real: Any, step: int) -> Any:
    """Return a function that calls `real`, and raises KeyboardInterrupt after the call with the number `step`."""
    calls: List[Any] = []

    def call(*arguments: Any) -> Any:
        calls.append(arguments)
        done = real(*arguments)
        if len(calls) == step:
            raise KeyboardInterrupt
        return done

    return call


@pytest.mark.parametrize(("owner", "name", "steps"), [(folder_replacement, "_swap", 1), (os, "rename", 3)])
def test_an_interrupt_leaves_a_saved_model(
    shim: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, steps: int
) -> None:
    """A second run replaces the folder of the first. Whichever step is interrupted, the folder that stays can be loaded."""
    target, x = tmp_path / "out", np.array([[-1, 2, -3]], np.float32)
    onnx_compat.convert(relu(), target, shim=shim.name)
    if owner is os:
        monkeypatch.setattr(folder_replacement, "_renameat2", lambda: None)
    for step in range(1, steps + 1):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, interrupted_at(getattr(owner, name), step))
            with pytest.raises(KeyboardInterrupt):
                onnx_compat.convert(relu(), target, shim=shim.name)
        np.testing.assert_array_equal(onnx_compat.load_converted(target, shim=shim.name).run([x])[0], np.maximum(x, 0))
        assert os.listdir(str(tmp_path)) == ["out"]


def test_another_kind_of_file_is_refused(shim: Any, tmp_path: Path) -> None:
    for form in forms(shim):
        path = path_of(tmp_path, form)
        if form == "graphdef":
            Path(path).write_bytes(b"\x0a\xff\xff\xff\xff not a graph")
        else:
            os.mkdir(path)
        with pytest.raises(ConversionError):
            shim.load_converted(path, form)


def test_constants_that_a_graph_cannot_hold(shim: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of a graph is set to a few bytes. tf2 then keeps the weights in variables, and tf1 raises an error."""
    from onnx_compat.errors import UnsupportedError

    weights = np.arange(1 << 15, dtype=np.float32).reshape(2, -1)
    program = record_program(
        lambda x: [primitives.matmul(x, weights)], [Port("x", dtypes.float32, (None, 2))], shim.emitter()
    )
    if shim.name == "tf1":
        import onnx_compat_tf1.graph as limited
    else:
        import onnx_compat_tf2.module as limited
    monkeypatch.setattr(limited, "GRAPH_LIMIT", 1000)
    if shim.name == "tf1":
        with pytest.raises(UnsupportedError, match="2 GB"):
            shim.compile(program)
        return
    compiled = shim.compile(program)
    x = np.ones((3, 2), np.float32)
    np.testing.assert_allclose(compiled.run([x])[0], x @ weights)
    assert len(compiled.native.variables) == 1
    path = path_of(tmp_path, "saved_model")
    shim.export(program, path, "saved_model")
    assert os.path.getsize(os.path.join(path, "saved_model.pb")) < weights.nbytes
    np.testing.assert_allclose(shim.load_converted(path, "saved_model")[0].run([x])[0], x @ weights)
