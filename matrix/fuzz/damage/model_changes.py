"""Changes of an ONNX model and of its feeds: the file stays readable, and what it says may be wrong.

A case is a zip archive with the members `model.onnx` and `input_0.pb`, `input_1.pb`, …: the inputs in order, as
TensorProto. A member is missing for an input that gets no value.
"""

from __future__ import annotations

import io
import random
import zipfile
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

__all__ = ["change_case", "join_case", "split_case"]

_INTEGERS = (-1, 0, 1, 2, 3, -2, 4, 7, 16, 100, 65536, 2**31 - 1, -(2**31), 2**31, 2**40, 2**62, 2**63 - 1, -(2**63))
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, -1e30, float("inf"), -float("inf"), float("nan"))
_TEXTS = (b"", b"constant", b"linear", b"nearest", b"SAME_UPPER", b"bidirectional", b"\xff", b"ij,jk->ik", b"a" * 300)
_DTYPES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 22)
#: No model that a change makes may compute with more elements: a fuzzer must not fill the memory.
_MOST_ELEMENTS = 1 << 16

Inputs = List[Optional[bytes]]


def join_case(model: bytes, inputs: Inputs) -> bytes:
    """Return a model and its serialised inputs as a case: the bytes of a zip archive. An input of None is left out."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr(zipfile.ZipInfo("model.onnx"), model)
        for index, content in enumerate(inputs):
            if content is not None:
                archive.writestr(zipfile.ZipInfo("input_%d.pb" % index), content)
    return written.getvalue()


def split_case(case: bytes) -> Tuple[bytes, Dict[int, Any]]:
    """Return the model of a case, and its feeds: the index of the input -> array."""
    feeds = {}
    with zipfile.ZipFile(io.BytesIO(case)) as archive:
        model = archive.read("model.onnx")
        for name in archive.namelist():
            if name.startswith("input_"):
                tensor = onnx.TensorProto.FromString(archive.read(name))
                array = numpy_helper.to_array(tensor)
                feeds[int(name[6:-3])] = _decode_texts(array) if tensor.data_type == onnx.TensorProto.STRING else array
    return model, feeds


def _decode_texts(texts: Any) -> Any:
    return np.frompyfunc(lambda text: text.decode("utf-8", "replace") if isinstance(text, bytes) else text, 1, 1)(texts)


def change_case(chance: random.Random, case: bytes, other_cases: Sequence[bytes]) -> bytes:
    """Return a case with one to four changes of its model or its feeds. `other_cases`: cases whose nodes may be copied."""
    with zipfile.ZipFile(io.BytesIO(case)) as archive:
        model = onnx.ModelProto.FromString(archive.read("model.onnx"))
        names = set(archive.namelist())
        inputs: Inputs = [
            archive.read("input_%d.pb" % index) if "input_%d.pb" % index in names else None
            for index in range(len(model.graph.input))
        ]
    for _ in range(chance.choice((1, 1, 2, 2, 3, 4))):
        chance.choice(_CHANGES)(chance, model, inputs, other_cases)
    return join_case(model.SerializeToString(), inputs)


Change = Callable[[random.Random, onnx.ModelProto, Inputs, Sequence[bytes]], None]


def _graphs(graph: onnx.GraphProto) -> List[onnx.GraphProto]:
    """Return a graph and all graphs in the attributes of its nodes, at any depth."""
    inner = [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return [graph, *(inner_graph for body in inner for inner_graph in _graphs(body))]


def _any_node(chance: random.Random, model: onnx.ModelProto) -> Optional[onnx.NodeProto]:
    """Return a random node of a model or of its subgraphs; None if there are no nodes."""
    nodes = [node for graph in _graphs(model.graph) for node in graph.node]
    return chance.choice(nodes) if nodes else None


def _change_attribute(chance: random.Random, model: onnx.ModelProto, _: Inputs, __: Sequence[bytes]) -> None:
    node = _any_node(chance, model)
    if node is None or not node.attribute:
        return
    attribute = chance.choice(node.attribute)
    kind = onnx.AttributeProto
    if chance.random() < 0.1:
        node.attribute.remove(attribute)
    elif attribute.type == kind.INT:
        attribute.i = chance.choice(_INTEGERS)
    elif attribute.type == kind.FLOAT:
        attribute.f = chance.choice(_FLOATS)
    elif attribute.type == kind.STRING:
        attribute.s = chance.choice(_TEXTS)
    elif attribute.type == kind.INTS:
        _change_list(chance, attribute.ints, _INTEGERS)
    elif attribute.type == kind.FLOATS:
        _change_list(chance, attribute.floats, _FLOATS)
    elif attribute.type == kind.STRINGS:
        _change_list(chance, attribute.strings, _TEXTS)
    elif attribute.HasField("t"):
        _change_tensor(chance, attribute.t)


def _change_list(chance: random.Random, values: Any, choices: Sequence[Any]) -> None:
    """Append to, delete from or replace an item of the list `values`, with an item of `choices` or of the list."""
    choice = chance.randrange(4)
    if choice == 0:
        values.append(chance.choice(choices))
    elif values and choice == 1:
        del values[chance.randrange(len(values))]
    elif values:
        values[chance.randrange(len(values))] = chance.choice((*choices, chance.choice(values)))


def _change_tensor(chance: random.Random, tensor: onnx.TensorProto) -> None:
    """Change an element, the shape or the dtype of `tensor`, unless it is unreadable or large."""
    try:
        array = np.array(numpy_helper.to_array(tensor))
    except Exception:  # noqa: BLE001 - a tensor that an earlier change damaged stays as it is
        return
    name = tensor.name
    if array.size > _MOST_ELEMENTS:
        return
    tensor.CopyFrom(_from_array(_changed_array(chance, array), name) or tensor)


def _from_array(array: Any, name: str) -> Optional[onnx.TensorProto]:
    """Return the TensorProto of an array, or None if the installed onnx cannot store its dtype."""
    try:
        return numpy_helper.from_array(array, name)
    except Exception:  # noqa: BLE001 - a dtype that this onnx cannot store stays as it was
        return None


def _changed_array(chance: random.Random, array: Any) -> Any:
    """Return an array that differs in one element, the shape or the dtype, or sometimes an equal array.

    `array` itself is not changed.
    """
    choice = chance.randrange(8)
    if choice < 3 and array.size and array.dtype.kind in "iufb":
        array = np.array(array)
        values = _FLOATS if array.dtype.kind == "f" else _INTEGERS
        with np.errstate(all="ignore"):
            array.reshape(-1)[chance.randrange(array.size)] = np.array(chance.choice(values)).astype(array.dtype)
        return array
    if choice == 3 and array.ndim:
        return np.take(array, [], chance.randrange(array.ndim))
    if choice == 4 and array.ndim:
        axis = chance.randrange(array.ndim)
        return np.concatenate([array, array[tuple([slice(None)] * axis + [slice(0, 1)])]], axis)
    if choice == 5:
        return array.reshape((1, *array.shape))
    if choice == 6:
        return array.reshape(-1)
    if array.dtype.kind in "iufb":
        return array.astype(chance.choice(("float32", "float64", "int64", "int32", "int8", "uint8", "bool", "float16")))
    return array


def _change_initializer(chance: random.Random, model: onnx.ModelProto, _: Inputs, __: Sequence[bytes]) -> None:
    tensors = [tensor for graph in _graphs(model.graph) for tensor in graph.initializer]
    if tensors:
        _change_tensor(chance, chance.choice(tensors))


def _change_feed(chance: random.Random, _: onnx.ModelProto, inputs: Inputs, __: Sequence[bytes]) -> None:
    given = [index for index, content in enumerate(inputs) if content is not None]
    if given:
        index = chance.choice(given)
        tensor = onnx.TensorProto.FromString(inputs[index] or b"")
        _change_tensor(chance, tensor)
        inputs[index] = tensor.SerializeToString()


def _change_edges(chance: random.Random, model: onnx.ModelProto, _: Inputs, __: Sequence[bytes]) -> None:
    """Change the inputs or outputs of a node, if there is a node: replace, remove, add or empty one name."""
    node = _any_node(chance, model)
    if node is None:
        return
    names = [name for each_node in model.graph.node for name in (*each_node.input, *each_node.output)] + [""]
    edges = chance.choice((node.input, node.input, node.input, node.output))
    choice = chance.randrange(4)
    if choice == 0 and edges:
        del edges[-1]
    elif choice == 1 or not edges:
        edges.append(chance.choice(names) if edges is node.input else "new%d" % len(edges))
    elif choice == 2 and edges is node.input:
        edges[chance.randrange(len(edges))] = chance.choice(names)
    else:
        edges[chance.randrange(len(edges))] = ""


def _change_port(chance: random.Random, model: onnx.ModelProto, _: Inputs, __: Sequence[bytes]) -> None:
    """Change the dtype, the rank or a size that an input or output of the model declares, if it is a tensor."""
    ports = [*model.graph.input, *model.graph.input, *model.graph.output]
    port = chance.choice(ports) if ports else None
    if port is None or not port.type.HasField("tensor_type"):
        return
    kind = port.type.tensor_type
    sizes = kind.shape.dim
    choice = chance.randrange(6)
    if choice == 0:
        kind.elem_type = chance.choice(_DTYPES)
    elif choice == 1:
        kind.ClearField("shape")
    elif choice == 2:
        sizes.add().dim_value = chance.choice((0, 1, 2, 3))
    elif sizes and choice == 3:
        del sizes[-1]
    elif sizes:
        size = chance.choice(sizes)
        if choice == 4:
            size.dim_param = chance.choice(("n", "m", ""))
        else:
            size.dim_value = chance.choice((0, 1, 2, 5, -1, 2**31))


def _change_operator(chance: random.Random, model: onnx.ModelProto, _: Inputs, other_cases: Sequence[bytes]) -> None:
    """Give a node the operator, and sometimes the attributes, of a node of another case."""
    node, source = _any_node(chance, model), _any_node(chance, _model_of(chance.choice(other_cases)))
    if node is not None and source is not None:
        node.op_type, node.domain = source.op_type, source.domain
        if chance.random() < 0.5:
            del node.attribute[:]
            node.attribute.extend(source.attribute)


def _model_of(case: bytes) -> onnx.ModelProto:
    with zipfile.ZipFile(io.BytesIO(case)) as archive:
        model: onnx.ModelProto = onnx.ModelProto.FromString(archive.read("model.onnx"))
    return model


def _append_nodes(chance: random.Random, model: onnx.ModelProto, inputs: Inputs, other_cases: Sequence[bytes]) -> None:
    """Append the nodes of another case to `model`, if the case has nodes and `model` has outputs.

    An output of `model` replaces the first input of the other case. Its further inputs become inputs of `model` without
    feeds: `inputs` has None for each.
    """
    other_model = _model_of(chance.choice(other_cases))
    if not (other_model.graph.node and model.graph.output):
        return
    prefix = "other%d_" % len(model.graph.node)
    first = other_model.graph.input[0].name if other_model.graph.input else ""
    source = chance.choice(model.graph.output).name

    def rename(name: str) -> str:
        return source if name == first else prefix + name if name else ""

    for node in other_model.graph.node:
        copy = model.graph.node.add()
        copy.CopyFrom(node)
        copy.input[:] = [rename(name) for name in node.input]
        copy.output[:] = [prefix + name if name else "" for name in node.output]
    for tensor in other_model.graph.initializer:
        model.graph.initializer.add().CopyFrom(tensor)
        model.graph.initializer[-1].name = prefix + tensor.name
    for port in other_model.graph.input[1:]:
        model.graph.input.add().CopyFrom(port)
        model.graph.input[-1].name = prefix + port.name
        inputs.append(None)
    output = chance.choice(other_model.graph.output)
    model.graph.output.add().CopyFrom(output)
    model.graph.output[-1].name = prefix + output.name


def _change_opset(chance: random.Random, model: onnx.ModelProto, _: Inputs, __: Sequence[bytes]) -> None:
    if model.opset_import:
        chance.choice(model.opset_import).version = chance.choice((*range(1, 29), 0, -1, 2**40))


def _fix_input(chance: random.Random, model: onnx.ModelProto, inputs: Inputs, __: Sequence[bytes]) -> None:
    """Replace an input of `model` by an initializer with the value of its feed, which is then known while tracing.

    The feed is deleted from `inputs`. Nothing changes without feeds, or if `inputs` has not as many entries as `model`
    has inputs.
    """
    given = [index for index, content in enumerate(inputs) if content is not None]
    if given and len(inputs) == len(model.graph.input):
        index = chance.choice(given)
        tensor = onnx.TensorProto.FromString(inputs[index] or b"")
        tensor.name = model.graph.input[index].name
        model.graph.initializer.append(tensor)
        del model.graph.input[index]
        del inputs[index]


def _open_sizes(_: random.Random, model: onnx.ModelProto, __: Inputs, ___: Sequence[bytes]) -> None:
    """Make every size of the inputs symbolic."""
    for number, port in enumerate(model.graph.input):
        for axis, size in enumerate(port.type.tensor_type.shape.dim):
            size.dim_param = "d%d_%d" % (number, axis)


def _add_attribute(chance: random.Random, model: onnx.ModelProto, _: Inputs, __: Sequence[bytes]) -> None:
    node = _any_node(chance, model)
    if node is not None:
        name = chance.choice(
            ("axis", "axes", "to", "mode", "keepdims", "perm", "value", "body", "seed", "k", "unknown")
        )
        node.attribute.append(helper.make_attribute(name, chance.choice((0, -1, 2**40, 0.5, "x", [0, 0], [-1], [0.5]))))


_CHANGES: Tuple[Change, ...] = (
    _change_attribute, _change_attribute, _change_attribute, _change_initializer, _change_initializer, _change_feed,
    _change_feed, _change_edges, _change_port, _change_operator, _append_nodes, _change_opset, _fix_input, _fix_input,
    _open_sizes, _add_attribute,
)  # fmt: skip
