"""ONNX names, which may hold anything, as names of Keras layers, of which no two are the same."""

import re
from typing import Any, Dict, Set

__all__ = ["Names"]


class Names:
    """The names of one model."""

    def __init__(self) -> None:
        self.taken: Set[str] = set()
        #: The operations that have their name: id -> operation (kept, so that no id is used twice).
        self.given: Dict[int, Any] = {}

    def fresh(self, wanted: str, weighty: bool = True) -> str:
        """The nearest name that Keras takes and that is still free. On torch a name of weights has no dots in it."""
        foreign = r"[^A-Za-z0-9_:-]+" if weighty else r"[^A-Za-z0-9_.:-]+"
        base = re.sub(foreign, "_", wanted.strip("/")) or "values"
        name, count = base, 1
        while name in self.taken:
            name, count = "%s_%d" % (base, count), count + 1
        self.taken.add(name)
        return name
