"""The outputs of a run: a list that is also indexed by name."""

from typing import Any, Dict, List, Sequence

__all__ = ["Outputs"]

#: An index, a slice or the name of an output. typing.SupportsIndex, which list takes, is newer than Python 3.7.
OutputKey = Any


class Outputs(List[Any]):
    """A list of outputs in the order of the graph, which is also indexed by name. An unknown name raises KeyError.

    Attributes:
        names: The names of the outputs.

    Examples:
        >>> outputs = onnx_compat.run("digits.onnx", [np.zeros((1, 1, 28, 28), np.float32)], shim="reference")
        >>> outputs["scores"] is outputs[0], outputs.names
        (True, ('scores',))
    """

    def __init__(self, values: Sequence[Any], names: Sequence[str]) -> None:
        super().__init__(values)
        self.names = tuple(names)

    def __getitem__(self, key: OutputKey) -> Any:
        if isinstance(key, str):
            if key not in self.names:
                raise KeyError("there is no output '%s'; the outputs are %s" % (key, list(self.names)))
            return super().__getitem__(self.names.index(key))
        return super().__getitem__(key)

    def as_dict(self) -> Dict[str, Any]:
        """Return output name -> value as a dict."""
        return dict(zip(self.names, self))
