"""Weights of a conversion to .onnx, wherever a model has them: they are copied, moved or kept, and never decoded."""

import os
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
import onnx
import pytest
from building import FLOAT, INT64, model, node, require_opset, value
from onnx import helper, numpy_helper

import onnx_compat
from matrix.harness.generators import per_test
from onnx_compat.conversion import destinations
from onnx_compat.conversion.onnx_options import OnnxOptions
from onnx_compat.errors import ConversionError, InputError, InvalidModelError
from onnx_compat.retarget import rewriting
from onnx_compat.retarget.conversion import plan, retarget, write_onnx
from onnx_compat.retarget.edited_node import Inexpressible
from onnx_compat.retarget.node_forms import rewrite_node
from onnx_compat.retarget.weightless_model import LARGE, read_weightless_model

BOOL = onnx.TensorProto.BOOL
SIDE = 160
RANDOM = per_test(np.random.default_rng(0))
X = RANDOM.standard_normal((2, SIDE)).astype(np.float32)


def weight(name: str) -> Any:
    return numpy_helper.from_array(RANDOM.standard_normal((SIDE, SIDE)).astype(np.float32) / 16, name)


def everywhere() -> Any:
    """Return a model of opset 18 with a large and a small tensor in each place that a tensor can have.

    The places: initializers and Constant nodes of the main graph, of a branch and of a function; and training.
    """
    then = helper.make_graph(
        [
            node("Constant", [], ["k"], value=weight("k")),
            node("MatMul", ["h", "k"], ["t0"]),
            node("MatMul", ["t0", "v"], ["t1"]),
            node("ReduceMean", ["t1", "inner_axes"], ["t"], keepdims=1),
        ],
        "then", [], [value("t", [2, 1])], [weight("v"), numpy_helper.from_array(np.asarray([1]), "inner_axes")],
    )  # fmt: skip
    otherwise = helper.make_graph(
        [node("ReduceMean", ["h", "axes"], ["t"], keepdims=1)], "otherwise", [], [value("t", [2, 1])]
    )
    nodes = [
        node("Constant", [], ["c"], value=weight("c")),
        node("Constant", [], ["axes"], value=numpy_helper.from_array(np.asarray([1]), "axes")),
        node("MatMul", ["x", "w"], ["a"], name="first"),
        node("MatMul", ["a", "c"], ["b"]),
        node("f", ["b"], ["h"], domain="my"),
        node("If", ["flag"], ["y"], then_branch=then, else_branch=otherwise),
    ]
    ports = [value("x", [2, SIDE]), value("flag", [], BOOL)]
    proto = model(nodes, ports, [value("y", [2, 1])], {}, 18, [helper.make_opsetid("my", 1)])
    proto.graph.initializer.append(weight("w"))
    body = [node("Constant", [], ["p"], value=weight("p")), node("MatMul", ["z", "p"], ["q"])]
    proto.functions.append(helper.make_function("my", "f", ["z"], ["q"], body, [helper.make_opsetid("", 18)]))
    info = proto.training_info.add()
    info.algorithm.name = "algorithm"
    info.algorithm.initializer.append(weight("rate"))
    info.algorithm.node.append(node("MatMul", ["rate", "w"], ["next_w"]))
    return proto


def save_external(proto: Any, folder: Path, name: str = "m.onnx") -> str:
    """Write a model whose tensors are all external data in one file, and return its path."""
    copy = type(proto)()
    copy.CopyFrom(proto)
    folder.mkdir(exist_ok=True)
    content = b""
    for tensor in tensors_of(copy):
        data = numpy_helper.to_array(tensor).tobytes()
        entries = (("location", name + ".data"), ("offset", str(len(content))), ("length", str(len(data))))
        content += data
        tensor.ClearField("raw_data")
        tensor.data_location = tensor.EXTERNAL
        for key, text in entries:
            tensor.external_data.add(key=key, value=text)
    (folder / (name + ".data")).write_bytes(content)
    (folder / name).write_bytes(copy.SerializeToString())
    return str(folder / name)


def tensors_of(proto: Any) -> List[Any]:
    """Return every tensor of a model, found without onnx_compat."""
    tensors: List[Any] = []

    def visit(message: Any) -> None:
        if message.DESCRIPTOR.name == "TensorProto":
            tensors.append(message)
            return
        for field, content in message.ListFields():
            if field.message_type is not None:
                for item in content if hasattr(content, "add") else [content]:
                    visit(item)

    visit(proto)
    return tensors


def check_results(path: Any, proto: Any) -> None:
    """Check that the file computes what the model computes, for both branches."""
    for flag in (True, False):
        feed = {"x": X, "flag": np.asarray(flag)}
        got, want = onnx_compat.run(path, feed, shim="reference")[0], onnx_compat.run(proto, feed, shim="reference")[0]
        np.testing.assert_allclose(got, want, 1e-4, 1e-5)


@pytest.mark.parametrize("kind", ["path", "bytes", "bytearray", "proto"])
def test_large_tensors_of_every_place_stay_in_the_source(kind: str, tmp_path: Path) -> None:
    proto = everywhere()
    onnx.save(proto, str(tmp_path / "m.onnx"))
    content = proto.SerializeToString()
    sources = {"path": str(tmp_path / "m.onnx"), "bytes": content, "bytearray": bytearray(content), "proto": proto}
    weightless_model = read_weightless_model(sources[kind])
    assert weightless_model.proto.ByteSize() < LARGE
    assert len(weightless_model.tensors) == 6
    weightless_model.write(str(tmp_path / "again.onnx"))
    assert onnx.load(str(tmp_path / "again.onnx")) == proto
    assert weightless_model.assemble() == proto


@pytest.mark.parametrize("field", ["raw_data", "float_data", "int64_data", "int32_data", "double_data", "uint64_data"])
def test_every_form_of_numbers_is_kept_and_moved(field: str, tmp_path: Path) -> None:
    types = {"raw_data": FLOAT, "float_data": FLOAT, "int64_data": INT64, "int32_data": onnx.TensorProto.BFLOAT16,
             "double_data": onnx.TensorProto.DOUBLE, "uint64_data": onnx.TensorProto.UINT64}  # fmt: skip
    numbers = RANDOM.integers(0, 1 << 14, 40000)
    tensor = onnx.TensorProto(name="w", data_type=types[field], dims=[40000])
    if field == "raw_data":
        tensor.raw_data = numbers.astype(np.float32).tobytes()
    else:
        getattr(tensor, field).extend(numbers.tolist())
    nodes = [node("Constant", [], ["c"], value=tensor), node("Add", ["c", "w"], ["s"]), node("Shape", ["s"], ["y"])]
    proto = model(nodes, [], [value("y", [1], INT64)], {}, 14)
    proto.graph.initializer.append(tensor)
    for source in (proto, proto.SerializeToString()):
        weightless_model = read_weightless_model(source)
        assert len(weightless_model.tensors) == 2
        assert weightless_model.assemble() == proto
        onnx_compat.convert(source, tmp_path / "o.onnx", external_data="o.data", verify=False)
        moved = onnx_compat.load(tmp_path / "o.onnx").graph.initializers["w"]
        assert len(moved.array()) == 40000
        np.testing.assert_array_equal(moved.array(), onnx_compat.load(proto).graph.initializers["w"].array())


def test_a_source_in_another_folder_has_its_external_data_copied(tmp_path: Path) -> None:
    proto = everywhere()
    path = save_external(proto, tmp_path / "a")
    (tmp_path / "b").mkdir()
    for name, options in (("o.onnx", {}), ("p.onnx", {"opset": 13}), ("q.onnx", {"external_data": "safetensors"})):
        written = onnx_compat.convert(path, tmp_path / "b" / name, **options)
        os.rename(path + ".data", path + ".away")
        check_results(written, proto)
        onnx.load(str(written))
        os.rename(path + ".away", path + ".data")
    assert sorted(os.listdir(str(tmp_path / "b"))) == [
        "o.onnx", "o.onnx.data", "p.onnx", "p.onnx.data", "q.onnx", "q.safetensors",
    ]  # fmt: skip
    with pytest.raises(ConversionError, match="stays in the folder"):
        onnx_compat.convert(path, tmp_path / "b" / "r.onnx", external_data="keep")


@pytest.mark.parametrize("opset", [None, 13, 20])
def test_external_data_beside_the_source_stays_where_it_is(opset: Any, tmp_path: Path) -> None:
    require_opset(opset or 1)
    proto = everywhere()
    path = save_external(proto, tmp_path / "a")
    written = onnx_compat.convert(path, tmp_path / "a" / "o.onnx", opset=opset)
    assert sorted(os.listdir(str(tmp_path / "a"))) == ["m.onnx", "m.onnx.data", "o.onnx"]
    check_results(written, proto)
    source, result = (onnx.load(str(file), load_external_data=False) for file in (path, written))
    if opset is None:
        assert result == source
    tensors = {tensor.name: tensor for tensor in tensors_of(source)}
    for tensor in tensors_of(result):
        assert tensor == tensors[tensor.name]


def test_a_small_external_tensor_is_known_to_rules(tmp_path: Path) -> None:
    proto = model(
        [node("ReduceMean", ["x", "axes"], ["y"], name="mean")], [value("x", ["n", 3])], [value("y", ["n", 1])],
        {"axes": np.asarray([1])}, 18,
    )  # fmt: skip
    path = save_external(proto, tmp_path / "a")
    assert [entry.outcome for entry in plan(path, 13).nodes] == ["re-spelled"]
    written = onnx_compat.convert(path, tmp_path / "a" / "o.onnx", opset=13)
    (mean,) = onnx.load(str(written)).graph.node
    assert {entry.name: list(entry.ints) for entry in mean.attribute}["axes"] == [1]


def test_a_tensor_of_another_attribute_is_read_and_kept(tmp_path: Path) -> None:
    fill = numpy_helper.from_array(np.asarray([2.5], np.float32), "fill")
    proto = model([node("ConstantOfShape", ["x"], ["y"], value=fill)], [value("x", [1], INT64)], [value("y", ["n"])])
    path = save_external(proto, tmp_path / "a")
    written = onnx_compat.convert(path, tmp_path / "o.onnx", opset=9)
    assert sorted(os.listdir(str(tmp_path))) == ["a", "o.onnx", "o.onnx.data"]
    assert onnx_compat.run(written, {"x": np.asarray([2])}, shim="reference")[0].tolist() == [2.5, 2.5]


def test_external_data_of_bytes_is_found_by_the_folder_of_load(tmp_path: Path) -> None:
    proto = everywhere()
    path = save_external(proto, tmp_path / "a")
    content = Path(path).read_bytes()
    loaded = onnx_compat.load(content, folder=tmp_path / "a")
    check_results(onnx_compat.convert(loaded, tmp_path / "o.onnx", opset=17), proto)
    with pytest.raises(InvalidModelError, match="without its folder"):
        onnx_compat.convert(content, tmp_path / "p.onnx", opset=17)


def odd_bytes() -> Tuple[bytes, bytes]:
    """Return the bytes of floats with a NaN of another payload, and of bools that are 2."""
    floats = np.arange(40000, dtype=np.float32).view(np.uint32)
    floats[7] = 0x7F812345
    return floats.tobytes(), b"\2" * 80000


def test_bytes_of_moved_weights_are_unchanged(tmp_path: Path) -> None:
    floats, bools = odd_bytes()
    proto = model([node("Where", ["b", "w", "w"], ["y"])], [], [value("y", [40000])], {}, 9)
    proto.graph.initializer.add(name="w", data_type=FLOAT, dims=[40000], raw_data=floats)
    proto.graph.initializer.add(name="b", data_type=BOOL, dims=[80000], raw_data=bools)
    onnx.save(proto, str(tmp_path / "m.onnx"))
    for name in ("data", "safetensors"):
        onnx_compat.convert(tmp_path / "m.onnx", tmp_path / "o.onnx", external_data="o." + name, verify=False)
        written = onnx.load(str(tmp_path / "o.onnx"))
        assert {tensor.name: tensor.raw_data for tensor in written.graph.initializer} == {"w": floats, "b": bools}


def test_a_type_that_safetensors_lacks_comes_back_into_the_model(tmp_path: Path) -> None:
    require_opset(21)
    tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.UINT4, dims=[200000], raw_data=b"\x21" * 100000)
    proto = model([node("Cast", ["w"], ["y"], to=FLOAT)], [], [value("y", [200000])], {}, 21)
    proto.graph.initializer.append(tensor)
    tensor = proto.graph.initializer[0]
    (tmp_path / "w.data").write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = tensor.EXTERNAL
    tensor.external_data.add(key="location", value="w.data")
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    onnx_compat.convert(tmp_path / "m.onnx", tmp_path / "o.onnx", external_data="safetensors")
    (written,) = onnx.load(str(tmp_path / "o.onnx")).graph.initializer
    assert written.raw_data == b"\x21" * 100000


def test_no_file_changes_if_one_of_two_cannot_be_put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = str(tmp_path / "m.onnx")
    onnx.save(everywhere(), source)
    real, replaced = os.replace, []

    def fail(start: str, target: str) -> None:
        replaced.append(target)
        if str(target).endswith("o.onnx"):
            raise PermissionError(13, "no")
        real(start, target)

    for is_first in (True, False):
        before: Dict[str, bytes] = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
        with monkeypatch.context() as patch:
            patch.setattr(destinations.os, "replace", fail)
            with pytest.raises(InputError, match=r"o\.onnx"):
                onnx_compat.convert(source, tmp_path / "o.onnx", opset=17, external_data="o.data")
        assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
        if is_first:
            onnx_compat.convert(source, tmp_path / "o.onnx", external_data="o.data")
    assert len(replaced) >= 4


@pytest.mark.parametrize("is_external", [True, False])
def test_a_model_with_weights_is_simplified(is_external: bool, tmp_path: Path) -> None:
    proto = everywhere()
    proto.graph.node.insert(2, node("Identity", ["w"], ["same"]))
    proto.graph.node[3].input[1] = "same"
    path = save_external(proto, tmp_path / "a")
    if not is_external:
        path = str(tmp_path / "a" / "inside.onnx")
        onnx.save(proto, path)
    written = onnx_compat.convert(path, tmp_path / "a" / "o.onnx", opset=17, simplify=True)
    result = onnx.load(str(written), load_external_data=False)
    assert "Identity" not in {entry.op_type for entry in result.graph.node}
    assert [tensor.data_location for tensor in result.graph.initializer if tensor.name == "w"] == [int(is_external)]
    check_results(written, proto)


def test_a_simplified_weight_may_be_new_and_large(tmp_path: Path) -> None:
    nodes = [node("Transpose", ["w"], ["wt"], perm=[1, 0]), node("MatMul", ["x", "wt"], ["y"])]
    proto = model(nodes, [value("x", ["n", SIDE])], [value("y", ["n", SIDE])], {}, 18)
    proto.graph.initializer.append(weight("w"))
    written = onnx_compat.convert(proto, tmp_path / "o.onnx", simplify=True, external_data="o.data")
    result = onnx.load(str(written), load_external_data=False)
    assert [entry.op_type for entry in result.graph.node] == ["MatMul"]
    assert len(result.graph.initializer) == 1 and result.graph.initializer[0].data_location == 1
    got, want = (onnx_compat.run(m, {"x": X}, shim="reference")[0] for m in (written, proto))
    np.testing.assert_allclose(got, want, 1e-4, 1e-5)


def test_in_memory_results_are_whole(tmp_path: Path) -> None:
    proto = everywhere()
    result = retarget(proto, 13)
    assert not any(tensor.data_location for tensor in tensors_of(result))
    check_results(result, proto)


def test_a_composed_node_has_the_weights_of_its_subgraphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = helper.make_graph(
        [node("MatMul", ["i", "v"], ["t"]), node("Add", ["s", "t"], ["s2"]), node("Identity", ["s2"], ["o"])],
        "body", [value("s", [3, SIDE]), value("i", [3, SIDE])], [value("s2", [3, SIDE]), value("o", [3, SIDE])],
        [weight("v")],
    )  # fmt: skip
    ports = [value("s0", [3, SIDE]), value("x", [4, 3, SIDE])], [value("sN", [3, SIDE]), value("y", [4, 3, SIDE])]
    scan = node("Scan", ["s0", "x"], ["sN", "y"], body=body, num_scan_inputs=1, name="scan")
    proto = model([scan], *ports, {}, 16)

    def refuse(entry: Any, *arguments: Any) -> Any:
        if entry.op_type == "Scan":
            raise Inexpressible("this test composes it")
        return rewrite_node(entry, *arguments)

    monkeypatch.setattr(rewriting, "rewrite_node", refuse)
    monkeypatch.setattr(rewriting, "is_untouched", lambda *_: False)
    result = retarget(save_external(proto, tmp_path / "a"), 13)
    listed = {entry.node: (entry.outcome, entry.nodes > 0) for entry in plan(proto, 13).nodes}
    assert listed == {
        "scan": ("composed", True),
        "t": ("composed", False),
        "s2": ("composed", False),
        "o": ("composed", False),
    }
    (tmp_path / "a" / "o.onnx").write_bytes(result.SerializeToString())
    feed = {"s0": np.zeros((3, SIDE), np.float32), "x": RANDOM.standard_normal((4, 3, SIDE)).astype(np.float32)}
    for got, want in zip(*(onnx_compat.run(m, feed, shim="reference") for m in (tmp_path / "a" / "o.onnx", proto))):
        np.testing.assert_allclose(got, want, 1e-4, 1e-4)


def test_a_note_names_the_data_files_that_a_written_file_needs(tmp_path: Path) -> None:
    """The file cannot be copied alone."""
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    proto = model(nodes, [value("x", [2, SIDE])], [value("y", [2, SIDE])], {}, 18)
    proto.graph.initializer.append(weight("w"))
    source = save_external(proto, tmp_path)
    outcome = plan_of_file(source, tmp_path / "old.onnx")
    assert "the weights stay in 'm.onnx.data', which the file needs beside it" in outcome.notes


def test_no_data_file_without_a_weight_to_move(tmp_path: Path) -> None:
    proto = model([node("Add", ["x", "w"], ["y"])], [value("x", [2])], [value("y", [2])], {"w": np.ones(2, "f")}, 18)
    outcome = plan_of_file(proto, tmp_path / "old.onnx", external_data="old.data")
    assert "no weight has 1024 bytes: all are inside, and 'old.data' is not written" in outcome.notes
    assert os.listdir(tmp_path) == ["old.onnx"]


def plan_of_file(source: Any, path: Path, **options: Any) -> Any:
    """Write a file of opset 17. Return the plan of its conversion."""
    return write_onnx(source, str(path), OnnxOptions(opset=17, **options))[1]


def test_external_data_is_a_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="external_data is a bool, not a text"):
        onnx_compat.convert(everywhere(), tmp_path / "o.onnx", external_data=False)  # type: ignore[arg-type]
