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
    """Return the operation, or, while it is one of `_MOVING`, the operation that computes its only tensor.

    Returns the given operation if this leads to an operation that is not in `created`.
    """
    working = operation
    while type(working).__name__ in _MOVING:
        tensors = working._inbound_nodes[0].input_tensors
        if len(tensors) != 1 or id(tensors[0]._keras_history.operation) not in created:
            return operation
        working = tensors[0]._keras_history.operation
    return working


class Names:
    """The names that the layers and operations of a Keras model have already."""

    def __init__(self) -> None:
        self.used_names: Set[str] = set()
        #: The named operations: id -> operation, which is kept so that its id is not used again.
        self.operations: Dict[int, Any] = {}
        self._main: Dict[str, Node] = {}
        self._reserved: Dict[str, str] = {}

    def reserve(self, region: Region) -> None:
        """Reserve the name of each ONNX node of a region for the layer or operation that does its work."""
        self._main = main_nodes(region)
        self._reserved = {name: self.fresh(name) for name in self._main}

    def of(self, node: Node, kind: str, auxiliary: bool = False) -> str:
        """Return an unused name for a layer or operation of a class, `kind`, that emits a recorded node.

        It is the name of the ONNX node, if the recorded node does its work and the name is still free. Otherwise the kind
        is appended. That holds too for an `auxiliary` operation, and for a kind in `_MOVING` that does not do the work.
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
        """Return the reserved name of the ONNX node of `node`, once. Returns None if `node` does not do its work."""
        if node.origin is None or self._main.get(node.origin.node) is not node:
            return None
        return self._reserved.pop(node.origin.node, None)

    def rename(self, node: Node, operation: Any, created: Set[int]) -> None:
        """Give `operation`, the last one of a recorded node, the reserved name of the ONNX node, if it is still free.

        If the operation moves elements only, the operation before it that does not gets the name. `created`: the ids of
        the operations of the recorded node.
        """
        name = self.take(node)
        if name is not None:
            (operation if node.primitive in MOVES else _working(operation, created)).name = name

    def fresh(self, wanted: str, weighty: bool = True) -> str:
        """Reserve and return a unique layer name that is similar to `wanted`: "a/b" => "a_b", or "a_b_1" if "a_b" is used.

        Slashes at the ends, and "_" and "-" at the front, are removed. A run of characters other than ASCII letters,
        digits and `_.-` becomes one "_". An empty name becomes "values". The rule is that of TensorFlow's name scopes.

        `weighty`: the layer may have weights. Dots are then replaced by "_", because torch allows no dot in the name of
        a weight.
        """
        foreign = r"[^A-Za-z0-9_-]+" if weighty else r"[^A-Za-z0-9_.-]+"
        base = re.sub(foreign, "_", wanted.strip("/")).lstrip("_-") or "values"
        name, count = base, 1
        while name in self.used_names:
            name, count = "%s_%d" % (base, count), count + 1
        self.used_names.add(name)
        return name
