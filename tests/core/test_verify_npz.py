import numpy as np
import pytest

from onnx_compat.errors import InputError, UnsupportedError
from onnx_compat.verification import load_npz, save_npz
from onnx_compat.verification.npz import load_inputs


def test_round_trip(tmp_path):
    values = {
        "file": np.float32([1, 2]),
        "a/b:0": np.int64(3),
        "text": np.array(["x", "äö"], object),
        "sequence": [np.zeros(2), np.ones(3)],
        "absent": None,
    }
    path = save_npz(tmp_path / "v.npz", values)
    loaded = load_npz(path)
    assert set(loaded) == set(values)
    assert loaded["absent"] is None
    np.testing.assert_array_equal(loaded["file"], values["file"])
    assert loaded["a/b:0"] == 3
    assert loaded["text"].tolist() == ["x", "äö"]
    assert [element.shape for element in loaded["sequence"]] == [(2,), (3,)]
    assert [entry.name for entry in tmp_path.iterdir()] == ["v.npz"]


def test_numpy_reads_it_too(tmp_path):
    with np.load(str(save_npz(tmp_path / "v.npz", {"x": np.arange(3)}))) as archive:
        assert archive["x"].tolist() == [0, 1, 2]


def test_a_failed_write_keeps_the_old_file(tmp_path):
    path = save_npz(tmp_path / "v.npz", {"x": np.arange(3)})
    with pytest.raises(UnsupportedError, match="not text"):
        save_npz(path, {"x": np.arange(4), "y": np.array([object()])})
    assert load_npz(path)["x"].size == 3
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 truncated"])
def test_a_bad_file_is_named(tmp_path, content):
    path = tmp_path / "bad.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.npz"):
        load_npz(path)


def test_a_text_file_is_no_npz_file(tmp_path):
    path = tmp_path / "inputs.txt"
    path.write_text("1 2 3 and some words", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_npz(path)
    assert caught.value.reason == "'%s' is not a .npz file: it is a text file" % path
    assert "allow_pickle" not in str(caught.value)


def test_a_missing_input_shows_the_names_that_the_file_holds(tmp_path):
    path = save_npz(tmp_path / "v.npz", {})
    with pytest.raises(InputError, match="has no array for the input 'x', 'y'") as caught:
        load_inputs(path, ["x", "y"])
    assert "the file holds no arrays" in caught.value.hint
    path = save_npz(tmp_path / "v.npz", {"x": np.zeros(2)})
    with pytest.raises(InputError, match="has no array for the input 'y'") as caught:
        load_inputs(path, ["x", "y"])
    assert "the file holds: 'x'" in caught.value.hint
    assert set(load_inputs(path, ["x"])) == set(load_inputs(path, ["y"])) == {"x"}


def test_pickles_are_refused(tmp_path):
    path = tmp_path / "pickled.npz"
    np.savez(str(path), x=np.array([{"a": 1}], object))
    with pytest.raises(InputError, match="not a readable"):
        load_npz(path)


def test_a_bare_array_and_a_missing_file(tmp_path):
    np.save(str(tmp_path / "x.npy"), np.arange(3))
    with pytest.raises(InputError, match="one unnamed array"):
        load_npz(tmp_path / "x.npy")
    with pytest.raises(InputError, match="no file"):
        load_npz(tmp_path / "none.npz")


def test_a_sequence_with_gaps(tmp_path):
    np.savez(str(tmp_path / "g.npz"), **{"s[0]": np.zeros(1), "s[2]": np.zeros(1)})
    with pytest.raises(InputError, match="'s' has gaps"):
        load_npz(tmp_path / "g.npz")


NESTED = {
    "nested": [[np.zeros(2), np.ones(1)], [], [np.ones(3)]],
    "holes": [np.zeros(2), None, np.ones(2)],
    "empty": [],
    "none": None,
    "maps": [{"a": 0.5, "b": 1.5}, {}],
    "numbers": {3: 1, 5: 2},
    "a[b]": [np.zeros(1)],
}


def _plain(value):
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def test_sequences_maps_and_none_at_any_depth(tmp_path):
    loaded = load_npz(save_npz(tmp_path / "v.npz", NESTED))
    assert {name: _plain(value) for name, value in loaded.items()} == {n: _plain(v) for n, v in NESTED.items()}
    assert load_npz(save_npz(tmp_path / "v.npz", loaded)).keys() == NESTED.keys()


@pytest.mark.parametrize(
    "entries",
    [
        ["s", "s[0]"],
        ["s[0]", "s[0][0]"],
        ["s[0][0]", "s[0]"],
        ["s[]", "s[0]"],
        ["s[none]", "s[0]"],
        ["m[keys]"],
        ["m[keys]", "m[0]"],
        ["s[1][0]"],
        ["s" + "[0]" * 70],
    ],
)
def test_entries_that_contradict_each_other(tmp_path, entries):
    np.savez(str(tmp_path / "c.npz"), **{entry: np.zeros(1) for entry in entries})
    with pytest.raises(InputError):
        load_npz(tmp_path / "c.npz")


def test_the_keys_and_values_of_a_map_are_equally_many(tmp_path):
    np.savez(str(tmp_path / "m.npz"), **{"m[keys]": np.arange(2), "m[values]": np.arange(3)})
    with pytest.raises(InputError, match="other keys than values"):
        load_npz(tmp_path / "m.npz")
