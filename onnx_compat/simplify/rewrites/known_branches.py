"""A branch whose condition is known replaces its If.

    If(True, a, b)   =>  the nodes of a

A value of the branch keeps its name, unless another value has it. A branch with sparse initializers stays.
"""

from typing import Any, Dict, Set

from onnx_compat.model.protos import subgraphs_of
from onnx_compat.simplify.contract import model_pass
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.node import (
    DraftNode,
    defined_names,
    names_of,
    rename_inputs,
    rename_output,
)
from onnx_compat.simplify.rewrites.examples import example
from onnx_compat.simplify.subgraphs import subgraph_knowledge

__all__ = ["known_branches"]


def _example() -> Any:
    import onnx

    branches = {}
    for name, operator in (("then_branch", "Neg"), ("else_branch", "Exp")):
        output = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        branches[name] = onnx.helper.make_graph([onnx.helper.make_node(operator, ["x"], [name])], name, [], [output])
    return example(("If", "c", "a", branches), ("Relu", "a", "y"), c=True)


@model_pass("known_branches", "If(True, a, b) => the nodes of a", _example)
def known_branches(draft: GraphDraft) -> int:
    """Replace each If with a known condition by the nodes of its branch. Return the number of removed If nodes."""
    count = 0
    for node in list(draft.nodes):
        condition = draft.constant(node.input(0)) if node.operator == "If" else None
        if condition is None or condition.size != 1:
            continue
        branch = node.attribute("then_branch" if condition.reshape(-1)[0] else "else_branch")
        if not branch.sparse_initializer:
            _splice(draft, node, branch)
            count += 1
    return count


def _splice(draft: GraphDraft, node: DraftNode, branch: Any) -> None:
    """Replace the If `node` of `draft` by the nodes and initializers of the GraphProto `branch`.

    An Identity gives each output its name.
    """
    import onnx

    knowledge = subgraph_knowledge(branch, draft)
    graph = onnx.GraphProto()
    graph.CopyFrom(branch)
    renamed = _rename_values(draft, node, graph)
    outputs = [(port.name, name) for port, name in zip(graph.output, node.outputs) if name and draft.is_read(name)]
    draft.remove(node, [*graph.node, *(onnx.helper.make_node("Identity", [old], [new]) for old, new in outputs)])
    draft.sort()  # the nodes of a branch may have any order
    for tensor in graph.initializer:
        draft.add_tensor(tensor)
    traced = {new: knowledge.tensor(old) for old, new in renamed.items()}
    draft.declare(graph.value_info, {name: tensor for name, tensor in traced.items() if tensor is not None})


def _rename_values(draft: GraphDraft, node: DraftNode, graph: Any) -> Dict[str, str]:
    """Rename the values of `graph`, a copy of a branch, whose names the model uses elsewhere, in place.

    Return old name -> new name for every value of the branch, also for those that keep their names.
    """
    elsewhere: Set[str] = draft.inputs | draft.outputs | draft.initializers.keys() | draft.sparse
    elsewhere.update(node.outputs)
    for reader in draft.nodes:
        if reader is not node:
            elsewhere.update(reader.inputs, reader.outputs)
            elsewhere.update(*map(names_of, subgraphs_of(reader.proto)))
    renamed = {name: draft.names.fresh(name) if name in elsewhere else name for name in defined_names(graph) if name}
    for old, new in renamed.items():
        if old == new:
            continue
        for inner in graph.node:
            rename_inputs(inner, old, new)
            rename_output(inner, old, new)
        for entry in [*graph.initializer, *graph.output, *graph.value_info]:
            entry.name = new if entry.name == old else entry.name
    return renamed
