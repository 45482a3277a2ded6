"""The .tflite format without a runtime: a model that is written is read back, and a malformed file is refused."""

import contextlib
import os
import struct

import numpy as np
import pytest
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.flatbuffer import strings
from onnx_compat_tflite.flatbuffer.names import OPERATORS
from onnx_compat_tflite.flatbuffer.schema import TABLES, UNION_MEMBERS, complete

from onnx_compat.errors import ConversionError, InvalidModelError


def model(**constants):
    """Return a model with an ADD for each constant: x + c0 + c1 + …"""
    graph = fb.SubGraph(name="main")
    x = graph.add(fb.TensorSpec("x", "float32", (-1, 4)))
    graph.inputs = [x]
    for name, value in constants.items():
        c = graph.add(fb.TensorSpec(name, "float32", value.shape, value))
        y = graph.add(fb.TensorSpec("y_" + name, "float32", (-1, 4)))
        graph.operators.append(fb.OperatorSpec("ADD", [x, c], [y], {"fused_activation_function": "RELU6"}))
        x = y
    graph.outputs = [x]
    return fb.ModelSpec([graph], [fb.Signature({"x": 0}, {"y": x})], {"note": b"kept"}, "a description")


def everything():
    """Return a model with an operator of each kind, with a value for each of its options."""
    samples = {"scalar": 1, "string": "text", "vector": [1, 0]}
    graph = fb.SubGraph(name="all")
    a = graph.add(fb.TensorSpec("a", "float32", (1, 2)))
    for name in OPERATORS.names:
        if name in ("PLACEHOLDER_FOR_GREATER_OP_CODES", "CUSTOM"):
            continue
        table = fb.options_table(name)
        fields = TABLES[table].fields if table else ()
        options = {field.name: samples[field.kind] for field in fields}
        graph.operators.append(fb.OperatorSpec(name, [a, None], [a], options, version=3))
    graph.operators.append(fb.OperatorSpec("CUSTOM", [a], [a], custom_code="Mine", custom_options=b"\1\2\3"))
    graph.inputs = graph.outputs = [a]
    return fb.ModelSpec([graph])


def test_every_operator_and_option_survives():
    first = fb.read(fb.to_bytes(everything()))
    for given, op in zip(everything().subgraphs[0].operators, first.subgraphs[0].operators):
        assert op.builtin == given.builtin
        assert list(op.inputs) == list(given.inputs)
        assert set(op.options) == set(fb.options_of(given.builtin))
        for key, value in given.options.items():
            # An enumeration's 1 comes back by its name.
            same = [int(v) for v in op.options[key]] if isinstance(value, list) else op.options[key]
            assert same == value or isinstance(same, str)
    assert first.subgraphs[0].operators[-1].custom_options == b"\1\2\3"
    assert fb.to_bytes(first) == fb.to_bytes(everything())


def test_same_bytes_each_time_and_through_a_reading():
    spec = model(c=np.arange(4, dtype=np.float32), d=np.ones(4, np.float32))
    data = fb.to_bytes(spec)
    assert data == fb.to_bytes(spec)
    assert fb.to_bytes(fb.read(data)) == data
    assert fb.to_bytes(fb.read(fb.to_bytes(spec, outside=True))) == data


def test_what_is_read_is_what_was_written():
    spec = model(c=np.arange(4, dtype=np.float32))
    model_read = fb.read(fb.to_bytes(spec))
    assert model_read.description == "a description"
    assert model_read.metadata["note"] == b"kept"
    assert model_read.metadata["min_runtime_version"].rstrip(b"\0") == b"2.7.0"
    assert model_read.signatures == spec.signatures
    graph = model_read.subgraphs[0]
    assert (graph.inputs, graph.outputs, graph.name) == ([0], [2], "main")
    assert graph.tensors[0].shape == (1, 4)
    assert graph.tensors[0].shape_signature == (-1, 4)
    np.testing.assert_array_equal(graph.tensors[1].buffer, np.arange(4))
    assert graph.operators[0].options == complete(
        "AddOptions", {"fused_activation_function": "RELU6", "pot_scale_int16": True}
    )


def test_equal_constants_are_stored_once_and_aligned():
    value = np.arange(1000, dtype=np.float32)
    graph = fb.SubGraph()
    for name, array in (("a", value), ("b", value.copy()), ("c", np.stack([value, value], 1)[:, 0]), ("d", value + 1)):
        graph.add(fb.TensorSpec(name, "float32", array.shape, array))
    data = fb.to_bytes(fb.ModelSpec([graph]))
    assert 8000 < len(data) < 9000
    model_read = [tensor.buffer for tensor in fb.read(data).subgraphs[0].tensors]
    for array in model_read[:3]:
        np.testing.assert_array_equal(array, value)
    base = np.frombuffer(data, np.uint8).ctypes.data
    assert [(array.ctypes.data - base) % 16 for array in model_read] == [0] * 4


@pytest.mark.parametrize(
    ("dtype", "array"),
    [
        ("float16", np.float16([1, 2, 3])),
        ("bool", np.array([True, False, True])),
        ("complex64", np.complex64([1j, 2, 3])),
        ("uint32", np.uint32([1, 2, 2**32 - 1])),
        ("int64", np.array([1, 2, 3], ">i8")),
        ("bfloat16", np.uint16([1, 2, 3])),
        ("int4", np.uint8([0x21, 0x03])),
        ("int2", np.uint8([0x1B])),
        ("string", np.array(["a", "ä", b"\xff"], dtype=object)),
    ],
)
def test_constant_types(dtype, array):
    graph = fb.SubGraph([fb.TensorSpec("t", dtype, (3,), array)])
    (model_read,) = fb.read(fb.to_bytes(fb.ModelSpec([graph]))).subgraphs[0].tensors
    assert model_read.dtype == dtype
    if dtype == "string":
        assert list(model_read.buffer) == [b"a", "ä".encode(), b"\xff"]
    else:
        np.testing.assert_array_equal(model_read.buffer, array)


def test_quantization_survives():
    axis = fb.Quantization([0.5, 0.25], [0, 3], axis=1)
    blocks = fb.Quantization(details=("BlockwiseQuantization", {"scales": 0, "block_size": 32, "block_shape": [1, 32]}))
    graph = fb.SubGraph(
        [
            fb.TensorSpec("w", "int8", (2, 2), np.int8([[1, 2], [3, 4]]), quantization=axis),
            fb.TensorSpec("b", "int4", (8,), quantization=blocks),
        ]
    )
    model_read = fb.read(fb.to_bytes(fb.ModelSpec([graph]))).subgraphs[0].tensors
    assert model_read[0].quantization == axis
    assert model_read[1].quantization.details[1]["block_shape"] == [1, 32]


@pytest.mark.parametrize(
    "tensor",
    [
        fb.TensorSpec("t", "float32", (3,), np.zeros(4, np.float32)),
        fb.TensorSpec("t", "float32", (3,), np.zeros(3, np.float64)),
        fb.TensorSpec("t", "int32", (3,), np.zeros(3, np.float32)),
        fb.TensorSpec("t", "string", (3,), np.array(["one"], dtype=object)),
        fb.TensorSpec("t", "resource", (1,), np.zeros(1, np.int32)),
    ],
)
def test_constant_that_does_not_fit_its_tensor(tensor):
    with pytest.raises(ConversionError, match="tensor 't'"):
        fb.to_bytes(fb.ModelSpec([fb.SubGraph([tensor])]))


@pytest.mark.parametrize(
    "operator",
    [
        fb.OperatorSpec("NOT_AN_OPERATOR", [0], [0]),
        fb.OperatorSpec("ADD", [0, 7], [0]),
        fb.OperatorSpec("ADD", [0, 0], [0], {"strides": 1}),
        fb.OperatorSpec("RELU", [0], [0], {"alpha": 1}),
        fb.OperatorSpec("CONV_2D", [0, 0], [0], {"padding": "FULL"}),
        fb.OperatorSpec("CONV_2D", [0, 0], [0], {"stride_w": 2**40}),
    ],
)
def test_operator_that_the_format_cannot_hold(operator):
    with pytest.raises(ConversionError):
        fb.to_bytes(fb.ModelSpec([fb.SubGraph([fb.TensorSpec("t", "float32", (1,))], [operator])]))


def test_failed_write_leaves_nothing(tmp_path):
    target = tmp_path / "model.tflite"
    target.write_bytes(b"the old one")

    def refuse(path):
        assert os.path.getsize(path) > 100
        raise ConversionError("no")

    with pytest.raises(ConversionError):
        fb.write(model(c=np.ones(4, np.float32)), target, check=refuse)
    assert target.read_bytes() == b"the old one"
    assert os.listdir(str(tmp_path)) == ["model.tflite"]
    fb.write(model(c=np.ones(4, np.float32)), target)
    assert os.listdir(str(tmp_path)) == ["model.tflite"]
    assert len(fb.read(target).subgraphs[0].operators) == 1


def test_two_gigabytes_are_refused_by_name(tmp_path):
    huge = np.broadcast_to(np.float32(1), (2**29, 2))
    graph = fb.SubGraph([fb.TensorSpec("w", "float32", huge.shape, huge)])
    with pytest.raises(ConversionError, match="2 GB"):
        fb.write(fb.ModelSpec([graph]), tmp_path / "huge.tflite")
    assert not os.listdir(str(tmp_path))


def test_truncated_at_every_byte():
    data = fb.to_bytes(model(c=np.ones(4, np.float32)))
    for length in range(len(data)):
        try:
            fb.read(data[:length])
        except InvalidModelError:
            continue
        pytest.fail("the first %d of %d bytes were accepted" % (length, len(data)))


def test_random_damage_is_named_or_harmless():
    data = fb.to_bytes(model(c=np.ones(4, np.float32)))
    rng = np.random.RandomState(0)
    for _ in range(3000):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 6)):
            damaged[rng.randint(8, len(data))] = rng.randint(256)
        with contextlib.suppress(InvalidModelError):
            fb.read(bytes(damaged))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"TFL3",
        b"\0" * 100,
        b"\x08\0\0\0TFL3",
        np.random.RandomState(0).bytes(500),
        b"\xff\xff\xff\xffTFL3" + b"\0" * 50,
    ],
)
def test_not_a_model(data, tmp_path):
    with pytest.raises(InvalidModelError):
        fb.read(data)
    path = tmp_path / "not.tflite"
    path.write_bytes(data)
    with pytest.raises(InvalidModelError, match=r"not\.tflite") as caught:
        fb.read(path)
    assert caught.value.hint


@pytest.mark.parametrize("keep", [9, 40, 0.5, 0.9, -1])
def test_a_file_cut_short_is_named(keep, tmp_path):
    data = fb.to_bytes(model(c=np.ones(100, np.float32)))
    path = tmp_path / "cut.tflite"
    path.write_bytes(data[: int(len(data) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(InvalidModelError, match=r"cut\.tflite") as caught:
        fb.read(path)
    assert caught.value.hint


@pytest.mark.parametrize("shape", [(5, 70), (70, 300), (40, 3, 300), (1, 2, 3, 4)])
def test_weights_in_another_order_are_laid_out(shape):
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for given in (array.T, array[::-1, 1:], np.moveaxis(array, 0, -1)):
        graph = fb.SubGraph(name="main")
        graph.inputs = graph.outputs = [graph.add(fb.TensorSpec("w", "float32", given.shape, given))]
        held = fb.read(fb.to_bytes(fb.ModelSpec([graph]))).subgraphs[0].tensors[0].buffer
        np.testing.assert_array_equal(np.asarray(held).view(np.float32).reshape(given.shape), given)


def test_a_size_beyond_the_format_is_refused_by_name():
    graph = fb.SubGraph(name="main")
    graph.inputs = graph.outputs = [graph.add(fb.TensorSpec("image", "float32", (1, 2**31)))]
    with pytest.raises(ConversionError, match="'image' has the shape") as caught:
        fb.to_bytes(fb.ModelSpec([graph]))
    assert "--shape" in caught.value.hint


def test_absent_file(tmp_path):
    with pytest.raises(InvalidModelError, match="nowhere"):
        fb.read(tmp_path / "nowhere.tflite")


def test_shared_tables_cannot_unfold_without_end():
    """A thousand references to one graph, with a thousand references to one tensor: 4000 bytes would unfold to 10^6
    tensors.
    """
    out = bytearray(b"\0\0\0\0TFL3")

    def table(slots):
        vtable = len(out)
        out.extend(struct.pack("<%dH" % (2 + len(slots)), 4 + 2 * len(slots), 8, *slots))
        out.extend(bytes(-len(out) % 4))
        start = len(out)
        out.extend(struct.pack("<iI", start - vtable, 0))
        return start

    def vector(count):
        start = len(out)
        out.extend(struct.pack("<I", count) + bytes(4 * count))
        return start

    def point(at, to):
        struct.pack_into("<I", out, at, to - at)

    root = table([0, 0, 4])
    point(0, root)
    graphs = vector(2000)
    point(root + 4, graphs)
    graph = table([4])
    tensors = vector(2000)
    point(graph + 4, tensors)
    tensor = table([])
    for i in range(2000):
        point(graphs + 4 + 4 * i, graph)
        point(tensors + 4 + 4 * i, tensor)
    with pytest.raises(InvalidModelError, match="unfolds"):
        fb.read(bytes(out))


@pytest.mark.parametrize(
    "data",
    [b"", b"\1\0\0\0", b"\xff\xff\xff\x7f" + b"\0" * 8, struct.pack("<3i", 1, 12, 99), struct.pack("<3i", -1, 0, 0)],
)
def test_damaged_strings(data):
    with pytest.raises(InvalidModelError):
        strings.unpack(data)


@pytest.mark.parametrize(
    ("name", "tensors", "options", "version"),
    [
        ("ADD", ["float32", "float32"], {}, 1),
        ("ADD", ["int64", "int64"], {}, 4),
        ("CONV_2D", ["float32", "float32", "float32"], {}, 1),
        ("CONV_2D", ["float32", "int8", "float32"], {}, 2),
        ("FULLY_CONNECTED", ["float32", "float32"], {}, 6),
        ("FULLY_CONNECTED", ["float32", "float32", "float32"], {"keep_num_dims": True}, 5),
        ("FULLY_CONNECTED", ["float32", "float32", "float32"], {}, 1),
        ("BATCH_MATMUL", ["float32", "float32"], {}, 1),
        ("STRIDED_SLICE", ["float32", "int32", "int32", "int32"], {"new_axis_mask": 1}, 6),
        ("STRIDED_SLICE", ["bool", "int32", "int32", "int32"], {}, 3),
        ("BROADCAST_TO", ["float32", "int32"], {}, 2),
        ("SPLIT", ["int32", "float32"], {}, 1),
        ("RESIZE_BILINEAR", ["float32", "int32"], {"half_pixel_centers": True}, 3),
        ("CAST", ["float16"], {}, 5),
        ("WHERE", ["bool"], {}, 1),
        ("RESHAPE", ["float32", "int32"], {}, 1),
    ],
)
def test_versions(name, tensors, options, version):
    graph = fb.SubGraph([fb.TensorSpec("t", dtype, (1, 2, 2, 4)) for dtype in tensors])
    out = graph.add(fb.TensorSpec("out", tensors[0], (1, 2, 2, 4)))
    assert fb.required_version(fb.OperatorSpec(name, range(len(tensors)), [out], options), graph) == version


@pytest.mark.parametrize(("rank", "version"), [(4, 1), (5, 4), (6, 6), (7, 8)])
def test_versions_by_rank(rank, version):
    graph = fb.SubGraph([fb.TensorSpec("t", "float32", (1,) * rank), fb.TensorSpec("p", "int32", (rank,))])
    assert fb.required_version(fb.OperatorSpec("TRANSPOSE", [0, 1], [0]), graph) == version


def test_minimum_runtime():
    assert fb.minimum_runtime([]) == "2.7.0"
    assert fb.minimum_runtime([("ADD", 4), ("TRANSPOSE", 6), ("MUL", 1)]) == "2.12.0"
    assert fb.minimum_runtime([("GELU", 1)]) == "2.9.0"


def test_union_numbers_follow_the_lines():
    assert UNION_MEMBERS["BuiltinOptions"].index("Conv2DOptions") + 1 == 1
    assert UNION_MEMBERS["BuiltinOptions"].index("RightShiftOptions") + 1 == 126
    assert len(UNION_MEMBERS["BuiltinOptions2"]) == 23


@pytest.mark.parametrize("dtype", ["int32", "string", "int4"])
def test_an_empty_constant_is_read_as_a_constant(dtype: str) -> None:
    """A file stores no bytes for it: a RESHAPE to a scalar reads such a shape. Empty inputs and results are not constants."""
    graph = fb.SubGraph(name="main")
    empty = np.zeros(0, object if dtype == "string" else np.int32 if dtype == "int32" else np.int8)
    tensors = [
        fb.TensorSpec("x", "float32", (0,)),
        fb.TensorSpec("c", dtype, (0,), empty),
        fb.TensorSpec("y", "float32", (0,)),
    ]
    x, c, y = [graph.add(tensor) for tensor in tensors]
    graph.inputs, graph.outputs = [x], [y]
    graph.operators.append(fb.OperatorSpec("RESHAPE", [x, c], [y]))
    read = fb.read(fb.to_bytes(fb.ModelSpec([graph]))).subgraphs[0].tensors
    assert [tensor.buffer is not None for tensor in read] == [False, True, False]
    assert read[c].buffer.shape == (0,)
