"""Common subexpressions and initializers are shared.

    f(x), f(x)                      =>  f(x) once
    two initializers with one data  =>  one initializer

Operators that draw random numbers, operators of unknown domains, and calls of functions are never shared. Initializers
are compared by type, shape and bytes; only those inside of the model are.
"""

from typing import Any, Dict, List, Tuple

from onnx_compat.model.protos import subgraphs_of
from onnx_compat.simplify.contract import model_pass
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.node import DraftNode
from onnx_compat.simplify.rewrites.examples import example

__all__ = ["common_subexpressions", "shared_initializers"]

#: Operators whose results differ from run to run, or from node to node.
_RANDOM = frozenset(
    ["Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"]
)
_DOMAINS = frozenset(["", "ai.onnx", "ai.onnx.ml"])


def _example() -> Any:
    return example(("Exp", "x", "a"), ("Exp", "x", "b"), ("Add", "a b", "y"))


@model_pass("common_subexpressions", "f(x), f(x) => f(x) once", _example)
def common_subexpressions(draft: GraphDraft) -> int:
    """Replace nodes of `draft` by earlier nodes with the same results. Return the number of removed nodes."""
    count = 0
    first: Dict[Any, DraftNode] = {}
    for node in list(draft.nodes):
        if not _is_shareable(node):
            continue
        key = _key(node)
        earlier = first.setdefault(key, node)
        if earlier is not node and _merge(draft, node, earlier):
            count += 1
    return count


def _is_shareable(node: DraftNode) -> bool:
    proto = node.proto
    return proto.domain in _DOMAINS and proto.op_type not in _RANDOM and not any(subgraphs_of(proto))


def _key(node: DraftNode) -> Tuple[Any, ...]:
    proto = node.proto
    attributes = sorted(attribute.SerializeToString(deterministic=True) for attribute in proto.attribute)
    presence = tuple(bool(name) for name in proto.output)
    return proto.domain, proto.op_type, tuple(proto.input), tuple(attributes), presence


def _merge(draft: GraphDraft, node: DraftNode, earlier: DraftNode) -> bool:
    """Make the readers of a node read the results of `earlier`, and remove the node from `draft`.

    Return whether the node was removed.

    It stays if it computes an output of the graph or a pinned value that `earlier` cannot compute under this name. It
    stays too if a subgraph has a value of its own with the name of a result of `earlier`.
    """
    pairs = [(old, new) for old, new in zip(node.outputs, earlier.outputs) if old and draft.is_read(old)]
    if len(pairs) == 1:
        return draft.bypass(node, pairs[0][1])
    if any(old in draft.outputs or old in draft.pinned for old, _ in pairs):
        return False
    if not all(draft.replace_reads(old, new) for old, new in pairs):
        return False
    draft.remove(node)
    return True


def _initializers_example() -> Any:
    return example(("Add", "x v", "a"), ("Mul", "a w", "y"), v=[1.0, 2.0], w=[1.0, 2.0])


@model_pass("shared_initializers", "two initializers with the same data => one initializer", _initializers_example)
def shared_initializers(draft: GraphDraft) -> int:
    """Replace each initializer by an earlier one with the same data. Return the number of removed initializers."""
    count = 0
    groups: Dict[Tuple[Any, ...], List[str]] = {}
    for name, tensor in list(draft.initializers.items()):
        if name in draft.variable or name in draft.outputs or name in draft.pinned or tensor.data_location == 1:
            continue
        names = groups.setdefault((tensor.data_type, tuple(tensor.dims), tensor.ByteSize() - len(tensor.name)), [])
        names.append(name)
    for names in groups.values():
        first: Dict[bytes, str] = {}
        for name in names if len(names) > 1 else ():
            earlier = first.setdefault(draft.digest(name), name)
            if earlier != name and draft.replace_reads(name, earlier):
                draft.remove_initializer(name)
                count += 1
    return count
