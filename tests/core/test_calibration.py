"""Calibration data in every form: its samples, and the errors on data that does not fit the model."""

import sys
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest
from building import INT64, model, node, value
from PIL import Image

import onnx_compat
from onnx_compat.calibration import Images, batch, samples
from onnx_compat.errors import InputError, MissingDependencyError


def two_inputs(first: Any = "n") -> Any:
    """Return a model with the inputs `x` of shape [first, 3] and `k` of shape [first]."""
    nodes = [node("Cast", ["k"], ["f"], to=1), node("Unsqueeze", ["f", "one"], ["g"]), node("Add", ["x", "g"], ["y"])]
    inputs = [value("x", [first, 3]), value("k", [first], INT64)]
    return onnx_compat.load(model(nodes, inputs, [value("y")], {"one": np.asarray([1])}))


def image_input(*shape: Any) -> Any:
    return onnx_compat.load(model([node("Relu", ["x"], ["y"])], [value("x", shape)], [value("y")]))


def arrays(count: int) -> Dict[str, np.ndarray]:
    return {"x": np.arange(count * 3, dtype=np.float32).reshape(count, 3), "k": np.arange(count)}


def shapes(loaded: Any, data: Any) -> List[Any]:
    return [{name: array.shape for name, array in sample.items()} for sample in samples(loaded, data)]


def test_arrays_are_cut_along_the_first_axis(tmp_path: Path) -> None:
    np.savez(str(tmp_path / "a.npz"), **arrays(4))
    for data in (arrays(4), tmp_path / "a.npz", str(tmp_path / "a.npz")):
        results = list(samples(two_inputs(), data))
        assert [sample["k"].tolist() for sample in results] == [[0], [1], [2], [3]]
        assert all(sample["x"].shape == (1, 3) for sample in results)


def test_samples_have_the_length_that_the_model_takes() -> None:
    assert shapes(two_inputs(2), arrays(6)) == [{"x": (2, 3), "k": (2,)}] * 3
    with pytest.raises(InputError, match="5 long, and the model takes 2 at once"):
        list(samples(two_inputs(2), arrays(5)))


def test_one_axis_more_counts_samples() -> None:
    data = {"x": np.zeros((5, 7, 3), np.float32), "k": np.zeros((5, 7), np.int64)}
    assert shapes(two_inputs(), data) == [{"x": (7, 3), "k": (7,)}] * 5


def test_a_folder_holds_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name, count in (("b", 1), ("a", 2)):
        np.savez(str(tmp_path / (name + ".npz")), **arrays(count))
    assert [sample["k"].item() for sample in samples(two_inputs(), tmp_path)] == [0, 1, 0]


def test_an_array_feeds_the_only_input(tmp_path: Path) -> None:
    array = np.ones((3, 1, 4, 4), np.float32)
    np.save(str(tmp_path / "a.npy"), array)
    for data in (array, tmp_path / "a.npy", tmp_path):
        assert shapes(image_input("n", 1, 4, 4), data) == [{"x": (1, 1, 4, 4)}] * 3
    with pytest.raises(InputError, match="no names, and the model has 2 inputs"):
        list(samples(two_inputs(), array))


def test_an_iterable_gives_samples_in_any_form() -> None:
    sample = arrays(2)
    given = ({"x": sample["x"], "k": sample["k"]} if index else [sample["x"], sample["k"]] for index in range(3))
    assert shapes(two_inputs(), given) == [{"x": (2, 3), "k": (2,)}] * 3
    assert shapes(image_input(1, 1, 2, 2), iter([np.ones((1, 1, 2, 2), np.float32)])) == [{"x": (1, 1, 2, 2)}]


def test_generated_samples_differ() -> None:
    results = list(samples(two_inputs(), "generated"))
    assert len(results) > 8 and not np.array_equal(results[0]["x"], results[1]["x"])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (
            {"x": np.zeros((4, 2), np.float32), "k": np.zeros(4, np.int64)},
            "sample 0: the input 'x' has size 2 on axis 1",
        ),
        ({"x": np.zeros((4, 3), np.float32)}, "sample 0: the input 'k' is not given"),
        ({"x": np.zeros((4, 3)), "k": np.zeros(4, np.int64)}, "'x' is float64, the model takes float32"),
        ({"x": np.zeros((4, 3), np.float32), "k": np.zeros(3, np.int64)}, "4 of 'x', 3 of 'k'"),
        ({"x": np.zeros((0, 3), np.float32), "k": np.zeros(0, np.int64)}, "holds no sample"),
        ({"x": np.full((1, 3), np.nan, np.float32), "k": np.zeros(1, np.int64)}, "not finite"),
        ({"z": np.zeros(3)}, "no input named 'z'"),
        ([arrays(1), {"x": np.zeros((2, 3), np.float32), "k": np.zeros(1, np.int64)}], "sample 1: the size 'n'"),
        ([[np.zeros((0, 3), np.float32), np.zeros(0, np.int64)]], "has no elements"),
        ([], "holds no sample"),
        (7, "int is no calibration data"),
        ("nowhere", "no file or folder 'nowhere'"),
    ],
)
def test_samples_that_do_not_fit_are_refused(data: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        list(samples(two_inputs(), data))


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_text("no archive")
    (tmp_path / "a.txt").write_text("text")
    for path, reason in (("a.npz", "is not a .npz file"), ("a.txt", "is no calibration data")):
        with pytest.raises(InputError, match=reason):
            list(samples(two_inputs(), tmp_path / path))
    (tmp_path / "a.npy").write_text("no array")
    with pytest.raises(InputError, match="files of several kinds"):
        list(samples(two_inputs(), tmp_path))
    with pytest.raises(InputError, match=r"is not a \.npy file"):
        list(samples(image_input(1, 1, 2, 2), tmp_path / "a.npy"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no \.npz file"):
        list(samples(two_inputs(), tmp_path / "empty"))


def test_only_tensors_can_be_calibrated() -> None:
    proto = model([node("Relu", ["x"], ["y"])], [value("x", ["n"])], [value("y")])
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(InputError, match="known rank"):
        next(samples(onnx_compat.load(proto), np.zeros(3, np.float32)))


def test_a_batch_joins_samples_where_the_first_axis_is_open() -> None:
    assert batch(two_inputs(), arrays(5))["x"].shape == (5, 3)
    assert batch(two_inputs(), arrays(50), limit=8)["k"].shape == (8,)
    assert batch(two_inputs(2), arrays(6))["x"].shape == (2, 3)
    unlike = [arrays(1), arrays(2), arrays(1)]
    assert batch(two_inputs(), unlike)["k"].tolist() == [0, 0]


@pytest.fixture(name="images")
def _images(tmp_path: Path) -> Path:
    Image.fromarray(np.full((10, 20, 3), (255, 0, 51), np.uint8)).save(str(tmp_path / "a.png"))
    Image.fromarray(np.full((8, 8), 102, np.uint8)).save(str(tmp_path / "b.png"))
    return tmp_path


def test_images_are_resized_and_scaled_in_the_layout_of_the_input(images: Path) -> None:
    first, second = (sample["x"] for sample in samples(image_input("n", 3, 4, 6), images))
    assert first.shape == (1, 3, 4, 6) and first.dtype == np.float32
    np.testing.assert_allclose(first[0, :, 2, 3], [1, 0, 0.2], rtol=1e-6)
    np.testing.assert_allclose(second[0, :, 2, 3], 0.4, rtol=1e-6)
    how = Images(str(images), mean=(0.5, 0.5, 0.2), std=(0.5,))
    moved = next(samples(image_input(1, 4, 6, 3), how))["x"]
    assert moved.shape == (1, 4, 6, 3)
    np.testing.assert_allclose(moved[0, 2, 3], [1, -1, 0], atol=1e-6)
    assert next(samples(image_input(1, 1, 5, 5), images))["x"].shape == (1, 1, 5, 5)


@pytest.mark.parametrize(
    ("shape", "how", "reason"),
    [
        ((1, 3, "h", 4), {}, "known height and width"),
        ((1, 5, 4, 4), {}, "1 or 3 channels"),
        ((2, 3), {}, "only input is an image"),
        ((1, 3, 4, 4), {"mean": (1.0, 2.0)}, "the mean of the images"),
        ((1, 3, 4, 4), {"std": (0.0,)}, "the std of the images"),
    ],
)
def test_images_that_do_not_fit_are_refused(images: Path, shape: Any, how: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        list(samples(image_input(*shape), Images(str(images), **how)))


def test_a_broken_image_is_named(images: Path) -> None:
    (images / "c.png").write_text("no image")
    with pytest.raises(InputError, match=r"c\.png"):
        list(samples(image_input(1, 3, 4, 4), images))
    with pytest.raises(InputError, match="no folder"):
        list(samples(image_input(1, 3, 4, 4), Images(str(images / "c.png"))))


def test_images_without_pillow(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingDependencyError, match="Pillow"):
        list(samples(image_input(1, 3, 4, 4), images))
