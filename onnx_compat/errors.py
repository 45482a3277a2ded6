"""The errors that this library raises on purpose.

A message says what is wrong, where (node, operator, opset, shim), and what to do. `OnnxCompatError` holds these parts as
fields for programs; `str(error)` joins them for users, with control characters escaped.
"""

from typing import TYPE_CHECKING, Any, Dict, Optional, Set, Union

from onnx_compat.escaping import printable

if TYPE_CHECKING:
    from onnx_compat.tracing.values import Tensor

__all__ = [
    "ConversionError",
    "InputError",
    "InvalidModelError",
    "LimitError",
    "MissingDependencyError",
    "NeedsKnownError",
    "NonFiniteError",
    "OnnxCompatError",
    "ShimError",
    "TargetError",
    "UnexpectedError",
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

    def at(self, **where: Union[str, int, None]) -> "OnnxCompatError":
        """Set the named fields (`node`, `operator`, `opset`, `shim`) that are still None, in place. Return this error."""
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
            text += "\n  hint: " + self.hint
        return printable(text)


class InvalidModelError(OnnxCompatError):
    """The file or the graph is not a valid ONNX model: truncated, a cycle, a missing initializer, a bad path.

    A damaged bundle or converted file raises it too.

    Examples:
        >>> onnx_compat.load(b"not a model")
        Traceback (most recent call last):
        ...
        onnx_compat.errors.InvalidModelError: ...
    """


class UnsupportedError(OnnxCompatError):
    """A part of a valid model cannot be expressed by this shim, or by this version of the library.

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

    def __init__(self, reason: str, **where: Any) -> None:
        super().__init__(reason, **where)
        #: Errors of other nodes that the same attempt found: name of the node -> error.
        self.other_errors: Dict[str, OnnxCompatError] = {}


class LimitError(OnnxCompatError):
    """A model would cost more than a limit allows: elements, nodes, messages, states. See `onnx_compat.limits`.

    `limit` is the name of the limit. No fallback takes over: the model as a whole is refused.

    Examples:
        >>> from onnx_compat import limits
        >>> with limits.override(messages=1):
        ...     onnx_compat.load("digits.onnx")
        Traceback (most recent call last):
        ...
        onnx_compat.errors.LimitError: ...
    """

    def __init__(self, reason: str, *, limit: str = "", **where: Any) -> None:
        super().__init__(reason, **where)
        self.limit = limit


class NeedsKnownError(UnsupportedError):
    """The meaning of an operator needs a value that is known only at run time.

    A `Runnable` catches this error. If it can, it traces the model again, with the inputs in `values` as constants and
    the inputs in `sizes` with fixed shapes. The fields:

    - value: the tensor that must be known; None if it was not named.
    - values: the names of graph inputs whose elements `value` depends on. Empty until `trace_model` sets it.
    - sizes: the names of graph inputs whose sizes `value` depends on. Empty until `trace_model` sets it.

    Examples:
        >>> from onnx_compat.errors import NeedsKnownError
        >>> NeedsKnownError("the axes must be known").values
        set()
    """

    def __init__(self, reason: str, value: "Optional[Tensor]" = None, **where: Any) -> None:
        super().__init__(reason, **where)
        #: The tensor whose elements must be known; None if the raiser named no tensor.
        self.value = value
        #: The graph inputs whose values the value depends on.
        self.values: Set[str] = set()
        #: The graph inputs whose sizes the value depends on.
        self.sizes: Set[str] = set()


class InputError(OnnxCompatError, ValueError):
    """An input or an argument does not fit the model: a name, a dtype, a rank or a size. It is a ValueError too.

    A path that cannot be read, or may not be written, raises it too.

    Examples:
        >>> onnx_compat.run("digits.onnx", {"picture": np.zeros((1, 1, 28, 28), np.float32)}, shim="reference")
        Traceback (most recent call last):
        ...
        onnx_compat.errors.InputError: ...
    """


class ShimError(OnnxCompatError):
    """No installed shim can run the model, or read or write the file; or the requested shim or device does not work.

    Examples:
        >>> onnx_compat.prepare("digits.onnx", shim="no-such-shim")
        Traceback (most recent call last):
        ...
        onnx_compat.errors.ShimError: ...
    """


class TargetError(ShimError):
    """A program was recorded for another target (layout, filter layout, integers) than that of the emitter that emits
    it.

    Examples:
        >>> from onnx_compat.errors import ShimError, TargetError
        >>> isinstance(TargetError("the program was recorded for channels_last"), ShimError)
        True
    """


class VerificationError(OnnxCompatError):
    """The verifier found a defect in a program or in a target graph, or a pass failed. The defect is in this library, not
    in the model.

    Examples:
        >>> from onnx_compat.errors import VerificationError
        >>> print(VerificationError("%3 is read before it is computed"))
        %3 is read before it is computed
    """


class ConversionError(OnnxCompatError):
    """The model cannot be written in the requested format, or with the given options.

    Examples:
        >>> onnx_compat.convert("digits.onnx", "digits.unknown")
        Traceback (most recent call last):
        ...
        onnx_compat.errors.ConversionError: ...
    """


class NonFiniteError(OnnxCompatError):
    """A result or a state of a training is NaN or infinite.

    Examples:
        >>> from onnx_compat.errors import NonFiniteError
        >>> print(NonFiniteError("the result 'loss' is not finite"))
        the result 'loss' is not finite
    """


class UnexpectedError(OnnxCompatError):
    """An error that this library did not foresee: of a framework, of a custom operator, or a defect of this library.

    `__cause__` is the original exception, with its traceback. Invalid models are a frequent cause.

    Examples:
        >>> from onnx_compat.errors import UnexpectedError
        >>> print(UnexpectedError("ValueError: no such axis", node="stem"))
        ValueError: no such axis
          where: node 'stem'
    """


class MissingDependencyError(OnnxCompatError, ImportError):
    """An optional package is not installed. It is an ImportError too.

    Examples:
        >>> from onnx_compat.errors import MissingDependencyError
        >>> print(MissingDependencyError("Pillow is needed", hint="pip install 'onnx-compat[images]'"))
        Pillow is needed
          hint: pip install 'onnx-compat[images]'
    """
