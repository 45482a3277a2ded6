"""Write the sequences that an If or a Loop carries as tensors, for opsets 11 and 12: there, both take tensors only.

A sequence of vectors => its elements, joined to one vector; the length of each element

- encode: ConcatFromSequence(SequenceInsert(s, [])); Loop(SequenceLength(s)) with Size(SequenceAt(s, i))
- decode: SplitToSequence(elements, lengths)

A sequence is encoded where it leaves a graph, and decoded where it enters the next. The condition is that all its
elements are vectors: the shapes of other elements are lost.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any, Dict, FrozenSet, List, NamedTuple, Sequence, Tuple

import numpy as np

from onnx_compat.ir.dtypes import DType
from onnx_compat.model.names import Names
from onnx_compat.model.protos import graphs_of, subgraphs_of, walk
from onnx_compat.model.versions import normalise
from onnx_compat.model.write import tensor_proto
from onnx_compat.retarget.protos import constant_node, name_of

if TYPE_CHECKING:
    import onnx

__all__ = ["BEGIN", "FIRST", "write_sequences_as_tensors"]

#: The first opset with sequences, and the opset in which If and Loop begin to take them.
FIRST, BEGIN = 11, 13
#: The repeated field `node` of a GraphProto or FunctionProto.
NodeList = Any
#: Operators that keep the elements of the sequence that they read first, or remove some.
_KEEP = ("Identity", "SequenceErase", "SequenceInsert")


def write_sequences_as_tensors(model: "onnx.ModelProto", names: Names) -> List[str]:
    """Write the sequences that the If and Loop nodes of the main graph carry as tensors, in place.

    Return a text for each changed node. A node stays if one of its sequences may have an element that is no vector.
    `names`: the names in use, to which new names are added.
    """
    if not any(_carries_sequences(node) for node in walk(model.graph.node)):
        return []
    return _Writer(_Sequences(model), names).write(model.graph.node)


def _carries_sequences(node: "onnx.NodeProto") -> bool:
    return _is_control(node) and any(_is_sequence(port) for graph in subgraphs_of(node) for port in graph.output)


def _is_control(node: "onnx.NodeProto") -> bool:
    return node.op_type in ("If", "Loop") and not normalise(node.domain)


def _is_sequence(port: "onnx.ValueInfoProto") -> bool:
    return bool(port.type.HasField("sequence_type"))


class _Sequences:
    """Facts about the sequences of a model: the nodes that compute them, and the ranks of their elements."""

    def __init__(self, model: "onnx.ModelProto") -> None:
        import onnx

        graphs = list(graphs_of(onnx.shape_inference.infer_shapes(model).graph))
        types = [(port.name, port.type) for graph in graphs for port in graph.value_info]
        types += [(port.name, port.type) for port in model.graph.input]
        producers = [(name, node) for graph in graphs for node in graph.node for name in node.output if name]
        # two branches may have different values of one name: nothing is known of these
        self._types = _unique(types)
        self._producers = _unique(producers)

    def has_vectors(self, name: str, assumed: FrozenSet[str] = frozenset()) -> bool:
        """Whether all elements of a sequence are known to be vectors.

        `assumed`: the states of loops whose elements are vectors before the step of the loop.
        """
        node = self._producers.get(name)
        if name in assumed:
            return True
        if node is None:
            kind = self._types.get(name)
            return kind is not None and _has_one_axis(kind.sequence_type.elem_type)
        operator = node.op_type
        if operator == "SequenceEmpty":
            return True
        if operator in ("SequenceConstruct", "SplitToSequence"):
            return all(self._is_vector(x) for x in node.input[: None if operator == "SequenceConstruct" else 1])
        if operator in _KEEP:
            is_right = operator != "SequenceInsert" or self._is_vector(node.input[1])
            return is_right and self.has_vectors(node.input[0], assumed)
        return self._carries_vectors(node, list(node.output).index(name), assumed)

    def _carries_vectors(self, node: "onnx.NodeProto", index: int, assumed: FrozenSet[str]) -> bool:
        """Whether all elements of the sequence that is output `index` of a node are vectors, for an If or a Loop."""
        graphs = subgraphs_of(node)
        if node.op_type == "If" and graphs:
            return all(self.has_vectors(graph.output[index].name, assumed) for graph in graphs)
        if node.op_type != "Loop" or not graphs or index + 2 >= len(node.input):
            return False
        state, result = graphs[0].input[index + 2].name, graphs[0].output[index + 1].name
        return self.has_vectors(node.input[index + 2], assumed) and self.has_vectors(result, assumed | {state})

    def _is_vector(self, name: str) -> bool:
        kind = self._types.get(name)
        return kind is not None and _has_one_axis(kind)


def _unique(pairs: Sequence[Tuple[str, Any]]) -> Dict[str, Any]:
    """Return name -> value, for the names that occur once."""
    counts = Counter(name for name, _ in pairs)
    return {name: value for name, value in pairs if counts[name] == 1}


def _has_one_axis(kind: "onnx.TypeProto") -> bool:
    return kind.tensor_type.HasField("shape") and len(kind.tensor_type.shape.dim) == 1


class _Pair(NamedTuple):
    """The names of the tensors that stand for a sequence, and their element type."""

    elements: str
    lengths: str
    dtype: DType

    def ports(self) -> "List[onnx.ValueInfoProto]":
        from onnx import TensorProto, helper

        return [
            helper.make_tensor_value_info(self.elements, self.dtype.onnx, [None]),
            helper.make_tensor_value_info(self.lengths, TensorProto.INT64, [None]),
        ]


class _Writer:
    """Writes the sequences that nodes carry as tensors."""

    def __init__(self, sequences: _Sequences, names: Names) -> None:
        self._sequences = sequences
        self._names = names

    def write(self, nodes: NodeList) -> List[str]:
        """Change the nodes of a list and of its subgraphs, in place. Return a text for each changed node."""
        notes: List[str] = []
        written: List[onnx.NodeProto] = []
        for node in nodes:
            for graph in subgraphs_of(node):
                notes += self.write(graph.node)
            if _carries_sequences(node) and self._can_write(node):
                notes.append("'%s' (%s): its sequences are written as tensors" % (name_of(node), node.op_type))
                written += self._loop(node) if node.op_type == "Loop" else self._branches(node)
            else:
                written.append(node)
        if notes:
            _replace(nodes, written)
        return notes

    def _can_write(self, node: "onnx.NodeProto") -> bool:
        """Whether all elements of the sequences that the node carries are vectors."""
        ports = subgraphs_of(node)[0].output[1 if node.op_type == "Loop" else 0 :]
        outputs = [name for name, port in zip(node.output, ports) if _is_sequence(port)]
        return all(name and self._sequences.has_vectors(name) for name in outputs)

    def _branches(self, node: "onnx.NodeProto") -> "List[onnx.NodeProto]":
        """Return the nodes that compute an If."""
        changed = _copy(node)
        for graph in subgraphs_of(changed):
            ports, inner = [], list(graph.node)
            for port in graph.output:
                if _is_sequence(port):
                    nodes, pair = self._encode(port.name, _element_dtype(port))
                    inner += nodes
                    ports += pair.ports()
                else:
                    ports.append(port)
            _replace(graph.output, ports)
            _replace(graph.node, inner)
        after, outputs = self._decoded_outputs(node.output, subgraphs_of(node)[0].output)
        _replace_names(changed.output, outputs)
        return [changed, *after]

    def _loop(self, node: "onnx.NodeProto") -> "List[onnx.NodeProto]":
        """Return the nodes that compute a Loop."""
        (body,) = subgraphs_of(node)
        changed = _copy(node)
        (graph,) = subgraphs_of(changed)
        before: List[onnx.NodeProto] = []
        first: List[onnx.NodeProto] = []
        inner = list(body.node)
        inputs, ports, results = list(node.input[:2]), list(body.input[:2]), [body.output[0]]
        for name, port in zip(node.input[2:], body.input[2:]):
            if not _is_sequence(port):
                inputs.append(name)
                ports.append(port)
                continue
            nodes, pair = self._encode(name, _element_dtype(port))
            before += nodes
            inputs += [pair.elements, pair.lengths]
            state = self._pair(port.name, pair.dtype)
            ports += state.ports()
            first += self._decode(state, port.name)
        for port in body.output[1:]:
            if not _is_sequence(port):
                results.append(port)
                continue
            nodes, pair = self._encode(port.name, _element_dtype(port))
            inner += nodes
            results += pair.ports()
        after, outputs = self._decoded_outputs(node.output, body.output[1:])
        _replace_names(changed.input, inputs)
        _replace_names(changed.output, outputs)
        _replace(graph.input, ports)
        _replace(graph.output, results)
        _replace(graph.node, [*first, *inner])
        return [*before, changed, *after]

    def _decoded_outputs(self, names: Sequence[str], ports: Any) -> "Tuple[List[onnx.NodeProto], List[str]]":
        """Return (nodes that decode the sequences among the outputs of a node, the new outputs of the node)."""
        after: List[onnx.NodeProto] = []
        outputs: List[str] = []
        for name, port in zip(names, ports):
            if _is_sequence(port):
                pair = self._pair(name, _element_dtype(port))
                after += self._decode(pair, name)
                outputs += [pair.elements, pair.lengths]
            else:
                outputs.append(name)
        return after, outputs

    def _pair(self, name: str, dtype: DType) -> _Pair:
        return _Pair(self._names.fresh(name + "/elements"), self._names.fresh(name + "/lengths"), dtype)

    def _encode(self, name: str, dtype: DType) -> "Tuple[List[onnx.NodeProto], _Pair]":
        """Return (nodes that compute the tensors for a sequence of vectors, the names of these tensors)."""
        from onnx import TensorProto, helper

        pair = self._pair(name, dtype)
        labels = ("empty", "longer", "count", "index", "condition", "step", "element", "length")
        empty, longer, count, index, condition, step, element, length = (
            self._names.fresh("%s/%s" % (name, label)) for label in labels
        )
        inner = [
            helper.make_node("SequenceAt", [name, index], [element]),
            helper.make_node("Size", [element], [length]),
            helper.make_node("Identity", [condition], [step]),
        ]
        ports = [helper.make_tensor_value_info(index, TensorProto.INT64, [])]
        ports.append(helper.make_tensor_value_info(condition, TensorProto.BOOL, []))
        results = [helper.make_tensor_value_info(step, TensorProto.BOOL, [])]
        results.append(helper.make_tensor_value_info(length, TensorProto.INT64, []))
        body = helper.make_graph(inner, "lengths", ports, results)
        nodes = [
            constant_node(tensor_proto(np.zeros(0, dtype.numpy), dtype, empty)),
            helper.make_node("SequenceInsert", [name, empty], [longer]),  # ConcatFromSequence takes no empty sequence
            helper.make_node("ConcatFromSequence", [longer], [pair.elements], axis=0),
            helper.make_node("SequenceLength", [name], [count]),
            helper.make_node("Loop", [count, ""], [pair.lengths], body=body),
        ]
        return nodes, pair

    def _decode(self, pair: _Pair, name: str) -> "List[onnx.NodeProto]":
        """Return nodes that compute the sequence `name` from its tensors."""
        from onnx import helper

        return [helper.make_node("SplitToSequence", [pair.elements, pair.lengths], [name], axis=0)]


def _element_dtype(port: "onnx.ValueInfoProto") -> DType:
    """Return the element type of a sequence of tensors."""
    return DType.of(port.type.sequence_type.elem_type.tensor_type.elem_type)


def _copy(message: Any) -> Any:
    return type(message).FromString(message.SerializeToString())


def _replace(field: Any, messages: Sequence[Any]) -> None:
    """Replace the messages of a repeated field, in place."""
    copies = [_copy(message) for message in messages]
    del field[:]
    field.extend(copies)


def _replace_names(field: Any, names: Sequence[str]) -> None:
    """Replace the texts of a repeated field, in place."""
    del field[:]
    field.extend(names)
