"""Stamps of the cache: it is stale if and only if its inputs or its code have changed."""

import pytest

from matrix.stamp import Stamp


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ONNX_COMPAT_CACHE", str(tmp_path / "cache"))


def test_a_stamp_is_fresh_until_its_request_changes():
    stamp = Stamp("zoo", "zoo", "small", "torch==1")
    assert not stamp.fresh()
    stamp.write()
    assert Stamp("zoo", "zoo", "small", "torch==1").fresh()
    assert not Stamp("zoo", "zoo", "small", "torch==2").fresh()
    assert not Stamp("zoo-full", "zoo", "full", "torch==1").fresh()


def test_a_stamp_depends_on_the_code(tmp_path, monkeypatch):
    room = tmp_path / "matrix" / "zoo"
    room.mkdir(parents=True)
    (room / "code.py").write_text("x = 1\n", encoding="utf-8")
    monkeypatch.setattr("matrix.stamp.ROOT", tmp_path)
    Stamp("zoo", "zoo").write()
    assert Stamp("zoo", "zoo").fresh()
    (room / "code.py").write_text("x = 2\n", encoding="utf-8")
    assert not Stamp("zoo", "zoo").fresh()
