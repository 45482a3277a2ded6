"""Convert ONNX names, which may contain any character, to unique names of Keras layers."""

import re
from typing import Any, Dict, Set

__all__ = ["Names"]


class Names:
    """The names that the layers and operations of a Keras model have already."""

    def __init__(self) -> None:
        self.used_names: Set[str] = set()
        #: The named operations: id -> operation, which is kept so that its id is not used again.
        self.operations: Dict[int, Any] = {}

    def fresh(self, wanted: str, weighty: bool = True) -> str:
        """Reserve and return a unique layer name that is similar to `wanted`: "a/b" => "a_b", or "a_b_1" if "a_b" is used.

        Slashes at the ends are removed. A run of characters other than ASCII letters, digits and `_.:-` becomes one
        "_". An empty name becomes "values".

        `weighty`: the layer may have weights. Dots are then replaced by "_", because torch allows no dot in the name of
        a weight.
        """
        foreign = r"[^A-Za-z0-9_:-]+" if weighty else r"[^A-Za-z0-9_.:-]+"
        base = re.sub(foreign, "_", wanted.strip("/")) or "values"
        name, count = base, 1
        while name in self.used_names:
            name, count = "%s_%d" % (base, count), count + 1
        self.used_names.add(name)
        return name
