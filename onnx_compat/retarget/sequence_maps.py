"""Write SequenceMap as a Loop, for opsets before 17.

Before opset 13, the sequences that the Loop carries become tensors then: see `carried_sequences`.

SequenceMap(s, t, body)  =>  Loop(SequenceLength(s), SequenceEmpty, body of the loop)
body of the loop:  SequenceAt(s, i) -> body -> SequenceInsert for each result
"""

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence

from onnx_compat.model.names import Names
from onnx_compat.model.protos import subgraphs_of
from onnx_compat.model.versions import normalise

if TYPE_CHECKING:
    import onnx

__all__ = ["BEGIN", "expand_sequence_maps"]

#: The opset in which SequenceMap begins.
BEGIN = 17
#: The repeated field `node` of a GraphProto or FunctionProto.
NodeList = Any


def expand_sequence_maps(model: "onnx.ModelProto", names: Names) -> List[str]:
    """Replace the SequenceMap nodes of the model by Loops, in place. Return a text for each replaced node.

    The nodes of functions and of training graphs are replaced too. A node stays if no type is declared for a further
    input, or no element type for an output of the node's body. `names`: the names in use, to which new names are added.
    """
    main = _declared_types(model.graph)
    notes = _expand(model.graph.node, main, names)
    for function in model.functions:
        notes += _expand(function.node, {port.name: port.type for port in getattr(function, "value_info", ())}, names)
    for info in model.training_info:
        notes += _expand(info.initialization.node, _declared_types(info.initialization), names)
        notes += _expand(info.algorithm.node, dict(main, **_declared_types(info.algorithm)), names)
    return notes


def _declared_types(graph: "onnx.GraphProto") -> "Dict[str, onnx.TypeProto]":
    """Return value name -> declared type, of the values of a graph. Those of its subgraphs are not included."""
    return {port.name: port.type for port in [*graph.input, *graph.value_info, *graph.output]}


def _expand(nodes: NodeList, types: Mapping[str, "onnx.TypeProto"], names: Names) -> List[str]:
    """Replace the SequenceMap nodes of a list and of its subgraphs, in place. Return a text for each.

    `types`: value name -> declared type, of the values in scope.
    """
    notes: List[str] = []
    written: List[onnx.NodeProto] = []
    for node in nodes:
        for graph in subgraphs_of(node):
            notes += _expand(graph.node, dict(types, **_declared_types(graph)), names)
        is_map = node.op_type == "SequenceMap" and not normalise(node.domain)
        loop = _loop_of(node, types, names) if is_map else None
        written.extend([node] if loop is None else loop)
        if loop is not None:
            notes.append("'%s' (SequenceMap): written as a Loop" % (node.name or node.output[0]))
    if notes:
        copies = [type(node).FromString(node.SerializeToString()) for node in written]
        del nodes[:]
        nodes.extend(copies)
    return notes


def _loop_of(
    node: "onnx.NodeProto", types: Mapping[str, "onnx.TypeProto"], names: Names
) -> "Optional[List[onnx.NodeProto]]":
    """Return the nodes that compute a SequenceMap. `types`: value name -> declared type.

    None: the type of an input after the first, or the element type of an output of the body, is not declared.
    """
    from onnx import helper

    (body,) = [attribute.g for attribute in node.attribute if attribute.name == "body"]
    further = [types.get(name) for name in node.input[1:]]
    results = list(body.output)
    if None in further or any(not port.type.tensor_type.elem_type for port in results):
        return None
    base = node.name or node.output[0]

    def fresh(label: str) -> str:
        return names.fresh("%s/%s" % (base, label))

    count, condition, step, position = (fresh(label) for label in ("length", "condition", "step", "position"))
    starts = [fresh("empty") for _ in results]
    before = [helper.make_node("SequenceLength", [node.input[0]], [count])]
    before += [
        helper.make_node("SequenceEmpty", [], [start], dtype=port.type.tensor_type.elem_type)
        for start, port in zip(starts, results)
    ]
    inner = [helper.make_node("SequenceAt", [node.input[0], position], [body.input[0].name])]
    for name, kind, port in zip(node.input[1:], further, body.input[1:]):
        is_sequence = kind is not None and kind.HasField("sequence_type")
        read = ("SequenceAt", [name, position]) if is_sequence else ("Identity", [name])
        inner.append(helper.make_node(*read, [port.name]))
    states = [fresh("state") for _ in results]
    ends = [fresh("result") for _ in results]
    inner += [*body.node, helper.make_node("Identity", [condition], [step])]
    inner += [
        helper.make_node("SequenceInsert", [state, port.name], [end]) for state, port, end in zip(states, results, ends)
    ]
    loop = _graph(inner, body, [position, condition], states, step, ends)
    after = helper.make_node("Loop", [count, "", *starts], list(node.output), name=node.name, body=loop)
    return [*before, after]


def _graph(
    nodes: "Sequence[onnx.NodeProto]",
    body: "onnx.GraphProto",
    ports: Sequence[str],
    states: Sequence[str],
    step: str,
    ends: Sequence[str],
) -> "onnx.GraphProto":
    """Return the body of the Loop.

    - nodes: its nodes. body: the body of the SequenceMap, whose initializers and declared types it keeps.
    - ports: the names of the inputs for the position and for the condition.
    - states, ends: the names of the sequences of results, as inputs and as outputs.
    - step: the name of the output for the condition.
    """
    from onnx import TensorProto, helper

    def sequence(name: str, port: "onnx.ValueInfoProto") -> "onnx.ValueInfoProto":
        return helper.make_tensor_sequence_value_info(name, port.type.tensor_type.elem_type, None)

    inputs = [helper.make_tensor_value_info(ports[0], TensorProto.INT64, [])]
    inputs.append(helper.make_tensor_value_info(ports[1], TensorProto.BOOL, []))
    inputs += [sequence(name, port) for name, port in zip(states, body.output)]
    outputs = [helper.make_tensor_value_info(step, TensorProto.BOOL, [])]
    outputs += [sequence(name, port) for name, port in zip(ends, body.output)]
    graph = helper.make_graph(list(nodes), "%s_loop" % (body.name or "body"), inputs, outputs, list(body.initializer))
    graph.sparse_initializer.extend(body.sparse_initializer)
    graph.value_info.extend(body.value_info)
    return graph
