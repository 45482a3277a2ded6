"""Convert ONNX names, which may contain any character, to unique names of Keras layers."""

import re
from typing import Any, Dict, Optional, Set

from onnx_compat.shim import Node, Region
from onnx_compat_keras.functional.origins import MOVES, main_nodes

__all__ = ["Names"]

#: Classes of layers and operations that move or convert elements for the operation that does the work.
_MOVING = frozenset(
    "Cast Concatenate ExpandDims Flatten Flip GetItem Pad Permute Reshape Squeeze Stack Take Transpose ZeroPadding1D "
    "ZeroPadding2D ZeroPadding3D".split()
)


def _working(operation: Any, created: Set[int]) -> Any:
    """Return the operation that does the work: the nearest producer of `operation` whose class is not in `_MOVING`.

    If the class of `operation` is not in `_MOVING`, `operation` itself is returned. It is also returned if a moving
    operation on the path to the producer does not have exactly one input. The same holds if the path has an operation
    whose id is not in `created`.
    """
    working = operation
    while type(working).__name__ in _MOVING:
        tensors = working._inbound_nodes[0].input_tensors
        if len(tensors) != 1 or id(tensors[0]._keras_history.operation) not in created:
            return operation
        working = tensors[0]._keras_history.operation
    return working


class Names:
    """Choose unique names for the layers and operations of one Keras model, and record the ONNX node of each."""

    def __init__(self) -> None:
        self.used_names: Set[str] = set()
        #: The named operations: id -> operation, which is kept so that its id is not used again.
        self.operations: Dict[int, Any] = {}
        #: The id of an operation -> the ONNX node that it computes for.
        self.owners: Dict[int, str] = {}
        #: A base name -> the last number that `fresh` has appended to it. Every number up to it is used.
        self._last: Dict[str, int] = {}
        self._main: Dict[str, Node] = {}
        self._reserved: Dict[str, str] = {}

    def add(self, operation: Any, node: Optional[Node]) -> None:
        """Record that `operation` has a name, and that its owner is the ONNX node of the recorded node `node`.

        The operation has no owner if `node` has the value None, or stems from no ONNX node.
        """
        self.operations[id(operation)] = operation
        if node is not None and node.origin is not None:
            self.owners[id(operation)] = node.origin.node

    def reserve(self, region: Region) -> None:
        """Reserve the name of each ONNX node of a region for the layer or operation that does its work.

        The reservations of an earlier region are dropped.
        """
        self._main = main_nodes(region)
        self._reserved = {name: self.fresh(name) for name in self._main}

    def of(self, node: Node, kind: str, auxiliary: bool = False) -> str:
        """Return an unused name for a layer or operation of a class, `kind`, that emits a recorded node.

        - The recorded node has no ONNX node: "values".
        - The recorded node does the work of its ONNX node: the reserved name of the ONNX node, at its first use.
        - Otherwise: the name of the ONNX node with the kind appended: "conv1_reshape".

        The kind is also appended for an `auxiliary` operation. It is appended for a kind in `_MOVING`, unless the
        primitive of the recorded node is in `MOVES`. A number makes a used name unique.
        """
        if node.origin is None:
            return self.fresh("values")
        name = node.origin.node
        if not auxiliary and (kind not in _MOVING or node.primitive in MOVES):
            reserved_name = self.take(node)
            if reserved_name is not None:
                return reserved_name
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower()
        return self.fresh("%s_%s" % (name.strip("/"), words))

    def take(self, node: Node) -> Optional[str]:
        """Return the reserved name of the ONNX node of `node`. The name is then no longer reserved.

        Returns None if `node` does not do the work of the ONNX node, or if the name was taken before.
        """
        if node.origin is None or self._main.get(node.origin.node) is not node:
            return None
        return self._reserved.pop(node.origin.node, None)

    def rename(self, node: Node, operation: Any, created: Set[int]) -> None:
        """Give the reserved name of the ONNX node to an operation of the recorded node `node`, if `take` returns it.

        `operation`: the last operation of the recorded node. `created`: the ids of all its operations.

        - The primitive of the node is in `MOVES`: `operation` gets the name.
        - Otherwise: the operation that does the work gets the name (see `_working`).
        """
        name = self.take(node)
        if name is not None:
            (operation if node.primitive in MOVES else _working(operation, created)).name = name

    def fresh(self, wanted: str, weighty: bool = True) -> str:
        """Reserve and return a unique layer name that is similar to `wanted`: "a/b" => "a_b"; "a_b_1" if "a_b" is used.

        Slashes at the ends, and "_" and "-" at the front, are removed. A run of characters other than ASCII letters,
        digits and `_.-` becomes one "_". An empty name becomes "values". The rule is that of TensorFlow's name scopes.

        `weighty`: the layer may have weights. Dots are then replaced too, because torch allows no dot in the name of a
        weight.
        """
        foreign = r"[^A-Za-z0-9_-]+" if weighty else r"[^A-Za-z0-9_.-]+"
        base = re.sub(foreign, "_", wanted.strip("/")).lstrip("_-") or "values"
        name = base
        while name in self.used_names:
            self._last[base] = self._last.get(base, 0) + 1
            name = "%s_%d" % (base, self._last[base])
        self.used_names.add(name)
        return name
