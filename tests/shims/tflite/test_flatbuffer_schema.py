"""The tables of the .tflite format, compared with the schema in the installed runtime: table, slot, number and default.

A runtime may be older than the tables. Every field of its schema must be in the tables, in the same slot.
"""

import re

import numpy as np
import pytest
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.flatbuffer.names import ENUMS, OPERATORS
from onnx_compat_tflite.flatbuffer.schema import TABLES, UNION_MEMBERS, complete

generated = pytest.importorskip("ai_edge_litert.schema_py_generated")


def camel(name):
    head, *rest = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest)


def attribute(item, name):
    """Return the value of a field of a generated class. The generator changes the capitals of names."""
    wanted = camel(name).lower()
    (result,) = [key for key in vars(item) if key.lower() == wanted]
    return getattr(item, result)


def known_names(item, name):
    """Return whether the generated class of the runtime has the field."""
    return camel(name).lower() in {key.lower() for key in vars(item)}


def members(enum):
    return {key: value for key, value in vars(enum).items() if isinstance(value, int) and not key.startswith("_")}


def test_operator_numbers():
    assert members(generated.BuiltinOperator).items() <= OPERATORS.numbers.items()


def test_tensor_types():
    result = {key.lower(): value for key, value in members(generated.TensorType).items()}
    assert result.items() <= ENUMS["TensorType"].numbers.items()


@pytest.mark.parametrize("union", sorted(UNION_MEMBERS))
def test_union_members(union):
    result = members(getattr(generated, union))
    names = [name for name, _ in sorted(result.items(), key=lambda pair: pair[1])][1:]
    assert names == UNION_MEMBERS[union][: len(names)]
    assert names


@pytest.mark.parametrize("name", sorted(name for name in TABLES if hasattr(generated, name + "T")))
def test_table(name):
    plain = getattr(generated, name + "T")()
    names = {key.lower() for key in vars(plain)}
    ours = {camel(field.name).lower() for field in TABLES[name].fields}
    unions = {camel(field.name).lower() + "type" for field in TABLES[name].fields if field.kind == "union"}
    assert names - {"deprecatedtag"} <= ours | unions
    for field in TABLES[name].fields:
        if field.kind == "scalar" and known_names(plain, field.name):
            default = ENUMS[field.type].number(field.default) if field.type in ENUMS else field.default
            assert attribute(plain, field.name) == default


def sample(field):
    return {"scalar": 1, "string": "text", "vector": [1, 0, 1]}.get(field.kind)


def test_generated_code_reads_every_option():
    """A file with every operator and every option is read by the generated object API of the runtime."""
    graph = fb.SubGraph([fb.TensorSpec("t", "float32", (1,))])
    for name in OPERATORS.names:
        table = fb.options_table(name)
        options = {field.name: sample(field) for field in TABLES[table].fields} if table else {}
        graph.operators.append(fb.OperatorSpec(name, [0], [0], options, version=7))
    data = fb.to_bytes(fb.ModelSpec([graph]))
    model = generated.ModelT.InitFromPackedBuf(data, 0)
    assert len(model.subgraphs[0].operators) == len(OPERATORS.names)
    for name, operator in zip(OPERATORS.names, model.subgraphs[0].operators):
        code = model.operatorCodes[operator.opcodeIndex]
        assert (code.builtinCode, code.version) == (OPERATORS.numbers[name], 7)
        assert code.deprecatedBuiltinCode == min(127, code.builtinCode)
        table = fb.options_table(name)
        options = operator.builtinOptions or operator.builtinOptions2
        assert (table is None) == (options is None)
        for field in TABLES[table].fields if table else ():
            if not known_names(options, field.name):
                continue
            result = attribute(options, field.name)
            result = result.decode() if isinstance(result, bytes) else result
            assert np.array_equal(result, sample(field)), (name, field.name)


def test_generated_code_reads_the_rest():
    value = np.arange(5, dtype=np.float32)
    graph = fb.SubGraph(name="g")
    x = graph.add(fb.TensorSpec("x", "float32", (-1, 5), quantization=fb.Quantization([0.5], [3], axis=1)))
    c = graph.add(fb.TensorSpec("c", "float32", (5,), value))
    y = graph.add(fb.TensorSpec("y", "float32", (-1, 5), is_variable=True))
    graph.operators.append(fb.OperatorSpec("ADD", [x, c], [y], intermediates=[c], mutating=[True, False]))
    graph.inputs, graph.outputs = [x], [y]
    spec = fb.ModelSpec([graph], [fb.Signature({"in": x}, {"out": y}, "sig")], {"m": b"abc"}, "d")
    model = generated.ModelT.InitFromPackedBuf(fb.to_bytes(spec), 0)
    assert (model.version, model.description) == (3, b"d")
    tensors = model.subgraphs[0].tensors
    assert tensors[0].shapeSignature.tolist() == [-1, 5]
    assert tensors[0].shape.tolist() == [1, 5]
    assert tensors[0].hasRank
    assert tensors[0].quantization.scale.tolist() == [0.5]
    assert tensors[0].quantization.zeroPoint.tolist() == [3]
    assert tensors[0].quantization.quantizedDimension == 1
    assert tensors[2].isVariable
    np.testing.assert_array_equal(model.buffers[tensors[1].buffer].data.view(np.float32), value)
    assert model.buffers[0].data is None
    signature = model.signatureDefs[0]
    assert (signature.signatureKey, signature.inputs[0].name, signature.outputs[0].tensorIndex) == (b"sig", b"in", y)
    entries = {entry.name: bytes(model.buffers[entry.buffer].data) for entry in model.metadata}
    assert entries[b"m"] == b"abc"
    assert re.match(rb"\d+\.\d+\.\d+\0", entries[b"min_runtime_version"])
    operator = model.subgraphs[0].operators[0]
    assert operator.intermediates.tolist() == [c]
    assert operator.mutatingVariableInputs.tolist() == [True, False]


def test_ours_reads_what_generated_code_writes():
    flatbuffers = pytest.importorskip("flatbuffers")
    model = generated.ModelT.InitFromPackedBuf(fb.to_bytes(everything()), 0)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    model_read = fb.read(bytes(builder.Output()))
    for ours, theirs in zip(everything().subgraphs[0].operators, model_read.subgraphs[0].operators):
        assert (ours.builtin, list(ours.outputs)) == (theirs.builtin, list(theirs.outputs))
        table = fb.options_table(ours.builtin)
        if table is not None:
            assert theirs.options == complete(table, ours.options)


def everything():
    graph = fb.SubGraph([fb.TensorSpec("t", "int64", (3,), np.int64([1, 2, 3]))])
    graph.operators = [
        fb.OperatorSpec("CONV_2D", [0], [0], {"padding": "VALID", "stride_w": 2, "fused_activation_function": "RELU"}),
        fb.OperatorSpec("RESHAPE", [0], [0], {"new_shape": [3, 1]}),
        fb.OperatorSpec("CAST", [0], [0], {"in_data_type": "int64", "out_data_type": "bool"}),
        fb.OperatorSpec("REDUCE_WINDOW", [0], [0], {"reduce_function": "MAXIMUM"}),
        fb.OperatorSpec("TANH", [0], [0]),
    ]
    return fb.ModelSpec([graph])
