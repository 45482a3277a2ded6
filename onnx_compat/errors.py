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
    "TargetError",
    "UnsupportedError",
    "VerificationError",
]


class OnnxCompatError(Exception):
    """The base class of all errors of this library.

    Attributes:
        reason: What is wrong.
        hint: What to do about it, or None.
        node: The name of the node where it happened, or None.
        operator: The operator of the node, or None.
        opset: The version of the operator set, or None.
        shim: The name of the shim, or None.

    Examples:
        >>> try:
        ...     onnx_compat.run("digits.onnx", [np.zeros((28, 28), np.float32)], shim="reference")
        ... except onnx_compat.OnnxCompatError as error:
        ...     print(error.reason)
        the input 'image' has rank 2 (shape [28, 28]), the model takes rank 4: float32[batch, 1, 28, 28]
    """

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
    """The file or the graph is not a valid ONNX model: truncated, a cycle, a missing initializer, a bad path.

    Examples:
        >>> onnx_compat.load(b"not a model")
        Traceback (most recent call last):
        ...
        onnx_compat.errors.InvalidModelError: ...
    """


class UnsupportedError(OnnxCompatError):
    """The model is valid, and this shim or this version of the library cannot express a part of it.

    Examples:
        >>> from onnx import helper
        >>> ports = [helper.make_tensor_value_info(name, 1, ["n"]) for name in "xy"]
        >>> node = helper.make_node("Unknown", ["x"], ["y"], domain="no.domain")
        >>> graph = helper.make_graph([node], "g", ports[:1], ports[1:])
        >>> model = helper.make_model(graph, opset_imports=[helper.make_opsetid("no.domain", 1)], ir_version=8)
        >>> onnx_compat.prepare(model, shim="reference").run([np.zeros(2, np.float32)])
        Traceback (most recent call last):
        ...
        onnx_compat.errors.UnsupportedError: ...
    """


class NeedsKnownError(UnsupportedError):
    """A meaning needs a value that is known only at run time. The library catches it and specialises the trace.

    Examples:
        >>> from onnx_compat.errors import NeedsKnownError
        >>> NeedsKnownError("the axes must be known").values
        set()
    """

    def __init__(self, reason: str, value: Any = None, **where: Any) -> None:
        super().__init__(reason, **where)
        self.value = value
        #: The graph inputs that the value comes from: through their values, and through their sizes.
        self.values: Set[str] = set()
        self.sizes: Set[str] = set()


class InputError(OnnxCompatError, ValueError):
    """An input or an argument does not fit the model: a name, a dtype, a rank or a size. It is a ValueError too.

    Examples:
        >>> onnx_compat.run("digits.onnx", {"picture": np.zeros((1, 1, 28, 28), np.float32)}, shim="reference")
        Traceback (most recent call last):
        ...
        onnx_compat.errors.InputError: ...
    """


class ShimError(OnnxCompatError):
    """No shim fits, or the shim that was asked for does not work here.

    Examples:
        >>> onnx_compat.prepare("digits.onnx", shim="no-such-shim")
        Traceback (most recent call last):
        ...
        onnx_compat.errors.ShimError: ...
    """


class TargetError(ShimError):
    """A program was recorded for another target (layout, filter layout, integers) than that of the emitter.

    Examples:
        >>> from onnx_compat.errors import ShimError, TargetError
        >>> isinstance(TargetError("the program was recorded for channels_last"), ShimError)
        True
    """


class VerificationError(OnnxCompatError):
    """The verifier found a defect in a program or in a target graph: a defect of this library, never of the model.

    Examples:
        >>> from onnx_compat.errors import VerificationError
        >>> print(VerificationError("%3 is read before it is computed"))
        %3 is read before it is computed
    """


class ConversionError(OnnxCompatError):
    """The model cannot be written in the format that was asked for.

    Examples:
        >>> onnx_compat.convert("digits.onnx", "digits.unknown")
        Traceback (most recent call last):
        ...
        onnx_compat.errors.ConversionError: ...
    """


class MissingDependencyError(OnnxCompatError, ImportError):
    """An optional package is needed. It is an ImportError too.

    Examples:
        >>> from onnx_compat.errors import MissingDependencyError
        >>> print(MissingDependencyError("Pillow is needed", hint="pip install 'onnx-compat[images]'"))
        Pillow is needed
          to do: pip install 'onnx-compat[images]'
    """
