"""Tensors in every field and every encoding that an ONNX file can store them in."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_compat.errors import InvalidModelError, LimitError, UnsupportedError
from onnx_compat.ir import dtypes
from onnx_compat.model import load
from onnx_compat.model.storage import decode_elements, encode_elements, stored_size


def model_of(tensor, sparse=None):
    """Return a model whose only initializer is the tensor."""
    name = sparse.values.name if sparse is not None else tensor.name
    graph = helper.make_graph([helper.make_node("Identity", [name], ["y"])], "g", [], [onnx.ValueInfoProto(name="y")])
    if sparse is not None:
        graph.sparse_initializer.add().CopyFrom(sparse)
    else:
        graph.initializer.add().CopyFrom(tensor)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def make_tensor(dtype, shape=(), **fields):
    return TensorProto(name="w", data_type=dtype.onnx, dims=shape, **fields)


def read(tensor):
    return load(model_of(tensor)).graph.initializers["w"]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 8])
@pytest.mark.parametrize("dtype", [dtype for dtype in dtypes.ALL if dtype.kind != "s"], ids=str)
def test_raw_data_of_every_type(dtype, count):
    random = np.random.RandomState(count)
    data = random.randint(0, 2 if dtype.kind == "b" else 100, stored_size(dtype, count)).astype(np.uint8)
    initializer = read(make_tensor(dtype, (count, 1), raw_data=data.tobytes()))
    array = initializer.array()
    assert (array.dtype, array.shape, initializer.dtype, initializer.shape) == (
        dtype.numpy,
        (count, 1),
        dtype,
        (count, 1),
    )
    assert initializer.nbytes == array.nbytes and not array.flags.writeable
    again = np.frombuffer(encode_elements(array, dtype), np.uint8)
    assert np.array_equal(decode_elements(again, dtype, (count, 1)), array)
    if dtype.bits >= 8:
        assert again.tobytes() == data.tobytes()


@pytest.mark.parametrize("dtype", [dtype for dtype in dtypes.ALL if dtype.kind != "s"], ids=str)
def test_every_type_as_onnx_itself_reads_it(dtype):
    data = np.random.RandomState(1).randint(0, 2 if dtype.kind == "b" else 120, stored_size(dtype, 24)).astype(np.uint8)
    tensor = make_tensor(dtype, (4, 6), raw_data=data.tobytes())
    try:
        expected = numpy_helper.to_array(tensor)
    except Exception:  # noqa: BLE001 (an old onnx raises many kinds of errors for an unknown type)
        assert dtype.onnx > 16
        return
    if (
        expected.dtype.names and dtype.kind == "f"
    ):  # onnx 1.17 to 1.19 return the bits, with a byte or a half byte per number
        bits = np.ascontiguousarray(expected).view(np.uint8).reshape(-1)
        expected = decode_elements(bits if dtype.bits >= 8 else bits[::2] | bits[1::2] << 4, dtype, (4, 6))
    array = read(tensor).array()
    assert np.array_equal(array, expected.astype(dtype.numpy).reshape(4, 6))


def test_typed_fields():
    def values(dtype, shape, **fields):
        return read(make_tensor(dtype, shape, **fields)).array().tolist()

    assert values(dtypes.float32, [2], float_data=[1.5, -2]) == [1.5, -2]
    assert values(dtypes.float64, [1], double_data=[1e300]) == [1e300]
    assert values(dtypes.complex64, [1], float_data=[1, 2]) == [1 + 2j]
    assert values(dtypes.complex128, [1], double_data=[1, 2]) == [1 + 2j]
    assert values(dtypes.int64, [3], int64_data=[-1, 2**62, 300]) == [-1, 2**62, 300]
    assert values(dtypes.uint64, [1], uint64_data=[2**64 - 1]) == [2**64 - 1]
    assert values(dtypes.uint32, [1], uint64_data=[2**32 - 1]) == [2**32 - 1]
    assert values(dtypes.int8, [2], int32_data=[-1, 5]) == [-1, 5]
    assert values(dtypes.bool_, [2], int32_data=[1, 0]) == [True, False]
    assert values(dtypes.float16, [1], int32_data=[0x3C00]) == [1]
    assert values(dtypes.bfloat16, [1], int32_data=[0x3F80]) == [1]
    assert values(dtypes.float8e4m3fn, [2], int32_data=[0x38, 0xB8]) == [1, -1]
    assert values(dtypes.int4, [3], int32_data=[0x8F, 0x07]) == [-1, -8, 7]
    assert values(dtypes.uint2, [5], int32_data=[0b11100100, 1]) == [0, 1, 2, 3, 1]
    assert values(dtypes.float6e2m3, [2], int32_data=[8, 40]) == [1, -1]
    assert values(dtypes.string, [2], string_data=[b"a", "ü".encode()]) == ["a", "ü"]
    assert values(dtypes.int32, [], int32_data=[-7]) == -7
    assert values(dtypes.int64, [0, 3]) == []


def _field(dtype):
    """Return (the field of TensorProto that stores a dtype, how many bits of each stored number are used)."""
    return ("uint64_data" if dtype is dtypes.uint32 else "int32_data"), (8 if dtype.bits in (2, 4) else dtype.bits)


NARROW = [dtype for dtype in dtypes.ALL if dtype.bits < 64 and dtype.name not in ("float32", "string")]


@pytest.mark.parametrize("dtype", NARROW, ids=repr)
def test_a_number_wider_than_its_element_is_refused(dtype):
    field, bits = _field(dtype)
    least = 0 if dtype.kind == "f" else -(1 << (bits - 1))
    limit = 1 << bits
    too_wide = [limit, limit + 7] if field == "uint64_data" else [least - 1, limit, 2**30]
    if dtype is dtypes.int32:  # the field has the same width
        too_wide = []
    for number in too_wide:
        with pytest.raises(InvalidModelError, match="tensor 'w' stores the number %d, .*%s" % (number, dtype.name)):
            read(make_tensor(dtype, [1], **{field: [number]})).array()
    for number in {0, min(limit - 1, 2**31 - 1), least if field == "int32_data" else 0}:
        assert read(make_tensor(dtype, [1], **{field: [number]})).array().shape == (1,)


def test_an_integer_is_stored_with_its_sign_or_as_its_bits():
    for number in (255, -1):
        assert read(make_tensor(dtypes.uint8, [1], int32_data=[number])).array().tolist() == [255]
        assert read(make_tensor(dtypes.int8, [1], int32_data=[number])).array().tolist() == [-1]


def test_a_bool_other_than_0_and_1_is_true():
    array = read(make_tensor(dtypes.bool_, [3], raw_data=b"\x00\x01\x07")).array()
    assert array.tolist() == [False, True, True] and array.view(np.uint8).max() == 1


@pytest.mark.parametrize(
    ("tensor", "kind", "message"),
    [
        (make_tensor(dtypes.float32, [10**12]), InvalidModelError, "1000000000000"),
        (make_tensor(dtypes.float32, [10**12, 10**12, 10**12]), InvalidModelError, "impossible shape"),
        (make_tensor(dtypes.float32, [0, 2**62, 2**62]), InvalidModelError, "impossible shape"),
        (make_tensor(dtypes.float32, [-1]), InvalidModelError, "negative"),
        (make_tensor(dtypes.float32, [2], raw_data=b"1234567"), InvalidModelError, "7 bytes"),
        (make_tensor(dtypes.int4, [3], raw_data=b"1"), InvalidModelError, "1 bytes"),
        (make_tensor(dtypes.float32, [3], float_data=[1, 2]), InvalidModelError, "2 numbers"),
        (make_tensor(dtypes.string, [2], string_data=[b"a"]), InvalidModelError, "1 strings"),
        (make_tensor(dtypes.string, [1], raw_data=b"a"), InvalidModelError, "strings as raw"),
        (TensorProto(name="w", data_type=0), InvalidModelError, "no element type"),
        (TensorProto(name="w", data_type=99), UnsupportedError, "99"),
        (make_tensor(dtypes.float32, [1] * 33, raw_data=b"1234"), UnsupportedError, "33 dimensions"),
        (TensorProto(name="w", data_type=1, segment={"begin": 0, "end": 1}), UnsupportedError, "segments"),
    ],
)
def test_a_wrong_tensor_is_refused_before_memory_is_allocated(tensor, kind, message):
    with pytest.raises(kind, match=message) as caught:
        load(model_of(tensor))
    assert "'w'" in str(caught.value)


def sparse_of(values, indices, dims, shape=None):
    values = numpy_helper.from_array(np.array(values, np.float32), "w")
    indices = numpy_helper.from_array(np.array(indices, np.int64).reshape(shape or np.shape(indices)))
    return onnx.SparseTensorProto(values=values, indices=indices, dims=dims)


def test_sparse_tensors_become_dense():
    for indices in ([1, 5], [[0, 1], [1, 2]]):
        initializer = load(model_of(None, sparse_of([7, 8], indices, [2, 3]))).graph.initializers["w"]
        assert initializer.array().tolist() == [[0, 7, 0], [0, 0, 8]]


@pytest.mark.parametrize(
    ("sparse", "kind"),
    [
        (sparse_of([1], [6], [2, 3]), InvalidModelError),
        (sparse_of([1], [-1], [2, 3]), InvalidModelError),
        (sparse_of([1, 2], [3, 3], [2, 3]), InvalidModelError),
        (sparse_of([1], [[0, 3]], [2, 3]), InvalidModelError),
        (sparse_of([1], [[0, 0, 0]], [2, 3]), InvalidModelError),
        (sparse_of([1, 2], [1], [2, 3]), InvalidModelError),
        (sparse_of([1], [1], [10**12]), LimitError),
    ],
)
def test_sparse_tensors_that_are_wrong(sparse, kind):
    with pytest.raises(kind, match="sparse tensor 'w'"):
        load(model_of(None, sparse))


def test_release(tmp_path):
    weights = np.arange(100000, dtype=np.float32)
    proto = model_of(numpy_helper.from_array(weights, "w"))
    onnx.save(proto, str(tmp_path / "m.onnx"))
    model = load(tmp_path / "m.onnx")
    (tmp_path / "m.onnx").unlink()  # the open file stays readable
    initializer = model.graph.initializers["w"]
    array = initializer.array()
    assert np.array_equal(array, weights) and np.shares_memory(array, initializer.array())
    initializer.release()
    assert initializer.released and array[5] == 5
    with pytest.raises(InvalidModelError, match="'w'"):
        initializer.array()
