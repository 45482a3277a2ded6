import numpy as np
import pytest

from onnx_compat.errors import InputError, UnsupportedError
from onnx_compat.ir.dtypes import ALL, DType
from onnx_compat.model.graph import ValueInfo
from onnx_compat.model.types import MapType, OptionalType, SequenceType, TensorType
from onnx_compat.verification import generate


def tensor(name, dtype, *shape):
    return ValueInfo(name, TensorType(DType.of(dtype), shape))


def test_the_same_seed_makes_the_same_numbers():
    specs = [tensor("x", "float32", 2, 3)]
    again, different = generate(specs, seed=1)["x"], generate(specs, seed=2)["x"]
    np.testing.assert_array_equal(generate(specs, seed=1)["x"], again)
    assert not np.array_equal(again, different)
    # NumPy keeps the stream of RandomState: a seed gives the same numbers with every version.
    np.testing.assert_allclose(generate(specs, seed=0)["x"].ravel()[:2], [1.7640524, 0.4001572], rtol=1e-6)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_type(dtype):
    value = generate([tensor("x", dtype, 2, 3)])["x"]
    assert value.shape == (2, 3)
    assert DType.of(value) is dtype or not dtype.native


def test_open_dimensions_agree_by_name_and_by_axis():
    specs = [
        tensor("a", "float32", "batch", "seq"),
        tensor("b", "float32", "seq", "batch", None),
        tensor("c", "float32", None, 3, None, "height"),
    ]
    values = generate(specs)
    assert values["a"].shape == (2, 3)
    assert values["b"].shape == (3, 2, 3)
    assert values["c"].shape == (2, 3, 32, 32)
    assert generate(specs, dims={"batch": 5, "height": 7})["c"].shape == (2, 3, 32, 7)


def test_an_unknown_or_negative_dimension_is_refused():
    with pytest.raises(InputError, match=r"no dimension named 'bach'[\s\S]*'batch'"):
        generate([tensor("x", "float32", "batch")], dims={"bach": 2})
    with pytest.raises(InputError, match="negative"):
        generate([tensor("x", "float32", "batch")], dims={"batch": -1})


def test_integers_are_small_unless_they_are_pixels():
    values = generate([tensor("input_ids", "int64", 50, 50), tensor("pixels", "uint8", 3, 50, 50)])
    assert set(np.unique(values["input_ids"])) == {0, 1}
    assert values["pixels"].max() > 200


def test_no_row_of_a_mask_is_empty():
    mask = generate([tensor("attention_mask", "int64", 100, 8)])["attention_mask"]
    assert (mask[:, 0] == 1).all()
    assert (np.diff(mask, axis=1) <= 0).all()
    assert 0 < mask.mean() < 1


def test_lengths_are_positive():
    assert (generate([tensor("sequence_lens", "int32", 4)])["sequence_lens"] == 1).all()


def test_scalars_and_an_unknown_rank():
    values = generate(
        [tensor("a", "float32"), tensor("b", "bool"), ValueInfo("c", TensorType(DType.of("int64"), None))]
    )
    assert all(np.shape(value) == () for value in values.values())


def test_sequences_and_optionals_of_tensors():
    element = TensorType(DType.of("float32"), ("n",))
    values = generate([ValueInfo("s", SequenceType(element)), ValueInfo("o", OptionalType(element))])
    assert [value.shape for value in values["s"]] == [(2,), (2,)]
    assert values["o"].shape == (2,)


@pytest.mark.parametrize("kind", [None, TensorType(None, (2,)), MapType(DType.of("int64"), None)])
def test_an_input_of_an_unknown_type_is_refused_by_name(kind):
    with pytest.raises(UnsupportedError, match="'m'"):
        generate([ValueInfo("m", kind)])
