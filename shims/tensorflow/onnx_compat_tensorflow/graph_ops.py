"""List the operations of a TensorFlow graph, in total and for each ONNX node."""

from collections import Counter
from typing import Dict, Iterable, Iterator, List, Tuple

from onnx_compat.shim import Preview, Program, Region
from onnx_compat_tensorflow.names import scope

__all__ = ["preview_operations"]

#: Operations that compute nothing: they hold the constants, variables and inputs that other operations read.
_SOURCES = frozenset("Const Placeholder ReadVariableOp NoOp".split())


def preview_operations(operations: Iterable[Tuple[str, str]], program: Program) -> Preview:
    """Return a `Preview` of the graph of a program: how often each operation type occurs, and the types for each node.

    An ONNX node has the operations in its name scope. Constants, variables and inputs are counted in total, but not for
    a node. ONNX nodes whose scopes have the same name share their operations.

    `operations`: pairs (name, type) such as ("conv1/Conv2D", "Conv2D").
    """
    listed = list(operations)
    nodes: Dict[str, List[str]] = {name: [] for name in _node_names(program.region)}
    by_scope: Dict[str, List[str]] = {}
    for name in nodes:
        by_scope.setdefault(scope(name), []).append(name)
    for name, kind in listed:
        owner = name.rpartition("/")[0]
        while owner and owner not in by_scope:
            owner = owner.rpartition("/")[0]
        if kind not in _SOURCES:
            for node in by_scope.get(owner, ()):
                nodes[node].append(kind)
    counts: Counter[str] = Counter(kind for _, kind in listed)
    return Preview(dict(counts), {name: tuple(kinds) for name, kinds in nodes.items() if kinds})


def _node_names(region: Region) -> Iterator[str]:
    """Yield the names of the ONNX nodes of a region and of its inner regions."""
    for node in region.live():
        if node.origin is not None:
            yield node.origin.node
        for inner in node.regions:
            yield from _node_names(inner)
