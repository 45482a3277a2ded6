"""Check that a file can declare the inputs of a model."""

from onnx_compat.errors import ConversionError
from onnx_compat.model import Graph, MapType, TensorType, ValueInfo
from onnx_compat.shim.interface import Shim

__all__ = ["OpenInputError", "check_inputs_definite"]


class OpenInputError(ConversionError):
    """A file cannot declare an input: its dtype or rank is unknown, or it is neither a dense tensor nor a map."""


def check_inputs_definite(graph: Graph, writer: Shim) -> None:
    """Raise OpenInputError for a required input that is neither a tensor of known dtype and rank nor a map."""
    for port in graph.required:
        if isinstance(port.type, TensorType):
            is_definite = port.type.dtype is not None and port.type.rank is not None
        else:
            is_definite = isinstance(port.type, MapType)
        if not is_definite:
            raise OpenInputError(
                "the input '%s' is %s, and a file needs a tensor of a known dtype and rank"
                % (port.name, port.type or "untyped"),
                hint=_shape_hint(port),
                shim=writer.name,
            )


def _shape_hint(port: ValueInfo) -> str:
    """Return the hint of an OpenInputError: give a shape, if the input is a tensor of known dtype; else declare it."""
    if isinstance(port.type, TensorType) and port.type.dtype is not None:
        return "give its shape with `shapes` (--shape %s=1,3,?,224; ? leaves a size open)" % port.name
    return "declare it as a tensor with a shape (its sizes may be open), or run the model without a file"
