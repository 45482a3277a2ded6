"""Every error that this library raises on purpose.

A message answers four questions, in this order: what happened, where (node, operator, opset, shim), why, and what to
do about it. `OnnxCompatError` carries them as fields, so a program can read them and a person gets one plain text.
"""

from typing import Any, Optional, Set

__all__ = [
    "ConversionError",
    "InputError",
    "InvalidModelError",
    "MissingDependencyError",
    "NeedsKnownError",
    "OnnxCompatError",
    "ShimError",
    "UnsupportedError",
]


class OnnxCompatError(Exception):
    """The base of all. `reason` says what is wrong, `hint` what to do; the rest says where."""

    def __init__(
        self,
        reason: str,
        *,
        hint: Optional[str] = None,
        node: Optional[str] = None,
        operator: Optional[str] = None,
        opset: Optional[int] = None,
        shim: Optional[str] = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.node = node
        self.operator = operator
        self.opset = opset
        self.shim = shim

    def at(self, **where: Any) -> "OnnxCompatError":
        """Fill in the places that the raiser did not know; what is already said stays."""
        for field, value in where.items():
            if getattr(self, field) is None:
                setattr(self, field, value)
        return self

    def __str__(self) -> str:
        where = []
        if self.operator:
            where.append("operator %s%s" % (self.operator, "" if self.opset is None else " (opset %d)" % self.opset))
        if self.node:
            where.append("node '%s'" % self.node)
        if self.shim:
            where.append("shim %s" % self.shim)
        text = self.reason
        if where:
            text += "\n  where: " + ", ".join(where)
        if self.hint:
            text += "\n  to do: " + self.hint
        return text


class InvalidModelError(OnnxCompatError):
    """The file or the graph is not a valid ONNX model (truncated, a cycle, a missing initializer, a bad path …)."""


class UnsupportedError(OnnxCompatError):
    """A valid thing that this shim, or this version of the library, cannot express."""


class NeedsKnownError(UnsupportedError):
    """An operator needs a value at trace time that is only known at run time. The tracer specialises on it."""

    def __init__(self, reason: str, value: Any = None, **where: Any) -> None:
        super().__init__(reason, **where)
        self.value = value
        #: The graph inputs that the value comes from: through their values, and through their sizes.
        self.values: Set[str] = set()
        self.sizes: Set[str] = set()


class InputError(OnnxCompatError, ValueError):
    """What the caller fed does not fit the model: a name, a dtype, a rank or a size."""


class ShimError(OnnxCompatError):
    """No shim fits, or the one that was asked for does not work here."""


class ConversionError(OnnxCompatError):
    """A model could not be written in the format that was asked for."""


class MissingDependencyError(OnnxCompatError, ImportError):
    """An optional package is needed for what was asked."""
