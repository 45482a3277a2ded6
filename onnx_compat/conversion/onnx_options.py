"""The options of a conversion to ONNX, and their check. The module imports nothing of `retarget`: other formats use it."""

from typing import Any, List, Optional, Sequence

from onnx_compat.errors import ConversionError

__all__ = ["OnnxOptions", "check_onnx_options", "reject_onnx_options"]


class OnnxOptions:
    """The options of a conversion to ONNX. See `onnx_compat.convert`.

    Attributes:
        opset: The version of ai.onnx; None: that of the source.
        ir_version: The version of the file format; None: it follows from the opset.
        inline_functions: Whether the functions of the model are inlined.
        external_data: A file name for the weights, "safetensors" or "keep".
        simplify: Whether the model is simplified first.
        verify: Whether the result is run beside the source.
    """

    def __init__(
        self,
        opset: Optional[int] = None,
        ir_version: Optional[int] = None,
        inline_functions: bool = False,
        external_data: Optional[str] = None,
        simplify: bool = False,
        verify: bool = True,
    ) -> None:
        self.opset = opset
        self.ir_version = ir_version
        self.inline_functions = inline_functions
        self.external_data = external_data
        self.simplify = simplify
        self.verify = verify

    @property
    def given(self) -> List[str]:
        """The names of the options that differ from their defaults: other formats do not have them."""
        defaults = vars(OnnxOptions())
        return [name for name, value in vars(self).items() if value != defaults[name]]


def reject_onnx_options(given: Sequence[str], file_format: str) -> None:
    """Raise ConversionError if an option of .onnx files is given for another format."""
    if given:
        reason = "the option '%s' is for .onnx files, not for the format '%s'" % (given[0], file_format)
        raise ConversionError(reason, hint="leave it out, or write a path that ends in .onnx")


def check_onnx_options(bundled: bool, **framework_options: Any) -> None:
    """Raise ConversionError for an output that is `bundled`, or an option that an .onnx file does not have."""
    if bundled:
        raise ConversionError("an .onnx file holds every model: there is no bundle of it", hint="leave the .zip out")
    given = [name for name, value in framework_options.items() if value not in (None, False, ()) and value != []]
    if given:
        reason = "the option '%s' is for files of frameworks, not for .onnx files" % given[0]
        raise ConversionError(reason, hint="leave it out")
