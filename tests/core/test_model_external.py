"""External data: the file locations that are allowed, and the errors for all others."""

import hashlib
import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_compat.errors import InvalidModelError
from onnx_compat.model import external, load

WEIGHTS = np.arange(6, dtype=np.float32).reshape(2, 3)


def model_of(**entries):
    weights = TensorProto(name="w", data_type=1, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        weights.external_data.add(key=key, value=str(value))
    graph = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["y"])], "g", [], [onnx.ValueInfoProto(name="y")], [weights]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def folder(tmp_path):
    inside = tmp_path / "model"
    inside.mkdir()
    (inside / "data.bin").write_bytes(b"12345678" + WEIGHTS.tobytes() + b"rest")
    (tmp_path / "secret.bin").write_bytes(WEIGHTS.tobytes())
    return inside


def save(folder, **entries):
    path = folder / "m.onnx"
    path.write_bytes(model_of(**entries).SerializeToString())
    return path


def test_a_checksum_is_verified_once_for_a_file(folder, monkeypatch):
    digest = hashlib.sha1((folder / "data.bin").read_bytes()).hexdigest()  # noqa: S324 (what the specification says)
    load(save(folder, location="data.bin", offset=8, length=24, checksum=digest.upper())).graph.initializers[
        "w"
    ].array()
    wrong = load(save(folder, location="data.bin", offset=8, length=24, checksum="0" * 40)).graph.initializers["w"]
    counted = Counted()
    monkeypatch.setattr(external.hashlib, "sha1", counted)
    for _ in range(2):
        with pytest.raises(InvalidModelError, match=r"the SHA-1 of the external data file 'data\.bin'"):
            wrong.array()
    assert counted.calls == 1


class Counted:
    """SHA-1 that counts its uses."""

    calls = 0
    original = staticmethod(hashlib.sha1)

    def __call__(self):
        self.calls += 1
        return self.original()


def test_data_is_read_on_demand(folder, monkeypatch):
    path = save(folder, location="data.bin", offset=8, length=24)
    initializer = load(path).graph.initializers["w"]
    assert np.array_equal(initializer.array(), WEIGHTS) and not np.shares_memory(
        initializer.array(), initializer.array()
    )
    assert not initializer.array().flags.writeable
    monkeypatch.chdir(folder)
    assert np.array_equal(load("m.onnx").graph.initializers["w"].array(), WEIGHTS)
    assert np.array_equal(
        load(save(folder, location="./data.bin", offset="8")).graph.initializers["w"].array(), WEIGHTS
    )


def test_bytes_need_a_folder(folder):
    proto = model_of(location="data.bin", offset=8)
    for source in (proto, proto.SerializeToString()):
        with pytest.raises(InvalidModelError, match="'w'") as caught:
            load(source)
        assert "pass the path" in str(caught.value)
        assert np.array_equal(load(source, folder=folder).graph.initializers["w"].array(), WEIGHTS)


def test_a_missing_data_file(folder):
    for location in ("absent.bin", "no/such/data.bin"):
        with pytest.raises(InvalidModelError, match="is not in the model's folder") as caught:
            load(save(folder, location=location))
        assert location in str(caught.value) and "'w'" in str(caught.value)
    (folder / "sub").mkdir()
    with pytest.raises(InvalidModelError, match="is not a file"):
        load(save(folder, location="sub"))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": 16, "length": 24}, "bytes 16 to 40"),
        ({"offset": 10**15}, "which has 36"),
        ({"offset": 8, "length": 23}, "23 bytes long"),
        ({"offset": 0, "length": 10**15}, "1000000000000000 bytes long"),
        ({"offset": -8}, "offset '-8'"),
        ({"offset": "x"}, "offset 'x'"),
        ({"offset": "9" * 5000}, "not a count"),
        ({"offset": "²"}, "not a count"),
        ({"length": "1e3"}, "length '1e3'"),
    ],
)
def test_offsets_and_lengths_that_do_not_fit(folder, entries, message):
    with pytest.raises(InvalidModelError, match=message) as caught:
        load(save(folder, location="data.bin", **entries))
    assert "'w'" in str(caught.value)


def test_locations_outside_the_folder(folder):
    (folder / "sub").mkdir()
    outside = folder.parent / "secret.bin"
    for location in (
        "../secret.bin",
        "sub/../../secret.bin",
        "sub/../data.bin",
        str(outside),
        "",
        "..\\secret.bin",
        "a\0b",
        ".",
    ):
        with pytest.raises(InvalidModelError, match="not inside the model's folder") as caught:
            load(save(folder, location=location))
        assert "'w'" in str(caught.value)
    with pytest.raises(InvalidModelError, match="not inside"):
        load(save(folder))


def test_links_to_outside_the_folder(folder):
    os.symlink(str(folder.parent / "secret.bin"), str(folder / "link.bin"))
    os.symlink(str(folder.parent), str(folder / "up"))
    os.symlink("link.bin", str(folder / "twice.bin"))
    twin = folder.parent / "model-2"  # a folder whose name begins with the name of the model's folder
    twin.mkdir()
    (twin / "data.bin").write_bytes(WEIGHTS.tobytes())
    os.symlink(str(twin / "data.bin"), str(folder / "twin.bin"))
    for location in ("link.bin", "up/secret.bin", "twice.bin", "twin.bin", "up/model-2/data.bin"):
        with pytest.raises(InvalidModelError, match="not inside the model's folder"):
            load(save(folder, location=location))


def test_links_to_inside_the_folder(folder):
    os.symlink("data.bin", str(folder / "link.bin"))
    assert np.array_equal(load(save(folder, location="link.bin", offset=8)).graph.initializers["w"].array(), WEIGHTS)


def test_a_download_cache_of_links(folder):
    """Model and data are links into one folder, as in a download cache: data in the folder of the link's target is
    allowed.
    """
    snapshot = folder.parent / "snapshot"
    snapshot.mkdir()
    os.rename(str(save(folder, location="data.bin", offset=8)), str(folder / "a1b2"))
    os.symlink(str(folder / "a1b2"), str(snapshot / "m.onnx"))
    os.symlink(str(folder / "data.bin"), str(snapshot / "data.bin"))
    assert np.array_equal(load(snapshot / "m.onnx").graph.initializers["w"].array(), WEIGHTS)


def test_data_that_changes_after_loading(folder):
    for change in ("shorter", "linked", "gone"):
        (folder / "data.bin").write_bytes(b"12345678" + WEIGHTS.tobytes())
        initializer = load(save(folder, location="data.bin", offset=8)).graph.initializers["w"]
        os.remove(str(folder / "data.bin"))
        if change == "shorter":
            (folder / "data.bin").write_bytes(b"123")
        elif change == "linked":
            os.symlink(str(folder.parent / "secret.bin"), str(folder / "data.bin"))
        with pytest.raises(InvalidModelError):
            initializer.array()
        if os.path.lexists(str(folder / "data.bin")):
            os.remove(str(folder / "data.bin"))


def test_a_model_that_onnx_saved(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["y"])],
        "g",
        [],
        [onnx.ValueInfoProto(name="y")],
        [onnx.numpy_helper.from_array(np.arange(5000, dtype=np.int64), "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "m.onnx"
    onnx.save_model(proto, str(path), save_as_external_data=True, location="m.data")
    assert path.stat().st_size < 1000
    assert load(path).graph.initializers["w"].array().tolist() == list(range(5000))


def test_a_location_that_no_file_can_have_is_refused_at_once(folder):
    for location in ("a/" * 500000, "./" * 3000 + "data.bin"):
        with pytest.raises(InvalidModelError, match="has %d characters" % len(location)) as caught:
            load(save(folder, location=location, offset=8))
        assert len(str(caught.value)) < 1000
