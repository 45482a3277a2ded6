"""Constant folding: nodes whose results are known become initializers.

    Add(2, 3)          =>  the initializer 5
    Constant<value>    =>  the initializer
    Shape(x)           =>  an initializer, where the sizes of x are declared

The trace of the model knows the results. Only values that other nodes read become initializers.

- DequantizeLinear, and what is computed from its results, stays: the weights of a quantised model stay integers.
- An output of the graph stays a node.
- The size budget holds: where it does not suffice, operators that enlarge their operands stay, the largest first.
"""

from typing import Any, Dict, List, Set

from onnx_compat.model.storage import stored_size
from onnx_compat.simplify.contract import model_pass
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.node import DraftNode
from onnx_compat.simplify.rewrites.examples import example
from onnx_compat.simplify.size_budget import stored_bytes

__all__ = ["constant_folding"]


def _example() -> Any:
    return example(("Add", "v w", "a"), ("Neg", "a", "b"), ("Mul", "x b", "y"), v=[1.0, 2.0], w=[3.0, 4.0])


@model_pass("constant_folding", "node whose results are known => initializers", _example)
def constant_folding(draft: GraphDraft) -> int:
    """Replace nodes of `draft` whose results are known by initializers. Return the number of removed nodes."""
    nodes = _foldable(draft)
    folded = _choose(draft, nodes)
    read = {name for node in draft.nodes if node not in folded for name in node.reads}
    for node in nodes:
        if node in folded:
            draft.remove(node)
            for name in node.outputs:
                if name in read:
                    tensor = draft.knowledge.tensors[name]
                    assert tensor.value is not None
                    draft.add_constant(tensor.value, tensor.dtype, name, is_new=False)
    return len(folded)


def _foldable(draft: GraphDraft) -> List[DraftNode]:
    """Return the nodes whose results are known, as far as they are read.

    A node that computes an output of the graph or a pinned value is left out. So is a DequantizeLinear, and each node
    that is computed from its results, except Shape and Size.
    """
    dequantized: Set[str] = set()
    nodes: List[DraftNode] = []
    for node in draft.nodes:
        operator = node.proto.op_type
        if operator.startswith("Dequantize") or (operator not in ("Shape", "Size") and dequantized & set(node.reads)):
            dequantized.update(node.outputs)
            continue
        read = [name for name in node.outputs if name and draft.is_read(name)]
        if not any(name in draft.outputs or name in draft.pinned for name in read) and all(
            draft.knowledge.array(name) is not None for name in read
        ):
            nodes.append(node)
    return nodes


def _choose(draft: GraphDraft, nodes: List[DraftNode]) -> Set[DraftNode]:
    """Return those of the foldable nodes that the size budget allows to fold."""
    chosen = set(nodes)
    largest = max([_result_bytes(draft, name) for node in nodes for name in node.outputs], default=0)
    while chosen and not draft.budget.allows(_growth(draft, chosen)):
        # Only nodes that enlarge their operands are left out: folding any other node makes the model smaller.
        chosen = {node for node in chosen if not _enlarges(draft, node, largest)}
        if largest == 0:
            return set()
        largest //= 2
    return chosen


def _enlarges(draft: GraphDraft, node: DraftNode, size: int) -> bool:
    """Whether a result of a node has at least `size` bytes, and all results exceed the bytes of node and operands."""
    results = [_result_bytes(draft, name) for name in node.outputs]
    operands = sum(_result_bytes(draft, name) for name in node.inputs)
    return max(results, default=0) >= size and sum(results) > operands + node.proto.ByteSize()


def _result_bytes(draft: GraphDraft, name: str) -> int:
    array, spec = draft.knowledge.array(name), draft.knowledge.spec(name)
    return 0 if array is None or spec is None else stored_size(spec.dtype, array.size)


def _growth(draft: GraphDraft, chosen: Set[DraftNode]) -> int:
    """Return the bytes that folding the chosen nodes adds to the model; below 0 if the model becomes smaller."""
    readers: Dict[str, int] = {}
    for node in draft.nodes:
        if node not in chosen:
            readers.update(dict.fromkeys(node.reads, 1))
    kept = draft.outputs | draft.pinned
    growth = 0
    for node in chosen:
        growth += sum(_result_bytes(draft, name) for name in node.outputs if name in readers)
        growth -= node.proto.ByteSize()
        for name in node.reads:
            tensor = draft.initializers.get(name)
            if tensor is not None and name not in readers and name not in kept:
                readers[name] = 0  # the initializer is freed once
                growth -= stored_bytes(tensor)
    return growth
