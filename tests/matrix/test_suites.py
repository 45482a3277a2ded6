"""The cache of cases: a case is read as it was written, equal contents are stored once, and data of a release is parsed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from matrix.suites import cache
from matrix.suites.chance import is_random
from matrix.suites.fetch import fetch
from matrix.suites.recorded import read_recorded
from matrix.suites.wheels import FetchError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNX_COMPAT_CACHE", str(tmp_path / "cache"))


def _add(**about: Any) -> bytes:
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None]) for name in "xyz"]
    weight = numpy_helper.from_array(np.ones(1, np.float32), "y")
    graph = helper.make_graph([helper.make_node("Add", ["x", "y"], ["z"])], "g", value[:2], value[2:], [weight])
    model: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], **about).SerializeToString()
    return model


def _tensor(*values: float) -> bytes:
    data: bytes = numpy_helper.from_array(np.array(values, np.float32)).SerializeToString()
    return data


SETS = [([_tensor(1)], [_tensor(2)]), ([_tensor(1, 2)], [_tensor(2, 3)])]


def test_a_written_case_is_read_back() -> None:
    case = cache.write_case("s", "1.2.3", "test_add", _add(), SETS, {}, 1e-2, 1e-5, ["dynamic"])
    cache.write_index("s", [case])
    assert cache.read_index("s") == [case]
    assert (case.id, case.opset, case.operators, case.sets) == ("s/1.2.3/test_add", {"": 14}, ["Add"], 2)
    assert case.model.read_bytes() == _add()
    first, second = case.data_sets()
    assert list(first.inputs) == ["x"], "an initialised input has its value in the model"
    np.testing.assert_array_equal(second.inputs["x"], [1, 2])
    np.testing.assert_array_equal(second.outputs["z"], [2, 3])


def test_a_case_may_also_feed_an_initialised_input() -> None:
    case = cache.write_case("s", "1", "a", _add(), [([_tensor(1), _tensor(5)], [_tensor(6)])], {})
    assert list(next(case.data_sets()).inputs) == ["x", "y"]


def test_sequences_and_empty_optionals_are_values() -> None:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    infos = [
        helper.make_value_info("s", helper.make_sequence_type_proto(tensor)),
        helper.make_value_info("o", helper.make_optional_type_proto(tensor)),
    ]
    graph = helper.make_graph([helper.make_node("Identity", ["s"], ["t"])], "g", infos, [])
    sequence = numpy_helper.from_list([np.ones(2, np.float32)], "s").SerializeToString()
    nothing = numpy_helper.from_optional(None, "o").SerializeToString()
    case = cache.write_case(
        "s", "1", "a", helper.make_model(graph).SerializeToString(), [([sequence, nothing], [])], {}
    )
    inputs = next(case.data_sets()).inputs
    assert isinstance(inputs["s"], list)
    np.testing.assert_array_equal(inputs["s"][0], [1, 1])
    assert inputs["o"] is None


def test_the_outputs_of_bfloat16_are_known() -> None:
    infos = [helper.make_tensor_value_info(n, t, [1]) for n, t in zip("xyz", (1, TensorProto.BFLOAT16, 1))]
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16), helper.make_node("Abs", ["x"], ["z"])]
    model = helper.make_model(helper.make_graph(nodes, "g", infos[:1], infos[1:]))
    case = cache.write_case("s", "1", "a", model.SerializeToString(), [([_tensor(1)], [])], {})
    assert next(case.data_sets()).coarse == {"y"}


def test_equal_contents_are_stored_once() -> None:
    known: dict[str, str] = {}
    first = cache.write_case("s", "1", "a", _add(producer_name="x", ir_version=7), SETS, known)
    again = cache.write_case("s", "2", "a", _add(producer_name="y", ir_version=8), SETS, known)
    other_case = cache.write_case("s", "2", "b", _add(), SETS[:1], known)
    assert again.folder == first.folder == "s/1/a"
    assert again.hash == first.hash != other_case.hash
    assert not (cache.cache_dir() / "s" / "2" / "a").exists()


def test_an_index_keeps_its_order_and_its_entries() -> None:
    rows = [cache.write_case("s", release, "a", _add(), SETS, {}) for release in ("1.10.0", "1.9.0", "1.2.3")]
    for row in rows:
        cache.write_index("s", [row])
    cache.write_index("s", [rows[0]._replace(rtol=0.5)])
    rows = cache.read_index("s")
    assert [row.release for row in rows] == ["1.2.3", "1.9.0", "1.10.0"]
    assert rows[-1].rtol == 0.5


def test_the_data_of_a_release_is_parsed() -> None:
    model = onnx.load_from_string(_add())
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
    data = {
        "simple/test_add/model.onnx": _add(),
        "simple/test_add/data.json": json.dumps({"rtol": 0.1}).encode(),
        "light/light_net.onnx": model.SerializeToString(),
        "light/light_net_output_0.pb": _tensor(1),
    }
    for k, (inputs, outputs) in enumerate(SETS):
        data[f"simple/test_add/test_data_set_{k}/input_0.pb"] = inputs[0]
        data[f"simple/test_add/test_data_set_{k}/output_0.pb"] = outputs[0]

    (case,) = read_recorded(data, "simple")
    assert (case.name, case.sets, case.rtol, case.atol) == ("test_add", SETS, 0.1, cache.ATOL)
    (case,) = read_recorded(data, "light")
    assert case.name == "test_net"
    assert case.sets == [([_tensor(0, 0.25, 0.5, 0.75)], [_tensor(1)])]
    assert list(read_recorded(data, "node")) == []


def _dropout(ratio: float | None, training: bool) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
    infos.insert(1, helper.make_tensor_value_info("t", TensorProto.BOOL, []))
    node = helper.make_node("Dropout", ["x", "" if ratio is None else "r", "t"], ["y"])
    weights = [] if ratio is None else [numpy_helper.from_array(np.array(ratio, np.float32), "r")]
    return helper.make_model(helper.make_graph([node], "g", infos[:2], infos[2:], weights))


@pytest.mark.parametrize(
    ("ratio", "training", "draws"), [(None, True, True), (0.3, True, True), (0.0, True, False), (0.3, False, False)]
)
def test_a_dropout_draws_if_it_trains_and_drops(ratio: float | None, training: bool, draws: bool) -> None:
    fed = [_tensor(1, 2, 3), numpy_helper.from_array(np.array(training)).SerializeToString()]
    assert is_random(_dropout(ratio, training), fed) == draws


def test_a_random_case_is_tagged() -> None:
    info = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph([helper.make_node("RandomNormal", [], ["y"], shape=[2])], "g", [], [info])
    case = cache.write_case("s", "1", "a", helper.make_model(graph).SerializeToString(), [([], [_tensor(1, 2)])], {})
    assert case.tags == ["random"]
    assert cache.write_case("s", "1", "b", _add(), SETS, {}).tags == []


def _release(monkeypatch: pytest.MonkeyPatch, data: dict[str, dict[str, bytes]]) -> list[str]:
    monkeypatch.setattr(
        "matrix.suites.fetch.fetch_data", lambda releases: [(release, data[release]) for release in releases]
    )
    lines: list[str] = []
    fetch(["node", "simple"], dict.fromkeys(data, 14), lines.append)
    return lines


def test_a_case_of_several_releases_is_stored_once_and_has_a_row_in_each(monkeypatch: pytest.MonkeyPatch) -> None:
    data = {
        "node/test_add/model.onnx": _add(producer_name="onnx 1"),
        "node/test_add/test_data_set_0/input_0.pb": _tensor(1),
        "node/test_add/test_data_set_0/output_0.pb": _tensor(2),
    }
    again = {**data, "node/test_add/model.onnx": _add(producer_name="onnx 2", ir_version=8)}
    changed = {**data, "node/test_add/test_data_set_0/output_0.pb": _tensor(3)}
    lines = _release(monkeypatch, {"1.0.0": data, "1.1.0": again, "1.2.0": changed})
    rows = cache.read_index("node")
    assert [row.id for row in rows] == ["node/1.0.0/test_add", "node/1.1.0/test_add", "node/1.2.0/test_add"]
    assert [row.folder for row in rows] == ["node/1.0.0/test_add", "node/1.0.0/test_add", "node/1.2.0/test_add"]
    assert len(list((cache.cache_dir() / "node").glob("*/*/model.onnx"))) == 2
    assert lines[0] == "node of onnx 1.0.0: 1 cases"
    assert lines[1] == "simple of onnx 1.0.0: 0 cases"


def test_a_release_has_the_declared_opset(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FetchError, match="up to opset 0"):
        _release(monkeypatch, {"1.0.0": {}})


def test_the_cache_lies_in_the_cache_folder_of_the_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache.cache_dir() == tmp_path / "cache"
    monkeypatch.delenv("ONNX_COMPAT_CACHE")
    monkeypatch.setattr("matrix.suites.place.sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_dir() == tmp_path / "onnx-compat"
