"""The cache of cases: what is written is what is read, content is stored once, and a release's data is understood."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from matrix.suites import cache
from matrix.suites.recorded import recorded


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


def test_what_is_written_is_read() -> None:
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


def test_a_content_is_stored_once_whoever_wrote_it() -> None:
    known: dict[str, str] = {}
    first = cache.write_case("s", "1", "a", _add(producer_name="x", ir_version=7), SETS, known)
    again = cache.write_case("s", "2", "a", _add(producer_name="y", ir_version=8), SETS, known)
    other = cache.write_case("s", "2", "b", _add(), SETS[:1], known)
    assert again.folder == first.folder == "s/1/a"
    assert again.hash == first.hash != other.hash
    assert not (cache.cache_dir() / "s" / "2" / "a").exists()


def test_an_index_keeps_the_order_of_the_releases_and_what_it_had() -> None:
    rows = [cache.write_case("s", release, "a", _add(), SETS, {}) for release in ("1.10.0", "1.9.0", "1.2.3")]
    for row in rows:
        cache.write_index("s", [row])
    cache.write_index("s", [rows[0]._replace(rtol=0.5)])
    found = cache.read_index("s")
    assert [row.release for row in found] == ["1.2.3", "1.9.0", "1.10.0"]
    assert found[-1].rtol == 0.5


def test_the_data_of_a_release_is_understood(tmp_path: Path) -> None:
    simple = tmp_path / "data" / "simple" / "test_add"
    light = tmp_path / "data" / "light"
    for k, sides in enumerate(SETS):
        folder = simple / f"test_data_set_{k}"
        folder.mkdir(parents=True)
        for side, values in zip(("input", "output"), sides):
            (folder / f"{side}_0.pb").write_bytes(values[0])
    (simple / "model.onnx").write_bytes(_add())
    (simple / "data.json").write_text(json.dumps({"rtol": 0.1}), encoding="utf-8")
    light.mkdir()
    model = onnx.load_from_string(_add())
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
    (light / "light_net.onnx").write_bytes(model.SerializeToString())
    (light / "light_net_output_0.pb").write_bytes(_tensor(1))

    (case,) = recorded(tmp_path / "data", "simple")
    assert (case.name, case.sets, case.rtol, case.atol) == ("test_add", SETS, 0.1, cache.ATOL)
    (case,) = recorded(tmp_path / "data", "light")
    assert case.name == "test_net"
    assert case.sets == [([_tensor(0, 0.25, 0.5, 0.75)], [_tensor(1)])]
    assert list(recorded(tmp_path / "data", "node")) == []


def test_the_cache_is_where_the_platform_keeps_such_things(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache.cache_dir() == tmp_path / "cache"
    monkeypatch.delenv("ONNX_COMPAT_CACHE")
    monkeypatch.setattr("matrix.suites.place.sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_dir() == tmp_path / "onnx-compat"
