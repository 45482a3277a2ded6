"""Descriptions of .keras files and SavedModels that are read without their frameworks, and errors for damaged files."""

import json
import os
import shutil
import zipfile
from contextlib import suppress
from typing import Any, Dict, List, Union

import numpy as np
import pytest

import onnx_compat
from onnx_compat.errors import InputError, InvalidModelError, OnnxCompatError
from onnx_compat.inspection import foreign
from onnx_compat.inspection.describe import describe
from onnx_compat.shim.description import Description


def describe_file(path: str) -> Description:
    description = foreign.describe_foreign_file(path)
    assert description is not None
    return description


def layer(kind: str, name: str, module: str = "keras.layers", **config: Any) -> Dict[str, Any]:
    return {
        "module": module,
        "class_name": kind,
        "name": name,
        "registered_name": None,
        "config": {"name": name, **config},
    }


def keras_file(path: Any, config: Any, metadata: Any = None) -> str:
    with zipfile.ZipFile(str(path), "w") as archive:
        archive.writestr("config.json", json.dumps(config))
        archive.writestr("metadata.json", json.dumps(metadata or {"keras_version": "3.9.0", "date_saved": "now"}))
        archive.writestr("model.weights.h5", b"x" * 100)
    return str(path)


def functional() -> Dict[str, Any]:
    tensor = {"class_name": "__keras_tensor__", "config": {"shape": [None, 5], "dtype": "float32", "keras_history": []}}
    inner = layer("Sequential", "inner", layers=[layer("Dense", "a"), layer("Mine", "b", "my.layers")])
    out = layer("Identity", "y", dtype={"config": {"name": "float16"}})
    out["inbound_nodes"] = [{"args": [tensor], "kwargs": {}}]
    layers = [layer("InputLayer", "x", batch_shape=[None, 4], dtype="int32"), layer("Dense", "d"), inner, out]
    return layer("Functional", "net", layers=layers, input_layers=[["x", 0, 0]], output_layers=[["y", 0, 0]])


def test_a_keras_file(tmp_path: Any) -> None:
    path = keras_file(tmp_path / "m.keras", functional())
    facts, tables = describe_file(path)
    assert facts["model"] == "Functional 'net'"
    assert (facts["layers"], facts["weight_bytes"], facts["keras_version"]) == (4, 100, "3.9.0")
    assert facts["custom_layers"] == ["Mine"]
    assert tables["inputs_and_outputs"] == [
        {"": "input", "name": "x", "type": "int32", "shape": [None, 4]},
        {"": "output", "name": "y", "type": "float32", "shape": [None, 5]},
    ]
    assert tables["layer_counts"][0] == {"layer": "Dense", "count": 2}


def test_a_sequential_keras_file(tmp_path: Any) -> None:
    layers = [layer("InputLayer", "x", batch_shape=[None, 4], dtype="float32"), layer("Dense", "d", dtype="float32")]
    path = keras_file(tmp_path / "m.KERAS", layer("Sequential", "s", layers=layers))
    first, second = describe_file(path).tables["inputs_and_outputs"]
    assert (first["name"], second["name"], second["shape"]) == ("x", "d", None)


@pytest.mark.parametrize("config", [[], {"class_name": "F"}, {"class_name": "F", "config": {"layers": [3]}}, "text"])
def test_json_of_another_structure_is_refused(config: Any, tmp_path: Any) -> None:
    with pytest.raises(InvalidModelError, match=r"no \.keras file"):
        foreign.describe_foreign_file(keras_file(tmp_path / "m.keras", config))


def test_deeply_nested_layers_are_refused(tmp_path: Any) -> None:
    deep = '{"class_name":"M","config":{"layers":[' * 50000
    with zipfile.ZipFile(str(tmp_path / "m.keras"), "w") as archive:
        archive.writestr("config.json", deep)
        archive.writestr("metadata.json", "{}")
    with pytest.raises(InvalidModelError):
        foreign.describe_foreign_file(str(tmp_path / "m.keras"))


def encode(*fields: Any) -> bytes:
    """Encode a protobuf message. Each pair is a field number and an int, a text or a nested message."""
    content = b""
    for number, item in fields:
        data: Union[int, bytes] = item.encode() if isinstance(item, str) else item
        if isinstance(data, int):
            content += _varint(number << 3) + _varint(data % 2**64)
        else:
            content += _varint(number << 3 | 2) + _varint(len(data)) + data
    return content


def _varint(value: int) -> bytes:
    digits: List[int] = []
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])


def saved_model(folder: Any) -> str:
    def port(name: str, dtype: int, *sizes: int) -> bytes:
        shape = encode(*[(2, encode((1, size))) for size in sizes])
        return encode((1, name), (2, encode((1, name + ":0"), (2, dtype), (3, shape))))

    signature = encode((1, port("x", 9, -1, 3)), (2, port("y", 999, 2)), (3, "a method"))
    unranked = encode((1, "z"), (2, encode((2, 1), (3, encode((3, 1))))))
    library = encode((1, encode((3, encode((1, "n"), (2, "MatMul"))))))
    graph = encode((1, encode((1, "a"), (2, "Const"))), (1, encode((2, "MatMul"))), (2, library))
    signatures = [
        ("serving_default", signature),
        ("other", encode((1, unranked))),
        ("__saved_model_init_op", signature),
    ]
    meta = encode(
        (1, encode((4, "serve"), (5, "2.20.0"))),
        (2, graph),
        *[(5, encode((1, name), (2, content))) for name, content in signatures],
    )
    (folder / "variables").mkdir(parents=True)
    (folder / "variables" / "variables.index").write_bytes(b"x" * 7)
    (folder / "saved_model.pb").write_bytes(encode((1, 1), (2, meta)))
    return str(folder)


def test_a_saved_model(tmp_path: Any) -> None:
    path = saved_model(tmp_path / "m")
    facts, tables = describe_file(path)
    assert (facts["tensorflow_version"], facts["tags"], facts["nodes"], facts["functions"]) == (
        "2.20.0",
        ["serve"],
        3,
        1,
    )
    assert facts["variable_bytes"] == 7
    assert tables["operator_counts"] == [{"operator": "MatMul", "count": 2}, {"operator": "Const", "count": 1}]
    assert tables["signatures"] == [
        {"signature": "serving_default", "": "input", "name": "x", "type": "int64", "shape": [None, 3]},
        {"signature": "serving_default", "": "output", "name": "y", "type": "type 999", "shape": [2]},
        {"signature": "other", "": "input", "name": "z", "type": "float32", "shape": None},
    ]


def test_names_of_sizes_come_from_the_extra_asset(tmp_path: Any) -> None:
    path = saved_model(tmp_path / "m")
    extra = tmp_path / "m" / "assets.extra"
    extra.mkdir()
    types = {"inputs": [{"name": "x", "dtype": "int64", "shape": ["n", 3], "key": "x"}], "outputs": []}
    (extra / "onnx_compat.json").write_text(json.dumps(types))
    assert describe_file(path).tables["signatures"][0]["shape"] == ["n", 3]
    (extra / "onnx_compat.json").write_text("[1]")
    assert describe_file(path).tables["signatures"][0]["shape"] == [None, 3]


def test_a_damaged_file_raises_a_typed_error(tmp_path: Any) -> None:
    dice = np.random.RandomState(0)
    folder = saved_model(tmp_path / "m")
    for name in (keras_file(tmp_path / "m.keras", functional()), folder + "/saved_model.pb"):
        with open(name, "rb") as file:
            whole = file.read()
        for trial in range(300):
            changed = bytearray(whole[: dice.randint(len(whole))] if trial % 2 else whole)
            for _ in range(dice.randint(1, 5) if changed else 0):
                changed[dice.randint(len(changed))] = dice.randint(256)
            with open(name, "wb") as file:
                file.write(changed)
            with suppress(OnnxCompatError):
                assert foreign.describe_foreign_file(folder if name.startswith(folder) else name) is not None


def test_other_and_empty_files(tmp_path: Any) -> None:
    assert foreign.describe_foreign_file(str(tmp_path)) is None
    assert foreign.describe_foreign_file(str(tmp_path / "m.tflite")) is None
    folder = saved_model(tmp_path / "m")
    shutil.rmtree(folder + "/variables")
    (tmp_path / "m" / "saved_model.pb").write_bytes(b"")
    with pytest.raises(InvalidModelError, match="no SavedModel"):
        foreign.describe_foreign_file(folder)


@pytest.mark.parametrize("name", ["m.keras", "m.tflite", "m.tflite.zip", "m"])
def test_a_pipe_is_not_opened(tmp_path: Any, name: str) -> None:
    """Opening a pipe would wait for a writer for ever."""
    os.mkfifo(str(tmp_path / name))
    for read in (describe, onnx_compat.load_converted):
        with pytest.raises(InputError, match="a device or a pipe"):
            read(tmp_path / name)


def test_a_saved_model_with_links_and_pipes(tmp_path: Any) -> None:
    folder = saved_model(tmp_path / "m")
    plain = describe_file(folder).facts
    extra = tmp_path / "m" / "assets.extra"
    shutil.rmtree(str(extra), ignore_errors=True)
    extra.mkdir()
    (tmp_path / "m" / "dangling").symlink_to("nowhere")
    for make in (lambda path: os.symlink("/dev/zero", path), os.mkfifo):
        make(str(extra / "onnx_compat.json"))
        assert describe_file(folder).facts["nodes"] == plain["nodes"]
        (extra / "onnx_compat.json").unlink()
    (extra / "onnx_compat.json").write_text(" " * (1 << 25) + "{}")
    assert describe_file(folder).tables["signatures"]
    os.remove(folder + "/saved_model.pb")
    os.mkfifo(folder + "/saved_model.pb")
    with pytest.raises(InvalidModelError, match="is no SavedModel"):
        foreign.describe_foreign_file(folder)
